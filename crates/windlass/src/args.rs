//! The command line. Parsing touches no disk and no socket.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

/// A Kubernetes-style control plane in one binary.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Examples:
  windlass store stats                        what the store in ./windlass-data holds
  windlass store snapshot backup.snap         copy it out, while it is in use
  windlass store restore backup.snap          put the copy back"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look at, verify, copy out and put back the embedded store
    #[command(subcommand)]
    Store(StoreCommand),
}

/// Where the data is.
#[derive(Debug, clap::Args)]
pub(crate) struct DataDir {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = "./windlass-data", alias = "file-rootpath")]
    data_dir: PathBuf,
}

impl DataDir {
    /// The directory of the embedded store.
    pub(crate) fn store(&self) -> PathBuf {
        self.data_dir.join("store")
    }

    /// The directory as it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.data_dir
    }
}

/// Tools for the embedded store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Verify every record; the store must not be in use
    #[command(after_help = "Example:
  windlass store check --data-dir ./windlass-data

Changes nothing. Exits with 1 when anything is damaged, and says what and where.")]
    Check(DataDir),
    /// Show what the store holds; it may be in use
    #[command(after_help = "Example:
  windlass store stats --data-dir ./windlass-data")]
    Stats(DataDir),
    /// Write everything that is live to a new file; the store may be in use
    #[command(after_help = "Example:
  windlass store snapshot backup.snap

The file is of one revision, checksummed, and holds everything acknowledged before the command began.")]
    Snapshot {
        #[command(flatten)]
        data_dir: DataDir,
        /// The file to write; it must not exist
        file: PathBuf,
    },
    /// Make the store hold what a snapshot file holds; it must not be in use
    #[command(after_help = "Example:
  windlass store restore backup.snap --data-dir ./windlass-data

A store that is there is moved aside, not deleted. Revisions go on above everything ever given out, so clients
that watched before the restore are told to list anew.")]
    Restore {
        #[command(flatten)]
        data_dir: DataDir,
        /// The file to read
        file: PathBuf,
    },
}

/// A file or directory named on the command line is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);
