//! What keeps a server tidy, as ordinary controllers on [`windlass_runtime`].
//!
//! - Namespaces that are deleted are emptied and then let go.
//! - What belonged to something that is gone goes, too.
//! - Every namespace has a service account and the certificate of the API server's authority.
//! - Quotas say what is used.
//! - Claims and volumes that are deleted stay while they are used, and no longer.
//! - Tokens for joining and requests for certificates go when their time has come.
//!
//! [`add_to`] gives all of them to a manager; [`run`] runs them where there is none.

mod collector;
mod defaults;
mod expiry;
mod kinds;
mod namespaces;
mod protection;
mod quota;

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{ConfigError, Context, Controller, Manager};

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

/// Puts a controller together.
type Build = fn(&Context, &Options) -> Controller;

/// All controllers, each under the name that it has in Kubernetes.
const CONTROLLERS: [(&str, Build); 9] = [
    ("namespace-controller", namespaces::controller),
    (collector::NAME, collector::controller),
    ("serviceaccount-controller", defaults::accounts),
    ("resourcequota-controller", quota::controller),
    ("persistentvolumeclaim-protection-controller", protection::persistent_volume_claims),
    ("persistentvolume-protection-controller", protection::persistent_volumes),
    ("volumeattributesclass-protection-controller", protection::volume_attributes_classes),
    ("token-cleaner-controller", expiry::tokens),
    ("certificatesigningrequest-cleaner-controller", expiry::requests),
];

/// The controller that there is only where the authority's certificate is known.
const ROOT_CA: &str = "root-ca-certificate-publisher-controller";

/// Adds all controllers to a manager, which puts them together anew whenever that is needed. Where several processes
/// keep one server tidy, the manager should [elect](Manager::elect) one of them.
pub fn add_to(manager: &Manager, options: &Options) -> Result<(), ConfigError> {
    for (name, build) in CONTROLLERS {
        let options = options.clone();
        manager.add(name, move |context| Ok(build(context, &options)))?;
    }
    if let Some(root_ca) = options.root_ca.clone() {
        manager.add(ROOT_CA, move |context| Ok(defaults::root_cas(context, &root_ca)))?;
    }
    Ok(())
}

/// Runs all controllers, and nothing else, until they are told to stop.
pub async fn run(client: Client, options: Options, stop: CancellationToken) -> Result<(), ConfigError> {
    let manager = Manager::new(client);
    add_to(&manager, &options)?;
    manager.run(stop).await;
    Ok(())
}

/// The code that the API server has refused with; 0 where it did not answer.
fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

/// What the API server has said, or what has happened to the question, for people to read.
fn text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => error.to_string(),
    }
}

/// `None` when the API server does not do this, or not any more because the kind went.
fn served<T>(outcome: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match outcome {
        Err(error) if matches!(code(&error), 404 | 405) => Ok(None),
        outcome => outcome.map(Some),
    }
}
