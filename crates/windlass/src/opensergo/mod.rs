//! `windlass opensergo`: the gRPC control plane, and tools for its rules.

mod flags;
mod serve;
mod status;
mod translate;

use std::{
    io::Write,
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Subcommand;
use kube::Client;
use tokio::runtime;

pub(crate) use self::{
    flags::{PlaneArgs, PlaneConfig},
    serve::{OpensergoService, Rules},
};
use self::{status::StatusArgs, translate::TranslateArgs};
use crate::{args::Usage, hub::read_kubeconfig, signals::Signals, values::address};

/// The control plane alone, or a tool.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct OpensergoArgs {
    #[command(subcommand)]
    command: Option<OpensergoCommand>,
    /// How to reach the API server with the rules [default: as kubectl does: $KUBECONFIG, ~/.kube/config, or the pod's
    /// own account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A directory of YAML files with the rules, where there is no API server; looked at every second
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    rules_dir: Option<PathBuf>,
    /// The address to listen on; 0.0.0.0 is every one of this machine
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = address)]
    bind_address: IpAddr,
    #[command(flatten)]
    plane: PlaneArgs,
}

/// Tools for rules.
#[derive(Debug, Subcommand)]
pub(crate) enum OpensergoCommand {
    /// Print what SDKs are told of rules
    #[command(after_help = "Examples:
  windlass opensergo translate -f rule.yaml
  kubectl get ratelimitstrategies -o yaml | windlass opensergo translate -f - -o json

What has no effect is said on stderr. Exits with 1 when a rule cannot be sent, and says which fields are wrong;
with 64 when a file cannot be read, or has other kinds in it.")]
    Translate(TranslateArgs),
    /// Show who is subscribed to what, and what each has been told
    #[command(after_help = "Examples:
  windlass opensergo status
  windlass opensergo status --namespace default --app foo-app
  windlass opensergo status --url http://127.0.0.1:18003 -o json")]
    Status(StatusArgs),
}

/// Runs the control plane, or a tool.
pub(crate) fn run(args: OpensergoArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    match args.command {
        Some(OpensergoCommand::Translate(args)) => translate::run(&args, out),
        Some(OpensergoCommand::Status(args)) => status::run(&args, out),
        None => {
            let config = args.plane.config()?;
            let runtime =
                runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
            let rules = (args.kubeconfig.as_deref(), args.rules_dir.as_deref());
            runtime.block_on(until_stopped(config, args.bind_address, rules, out))
        }
    }
}

async fn until_stopped(
    config: PlaneConfig,
    bind: IpAddr,
    (kubeconfig, directory): (Option<&Path>, Option<&Path>),
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut signals = Signals::take().context("cannot listen to signals")?;
    let (rules, from) = match directory {
        Some(path) if path.is_dir() => (Rules::Directory(path.to_owned()), path.display().to_string()),
        Some(path) => {
            return Err(Usage(format!("--rules-dir {}: expected a directory", path.display())).into());
        }
        None => {
            let config = read_kubeconfig(kubeconfig).await?;
            let url = config.cluster_url.to_string();
            let client = Client::try_from(config).context("cannot make a client of the kubeconfig")?;
            (Rules::Cluster(client), url.trim_end_matches('/').to_owned())
        }
    };
    let service = OpensergoService::start(config, bind, rules, None).await?;
    // Whoever started us may have closed stdout; that is no reason to stop.
    let _ = out.write_all(banner(&service, &from).as_bytes());
    let _ = out.flush();
    signals.next().await;
    tracing::info!("stopping; another signal ends it at once");
    tokio::select! {
        () = service.stop() => Ok(()),
        code = signals.next() => std::process::exit(code),
    }
}

fn banner(service: &OpensergoService, from: &str) -> String {
    format!(
        "Windlass {} tells SDKs of the rules in {from}.

  opensergo   {}
  status      {}

Next: windlass opensergo status --url {}
Ctrl-C stops it.
",
        env!("CARGO_PKG_VERSION"),
        service.address,
        service.status_url,
        service.status_url
    )
}
