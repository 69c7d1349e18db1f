//! Every engine keeps the contract.

use std::sync::Arc;

use windlass_store::conformance::{ToySeal, run_all};

use crate::harness::{Directories, Etcds, Memories};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_keeps_the_contract() {
    run_all(&Memories::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn embedded_keeps_the_contract() {
    run_all(&Directories::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn etcd_keeps_the_contract() {
    let Some(etcds) = Etcds::spawn().await else { return };
    run_all(&etcds).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sealed_embedded_keeps_the_contract() {
    run_all(&Directories { seal: Some(Arc::new(ToySeal::new([1]))), ..Directories::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sealed_etcd_keeps_the_contract() {
    let Some(mut etcds) = Etcds::spawn().await else { return };
    etcds.seal = Some(Arc::new(ToySeal::new([1])));
    run_all(&etcds).await;
}
