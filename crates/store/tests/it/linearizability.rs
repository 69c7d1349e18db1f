//! Every engine is linearizable.

use windlass_store::conformance::linear::{Load, run};

use crate::harness::{Directories, Etcds, Memories};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn embedded_is_linearizable() {
    for seed in 0..3 {
        run(&Directories::default(), Load { seed, ..Load::default() }).await;
    }
    run(&Directories::default(), Load { n_clients: 16, n_calls: 500, n_keys: 2, seed: 9 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn etcd_is_linearizable() {
    let Some(etcds) = Etcds::spawn().await else { return };
    for seed in 0..3 {
        run(&etcds, Load { seed, ..Load::default() }).await;
    }
    run(&etcds, Load { n_clients: 16, n_calls: 200, n_keys: 2, seed: 9 }).await;
}
