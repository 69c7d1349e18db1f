//! `windlass opensergo status`: who is subscribed to what, and what each has been told.

use std::io::Write;

use anyhow::{Context, bail};
use clap::ValueEnum;
use windlass_opensergo::view::{SubscriberView, SubscriptionView, View};

use crate::{
    args::{DataDir, Usage},
    datadir::{self, OPENSERGO_STATUS},
    exit::chain,
    status::{address, fetch},
    table::table,
};

/// Characters of an error that fit a line.
const MOST_ERROR: usize = 80;

/// Which subscribers.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    data_dir: DataDir,
    /// Where the control plane says how it is [default: as "windlass up" has written it into the data directory]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Only of this namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only of this app
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// How it is shown
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,
}

/// How it is shown.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Prints it.
pub(crate) fn run(args: &StatusArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let url = match &args.url {
        Some(url) => url.clone(),
        None => found(&args.data_dir)?,
    };
    let address = address(&url).map_err(|error| Usage(format!("--url {url}: {}", chain(&error))))?;
    let wanted = [("namespace", &args.namespace), ("app", &args.app)];
    let query = wanted.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    let text =
        fetch(address, &format!("/subscribers?{query}")).with_context(|| format!("no answer from {url}"))?;
    match args.output {
        Output::Json => writeln!(out, "{text}")?,
        Output::Table => {
            let view: View = serde_json::from_str(&text).context("it says something else")?;
            write!(out, "{}", shown(&view))?;
        }
    }
    Ok(())
}

fn found(data_dir: &DataDir) -> anyhow::Result<String> {
    let directory = data_dir.path();
    let endpoints = datadir::endpoints(directory)?.unwrap_or_default();
    match endpoints.get(OPENSERGO_STATUS) {
        Some(url) => Ok(url.clone()),
        None => bail!(
            "no control plane is ready in {}\nhint: start it with: windlass up --data-dir {}\nhint: or name one that runs alone with --url",
            directory.display(),
            directory.display()
        ),
    }
}

fn shown(view: &View) -> String {
    let kinds: Vec<Vec<String>> = view
        .kinds
        .iter()
        .map(|kind| {
            let name = kind.kind.rsplit('/').next().unwrap_or_default().to_owned();
            let state = match (&kind.trouble, kind.synced) {
                (Some(trouble), _) => trouble.clone(),
                (None, true) => "synced".to_owned(),
                (None, false) => "not everything has been seen yet".to_owned(),
            };
            vec![name, kind.rules.to_string(), kind.version.to_string(), state]
        })
        .collect();
    let rows: Vec<Vec<String>> = view.subscribers.iter().flat_map(rows).collect();
    let subscribers = match rows.is_empty() {
        true => "nobody is subscribed\n".to_owned(),
        false => {
            let header =
                ["STREAM", "CLIENT", "APP", "KIND", "SINCE", "SENT", "ACCEPTED", "STATE", "LAST ERROR"];
            format!("{}\n", table(&header, &rows))
        }
    };
    let left = view.matching.saturating_sub(view.subscribers.len());
    let left = if left > 0 { format!("and {left} more\n") } else { String::new() };
    format!(
        "{}: {} streams\n\n{}\n\n{subscribers}{left}",
        view.identity,
        view.streams,
        table(&["KIND", "RULES", "VERSION", "STATE"], &kinds)
    )
}

fn rows(subscriber: &SubscriberView) -> Vec<Vec<String>> {
    let names =
        [Some(subscriber.identifier.clone()).filter(|name| !name.is_empty()), subscriber.peer.clone()];
    let name = names.into_iter().flatten().next().unwrap_or_default();
    let rows = subscriber.subscriptions.iter().map(|one| {
        vec![
            format!("{:x}", subscriber.stream),
            name.clone(),
            format!("{}/{}", one.namespace, one.app),
            one.kind.clone(),
            format!("{:.0}", subscriber.connected_since),
            one.sent.as_ref().map_or("-".to_owned(), |sent| sent.version.to_string()),
            one.acknowledged.as_ref().map_or("-".to_owned(), |sent| sent.version.to_string()),
            state(one).to_owned(),
            one.last_error.iter().flat_map(|error| error.chars()).take(MOST_ERROR).collect(),
        ]
    });
    rows.collect()
}

fn state(one: &SubscriptionView) -> &'static str {
    match (one.in_sync, one.awaiting_answer, &one.last_error) {
        (true, _, _) => "in sync",
        (_, true, _) => "no answer yet",
        (_, _, Some(_)) => "rejected",
        _ => "behind",
    }
}
