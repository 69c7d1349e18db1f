//! The writer: the one place where transactions become durable, in groups.
//!
//! While one group is being synced the next one gathers, so a group grows with the load and a sync is shared
//! by all of it. Nobody is answered before the sync, refusals included: what a refusal shows must be durable
//! too. Start at [`Writer::commit`].
//!
//! Applying and answering could happen beside the next sync, on another thread. Tried on two cores, that made
//! groups smaller and fewer writes a second: the other thread takes the core that the writers need.

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

/// Owns the log. One thread's.
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) tables: Arc<Tables>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) retainer: Retainer,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    /// Used again for every group.
    changes: Vec<Arc<Change>>,
}

impl Writer {
    pub(crate) fn new(
        log: Log,
        tables: Arc<Tables>,
        hub: Arc<Hub>,
        retainer: Retainer,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Writer { log, tables, hub, retainer, clock, counters: Arc::default(), changes: vec![] }
    }

    /// Commits a group, in order, and calls `reply` with the outcome of each transaction, in the same order.
    pub(crate) fn commit(
        &mut self,
        txns: impl ExactSizeIterator<Item = Txn>,
        mut reply: impl FnMut(Result<Revision, CommitError>),
    ) {
        if let Some(reason) = self.hub.stop_reason() {
            return txns.for_each(|_| reply(Err(CommitError::Stopped(reason.clone()))));
        }
        let now_millis = self.clock.now_millis();
        self.changes.clear();
        let mut outcomes = Vec::with_capacity(txns.len());
        {
            let state = self.tables.state();
            let mut planner = Planner::new(&state);
            for txn in txns {
                outcomes.push(planner.plan(txn, &mut self.changes).map_err(CommitError::Refused));
            }
        }
        match self.log.append(&self.changes, now_millis) {
            Ok(n_bytes) => {
                if !self.changes.is_empty() {
                    self.tables.apply(&self.changes);
                    self.counters.count(&self.changes, n_bytes);
                    self.retainer.note(&self.changes, n_bytes, now_millis);
                    self.forget(now_millis);
                }
                outcomes.into_iter().for_each(reply);
                self.hub.notify();
            }
            Err(error) => {
                let error = self.give_up(error);
                outcomes.iter().for_each(|_| reply(Err(error.clone())));
            }
        }
    }

    /// Moves the window's beginning to where retention wants it. The checkpointer sweeps up behind.
    pub(crate) fn forget(&mut self, now_millis: u64) {
        let live_bytes = self.tables.state().live_bytes;
        if let Some(floor) = self.retainer.due(live_bytes, now_millis) {
            self.tables.raise_floor(floor);
        }
    }

    /// Forgets history through `floor`, durably.
    pub(crate) fn compact(&mut self, floor: Revision) -> Result<(), ReadError> {
        if let Some(reason) = self.hub.stop_reason() {
            return Err(ReadError::Stopped(reason));
        }
        let window = self.tables.window();
        window.check(floor)?;
        if floor == window.floor {
            return Ok(());
        }
        let logged = self.log.compacted(floor, self.clock.now_millis());
        logged.map_err(|error| match self.give_up(error) {
            CommitError::Unknown(reason) => ReadError::Stopped(reason),
            refused => ReadError::Unavailable(refused.to_string().into()),
        })?;
        self.retainer.ages.drop_through(floor);
        self.tables.raise_floor(floor);
        Ok(())
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
