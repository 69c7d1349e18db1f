//! What watchers cost whoever writes, and how soon they hear of it.
//!
//! The engine is the one in memory, so that what is measured is the watching and not the disk. Three questions:
//! what a commit costs beside watchers that do not read, as many commits as fit; what it costs and when changes
//! arrive beside watchers that read, at a steady pace; and how many deliveries fit into a second. The first
//! isolates the writer's path: on a few cores, tasks that read take the processor from the writer, and what
//! they take is not a cost of publishing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{runtime::Handle, task::JoinSet};
use windlass_store::{Delivery, Expect, Memory, ReadError, Revision, Store, Txn, Watch};

use super::{Bench, load, say};
use crate::{
    report::{Goal, Outcome, Section, Table},
    stats::{Latencies, count, median, rate, time},
};

/// What everybody watches.
const PREFIX: &str = "pods/";

/// Keys that are written, all under [`PREFIX`].
const KEYS: usize = 1_000;

/// Changes a second while deliveries are timed.
const PACE: u32 = 100;

/// Changes written at once to see how many deliveries fit into a second: fewer than a watcher may be behind
/// before it has to look into the history.
const BURST: usize = 200;

/// How often that is done in a turn.
const BURSTS: usize = 5;

/// A store and those who watch it.
struct Crowd {
    size: usize,
    store: Arc<Memory>,
    watches: Vec<Watch>,
}

impl Crowd {
    /// A store with its keys in it, and `size` watchers of the prefix that `prefix` gives for each.
    async fn gather(size: usize, prefix: impl Fn(usize) -> String) -> anyhow::Result<Self> {
        let store = Arc::new(Memory::new()?);
        load::fill(&store, KEYS).await?;
        let head = store.window().head;
        let mut watches = Vec::with_capacity(size);
        for idx in 0..size {
            watches.push(store.watch(prefix(idx).as_bytes(), head).await?);
        }
        Ok(Crowd { size, store, watches })
    }
}

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let mut section = Section::new("Watchers");
    measure_unread(bench, &mut section).await?;
    measure_deliveries(bench, &mut section).await?;
    measure_bursts(bench, &mut section).await?;
    Ok(section)
}

/// Commits, one right after the other, beside watchers that do not read.
async fn measure_unread(bench: &Bench, section: &mut Section) -> anyhow::Result<()> {
    let mut crowds = vec![];
    for &size in bench.scale.watchers {
        crowds.push((watchers(size), Crowd::gather(size, |_| PREFIX.into()).await?));
    }
    let elsewhere = Crowd::gather(bench.scale.crowd, |idx| format!("services/namespace-{idx}/")).await?;
    crowds.push((format!("{} elsewhere", watchers(elsewhere.size)), elsewhere));
    say("watchers: measuring commits beside watchers that do not read…");
    let mut turns = vec![];
    for _ in 0..bench.scale.pairs {
        let mut turn = vec![];
        for (_, crowd) in &crowds {
            turn.push(commit_all(crowd.store.clone(), bench.scale.watched_commits).await?.quantile(0.5));
        }
        turns.push(turn);
    }
    let mut table = Table::new(&["nobody reads", "commit", "beside one watcher"]);
    let alone = time(median(turns.iter().map(|turn| turn[0])));
    for (idx, (label, crowd)) in crowds.iter().enumerate() {
        let commit = time(median(turns.iter().map(|turn| turn[idx])));
        let ratio = median(turns.iter().map(|turn| turn[idx] / turn[0]));
        table.row([label.clone(), commit.clone(), format!("{ratio:.2}")]);
        let goal = match crowd.size == bench.scale.crowd {
            true if idx == crowds.len() - 1 => Goal::AtMost(1.2),
            true => Goal::AtMost(1.5),
            false => continue,
        };
        let what = format!("commit beside {label}");
        section.outcomes.push(Outcome {
            what,
            ours: commit,
            yardstick: format!("beside one {alone}"),
            measured: ratio,
            unit: " ×",
            goal,
        });
    }
    section.tables.push(table);
    Ok(())
}

fn watchers(size: usize) -> String {
    format!("{} watcher{}", count(size as u64), if size == 1 { "" } else { "s" })
}

/// Makes `n_commits` on a thread of its own, and times each.
async fn commit_all(store: Arc<Memory>, n_commits: usize) -> anyhow::Result<Latencies> {
    let committing = move || {
        let mut random = fastrand::Rng::with_seed(3);
        let mut latencies = Latencies::default();
        for _ in 0..n_commits {
            let txn = Txn::new().put(load::key(random.usize(..KEYS)), load::value(0), Expect::Any);
            let begun = Instant::now();
            Handle::current().block_on(store.commit(txn))?;
            latencies.push(begun.elapsed());
        }
        Ok(latencies)
    };
    tokio::task::spawn_blocking(committing).await?
}

/// Tasks that read what they watch, and note when each change arrived.
struct Readers {
    size: usize,
    store: Arc<Memory>,
    begun: Instant,
    tasks: JoinSet<Result<Latencies, ReadError>>,
    /// How long commits took.
    commits: Latencies,
    /// How long changes were written to them.
    elapsed: Duration,
}

impl Readers {
    async fn gather(size: usize) -> anyhow::Result<Self> {
        let Crowd { size, store, watches } = Crowd::gather(size, |_| PREFIX.into()).await?;
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for watch in watches {
            tasks.spawn(read_all(watch, begun));
        }
        Ok(Readers { size, store, begun, tasks, commits: Latencies::default(), elapsed: Duration::ZERO })
    }

    /// Commits at the pace for this long, from a thread of its own.
    async fn write(&mut self, turn: Duration) -> anyhow::Result<()> {
        let (store, begun) = (self.store.clone(), self.begun);
        let writing = move || {
            let turn_begun = Instant::now();
            let mut latencies = Latencies::default();
            for idx in 0..(turn.as_secs_f64() * f64::from(PACE)).ceil() as u32 {
                let due = turn_begun + Duration::from_secs(1) / PACE * idx;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let txn = Txn::new().put(load::key(idx as usize % KEYS), stamped(begun), Expect::Any);
                let asked = Instant::now();
                Handle::current().block_on(store.commit(txn))?;
                latencies.push(asked.elapsed());
            }
            anyhow::Ok(latencies)
        };
        self.commits.merge(tokio::task::spawn_blocking(writing).await??);
        self.elapsed += turn;
        Ok(())
    }

    /// Ends the watches; returns how long every change took to arrive at every watcher.
    async fn finish(&mut self) -> anyhow::Result<Latencies> {
        // What has been written is still on its way to the last of them.
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.store.close().await;
        let mut arrivals = Latencies::default();
        while let Some(read) = self.tasks.join_next().await {
            arrivals.merge(read??);
        }
        Ok(arrivals)
    }
}

/// A value that says when it was written.
fn stamped(begun: Instant) -> Bytes {
    load::value(begun.elapsed().as_nanos() as u64)
}

/// Reads until the store is closed.
async fn read_all(mut watch: Watch, begun: Instant) -> Result<Latencies, ReadError> {
    let mut arrivals = Latencies::default();
    loop {
        let changes = match watch.next().await {
            Ok(Delivery::Changes(changes)) => changes,
            Ok(Delivery::Progress(_)) => continue,
            Err(ReadError::Stopped(_)) => return Ok(arrivals),
            Err(error) => return Err(error),
        };
        for entry in changes.iter().filter_map(|change| change.current.as_ref()) {
            if let Some(stamp) = entry.value.first_chunk() {
                let written = Duration::from_nanos(u64::from_le_bytes(*stamp));
                arrivals.push(begun.elapsed().saturating_sub(written));
            }
        }
    }
}

/// Commits at a steady pace, beside watchers that read.
async fn measure_deliveries(bench: &Bench, section: &mut Section) -> anyhow::Result<()> {
    let mut crowds = vec![];
    for &size in bench.scale.watchers {
        crowds.push(Readers::gather(size).await?);
    }
    for turn in 1..=bench.scale.pairs {
        say(&format!("watchers: timing deliveries, turn {turn} of {}…", bench.scale.pairs));
        for readers in &mut crowds {
            readers.write(bench.scale.turn).await?;
        }
    }
    let mut table =
        Table::new(&["everybody reads", "commit", "deliveries/s", "p50 to arrive", "p99 to arrive"]);
    for readers in &mut crowds {
        let mut arrivals = readers.finish().await?;
        table.row([
            watchers(readers.size),
            time(readers.commits.quantile(0.5)),
            rate(arrivals.len() as f64 / readers.elapsed.as_secs_f64()),
            time(arrivals.quantile(0.5)),
            time(arrivals.quantile(0.99)),
        ]);
    }
    section.tables.push(table);
    section.notes.push(format!(
        "Memory engine. Watchers that do not read show what a commit costs by itself: it is the same whoever \
         watches. Beside watchers that read, {PACE} changes a second, it is dearer because its thread and its \
         caches have been put to other use since the last one."
    ));
    Ok(())
}

/// Changes as fast as they can be written, and the time until the last watcher has the last of them.
async fn measure_bursts(bench: &Bench, section: &mut Section) -> anyhow::Result<()> {
    let Crowd { size, store, watches } = Crowd::gather(bench.scale.crowd, |_| PREFIX.into()).await?;
    let mut watches = watches;
    let mut rates = vec![];
    for _ in 0..bench.scale.pairs * BURSTS {
        let target = Revision::new(store.window().head.get() + BURST as u64);
        let mut tasks = JoinSet::new();
        for watch in watches.drain(..) {
            tasks.spawn(read_until(watch, target));
        }
        let begun = Instant::now();
        commit_all(store.clone(), BURST).await?;
        while let Some(watch) = tasks.join_next().await {
            watches.push(watch??);
        }
        rates.push((size * BURST) as f64 / begun.elapsed().as_secs_f64());
    }
    section.notes.push(format!(
        "Written without a pause, {BURST} changes reach {} at {} deliveries a second.",
        watchers(size),
        count(median(rates).round() as u64)
    ));
    Ok(())
}

async fn read_until(mut watch: Watch, target: Revision) -> Result<Watch, ReadError> {
    while watch.delivered() < target {
        watch.next().await?;
    }
    Ok(watch)
}
