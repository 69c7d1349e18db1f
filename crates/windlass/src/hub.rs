//! `windlass hub`, `windlass reconciler` and `windlass crds`: the bundled reconcilers against any API server.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::runtime;
use windlass_runtime::{GraphFormat, Registration};

use crate::{
    args::Usage,
    controllers::{Configured, Controllers, Plan, brought, bundled, of_rules, written},
    signals::Signals,
    table::table,
};

/// Which API server, and what is configured.
#[derive(Debug, clap::Args)]
pub(crate) struct HubArgs {
    /// Which reconcilers run and how, as YAML or JSON; read again when it changes
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How to reach the API server [default: as kubectl does: $KUBECONFIG, ~/.kube/config, or the pod's own account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// One of the reconcilers.
#[derive(Debug, clap::Args)]
pub(crate) struct ReconcilerArgs {
    /// Which one
    name: String,
    /// Print its phases as a picture instead of running it
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, default_missing_value = "mermaid")]
    graph: Option<Graph>,
    #[command(flatten)]
    hub: HubArgs,
}

/// How a picture is written down.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Graph {
    /// For Markdown
    Mermaid,
    /// For Graphviz
    Dot,
}

/// Runs all reconcilers that are enabled.
pub(crate) fn run(args: &HubArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let config = Configured::read(args.config.as_deref(), "--config")?;
    run_all(bundled(), config, args.kubeconfig.as_deref(), out)
}

/// Runs one reconciler, or shows it.
pub(crate) fn run_one(args: &ReconcilerArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let registration = find(&args.name)?;
    if let Some(format) = args.graph {
        let Some(graph) = registration.graph else {
            let text = format!("{}: it has no phases, and so no picture", args.name);
            return Err(Usage(text).into());
        };
        let format = match format {
            Graph::Mermaid => GraphFormat::Mermaid,
            Graph::Dot => GraphFormat::Dot,
        };
        return Ok(writeln!(out, "{}", graph(format).trim_end())?);
    }
    let config = Configured::read(args.hub.config.as_deref(), "--config")?.only(registration.name);
    run_all(vec![registration], config, args.hub.kubeconfig.as_deref(), out)
}

/// Prints the definitions of all bundled kinds.
pub(crate) fn print_definitions(out: &mut dyn Write) -> anyhow::Result<()> {
    for definition in written(brought(&bundled()).chain(of_rules()))? {
        write!(out, "---\n{}", serde_saphyr::to_string(&definition)?)?;
    }
    Ok(())
}

fn find(name: &str) -> Result<Registration, Usage> {
    let all = bundled();
    all.iter().find(|registration| registration.name == name).copied().ok_or_else(|| {
        let rows: Vec<_> = all.iter().map(|one| vec![one.name.to_owned(), one.about.to_owned()]).collect();
        Usage(format!(
            "{name}: expected one of these reconcilers:\n{}",
            table(&["NAME", "WHAT IT DOES"], &rows)
        ))
    })
}

fn run_all(
    reconcilers: Vec<Registration>,
    config: Configured,
    kubeconfig: Option<&Path>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let runtime =
        runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    runtime.block_on(until_stopped(reconcilers, config, kubeconfig, out))
}

async fn until_stopped(
    reconcilers: Vec<Registration>,
    config: Configured,
    kubeconfig: Option<&Path>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut signals = Signals::take().context("cannot listen to signals")?;
    let config_of_client = read_kubeconfig(kubeconfig).await?;
    let url = config_of_client.cluster_url.to_string();
    let client = Client::try_from(config_of_client).context("cannot make a client of the kubeconfig")?;
    let plan = Plan { housekeeping: None, reconcilers, config, is_shared: false, pages: None };
    let controllers = Controllers::start(client, plan).await?;
    // Whoever started us may have closed stdout; that is no reason to stop.
    let _ = out.write_all(banner(&controllers, url.trim_end_matches('/')).as_bytes());
    let _ = out.flush();
    signals.next().await;
    tracing::info!("stopping; another signal ends it at once");
    tokio::select! {
        () = controllers.stop() => Ok(()),
        code = signals.next() => std::process::exit(code),
    }
}

async fn read_kubeconfig(file: Option<&Path>) -> anyhow::Result<Config> {
    let Some(file) = file else {
        let hint = "hint: name a kubeconfig with --kubeconfig, or set KUBECONFIG";
        return Config::infer()
            .await
            .map_err(|error| Usage(format!("no API server: {error}\n{hint}")).into());
    };
    let wrong = |error: &dyn std::fmt::Display| Usage(format!("--kubeconfig {}: {error}", file.display()));
    let read = Kubeconfig::read_from(file).map_err(|error| wrong(&error))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    config.map_err(|error| wrong(&error).into())
}

fn banner(controllers: &Controllers, url: &str) -> String {
    let rows: Vec<_> = controllers
        .manager
        .status()
        .iter()
        .map(|one| vec![one.name.clone(), if one.enabled { "enabled" } else { "disabled" }.to_owned()])
        .collect();
    let pages = controllers.url.as_deref().map_or(String::new(), |url| format!("\nHealth: {url}/readyz\n"));
    format!(
        "Windlass {} looks after {url}.\n\n{}\n{pages}\nCtrl-C stops it.\n",
        env!("CARGO_PKG_VERSION"),
        table(&["RECONCILER", "STATE"], &rows)
    )
}
