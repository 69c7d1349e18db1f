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
    Api, Client, ResourceExt,
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

/// The annotation by which a process knows its lease from that of another with its name.
const PROCESS: &str = "windlass.dev/process";

/// What a lease said last, and when that was seen here: clocks of others may be wrong.
type Known = HashMap<Key, (Option<MicroTime>, Instant)>;

/// Who is there. Clones know the same.
#[derive(Clone)]
pub struct Members {
    client: Client,
    namespace: String,
    identity: String,
    /// What tells it from others of that name.
    process: String,
    leases: Informer<Lease>,
    known: Arc<Mutex<Known>>,
    before: Arc<Mutex<HashSet<String>>>,
    has_changed: Arc<AtomicBool>,
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
            process: format!("{:016x}", fastrand::u64(..)),
            known: Arc::default(),
            before: Arc::default(),
            has_changed: Arc::default(),
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
        if *before != alive {
            self.has_changed.store(true, Ordering::Relaxed);
        }
        before.clone_from(&alive);
        alive
    }

    /// Whether it can be told who is there.
    pub(super) fn is_known(&self) -> bool {
        self.leases.reach() == Reach::Synced
    }

    /// Whether somebody has come or left since this was asked last.
    pub(super) fn take_changed(&self) -> bool {
        self.has_changed.swap(false, Ordering::Relaxed)
    }

    /// Is there, until it is dropped.
    pub(super) async fn stay(&self) {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut ticks = interval(RENEW);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewed = None;
        loop {
            ticks.tick().await;
            let key = Key::new(&self.namespace, &self.lease());
            if let Some((renewed, seen)) = renewed.as_ref().zip(self.leases.cache().get(&key))
                && is_of_another(&seen, renewed)
            {
                tracing::error!(
                    identity = self.identity,
                    "another process has the same name: give each its own with --opensergo-identity"
                );
            }
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.lease()),
                    labels: Some([(LABEL.to_owned(), COMPONENT.to_owned())].into()),
                    annotations: Some([(PROCESS.to_owned(), self.process.clone())].into()),
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
                Ok(Ok(lease)) => renewed = Some(lease),
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

/// Whether a lease was renewed by another process since this one has renewed it.
fn is_of_another(seen: &Lease, renewed: &Lease) -> bool {
    let revision = |lease: &Lease| lease.metadata.resource_version.as_deref()?.parse::<u64>().ok();
    revision(seen) > revision(renewed)
        && seen.annotations().get(PROCESS) != renewed.annotations().get(PROCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_of_the_same_name_is_noticed_and_whoever_was_there_before_is_not() {
        let lease = |revision: &str, process: &str| Lease {
            metadata: ObjectMeta {
                resource_version: Some(revision.to_owned()),
                annotations: Some([(PROCESS.to_owned(), process.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: None,
        };
        let own = lease("10", "a");
        assert!(is_of_another(&lease("11", "b"), &own));
        assert!(!is_of_another(&lease("9", "b"), &own), "that was before a restart");
        assert!(!is_of_another(&lease("11", "a"), &own));
    }
}
