//! Writers: tasks that put values of one KiB under Kubernetes-like keys, one after the other, and note how long
//! each took.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::task::JoinSet;
use windlass_store::{Embedded, Expect, Retention, Store, Txn};

use crate::stats::Latencies;

/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 1024;

/// Keys that share a namespace, and so a prefix.
pub(crate) const NAMESPACE_KEYS: usize = 500;

/// Tasks that fill a store: enough to make the disk the limit.
const FILLERS: usize = 64;

/// The key with this number.
pub(crate) fn key(idx: usize) -> String {
    format!("pods/namespace-{}/name-{idx}", idx / NAMESPACE_KEYS)
}

/// A value of its own each time, as a request brings one.
pub(crate) fn value(seed: u64) -> Bytes {
    let mut value = vec![seed as u8; VALUE_BYTES];
    value[..8].copy_from_slice(&seed.to_le_bytes());
    value.into()
}

/// What one commit brings to the disk at least: a key and a value.
pub(crate) fn commit_bytes(keys: usize) -> u64 {
    (key(keys / 2).len() + VALUE_BYTES) as u64
}

/// Something that can be written to.
pub(crate) trait Target: Send + Sync + 'static {
    /// Puts a value, durably. `writer` is the number of the task.
    fn put(
        &self,
        writer: usize,
        key: String,
        value: Bytes,
    ) -> impl Future<Output = anyhow::Result<()>> + Send;
}

impl<S: Store> Target for S {
    async fn put(&self, _: usize, key: String, value: Bytes) -> anyhow::Result<()> {
        self.commit(Txn::new().put(key, value, Expect::Any)).await?;
        Ok(())
    }
}

/// When writers stop: whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) time: Duration,
    pub(crate) commits: u64,
}

impl Limit {
    pub(crate) fn time(time: Duration) -> Self {
        Limit { time, commits: u64::MAX }
    }

    pub(crate) fn commits(commits: u64) -> Self {
        Limit { time: Duration::from_secs(120), commits }
    }
}

/// What writers did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ran {
    pub(crate) elapsed: Duration,
    pub(crate) latencies: Latencies,
}

impl Ran {
    /// Commits a second.
    pub(crate) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }
}

/// Lets `writers` tasks update random ones of `keys` keys until the limit.
pub(crate) async fn update<T: Target>(
    target: &Arc<T>,
    writers: usize,
    keys: usize,
    limit: Limit,
) -> anyhow::Result<Ran> {
    let begun = Instant::now();
    let left = Arc::new(AtomicU64::new(limit.commits));
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let (target, left) = (target.clone(), left.clone());
        tasks.spawn(async move {
            let mut random = fastrand::Rng::with_seed(writer as u64);
            let mut latencies = Latencies::default();
            while begun.elapsed() < limit.time && take_one(&left) {
                let (key, value) = (key(random.usize(..keys)), value(random.u64(..)));
                let asked = Instant::now();
                target.put(writer, key, value).await?;
                latencies.push(asked.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let mut ran = Ran::default();
    while let Some(latencies) = tasks.join_next().await {
        ran.latencies.merge(latencies??);
    }
    ran.elapsed = begun.elapsed();
    Ok(ran)
}

fn take_one(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// Puts every one of `keys` keys once, in no order.
pub(crate) async fn fill<T: Target>(target: &Arc<T>, keys: usize) -> anyhow::Result<()> {
    let mut order: Vec<usize> = (0..keys).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let mut tasks = JoinSet::new();
    for (writer, idxs) in order.chunks(keys.div_ceil(FILLERS)).enumerate() {
        let (target, idxs) = (target.clone(), idxs.to_vec());
        tasks.spawn(async move {
            for idx in idxs {
                target.put(writer, key(idx), value(idx as u64)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    Ok(())
}

/// A store in `folder` with `keys` keys.
pub(crate) async fn filled(folder: &Path, keys: usize) -> anyhow::Result<Arc<Embedded>> {
    let store = Arc::new(open(folder)?);
    fill(&store, keys).await?;
    Ok(store)
}

/// Opens the store in `folder` as the server would.
pub(crate) fn open(folder: &Path) -> anyhow::Result<Embedded> {
    Ok(Embedded::open(folder, Retention::default())?)
}
