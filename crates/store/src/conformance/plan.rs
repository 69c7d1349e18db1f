//! Transactions and states as plain values: what the suites think in, apart from the store's own types.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Change, Entry, Expect, Mismatch, Revision, Snapshot, Txn};

/// One version of a value: when it was put, and what.
pub type Version = (Revision, Bytes);

/// Everything that is live at some revision.
pub type Contents = BTreeMap<Vec<u8>, Version>;

/// What a transaction is to do, in a form that the suites can judge on their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Keys with their new values; `None` deletes.
    pub changes: Vec<(Vec<u8>, Option<Bytes>)>,
    /// What must hold. At most one expectation for each key.
    pub checks: BTreeMap<Vec<u8>, Expect>,
}

impl Plan {
    /// The transaction that the store is given.
    pub fn txn(&self) -> Txn {
        let mut txn = Txn::new();
        for (key, expect) in &self.checks {
            txn = txn.require(&key[..], *expect);
        }
        for (key, value) in &self.changes {
            txn = match value {
                Some(value) => txn.put(&key[..], value.clone(), Expect::Any),
                None => txn.delete(&key[..], Expect::Any),
            };
        }
        txn
    }

    /// The checks that fail over what `get` finds, with what is there.
    pub(super) fn refusals(&self, get: impl Fn(&[u8]) -> Option<Version>) -> Refusals {
        let mut refusals = BTreeMap::new();
        for (key, expect) in &self.checks {
            let actual = get(key);
            let holds = match expect {
                Expect::Any => true,
                Expect::Absent => actual.is_none(),
                Expect::At(revision) => actual.as_ref().is_some_and(|(at, _)| at == revision),
            };
            if !holds {
                refusals.insert(key.clone(), (*expect, actual));
            }
        }
        refusals
    }

    /// What the plan changes over what `get` finds, in key order.
    pub(super) fn effects(&self, get: impl Fn(&[u8]) -> Option<Version>) -> Vec<Effect> {
        let mut effects: Vec<Effect> = self
            .changes
            .iter()
            .map(|(key, value)| Effect { key: key.clone(), current: value.clone(), previous: get(key) })
            .filter(|effect| effect.current.is_some() || effect.previous.is_some())
            .collect();
        effects.sort_by(|a, b| a.key.cmp(&b.key));
        effects
    }
}

/// Failed checks by key: what was expected and what is there.
pub(super) type Refusals = BTreeMap<Vec<u8>, (Expect, Option<Version>)>;

/// A change without its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) key: Vec<u8>,
    pub(super) current: Option<Bytes>,
    pub(super) previous: Option<Version>,
}

/// What the store says was refused, as a value.
pub(super) fn refusals(mismatches: &[Mismatch]) -> Refusals {
    let refusals: Refusals = mismatches
        .iter()
        .map(|Mismatch { key, expected, actual }| (key.to_vec(), (*expected, actual.as_deref().map(version))))
        .collect();
    assert_eq!(refusals.len(), mismatches.len(), "a key is named twice in {mismatches:?}");
    refusals
}

/// A delivered change as a value, after checking that its parts agree with each other.
pub(super) fn effect(change: &Change) -> Effect {
    let Change { key, revision, current, previous } = change;
    for entry in current.iter().chain(previous) {
        assert_eq!(entry.key, *key, "a change holds an entry of another key: {change:?}");
    }
    assert!(current.iter().all(|entry| entry.revision == *revision), "put at another revision: {change:?}");
    assert!(previous.iter().all(|entry| entry.revision < *revision), "replaces its future: {change:?}");
    assert!(current.is_some() || previous.is_some(), "a change from nothing to nothing: {change:?}");
    Effect {
        key: key.to_vec(),
        current: current.as_ref().map(|entry| entry.value.clone()),
        previous: previous.as_deref().map(version),
    }
}

/// All of a snapshot, after checking that its ways of reading agree with each other.
pub(super) fn contents(snapshot: &Snapshot) -> Contents {
    let page = snapshot.range(b"", None, 0);
    assert!(!page.more, "a range without limit has more");
    assert!(page.entries.is_sorted_by(|a, b| a.key < b.key), "keys out of order: {:?}", page.entries);
    assert_eq!(snapshot.count(b""), page.entries.len(), "the count is not that of the range");
    for entry in &page.entries {
        assert_eq!(snapshot.get(&entry.key), Some(entry), "get and range disagree");
        assert!(entry.revision <= snapshot.revision(), "an entry of the future: {entry:?}");
    }
    page.entries.iter().map(|entry| (entry.key.to_vec(), version(entry))).collect()
}

pub(super) fn version(entry: &Entry) -> Version {
    (entry.revision, entry.value.clone())
}
