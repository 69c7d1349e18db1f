//! The engine for tests: the tables and nothing behind them. What it holds is gone with the process.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::{
    Clock, CommitError, Read, ReadError, Retention, Revision, Snapshot, Store, SystemClock, Txn, Watch,
    Window,
    engine::Planner,
    tables::{Retainer, State, Tables},
    watch::Hub,
};

/// A store in memory.
pub struct Memory {
    tables: Arc<Tables>,
    hub: Arc<Hub>,
    /// Held for the whole of a commit: it is what orders writers.
    writer: Mutex<Retainer>,
    clock: Box<dyn Clock>,
}

impl Memory {
    /// An empty store with the default retention and the machine's clock.
    pub fn new() -> std::io::Result<Self> {
        Self::with(Retention::default(), SystemClock)
    }

    /// An empty store that keeps its history as `retention` says, by `clock`.
    pub fn with(retention: Retention, clock: impl Clock) -> std::io::Result<Self> {
        let tables = Arc::new(Tables::new(State::empty(Revision::FIRST)));
        let hub = Hub::new(tables.clone());
        hub.spawn_publisher()?;
        Ok(Memory { tables, hub, writer: Mutex::new(Retainer::new(retention)), clock: Box::new(clock) })
    }

    /// The tables themselves, for tests that forge states.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// A store that begins with what is in this one, for tests of what happens when a store is reopened.
    #[cfg(test)]
    pub(crate) fn again(&self) -> std::io::Result<Self> {
        let tables = Arc::new(Tables::new(self.tables.state().clone()));
        let hub = Hub::new(tables.clone());
        hub.spawn_publisher()?;
        let writer = Mutex::new(Retainer::new(Retention::default()));
        Ok(Memory { tables, hub, writer, clock: Box::new(SystemClock) })
    }
}

#[async_trait]
impl Store for Memory {
    async fn commit(&self, txn: Txn) -> Result<Revision, CommitError> {
        txn.validate()?;
        let mut retainer = self.writer.lock().expect("no one panics while writing");
        if let Some(reason) = self.hub.stop_reason() {
            return Err(CommitError::Stopped(reason));
        }
        let n_bytes = txn.bytes() as u64;
        let mut changes = Vec::with_capacity(txn.ops.len());
        let planned = Planner::new(&self.tables.state()).plan(txn, &mut changes);
        let revision = planned.map_err(CommitError::Refused)?;
        self.tables.apply(&changes);
        if changes.is_empty() {
            return Ok(revision);
        }
        let now_millis = self.clock.now_millis();
        retainer.note(&changes, n_bytes, now_millis);
        let live_bytes = self.tables.state().live_bytes;
        if let Some(floor) = retainer.due(live_bytes, now_millis) {
            self.tables.trim(floor);
        }
        self.hub.notify();
        Ok(revision)
    }

    async fn snapshot(&self, read: Read) -> Result<Snapshot, ReadError> {
        self.tables.snapshot(match read {
            Read::Latest | Read::Seen => None,
            Read::At(revision) => Some(revision),
        })
    }

    async fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watch, ReadError> {
        self.hub.watch(prefix, after)
    }

    async fn compact(&self, revision: Revision) -> Result<(), ReadError> {
        let mut retainer = self.writer.lock().expect("no one panics while writing");
        if let Some(reason) = self.hub.stop_reason() {
            return Err(ReadError::Stopped(reason));
        }
        self.tables.window().check(revision)?;
        retainer.compact(&self.tables, revision);
        Ok(())
    }

    fn window(&self) -> Window {
        self.tables.window()
    }

    async fn stopped(&self) -> Arc<str> {
        self.hub.stopped().await
    }

    async fn close(&self) {
        let _writer = self.writer.lock().expect("no one panics while writing");
        self.hub.stop("closed");
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.hub.stop("dropped");
    }
}
