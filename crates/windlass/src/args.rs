//! The command line. Parsing touches no disk and no socket.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use windlass_runtime::Registration;

use crate::{
    controllers::{Configured, bundled},
    flags::{ServeConfig, ServerArgs},
    hub::{HubArgs, ReconcilerArgs},
    opensergo::{OpensergoArgs, PlaneArgs, PlaneConfig},
    token::TokenCommand,
};

/// A Kubernetes-style control plane in one binary.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    subcommand_required = true,
    override_usage = "windlass [COMMAND] [OPTIONS]",
    after_help = "Without a command, it is up: \"windlass --secure-port 0\" is \"windlass up --secure-port 0\".

Examples:
  windlass                                    start, with everything in ./windlass-data
  windlass status                             is it ready?
  windlass reconciler foo                     one reconciler, against any API server
  windlass store snapshot backup.snap         copy the data out, while it is in use

Exit codes: 0 done, 1 it failed, 64 the command line or a file named on it is wrong."
)]
pub(crate) struct Args {
    /// Log more, to stderr: -v what is done, -vv how, -vvv everything
    #[arg(short, long, action = ArgAction::Count, global = true, display_order = 900)]
    pub(crate) verbose: u8,
    /// How log lines are written
    #[arg(long, value_name = "FORMAT", default_value = "text", global = true, display_order = 901)]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// Reads a command line, the program's own name first.
    pub(crate) fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let command = taking_negatives(Args::command());
        let line = with_command(line.into_iter().collect());
        Args::from_arg_matches_mut(&mut command.try_get_matches_from(line)?)
    }
}

/// Lets numbers and durations begin with a minus, so that what is said of those that are refused names their flag.
fn taking_negatives(command: clap::Command) -> clap::Command {
    let is_number = |arg: &clap::Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        names
            .iter()
            .any(|name| matches!(name.as_str(), "DURATION" | "N" | "PORT" | "MIB" | "SECONDS" | "DAYS"))
    };
    command
        .mut_args(|arg| {
            let takes = is_number(&arg);
            arg.allow_hyphen_values(takes)
        })
        .mut_subcommands(taking_negatives)
}

/// Puts `up` where a command is missing: after the flags that stand before any command.
fn with_command(mut line: Vec<OsString>) -> Vec<OsString> {
    let mut idx = 1;
    while let Some(word) = line.get(idx).and_then(|word| word.to_str()) {
        match word {
            "-h" | "--help" | "-V" | "--version" => return line,
            "--log-format" => idx += 2,
            "--verbose" => idx += 1,
            _ if word.starts_with("--log-format=") => idx += 1,
            _ if word.len() > 1
                && word.strip_prefix('-').is_some_and(|rest| rest.bytes().all(|letter| letter == b'v')) =>
            {
                idx += 1
            }
            _ if word.starts_with('-') => break,
            _ => return line,
        }
    }
    line.insert(idx.min(line.len()), "up".into());
    line
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start everything in one process, until a signal ends it; the default
    #[command(after_help = "Examples:
  windlass up                                 on 127.0.0.1:6443, with everything in ./windlass-data
  windlass up --data-dir /var/lib/windlass --bind-address 0.0.0.0 --tls-san api.example.org
  windlass up --with samples                  also the reconcilers to learn from, and their kinds
  windlass up --etcd-servers http://10.0.0.1:2379,http://10.0.0.2:2379

When it is ready, DIR/admin.kubeconfig works with kubectl, and DIR/endpoints.json says what is where.
SIGTERM and Ctrl-C let requests finish; a second one ends it at once.")]
    Up(Box<UpArgs>),
    /// Start the API server alone
    #[command(after_help = "Example:
  windlass apiserver --data-dir ./windlass-data --secure-port 0

It takes the same directory as \"windlass up\", writes the same files and ends the same way.")]
    Apiserver(Box<ApiserverArgs>),
    /// Run every bundled reconciler against an API server, as configured
    #[command(after_help = "Examples:
  windlass hub --kubeconfig windlass-data/admin.kubeconfig
  windlass hub --config hub.yaml

A configuration names what differs from the defaults, and is read again when it changes:

  health-probe-bind-address: localhost:18002
  leader-election: {enabled: true}
  reconcilers:
    foo: {workers: 4, namespaces: [team-a]}
    at: {enabled: false}

\"windlass crds\" prints the kinds that they look after; \"windlass up --with samples\" runs them in its own process.")]
    Hub(HubArgs),
    /// Run one of the bundled reconcilers, or show its phases
    #[command(after_help = "Examples:
  windlass reconciler foo --kubeconfig windlass-data/admin.kubeconfig
  windlass reconciler redis-migration --graph
  windlass reconciler redis-migration --graph dot | dot -Tsvg > phases.svg")]
    Reconciler(ReconcilerArgs),
    /// Print the definitions of all bundled kinds, for a cluster that does not have them
    #[command(after_help = "Example:
  windlass crds | kubectl apply --server-side -f -")]
    Crds,
    /// Tell OpenSergo SDKs of rules over gRPC, or see what they are told
    #[command(after_help = "Examples:
  windlass opensergo --kubeconfig windlass-data/admin.kubeconfig
  windlass opensergo --rules-dir ./rules --bind-address 0.0.0.0
  windlass opensergo --opensergo-require-auth --opensergo-tls-cert-file tls.crt --opensergo-tls-private-key-file tls.key

\"windlass crds\" prints the kinds of rules; \"windlass up\" runs this in its own process. Any number of these can
run side by side: clients that move from one to another are told of the same versions.")]
    Opensergo(Box<OpensergoArgs>),
    /// Print the administrator's kubeconfig
    #[command(after_help = "Examples:
  windlass kubeconfig > windlass.kubeconfig
  export KUBECONFIG=$(windlass kubeconfig --path)")]
    Kubeconfig {
        #[command(flatten)]
        data_dir: DataDir,
        /// Print where the file is instead
        #[arg(long)]
        path: bool,
    },
    /// Ask whether it is ready, check by check
    #[command(after_help = "Example:
  windlass status --data-dir ./windlass-data

Exits with 1 when it is not ready or not there.")]
    Status(DataDir),
    /// Look at, verify, copy out and put back the embedded store
    #[command(subcommand)]
    Store(StoreCommand),
    /// Make and revoke tokens
    #[command(subcommand)]
    Token(TokenCommand),
}

/// What `up` takes: the flags of every service it starts.
#[derive(Debug, clap::Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Services to leave out
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    without: Vec<Service>,
    /// What to run besides
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    with: Vec<Extra>,
    /// Which reconcilers run and how; see "windlass hub --help"
    #[arg(long, value_name = "FILE")]
    hub_config: Option<PathBuf>,
    #[command(flatten)]
    opensergo: PlaneArgs,
}

impl UpArgs {
    /// Every service but what is left out, and what is asked for besides.
    pub(crate) fn plan(self) -> Result<UpPlan, Usage> {
        let runs = |service| !self.without.contains(&service);
        let is_wanted = self.with.contains(&Extra::Samples);
        let config = Configured::read(self.hub_config.as_deref(), "--hub-config")?;
        if let Some(sample) = bundled().iter().find(|one| config.config.reconcilers.contains_key(one.name))
            && !is_wanted
        {
            let text =
                format!("--hub-config names the sample {:?}, which runs only --with samples", sample.name);
            return Err(Usage(text));
        }
        let samples = is_wanted && runs(Service::Hub) && runs(Service::Samples);
        Ok(UpPlan {
            housekeeping: runs(Service::Housekeeping),
            reconcilers: if samples { bundled() } else { vec![] },
            opensergo: runs(Service::Opensergo).then(|| self.opensergo.clone().config()).transpose()?,
            config,
            server: self.server.config()?,
        })
    }
}

/// What `apiserver` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiserverArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Leave namespace deletion, garbage collection and the like to somebody else, such as a kube-controller-manager
    #[arg(long)]
    without_housekeeping: bool,
}

impl ApiserverArgs {
    /// The server, and what keeps it tidy.
    pub(crate) fn plan(self) -> Result<UpPlan, Usage> {
        Ok(UpPlan {
            housekeeping: !self.without_housekeeping,
            reconcilers: vec![],
            opensergo: None,
            config: Configured::default(),
            server: self.server.config()?,
        })
    }
}

/// What runs in one process.
#[derive(Debug)]
pub(crate) struct UpPlan {
    pub(crate) server: ServeConfig,
    pub(crate) housekeeping: bool,
    pub(crate) reconcilers: Vec<Registration>,
    pub(crate) opensergo: Option<PlaneConfig>,
    pub(crate) config: Configured,
}

/// What `up` runs only when it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Extra {
    /// The reconcilers that teach, and their kinds
    Samples,
}

/// What can be left out of `up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    /// Namespace deletion, garbage collection, service accounts
    Housekeeping,
    /// All reconcilers
    Hub,
    /// The gRPC control plane
    Opensergo,
    /// Service grids
    Grid,
    /// Sidecar injection
    Inject,
    /// The reconcilers that teach
    Samples,
    /// Plain REST over the objects
    Gateway,
    /// The web console
    Console,
}

/// Where the data is.
#[derive(Clone, Debug, clap::Args)]
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_fit_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_missing_command_is_up() {
        for (given, meant) in [
            ("windlass", "windlass up"),
            ("windlass --secure-port 0", "windlass up --secure-port 0"),
            ("windlass -v --data-dir store", "windlass -v up --data-dir store"),
            ("windlass -vv --log-format json", "windlass -vv --log-format json up"),
            ("windlass --log-format=json -v status", "windlass --log-format=json -v status"),
            ("windlass store stats", "windlass store stats"),
            ("windlass -v --help", "windlass -v --help"),
            ("windlass help", "windlass help"),
            ("windlass frobnicate", "windlass frobnicate"),
            ("windlass --log-format", "windlass --log-format up"),
        ] {
            let line = with_command(given.split(' ').map(OsString::from).collect());
            assert_eq!(line.join(" ".as_ref()), meant, "{given}");
        }
    }
}
