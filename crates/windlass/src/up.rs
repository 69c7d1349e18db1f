//! Joins the services: starts them in order, says when they are ready, ends them when a signal comes.
//!
//! The API server is in `serve.rs`, the controllers are in `controllers.rs`.

use std::{
    io::{IsTerminal, Write},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use tokio::runtime;

use windlass_housekeeping::Options;

use crate::{
    args::UpPlan,
    controllers::{self, Controllers, Plan},
    datadir::{self, CONTROLLERS, DataDirectory, Endpoints},
    flags::Backend,
    serve::ApiService,
    signals::Signals,
};

/// Runs until a signal comes or something fails.
pub(crate) fn run(plan: UpPlan, out: &mut dyn Write) -> anyhow::Result<()> {
    let runtime =
        runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let outcome = runtime.block_on(until_stopped(plan, out));
    // A store that is still being opened when a signal comes is not waited for.
    runtime.shutdown_background();
    outcome
}

async fn until_stopped(plan: UpPlan, out: &mut dyn Write) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut signals = Signals::take().context("cannot listen to signals")?;
    let directory = Arc::new(DataDirectory::take(plan.server.data_dir.path())?);
    let storage = plan.server.backend.describe();
    let started = tokio::select! {
        started = start(plan, &directory) => started?,
        _ = signals.next() => return Ok(()),
    };
    let (mut apiserver, controllers) = started;
    let mut endpoints = Endpoints::from([("apiserver".to_owned(), apiserver.url.clone())]);
    endpoints.extend(apiserver.insecure_url.clone().map(|url| ("insecure".to_owned(), url)));
    let pages = controllers.as_ref().and_then(|controllers| controllers.url.clone());
    endpoints.extend(pages.map(|url| (CONTROLLERS.to_owned(), url)));
    directory.write_endpoints(&endpoints)?;
    // Whoever started us may have closed stdout; that is no reason to stop.
    let _ = out.write_all(banner(&endpoints, directory.path(), &storage, begin.elapsed()).as_bytes());
    let _ = out.flush();

    let failure = tokio::select! {
        _ = signals.next() => None,
        failure = apiserver.failed() => Some(failure),
    };
    directory.forget_endpoints();
    let ended = async {
        // Controllers are clients: they go first, and give back what they hold.
        if let Some(controllers) = controllers {
            controllers.stop().await;
        }
        match failure {
            None => apiserver.drain().await,
            Some(failure) => {
                apiserver.close().await;
                Err(failure)
            }
        }
    };
    match std::io::stderr().is_terminal() {
        true => eprintln!("stopping; Ctrl-C again ends it at once"),
        false => tracing::info!("stopping; another signal ends it at once"),
    }
    tokio::select! {
        outcome = ended => outcome,
        code = signals.next() => std::process::exit(code),
    }
}

/// Starts the server, and then the controllers that are its clients.
async fn start(
    plan: UpPlan,
    directory: &Arc<DataDirectory>,
) -> anyhow::Result<(ApiService, Option<Controllers>)> {
    let UpPlan { server, housekeeping, reconcilers, opensergo, config } = plan;
    let is_shared = matches!(server.backend, Backend::Etcd(_));
    let apiserver = ApiService::start(server, directory).await?;
    let has_controllers = housekeeping || !reconcilers.is_empty();
    let Some(client) = apiserver.client().filter(|_| has_controllers || opensergo) else {
        return Ok((apiserver, None));
    };
    let options = Options { root_ca: Some(Arc::clone(&apiserver.root_ca)), ..Options::default() };
    let housekeeping = housekeeping.then_some(options);
    let pages = Some(controllers::any_port());
    let plan = Plan { housekeeping, reconcilers, config, is_shared, pages };
    let controllers = async {
        let rules = controllers::of_rules().filter(|_| opensergo);
        let definitions = controllers::written(controllers::brought(&plan.reconcilers).chain(rules))?;
        controllers::install(&client, &definitions).await?;
        if !has_controllers {
            return Ok(None);
        }
        Controllers::start(client, plan).await.map(Some)
    };
    match controllers.await {
        Ok(controllers) => Ok((apiserver, controllers)),
        Err(error) => {
            // The server is well; why it ends is what people need to know.
            let _ = apiserver.drain().await;
            Err(error)
        }
    }
}

/// What a person needs to know, and the next thing to type.
fn banner(endpoints: &Endpoints, directory: &Path, storage: &str, took: Duration) -> String {
    let kubeconfig = datadir::kubeconfig(directory);
    let mut lines = vec![
        format!("Windlass {} is ready, after {} ms.", env!("CARGO_PKG_VERSION"), took.as_millis()),
        String::new(),
    ];
    lines.extend(endpoints.iter().map(|(service, url)| format!("  {service:<11} {url}")));
    lines.push(format!("  {:<11} {}", "data", directory.display()));
    lines.push(format!("  {:<11} {storage}", "store"));
    lines.push(format!("  {:<11} {}", "kubeconfig", kubeconfig.display()));
    lines.push(format!("\nNext: kubectl --kubeconfig {} get ns", quoted(&kubeconfig)));
    lines.push("Ctrl-C stops it.\n".to_owned());
    lines.join("\n")
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+:@%,=".contains(letter);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_banner_says_what_is_where_and_what_to_type() {
        let endpoints = Endpoints::from([("apiserver".to_owned(), "https://127.0.0.1:6443".to_owned())]);
        let text = banner(&endpoints, Path::new("./windlass-data"), "embedded", Duration::from_millis(42));
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            text,
            format!(
                "Windlass {version} is ready, after 42 ms.

  apiserver   https://127.0.0.1:6443
  data        ./windlass-data
  store       embedded
  kubeconfig  ./windlass-data/admin.kubeconfig

Next: kubectl --kubeconfig ./windlass-data/admin.kubeconfig get ns
Ctrl-C stops it.
"
            )
        );
    }

    #[test]
    fn paths_can_be_pasted_into_a_shell() {
        assert_eq!(quoted(Path::new("/a/b c")), "'/a/b c'");
        assert_eq!(quoted(Path::new("it's")), r"'it'\''s'");
        assert_eq!(quoted(Path::new("./x-1/y")), "./x-1/y");
    }
}
