//! The manager: runs controllers, all of them or some, until it is told to stop.
//!
//! Controllers are added by name, each with a way to put it together. While the manager runs, each can be enabled, disabled
//! and told something else ([`Manager::configure`]); it is then stopped, and put together anew. So it is when the leadership
//! that it needs is lost, and when a kind that it watches goes away, for which it then waits. One that cannot be put
//! together, or panics, is tried again; others do not notice.
//!
//! It stops in order: workers, then informers, then the lease is given back, then events are written.

mod health;
mod serve;
#[cfg(test)]
mod tests;
mod unit;

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use kube::Client;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::unit::Unit;
pub use self::{health::Check, serve::Pages};
use crate::{
    Context, Controller, Election, Events, HubConfig, Informers, Leadership, ReconcilerConfig, Registration,
    config::LeaderElectionConfig, election::ElectionError, metrics::Metrics, registry::BuildError,
};

/// How long events may take to be written once everything else has stopped.
const FLUSH: Duration = Duration::from_secs(5);

/// Why a configuration is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is about a reconciler that is not there.
    #[error("there is no reconciler {name:?}; there are: {}", known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// Those that are there.
        known: Vec<String>,
    },
    /// Two have one name.
    #[error("two reconcilers are named {0:?}")]
    Twice(String),
    /// There cannot be such an election.
    #[error(transparent)]
    Election(#[from] ElectionError),
}

/// How a controller is, for people to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Its name.
    pub name: String,
    /// Whether it is to run.
    pub enabled: bool,
    /// Whether it looks after its objects.
    pub running: bool,
    /// Whether its caches have seen everything.
    pub synced: bool,
    /// What it does, or waits for, in words.
    pub state: String,
    /// How many keys are ready.
    pub queue_length: usize,
    /// How many keys are being looked after.
    pub in_hand: usize,
    /// How many keys have failed and not gone well since.
    pub failing: usize,
    /// How many objects are looked after at once, at most.
    pub workers: usize,
    /// What went wrong last, unless it has gone well since.
    pub last_error: Option<String>,
}

/// Runs controllers. Clones are the same manager.
#[derive(Clone)]
pub struct Manager(Arc<Shared>);

struct Shared {
    client: Client,
    informers: Informers,
    metrics: Metrics,
    events: Events,
    registry: Mutex<Registry>,
    units: Mutex<BTreeMap<Arc<str>, Arc<Unit>>>,
    checks: Mutex<Vec<(String, Check)>>,
    /// Taken by whoever runs.
    election: Mutex<Option<Election>>,
    /// The name of the lease. With one, controllers wait until this one leads.
    lease: OnceLock<String>,
    leadership: watch::Sender<Option<Leadership>>,
    /// How many act on behalf of the leadership.
    n_leading: watch::Sender<usize>,
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.units.lock().keys()).finish()
    }
}

impl Manager {
    /// A manager without controllers.
    pub fn new(client: Client) -> Self {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        Manager(Arc::new(Shared {
            informers: Informers::new(client.clone()),
            events: Events::start(client.clone(), &metrics),
            client,
            metrics,
            registry: Mutex::new(registry),
            units: Mutex::default(),
            checks: Mutex::default(),
            election: Mutex::default(),
            lease: OnceLock::new(),
            leadership: watch::channel(None).0,
            n_leading: watch::channel(0).0,
        }))
    }

    /// A manager of reconcilers that are registered, configured.
    pub fn of(
        client: Client,
        registrations: &[Registration],
        config: &HubConfig,
    ) -> Result<Self, ConfigError> {
        let manager = Manager::new(client);
        for registration in registrations {
            manager.add(registration.name, registration.build)?;
        }
        manager.apply(config)?;
        manager.elect_as(&config.leader_election)?;
        Ok(manager)
    }

    /// Adds a controller, enabled. Before the manager runs.
    pub fn add(
        &self,
        name: impl Into<Arc<str>>,
        build: impl Fn(&Context) -> Result<Controller, BuildError> + Send + Sync + 'static,
    ) -> Result<(), ConfigError> {
        let (name, mut units) = (name.into(), self.0.units.lock());
        if units.contains_key(&name) {
            return Err(ConfigError::Twice(name.to_string()));
        }
        units.insert(Arc::clone(&name), Arc::new(Unit::new(name, Box::new(build))));
        Ok(())
    }

    /// Has controllers run only while an election is won, but those that run everywhere. Before the manager runs.
    pub fn elect(&self, election: Election) {
        self.0.lease.get_or_init(|| election.name().to_owned());
        *self.0.election.lock() = Some(election);
    }

    /// The same, as a configuration says, if it wants an election at all.
    pub fn elect_as(&self, wanted: &LeaderElectionConfig) -> Result<(), ConfigError> {
        if wanted.enabled {
            let (client, namespace, name) = (self.0.client.clone(), &wanted.namespace, &wanted.name);
            self.elect(Election::new(client, namespace, name, &host(), wanted.durations())?);
        }
        Ok(())
    }

    /// Adds something that readiness depends on.
    pub fn add_check(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.0.checks.lock().push((name.into(), Box::new(check)));
    }

    /// Tells one controller how to run, now and from now on. If that is news, it is stopped and put together anew.
    pub fn configure(&self, name: &str, config: ReconcilerConfig) -> Result<(), ConfigError> {
        self.unit(name)?.configure(config);
        Ok(())
    }

    /// Has one controller run, or not, and leaves the rest of its configuration as it is.
    pub fn enable(&self, name: &str, enabled: bool) -> Result<(), ConfigError> {
        let unit = self.unit(name)?;
        unit.configure(ReconcilerConfig { enabled, ..unit.config() });
        Ok(())
    }

    /// Replaces the configuration of all reconcilers; those that it does not name run as they say. Nothing changes if
    /// it is wrong. Addresses and the election are as they were until the next start.
    pub fn apply(&self, config: &HubConfig) -> Result<(), ConfigError> {
        for name in config.reconcilers.keys() {
            self.unit(name)?;
        }
        for unit in self.units() {
            unit.configure(config.reconcilers.get(unit.name()).cloned().unwrap_or_default());
        }
        Ok(())
    }

    /// Runs until it is told to stop, and then until everything has stopped.
    pub async fn run(&self, stop: CancellationToken) {
        // Each has a task of its own, so that nobody waits for another.
        let mut lives = JoinSet::new();
        for unit in self.units() {
            let (shared, stop) = (Arc::clone(&self.0), stop.clone());
            lives.spawn(async move { unit.live(&shared, &stop).await });
        }
        let lives = async { while lives.join_next().await.is_some() {} };
        let election = self.0.election.lock().take();
        match election {
            None => lives.await,
            Some(election) => {
                let election = election.run(stop.clone(), |leadership| self.0.lead(leadership, &stop));
                tokio::join!(lives, election);
            }
        }
        if !self.0.events.flush(FLUSH).await {
            tracing::warn!("not all events were written");
        }
    }

    /// Serves health and metrics where a configuration says, until it is told to stop. Fails before it serves anything
    /// if it cannot listen there.
    pub async fn serve_configured(
        &self,
        config: &HubConfig,
        stop: CancellationToken,
    ) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        let (health, metrics) = (config.health_probe_bind_address, config.metrics_bind_address);
        let wanted = match health == metrics {
            true => vec![(health, Pages::All)],
            false => vec![(health, Pages::Health), (metrics, Pages::Metrics)],
        };
        let mut served = vec![];
        for (address, pages) in wanted {
            if let Some(address) = address {
                let listener = TcpListener::bind(address).await?;
                let (manager, stop) = (self.clone(), stop.clone());
                served.push(async move { manager.serve(listener, pages, stop).await });
            }
        }
        Ok(join_all(served).map(drop))
    }

    /// How each controller is.
    pub fn status(&self) -> Vec<ControllerStatus> {
        self.units().iter().map(|unit| unit.status()).collect()
    }

    /// Whether this one leads; `None` where nobody has to.
    pub fn is_leader(&self) -> Option<bool> {
        self.0.lease.get()?;
        Some(self.0.leadership.borrow().as_ref().is_some_and(Leadership::is_valid))
    }

    /// The informers that its controllers share.
    pub fn informers(&self) -> &Informers {
        &self.0.informers
    }

    fn units(&self) -> Vec<Arc<Unit>> {
        self.0.units.lock().values().cloned().collect()
    }

    fn unit(&self, name: &str) -> Result<Arc<Unit>, ConfigError> {
        let units = self.0.units.lock();
        units.get(name).cloned().ok_or_else(|| ConfigError::Unknown {
            name: name.to_owned(),
            known: units.keys().map(ToString::to_string).collect(),
        })
    }
}

impl Shared {
    fn context(&self, name: &Arc<str>, config: &ReconcilerConfig) -> Context {
        Context {
            name: Arc::clone(name),
            client: self.client.clone(),
            informers: self.informers.clone(),
            metrics: self.metrics.clone(),
            events: self.events.clone(),
            settings: config.settings.clone(),
            config: config.clone(),
            leadership: self.leadership.subscribe(),
            has_election: self.lease.get().is_some(),
        }
    }

    /// Lets controllers act until the leadership is over or the manager stops, and then until none does any more.
    async fn lead(&self, leadership: Leadership, stop: &CancellationToken) {
        self.leadership.send_replace(Some(leadership.clone()));
        tokio::select! {
            () = leadership.over().cancelled() => {}
            () = stop.cancelled() => {}
        }
        if leadership.over().is_cancelled() {
            self.leadership.send_replace(None);
        }
        // The sender is here.
        let _ = self.n_leading.subscribe().wait_for(|n_leading| *n_leading == 0).await;
        self.leadership.send_replace(None);
    }

    /// Waits until this one leads.
    async fn leads(&self) -> Leadership {
        let mut leadership = self.leadership.subscribe();
        loop {
            let now = leadership.borrow_and_update().clone().filter(Leadership::is_valid);
            match now {
                Some(leadership) => return leadership,
                // The sender is here.
                None => drop(leadership.changed().await),
            }
        }
    }
}

/// What this machine is called, for people who look at a lease.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "windlass".to_owned() } else { name.trim().to_owned() }
}
