//! Starts and stops the OpenSergo control plane, within `up` or alone.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use kube::Client;
use rustls::ServerConfig;
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use windlass_opensergo::{
    access::Access,
    cluster::Cluster,
    directory::Directory,
    metrics::Metrics,
    plane::{Plane, Settings},
    report::Reporter,
    serve::{Listening, serve},
    source::Source,
    view::Pages,
};
use windlass_runtime::{Events, Informers, pages};

use super::flags::{PlaneConfig, TlsPaths};
use crate::{
    args::Usage,
    exit::chain,
    reload::{self, Files, Followed},
    serve::{descriptors, listen, reachable},
    tls,
};

/// How long streams may take to end.
const STOP: Duration = Duration::from_secs(5);

/// Descriptors that are for others than clients.
const RESERVED_DESCRIPTORS: usize = 128;

/// Where rules come from.
pub(crate) enum Rules {
    /// An API server.
    Cluster(Client),
    /// A directory of files.
    Directory(PathBuf),
}

/// A control plane that runs.
pub(crate) struct OpensergoService {
    /// Where clients reach it.
    pub(crate) address: SocketAddr,
    /// Where it says how it is.
    pub(crate) status_url: String,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl OpensergoService {
    /// Starts it. Clients are told once everything there is has been seen.
    pub(crate) async fn start(
        config: PlaneConfig,
        bind: IpAddr,
        rules: Rules,
        most_connections: Option<usize>,
    ) -> anyhow::Result<Self> {
        let listener = listen(SocketAddr::new(bind, config.port), ("--bind-address", "--opensergo-port"))?;
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, config.status_port));
        let status = listen(loopback, ("", "--opensergo-status-port"))?;
        let bound = listener.local_addr().context("a bound socket has an address")?;
        let status_url = format!("http://{}", status.local_addr().context("a bound socket has an address")?);
        let (tls, files) = match &config.tls {
            Some(paths) => {
                follow(paths.clone(), config.requires_auth).map(|(tls, files)| (Some(tls), files))?
            }
            None => (None, Files::default()),
        };
        if config.requires_auth && tls.is_none() {
            tracing::warn!(
                "--opensergo-require-auth without --opensergo-tls-cert-file: tokens come in plain text"
            );
        }
        let access = match (&rules, config.requires_auth) {
            (Rules::Cluster(client), true) => Access::reviewed(client.clone(), None),
            (Rules::Directory(_), true) => {
                let text = "--opensergo-require-auth: there is nobody to ask without an API server";
                return Err(Usage(text.to_owned()).into());
            }
            (_, false) => Access::open(),
        };
        let settings = Settings { identity: config.identity(bound), ..config.settings.clone() };
        let plane = Plane::new(settings, Metrics::default());
        let (mut tasks, mut members) = (JoinSet::new(), None);
        let source: Arc<dyn Source> = match rules {
            Rules::Cluster(client) => {
                let informers = Informers::new(client.clone());
                let cluster = Cluster::start(&informers);
                tasks.spawn(Arc::clone(&cluster).follow(Arc::clone(&plane)));
                let events = Events::start(client, &windlass_runtime::metrics::Metrics::default());
                let reporter = Reporter::new(Arc::clone(&plane), &informers, &events);
                members = Some(reporter.members().clone());
                tasks.spawn(reporter.run());
                cluster
            }
            Rules::Directory(path) => {
                let directory = Directory::new(path, Arc::clone(&plane));
                tasks.spawn(Arc::clone(&directory).follow());
                directory
            }
        };
        tasks.spawn(Arc::clone(&plane).run(Arc::clone(&source)));
        tasks.spawn(files.follow(reload::INTERVAL));
        let stop = CancellationToken::new();
        let shown = Pages::new(Arc::clone(&plane), Arc::clone(&source));
        let forever = CancellationToken::new();
        tasks.spawn(pages::serve(status, forever, move |method, uri| shown.answer(method, uri)));
        let had = descriptors().saturating_sub(RESERVED_DESCRIPTORS);
        let most_connections = most_connections.map_or(had, |most| most.min(had));
        let listening = Listening { listener, tls, most_connections };
        let serving = serve(listening, plane, source, access, stop.clone());
        let running = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the OpenSergo control plane has stopped");
            }
            tasks.shutdown().await;
            if let Some(members) = members {
                members.leave().await;
            }
        });
        Ok(OpensergoService { address: reachable(bound), status_url, stop, running })
    }

    /// Ends all streams, and then the rest.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if timeout(STOP, self.running).await.is_err() {
            tracing::warn!(seconds = STOP.as_secs(), "the OpenSergo control plane did not stop in time");
        }
    }
}

/// Reads certificates now, and again when they change. With tokens, a client need not have one.
fn follow(
    paths: TlsPaths,
    may_have_token: bool,
) -> anyhow::Result<(watch::Receiver<Arc<ServerConfig>>, Files)> {
    let read = move |paths: &TlsPaths| {
        tls::from_files(
            ("--opensergo-tls-cert-file", &paths.cert),
            ("--opensergo-tls-private-key-file", &paths.key),
            paths.client_ca.as_deref().map(|path| ("--opensergo-client-ca-file", path)),
            may_have_token,
        )
    };
    let (tx, rx) = watch::channel(read(&paths)?);
    let (tx, mut files) = (Arc::new(tx), Files::default());
    let all = [Some(&paths.cert), Some(&paths.key), paths.client_ca.as_ref()];
    for path in all.into_iter().flatten() {
        let (tx, paths) = (Arc::clone(&tx), paths.clone());
        let again = move |_: &std::path::Path| match read(&paths) {
            Ok(config) => drop(tx.send_replace(config)),
            Err(error) => {
                tracing::error!(error = chain(&error), "cannot use this; what was good last stays in use");
            }
        };
        files.add(Followed::new(path, |_| Ok(()), again)?);
    }
    Ok((rx, files))
}
