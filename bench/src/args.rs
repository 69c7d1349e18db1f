//! The command line. Parsing touches no disk and no socket.

use std::path::PathBuf;

use clap::{Args as Flags, Parser, Subcommand, ValueEnum};

/// Measure Windlass against yardsticks taken in the same run
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Examples:
  windlass-bench store                             everything, some minutes
  windlass-bench store --quick                     smaller, under a minute
  windlass-bench store --only writes --etcd none   one part of it
  windlass-bench apiserver                         the API server, some minutes
  windlass-bench apiserver --kubeconfig FILE       the same load on any other API server
  windlass-bench runtime                           the controller runtime, a minute
  windlass-bench opensergo                         the OpenSergo control plane, some minutes"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the store
    Store(StoreArgs),
    /// Measure the API server
    Apiserver(ApiArgs),
    /// Measure the controller runtime
    Runtime(OwnArgs),
    /// Measure the OpenSergo control plane
    Opensergo(OwnArgs),
    /// Keep the objects of a server and say what that takes; run by `runtime` in a process of its own
    #[command(hide = true)]
    Keep(KeepArgs),
    /// Answer with the files of a folder; run by `apiserver` in a process of its own
    #[command(hide = true)]
    Bare(BareArgs),
    /// Open a store and say what it takes; run by `store` in a process of its own
    #[command(hide = true)]
    Hold(HoldArgs),
    /// Write to a store until killed; run by `store` in a process of its own
    #[command(hide = true)]
    Churn(ChurnArgs),
}

/// How to measure the store.
#[derive(Debug, Flags)]
pub(crate) struct StoreArgs {
    /// Measure less and for a shorter time
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure next to nothing: for tests of the benchmark itself
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,
    /// Where to write; everything goes into a new folder in it, which is removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,
    /// The etcd to compare with, or "none" [default: etcd, if it is on the PATH]
    #[arg(long, value_name = "PATH|none")]
    pub(crate) etcd: Option<PathBuf>,
    /// Also write the results to this file, as markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Measure only this part; may be given several times
    #[arg(long, value_name = "PART", value_enum)]
    pub(crate) only: Vec<Part>,
}

/// What can be measured by itself, in the order in which it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Writes,
    Etcd,
    Reads,
    Start,
    Memory,
    Watchers,
    Space,
}

/// How to measure the API server.
#[derive(Debug, Flags)]
pub(crate) struct ApiArgs {
    /// Measure less and for a shorter time
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure next to nothing: for tests of the benchmark itself
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,
    /// Where to write; everything goes into a new folder in it, which is removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,
    /// The server to start [default: the windlass beside this program]
    #[arg(long, value_name = "PATH", conflicts_with = "kubeconfig")]
    pub(crate) server: Option<PathBuf>,
    /// Measure the server that this file leads to; how it starts and what it occupies is left out
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Also write the results to this file, as markdown, in place of those of an earlier run
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Measure only this part; may be given several times
    #[arg(long, value_name = "PART", value_enum)]
    pub(crate) only: Vec<ApiPart>,
}

/// What of the API server can be measured by itself, in the order in which it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApiPart {
    Creates,
    Reads,
    Updates,
    Watch,
    Custom,
    Definitions,
    Fair,
    Start,
}

/// How to measure what runs against a server of ours.
#[derive(Debug, Flags)]
pub(crate) struct OwnArgs {
    /// Measure less and for a shorter time
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure next to nothing: for tests of the benchmark itself
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,
    /// Where to write; everything goes into a new folder in it, which is removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,
    /// The server to start [default: the windlass beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) server: Option<PathBuf>,
    /// Also write the results to this file, as markdown, in place of those of an earlier run
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

/// Objects to be kept.
#[derive(Debug, Flags)]
pub(crate) struct KeepArgs {
    /// The server
    #[arg(long)]
    pub(crate) kubeconfig: PathBuf,
    /// The namespace
    #[arg(long)]
    pub(crate) namespace: String,
    /// By whom
    #[arg(long, value_enum)]
    pub(crate) by: Keeper,
}

/// Who keeps objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Keeper {
    /// kube's reflector.
    Reflector,
    /// Our informer.
    Informer,
    /// Our informer, with an index.
    Indexed,
}

/// Answers to be given.
#[derive(Debug, Flags)]
pub(crate) struct BareArgs {
    /// The folder with a file for each answer
    #[arg(long)]
    pub(crate) directory: PathBuf,
}

/// A store to be held in memory.
#[derive(Debug, Flags)]
pub(crate) struct HoldArgs {
    /// The store's directory
    #[arg(long)]
    pub(crate) directory: PathBuf,
    /// Keys in it
    #[arg(long)]
    pub(crate) keys: usize,
    /// Updates to make after opening it
    #[arg(long)]
    pub(crate) updates: u64,
}

/// A store to be written to.
#[derive(Debug, Flags)]
pub(crate) struct ChurnArgs {
    /// The store's directory
    #[arg(long)]
    pub(crate) directory: PathBuf,
    /// Keys in it
    #[arg(long)]
    pub(crate) keys: usize,
    /// Updates to make before saying so
    #[arg(long)]
    pub(crate) updates: u64,
}
