//! The second implementation: every version of every key, kept for good, and searched naively.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    Revision,
    conformance::plan::{Contents, Effect, Version},
};

/// Everything that has ever happened to a store. It forgets nothing; what a store may have forgotten is for
/// the caller to know.
#[derive(Debug, Default)]
pub(in crate::conformance) struct Oracle {
    /// All versions of each key, oldest first; `None` where it was deleted.
    versions: BTreeMap<Vec<u8>, Vec<(Revision, Option<Bytes>)>>,
    /// What each revision changed, in key order.
    log: BTreeMap<Revision, Vec<Effect>>,
    head: Revision,
}

impl Oracle {
    /// An empty store that stands at `head`.
    pub(in crate::conformance) fn new(head: Revision) -> Self {
        Oracle { head, ..Oracle::default() }
    }

    pub(in crate::conformance) fn head(&self) -> Revision {
        self.head
    }

    /// Notes that the store has moved on without a change of ours.
    pub(in crate::conformance) fn advance(&mut self, head: Revision) {
        assert!(head >= self.head, "the store went back from {} to {head}", self.head);
        self.head = head;
    }

    /// Makes the changes of one transaction.
    pub(in crate::conformance) fn apply(&mut self, revision: Revision, effects: Vec<Effect>) {
        assert!(revision > self.head, "revision {revision} is not above {}", self.head);
        self.head = revision;
        for effect in &effects {
            self.versions.entry(effect.key.clone()).or_default().push((revision, effect.current.clone()));
        }
        self.log.insert(revision, effects);
    }

    /// The version of `key` at `at`.
    pub(in crate::conformance) fn get(&self, key: &[u8], at: Revision) -> Option<Version> {
        let versions = self.versions.get(key)?;
        let newer = versions.partition_point(|(revision, _)| *revision <= at);
        let (revision, value) = versions[..newer].last()?;
        value.clone().map(|value| (*revision, value))
    }

    /// Everything that is live at `at`.
    pub(in crate::conformance) fn contents(&self, at: Revision) -> Contents {
        self.versions
            .keys()
            .filter_map(|key| self.get(key, at).map(|version| (key.clone(), version)))
            .collect()
    }

    /// Bytes of all keys and values that are live at the head.
    pub(in crate::conformance) fn live_bytes(&self) -> u64 {
        let newest = |versions: &Vec<(Revision, Option<Bytes>)>| {
            versions.last().and_then(|(_, v)| v.as_ref().map(Bytes::len))
        };
        self.versions.iter().filter_map(|(key, versions)| Some((key.len() + newest(versions)?) as u64)).sum()
    }

    /// What each revision in `(after, through]` changed under `prefix`, one by one.
    pub(in crate::conformance) fn log(
        &self,
        prefix: &[u8],
        after: Revision,
        through: Revision,
    ) -> impl Iterator<Item = (Revision, &Effect)> {
        self.log
            .range(after.next()..=through.max(after.next()))
            .filter(move |(revision, _)| **revision <= through)
            .flat_map(|(revision, effects)| effects.iter().map(|effect| (*revision, effect)))
            .filter(move |(_, effect)| effect.key.starts_with(prefix))
    }
}
