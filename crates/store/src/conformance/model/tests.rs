//! The model itself: it takes part in a reopening, and finds out a store that comes back changed.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::{
    Expect, Memory, Store, Txn,
    conformance::{Harness, model},
};

/// Memory stores that seem to survive being closed.
#[derive(Default)]
struct Reopening {
    opened: Mutex<Option<Arc<Memory>>>,
    n_reopened: Mutex<usize>,
    /// Loses a key on the way, if there is one.
    forgetful: bool,
}

impl Reopening {
    fn hand_out(&self, store: Memory) -> Arc<dyn Store> {
        let store = Arc::new(store);
        *self.opened.lock().unwrap() = Some(store.clone());
        store
    }
}

#[async_trait]
impl Harness for Reopening {
    async fn fresh(&self) -> Arc<dyn Store> {
        self.hand_out(Memory::new().unwrap())
    }

    fn reopens(&self) -> bool {
        true
    }

    async fn reopen(&self, _closed: Arc<dyn Store>) -> Arc<dyn Store> {
        *self.n_reopened.lock().unwrap() += 1;
        let again = self.opened.lock().unwrap().take().expect("a store was closed").again().unwrap();
        let first = again.tables().state().live.values().next().cloned();
        if let Some(entry) = first.filter(|_| self.forgetful) {
            again.commit(Txn::new().delete(entry.key.clone(), Expect::Any)).await.unwrap();
        }
        self.hand_out(again)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_comes_back_as_it_was_passes() {
    let harness = Reopening::default();
    model::run(&harness, 10_000, 7).await;
    assert!(*harness.n_reopened.lock().unwrap() > 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_comes_back_without_a_key_is_found_out() {
    let run = async { model::run(&Reopening { forgetful: true, ..Reopening::default() }, 10_000, 7).await };
    assert!(tokio::spawn(run).await.is_err());
}
