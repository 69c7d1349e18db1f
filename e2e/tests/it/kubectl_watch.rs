//! `kubectl get --watch`: what is printed as things change.

use windlass_e2e::Server;

use crate::objects::{config, create, pod};

#[test]
fn a_watch_prints_what_is_there_and_then_every_change() {
    let server = Server::start();
    create(&server, &config("early"));
    let mut watch = server.kubectl("get cm -w --output-watch-events").spawn();
    watch.line_with("early");
    create(&server, &config("late"));
    assert!(watch.line_with("late").starts_with("ADDED"), "{}", watch.seen());
    server.kubectl(r#"patch cm late -p '{"data":{"more":"x"}}'"#).ok();
    let changed = watch.line_with("late");
    assert_eq!(changed.split_whitespace().take(3).collect::<Vec<_>>(), ["MODIFIED", "late", "2"]);
    server.kubectl("delete cm late").ok();
    assert!(watch.line_with("late").starts_with("DELETED"), "{}", watch.seen());
}

#[test]
fn watch_only_leaves_out_what_is_there() {
    let server = Server::start();
    create(&server, &config("early"));
    let mut watch = server.kubectl("get cm --watch-only").spawn();
    // Nothing says that the watch has begun; so there are changes until one is seen.
    let mut n_changes = 0;
    windlass_e2e::eventually(|| {
        n_changes += 1;
        server.kubectl(&format!("annotate --overwrite cm early change={n_changes}")).ok();
        watch.next_line().ok_or_else(|| "no change was printed".to_owned())
    });
    create(&server, &config("late"));
    watch.line_with("late");
    let early = watch.seen().lines().filter(|line| line.contains("early")).count();
    assert!(early <= n_changes, "{n_changes} changes, and {}", watch.seen());
}

#[test]
fn a_watch_with_a_selector_sees_objects_enter_and_leave() {
    let server = Server::start();
    create(&server, &pod("chosen", "in"));
    create(&server, &pod("other", "out"));
    let mut watch = server.kubectl("get pods -l app=in -w --output-watch-events").spawn();
    watch.line_with("chosen");
    server.kubectl("label --overwrite pod other app=in").ok();
    assert!(watch.line_with("other").starts_with("ADDED"), "{}", watch.seen());
    server.kubectl("label --overwrite pod chosen app=out").ok();
    assert!(watch.line_with("chosen").starts_with("DELETED"), "{}", watch.seen());
}

#[test]
fn a_watch_of_one_object_prints_it_in_the_chosen_format() {
    let server = Server::start();
    create(&server, &config("settings"));
    let path = "'{.metadata.name}={.data.key}{\"\\n\"}'";
    let mut watch = server.kubectl(&format!("get cm settings -w -o jsonpath={path}")).spawn();
    watch.line_with("settings=value");
    server.kubectl(r#"patch cm settings -p '{"data":{"key":"new"}}'"#).ok();
    watch.line_with("settings=new");
}

#[test]
fn a_watch_of_all_namespaces_says_which() {
    let server = Server::start();
    let mut watch = server.kubectl("get pods -A -w").spawn();
    create(&server, &pod("one", "a"));
    let line = watch.line_with("one");
    assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>(), ["default", "one"]);
}
