//! Claims about commits: preconditions, atomicity, limits, revisions.

use std::{sync::Arc, task::Poll};

use bytes::Bytes;

use super::{
    plan,
    probe::{commit, contents, delete, head, latest, put, refused, within},
};
use crate::{
    CommitError, Expect, MAX_KEY_BYTES, MAX_TXN_BYTES, MAX_TXN_OPS, Mismatch, Read, Revision, Store, Txn,
};

pub(super) async fn every_effective_commit_gets_a_higher_revision(store: Arc<dyn Store>) {
    let mut last = head(&*store).await;
    for round in 0..20 {
        let revision = put(&*store, format!("key-{}", round % 3), "value").await;
        assert!(revision > last, "{revision} is not above {last}");
        assert_eq!(head(&*store).await, revision);
        assert_eq!(store.window().head, revision);
        last = revision;
    }
}

pub(super) async fn absent_holds_only_while_the_key_does_not_exist(store: Arc<dyn Store>) {
    let create = || Txn::new().put("key", "new", Expect::Absent);
    let created = commit(&*store, create()).await;
    let mismatches = refused(&*store, create()).await;
    assert_eq!(mismatches[0].expected, Expect::Absent);
    assert_eq!(mismatches[0].actual.as_ref().map(|entry| entry.revision), Some(created));
    delete(&*store, "key").await;
    commit(&*store, create()).await;
}

pub(super) async fn at_holds_only_for_the_last_write(store: Arc<dyn Store>) {
    let first = put(&*store, "key", "1").await;
    let second = commit(&*store, Txn::new().put("key", "2", Expect::At(first))).await;
    let between = put(&*store, "other", "x").await;
    for stale in [Revision::ZERO, first, between, between.next()] {
        refused(&*store, Txn::new().put("key", "3", Expect::At(stale))).await;
        refused(&*store, Txn::new().delete("key", Expect::At(stale))).await;
    }
    commit(&*store, Txn::new().delete("key", Expect::At(second))).await;
    for gone in [Revision::ZERO, first, second] {
        let mismatches = refused(&*store, Txn::new().put("key", "4", Expect::At(gone))).await;
        assert_eq!(mismatches[0].actual, None);
    }
    commit(&*store, Txn::new().put("key", "5", Expect::Any)).await;
}

pub(super) async fn a_requirement_guards_changes_to_other_keys(store: Arc<dyn Store>) {
    let owner = put(&*store, "owner", "here").await;
    let child = Txn::new().put("child", "1", Expect::Any).require("owner", Expect::At(owner));
    let written = commit(&*store, child.clone()).await;
    let snapshot = latest(&*store).await;
    assert_eq!(snapshot.get(b"owner").map(|entry| entry.revision), Some(owner), "a requirement wrote");
    assert_eq!(snapshot.get(b"child").map(|entry| entry.revision), Some(written));
    delete(&*store, "owner").await;
    refused(&*store, child).await;
    commit(&*store, Txn::new().delete("child", Expect::Any).require("owner", Expect::Absent)).await;
}

pub(super) async fn a_refusal_names_every_mismatch_and_what_is_there(store: Arc<dyn Store>) {
    let a = put(&*store, "a", "is a").await;
    let b = put(&*store, "b", "is b").await;
    let txn = Txn::new()
        .put("a", "x", Expect::Absent)
        .put("b", "x", Expect::At(b))
        .delete("c", Expect::At(b))
        .require("b", Expect::At(a))
        .require("d", Expect::Absent);
    let mut mismatches = refused(&*store, txn).await;
    mismatches.sort_by(|x, y| x.key.cmp(&y.key));
    let snapshot = latest(&*store).await;
    let mismatch = |key: &str, expected, actual: Option<&Arc<_>>| Mismatch {
        key: key.into(),
        expected,
        actual: actual.cloned(),
    };
    assert_eq!(
        mismatches,
        [
            mismatch("a", Expect::Absent, snapshot.get(b"a")),
            mismatch("b", Expect::At(a), snapshot.get(b"b")),
            mismatch("c", Expect::At(b), None),
        ]
    );
    assert_eq!(mismatches[0].actual.as_ref().map(|entry| &entry.value[..]), Some(&b"is a"[..]));
}

pub(super) async fn a_refused_transaction_writes_nothing(store: Arc<dyn Store>) {
    put(&*store, "kept", "1").await;
    let before = contents(&*store, Read::Latest).await;
    let revision = head(&*store).await;
    let txn = Txn::new().put("new", "x", Expect::Absent).delete("kept", Expect::Any).put(
        "last",
        "x",
        Expect::At(revision),
    );
    refused(&*store, txn).await;
    assert_eq!(contents(&*store, Read::Latest).await, before);
    assert_eq!(head(&*store).await, revision, "a refusal used up a revision");
}

pub(super) async fn changes_of_a_transaction_share_one_revision(store: Arc<dyn Store>) {
    put(&*store, "old", "x").await;
    let before = contents(&*store, Read::Latest).await;
    let at = head(&*store).await;
    let txn = (0..50).fold(Txn::new().delete("old", Expect::Any), |txn, idx| {
        txn.put(format!("many/{idx:02}"), format!("{idx}"), Expect::Absent)
    });
    let revision = commit(&*store, txn).await;
    let after = contents(&*store, Read::Latest).await;
    assert_eq!(after.len(), 50);
    assert!(after.values().all(|(at, _)| *at == revision));
    // Nothing lies between: the last state before is the one that was there.
    assert_eq!(contents(&*store, Read::At(Revision::new(revision.get() - 1))).await, before);
    assert_eq!(contents(&*store, Read::At(at)).await, before);
}

pub(super) async fn a_transaction_without_effect_makes_no_revision(store: Arc<dyn Store>) {
    let revision = put(&*store, "key", "x").await;
    let without_effect = [
        Txn::new(),
        Txn::new().require("key", Expect::At(revision)),
        Txn::new().require("none", Expect::Absent).require("key", Expect::Any),
        Txn::new().delete("none", Expect::Any),
        Txn::new().delete("none", Expect::Absent).delete("none either", Expect::Any),
    ];
    for txn in without_effect {
        assert_eq!(commit(&*store, txn.clone()).await, revision, "{txn:?}");
    }
    assert_eq!(head(&*store).await, revision);
    // Even without effect, preconditions count.
    refused(&*store, Txn::new().require("key", Expect::Absent)).await;
    refused(&*store, Txn::new().delete("none", Expect::At(revision))).await;
    // A delete without effect beside a change with one.
    let changed = commit(&*store, Txn::new().delete("none", Expect::Any).put("b", "x", Expect::Any)).await;
    let snapshot = latest(&*store).await;
    assert_eq!(snapshot.get(b"b").map(|entry| entry.revision), Some(changed));
    assert_eq!(snapshot.get(b"none"), None);
}

pub(super) async fn putting_the_same_value_again_is_a_change(store: Arc<dyn Store>) {
    let first = put(&*store, "key", "same").await;
    let second = put(&*store, "key", "same").await;
    assert!(second > first);
    assert_eq!(latest(&*store).await.get(b"key").map(|entry| entry.revision), Some(second));
}

pub(super) async fn a_malformed_transaction_is_refused_and_writes_nothing(store: Arc<dyn Store>) {
    put(&*store, "kept", "x").await;
    let before = (head(&*store).await, contents(&*store, Read::Latest).await);
    let good = || Txn::new().put("good", "x", Expect::Any);
    let too_many = (0..=MAX_TXN_OPS)
        .fold(Txn::new(), |txn, idx| txn.put(format!("many/{idx}"), Bytes::new(), Expect::Any));
    let too_many_checks =
        (0..=MAX_TXN_OPS).fold(good(), |txn, idx| txn.require(format!("many/{idx}"), Expect::Absent));
    let too_large = good().put("large", vec![0; MAX_TXN_BYTES], Expect::Any);
    type Says = fn(&CommitError) -> bool;
    let is_duplicate: Says = |err| matches!(err, CommitError::DuplicateKey { key } if **key == *b"good");
    let is_bad_key: Says = |err| matches!(err, CommitError::BadKey { .. });
    let is_too_many: Says =
        |err| matches!(err, CommitError::TooManyOps { n_ops } if *n_ops == MAX_TXN_OPS + 1);
    let is_too_large: Says =
        |err| matches!(err, CommitError::TooLarge { n_bytes } if *n_bytes > MAX_TXN_BYTES);
    let malformed = [
        (good().put("good", "y", Expect::Any), is_duplicate),
        (good().delete("good", Expect::Any), is_duplicate),
        (good().put("", "x", Expect::Any), is_bad_key),
        (good().delete("", Expect::Any), is_bad_key),
        (good().require("", Expect::Absent), is_bad_key),
        (good().put(vec![b'k'; MAX_KEY_BYTES + 1], "x", Expect::Any), is_bad_key),
        (good().require(vec![b'k'; MAX_KEY_BYTES + 1], Expect::Absent), is_bad_key),
        (too_many, is_too_many),
        (too_many_checks, is_too_many),
        (too_large, is_too_large),
    ];
    for (idx, (txn, says)) in malformed.into_iter().enumerate() {
        match within("an answer", store.commit(txn)).await {
            Err(err) => assert!(says(&err), "malformed transaction {idx} got {err:?}"),
            Ok(revision) => panic!("malformed transaction {idx} was committed at {revision}"),
        }
        let after = (head(&*store).await, contents(&*store, Read::Latest).await);
        assert_eq!(after, before, "malformed transaction {idx} left something");
    }
}

pub(super) async fn a_transaction_at_every_limit_is_taken(store: Arc<dyn Store>) {
    let key = |idx: usize| format!("{idx:0MAX_KEY_BYTES$}");
    let n_long = 8;
    let mut txn = (0..n_long).fold(Txn::new(), |txn, idx| txn.put(key(idx), Bytes::new(), Expect::Absent));
    for idx in n_long..MAX_TXN_OPS - 1 {
        txn = txn.put(format!("{idx:04}"), Bytes::new(), Expect::Any);
    }
    let n_rest = MAX_TXN_BYTES - txn.bytes() - 1;
    let txn = txn.put("v", vec![7; n_rest], Expect::Absent);
    assert_eq!((txn.ops.len(), txn.bytes()), (MAX_TXN_OPS, MAX_TXN_BYTES));
    let revision = commit(&*store, txn).await;
    let snapshot = latest(&*store).await;
    assert_eq!(snapshot.count(b""), MAX_TXN_OPS);
    assert_eq!(snapshot.get(b"v").map(|entry| entry.value.len()), Some(n_rest));
    assert_eq!(snapshot.get(key(0).as_bytes()).map(|entry| entry.revision), Some(revision));
}

pub(super) async fn a_deleted_key_can_be_created_anew(store: Arc<dyn Store>) {
    for round in 0..5 {
        let value = format!("life {round}");
        let created = commit(&*store, Txn::new().put("key", value.clone(), Expect::Absent)).await;
        let living = latest(&*store).await;
        assert_eq!(living.get(b"key").map(|entry| plan::version(entry)), Some((created, value.into())));
        let deleted = delete(&*store, "key").await;
        assert!(deleted > created);
        let dead = latest(&*store).await;
        assert_eq!(dead.get(b"key"), None);
        assert_eq!((dead.revision(), dead.count(b"")), (deleted, 0));
    }
}

pub(super) async fn keys_and_values_may_be_any_bytes(store: Arc<dyn Store>) {
    let all_bytes: Vec<u8> = (0..=u8::MAX).collect();
    let keys: [&[u8]; 9] =
        [b"\0", b"\0\0", b"\0\xff", b"a\0b", b"\xff", b"\xff\0", b"\xff\xff\xff", b"\xc3\x28", &all_bytes];
    for key in keys {
        put(&*store, key, key.to_vec()).await;
    }
    put(&*store, "empty", Bytes::new()).await;
    let found = contents(&*store, Read::Latest).await;
    assert_eq!(found.len(), keys.len() + 1);
    for key in keys {
        assert_eq!(found.get(key).map(|(_, value)| &value[..]), Some(key));
    }
    assert_eq!(found.get(&b"empty"[..]).map(|(_, value)| value.len()), Some(0), "empty is not absent");
    refused(&*store, Txn::new().put("empty", "x", Expect::Absent)).await;
    for key in keys {
        commit(&*store, Txn::new().delete(key, Expect::At(found[key].0))).await;
    }
    assert_eq!(latest(&*store).await.count(b""), 1);
}

pub(super) async fn a_dropped_commit_happens_wholly_or_not_at_all(store: Arc<dyn Store>) {
    for round in 0..20 {
        let [left, right] = ["left", "right"].map(|side| format!("{side}/{round}"));
        let txn = Txn::new().put(left.clone(), "x", Expect::Absent).put(right.clone(), "x", Expect::Absent);
        let mut dropped = store.commit(txn);
        std::future::poll_fn(|ctx| {
            let _ = dropped.as_mut().poll(ctx);
            Poll::Ready(())
        })
        .await;
        drop(dropped);
        put(&*store, "after", "x").await;
        let snapshot = latest(&*store).await;
        let found = [left, right].map(|key| snapshot.get(key.as_bytes()).map(|entry| entry.revision));
        assert_eq!(found[0], found[1], "half a transaction");
    }
}

pub(super) async fn racing_swaps_have_one_winner_per_round(store: Arc<dyn Store>) {
    const RACERS: usize = 8;
    const ROUNDS: usize = 25;
    let mut at = put(&*store, "counter", "0").await;
    for round in 0..ROUNDS {
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| {
                let store = store.clone();
                let txn = Txn::new().put("counter", format!("{round}/{racer}"), Expect::At(at));
                tokio::spawn(async move { store.commit(txn).await })
            })
            .collect();
        let mut winners = Vec::new();
        for (racer, task) in racers.into_iter().enumerate() {
            match within("the race", task).await.expect("a racer does not panic") {
                Ok(revision) => winners.push((revision, Bytes::from(format!("{round}/{racer}")))),
                Err(CommitError::Refused(mismatches)) => {
                    assert!(mismatches[0].actual.as_ref().is_some_and(|entry| entry.revision > at));
                }
                Err(err) => panic!("a racer failed: {err}"),
            }
        }
        assert_eq!(winners.len(), 1, "round {round} was won by {winners:?}");
        let snapshot = latest(&*store).await;
        assert_eq!(snapshot.get(b"counter").map(|entry| plan::version(entry)).as_ref(), winners.first());
        at = winners[0].0;
    }
}
