//! A real API server inside of a test: no cluster, no container, no socket, ready in milliseconds.
//!
//! [`TestServer::start`] gives a server of its own to every test, on a store in memory. Its [`client`](TestServer::client)
//! is an ordinary [`kube::Client`]: what it asks goes through authentication, authorization, admission and validation as
//! it would over a network, and watches stream. So a test that passes here has seen the rules of the API, and not a fake.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, api::PostParams};
//! use windlass_testkit::TestServer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//!
//! let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("settings".to_owned());
//! let created = maps.create(&PostParams::default(), &map).await?;
//! assert!(created.metadata.uid.is_some());
//!
//! // Nobody may do anything that nobody allowed them.
//! let maps: Api<ConfigMap> = Api::namespaced(server.client_as("jane", &["dev"]), "default");
//! let refused = maps.get("settings").await.expect_err("she may not");
//! assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
//!
//! server.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing looks after the objects unless a test starts something that does: what is deleted leaves its dependents, and
//! namespaces do not end. `windlass-housekeeping` has the controllers for that.
//!
//! The store works on a thread of its own. Tests in virtual time (`start_paused`) would see time jump while they wait for
//! it, so tests against a server run in real time.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response};
use kube::{Client, client::Body};
use tower::Service;
use windlass_access::{User, authn::Peer};
use windlass_apiserver::{ApiServer, Config, StartError};
use windlass_store::{Memory, Store};

/// The group whose members may do everything.
const MASTERS: &str = "system:masters";

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the API server could not be started")]
pub struct NotStarted(#[source] Box<dyn std::error::Error + Send + Sync>);

impl From<StartError> for NotStarted {
    fn from(error: StartError) -> Self {
        NotStarted(Box::new(error))
    }
}

/// An API server for one test.
#[derive(Clone)]
pub struct TestServer {
    server: Arc<ApiServer>,
    store: Arc<Memory>,
    is_stopped: Arc<AtomicBool>,
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").finish_non_exhaustive()
    }
}

impl TestServer {
    /// A server without objects, but for those that every server has.
    pub async fn start() -> Result<Self, NotStarted> {
        Self::start_with(Config::default()).await
    }

    /// The same, with settings of its own.
    pub async fn start_with(config: Config) -> Result<Self, NotStarted> {
        let store = Arc::new(Memory::new().map_err(|error| NotStarted(error.into()))?);
        let server = ApiServer::start(config, Arc::clone(&store) as _).await?;
        Ok(TestServer { server, store, is_stopped: Arc::default() })
    }

    /// Someone who may do everything.
    pub fn client(&self) -> Client {
        self.client_as("admin", &[MASTERS])
    }

    /// Someone in particular, known by a certificate, who may do what roles allow.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        let groups = groups.iter().map(ToString::to_string).collect();
        let user = Arc::new(User::new(user, groups).authenticated());
        let (server, is_stopped) = (Arc::clone(&self.server), Arc::clone(&self.is_stopped));
        Client::new(Direct { server, user, is_stopped }, "default")
    }

    /// Ends watches as a server does that shuts down, and then answers no more.
    pub async fn stop(self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.server.begin_drain();
        self.store.close().await;
    }
}

/// Calls the server without a network.
struct Direct {
    server: Arc<ApiServer>,
    user: Arc<User>,
    is_stopped: Arc<AtomicBool>,
}

impl Service<Request<Body>> for Direct {
    type Response = Response<windlass_apiserver::Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let peer = Peer { certificate: Some(Arc::clone(&self.user)), ..Peer::default() };
        request.extensions_mut().insert(peer);
        let server = Arc::clone(&self.server);
        let is_stopped = self.is_stopped.load(Ordering::SeqCst);
        Box::pin(async move {
            if is_stopped {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the server has stopped"));
            }
            // A task of its own, as on a connection: requests that are awaited together run on all threads.
            let handled = tokio::spawn(async move { server.handle(request).await });
            handled.await.map_err(io::Error::other)
        })
    }
}
