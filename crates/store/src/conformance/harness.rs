//! What an engine's tests provide: empty stores, and optionally a clock and a way to reopen.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;

use crate::{Clock, Retention, Store};

/// Makes stores of one engine for the suites.
#[async_trait]
pub trait Harness: Send + Sync {
    /// An empty store that nobody else uses.
    async fn fresh(&self) -> Arc<dyn Store>;

    /// Whether a closed store can be opened again. Then [`Harness::reopen`] is called now and then.
    fn reopens(&self) -> bool {
        false
    }

    /// Opens again what a closed store has left behind.
    async fn reopen(&self, _closed: Arc<dyn Store>) -> Arc<dyn Store> {
        unreachable!("the harness says that its engine keeps nothing")
    }

    /// How the stores keep history. The model checks that they forget no more than that.
    fn retention(&self) -> Retention {
        Retention::default()
    }

    /// The clock of the stores, if the suite may move it. Without one, ages are not checked.
    fn clock(&self) -> Option<&ManualClock> {
        None
    }
}

/// A clock that moves only when told to. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}
