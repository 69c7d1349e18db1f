//! The processes that serve subscribers: each renews a lease, so that the others know that it is there.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use windlass_runtime::{Informer, Informers, Key, Scope, informer::Reach};

use super::COMPONENT;

/// How often a lease is renewed, and for how long it counts.
const RENEW: Duration = Duration::from_secs(10);
const DURATION: Duration = Duration::from_secs(30);

/// After how long a lease that nobody renews is removed, and how long one's own may take to be.
const FORGOTTEN: Duration = Duration::from_secs(10 * 60);
const LEAVE: Duration = Duration::from_secs(1);

/// What tells these leases from others.
const LABEL: &str = "app.kubernetes.io/name";

/// What a lease said last, and when that was seen here: clocks of others may be wrong.
type Known = HashMap<Key, (Option<MicroTime>, Instant)>;

/// Who is there. Clones know the same.
#[derive(Clone)]
pub struct Members {
    client: Client,
    namespace: String,
    identity: String,
    leases: Informer<Lease>,
    known: Arc<Mutex<Known>>,
    before: Arc<Mutex<HashSet<String>>>,
    has_left: Arc<AtomicBool>,
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Members {
    /// Those who share an API server with this one.
    pub(super) fn new(informers: &Informers, identity: &str) -> Self {
        let client = informers.client().clone();
        let namespace = client.default_namespace().to_owned();
        // They may have been started in namespaces of their own, and write into the same rules all the same.
        let scope = Scope { labels: Some(format!("{LABEL}={COMPONENT}")), ..Scope::all() };
        Members {
            leases: informers.of(&scope),
            client,
            namespace,
            identity: identity.to_owned(),
            known: Arc::default(),
            before: Arc::default(),
            has_left: Arc::default(),
        }
    }

    /// The names of all who are there. Until that can be told, everyone is.
    pub(super) fn alive(&self) -> HashSet<String> {
        let now = Instant::now();
        let mut known = self.known.lock();
        let leases = self.leases.cache().all();
        known.retain(|key, _| leases.iter().any(|lease| Key::of(&**lease) == *key));
        for lease in &leases {
            let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
            let entry = known.entry(Key::of(&**lease)).or_insert_with(|| (renewed.clone(), now));
            if entry.0 != renewed {
                *entry = (renewed, now);
            }
        }
        let holders = leases.iter().filter(|lease| known[&Key::of(&***lease)].1 + DURATION > now);
        let alive: HashSet<String> =
            holders.filter_map(|lease| lease.spec.as_ref()?.holder_identity.clone()).collect();
        let mut before = self.before.lock();
        if before.difference(&alive).next().is_some() {
            self.has_left.store(true, Ordering::Relaxed);
        }
        before.clone_from(&alive);
        alive
    }

    /// Whether it can be told who is there.
    pub(super) fn is_known(&self) -> bool {
        self.leases.reach() == Reach::Synced
    }

    /// Whether somebody has left since this was asked last.
    pub(super) fn take_left(&self) -> bool {
        self.has_left.swap(false, Ordering::Relaxed)
    }

    /// Is there, until it is dropped.
    pub(super) async fn stay(&self) {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut ticks = interval(RENEW);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.lease()),
                    labels: Some([(LABEL.to_owned(), COMPONENT.to_owned())].into()),
                    ..ObjectMeta::default()
                },
                spec: Some(LeaseSpec {
                    holder_identity: Some(self.identity.clone()),
                    lease_duration_seconds: Some(DURATION.as_secs() as i32),
                    renew_time: Some(MicroTime(Timestamp::now())),
                    ..LeaseSpec::default()
                }),
            };
            self.remove_forgotten(&api).await;
            let params = PatchParams::apply(COMPONENT).force();
            let (name, patch) = (self.lease(), Patch::Apply(&lease));
            match timeout(RENEW, api.patch(&name, &params, &patch)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the lease that says who is there could not be renewed");
                }
                Err(_) => tracing::warn!("the API server has not answered; a lease is renewed again"),
            }
        }
    }

    /// Removes the leases of those who have been gone for long and did not say so.
    async fn remove_forgotten(&self, api: &Api<Lease>) {
        let now = Instant::now();
        let known: Vec<String> = {
            let known = self.known.lock();
            let forgotten = known.iter().filter(|(_, (_, seen))| *seen + FORGOTTEN < now);
            let forgotten = forgotten.map(|(key, _)| key).filter(|key| key.namespace() == self.namespace);
            forgotten.map(|key| key.name().to_owned()).filter(|name| *name != self.lease()).collect()
        };
        for name in known {
            if let Ok(Err(error)) = timeout(RENEW, api.delete(&name, &DeleteParams::default())).await {
                tracing::debug!(name, %error, "the lease of a process that is gone could not be removed");
            }
        }
    }

    /// Goes, and says so.
    pub async fn leave(&self) {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let (name, params) = (self.lease(), DeleteParams::default());
        if let Ok(Err(error)) = timeout(LEAVE, api.delete(&name, &params)).await {
            tracing::debug!(%error, "the lease that says who is there could not be removed");
        }
    }

    fn lease(&self) -> String {
        format!("{COMPONENT}-{}", self.identity)
    }
}
