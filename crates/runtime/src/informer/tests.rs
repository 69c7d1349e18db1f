//! Informers on streams that a test feeds.

use std::collections::BTreeMap;

use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Status;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use watcher::Event;

use super::*;

type Sender = UnboundedSender<watcher::Result<Event<ConfigMap>>>;

/// An object, as `name@revision`, with the revision as its only datum.
fn map(name: &str, revision: u64) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some(name.to_owned());
    map.metadata.uid = Some(format!("uid-{name}"));
    map.metadata.resource_version = Some(revision.to_string());
    map.data = Some(BTreeMap::from([(
        "colour".to_owned(),
        if revision.is_multiple_of(2) { "red" } else { "blue" }.to_owned(),
    )]));
    map
}

fn key(name: &str) -> Key {
    Key::new("default", name)
}

fn informer() -> (Informer<ConfigMap>, Sender) {
    let (tx, rx) = unbounded_channel();
    let stream = stream::unfold(rx, |mut rx| async move { Some((rx.recv().await?, rx)) });
    (Informer::follow(stream, None), tx)
}

fn list(tx: &Sender, objects: &[(&str, u64)]) {
    tx.send(Ok(Event::Init)).expect("it listens");
    for (name, revision) in objects {
        tx.send(Ok(Event::InitApply(map(name, *revision)))).expect("it listens");
    }
    tx.send(Ok(Event::InitDone)).expect("it listens");
}

fn apply(tx: &Sender, name: &str, revision: u64) {
    tx.send(Ok(Event::Apply(map(name, revision)))).expect("it listens");
}

fn delete(tx: &Sender, name: &str, revision: u64) {
    tx.send(Ok(Event::Delete(map(name, revision)))).expect("it listens");
}

fn fails(tx: &Sender, code: u16) {
    let status = Status { code, ..Status::failure("no", "Reason") };
    let error = kube::Error::Api(Box::new(status));
    tx.send(Err(watcher::Error::InitialListFailed(error))).expect("it listens");
}

fn shown(change: &Change<ConfigMap>) -> String {
    let text = |map: &ConfigMap| {
        let meta = &map.metadata;
        format!("{}@{}", meta.name.as_deref().unwrap_or(""), meta.resource_version.as_deref().unwrap_or(""))
    };
    match change {
        Change::Added { object, initial } => format!("+{}{}", text(object), if *initial { "!" } else { "" }),
        Change::Updated { old, new } => format!("{}>{}", text(old), text(new)),
        Change::Deleted(object) => format!("-{}", text(object)),
    }
}

async fn hears(subscription: &mut Subscription<ConfigMap>, n: usize) -> Vec<String> {
    let mut all = vec![];
    for _ in 0..n {
        let change = tokio::time::timeout(Duration::from_secs(5), subscription.next()).await;
        all.push(shown(&change.expect("in time").expect("it goes on")));
    }
    all
}

/// Whether there is nothing to hear, once everything that was sent has been taken up.
async fn hears_nothing(subscription: &mut Subscription<ConfigMap>) -> bool {
    tokio::time::timeout(Duration::from_millis(50), subscription.next()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn listeners_hear_what_is_there_and_what_becomes_of_it() {
    let (informer, tx) = informer();
    assert_eq!(informer.reach(), Reach::Starting);
    let mut early = informer.subscribe();
    list(&tx, &[("a", 1), ("b", 2)]);
    informer.synced().await;
    assert_eq!(hears(&mut early, 2).await, ["+a@1!", "+b@2!"]);
    apply(&tx, "a", 3);
    delete(&tx, "b", 4);
    apply(&tx, "c", 5);
    assert_eq!(hears(&mut early, 3).await, ["a@1>a@3", "-b@2", "+c@5"]);
    let mut late = informer.subscribe();
    let mut both = hears(&mut late, 2).await;
    both.sort();
    assert_eq!(both, ["+a@3!", "+c@5!"]);
    assert_eq!(informer.cache().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_new_list_no_longer_has_was_deleted_and_what_is_the_same_is_not_told() {
    let (informer, tx) = informer();
    let mut heard = informer.subscribe();
    list(&tx, &[("a", 1), ("b", 2), ("c", 3)]);
    hears(&mut heard, 3).await;
    list(&tx, &[("a", 1), ("c", 5), ("d", 6)]);
    let mut told = hears(&mut heard, 3).await;
    told.sort();
    assert_eq!(told, ["+d@6", "-b@2", "c@3>c@5"]);
    apply(&tx, "c", 5);
    assert!(hears_nothing(&mut heard).await);
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_older_revisions_are_what_is() {
    let (informer, tx) = informer();
    let mut heard = informer.subscribe();
    list(&tx, &[("a", 100), ("b", 101)]);
    hears(&mut heard, 2).await;
    list(&tx, &[("a", 7), ("b", 8)]);
    assert_eq!(hears(&mut heard, 2).await, ["a@100>a@7", "b@101>b@8"]);
    let mut odd = map("a", 0);
    for revision in ["v1", "v0"] {
        odd.metadata.resource_version = Some(revision.to_owned());
        tx.send(Ok(Event::Apply(odd.clone()))).expect("it listens");
        hears(&mut heard, 1).await;
    }
    assert_eq!(informer.cache().get(&key("a")).as_deref(), Some(&odd));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_made_anew_unseen_was_deleted_first() {
    let (informer, tx) = informer();
    let mut heard = informer.subscribe();
    list(&tx, &[("a", 1)]);
    hears(&mut heard, 1).await;
    let mut other = map("a", 9);
    other.metadata.uid = Some("another".to_owned());
    tx.send(Ok(Event::Apply(other))).expect("it listens");
    assert_eq!(hears(&mut heard, 2).await, ["-a@1", "+a@9"]);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_does_not_listen_delays_nobody_and_takes_one_entry_for_each_object() {
    let (informer, tx) = informer();
    let (mut quick, slow) = (informer.subscribe(), informer.subscribe());
    list(&tx, &[("a", 1)]);
    hears(&mut quick, 1).await;
    for revision in 2..1000 {
        apply(&tx, "a", revision);
        assert_eq!(hears(&mut quick, 1).await, [format!("a@{}>a@{revision}", revision - 1)]);
    }
    assert_eq!(slow.unread.len(), 1);
    let mut slow = slow;
    assert_eq!(hears(&mut slow, 1).await, ["+a@999!"]);
}

#[tokio::test(start_paused = true)]
async fn indexes_follow_the_objects_whenever_they_were_added() {
    let (informer, tx) = informer();
    let colour =
        |map: &ConfigMap| map.data.iter().flatten().map(|(_, colour)| colour.clone()).collect::<Vec<_>>();
    let names = |found: Vec<Arc<ConfigMap>>| {
        let mut names: Vec<String> = found.iter().filter_map(|map| map.metadata.name.clone()).collect();
        names.sort();
        names
    };
    let cache = informer.cache().clone();
    cache.add_index("early", colour);
    list(&tx, &[("a", 1), ("b", 2), ("c", 4)]);
    informer.synced().await;
    cache.add_index("late", colour);
    for index in ["early", "late"] {
        assert_eq!(names(cache.by_index(index, "red")), ["b", "c"]);
        assert_eq!(names(cache.by_index(index, "blue")), ["a"]);
    }
    apply(&tx, "b", 5);
    delete(&tx, "a", 6);
    cache.wait_for("6", Duration::from_secs(5)).await.expect("seen");
    for index in ["early", "late"] {
        assert_eq!(names(cache.by_index(index, "red")), ["c"]);
        assert_eq!(names(cache.by_index(index, "blue")), ["b"]);
    }
    assert!(cache.by_index("none", "red").is_empty());
    assert_eq!(cache.index_values("early").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_can_wait_for_ones_own_write() {
    let (informer, tx) = informer();
    list(&tx, &[("a", 1)]);
    informer.synced().await;
    let cache = informer.cache().clone();
    let waiting = tokio::spawn({
        let cache = cache.clone();
        async move {
            cache.wait_for("7", Duration::from_secs(60)).await.expect("seen");
            cache.get(&key("a")).and_then(|map| map.metadata.resource_version.clone())
        }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    apply(&tx, "a", 7);
    assert_eq!(waiting.await.expect("no panic").as_deref(), Some("7"));
    let late = cache.wait_for("8", Duration::from_secs(1)).await;
    assert_eq!(late, Err(NotSeen { wanted: 8, seen: 7, within: Duration::from_secs(1) }));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_for_a_while_has_lost_nothing() {
    let (informer, tx) = informer();
    let (mut heard, mut reach) = (informer.subscribe(), informer.watch_reach());
    list(&tx, &[("a", 1), ("b", 1), ("c", 1)]);
    hears(&mut heard, 3).await;
    fails(&tx, 404);
    reach.wait_for(|reach| *reach == Reach::Missing).await.expect("it goes on");
    assert!(hears_nothing(&mut heard).await, "nobody has deleted anything");
    assert!(informer.cache().get(&key("a")).is_some());
    list(&tx, &[("a", 2), ("b", 1)]);
    assert_eq!(hears(&mut heard, 2).await, ["a@1>a@2", "-c@1"]);
    reach.wait_for(|reach| *reach == Reach::Synced).await.expect("it goes on");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_changes_nothing() {
    let (informer, tx) = informer();
    list(&tx, &[("a", 1)]);
    informer.synced().await;
    fails(&tx, 503);
    let mut reach = informer.watch_reach();
    reach.wait_for(|reach| matches!(reach, Reach::Failing(_))).await.expect("it goes on");
    assert_eq!(informer.cache().len(), 1);
    list(&tx, &[("a", 1)]);
    informer.synced().await;
}

#[tokio::test(start_paused = true)]
async fn everything_is_looked_at_again_when_that_is_wanted() {
    let (informer, tx) = informer();
    let mut heard = informer.subscribe();
    list(&tx, &[("a", 1)]);
    hears(&mut heard, 1).await;
    // Whoever else wants it less often gets it as often.
    for seconds in [600, 30, 40] {
        informer.resync_every(Duration::from_secs(seconds));
    }
    let begun = Instant::now();
    for n in 1..10 {
        let change = heard.next().await.expect("it goes on");
        assert!(change.is_background() && shown(&change) == "a@1>a@1");
        assert_eq!(begun.elapsed(), Duration::from_secs(30) * n);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_shrunk_before_they_are_kept() {
    let (tx, rx) = unbounded_channel();
    let stream = stream::unfold(rx, |mut rx| async move { Some((rx.recv().await?, rx)) });
    let informer = Informer::follow(stream, Some(Arc::new(|map: &mut ConfigMap| map.data = None)));
    list(&tx, &[("a", 1)]);
    informer.synced().await;
    assert_eq!(informer.cache().get(&key("a")).expect("it is there").data, None);
}

#[tokio::test(start_paused = true)]
async fn an_index_that_panics_stops_nobody() {
    let (informer, tx) = informer();
    let mut heard = informer.subscribe();
    informer.cache().add_index("bad", |map: &ConfigMap| match map.metadata.name.as_deref() {
        Some("bad") => panic!("on purpose"),
        _ => vec!["all".to_owned()],
    });
    informer.cache().add_index("good", |_: &ConfigMap| vec!["all".to_owned()]);
    list(&tx, &[("a", 1), ("bad", 2)]);
    apply(&tx, "b", 3);
    assert_eq!(hears(&mut heard, 3).await, ["+a@1!", "+bad@2!", "+b@3"]);
    list(&tx, &[("a", 1), ("bad", 4), ("b", 3)]);
    assert_eq!(hears(&mut heard, 1).await, ["bad@2>bad@4"]);
    let found = |index: &str| informer.cache().by_index(index, "all").len();
    assert_eq!((informer.reach(), found("bad"), found("good")), (Reach::Synced, 2, 3));
    delete(&tx, "bad", 5);
    assert_eq!(hears(&mut heard, 1).await, ["-bad@4"]);
    assert_eq!((found("bad"), found("good")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_deletes_nothing() {
    let (tx, rx) = unbounded_channel();
    let stream = stream::unfold(rx, |mut rx| async move { Some((rx.recv().await?, rx)) });
    let fussy = |map: &mut ConfigMap| assert_ne!(map.metadata.resource_version.as_deref(), Some("2"));
    let informer = Informer::follow(stream, Some(Arc::new(fussy)));
    let mut heard = informer.subscribe();
    list(&tx, &[("a", 1), ("b", 1)]);
    hears(&mut heard, 2).await;
    list(&tx, &[("a", 2), ("b", 3)]);
    assert_eq!(hears(&mut heard, 1).await, ["b@1>b@3"]);
    assert!(hears_nothing(&mut heard).await);
    assert!(informer.cache().get(&key("a")).is_some(), "it is there, as it was");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_seen_when_all_of_it_is() {
    let (informer, tx) = informer();
    list(&tx, &[("a", 1), ("b", 2)]);
    informer.synced().await;
    let cache = informer.cache().clone();
    // By the order of names, the newest comes first.
    tx.send(Ok(Event::Init)).expect("it listens");
    tx.send(Ok(Event::InitApply(map("a", 9)))).expect("it listens");
    let early = cache.wait_for("5", Duration::from_secs(1)).await;
    assert!(early.is_err(), "what is at revision 5 may be yet to come");
    tx.send(Ok(Event::InitApply(map("b", 5)))).expect("it listens");
    tx.send(Ok(Event::InitDone)).expect("it listens");
    cache.wait_for("5", Duration::from_secs(1)).await.expect("seen");
    cache.wait_for("9", Duration::from_secs(1)).await.expect("seen");
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_is_gone_once_that_is_seen() {
    let (informer, tx) = informer();
    list(&tx, &[("a", 1)]);
    informer.synced().await;
    let cache = informer.cache().clone();
    for revision in (2..200).step_by(2) {
        apply(&tx, "a", revision);
        delete(&tx, "a", revision + 1);
        cache.wait_for(&(revision + 1).to_string(), Duration::from_secs(1)).await.expect("seen");
        assert!(cache.get(&key("a")).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_what_was_there_however_often_it_was_tried() {
    let (informer, tx) = informer();
    let mut heard = informer.subscribe();
    fails(&tx, 503);
    list(&tx, &[("a", 1)]);
    assert_eq!(hears(&mut heard, 1).await, ["+a@1!"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_nobody_wants_it() {
    let (informer, tx) = informer();
    let heard = informer.subscribe();
    drop(informer);
    list(&tx, &[("a", 1)]);
    drop(heard);
    tx.closed().await;
}

/// What a listener hears, put together, is what is there: whatever happens, and however slow it is.
#[tokio::test(start_paused = true)]
async fn whoever_listens_knows_in_the_end_what_is_there() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (informer, tx) = informer();
        let mut heard = informer.subscribe();
        let (mut there, mut known) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
        list(&tx, &[]);
        for revision in 1..200 {
            let name = format!("m{}", random.u8(..6));
            match random.u8(..10) {
                0..6 => {
                    apply(&tx, &name, revision);
                    there.insert(name, revision);
                }
                6..8 if there.remove(&name).is_some() => delete(&tx, &name, revision),
                8 => {
                    let all: Vec<(&str, u64)> =
                        there.iter().map(|(name, revision)| (name.as_str(), *revision)).collect();
                    list(&tx, &all);
                }
                _ => {}
            }
            if random.u8(..4) == 0 {
                tokio::task::yield_now().await;
            }
            if random.u8(..6) == 0
                && let Ok(Some(change)) = tokio::time::timeout(Duration::ZERO, heard.next()).await
            {
                take(&mut known, &change);
            }
        }
        let last = there.values().max().copied().unwrap_or(0);
        informer.cache().wait_for(&last.to_string(), Duration::from_secs(5)).await.expect("seen");
        while let Ok(Some(change)) = tokio::time::timeout(Duration::from_millis(10), heard.next()).await {
            take(&mut known, &change);
        }
        assert_eq!(known, there, "seed {seed}");
    }
}

/// Takes up a change, if it is one of what is known.
fn take(known: &mut BTreeMap<String, u64>, change: &Change<ConfigMap>) {
    let of = |map: &ConfigMap| (map.metadata.name.clone().unwrap_or_default(), cache::revision(map));
    let (name, revision) = of(change.object());
    match change {
        Change::Added { .. } => assert_eq!(known.insert(name, revision), None, "it was not known"),
        Change::Updated { old, .. } => {
            assert_eq!(known.insert(name, revision), Some(of(old).1), "from what is known")
        }
        Change::Deleted(_) => assert!(known.remove(&name).is_some(), "it was known"),
    }
}
