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
//! The server is kept tidy, as `windlass up` keeps its own: what belonged to something that is gone goes, namespaces that are
//! deleted are emptied and end, and each has its service account. [`TestServer::bare`] is without all that.
//!
//! The store works on a thread of its own. Tests in virtual time (`start_paused`) would see time jump while they wait for
//! it, so tests against a server run in real time.

use std::{fmt, sync::Arc};

use kube::Client;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
pub use windlass_apiserver::Config;
use windlass_apiserver::{ApiServer, Direct, StartError};
use windlass_housekeeping::Options;
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

/// An API server for one test. Clones are the same server.
#[derive(Clone)]
pub struct TestServer {
    server: Arc<ApiServer>,
    store: Arc<Memory>,
    housekeeping: Option<Arc<Housekeeping>>,
}

/// What keeps it tidy, for as long as there is this.
struct Housekeeping {
    stop: CancellationToken,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Housekeeping {
    fn start(client: Client) -> Arc<Self> {
        let stop = CancellationToken::new();
        let until = stop.clone();
        let running = tokio::spawn(async move {
            let kept = windlass_housekeeping::run(client, Options::default(), until).await;
            kept.expect("it is not configured, so nothing can be wrong with it");
        });
        Arc::new(Housekeeping { stop, running: Mutex::new(Some(running)) })
    }

    async fn stop(&self) {
        self.stop.cancel();
        let running = self.running.lock().take();
        if let Some(running) = running {
            // One that has panicked has stopped, too.
            let _ = running.await;
        }
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").finish_non_exhaustive()
    }
}

impl TestServer {
    /// A server without objects, but for those that every server has, which is kept tidy.
    pub async fn start() -> Result<Self, NotStarted> {
        let mut server = Self::bare(Config::default()).await?;
        server.housekeeping = Some(Housekeeping::start(server.client()));
        Ok(server)
    }

    /// A server with settings of its own, and without controllers.
    pub async fn bare(config: Config) -> Result<Self, NotStarted> {
        let store = Arc::new(Memory::new().map_err(|error| NotStarted(error.into()))?);
        let server = ApiServer::start(config, Arc::clone(&store) as _).await?;
        Ok(TestServer { server, store, housekeeping: None })
    }

    /// Someone who may do everything.
    pub fn client(&self) -> Client {
        self.client_as("admin", &[MASTERS])
    }

    /// Someone in particular, known by a certificate, who may do what roles allow.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        Client::new(Direct::new(&self.server, user, groups), "default")
    }

    /// Ends watches as a server does that shuts down, and then answers no more.
    pub async fn stop(self) {
        if let Some(housekeeping) = &self.housekeeping {
            housekeeping.stop().await;
        }
        self.server.begin_drain();
        self.store.close().await;
    }
}
