//! Every engine keeps the contract.

use windlass_store::conformance::run_all;

use crate::harness::Memories;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_keeps_the_contract() {
    run_all(&Memories::default()).await;
}
