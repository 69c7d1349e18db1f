//! Rules from a directory.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
};

use crate::{
    sdk::Sdk,
    world::{Running, eventually},
};

const LIMIT: &str = "RateLimitStrategy";

fn limit(name: &str, threshold: &str) -> String {
    format!(
        "apiVersion: fault-tolerance.opensergo.io/v1alpha1\nkind: {LIMIT}\nmetadata: {{name: {name}, labels: {{app: shop}}}}\n\
         spec: {{metricType: RequestAmount, limitMode: Local, threshold: {threshold}, statDurationSeconds: 1}}\n"
    )
}

/// Writes a file as a whole, as everyone should who is watched.
fn write(folder: &Path, name: &str, text: &str) {
    let new = folder.join(format!("{name}.new"));
    fs::write(&new, text).expect("written");
    fs::rename(new, folder.join(name)).expect("renamed");
}

#[tokio::test]
async fn files_come_change_break_and_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let running = Running::on_directory(folder.path().to_owned()).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert_eq!(client.accept().await.len(), 0);
    write(folder.path(), "a.yaml", &limit("a", "1"));
    assert!(client.accept().await.is(&[("a", 1)]));
    write(folder.path(), "b.yml", &format!("{}---\n{}", limit("b", "2"), limit("c", "3")));
    assert!(client.accept().await.is(&[("a", 1), ("b", 2), ("c", 3)]));
    write(folder.path(), "notes.txt", &limit("d", "4"));
    write(folder.path(), "._a.yaml", "what some systems leave beside files");
    write(folder.path(), "a.yaml", &limit("a", "10"));
    assert!(client.accept().await.is(&[("a", 10), ("b", 2), ("c", 3)]), "and other files do not count");
    let trouble = || running.view().kinds[0].trouble.clone();
    assert_eq!(trouble(), None);
    // What makes no sense at all, what is of no kind, and what cannot be translated.
    let untranslatable = limit("b", "many");
    for (broken, why) in
        [("{", ""), ("apiVersion: v1\nkind: Pod\n", "Pod"), (&untranslatable, "spec.threshold")]
    {
        write(folder.path(), "b.yml", broken);
        let is_it = |text: String| text.contains("b.yml") && text.contains(why);
        eventually("somebody says so", async || trouble().is_some_and(is_it)).await;
    }
    write(folder.path(), "a.yaml", &limit("a", "11"));
    assert!(client.accept().await.is(&[("a", 11), ("b", 2), ("c", 3)]), "what it said before stays");
    write(folder.path(), "b.yml", &limit("b", "2"));
    assert!(client.accept().await.is(&[("a", 11), ("b", 2)]), "c is gone");
    eventually("all is well", async || trouble().is_none()).await;
    fs::remove_file(folder.path().join("b.yml")).expect("removed");
    assert!(client.accept().await.is(&[("a", 11)]));
    fs::remove_file(folder.path().join("a.yaml")).expect("removed");
    assert_eq!(client.accept().await.len(), 0);
}

#[tokio::test]
async fn versions_of_files_go_on_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.yaml", &limit("a", "1"));
    let running = Running::on_directory(folder.path().to_owned()).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 1)]));
    running.stop().await;
    fs::remove_file(folder.path().join("a.yaml")).expect("removed");
    let running = Running::on_directory(folder.path().to_owned()).await;
    client.move_to(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert_eq!(client.accept().await.len(), 0);
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules");
    fs::create_dir(&path).expect("a folder");
    write(&path, "a.yaml", &limit("a", "1"));
    let running = Running::on_directory(path.clone()).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 1)]));
    fs::rename(&path, folder.path().join("away")).expect("renamed");
    eventually("somebody says so", async || running.view().kinds[0].trouble.is_some()).await;
    client.hears_nothing().await;
    fs::rename(folder.path().join("away"), &path).expect("renamed");
    write(&path, "a.yaml", &limit("a", "2"));
    assert!(client.accept().await.is(&[("a", 2)]));
}

#[tokio::test]
async fn nothing_is_told_before_every_file_could_be_read() {
    for broken in ["{", &limit("b", "many")] {
        is_told_nothing_until_mended(broken).await;
    }
}

async fn is_told_nothing_until_mended(broken: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.yaml", &limit("a", "1"));
    write(folder.path(), "b.yaml", broken);
    let running = Running::on_directory(folder.path().to_owned()).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    let kind = || running.view().kinds.remove(0);
    eventually("somebody says so", async || kind().trouble.is_some_and(|text| text.contains("b.yaml"))).await;
    client.hears_nothing().await;
    assert!(!kind().synced);
    write(folder.path(), "b.yaml", &limit("b", "2"));
    assert!(client.accept().await.is(&[("a", 1), ("b", 2)]));
    assert!(kind().synced);
    eventually("all is well", async || kind().trouble.is_none()).await;
}

#[tokio::test]
async fn a_link_in_a_circle_keeps_the_rules_and_one_to_nothing_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = |to: &str| {
        let new = folder.path().join("link.new");
        symlink(to, &new).expect("a link");
        fs::rename(new, folder.path().join("a.yaml")).expect("renamed");
    };
    write(folder.path(), "elsewhere", &limit("a", "1"));
    link("elsewhere");
    let running = Running::on_directory(folder.path().to_owned()).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 1)]));
    let trouble = || running.view().kinds[0].trouble.clone();
    link("a.yaml");
    eventually("somebody says so", async || trouble().is_some_and(|text| text.contains("a.yaml"))).await;
    client.hears_nothing().await;
    link("nowhere");
    assert_eq!(client.accept().await.len(), 0);
    eventually("all is well", async || trouble().is_none()).await;
}

#[tokio::test]
async fn a_file_of_the_same_size_and_time_is_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.yaml");
    write(folder.path(), "a.yaml", &limit("a", "1"));
    let before = fs::metadata(&path).expect("it is there");
    let time = before.modified().expect("a time");
    let running = Running::on_directory(folder.path().to_owned()).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 1)]));
    // Written over what is there, then put in its place.
    for (threshold, name) in [(2, "a.yaml"), (3, "other")] {
        let other = folder.path().join(name);
        fs::write(&other, limit("a", &threshold.to_string())).expect("written");
        let file = File::options().write(true).open(&other).expect("it is there");
        file.set_modified(time).expect("it was set back");
        fs::rename(&other, &path).expect("renamed");
        let after = fs::metadata(&path).expect("it is there");
        assert_eq!((after.len(), after.modified().ok()), (before.len(), Some(time)));
        assert!(client.accept().await.is(&[("a", threshold)]));
    }
}

#[tokio::test]
async fn what_a_rule_names_and_is_not_there_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let rule = "apiVersion: fault-tolerance.opensergo.io/v1alpha1\nkind: FaultToleranceRule\n\
        metadata: {name: r, labels: {app: shop}}\n\
        spec: {targets: [{targetResourceName: /a}], strategies: [{name: a, kind: RateLimitStrategy}]}\n";
    write(folder.path(), "r.yaml", rule);
    let running = Running::on_directory(folder.path().to_owned()).await;
    let trouble = || running.view().kinds[0].trouble.clone();
    let is_it =
        |text: String| text.contains("default/r") && text.contains("RateLimitStrategy a is not among");
    eventually("somebody says so", async || trouble().is_some_and(is_it)).await;
    write(folder.path(), "a.yaml", &limit("a", "1"));
    eventually("all is well", async || trouble().is_none()).await;
}

#[tokio::test]
async fn of_a_rule_in_two_files_the_first_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "b.yaml", &limit("a", "2"));
    let running = Running::on_directory(folder.path().to_owned()).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 2)]));
    let trouble = || running.view().kinds[0].trouble.clone();
    write(folder.path(), "a.yaml", &limit("a", "1"));
    assert!(client.accept().await.is(&[("a", 1)]), "whichever came first");
    eventually("somebody says so", async || {
        trouble().is_some_and(|text| text.contains("b.yaml: ") && text.ends_with("a.yaml already"))
    })
    .await;
    fs::remove_file(folder.path().join("a.yaml")).expect("removed");
    assert!(client.accept().await.is(&[("a", 2)]));
    eventually("all is well", async || trouble().is_none()).await;
}
