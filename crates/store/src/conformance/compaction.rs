//! Claims about compaction: what goes, what stays, and what is said about it.

use std::sync::Arc;

use super::{
    follow::Follower,
    plan,
    probe::{commit, compact, contents, delete, head, latest, put, snapshot},
    reads::{check_history, write_history},
};
use crate::{Expect, Read, ReadError, Revision, Store, Txn, Window};

/// What a read below the floor is answered.
fn gone(requested: Revision, floor: Revision) -> Option<ReadError> {
    Some(ReadError::Compacted { requested, floor })
}

pub(super) async fn compaction_moves_the_floor_and_changes_nothing_readable(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    let head = head(&*store).await;
    for floor in states.keys() {
        compact(&*store, *floor).await;
        assert_eq!(store.window(), Window { floor: *floor, head });
        check_history(&*store, &states, *floor).await;
    }
}

pub(super) async fn compacting_to_the_floor_again_is_no_error(store: Arc<dyn Store>) {
    let begin = store.window().floor;
    compact(&*store, begin).await;
    let states = write_history(&*store).await;
    let middle = *states.keys().nth(6).expect("a middle");
    for _ in 0..3 {
        compact(&*store, middle).await;
        assert_eq!(store.window().floor, middle);
    }
    check_history(&*store, &states, middle).await;
}

pub(super) async fn compacting_below_the_floor_is_refused(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    let middle = *states.keys().nth(6).expect("a middle");
    compact(&*store, middle).await;
    for below in states.keys().take(6) {
        assert_eq!(store.compact(*below).await.err(), gone(*below, middle));
    }
    assert_eq!(store.window().floor, middle, "a refused compaction moved the floor");
    check_history(&*store, &states, middle).await;
}

pub(super) async fn compacting_above_the_head_is_refused_and_changes_nothing(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    let before = store.window();
    let requested = before.head.next();
    let future = ReadError::Future { requested, head: before.head };
    assert_eq!(store.compact(requested).await.err(), Some(future));
    assert_eq!(store.window(), before);
    check_history(&*store, &states, before.floor.max(*states.keys().next().expect("a first"))).await;
}

pub(super) async fn compacting_to_the_head_keeps_what_is_live(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    let head = head(&*store).await;
    compact(&*store, head).await;
    assert_eq!(store.window(), Window { floor: head, head });
    assert_eq!(Some(contents(&*store, Read::Latest).await), states.get(&head).cloned());
    assert_eq!(Some(contents(&*store, Read::At(head)).await), states.get(&head).cloned());
    // What is live can still be compared with, however long ago it was written.
    let (_, live) = states.last_key_value().expect("a last state");
    for (key, (revision, _)) in live {
        commit(&*store, Txn::new().delete(&key[..], Expect::At(*revision))).await;
    }
    assert_eq!(latest(&*store).await.count(b""), 0);
    assert_eq!(Some(contents(&*store, Read::At(head)).await), states.get(&head).cloned());
}

pub(super) async fn what_is_below_the_floor_is_compacted(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    let floor = *states.keys().nth(6).expect("a middle");
    compact(&*store, floor).await;
    let below = states.keys().take(6).copied();
    for requested in below.chain([Revision::ZERO, Revision::new(floor.get() - 1)]) {
        assert_eq!(store.snapshot(Read::At(requested)).await.err(), gone(requested, floor));
        assert_eq!(store.watch(b"", requested).await.err(), gone(requested, floor));
        assert_eq!(store.watch(b"none", requested).await.err(), gone(requested, floor));
    }
    snapshot(&*store, Read::At(floor)).await;
    Follower::start(&*store, b"", floor).await;
}

pub(super) async fn deletions_around_the_floor_read_as_they_were(store: Arc<dyn Store>) {
    // Each key is created, deleted and, in half of the cases, created again; the floor goes through all of it.
    let start = head(&*store).await;
    let mut states = std::collections::BTreeMap::from([(start, contents(&*store, Read::Latest).await)]);
    for (key, again) in [("a", true), ("b", false), ("c", true), ("d", false)] {
        let mut steps = vec![Txn::new().put(key, "1", Expect::Absent), Txn::new().delete(key, Expect::Any)];
        if again {
            steps.push(Txn::new().put(key, "2", Expect::Absent));
            steps.push(Txn::new().delete(key, Expect::Any));
            steps.push(Txn::new().put(key, "3", Expect::Absent));
        }
        for txn in steps {
            let revision = commit(&*store, txn).await;
            states.insert(revision, contents(&*store, Read::Latest).await);
        }
    }
    for floor in states.keys() {
        compact(&*store, *floor).await;
        check_history(&*store, &states, *floor).await;
    }
    // Keys whose deletion has been forgotten can come and go like new ones.
    let floor = head(&*store).await;
    for key in ["b", "d"] {
        for value in ["4", "5"] {
            let created = commit(&*store, Txn::new().put(key, value, Expect::Absent)).await;
            states.insert(created, contents(&*store, Read::Latest).await);
            states.insert(delete(&*store, key).await, contents(&*store, Read::Latest).await);
        }
    }
    check_history(&*store, &states, floor).await;
}

pub(super) async fn a_watch_from_the_floor_tells_of_a_deletion_just_above_it(store: Arc<dyn Store>) {
    let created = put(&*store, "key", "x").await;
    let floor = put(&*store, "other", "x").await;
    let deleted = delete(&*store, "key").await;
    compact(&*store, floor).await;
    let mut follower = Follower::start(&*store, b"key", floor).await;
    follower.through(deleted).await;
    let effects: Vec<_> =
        follower.seen.iter().map(|change| (change.revision, plan::effect(change))).collect();
    let deletion = plan::Effect {
        key: b"key".to_vec(),
        current: None,
        previous: Some((created, bytes::Bytes::from_static(b"x"))),
    };
    assert_eq!(effects, [(deleted, deletion)]);
    // Compacted onto the deletion itself, there is nothing left to tell.
    compact(&*store, deleted).await;
    let mut follower = Follower::start(&*store, b"key", deleted).await;
    follower.through(put(&*store, "other", "y").await).await;
    assert_eq!(follower.seen, []);
}

pub(super) async fn revisions_go_on_after_compaction(store: Arc<dyn Store>) {
    let mut last = put(&*store, "key", "x").await;
    for round in 0..5 {
        compact(&*store, last).await;
        assert_eq!(head(&*store).await, last, "compaction made a revision");
        let revision = commit(&*store, Txn::new().put("key", format!("{round}"), Expect::At(last))).await;
        assert!(revision > last);
        last = revision;
    }
}

pub(super) async fn a_long_history_can_be_compacted_at_once(store: Arc<dyn Store>) {
    // Well above whatever an engine may do in one step.
    let mut revisions = Vec::new();
    for round in 0..40 {
        let txn = (0..10).fold(Txn::new(), |txn, idx| match (round + idx) % 5 {
            4 => txn.delete(format!("key-{idx}"), Expect::Any),
            _ => txn.put(format!("key-{idx}"), format!("{round}"), Expect::Any),
        });
        revisions.push(commit(&*store, txn).await);
    }
    let [.., floor, _, _] = revisions[..] else { unreachable!("there are more revisions") };
    let at_floor = contents(&*store, Read::At(floor)).await;
    let at_head = contents(&*store, Read::Latest).await;
    compact(&*store, floor).await;
    assert_eq!(store.window().floor, floor);
    assert_eq!(contents(&*store, Read::At(floor)).await, at_floor);
    assert_eq!(contents(&*store, Read::Latest).await, at_head);
    assert_eq!(store.snapshot(Read::At(revisions[0])).await.err(), gone(revisions[0], floor));
}
