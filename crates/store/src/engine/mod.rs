//! The engines: how a commit becomes durable. What they have in common is here.

use std::{collections::HashMap, sync::Arc};

use crate::{Change, Entry, Key, Mismatch, Revision, Txn, tables::State};

pub(crate) mod embedded;
pub(crate) mod etcd;
pub(crate) mod memory;

/// Works out what transactions change, one after the other, before any of it is in the tables.
///
/// A group of transactions is judged against the state plus what the earlier ones of the group will have
/// done, so that they can be made durable together and applied afterwards.
pub(crate) struct Planner<'a> {
    state: &'a State,
    /// What the group leaves behind under each key it changes; `None`: nothing.
    ahead: HashMap<Key, Option<Arc<Entry>>>,
    head: Revision,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(state: &'a State) -> Self {
        Planner { state, ahead: HashMap::new(), head: state.head }
    }

    /// The changes `txn` makes at the next revision; none when it has no effect, and then no revision is used.
    pub(crate) fn plan(
        &mut self,
        txn: Txn,
        changes: &mut Vec<Arc<Change>>,
    ) -> Result<Revision, Vec<Mismatch>> {
        let mismatches = txn.mismatches(|key| self.get(key));
        if !mismatches.is_empty() {
            return Err(mismatches);
        }
        let revision = self.head.next();
        let n_before = changes.len();
        for op in txn.ops {
            let previous = self.get(&op.key);
            changes.extend(State::change(op.key, op.value, previous, revision));
        }
        if changes.len() > n_before {
            self.head = revision;
        }
        let planned = changes[n_before..].iter();
        self.ahead.extend(planned.map(|change| (change.key.clone(), change.current.clone())));
        Ok(self.head)
    }

    fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        match self.ahead.get(key) {
            Some(ahead) => ahead.clone(),
            None => self.state.get(key).cloned(),
        }
    }
}
