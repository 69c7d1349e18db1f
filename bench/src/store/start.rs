//! How long a store takes to open, after each way its last process can have ended, against reading its files.

use std::{
    fs,
    io::Write,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use windlass_store::{Read, Store};

use super::{
    Bench, disk_bytes,
    load::{self, Limit},
    say,
};
use crate::{
    args::ChurnArgs,
    process::{Process, program},
    report::{Goal, Outcome, Section, Table},
    stats::{count, mebibytes, median, time},
};

/// Tasks that write while the process is about to be killed.
const CHURNERS: usize = 64;

/// Updates, as multiples of the keys, after which the log has been cut and most of the store is in parts.
const ROUNDS: u64 = 3;

/// No process is left to write for longer.
const CHURN_LIMIT: Duration = Duration::from_secs(60);

/// What one way of ending leaves to be opened.
struct Case {
    what: &'static str,
    files: String,
    bytes: u64,
    /// Nanoseconds of opening, and of reading the same files, turn by turn.
    turns: Vec<[f64; 2]>,
}

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let folder = bench.folder("start")?;
    let keys = bench.scale.keys;
    say(&format!("start: writing {} keys…", count(keys as u64)));
    drop(load::filled(&folder, keys).await?);
    let mut cases = vec![measure_case(bench, &folder, "closed after filling", || Ok(()))?];

    say("start: updating them…");
    let store = Arc::new(load::open(&folder)?);
    load::update(&store, CHURNERS, keys, Limit::commits(ROUNDS * keys as u64)).await?;
    drop(store);
    cases.push(measure_case(bench, &folder, "closed after updates", || Ok(()))?);

    say("start: killing whoever writes…");
    cases.push(measure_case(bench, &folder, "killed while writing", || churn_and_kill(&folder, keys))?);

    let survivors = load::open(&folder)?.snapshot(Read::Latest).await?.count(b"pods/");
    ensure!(survivors == keys, "{survivors} of {keys} keys are left");
    Ok(report(keys, &cases))
}

/// Opens the store in `folder` as often as there are turns, calling `before` each time.
fn measure_case(
    bench: &Bench,
    folder: &Path,
    what: &'static str,
    mut before: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Case> {
    let (mut files, mut bytes, mut turns) = (String::new(), 0, vec![]);
    for _ in 0..bench.scale.pairs {
        before()?;
        (files, bytes) = (file_counts(folder)?, disk_bytes(folder)?);
        let reading = read_files(folder)?;
        let begun = Instant::now();
        let store = load::open(folder)?;
        turns.push([begun.elapsed().as_nanos() as f64, reading]);
        drop(store);
    }
    Ok(Case { what, files, bytes, turns })
}

/// Reads every file once, in pieces as large as the store's; returns the nanoseconds it took.
fn read_files(folder: &Path) -> anyhow::Result<f64> {
    let begun = Instant::now();
    for file in fs::read_dir(folder)? {
        std::hint::black_box(fs::read(file?.path())?);
    }
    Ok(begun.elapsed().as_nanos() as f64)
}

fn file_counts(folder: &Path) -> anyhow::Result<String> {
    let (mut segments, mut parts) = (0, 0);
    for file in fs::read_dir(folder)? {
        let name = file?.file_name().to_string_lossy().into_owned();
        segments += usize::from(name.starts_with("log-"));
        parts += usize::from(name.starts_with("part-"));
    }
    Ok(format!("{segments} log, {parts} part"))
}

/// Lets another process write to the store in `folder`, and kills it in the middle.
fn churn_and_kill(folder: &Path, keys: usize) -> anyhow::Result<()> {
    let mut command = Command::new(program("windlass-bench")?);
    command.arg("churn").arg("--directory").arg(folder);
    command.args(["--keys", &keys.to_string(), "--updates", &(keys / 10).to_string()]);
    let mut process = Process::spawn_to_read(&mut command)?;
    process.line()?;
    process.kill()?;
    Ok(())
}

/// The other process: says when it has made its updates, and goes on until it is killed.
pub(crate) async fn churn(args: &ChurnArgs) -> anyhow::Result<()> {
    let ChurnArgs { directory, keys, updates } = args;
    let store = Arc::new(load::open(directory)?);
    load::update(&store, CHURNERS, *keys, Limit::commits(*updates)).await?;
    writeln!(std::io::stdout(), "updated")?;
    load::update(&store, CHURNERS, *keys, Limit::time(CHURN_LIMIT)).await?;
    Ok(())
}

fn report(keys: usize, cases: &[Case]) -> Section {
    let mut section = Section::new("Start");
    let mut table =
        Table::new(&["last process", "files", "bytes", "open", "reading the files", "open / read"]);
    for Case { what, files, bytes, turns } in cases {
        let open = median(turns.iter().map(|turn| turn[0]));
        let read = median(turns.iter().map(|turn| turn[1]));
        let ratio = median(turns.iter().map(|turn| turn[0] / turn[1]));
        table.row([
            (*what).into(),
            files.clone(),
            mebibytes(*bytes as f64),
            time(open),
            time(read),
            format!("{ratio:.1}"),
        ]);
        section.outcomes.push(Outcome {
            what: format!("start, {what}"),
            ours: time(open),
            yardstick: format!("read {}", time(read)),
            measured: open / 1e9,
            unit: " s",
            goal: Goal::AtMost(1.0),
        });
    }
    section.tables.push(table);
    section.notes.push(format!(
        "{} keys with values of one KiB. Opening verifies every byte, builds the tables and makes the first segment \
         ready. The files are in the page cache.",
        count(keys as u64)
    ));
    section
}
