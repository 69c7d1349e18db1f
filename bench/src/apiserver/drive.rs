//! Clients that ask one thing after the other, and how long each answer took.
//!
//! There is a thread for each core, with a runtime of its own that serves its share of the clients, so that no
//! work moves between threads. Start at [`drive`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use tokio::{sync::watch, task::JoinSet};

use super::client::{Answer, Asked, Endpoint};
use crate::stats::Latencies;

/// How long a client that was refused waits.
const PAUSE: Duration = Duration::from_millis(10);

/// Makes the next request, of this client, with this number.
pub(crate) type Make = dyn Fn(usize, u64, &mut fastrand::Rng) -> Asked + Send + Sync;

/// When clients stop: whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) time: Duration,
    pub(crate) requests: u64,
}

impl Limit {
    pub(crate) fn time(time: Duration) -> Self {
        Limit { time, requests: u64::MAX }
    }

    pub(crate) fn requests(requests: usize) -> Self {
        Limit { time: Duration::from_secs(240), requests: requests as u64 }
    }
}

/// What clients did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ran {
    pub(crate) elapsed: Duration,
    pub(crate) latencies: Latencies,
    /// Bytes of all answers, without their heads.
    pub(crate) bytes: u64,
    /// How often the server had too much to do.
    pub(crate) refused: u64,
    /// Nanoseconds of processor the server took, once all were connected; zero where that is not known.
    pub(crate) processor: u64,
}

impl Ran {
    /// Answers a second.
    pub(crate) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }
}

/// Lets `clients` ask until the limit, all beginning at once when the last is connected.
pub(crate) async fn drive(
    endpoint: &Arc<Endpoint>,
    clients: usize,
    limit: Limit,
    make: impl Fn(usize, u64, &mut fastrand::Rng) -> Asked + Send + Sync + 'static,
) -> anyhow::Result<Ran> {
    let make: Arc<Make> = Arc::new(make);
    let endpoint = endpoint.clone();
    // Nothing here may take a thread of the runtime that is measured beside it.
    tokio::task::spawn_blocking(move || on_every_core(&endpoint, clients, limit, &make)).await?
}

fn on_every_core(
    endpoint: &Arc<Endpoint>,
    clients: usize,
    limit: Limit,
    make: &Arc<Make>,
) -> anyhow::Result<Ran> {
    let n_threads = thread::available_parallelism().map_or(1, usize::from).min(clients);
    let (start_tx, start_rx) = watch::channel(None);
    let (ready_tx, ready_rx) = mpsc::channel();
    let left = Arc::new(AtomicU64::new(limit.requests));
    let threads: Vec<_> = (0..n_threads)
        .map(|idx| {
            let crew = Crew {
                endpoint: endpoint.clone(),
                clients: (idx..clients).step_by(n_threads).collect(),
                limit,
                left: left.clone(),
                make: make.clone(),
            };
            let (start_rx, ready_tx) = (start_rx.clone(), ready_tx.clone());
            thread::spawn(move || {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?
                    .block_on(crew.work(ready_tx, start_rx))
            })
        })
        .collect();
    drop((ready_tx, start_rx));
    // A crew that cannot connect hangs up, and says why when it is joined.
    let n_ready = ready_rx.iter().take(n_threads).count();
    let processor = endpoint.processor_nanos();
    let begun = Instant::now();
    if n_ready == n_threads {
        let _ = start_tx.send(Some(begun));
    }
    drop(start_tx);
    let mut ran = Ran::default();
    for thread in threads {
        let part = thread.join().map_err(|_| anyhow!("a client panicked"))??;
        ran.latencies.merge(part.latencies);
        ran.bytes += part.bytes;
        ran.refused += part.refused;
    }
    ran.elapsed = begun.elapsed();
    let spent = processor.zip(endpoint.processor_nanos());
    ran.processor = spent.map_or(0, |(before, after)| after.saturating_sub(before));
    Ok(ran)
}

/// The clients of one thread.
struct Crew {
    endpoint: Arc<Endpoint>,
    clients: Vec<usize>,
    limit: Limit,
    left: Arc<AtomicU64>,
    make: Arc<Make>,
}

impl Crew {
    async fn work(
        self,
        ready_tx: mpsc::Sender<()>,
        mut start_rx: watch::Receiver<Option<Instant>>,
    ) -> anyhow::Result<Ran> {
        let mut connections = vec![];
        for &client in &self.clients {
            connections.push((client, self.endpoint.connect().await?));
        }
        let _ = ready_tx.send(());
        drop(ready_tx);
        let begun = *start_rx.wait_for(Option::is_some).await.context("other clients could not connect")?;
        let begun = begun.unwrap_or_else(Instant::now);
        let mut tasks = JoinSet::new();
        for (client, mut connection) in connections {
            let (make, left, limit) = (self.make.clone(), self.left.clone(), self.limit);
            tasks.spawn(async move {
                let mut random = fastrand::Rng::with_seed(client as u64);
                let mut ran = Ran::default();
                let mut nth = 0;
                while begun.elapsed() < limit.time && take_one(&left) {
                    let request = make(client, nth, &mut random);
                    nth += 1;
                    let asked = Instant::now();
                    match connection.send(request).await? {
                        Answer::Good(bytes) => {
                            ran.latencies.push(asked.elapsed());
                            ran.bytes += bytes;
                        }
                        Answer::Refused => {
                            ran.refused += 1;
                            tokio::time::sleep(PAUSE).await;
                        }
                    }
                }
                anyhow::Ok(ran)
            });
        }
        let mut all = Ran::default();
        while let Some(ran) = tasks.join_next().await {
            let ran = ran??;
            all.latencies.merge(ran.latencies);
            all.bytes += ran.bytes;
            all.refused += ran.refused;
        }
        Ok(all)
    }
}

fn take_one(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}
