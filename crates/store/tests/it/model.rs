//! Every engine acts like the model, whatever it is asked in whatever order.

use std::time::Duration;

use windlass_store::{
    Retention,
    conformance::model::{N_OPS, run},
};

use crate::harness::Memories;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_acts_like_the_model() {
    run(&Memories::default(), N_OPS, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_acts_like_the_model_while_it_forgets_by_age() {
    let retention = Retention { min_age: Duration::from_secs(5), min_changes: 500, max_bytes: u64::MAX };
    run(&Memories { retention, ..Memories::default() }, N_OPS / 2, 1_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_acts_like_the_model_while_it_forgets_by_size() {
    let retention = Retention { min_age: Duration::MAX, min_changes: usize::MAX, max_bytes: 256 << 10 };
    run(&Memories { retention, ..Memories::default() }, N_OPS / 2, 2_000_000).await;
}
