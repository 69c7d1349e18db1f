//! Quotas: what they say is used is what is used.
//!
//! The API server of Windlass counts in the very transactions that change what is used, so there is seldom anything to do
//! here. What it does not see is corrected: a status that someone else has written, kinds that came after a quota, and
//! servers that do not count deletions.
//!
//! A quota is read before what it counts, and written only if it has not changed since. The API server changes it with
//! everything that counts, so what is written is never older than what was counted.

mod amount;
mod measure;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::{
    api::core::v1::{
        PersistentVolumeClaim, Pod, ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, Service,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, PostParams},
    core::PartialObjectMeta,
};
use windlass_runtime::{Action, Context, Controller, Key, ReconcileError, Reconciler, Scope};

use self::{
    amount::Amount,
    measure::{Amounts, amounts, fits, is_extended, of_claim, of_pod, of_service},
};
use crate::{
    Options, code,
    kinds::{Kind, Kinds},
};

/// How often everything is counted again.
const RECOUNT: Duration = Duration::from_secs(300);

/// How often it is looked for a kind that a quota bounds and that is not served.
const UNSERVED: Duration = Duration::from_secs(5);

/// When to try again after the quota has changed meanwhile.
const AGAIN: Duration = Duration::from_millis(50);

/// Objects that can be counted by their bare plural.
const BY_PLURAL: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

struct Quotas {
    client: Client,
}

#[async_trait]
impl Reconciler for Quotas {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let quotas: Api<ResourceQuota> = Api::namespaced(self.client.clone(), key.namespace());
        let Some(mut quota) = quotas.get_opt(key.name()).await? else { return Ok(Action::Done) };
        let spec = quota.spec.clone().unwrap_or_default();
        let hard = spec.hard.clone().unwrap_or_default();
        let said = quota.status.clone().unwrap_or_default();
        let Some(counted) = self.count(key.namespace(), &spec, &hard).await? else { return Ok(Action::Done) };
        let is_missing = |name: &String| name.starts_with("count/") && !counted.contains_key(name);
        let next = if hard.keys().any(is_missing) { UNSERVED } else { RECOUNT };
        let before = amounts(said.used.iter().flatten());
        let mut used = before.clone();
        used.retain(|name, _| hard.contains_key(name));
        used.extend(counted);
        if used == before && said.hard.unwrap_or_default() == hard {
            return Ok(Action::After(next));
        }
        let used = used.into_iter().map(|(name, amount)| (name, Quantity(amount.to_string()))).collect();
        quota.status = Some(ResourceQuotaStatus { hard: Some(hard), used: Some(used) });
        match quotas.replace_status(key.name(), &PostParams::default(), &quota).await {
            Ok(_) => Ok(Action::After(next)),
            Err(error) if code(&error) == 404 => Ok(Action::Done),
            Err(error) if code(&error) == 409 => Ok(Action::After(AGAIN)),
            Err(error) => Err(error.into()),
        }
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
    matches!(name, "persistentvolumeclaims" | "count/persistentvolumeclaims" | "requests.storage")
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
    /// What is used of what can be counted here; `None` when the quota is about objects that cannot be told from others.
    async fn count(
        &self,
        namespace: &str,
        spec: &ResourceQuotaSpec,
        hard: &BTreeMap<String, Quantity>,
    ) -> Result<Option<Amounts>, kube::Error> {
        if fits(spec, &Pod::default()).is_none() {
            return Ok(None);
        }
        let has_scopes = spec.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty());
        let wants = |is_of: fn(&str) -> bool| hard.keys().any(|name| is_of(name));
        let mut used = Amounts::new();
        let mut add = |is_of: fn(&str) -> bool, each: Vec<Amounts>| {
            let bounded = hard.keys().filter(|name| is_of(name));
            used.extend(bounded.map(|name| (name.clone(), Amount::default())));
            for (name, amount) in each.into_iter().flatten().filter(|(name, _)| hard.contains_key(name)) {
                *used.entry(name).or_default() += amount;
            }
        };
        if wants(is_of_pods) {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let pods = pods.list(&ListParams::default()).await?.items;
            let ours = pods.iter().filter(|pod| fits(spec, pod) == Some(true));
            add(is_of_pods, ours.map(of_pod).collect());
        }
        // Only pods have what these scopes are about.
        if wants(is_of_services) {
            let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
            let services = services.list(&ListParams::default()).await?.items;
            add(is_of_services, services.iter().filter(|_| !has_scopes).map(of_service).collect());
        }
        if wants(is_of_claims) {
            let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
            let claims = claims.list(&ListParams::default()).await?.items;
            add(is_of_claims, claims.iter().filter(|_| !has_scopes).map(of_claim).collect());
        }
        let is_other = |name: &&String| !is_of_pods(name) && !is_of_services(name) && !is_of_claims(name);
        let others: Vec<&String> = hard.keys().filter(is_other).collect();
        if others.is_empty() {
            return Ok(Some(used));
        }
        let kinds = Kinds::discover(&self.client).await?;
        for name in others {
            let Some(kind) = kind_of(&kinds, name) else { continue };
            let number = if has_scopes { 0 } else { self.number(namespace, kind).await? };
            used.insert(name.clone(), Amount::from_count(number));
        }
        Ok(Some(used))
    }

    /// How many objects of a kind there are.
    async fn number(&self, namespace: &str, kind: &Kind) -> Result<usize, kube::Error> {
        let objects: Api<PartialObjectMeta<DynamicObject>> = kind.api(&self.client, namespace);
        let first = objects.list(&ListParams::default().limit(1)).await?;
        let rest = first.metadata.remaining_item_count.and_then(|rest| usize::try_from(rest).ok());
        match (rest, first.metadata.continue_.filter(|token| !token.is_empty())) {
            (Some(rest), _) => Ok(first.items.len() + rest),
            (None, None) => Ok(first.items.len()),
            // This server does not say how many there are.
            (None, Some(_)) => Ok(objects.list(&ListParams::default()).await?.items.len()),
        }
    }
}

/// The controller of quotas.
pub(crate) fn controller(context: &Context, _: &Options) -> Controller {
    let quotas = context.informers.of::<ResourceQuota>(&Scope::all());
    context.controller(Quotas { client: context.client.clone() }).reconciles(&quotas).workers(5)
}
