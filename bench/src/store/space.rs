//! Endless updates: what they take on disk beside the live data, and whether anyone has to wait for long.

use std::{path::PathBuf, sync::Arc, time::Duration};

use windlass_store::{Embedded, Read, Store};

use super::{
    Bench,
    bare::Bare,
    disk_bytes,
    load::{self, Limit},
    say,
};
use crate::{
    report::{Goal, Outcome, Section, Table},
    stats::{count, mebibytes, rate, time},
};

/// Tasks that write.
const WRITERS: usize = 16;

/// How often the directory is looked at.
const SAMPLE: Duration = Duration::from_millis(500);

/// How long the bare disk is measured afterwards, as a share of the time ours took.
const BARE_SHARE: u32 = 4;

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let folder = bench.folder("space")?;
    let keys = bench.scale.keys;
    say(&format!("space: writing {} keys…", count(keys as u64)));
    let store_folder = folder.join("store");
    let store = load::filled(&store_folder, keys).await?;
    let limit = Limit { time: bench.scale.space_time, commits: bench.scale.space_turnover * keys as u64 };
    say(&format!("space: updating them for up to {:?}…", limit.time));
    let sampler = Sampler::spawn(store.clone(), store_folder.clone());
    let mut ours = load::update(&store, WRITERS, keys, limit).await?;
    let most = sampler.stop()?;
    let live = live_bytes(&store).await?;
    let end = disk_bytes(&store_folder)? as f64 / live as f64;
    drop(store);

    let bare = Bare::create(&folder, bench.scale.bare_bytes)?;
    let group_bytes = WRITERS as u64 * load::commit_bytes(keys);
    let mut theirs = bare.append(group_bytes, ours.elapsed / BARE_SHARE).await?;

    let mut section = Section::new("Space and stalls");
    let mut table = Table::new(&["", "commits", "rate", "p50", "p99", "p99.9", "slowest"]);
    for (who, ran) in [("ours", &mut ours), ("append and sync", &mut theirs)] {
        let quantiles = [0.5, 0.99, 0.999, 1.0].map(|share| time(ran.latencies.quantile(share)));
        let counts = [who.into(), count(ran.latencies.len() as u64), rate(ran.rate())];
        table.row(counts.into_iter().chain(quantiles));
    }
    section.tables.push(table);
    section.notes.push(format!(
        "{WRITERS} writers update {} keys ({} live) at random until all has been written {} times over, or for {:?}. \
         Files took up to {most:.2} times what is live, {end:.2} times at the end.",
        count(keys as u64),
        mebibytes(live as f64),
        bench.scale.space_turnover,
        limit.time,
    ));
    section.outcomes.push(Outcome {
        what: "files, of live bytes, at most".into(),
        ours: mebibytes(most * live as f64),
        yardstick: format!("{} live", mebibytes(live as f64)),
        measured: most,
        unit: " ×",
        goal: Goal::AtMost(3.0),
    });
    section.outcomes.push(Outcome {
        what: "stalls, p99.9 of a write".into(),
        ours: time(ours.latencies.quantile(0.999)),
        yardstick: format!("bare {}", time(theirs.latencies.quantile(0.999))),
        measured: ours.latencies.quantile(0.999) / 1e6,
        unit: " ms",
        goal: Goal::AtMost(100.0),
    });
    Ok(section)
}

async fn live_bytes(store: &Embedded) -> anyhow::Result<u64> {
    Ok(store.snapshot(Read::Latest).await?.live_bytes())
}

/// A task that watches a directory.
struct Sampler {
    most_rx: tokio::sync::watch::Receiver<f64>,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Sampler {
    fn spawn(store: Arc<Embedded>, folder: PathBuf) -> Self {
        let (most_tx, most_rx) = tokio::sync::watch::channel(0.0);
        let task = tokio::spawn(async move {
            loop {
                let ratio = disk_bytes(&folder)? as f64 / live_bytes(&store).await? as f64;
                most_tx.send_modify(|most| *most = ratio.max(*most));
                tokio::time::sleep(SAMPLE).await;
            }
        });
        Sampler { most_rx, task }
    }

    /// Looks no further; returns the most bytes of files there have been for each live one.
    fn stop(self) -> anyhow::Result<f64> {
        anyhow::ensure!(!self.task.is_finished(), "the directory could not be looked at");
        Ok(*self.most_rx.borrow())
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}
