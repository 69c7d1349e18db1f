//! Claims about snapshots: ranges, past revisions, freshness.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    plan::{self, Contents},
    probe::{commit, compact, contents, delete, head, latest, put, snapshot, within},
};
use crate::{Expect, MAX_TXN_OPS, Read, ReadError, Revision, Snapshot, Store, Txn};

/// Keys that lie around the edges of each other's prefixes, in no particular order.
const EDGES: [&[u8]; 16] = [
    b"a",
    b"a\0",
    b"a/",
    b"a/1",
    b"a/\xff",
    b"a/\xff\xff",
    b"a0",
    b"a\xff",
    b"a\xff\xff",
    b"a\xff\xffb",
    b"b",
    b"\0",
    b"\0\0",
    b"\xff",
    b"\xff\xff",
    b"\xff\xff\xff1",
];

fn keys(entries: &[Arc<crate::Entry>]) -> Vec<&[u8]> {
    entries.iter().map(|entry| &entry.key[..]).collect()
}

pub(super) async fn a_prefix_selects_exactly_the_keys_that_start_with_it(store: Arc<dyn Store>) {
    for key in EDGES {
        put(&*store, key, "x").await;
    }
    let before_more = head(&*store).await;
    for key in EDGES {
        put(&*store, [key, b"~"].concat(), "x").await;
    }
    delete(&*store, "a/1").await;
    let mut sorted = EDGES;
    sorted.sort_unstable();
    // Once from the past and once from the head, which take different paths.
    let past = snapshot(&*store, Read::At(before_more)).await;
    let present = latest(&*store).await;
    for prefix in EDGES.into_iter().chain([&b""[..], b"c", b"a/1/", b"a\xff\xff\xff"]) {
        let expected: Vec<&[u8]> = sorted.into_iter().filter(|key| key.starts_with(prefix)).collect();
        assert_eq!(keys(&past.range(prefix, None, 0).entries), expected, "{}", prefix.escape_ascii());
        assert_eq!(past.count(prefix), expected.len());
        let n_deleted = usize::from(b"a/1".starts_with(prefix));
        // Every key has got a longer sibling, which starts with the same prefixes.
        assert_eq!(present.count(prefix), 2 * expected.len() - n_deleted, "{}", prefix.escape_ascii());
    }
}

pub(super) async fn a_range_heeds_its_start_and_limit_and_says_if_there_is_more(store: Arc<dyn Store>) {
    for key in ["p/1", "p/3", "p/5", "q/1"] {
        put(&*store, key, "x").await;
    }
    let then = head(&*store).await;
    delete(&*store, "p/3").await;
    put(&*store, "p/4", "x").await;
    let snapshot = snapshot(&*store, Read::At(then)).await;
    let check = |prefix: &str, start: Option<&str>, limit, expected: &[&str], more| {
        let page = snapshot.range(prefix.as_bytes(), start.map(str::as_bytes), limit);
        let expected: Vec<&[u8]> = expected.iter().map(|key| key.as_bytes()).collect();
        assert_eq!((keys(&page.entries), page.more), (expected, more), "{prefix} {start:?} {limit}");
    };
    check("p/", None, 0, &["p/1", "p/3", "p/5"], false);
    check("p/", None, 1, &["p/1"], true);
    check("p/", None, 2, &["p/1", "p/3"], true);
    check("p/", None, 3, &["p/1", "p/3", "p/5"], false);
    check("p/", None, 4, &["p/1", "p/3", "p/5"], false);
    check("p/", Some("p/1"), 1, &["p/1"], true);
    check("p/", Some("p/1\0"), 1, &["p/3"], true);
    check("p/", Some("p/5"), 1, &["p/5"], false);
    check("p/", Some("p/5\0"), 1, &[], false);
    // A start before the prefix does not widen the range, one behind it leaves nothing.
    check("p/", Some("a"), 0, &["p/1", "p/3", "p/5"], false);
    check("p/", Some("p0"), 0, &[], false);
    check("p/", Some("z"), 1, &[], false);
    check("", Some("p/4"), 0, &["p/5", "q/1"], false);
    check("none/", None, 1, &[], false);
    check("none/", Some("none/1"), 0, &[], false);
}

pub(super) async fn pages_cover_a_range_without_gap_or_overlap(store: Arc<dyn Store>) {
    for idx in 0..57 {
        put(&*store, format!("page/{idx:03}"), "x").await;
    }
    let first_page = latest(&*store).await;
    let at = first_page.revision();
    let expected: Vec<_> = (0..57).map(|idx| format!("page/{idx:03}").into_bytes()).collect();
    for limit in [1, 2, 10, 56, 57, 58] {
        let mut found = Vec::new();
        let mut start: Option<Vec<u8>> = None;
        loop {
            // Each page asks anew, as clients do, and the store moves on in between.
            let snapshot = snapshot(&*store, Read::At(at)).await;
            let page = snapshot.range(b"page/", start.as_deref(), limit);
            found.extend(page.entries.iter().map(|entry| entry.key.to_vec()));
            assert!(page.entries.len() <= limit);
            if !page.more {
                break;
            }
            let last = found.last().expect("a page with more after it is not empty");
            start = Some([last.as_slice(), b"\0"].concat());
            put(&*store, format!("page/{:03}x", found.len()), "later").await;
            delete(&*store, format!("page/{:03}", found.len())).await;
        }
        assert_eq!(found, expected, "in pages of {limit}");
    }
}

/// Writes a little history over a few keys, and returns the state after each revision.
pub(super) async fn write_history(store: &dyn Store) -> BTreeMap<Revision, Contents> {
    let mut states = BTreeMap::from([(head(store).await, contents(store, Read::Latest).await)]);
    let any = Expect::Any;
    let steps = [
        Txn::new().put("a", "1", any),
        Txn::new().put("b", "1", any).put("c", "1", any),
        Txn::new().put("a", "2", any),
        Txn::new().delete("a", any),
        Txn::new().put("d", "1", any).delete("c", any),
        Txn::new().put("a", "3", any),
        Txn::new().put("a", "4", any).put("b", "2", any),
        Txn::new().delete("a", any).delete("b", any).put("c", "2", any),
        Txn::new().put("b", "3", any),
        Txn::new().delete("b", any),
        Txn::new().put("b", "4", any).put("a", "5", any),
        Txn::new().delete("d", any),
        Txn::new().put("b", "5", any),
    ];
    for txn in steps {
        let revision = commit(store, txn).await;
        let snapshot = latest(store).await;
        assert_eq!(snapshot.revision(), revision);
        states.insert(revision, plan::contents(&snapshot));
    }
    states
}

/// Checks that every revision from `floor` on reads as `states` has it, those between two states included.
pub(super) async fn check_history(store: &dyn Store, states: &BTreeMap<Revision, Contents>, floor: Revision) {
    let (last, _) = states.last_key_value().expect("there is a state");
    for number in floor.get()..=last.get() {
        let at = Revision::new(number);
        let (_, expected) = states.range(..=at).next_back().expect("there is a state at the floor");
        let snapshot = snapshot(store, Read::At(at)).await;
        assert_eq!(snapshot.revision(), at);
        assert_eq!(plan::contents(&snapshot), *expected, "at {at}");
        for key in ["a", "b", "c", "d", "e"] {
            let found = snapshot.get(key.as_bytes()).map(|entry| plan::version(entry));
            assert_eq!(found.as_ref(), expected.get(key.as_bytes()), "{key} at {at}");
        }
    }
}

pub(super) async fn every_revision_of_the_window_reads_as_it_was(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    let first = *states.keys().next().expect("there is a first state");
    check_history(&*store, &states, first).await;
}

pub(super) async fn a_snapshot_does_not_change_while_writers_write(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    let mut held: Vec<(Snapshot, &Contents)> = Vec::new();
    for (revision, contents) in &states {
        held.push((snapshot(&*store, Read::At(*revision)).await, contents));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = ["a", "b", "c"]
        .map(|key| {
            let (store, stop) = (store.clone(), stop.clone());
            tokio::spawn(async move {
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) && round > 20 {
                        return;
                    }
                    match round % 3 {
                        2 => delete(&*store, key).await,
                        _ => put(&*store, key, format!("{round}")).await,
                    };
                    // Some engines never wait, and a task that never waits holds its thread.
                    tokio::task::yield_now().await;
                }
            })
        })
        .into();
    for _ in 0..50 {
        for (snapshot, expected) in &held {
            assert_eq!(plan::contents(snapshot), **expected, "at {}", snapshot.revision());
        }
        tokio::task::yield_now().await;
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        within("the end of the writers", writer).await.expect("writers do not panic");
    }
    for (snapshot, expected) in &held {
        assert_eq!(plan::contents(snapshot), **expected, "at {}", snapshot.revision());
    }
}

pub(super) async fn a_snapshot_never_shows_half_a_transaction(store: Arc<dyn Store>) {
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (store, done) = (store.clone(), done.clone());
            tokio::spawn(async move {
                while !done.load(Ordering::SeqCst) {
                    let page = latest(&*store).await.range(b"", None, 0);
                    assert!([0, MAX_TXN_OPS].contains(&page.entries.len()), "half of the first transaction");
                    let same = page.entries.iter().all(|entry| entry.revision == page.entries[0].revision);
                    assert!(same, "two transactions mixed");
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for round in 0..200 {
        let txn = (0..MAX_TXN_OPS)
            .fold(Txn::new(), |txn, idx| txn.put(format!("wide/{idx}"), format!("{round}"), Expect::Any));
        commit(&*store, txn).await;
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        within("the end of the readers", reader).await.expect("every transaction shows whole");
    }
}

pub(super) async fn a_snapshot_outlives_the_history_it_was_taken_from(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    let mut held = Vec::new();
    for (revision, contents) in &states {
        held.push((snapshot(&*store, Read::At(*revision)).await, contents));
    }
    compact(&*store, head(&*store).await).await;
    for key in ["a", "b", "c", "d"] {
        put(&*store, key, "after").await;
    }
    for (snapshot, expected) in held {
        assert_eq!(plan::contents(&snapshot), *expected, "at {}", snapshot.revision());
    }
}

pub(super) async fn a_snapshot_lists_the_changes_since(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    for (revision, contents) in &states {
        let snapshot = snapshot(&*store, Read::At(*revision)).await;
        let mut replayed = contents.clone();
        for change in snapshot.changes() {
            assert!(change.revision > *revision);
            match plan::effect(change).current {
                Some(value) => replayed.insert(change.key.to_vec(), (change.revision, value)),
                None => replayed.remove(&change.key[..]),
            };
        }
        assert_eq!(Some(&replayed), states.values().next_back(), "from {revision}");
    }
}

pub(super) async fn seen_is_a_true_past_and_catches_up(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    let newest = head(&*store).await;
    within("what was seen catching up", async {
        loop {
            let seen = snapshot(&*store, Read::Seen).await;
            let (_, expected) = states.range(..=seen.revision()).next_back().expect("a known past");
            assert_eq!(plan::contents(&seen), *expected);
            if seen.revision() >= newest {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

pub(super) async fn latest_contains_what_anyone_was_acknowledged(store: Arc<dyn Store>) {
    let acknowledged = Arc::new(AtomicU64::new(head(&*store).await.get()));
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (store, acknowledged) = (store.clone(), acknowledged.clone());
            tokio::spawn(async move {
                for _ in 0..50 {
                    let known = Revision::new(acknowledged.load(Ordering::SeqCst));
                    let found = if task % 2 == 0 {
                        put(&*store, format!("key-{task}"), "x").await
                    } else {
                        latest(&*store).await.revision()
                    };
                    assert!(found >= known, "{found} though {known} had been acknowledged");
                    acknowledged.fetch_max(found.get(), Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        within("the end of the tasks", task).await.expect("no task reads a stale state");
    }
}

pub(super) async fn a_revision_beyond_the_head_is_in_the_future(store: Arc<dyn Store>) {
    put(&*store, "key", "x").await;
    let head = head(&*store).await;
    for requested in [head.next(), Revision::new(head.get() + 1_000_000)] {
        let future = ReadError::Future { requested, head };
        assert_eq!(store.snapshot(Read::At(requested)).await.err(), Some(future.clone()));
        assert_eq!(store.watch(b"", requested).await.err(), Some(future.clone()));
        assert_eq!(store.compact(requested).await.err(), Some(future));
    }
}
