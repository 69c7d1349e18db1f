//! Durable writes by few and by many, against a bare loop that writes and syncs the same bytes in groups of the
//! same size.

use std::sync::{Arc, atomic::Ordering};

use windlass_store::Embedded;

use super::{
    Bench,
    bare::Bare,
    load::{self, Limit, VALUE_BYTES},
    say,
};
use crate::{
    process::processor_nanos,
    report::{Goal, Outcome, Section, Table},
    stats::{count, median, rate, time},
};

/// Writers whose speed is judged: as many as a busy API server has at a time.
const JUDGED_WRITERS: usize = 64;

/// One turn of ours and one of the bare loop.
#[derive(Clone, Copy, Debug)]
struct Pair {
    writers: usize,
    rate: f64,
    p50: f64,
    p99: f64,
    group: f64,
    processor: f64,
    bare_rate: f64,
    bare_p50: f64,
}

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let folder = bench.folder("writes")?;
    let bare = Bare::create(&folder, bench.scale.bare_bytes)?;
    let store = load::filled(&folder.join("store"), bench.scale.hot_keys).await?;
    let mut pairs = vec![];
    for turn in 1..=bench.scale.pairs {
        for &writers in bench.scale.writers {
            say(&format!("writes: measuring {writers} writers, turn {turn} of {}…", bench.scale.pairs));
            pairs.push(measure_pair(bench, &store, &bare, writers).await?);
        }
    }
    Ok(report(bench, &pairs))
}

async fn measure_pair(
    bench: &Bench,
    store: &Arc<Embedded>,
    bare: &Bare,
    writers: usize,
) -> anyhow::Result<Pair> {
    let counted = || {
        let counters = store.counters();
        (counters.commits.load(Ordering::Relaxed), counters.groups.load(Ordering::Relaxed))
    };
    let keys = bench.scale.hot_keys;
    let (commits, groups) = counted();
    let processor = processor_nanos()?;
    let mut ours = load::update(store, writers, keys, Limit::time(bench.scale.turn)).await?;
    let processor = processor_nanos()?.saturating_sub(processor);
    let (commits_after, groups_after) = counted();
    let group = (commits_after - commits) as f64 / (groups_after - groups).max(1) as f64;
    let group_bytes = (group * load::commit_bytes(keys) as f64).round() as u64;
    let mut theirs = bare.append(group_bytes, bench.scale.turn).await?;
    Ok(Pair {
        writers,
        rate: ours.rate(),
        p50: ours.latencies.quantile(0.5),
        p99: ours.latencies.quantile(0.99),
        group,
        processor: processor as f64 / ours.latencies.len() as f64,
        bare_rate: theirs.rate() * group,
        bare_p50: theirs.latencies.quantile(0.5),
    })
}

fn report(bench: &Bench, pairs: &[Pair]) -> Section {
    let mut section = Section::new("Durable writes");
    let mut table = Table::new(&[
        "writers",
        "commits/s",
        "p50",
        "p99",
        "group",
        "CPU each",
        "bare loop",
        "its p50",
        "ours / bare",
    ]);
    for &writers in bench.scale.writers {
        let of =
            |field: fn(&Pair) -> f64| median(pairs.iter().filter(|pair| pair.writers == writers).map(field));
        let ratio = of(|pair| pair.rate / pair.bare_rate);
        table.row([
            writers.to_string(),
            rate(of(|pair| pair.rate)),
            time(of(|pair| pair.p50)),
            time(of(|pair| pair.p99)),
            format!("{:.1}", of(|pair| pair.group)),
            time(of(|pair| pair.processor)),
            rate(of(|pair| pair.bare_rate)),
            time(of(|pair| pair.bare_p50)),
            format!("{ratio:.2}"),
        ]);
        if writers == JUDGED_WRITERS {
            section.outcomes.push(Outcome {
                what: format!("writes by {writers}, of the bare loop"),
                ours: rate(of(|pair| pair.rate)),
                yardstick: rate(of(|pair| pair.bare_rate)),
                measured: ratio,
                unit: " ×",
                goal: Goal::AtLeast(0.6),
            });
        }
        if writers == 1 {
            section.outcomes.push(Outcome {
                what: "latency of a lone write, of append and sync".into(),
                ours: time(of(|pair| pair.p50)),
                yardstick: time(of(|pair| pair.bare_p50)),
                measured: of(|pair| pair.p50 / pair.bare_p50),
                unit: " ×",
                goal: Goal::AtMost(1.5),
            });
        }
    }
    section.tables.push(table);
    section.notes.push(format!(
        "Embedded engine, updates of {} keys with values of {VALUE_BYTES} bytes. The bare loop writes as many bytes \
         as our mean group holds to a file of zeros and syncs them, on one thread, with nothing in memory. CPU is \
         what the whole process takes for a commit, those who write included.",
        count(bench.scale.hot_keys as u64)
    ));
    section
}
