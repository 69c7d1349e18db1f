//! The controller runtime's benchmark: our informers beside kube's reflector, the way of a change to a reconcile, and
//! look-ups in an index.
//!
//! What keeps objects is a process of its own each time, so that what it occupies is its own. Start at [`run`].

mod keep;
mod reconciles;

use std::{process::Command, time::Instant};

use anyhow::{Context, bail};

pub(crate) use self::keep::keep;
use crate::{
    apiserver::{objects, target},
    args::{Keeper, OwnArgs},
    machine::Machine,
    print,
    process::{self, Process},
    report::{self, Goal, Outcome, Section, Table},
    say,
    stats::{count, mebibytes, median, rate, time},
};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Objects of one KiB.
    many: usize,
    few: usize,
    turns: usize,
    /// Objects on their way from a stream to a reconcile.
    reconciles: u32,
}

/// Controllers that want the same kind.
const CONTROLLERS: usize = 100;

/// Measures everything, and prints each part as it is done.
pub(crate) async fn run(args: &OwnArgs) -> anyhow::Result<()> {
    let OwnArgs { quick, tiny, directory, server, markdown } = args;
    let scale = match (tiny, quick) {
        (true, _) => Scale { many: 200, few: 20, turns: 1, reconciles: 500 },
        (_, true) => Scale { many: 20_000, few: 1_000, turns: 3, reconciles: 50_000 },
        _ => Scale { many: 100_000, few: 1_000, turns: 3, reconciles: 200_000 },
    };
    let machine = Machine::describe(directory, "windlass-bench runtime".to_owned());
    print(&machine.text())?;
    let program = target::program(server.as_deref())?;
    let folder = tempfile::Builder::new().prefix("windlass-bench-").tempdir_in(directory)?;
    let mut sections = vec![];
    for section in
        [caches(scale, &program, folder.path()).await?, reconciles::measure(scale.reconciles).await?]
    {
        print(&section.text())?;
        sections.push(section);
    }
    print(&report::summary(&sections))?;
    if let Some(file) = markdown {
        report::write(file, "runtime", &report::markdown("The controller runtime", &machine, &sections))?;
    }
    Ok(())
}

/// What keeping objects took, turn by turn.
#[derive(Default)]
struct Kept {
    nanos: Vec<f64>,
    bytes: Vec<f64>,
    look_up: Vec<f64>,
}

async fn caches(
    scale: Scale,
    program: &std::path::Path,
    folder: &std::path::Path,
) -> anyhow::Result<Section> {
    let data = folder.join("data");
    let (server, _) = target::Server::start(program, &data).await?;
    say(&format!("caches: creating {} objects…", count(scale.many as u64)));
    for (namespace, n_objects) in [("many", scale.many), ("few", scale.few)] {
        objects::create_namespace(&server.endpoint, namespace).await?;
        objects::fill(&server.endpoint, namespace, n_objects).await?;
    }
    let keepers = [Keeper::Reflector, Keeper::Informer, Keeper::Indexed];
    let mut kept: [Kept; 3] = Default::default();
    let mut few = Kept::default();
    for turn in 1..=scale.turns {
        for (keeper, kept) in keepers.into_iter().zip(&mut kept) {
            say(&format!("caches: {keeper:?}, turn {turn} of {}…", scale.turns));
            measure_one(&data, "many", keeper, kept)?;
        }
        measure_one(&data, "few", Keeper::Indexed, &mut few)?;
    }
    let n_watches = keep::watches_of_controllers(&data.join("admin.kubeconfig"), CONTROLLERS).await?;
    server.end()?;

    let mut section = Section::new("Caches");
    let mut table = Table::new(&["kept by", "time to sync", "bytes for each object", "look-up"]);
    for (keeper, kept) in keepers.into_iter().zip(&kept) {
        let each = median(kept.bytes.iter().copied()) / scale.many as f64;
        let look_up = if keeper == Keeper::Indexed {
            time(median(kept.look_up.iter().copied()))
        } else {
            String::new()
        };
        let name = match keeper {
            Keeper::Reflector => "kube's reflector",
            Keeper::Informer => "our informer",
            Keeper::Indexed => "our informer with an index",
        };
        table.row([name.to_owned(), time(median(kept.nanos.iter().copied())), count(each as u64), look_up]);
    }
    section.tables.push(table);
    section.notes.push(format!(
        "{} ConfigMaps of one KiB in one namespace, listed over TLS by a process of its own each time. What an object takes is \
         what the process occupies afterwards above what it did before, the parsed object included.",
        count(scale.many as u64)
    ));
    let [reflector, informer, indexed] = &kept;
    let quotient = |what: &str, ours: f64, theirs: f64, shown: fn(f64) -> String, most: f64| Outcome {
        what: what.to_owned(),
        ours: shown(ours),
        yardstick: shown(theirs),
        measured: ours / theirs.max(1.0),
        unit: " ×",
        goal: Goal::AtMost(most),
    };
    section.outcomes.push(quotient(
        "time to sync, of the reflector's",
        median(informer.nanos.iter().copied()),
        median(reflector.nanos.iter().copied()),
        time,
        1.2,
    ));
    section.outcomes.push(quotient(
        "memory, of the reflector's",
        median(informer.bytes.iter().copied()),
        median(reflector.bytes.iter().copied()),
        mebibytes,
        1.1,
    ));
    section.outcomes.push(quotient(
        &format!("look-up among {}, of among {}", count(scale.many as u64), count(scale.few as u64)),
        median(indexed.look_up.iter().copied()),
        median(few.look_up.iter().copied()),
        time,
        2.0,
    ));
    section.outcomes.push(Outcome {
        what: format!("watches of {CONTROLLERS} controllers of one kind"),
        ours: n_watches.to_string(),
        yardstick: String::new(),
        measured: n_watches as f64,
        unit: "",
        goal: Goal::AtMost(1.0),
    });
    Ok(section)
}

fn measure_one(
    data: &std::path::Path,
    namespace: &str,
    keeper: Keeper,
    kept: &mut Kept,
) -> anyhow::Result<()> {
    use clap::ValueEnum;
    let by = keeper.to_possible_value().context("every keeper has a name")?;
    let mut command = Command::new(process::program("windlass-bench")?);
    command.arg("keep").arg("--kubeconfig").arg(data.join("admin.kubeconfig"));
    command.args(["--namespace", namespace, "--by", by.get_name()]);
    let mut process = Process::spawn_to_read(&mut command)?;
    let line = process.line()?;
    let numbers: Vec<f64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [nanos, bytes, look_up] = numbers[..] else { bail!("expected three numbers, found {line:?}") };
    kept.nanos.push(nanos);
    kept.bytes.push(bytes);
    kept.look_up.push(look_up);
    Ok(())
}

/// How many a second.
fn per_second(n: u32, begun: Instant) -> String {
    rate(f64::from(n) / begun.elapsed().as_secs_f64())
}
