//! The API server as a service: bind, certificates, store, serve, drain.
//!
//! The socket comes first, so that a port in use is told before a large store is read; connections that come
//! early wait in the kernel until the server is ready. Start at [`ApiService::start`].

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context, anyhow, bail};
use kube::Client;
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::watch,
    task::JoinHandle,
};
use windlass_access::MASTERS;
use windlass_apiserver::{ApiServer, Config, Direct, Guard, Signer};
use windlass_store::Store;

use crate::{
    args::Usage,
    audit::AuditLog,
    datadir::{self, DataDirectory},
    encryption,
    flags::ServeConfig,
    kubeconfig, pki,
    pki::Pki,
    reload, signer,
    tls::{Given, ServerTls},
    transport::Insecure,
    values::{San, first_address},
};

/// The names that programs in a cluster use for its API server.
const CLUSTER_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// How often to see whether a certificate needs renewing, thirty days before it would expire.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(12 * 60 * 60);

/// How long requests may take to end once the store has stopped and none of them can succeed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Connections that may wait to be accepted. Linux has no more by default.
const BACKLOG: u32 = 4096;

/// File descriptors that connections leave to the store and to everything else.
const RESERVED_DESCRIPTORS: usize = 128;

/// How many file descriptors there are, after asking for as many as may be had.
pub(crate) fn descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let had = getrlimit(Resource::Nofile).current;
    had.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// Who the controllers in this process are to the server.
const CONTROLLERS: &str = "system:windlass";

/// The API server, serving.
pub(crate) struct ApiService {
    /// Where it is, for clients on this machine.
    pub(crate) url: String,
    /// The same without TLS, if that is served.
    pub(crate) insecure_url: Option<String>,
    /// The server itself, for who asks it from within; there is none in tests.
    server: Option<Arc<ApiServer>>,
    /// By which clients know the server, in PEM.
    pub(crate) root_ca: Arc<str>,
    store: Arc<dyn Store>,
    /// How long a drain may take: what a request may, and a little more.
    patience: Duration,
    stop_tx: watch::Sender<bool>,
    serving: JoinHandle<io::Result<()>>,
    renewing: JoinHandle<()>,
    audit: Option<AuditLog>,
}

impl ApiService {
    /// Starts it; when this returns, requests are answered and the kubeconfig works.
    pub(crate) async fn start(config: ServeConfig, directory: &Arc<DataDirectory>) -> anyhow::Result<Self> {
        let ServeConfig {
            data_dir,
            bind,
            advertise,
            tls_san,
            tls,
            insecure,
            backend,
            encryption,
            retention,
            issuers,
            audit,
            api,
            authn,
        } = config;
        let audit = audit.open()?;
        let listener = listen(bind, ("--bind-address", "--secure-port"))?;
        let plain = insecure.map(Plain::listen).transpose()?;
        let bound = listener.local_addr().context("a bound socket has an address")?;
        let url = format!("https://{}", reachable(bound));
        let advertise = SocketAddr::new(advertise.unwrap_or_else(|| own_address(bound.ip())), bound.port());
        let names = server_names(bound.ip(), advertise.ip(), tls_san, &api);
        let credentials = Credentials { directory: directory.clone(), address: reachable(bound), names };
        let given = tls.read()?;
        tls.warn_of_open_keys();
        let pki = credentials.prepare(&given)?;
        let root_ca = pki.ca.as_str().into();
        let tls = ServerTls::new(tls, &pki, &given)?;
        let folder = datadir::pki(directory.path());
        let signer = signer::Authority::read(&folder)?;
        let signer = signer.map(|signer| Arc::new(signer) as Arc<dyn Signer>);
        let at_rest = encryption::prepare(encryption.as_deref(), &folder, &backend)?;
        let (authentication, files) = authn.prepare(&folder)?;
        let issuers = issuers.load(authentication.accounts.as_ref().map_or(&[], |own| &own.issuers))?;
        let store = backend.open(&data_dir, retention, &at_rest).await?;
        if api.unrestricted_update {
            tracing::warn!(
                "--unrestricted-update: writes to objects may change their status; for debugging only"
            );
        }
        let patience = api.request_timeout + LAST_WORDS;
        let n_connections = api.max_connections.min(descriptors().saturating_sub(RESERVED_DESCRIPTORS));
        // The other listener takes a seventh of what this one does.
        let max_connections = n_connections - if plain.is_some() { n_connections / 8 } else { 0 };
        let log = audit.as_ref().map(|log| Arc::clone(&log.audit));
        let config =
            Config { advertise, max_connections, authentication, issuers, audit: log, signer, ..api };
        let server = ApiServer::start(config, store.clone()).await;
        let server = server.context("the API server did not start")?;
        let (stop_tx, stop_rx) = watch::channel(false);
        let within = Some(Arc::clone(&server));
        let insecure_url = plain.as_ref().map(|plain| plain.url.clone());
        let secure =
            windlass_apiserver::serve(server.clone(), listener, tls.subscribe(), until_told(stop_rx.clone()));
        let serving = tokio::spawn(async move {
            match plain {
                None => secure.await,
                Some(plain) => {
                    let plain = windlass_apiserver::serve_plain(
                        server,
                        plain.listener,
                        plain.guard,
                        until_told(stop_rx),
                    );
                    tokio::try_join!(secure, plain).map(|((), ())| ())
                }
            }
        });
        let renewing = tokio::spawn(async move {
            tokio::join!(credentials.keep_fresh(pki, given, tls), files.follow(reload::INTERVAL));
        });
        tracing::info!(%url, %advertise, "the API server is ready");
        Ok(ApiService {
            url,
            insecure_url,
            server: within,
            root_ca,
            store,
            patience,
            stop_tx,
            serving,
            renewing,
            audit,
        })
    }

    /// A client within this process, which may do everything.
    pub(crate) fn client(&self) -> Option<Client> {
        let server = self.server.as_ref()?;
        Some(Client::new(Direct::new(server, CONTROLLERS, &[MASTERS]), "default"))
    }

    /// Waits until it ends of its own accord, which it never should, and says why it did.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        tokio::select! {
            reason = self.store.stopped() => {
                self.stop_tx.send_replace(true);
                let _ = tokio::time::timeout(LAST_WORDS, &mut self.serving).await;
                self.serving.abort();
                anyhow!("the store has stopped: {reason}")
            }
            served = &mut self.serving => match served {
                Ok(Ok(())) => anyhow!("the API server has stopped"),
                Ok(Err(error)) => anyhow::Error::new(error).context("the API server has stopped"),
                Err(error) => anyhow::Error::new(error).context("the API server has stopped"),
            },
        }
    }

    /// Takes no new connections, lets requests finish and watches end, then closes the store.
    pub(crate) async fn drain(self) -> anyhow::Result<()> {
        let ApiService { store, patience, stop_tx, mut serving, renewing, audit, .. } = self;
        renewing.abort();
        stop_tx.send_replace(true);
        let served = tokio::time::timeout(patience, &mut serving).await;
        // Asked before closing it, which stops it too.
        let failure = tokio::select! {
            biased;
            reason = store.stopped() => Some(reason),
            () = std::future::ready(()) => None,
        };
        store.close().await;
        close(audit).await;
        if let Some(reason) = failure {
            bail!("the store has stopped: {reason}");
        }
        match served {
            Ok(served) => served.context("the API server")?.context("the API server"),
            Err(_) => {
                tracing::warn!(seconds = patience.as_secs(), "cut off what was still under way");
                Ok(())
            }
        }
    }

    /// Closes the store of a server that has ended already.
    pub(crate) async fn close(self) {
        self.renewing.abort();
        self.store.close().await;
        close(self.audit).await;
    }
}

/// Writes what is left of the audit log, in the time that is left.
async fn close(audit: Option<AuditLog>) {
    if let Some(audit) = audit
        && tokio::time::timeout(LAST_WORDS, audit.close()).await.is_err()
    {
        tracing::error!("the end of the audit log could not be written in time");
    }
}

/// Returns once there is nothing more to serve. A sender that is gone means the same.
async fn until_told(mut stop_rx: watch::Receiver<bool>) {
    let _ = stop_rx.wait_for(|stop| *stop).await;
}

/// The listener for plain HTTP.
struct Plain {
    listener: TcpListener,
    guard: Option<Guard>,
    url: String,
}

impl Plain {
    fn listen(insecure: Insecure) -> anyhow::Result<Self> {
        insecure.check()?;
        let listener = listen(insecure.bind, ("--insecure-bind-address", "--insecure-port"))?;
        let bound = listener.local_addr().context("a bound socket has an address")?;
        let guard = match insecure.allows_localhost {
            true => Some(Guard::new(bound).with_context(|| format!("{bound} is not on loopback"))?),
            false => None,
        };
        Ok(Plain { listener, guard, url: format!("http://{}", reachable(bound)) })
    }
}

/// Listens; `flags` are those that say on which address and on which port.
pub(crate) fn listen(bind: SocketAddr, flags: (&str, &str)) -> anyhow::Result<TcpListener> {
    let (address_flag, port_flag) = flags;
    let error = match open(bind) {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("choose another port with {port_flag}, or stop who has this one")
        }
        io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 need rights; choose one above with {port_flag}")
        }
        io::ErrorKind::AddrNotAvailable => {
            let text = format!("{address_flag} {}: expected an address of this machine", bind.ip());
            return Err(Usage(text).into());
        }
        _ => format!("choose another address with {address_flag}, or another port with {port_flag}"),
    };
    Err(anyhow!("cannot listen on {bind}: {}\nhint: {hint}", plain(&error)))
}

/// A listening socket with a queue as long as the system allows: one that is too short leaves clients waiting for
/// connections that only they believe in.
fn open(bind: SocketAddr) -> io::Result<TcpListener> {
    let socket = if bind.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(bind)?;
    socket.listen(BACKLOG)
}

/// What the system said, without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string().to_lowercase();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Where clients on this machine reach a server bound to `bound`.
pub(crate) fn reachable(bound: SocketAddr) -> SocketAddr {
    match bound.ip().is_unspecified() {
        true => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), bound.port()),
        false => bound,
    }
}

/// The address of this machine that others see, for a server bound to `bound`.
fn own_address(bound: IpAddr) -> IpAddr {
    if !bound.is_unspecified() {
        return bound;
    }
    // Connecting a datagram socket sends nothing; it only asks the routing table, here about an address that
    // stands in documents.
    let routed = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).and_then(|()| socket.local_addr())
    });
    routed.map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
}

/// Everything that clients may call the server.
fn server_names(bound: IpAddr, advertise: IpAddr, more: Vec<San>, api: &Config) -> BTreeSet<San> {
    let hostname = rustix::system::uname().nodename().to_string_lossy().parse().ok();
    let addresses = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), bound, advertise];
    let services = api.service_cidrs.iter().map(first_address);
    let names = CLUSTER_NAMES.iter().map(|name| San::Dns((*name).to_owned()));
    let addresses =
        addresses.into_iter().chain(services).filter(|address| !address.is_unspecified()).map(San::Ip);
    names.chain(addresses).chain(hostname).chain(more).collect()
}

/// What is needed to make certificates and the kubeconfig, and to make them again.
struct Credentials {
    directory: Arc<DataDirectory>,
    /// Where clients on this machine reach the server.
    address: SocketAddr,
    names: BTreeSet<San>,
}

impl Credentials {
    fn prepare(&self, given: &Given) -> anyhow::Result<Pki> {
        let pki = pki::prepare(&datadir::pki(self.directory.path()), &self.names, SystemTime::now())?;
        self.directory.write_kubeconfig(&kubeconfig::render(self.address, &pki, given))?;
        Ok(pki)
    }

    /// Renews certificates, and takes up files that have changed, as long as the server runs.
    async fn keep_fresh(self, mut pki: Pki, mut given: Given, tls: ServerTls) {
        let mut renewal = tokio::time::interval(RENEWAL_INTERVAL);
        renewal.reset();
        loop {
            let found = tokio::select! {
                _ = renewal.tick() => given.clone(),
                found = tls.changed(&given) => found,
            };
            let renewed = self.prepare(&found).and_then(|fresh| {
                if fresh.server != pki.server || found != given {
                    tls.replace(&fresh, &found)?;
                    tracing::info!("new connections get a new certificate, or other authorities");
                }
                (pki, given) = (fresh, found);
                Ok(())
            });
            if let Err(error) = renewed {
                tracing::error!(error = crate::exit::chain(&error), "cannot renew certificates");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::Memory;

    use super::*;

    /// A server that ends when it is told to, over a store of its own.
    fn service(store: Arc<dyn Store>) -> ApiService {
        let (stop_tx, mut stop_rx) = watch::channel(false);
        let serving =
            async move { stop_rx.wait_for(|stop| *stop).await.map(|_| ()).map_err(io::Error::other) };
        ApiService {
            url: String::new(),
            insecure_url: None,
            server: None,
            root_ca: "".into(),
            store,
            patience: LAST_WORDS,
            stop_tx,
            serving: tokio::spawn(serving),
            renewing: tokio::spawn(std::future::pending()),
            audit: None,
        }
    }

    #[tokio::test]
    async fn a_store_that_stops_is_a_failure_with_its_reason() {
        let store = Arc::new(Memory::new().expect("a thread"));
        store.close().await;
        let reason = store.stopped().await;
        let failure = service(store.clone()).failed().await.to_string();
        assert!(failure.contains("the store has stopped") && failure.contains(&*reason), "{failure}");
        let failure = service(store).drain().await.expect_err("it had stopped before").to_string();
        assert!(failure.contains("the store has stopped"), "{failure}");
    }

    #[tokio::test]
    async fn draining_closes_the_store_and_is_no_failure() {
        let store = Arc::new(Memory::new().expect("a thread"));
        service(store.clone()).drain().await.expect("nothing went wrong");
        store.stopped().await;
    }

    #[test]
    fn a_server_on_every_address_is_reached_on_loopback() {
        for (bound, url) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "127.0.0.1:1"),
            ("[::1]:1", "[::1]:1"),
            ("10.0.0.1:1", "10.0.0.1:1"),
        ] {
            assert_eq!(reachable(bound.parse().expect(bound)).to_string(), url);
        }
    }

    #[test]
    fn the_certificate_is_for_every_name_in_use() {
        let more = vec!["api.example.org".parse().expect("a name")];
        let api =
            Config { service_cidrs: vec!["10.96.0.0/12".parse().expect("a network")], ..Config::default() };
        let names = server_names(Ipv4Addr::UNSPECIFIED.into(), IpAddr::from([192, 168, 0, 7]), more, &api);
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        for expected in [
            "localhost",
            "127.0.0.1",
            "::1",
            "192.168.0.7",
            "10.96.0.1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "api.example.org",
        ] {
            assert!(names.iter().any(|name| name == expected), "{expected} is not among {names:?}");
        }
        assert!(!names.iter().any(|name| name == "0.0.0.0"));
    }
}
