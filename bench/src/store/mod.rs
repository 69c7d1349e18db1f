//! The store's benchmark: one file for each thing measured, and what they share.
//!
//! `load.rs` drives writers against anything that can be written to, `bare.rs` is the disk without a store.
//! Every part gets a folder of its own and a bounded time. Start at [`run`].

mod bare;
mod etcd;
mod load;
mod memory;
mod reads;
mod scale;
mod space;
mod start;
mod watchers;
mod writes;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use clap::ValueEnum;

use self::scale::Scale;
pub(crate) use self::{memory::hold, start::churn};
use crate::{
    args::{Part, StoreArgs},
    machine::Machine,
    print,
    report::{self, Section},
    say,
};

/// No part takes longer, unless something hangs.
const PART_LIMIT: Duration = Duration::from_secs(180);

/// Measures what was asked for, and prints each part as it is done.
pub(crate) async fn run(args: &StoreArgs) -> anyhow::Result<()> {
    let StoreArgs { quick, tiny, directory, etcd, markdown, only } = args;
    let scale = match (tiny, quick) {
        (true, _) => Scale::tiny(),
        (_, true) => Scale::quick(),
        _ => Scale::full(),
    };
    let command = format!("windlass-bench store{}", if *quick { " --quick" } else { "" });
    let machine = Machine::describe(directory, command);
    print(&machine.text())?;
    if machine.is_volatile() {
        say("this directory is in memory: syncing costs nothing, and writes mean nothing; see --directory");
    }
    let folder = tempfile::Builder::new()
        .prefix("windlass-bench-")
        .tempdir_in(directory)
        .with_context(|| format!("making a folder in {}", directory.display()))?;
    let bench = Bench { scale, folder: folder.path().to_owned(), etcd: etcd.clone() };
    let mut sections = vec![];
    for part in Part::value_variants() {
        if only.is_empty() || only.contains(part) {
            let Some(section) = bench.measure(*part).await? else { continue };
            print(&section.text())?;
            sections.push(section);
        }
    }
    print(&report::summary(&sections))?;
    if let Some(file) = markdown {
        report::write(file, "store", &report::markdown("The store", &machine, &sections))?;
    }
    Ok(())
}

/// What every part is given.
#[derive(Debug)]
struct Bench {
    scale: Scale,
    /// Ours alone, and removed at the end.
    folder: PathBuf,
    /// The etcd asked for: a program, or "none".
    etcd: Option<PathBuf>,
}

impl Bench {
    async fn measure(&self, part: Part) -> anyhow::Result<Option<Section>> {
        let measuring = async {
            anyhow::Ok(match part {
                Part::Writes => Some(writes::measure(self).await?),
                Part::Etcd => etcd::measure(self).await?,
                Part::Reads => Some(reads::measure(self).await?),
                Part::Start => Some(start::measure(self).await?),
                Part::Memory => Some(memory::measure(self).await?),
                Part::Watchers => Some(watchers::measure(self).await?),
                Part::Space => Some(space::measure(self).await?),
            })
        };
        match tokio::time::timeout(PART_LIMIT, measuring).await {
            Ok(outcome) => outcome.with_context(|| format!("measuring {part:?}")),
            Err(_) => bail!("measuring {part:?} took longer than {PART_LIMIT:?}"),
        }
    }

    /// A folder that nobody has used.
    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    }
}

/// Bytes of all files in `folder`, as far as they are still there.
fn disk_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for file in fs::read_dir(folder)? {
        bytes += file?.metadata().map_or(0, |meta| meta.len());
    }
    Ok(bytes)
}
