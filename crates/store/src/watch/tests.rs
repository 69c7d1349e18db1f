//! Watches step by step: the publisher is moved by hand, so that every moment in between can be looked at.

use super::*;
use crate::{Entry, tables::State};

const FIRST: Revision = Revision::FIRST;

fn hub() -> Arc<Hub> {
    Hub::new(Arc::new(Tables::new(State::empty(FIRST))))
}

/// A put of each key, at `revision`, over nothing.
fn puts(revision: u64, keys: &[&str]) -> Vec<Arc<Change>> {
    let put = |key: &&str| {
        let (key, revision) = ((*key).into(), Revision::new(revision));
        State::change(key, Some("x".into()), None, revision).expect("a put is a change")
    };
    keys.iter().map(put).collect()
}

fn commit(hub: &Hub, revision: u64, keys: &[&str]) {
    hub.tables.apply(&puts(revision, keys));
}

fn publish_all(hub: &Hub) {
    while hub.publish_some() {}
}

fn revisions(changes: &[Arc<Change>]) -> Vec<u64> {
    changes.iter().map(|change| change.revision.get()).collect()
}

fn poll(watch: &mut Watch) -> Vec<u64> {
    revisions(&watch.poll().expect("the watch goes on"))
}

fn poll_all(watch: &mut Watch) -> Vec<u64> {
    std::iter::from_fn(|| Some(poll(watch)).filter(|found| !found.is_empty())).flatten().collect()
}

#[test]
fn a_revision_that_is_still_being_filed_is_not_delivered() {
    let hub = hub();
    let mut watch = hub.watch(b"", FIRST).unwrap();
    let changes = puts(2, &["a", "b"]);
    hub.tables.apply(&changes);
    watch.group.file(&changes[0]);
    assert_eq!(poll(&mut watch), []);
    assert_eq!(watch.delivered(), FIRST);
    watch.group.file(&changes[1]);
    hub.published.store(2, Ordering::Release);
    assert_eq!(poll(&mut watch), [2, 2]);
}

#[test]
fn nothing_counts_as_published_before_the_rings_know_of_the_gap() {
    let hub = hub();
    let mut watch = hub.watch(b"a", FIRST).unwrap();
    commit(&hub, 2, &["a"]);
    commit(&hub, 3, &["b"]);
    hub.tables.trim(Revision::new(3));
    std::thread::scope(|scope| {
        // The publisher must cut the rings, and is held up at the first.
        let ring = watch.group.ring();
        scope.spawn(|| hub.publish_some());
        while hub.groups.try_lock().is_ok() {
            std::thread::yield_now();
        }
        for _ in 0..1000 {
            assert_eq!(hub.published(), FIRST);
            std::thread::yield_now();
        }
        drop(ring);
    });
    assert_eq!(hub.published(), Revision::new(3));
    let floor = Revision::new(3);
    assert_eq!(watch.poll(), Err(ReadError::Compacted { requested: FIRST, floor }));
}
