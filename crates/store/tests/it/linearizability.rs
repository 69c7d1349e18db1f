//! Every engine is linearizable.

use windlass_store::conformance::linear::{Load, run};

use crate::harness::Memories;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_is_linearizable() {
    for seed in 0..5 {
        run(&Memories::default(), Load { seed, ..Load::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_is_linearizable_when_everyone_wants_the_same_keys() {
    run(&Memories::default(), Load { n_clients: 16, n_calls: 500, n_keys: 2, seed: 0 }).await;
}
