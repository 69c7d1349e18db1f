//! What a store occupies in memory for each byte that is live in it, over two allocators.
//!
//! Each measurement is a process of its own that opens the store and says what it occupies; what a process
//! with an empty store occupies is taken off.

use std::{fs, io::Write, path::Path, process::Command, sync::Arc, time::Duration};

use anyhow::Context;
use windlass_store::{Read, Store};

use super::{
    Bench,
    load::{self, Limit},
    say,
};
use crate::{
    args::HoldArgs,
    process::{Process, program, resident_bytes},
    report::{Goal, Outcome, Section, Table},
    stats::{count, mebibytes},
};

/// Tasks that make the updates.
const WRITERS: usize = 16;

/// How long threads get to give back what they no longer need.
const SETTLE: Duration = Duration::from_millis(300);

/// The programs and their allocators.
const ALLOCATORS: [(&str, &str); 2] = [("glibc", "windlass-bench"), ("mimalloc", "windlass-bench-mimalloc")];

/// The allocator that is judged: the one the server runs over.
const SHIPPED: &str = ALLOCATORS[0].0;

/// What a process said of itself.
#[derive(Clone, Copy, Debug)]
struct Held {
    resident: u64,
    live: u64,
}

/// What was found over one allocator.
struct Case {
    allocator: &'static str,
    empty: Held,
    opened: Held,
    updated: Held,
}

impl Case {
    /// Resident bytes for each live one, without what a process takes anyway.
    fn ratio(&self, held: Held) -> f64 {
        held.resident.saturating_sub(self.empty.resident) as f64 / held.live as f64
    }
}

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let folder = bench.folder("memory")?;
    let keys = bench.scale.keys;
    let mut cases = vec![];
    for (allocator, name) in ALLOCATORS {
        if !program(name)?.exists() {
            say(&format!("memory: there is no {name}: build the whole package"));
            continue;
        }
        say(&format!("memory: measuring {allocator}…"));
        let store = folder.join(allocator);
        drop(load::filled(&store, keys).await?);
        let [empty, _] = run_held(name, &folder.join(format!("{allocator}-empty")), 1, 0)?;
        let [opened, updated] = run_held(name, &store, keys, keys as u64)?;
        cases.push(Case { allocator, empty, opened, updated });
        fs::remove_dir_all(&store)?;
    }
    Ok(report(keys, &cases))
}

/// Opens the store in `folder` in a process of its own; returns what it held before and after the updates.
fn run_held(name: &str, folder: &Path, keys: usize, updates: u64) -> anyhow::Result<[Held; 2]> {
    let mut command = Command::new(program(name)?);
    command.arg("hold").arg("--directory").arg(folder);
    command.args(["--keys", &keys.to_string(), "--updates", &updates.to_string()]);
    let mut process = Process::spawn_to_read(&mut command)?;
    let mut held = || {
        let line = process.line()?;
        let (resident, live) = line.split_once(' ').context("two numbers were expected")?;
        anyhow::Ok(Held { resident: resident.parse()?, live: live.parse()? })
    };
    Ok([held()?, held()?])
}

/// The other process: says what it occupies and what is live, after opening and after the updates.
pub(crate) async fn hold(args: &HoldArgs) -> anyhow::Result<()> {
    let HoldArgs { directory, keys, updates } = args;
    let store = Arc::new(load::open(directory)?);
    for updates in [0, *updates] {
        drop(load::update(&store, WRITERS, *keys, Limit::commits(updates)).await?);
        tokio::time::sleep(SETTLE).await;
        let live = store.snapshot(Read::Latest).await?.live_bytes();
        writeln!(std::io::stdout(), "{} {live}", resident_bytes()?)?;
    }
    Ok(())
}

fn report(keys: usize, cases: &[Case]) -> Section {
    let mut section = Section::new("Memory");
    let mut table = Table::new(&["allocator", "store", "resident", "of it without a store", "live", "ratio"]);
    for case in cases {
        let states = [("opened", case.opened), ("window full", case.updated)];
        for (state, held) in states {
            let ratio = case.ratio(held);
            let [resident, empty, live] =
                [held.resident, case.empty.resident, held.live].map(|bytes| mebibytes(bytes as f64));
            if case.allocator == SHIPPED {
                section.outcomes.push(Outcome {
                    what: format!("memory, {state}, of live bytes"),
                    ours: resident.clone(),
                    yardstick: format!("{live} live"),
                    measured: ratio,
                    unit: " ×",
                    goal: Goal::AtMost(2.2),
                });
            }
            table.row([case.allocator.into(), state.into(), resident, empty, live, format!("{ratio:.2}")]);
        }
    }
    section.tables.push(table);
    section.notes.push(format!(
        "{} keys with values of one KiB. After as many updates as there are keys the window is full: it holds every value once more.",
        count(keys as u64)
    ));
    section
}
