//! Quotas: what they say is used is what is used.
//!
//! The API server of Windlass counts in the very transactions that change what is used, so there is seldom anything to do
//! here. What it does not see is corrected: a status that someone else has written, kinds that came after a quota, and
//! servers that do not count deletions.
//!
//! A quota is read before what it counts, and written only if it has not changed since. The API server changes it with
//! everything that counts, so what is written is never older than what was counted. And since it changes so often, it is
//! counted at most once in a while unless what it bounds has changed.

mod amount;
mod measure;
mod scopes;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use k8s_openapi::{
    api::core::v1::{
        PersistentVolumeClaim, Pod, ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, Service,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_runtime::{Action, Cache, Context, Controller, Key, ReconcileError, Reconciler, Scope};

use self::{
    amount::Amount,
    measure::{Amounts, OF_CLASS, amounts, is_extended, of_claim, of_pod, of_service},
    scopes::Scopes,
};
use crate::{
    Clock, Options, code,
    kinds::{Kind, Kinds, each},
    served,
};

/// How often everything is counted again.
const RECOUNT: Duration = Duration::from_secs(300);

/// How often it is looked for a kind that a quota bounds and that is not served.
const UNSERVED: Duration = Duration::from_secs(5);

/// How long what was counted is good for while only the status changes, which it does with everything that counts.
const CALM: Duration = Duration::from_secs(1);

/// How long it is believed which kinds are served.
const SERVED: Duration = Duration::from_secs(30);

/// Objects that can be counted by their bare plural.
const BY_PLURAL: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

struct Quotas {
    client: Client,
    clock: Clock,
    quotas: Cache<ResourceQuota>,
    counted: Mutex<HashMap<Key, Counted>>,
    /// Those that were discovered last, and when.
    kinds: tokio::sync::Mutex<Option<(Instant, Arc<Kinds>)>>,
}

/// What a quota was when it was last counted.
struct Counted {
    at: Instant,
    revision: Option<String>,
    bounds: Bounds,
    /// How long that is good for if the quota does not change.
    good_for: Duration,
}

/// What a quota is to bound, and what its status says that it does.
type Bounds = (Option<ResourceQuotaSpec>, Option<BTreeMap<String, Quantity>>);

fn bounds(quota: &ResourceQuota) -> Bounds {
    (quota.spec.clone(), quota.status.as_ref().and_then(|status| status.hard.clone()))
}

#[async_trait]
impl Reconciler for Quotas {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        if let Some(wait) = self.until_next_count(key) {
            return Ok(Action::After(wait));
        }
        let quotas: Api<ResourceQuota> = Api::namespaced(self.client.clone(), key.namespace());
        let Some(quota) = quotas.get_opt(key.name()).await? else {
            self.counted.lock().remove(key);
            return Ok(Action::Done);
        };
        let (right, good_for) = self.right(key.namespace(), &quota).await?;
        let (written, good_for) = match right {
            None => (quota, good_for),
            Some(right) => {
                match quotas.replace_status(key.name(), &PostParams::default(), &right).await {
                    Ok(written) => (written, good_for),
                    Err(error) if code(&error) == 404 => return Ok(Action::Done),
                    // It has changed meanwhile, as it does while objects come and go.
                    Err(error) if code(&error) == 409 => (quota, CALM),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let revision = written.metadata.resource_version.clone();
        let counted = Counted { at: Instant::now(), revision, bounds: bounds(&written), good_for };
        self.counted.lock().insert(key.clone(), counted);
        Ok(Action::After(good_for))
    }
}

/// Whether pods can use this.
fn is_of_pods(name: &str) -> bool {
    let bare = name.strip_prefix("limits.").or_else(|| name.strip_prefix("requests.")).unwrap_or(name);
    let is_compute = matches!(bare, "cpu" | "memory" | "ephemeral-storage") || bare.starts_with("hugepages-");
    is_compute
        || name.strip_prefix("requests.").is_some_and(is_extended)
        || matches!(name, "pods" | "count/pods")
}

fn is_of_services(name: &str) -> bool {
    matches!(name, "services" | "count/services" | "services.loadbalancers" | "services.nodeports")
}

fn is_of_claims(name: &str) -> bool {
    let of_class = name.split_once(OF_CLASS).map(|(_, what)| what);
    matches!(of_class.unwrap_or(name), "persistentvolumeclaims" | "requests.storage")
        || name == "count/persistentvolumeclaims"
}

/// The kind whose objects are counted under this name.
fn kind_of<'a>(kinds: &'a Kinds, name: &str) -> Option<&'a Arc<Kind>> {
    let counted = name.strip_prefix("count/").or(BY_PLURAL.contains(&name).then_some(name))?;
    let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
    kinds.preferred.iter().find(|kind| {
        let resource = &kind.resource;
        kind.is_namespaced && kind.can(&["list"]) && resource.plural == plural && resource.group == group
    })
}

impl Quotas {
    /// How long what was counted last is still good for, if it is.
    fn until_next_count(&self, key: &Key) -> Option<Duration> {
        let (quota, counted) = (self.quotas.get(key)?, self.counted.lock());
        let last = counted.get(key)?;
        let good_for = if quota.metadata.resource_version == last.revision {
            last.good_for
        } else if bounds(&quota) == last.bounds {
            CALM
        } else {
            return None;
        };
        good_for.checked_sub(last.at.elapsed()).filter(|wait| !wait.is_zero())
    }

    /// What a quota should be, unless it is that, and how long that is good for.
    async fn right(
        &self,
        namespace: &str,
        quota: &ResourceQuota,
    ) -> Result<(Option<ResourceQuota>, Duration), kube::Error> {
        let spec = quota.spec.clone().unwrap_or_default();
        let hard = spec.hard.clone().unwrap_or_default();
        let said = quota.status.clone().unwrap_or_default();
        let counted = self.count(namespace, &spec, &hard).await?;
        let is_missing = |name: &String| name.starts_with("count/") && !counted.contains_key(name);
        let good_for = if hard.keys().any(is_missing) { UNSERVED } else { RECOUNT };
        let before = amounts(said.used.iter().flatten());
        let mut used = before.clone();
        used.retain(|name, _| hard.contains_key(name));
        used.extend(counted);
        if used == before && said.hard.unwrap_or_default() == hard {
            return Ok((None, good_for));
        }
        let used = used.into_iter().map(|(name, amount)| (name, Quantity(amount.to_string()))).collect();
        let status = Some(ResourceQuotaStatus { hard: Some(hard), used: Some(used) });
        Ok((Some(ResourceQuota { status, ..quota.clone() }), good_for))
    }

    /// What is used of what can be counted here.
    async fn count(
        &self,
        namespace: &str,
        spec: &ResourceQuotaSpec,
        hard: &BTreeMap<String, Quantity>,
    ) -> Result<Amounts, kube::Error> {
        let (scopes, now) = (Scopes::of(spec), (self.clock)());
        let mut total = Total { hard, used: Amounts::new() };
        if total.begin(is_of_pods) {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let add = |pod: Pod| {
                if scopes.fit_pod(&pod) {
                    total.add(of_pod(&pod, now));
                }
            };
            each(&pods, add).await?;
        }
        if total.begin(is_of_services) {
            let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
            let add = |service: Service| {
                if scopes.is_empty() {
                    total.add(of_service(&service));
                }
            };
            each(&services, add).await?;
        }
        if total.begin(is_of_claims) {
            let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
            let add = |claim: PersistentVolumeClaim| {
                if scopes.fit_claim(&claim) {
                    total.add(of_claim(&claim));
                }
            };
            each(&claims, add).await?;
        }
        let is_other = |name: &&String| !is_of_pods(name) && !is_of_services(name) && !is_of_claims(name);
        for name in hard.keys().filter(is_other) {
            let Some(kind) = self.kind(name).await? else { continue };
            // Only pods and claims have what scopes are about.
            let number = if scopes.is_empty() { self.number(namespace, &kind).await? } else { Some(0) };
            total.used.extend(number.map(|number| (name.clone(), Amount::from_count(number))));
        }
        Ok(total.used)
    }

    /// The kind whose objects are counted under this name, if it is served.
    async fn kind(&self, name: &str) -> Result<Option<Arc<Kind>>, kube::Error> {
        let mut known = self.kinds.lock().await;
        if let Some((at, kinds)) = &*known {
            let kind = kind_of(kinds, name);
            if at.elapsed() < if kind.is_some() { SERVED } else { UNSERVED } {
                return Ok(kind.cloned());
            }
        }
        let kinds = Arc::new(Kinds::discover(&self.client).await?);
        let kind = kind_of(&kinds, name).cloned();
        *known = Some((Instant::now(), kinds));
        Ok(kind)
    }

    /// How many objects of a kind there are; `None` if it is not served any more.
    async fn number(&self, namespace: &str, kind: &Kind) -> Result<Option<usize>, kube::Error> {
        let Some(objects) = kind.within(&self.client, namespace) else { return Ok(None) };
        let Some(first) = served(objects.list(&ListParams::default().limit(1)).await)? else {
            return Ok(None);
        };
        let rest = first.metadata.remaining_item_count.and_then(|rest| usize::try_from(rest).ok());
        match (rest, first.metadata.continue_.filter(|token| !token.is_empty())) {
            (Some(rest), _) => Ok(Some(first.items.len() + rest)),
            (None, None) => Ok(Some(first.items.len())),
            // This server does not say how many there are.
            (None, Some(_)) => {
                let mut number = 0;
                Ok(served(each(&objects, |_| number += 1).await)?.map(|()| number))
            }
        }
    }
}

/// What comes together of what is bounded.
struct Total<'a> {
    hard: &'a BTreeMap<String, Quantity>,
    used: Amounts,
}

impl Total<'_> {
    /// Begins with what is of one kind at nothing. Whether any of that is bounded.
    fn begin(&mut self, is_of: fn(&str) -> bool) -> bool {
        let bounded = self.hard.keys().filter(|name| is_of(name));
        let n_before = self.used.len();
        self.used.extend(bounded.map(|name| (name.clone(), Amount::default())));
        self.used.len() > n_before
    }

    fn add(&mut self, amounts: Amounts) {
        for (name, amount) in amounts.into_iter().filter(|(name, _)| self.hard.contains_key(name)) {
            *self.used.entry(name).or_default() += amount;
        }
    }
}

/// The controller of quotas.
pub(crate) fn controller(context: &Context, options: &Options) -> Controller {
    let quotas = context.informers.of::<ResourceQuota>(&Scope::all());
    let reconciler = Quotas {
        client: context.client.clone(),
        clock: Clock::clone(&options.clock),
        quotas: quotas.cache().clone(),
        counted: Mutex::default(),
        kinds: tokio::sync::Mutex::default(),
    };
    context.controller(reconciler).reconciles(&quotas).workers(5)
}
