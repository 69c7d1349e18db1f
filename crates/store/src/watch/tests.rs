//! Watches step by step: the publisher is moved by hand, so that every moment in between can be looked at.

use super::*;
use crate::tables::State;

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

#[test]
fn a_change_read_from_the_history_does_not_come_again_from_the_ring() {
    let hub = hub();
    commit(&hub, 2, &["a"]);
    publish_all(&hub);
    // Begins below the ring, so it reads the history, which is ahead of the publisher.
    let mut watch = hub.watch(b"", FIRST).unwrap();
    commit(&hub, 3, &["a"]);
    assert_eq!(poll(&mut watch), [2, 3]);
    publish_all(&hub);
    assert_eq!(poll(&mut watch), []);
    commit(&hub, 4, &["a"]);
    publish_all(&hub);
    assert_eq!(poll(&mut watch), [4]);
}

#[test]
fn a_watcher_that_falls_out_of_the_ring_goes_on_from_the_history() {
    let hub = hub();
    let mut watch = hub.watch(b"a", FIRST).unwrap();
    let last = FIRST.get() + 3 * RING as u64;
    for revision in FIRST.get() + 1..=last {
        commit(&hub, revision, &["a", "b"]);
    }
    publish_all(&hub);
    assert!(watch.group.ring().start > watch.delivered());
    assert_eq!(poll_all(&mut watch), (FIRST.get() + 1..=last).collect::<Vec<_>>());
    commit(&hub, last + 1, &["a"]);
    publish_all(&hub);
    assert!(watch.group.ring().start <= watch.delivered(), "it is back in the ring");
    assert_eq!(poll_all(&mut watch), [last + 1]);
}

#[test]
fn a_watcher_in_a_full_ring_misses_no_part_of_its_oldest_revision() {
    let hub = hub();
    let mut watch = hub.watch(b"", FIRST).unwrap();
    commit(&hub, 2, &["a", "b", "c"]);
    for revision in 3..RING as u64 + 1 {
        commit(&hub, revision, &["a"]);
    }
    publish_all(&hub);
    // The ring has lost the first of the three, and with it the claim to the whole revision.
    assert_eq!(watch.group.ring().start, Revision::new(2));
    assert_eq!(poll_all(&mut watch).iter().filter(|revision| **revision == 2).count(), 3);
}

#[test]
fn deliveries_are_bounded_and_whole() {
    let hub = hub();
    let mut from_ring = hub.watch(b"a", FIRST).unwrap();
    for revision in 2..40 {
        commit(&hub, revision, &["a1", "a2", "a3", "a4", "a5"]);
    }
    publish_all(&hub);
    // Its group begins at the head, so that it has to read the history.
    let mut from_history = hub.watch(b"", FIRST).unwrap();
    for watch in [&mut from_ring, &mut from_history] {
        let sizes: Vec<usize> =
            std::iter::from_fn(|| Some(poll(watch).len()).filter(|n_found| *n_found > 0)).collect();
        assert_eq!(sizes, [65, 65, 60]);
    }
}

#[test]
fn the_publisher_stops_between_revisions_only() {
    let hub = hub();
    let watch = hub.watch(b"", FIRST).unwrap();
    let keys: Vec<String> = (0..100).map(|idx| format!("{idx}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for revision in 2..=25 {
        commit(&hub, revision, &keys);
    }
    assert!(hub.publish_some(), "there is more than one step of work");
    let published = hub.published();
    assert!(published > FIRST && published < Revision::new(25));
    let newest = watch.group.ring().changes.back().map(|change| change.revision);
    assert_eq!(newest, Some(published));
    let n_newest = watch.group.ring().changes.iter().filter(|change| change.revision == published).count();
    assert_eq!(n_newest, keys.len());
    publish_all(&hub);
    assert_eq!(hub.published(), Revision::new(25));
}

#[test]
fn a_quiet_watcher_follows_the_head_through_foreign_revisions() {
    let hub = hub();
    let mut watch = hub.watch(b"a", FIRST).unwrap();
    commit(&hub, 2, &["b"]);
    hub.tables.advance(Revision::new(9));
    assert_eq!(poll(&mut watch), []);
    assert_eq!(watch.delivered(), FIRST, "nothing is known before it is published");
    publish_all(&hub);
    assert_eq!(poll(&mut watch), []);
    assert_eq!(watch.delivered(), Revision::new(9));
}

#[test]
fn a_replaced_state_cuts_off_those_who_stand_before_it() {
    let hub = hub();
    let mut behind = hub.watch(b"", FIRST).unwrap();
    hub.tables.reset(State::empty(Revision::new(50)));
    publish_all(&hub);
    let floor = Revision::new(50);
    assert_eq!(behind.poll(), Err(ReadError::Compacted { requested: FIRST, floor }));
    let mut after = hub.watch(b"", floor).unwrap();
    commit(&hub, 51, &["a"]);
    publish_all(&hub);
    assert_eq!(poll(&mut after), [51]);
}

#[test]
fn an_idle_watcher_is_kept_when_its_prefix_lost_nothing() {
    let hub = hub();
    let mut idle = hub.watch(b"a", FIRST).unwrap();
    for revision in 2..1000 {
        commit(&hub, revision, &["b"]);
    }
    publish_all(&hub);
    hub.tables.trim(Revision::new(999));
    hub.sweep();
    commit(&hub, 1000, &["a"]);
    publish_all(&hub);
    assert_eq!(poll(&mut idle), [1000]);
}

#[test]
fn a_sweep_lets_go_of_what_the_history_has_forgotten() {
    let hub = hub();
    let mut behind = hub.watch(b"", FIRST).unwrap();
    let mut within = hub.watch(b"", FIRST).unwrap();
    commit(&hub, 2, &["a", "b"]);
    publish_all(&hub);
    assert_eq!(poll(&mut within), [2, 2]);
    commit(&hub, 3, &["a"]);
    publish_all(&hub);
    hub.tables.trim(Revision::new(2));
    hub.sweep();
    assert_eq!(revisions(&behind.group.ring().changes.iter().cloned().collect::<Vec<_>>()), [3]);
    let floor = Revision::new(2);
    assert_eq!(behind.poll(), Err(ReadError::Compacted { requested: FIRST, floor }));
    assert_eq!(poll(&mut within), [3]);
}

#[test]
fn a_group_is_shared_while_anyone_watches_and_forgotten_after() {
    let hub = hub();
    let first = hub.watch(b"a", FIRST).unwrap();
    let second = hub.watch(b"a", FIRST).unwrap();
    assert!(Arc::ptr_eq(&first.group, &second.group));
    drop((first, second));
    let _other = hub.watch(b"b", FIRST).unwrap();
    hub.sweep();
    assert_eq!(hub.groups().keys().map(|prefix| &prefix[..]).collect::<Vec<_>>(), [b"b"]);
}

#[test]
fn a_group_that_forms_anew_does_not_claim_what_it_did_not_see() {
    let hub = hub();
    drop(hub.watch(b"a", FIRST).unwrap());
    commit(&hub, 2, &["a"]);
    publish_all(&hub);
    let mut watch = hub.watch(b"a", FIRST).unwrap();
    assert_eq!(watch.group.ring().start, Revision::new(2));
    assert_eq!(poll(&mut watch), [2]);
}

#[test]
fn every_group_whose_prefix_fits_is_found() {
    let prefixes: [&[u8]; 10] =
        [b"", b"a", b"a/", b"a/b", b"a/b/c", b"a/c", b"a0", b"b", b"\xff", b"\xff\xff"];
    let keys: [&[u8]; 9] =
        [b"a", b"a/", b"a/b/c/d", b"a/bc", b"a/c", b"a0", b"b/a", b"\xff\xff\xff", b"\x00"];
    let hub = hub();
    let _watches: Vec<_> = prefixes.iter().map(|prefix| hub.watch(prefix, FIRST).unwrap()).collect();
    drop(hub.watch(b"a/b/", FIRST).unwrap());
    for key in keys {
        let mut found = Vec::new();
        for_each_prefix_of(&mut hub.groups(), key, |group| found.push(group.prefix.clone()));
        let mut expected: Vec<Box<[u8]>> =
            prefixes.iter().filter(|prefix| key.starts_with(prefix)).map(|prefix| (*prefix).into()).collect();
        expected.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
        assert_eq!(found, expected, "{}", key.escape_ascii());
    }
    assert!(!hub.groups().contains_key(&b"a/b/"[..]), "the group nobody watches was in the way");
}

#[test]
fn the_first_reason_to_stop_stays() {
    let hub = hub();
    let mut watch = hub.watch(b"", FIRST).unwrap();
    hub.stop("first");
    hub.stop("second");
    assert_eq!(hub.stop_reason().as_deref(), Some("first"));
    assert_eq!(watch.poll(), Err(ReadError::Stopped("first".into())));
}
