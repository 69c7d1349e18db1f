//! The API server's benchmark: one file for each thing measured, and what they share.
//!
//! `client.rs` and `drive.rs` are the load, `target.rs` is what it goes to, `bare.rs` is the yardstick. Every part
//! has a server of its own, a real process spoken to over TLS, and a bounded time. Start at [`run`].

mod bare;
pub(crate) mod client;
mod creates;
mod custom;
mod drive;
mod fair;
mod kubeconfig;
pub(crate) mod objects;
mod reads;
mod scale;
mod start;
pub(crate) mod target;
mod turn;
mod updates;
mod watch;

use std::{fs, os::unix::fs::DirBuilderExt, path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use clap::ValueEnum;

pub(crate) use self::bare::bare;
use self::{scale::Scale, target::Target};
use crate::{
    args::{ApiArgs, ApiPart},
    machine::Machine,
    print,
    report::{self, Section},
    say,
};

/// No part takes longer, unless something hangs.
const PART_LIMIT: Duration = Duration::from_secs(600);

/// Measures what was asked for, and prints each part as it is done.
pub(crate) async fn run(args: &ApiArgs) -> anyhow::Result<()> {
    let ApiArgs { quick, tiny, directory, server, kubeconfig, markdown, only } = args;
    let scale = match (tiny, quick) {
        (true, _) => Scale::tiny(),
        (_, true) => Scale::quick(),
        _ => Scale::full(),
    };
    let command = format!("windlass-bench apiserver{}", if *quick { " --quick" } else { "" });
    let machine = Machine::describe(directory, command);
    print(&machine.text())?;
    if machine.is_volatile() {
        say("this directory is in memory: syncing costs nothing, and writes mean nothing; see --directory");
    }
    let server = match kubeconfig {
        Some(_) => PathBuf::new(),
        None => target::program(server.as_deref())?,
    };
    let folder = tempfile::Builder::new()
        .prefix("windlass-bench-")
        .tempdir_in(directory)
        .with_context(|| format!("making a folder in {}", directory.display()))?;
    let bench = Bench { scale, folder: folder.path().to_owned(), server, kubeconfig: kubeconfig.clone() };
    let mut sections = vec![];
    for part in ApiPart::value_variants() {
        if only.is_empty() || only.contains(part) {
            let Some(section) = bench.measure(*part).await? else { continue };
            print(&section.text())?;
            sections.push(section);
        }
    }
    print(&report::summary(&sections))?;
    if let Some(file) = markdown {
        report::write(file, "apiserver", &report::markdown("The API server", &machine, &sections))?;
    }
    Ok(())
}

/// What every part is given.
struct Bench {
    scale: Scale,
    /// Ours alone, and removed at the end.
    folder: PathBuf,
    /// The program to start, unless another server is measured.
    server: PathBuf,
    kubeconfig: Option<PathBuf>,
}

impl Bench {
    async fn measure(&self, part: ApiPart) -> anyhow::Result<Option<Section>> {
        if matches!(part, ApiPart::Start | ApiPart::Definitions | ApiPart::Fair) && self.kubeconfig.is_some()
        {
            let part = format!("{part:?}").to_lowercase();
            say(&format!("{part}: left out, the server is not ours to start"));
            return Ok(None);
        }
        let measuring = async {
            match part {
                ApiPart::Creates => creates::measure(self).await,
                ApiPart::Reads => reads::measure(self).await,
                ApiPart::Updates => updates::measure(self).await,
                ApiPart::Watch => watch::measure(self).await,
                ApiPart::Custom => custom::measure(self).await,
                ApiPart::Definitions => custom::measure_many(self).await,
                ApiPart::Fair => fair::measure(self).await,
                ApiPart::Start => start::measure(self).await,
            }
        };
        match tokio::time::timeout(PART_LIMIT, measuring).await {
            Ok(outcome) => outcome.map(Some).with_context(|| format!("measuring {part:?}")),
            Err(_) => bail!("measuring {part:?} took longer than {PART_LIMIT:?}"),
        }
    }

    /// The server that a part is measured on.
    async fn target(&self, part: ApiPart) -> anyhow::Result<Target> {
        let name = format!("{part:?}").to_lowercase();
        match &self.kubeconfig {
            Some(kubeconfig) => Target::other(kubeconfig, &name).await,
            None => Target::own(&self.server, &self.folder(&format!("data-{name}"))?).await,
        }
    }

    /// A folder that nobody has used.
    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(name);
        // A server takes no directory that others can look into.
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    }
}
