//! Where the suites get the stores of each engine from.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_store::{
    Memory, Retention, Store,
    conformance::{Harness, ManualClock},
};

/// Stores in memory.
#[derive(Default)]
pub(crate) struct Memories {
    pub(crate) retention: Retention,
    pub(crate) clock: ManualClock,
}

#[async_trait]
impl Harness for Memories {
    async fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(Memory::with(self.retention, self.clock.clone()).expect("a thread can be spawned"))
    }

    fn retention(&self) -> Retention {
        self.retention
    }

    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.clock)
    }
}
