//! The writer: the one place where transactions become durable, in groups.
//!
//! While one group is being synced the next one gathers, so a group grows with the load and a sync is shared
//! by all of it. What follows the sync, applying and answering, is the [`Applier`]'s, so that under load it
//! happens beside the next sync. Nobody is answered before the sync, refusals included: what a refusal shows
//! must be durable too. Start at [`Writer::commit`].

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{
    checkpoint::Checkpointer,
    log::{AppendError, Log},
};
use crate::{
    Change, Clock, CommitError, ReadError, Revision, Txn,
    engine::Planner,
    tables::{Retainer, Tables},
    watch::Hub,
};

/// Bytes of keys and values in one group. More would make everyone in it wait longer for little gain.
pub(crate) const GROUP_BYTES: usize = 2 << 20;

/// What the writer has done since the store was opened.
#[derive(Debug, Default)]
pub struct Counters {
    /// Transactions that changed something.
    pub commits: AtomicU64,
    /// Groups they were written in: as many syncs.
    pub groups: AtomicU64,
    /// Bytes appended to the log.
    pub log_bytes: AtomicU64,
}

impl Counters {
    fn count(&self, changes: &[Arc<Change>], n_bytes: u64) {
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return };
        self.commits.fetch_add(last.revision.get() - first.revision.get() + 1, Ordering::Relaxed);
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.log_bytes.fetch_add(n_bytes, Ordering::Relaxed);
    }
}

/// A group that is in the log, or is not going to be.
pub(crate) struct Group {
    changes: Vec<Arc<Change>>,
    outcomes: Vec<Result<Revision, CommitError>>,
    /// What it takes in the log.
    n_bytes: u64,
    at_millis: u64,
}

/// Owns the log. One thread's.
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) tables: Arc<Tables>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    planner: Planner,
}

impl Writer {
    pub(crate) fn new(log: Log, tables: Arc<Tables>, hub: Arc<Hub>, clock: Arc<dyn Clock>) -> Self {
        let planner = Planner::new(tables.window().head);
        Writer { log, tables, hub, clock, counters: Arc::default(), planner }
    }

    /// Makes a group durable, in order. Its outcomes are not to be told before it has been applied.
    pub(crate) fn commit(&mut self, txns: impl ExactSizeIterator<Item = Txn>) -> Group {
        let n_txns = txns.len();
        let at_millis = self.clock.now_millis();
        let mut group = Group { changes: vec![], outcomes: vec![], n_bytes: 0, at_millis };
        if let Some(reason) = self.hub.stop_reason() {
            group.outcomes = vec![Err(CommitError::Stopped(reason)); n_txns];
            return group;
        }
        let before = self.planner.head();
        self.planner.begin(self.tables.window().head);
        group.changes.reserve(n_txns);
        group.outcomes.reserve(n_txns);
        for txn in txns {
            // Not held for the whole group, so that the one before can be applied meanwhile.
            let state = self.tables.state();
            group
                .outcomes
                .push(self.planner.plan(&state, txn, &mut group.changes).map_err(CommitError::Refused));
        }
        match self.log.append(&group.changes, at_millis) {
            Ok(n_bytes) => {
                group.n_bytes = n_bytes;
                self.counters.count(&group.changes, n_bytes);
            }
            Err(error) => {
                self.planner.take_back(before);
                group.changes.clear();
                group.outcomes = vec![Err(self.give_up(error)); n_txns];
            }
        }
        group
    }

    /// Makes durable that history through `floor` is forgotten; true when there is something to forget.
    pub(crate) fn compact(&mut self, floor: Revision) -> Result<bool, ReadError> {
        let window = self.tables.window();
        window.check(floor)?;
        if floor == window.floor {
            return Ok(false);
        }
        let logged = self.log.compacted(floor, self.clock.now_millis());
        logged.map_err(|error| ReadError::Unavailable(self.give_up(error).to_string().into()))?;
        Ok(true)
    }

    /// Vouches for the last frame; called when there is nothing else to do.
    pub(crate) fn idle(&mut self) {
        if self.hub.stop_reason().is_none()
            && let Err(error) = self.log.vouch(self.clock.now_millis())
        {
            self.give_up(error);
        }
    }

    /// Ends the log properly and says so in the manifest. Nothing can be written afterwards.
    pub(crate) fn close(&mut self, checkpointer: &mut Checkpointer) {
        if self.hub.stop_reason().is_none() {
            match self.log.close(self.clock.now_millis()) {
                Ok(chain) => checkpointer.close(chain),
                Err(error) => drop(self.give_up(error)),
            }
        }
        self.hub.stop("closed");
    }

    /// What a failed append means: for want of space nothing has happened; anything else is the end.
    fn give_up(&self, error: AppendError) -> CommitError {
        match error {
            AppendError::NoSpace { needed_bytes } => CommitError::NoSpace { needed_bytes },
            AppendError::Failed { action, source } => {
                let reason: Arc<str> = format!("{action} failed: {source}").into();
                tracing::error!(%reason, "the store stops");
                self.hub.stop(&reason);
                CommitError::Unknown(reason)
            }
        }
    }
}

/// Does what follows a sync, group by group, in order.
pub(crate) struct Applier {
    pub(crate) tables: Arc<Tables>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) retainer: Retainer,
}

impl Applier {
    /// Puts the group into the tables and calls `reply` with each transaction's outcome, in order.
    pub(crate) fn finish(&mut self, group: Group, reply: impl FnMut(Result<Revision, CommitError>)) {
        self.tables.apply(&group.changes);
        group.outcomes.into_iter().for_each(reply);
        if !group.changes.is_empty() {
            self.hub.notify();
            self.retainer.note(&self.tables, &group.changes, group.n_bytes, group.at_millis);
        }
    }

    /// Forgets history through `floor`.
    pub(crate) fn compact(&mut self, floor: Revision) {
        self.retainer.compact(&self.tables, floor);
    }
}
