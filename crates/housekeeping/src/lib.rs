//! What keeps a server tidy, as ordinary controllers on [`windlass_runtime`].
//!
//! - Namespaces that are deleted are emptied and then let go.
//! - What belonged to something that is gone goes, too.
//! - Every namespace has a service account and the certificate of the API server's authority.
//! - Quotas say what is used.
//! - Tokens for joining and requests for certificates go when their time has come.
//!
//! [`controllers`] gives all of them; [`run`] runs them where there is no manager to do so.

mod collector;
mod defaults;
mod expiry;
mod kinds;
mod namespaces;
mod quota;

use std::{fmt, sync::Arc};

use futures_util::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{Controller, Informers, Scope, metrics::Metrics};

/// Says what time it is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What can be set.
#[derive(Clone)]
pub struct Options {
    /// How many objects the garbage collector looks after at once.
    pub collector_workers: usize,
    /// How many namespaces are emptied at once.
    pub namespace_workers: usize,
    /// The certificates by which clients in the cluster know the API server, as PEM; nobody is told without.
    pub root_ca: Option<Arc<str>>,
    /// What time it is.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            collector_workers: 32,
            namespace_workers: 10,
            root_ca: None,
            clock: Arc::new(Timestamp::now),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").finish_non_exhaustive()
    }
}

/// All controllers, each under the name that it has in Kubernetes.
pub fn controllers(informers: &Informers, options: &Options, metrics: &Metrics) -> Vec<Controller> {
    let client = informers.client();
    let all = Scope::all();
    let namespaces = informers.of_cluster::<Namespace>(&all);
    let emptying = namespaces::Namespaces::new(client.clone(), Arc::clone(&options.clock));
    let mut controllers = vec![
        Controller::new("namespace-controller", emptying, metrics)
            .reconciles(&namespaces)
            .workers(options.namespace_workers),
        collector::controller(client, options.collector_workers, metrics),
        defaults::accounts(informers, metrics),
        quota::controller(informers, metrics),
        expiry::tokens(informers, &options.clock, metrics),
        expiry::requests(informers, &options.clock, metrics),
    ];
    let root_ca = options.root_ca.as_ref();
    controllers.extend(root_ca.map(|root_ca| defaults::root_cas(informers, root_ca, metrics)));
    controllers
}

/// Runs all controllers until they are told to stop.
pub async fn run(client: Client, options: Options, stop: CancellationToken) {
    let controllers = controllers(&Informers::new(client), &options, &Metrics::default());
    join_all(controllers.iter().map(|controller| controller.run(stop.clone()))).await;
}

/// The code that the API server has refused with; 0 where it did not answer.
fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}
