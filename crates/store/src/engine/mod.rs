//! The engines: how a commit becomes durable. What they have in common is here.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::{Change, Entry, Key, Mismatch, Revision, Txn, tables::State};

pub(crate) mod embedded;
pub(crate) mod etcd;
pub(crate) mod memory;

/// Works out what transactions change, one after the other, before any of it is in the tables.
///
/// Transactions are judged against the state plus what earlier ones will have done to it, so that they can be
/// made durable together and applied afterwards, while the next are being judged already.
pub(crate) struct Planner {
    /// What has been planned and may not be in the tables yet.
    ahead: VecDeque<Batch>,
    head: Revision,
}

/// What one batch leaves behind under each key it changes (`None`: nothing), up to its last revision.
struct Batch {
    last: Revision,
    by_key: HashMap<Key, Option<Arc<Entry>>>,
}

impl Planner {
    /// A planner for a store that stands at `head`.
    pub(crate) fn new(head: Revision) -> Self {
        Planner { ahead: VecDeque::new(), head }
    }

    /// Begins a batch, and forgets those that the tables have by now.
    pub(crate) fn begin(&mut self, applied: Revision) {
        while self.ahead.front().is_some_and(|batch| batch.last <= applied) {
            self.ahead.pop_front();
        }
        self.ahead.push_back(Batch { last: self.head, by_key: HashMap::new() });
    }

    /// Takes the batch back: none of it will happen. `head` is where the store stood before it.
    pub(crate) fn take_back(&mut self, head: Revision) {
        self.ahead.pop_back();
        self.head = head;
    }

    /// The revision after everything planned so far.
    pub(crate) fn head(&self) -> Revision {
        self.head
    }

    /// The changes `txn` makes at the next revision; none when it has no effect, and then no revision is used.
    pub(crate) fn plan(
        &mut self,
        state: &State,
        txn: Txn,
        changes: &mut Vec<Arc<Change>>,
    ) -> Result<Revision, Vec<Mismatch>> {
        let mismatches = txn.mismatches(|key| self.get(state, key));
        if !mismatches.is_empty() {
            return Err(mismatches);
        }
        let revision = self.head.next();
        let n_before = changes.len();
        for op in txn.ops {
            let previous = self.get(state, &op.key);
            changes.extend(State::change(op.key, op.value, previous, revision));
        }
        if let planned @ [_, ..] = &changes[n_before..] {
            self.head = revision;
            if let Some(batch) = self.ahead.back_mut() {
                batch.last = revision;
                batch
                    .by_key
                    .extend(planned.iter().map(|change| (change.key.clone(), change.current.clone())));
            }
        }
        Ok(self.head)
    }

    fn get(&self, state: &State, key: &Key) -> Option<Arc<Entry>> {
        match self.ahead.iter().rev().find_map(|batch| batch.by_key.get(key)) {
            Some(ahead) => ahead.clone(),
            None => state.get(key).cloned(),
        }
    }
}
