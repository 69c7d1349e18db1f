//! Claims about watches: completeness, order, wholeness, progress, and how they end.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    follow::Follower,
    plan::{self, Effect},
    probe::{DEADLINE, commit, compact, delete, head, put, snapshot, within},
    reads::write_history,
};
use crate::{Change, CommitError, Delivery, Expect, Read, ReadError, Revision, Store, Txn};

/// The changes by revision; a revision's changes have no order among themselves.
fn by_revision<'a>(changes: impl IntoIterator<Item = &'a Arc<Change>>) -> BTreeMap<Revision, Vec<Effect>> {
    let mut found: BTreeMap<Revision, Vec<Effect>> = BTreeMap::new();
    for change in changes {
        found.entry(change.revision).or_default().push(plan::effect(change));
    }
    for effects in found.values_mut() {
        effects.sort_by(|a, b| a.key.cmp(&b.key));
    }
    found
}

/// What the store's own history says came after `after`, under `prefix`.
async fn history(store: &dyn Store, prefix: &[u8], after: Revision) -> BTreeMap<Revision, Vec<Effect>> {
    let snapshot = snapshot(store, Read::At(after)).await;
    by_revision(snapshot.changes().filter(|change| change.key.starts_with(prefix)))
}

pub(super) async fn a_watch_from_any_revision_tells_everything_after_it(store: Arc<dyn Store>) {
    let states = write_history(&*store).await;
    let head = head(&*store).await;
    for (after, contents) in &states {
        for prefix in ["", "a", "b", "none"] {
            let mut follower = Follower::start(&*store, prefix.as_bytes(), *after).await;
            follower.through(head).await;
            // Replaying what was told over what was there gives what is there.
            let mut replayed = contents.clone();
            for change in &follower.seen {
                match plan::effect(change).current {
                    Some(value) => replayed.insert(change.key.to_vec(), (change.revision, value)),
                    None => replayed.remove(&change.key[..]),
                };
            }
            replayed.retain(|key, _| key.starts_with(prefix.as_bytes()));
            let mut expected = states[&head].clone();
            expected.retain(|key, _| key.starts_with(prefix.as_bytes()));
            assert_eq!(replayed, expected, "{prefix:?} after {after}");
            let told = by_revision(&follower.seen);
            assert_eq!(told, history(&*store, prefix.as_bytes(), *after).await, "{prefix:?} after {after}");
        }
    }
}

pub(super) async fn a_change_carries_what_was_there_before(store: Arc<dyn Store>) {
    let after = head(&*store).await;
    let mut live = Follower::start(&*store, b"", after).await;
    let created = put(&*store, "key", "1").await;
    let updated = put(&*store, "key", "2").await;
    let deleted = delete(&*store, "key").await;
    let again = put(&*store, "key", "3").await;
    let change = |current: Option<&'static str>, previous: Option<(Revision, &'static str)>| Effect {
        key: b"key".to_vec(),
        current: current.map(Into::into),
        previous: previous.map(|(revision, value)| (revision, value.into())),
    };
    let expected = BTreeMap::from([
        (created, vec![change(Some("1"), None)]),
        (updated, vec![change(Some("2"), Some((created, "1")))]),
        (deleted, vec![change(None, Some((updated, "2")))]),
        (again, vec![change(Some("3"), None)]),
    ]);
    live.through(again).await;
    assert_eq!(by_revision(&live.seen), expected);
    let mut late = Follower::start(&*store, b"key", after).await;
    late.through(again).await;
    assert_eq!(by_revision(&late.seen), expected);
}

pub(super) async fn a_watch_sees_only_its_prefix(store: Arc<dyn Store>) {
    let after = head(&*store).await;
    let prefixes: [&[u8]; 7] = [b"", b"a", b"a/", b"a\xff", b"a/b", b"\xff", b"\0"];
    let mut followers = Vec::new();
    for prefix in prefixes {
        followers.push(Follower::start(&*store, prefix, after).await);
    }
    let keys: [&[u8]; 9] =
        [b"a", b"a/", b"a/b", b"a/b/c", b"a0", b"a\xff", b"a\xff\xff", b"\xff\xff", b"\0a"];
    // One at a time, and all at once.
    for key in keys {
        put(&*store, key, "x").await;
    }
    let all = keys.into_iter().fold(Txn::new(), |txn, key| txn.delete(key, Expect::Any));
    let last = commit(&*store, all).await;
    for mut follower in followers {
        follower.through(last).await;
        let n_expected = 2 * keys.iter().filter(|key| key.starts_with(follower.prefix())).count();
        assert_eq!(follower.seen.len(), n_expected, "{}", follower.prefix().escape_ascii());
    }
}

pub(super) async fn a_revision_is_delivered_whole(store: Arc<dyn Store>) {
    // Large transactions in quick succession, so that watchers read while deliveries are being made ready.
    const WIDTH: usize = 100;
    let after = head(&*store).await;
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut follower = Follower::start(&*store, b"wide/", after).await;
                let mut buffer = Vec::new();
                while buffer.len() < 60 * WIDTH {
                    if let Delivery::Changes(changes) = follower.next().await.expect("the watch goes on") {
                        for whole in changes.chunk_by(|a, b| a.revision == b.revision) {
                            assert_eq!(whole.len(), WIDTH, "half of revision {}", whole[0].revision);
                        }
                        buffer.extend(changes);
                    }
                }
            })
        })
        .collect();
    for round in 0..60 {
        let txn = (0..WIDTH)
            .fold(Txn::new(), |txn, idx| txn.put(format!("wide/{idx}"), format!("{round}"), Expect::Any));
        commit(&*store, txn).await;
        tokio::task::yield_now().await;
    }
    for reader in readers {
        within("the end of the readers", reader).await.expect("every revision comes whole");
    }
}

pub(super) async fn watchers_of_nested_prefixes_agree_with_the_history(store: Arc<dyn Store>) {
    let after = head(&*store).await;
    let prefixes = ["", "k", "k/0", "k/1/", "k/1/3", "k/2/", "other"];
    let mut followers = Vec::new();
    for prefix in prefixes.into_iter().chain(prefixes) {
        followers.push(Follower::start(&*store, prefix.as_bytes(), after).await);
    }
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for round in 0..100 {
                    let key = |idx: usize| format!("k/{}/{}", (round + idx) % 3, (round * 7 + writer) % 5);
                    let txn = Txn::new().put(key(0), format!("{writer}/{round}"), Expect::Any).put(
                        format!("k/own/{writer}"),
                        "x",
                        Expect::Any,
                    );
                    match round % 4 {
                        3 => commit(&*store, txn.delete(key(1), Expect::Any)).await,
                        _ => commit(&*store, txn).await,
                    };
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    // The second half begins to read only when everything has been written.
    let late = followers.split_off(prefixes.len());
    let (done, early) = (Arc::new(AtomicBool::new(false)), followers);
    let readers: Vec<_> = early
        .into_iter()
        .map(|mut follower| {
            let done = done.clone();
            tokio::spawn(async move {
                while !done.load(Ordering::SeqCst) {
                    follower.next().await.expect("the watch goes on");
                }
                follower
            })
        })
        .collect();
    for writer in writers {
        within("the end of the writers", writer).await.expect("writers do not panic");
    }
    done.store(true, Ordering::SeqCst);
    let last = head(&*store).await;
    let mut followers = late;
    for reader in readers {
        followers.push(within("the end of the readers", reader).await.expect("readers do not panic"));
    }
    for mut follower in followers {
        follower.through(last).await;
        let expected = history(&*store, follower.prefix(), after).await;
        assert_eq!(by_revision(&follower.seen), expected, "{}", follower.prefix().escape_ascii());
    }
}

pub(super) async fn a_watch_begun_among_writers_misses_nothing(store: Arc<dyn Store>) {
    // Much that does not concern the watch lies between what does, so that catching up takes its time.
    let mixed = || {
        (0..9).fold(Txn::new().put("key", "x", Expect::Any), |txn, idx| {
            txn.put(format!("other/{idx}"), "x", Expect::Any)
        })
    };
    let after = head(&*store).await;
    for _ in 0..100 {
        commit(&*store, mixed()).await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, done) = (store.clone(), done.clone());
        tokio::spawn(async move {
            // Not so much that the beginning leaves the window.
            for _ in 0..8_000 {
                if done.load(Ordering::SeqCst) {
                    break;
                }
                commit(&*store, mixed()).await;
                tokio::task::yield_now().await;
            }
        })
    };
    for _ in 0..50 {
        // Alone in its group each time, so that it begins in the past and catches up with the writer.
        let mut follower = Follower::start(&*store, b"key", after).await;
        follower.through(head(&*store).await).await;
        let mut expected = history(&*store, b"key", after).await;
        expected.retain(|at, _| *at <= follower.done());
        let told = by_revision(&follower.seen);
        assert!(told.keys().eq(expected.keys()), "changes are missing up to {}", follower.done());
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    within("the end of the writer", writer).await.expect("the writer does not panic");
}

pub(super) async fn progress_never_runs_ahead_of_changes(store: Arc<dyn Store>) {
    let after = head(&*store).await;
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (store, done) = (store.clone(), done.clone());
        tokio::spawn(async move {
            // The follower refuses any change at or below the progress it was told.
            let mut follower = Follower::start(&*store, b"rare/", after).await;
            let mut n_marks = 0;
            while !done.load(Ordering::SeqCst) || n_marks < 10 {
                let known = store.window().head;
                if let Delivery::Progress(revision) = follower.next().await.expect("the watch goes on") {
                    n_marks += 1;
                    let told = by_revision(&follower.seen);
                    let mut expected = history(&*store, b"rare/", after).await;
                    expected.retain(|at, _| *at <= revision);
                    assert_eq!(told, expected, "at mark {revision}, head {known}");
                }
            }
            follower
        })
    };
    for round in 0..2000 {
        match round % 50 {
            0 => put(&*store, "rare/key", format!("{round}")).await,
            _ => put(&*store, "often/key", format!("{round}")).await,
        };
        if round % 10 == 0 {
            tokio::task::yield_now().await;
        }
    }
    done.store(true, Ordering::SeqCst);
    let mut follower = within("ten marks", reader).await.expect("no mark ran ahead");
    follower.through(head(&*store).await).await;
    assert_eq!(by_revision(&follower.seen).len(), 40);
}

pub(super) async fn a_quiet_watch_makes_progress_to_the_head(store: Arc<dyn Store>) {
    let mut follower = Follower::start(&*store, b"quiet/", head(&*store).await).await;
    for round in 0..5 {
        let revision = put(&*store, "loud/key", format!("{round}")).await;
        while follower.done() < revision {
            let delivery = follower.next().await;
            assert!(matches!(delivery, Ok(Delivery::Progress(_))), "a quiet watch was told {delivery:?}");
        }
        assert_eq!(follower.done(), revision);
    }
}

pub(super) async fn dropping_next_loses_nothing(store: Arc<dyn Store>) {
    let mut watch = store.watch(b"", head(&*store).await).await.expect("the head can be watched from");
    let mut told = Vec::new();
    for round in 0..50 {
        // Poll once and drop, before and after the write.
        for _ in 0..2 {
            tokio::select! {
                biased;
                delivery = watch.next() => told.push(delivery.expect("the watch goes on")),
                () = std::future::ready(()) => {}
            }
            tokio::task::yield_now().await;
        }
        put(&*store, "key", format!("{round}")).await;
    }
    let count = |told: &[Delivery]| {
        told.iter()
            .map(|delivery| if let Delivery::Changes(changes) = delivery { changes.len() } else { 0 })
            .sum()
    };
    let mut n_told: usize = count(&told);
    while n_told < 50 {
        told.push(within("a delivery", watch.next()).await.expect("the watch goes on"));
        n_told = count(&told);
    }
    assert_eq!(n_told, 50);
}

pub(super) async fn a_stalled_watcher_is_cut_off_and_delays_nobody(store: Arc<dyn Store>) {
    // More than any engine may hold back for one prefix.
    const CHANGES: usize = 3000;
    let after = head(&*store).await;
    let mut stalled = Follower::start(&*store, b"key", after).await;
    let mut healthy = Follower::start(&*store, b"key", after).await;
    let mut last = after;
    for chunk in 0..CHANGES / 100 {
        let txn = (0..100)
            .fold(Txn::new(), |txn, idx| txn.put(format!("key/{idx}"), format!("{chunk}"), Expect::Any));
        last = commit(&*store, txn).await;
    }
    healthy.through(last).await;
    assert_eq!(healthy.seen.len(), CHANGES);
    compact(&*store, last).await;
    last = put(&*store, "key/after", "x").await;
    healthy.through(last).await;
    let ended = loop {
        if let Err(err) = stalled.next().await {
            break err;
        }
    };
    // It may have been told what was still at hand, but then without a gap, and not beyond it.
    let told = by_revision(&stalled.seen);
    let complete = by_revision(&healthy.seen);
    assert!(complete.iter().take(told.len()).eq(told.iter()), "the stalled watcher skipped something");
    let floor = store.window().floor;
    assert_eq!(ended, ReadError::Compacted { requested: stalled.done(), floor });
}

pub(super) async fn a_watcher_that_has_read_everything_survives_compaction(store: Arc<dyn Store>) {
    put(&*store, "mine/key", "0").await;
    let mut follower = Follower::start(&*store, b"mine/", head(&*store).await).await;
    for round in 0..20 {
        let other = put(&*store, "other/key", format!("{round}")).await;
        follower.through(other).await;
        compact(&*store, other).await;
        let mine = put(&*store, "mine/key", format!("{round}")).await;
        follower.through(mine).await;
        assert_eq!(follower.seen.len(), round + 1);
    }
}

/// A watcher of a prefix where nothing happens need not read anything for its place to leave the window. An
/// engine may keep it, since it has missed nothing, or cut it off, since it cannot tell any more (when the
/// compaction overtakes the delivery of the changes below it). What it must not do is to skip a change.
pub(super) async fn compaction_never_makes_a_watch_skip_a_change(store: Arc<dyn Store>) {
    for round in 0..100 {
        let mut idle = Follower::start(&*store, b"mine/", head(&*store).await).await;
        let mut active = store.watch(b"mine/", head(&*store).await).await.expect("the head can be watched");
        let poller = tokio::task::spawn_blocking(move || {
            let mut told = Vec::new();
            let started = std::time::Instant::now();
            loop {
                assert!(started.elapsed() < DEADLINE, "only {told:?} came in time");
                match active.poll() {
                    Ok(changes) => told.extend(changes),
                    Err(err) => return (told, Some(err)),
                }
                if told.last().is_some_and(|change: &Arc<Change>| *change.key == *b"mine/second") {
                    return (told, None);
                }
            }
        });
        let first = put(&*store, "mine/first", "x").await;
        let other = put(&*store, "other/key", "x").await;
        compact(&*store, other).await;
        let second = put(&*store, "mine/second", "x").await;
        let revisions =
            |changes: &[Arc<Change>]| changes.iter().map(|change| change.revision).collect::<Vec<_>>();
        let allowed = |told: &[Arc<Change>], err: Option<ReadError>| match err {
            None => assert_eq!(revisions(told), [first, second], "in round {round}"),
            Some(ReadError::Compacted { .. }) => {
                assert!([first, second].starts_with(&revisions(told)), "in round {round}");
            }
            Some(err) => panic!("the watch ended with {err}"),
        };
        let ended = idle.try_through(second).await.err();
        allowed(&idle.seen, ended);
        let (told, ended) = within("the end of the poller", poller).await.expect("polling does not panic");
        allowed(&told, ended);
    }
}

pub(super) async fn closing_ends_watches_and_refuses_commits(store: Arc<dyn Store>) {
    let revision = put(&*store, "key", "x").await;
    // Nothing ever happens there, so that nothing but the close can end the waiting.
    let mut waiting = store.watch(b"none", revision).await.expect("the head can be watched from");
    let mut marked = Follower::start(&*store, b"quiet", revision).await;
    {
        // Both are waiting already when the store closes.
        let mut next = std::pin::pin!(waiting.next());
        let mut stopped = store.stopped();
        tokio::select! {
            biased;
            delivery = &mut next => panic!("there was nothing to tell, but {delivery:?} was"),
            reason = &mut stopped => panic!("stopped before it was closed: {reason}"),
            () = std::future::ready(()) => {}
        }
        within("the close", store.close()).await;
        assert!(!within("the end", stopped).await.is_empty());
        let ended = within("the end of the watch", next).await;
        assert!(matches!(ended, Err(ReadError::Stopped(_))), "the watch ended with {ended:?}");
    }
    let ended = loop {
        if let Err(err) = marked.next().await {
            break err;
        }
    };
    assert!(matches!(ended, ReadError::Stopped(_)), "the watch ended with {ended}");
    let refusal = store.commit(Txn::new().put("key", "y", Expect::Any)).await;
    assert!(matches!(refusal, Err(CommitError::Stopped(_))), "a closed store answered {refusal:?}");
    let refusal = store.watch(b"", revision).await.map(|watch| watch.delivered());
    assert!(matches!(refusal, Err(ReadError::Stopped(_))), "a closed store answered {refusal:?}");
    within("closing again", store.close()).await;
}
