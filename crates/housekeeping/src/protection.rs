//! Claims, volumes and classes of their attributes that are in use stay until they are not: their finalizers, with the
//! rules of Kubernetes.
//!
//! The API server puts a finalizer onto each when it is created. Here it is put back when somebody has taken it off,
//! and taken off once the object is to go and nothing uses it: a claim is used by pods that have a node, because no
//! other pod will be started with a claim that is to go; a volume is used while it is bound.

use std::fmt::Debug;

use async_trait::async_trait;
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume},
    storage::v1::VolumeAttributesClass,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;
use windlass_runtime::{Action, Cache, Context, Controller, Key, ReconcileError, Reconciler, Scope};

use crate::{Options, code};

const OF_CLAIM: &str = "kubernetes.io/pvc-protection";
const OF_VOLUME: &str = "kubernetes.io/pv-protection";
const OF_CLASS: &str = "kubernetes.io/vac-protection";

/// Pods that have a node.
const SCHEDULED: &str = "spec.nodeName!=";

/// The index of pods by the claims that they name, as `namespace/name`.
const BY_CLAIM: &str = "claims";

/// The finalizers that an object should have, unless it has them.
fn right<K: Resource>(object: &K, finalizer: &str, is_used: bool) -> Option<Vec<String>> {
    let found = object.finalizers();
    let has = found.iter().any(|one| one == finalizer);
    match object.meta().deletion_timestamp {
        Some(_) if has && !is_used => Some(found.iter().filter(|one| *one != finalizer).cloned().collect()),
        None if !has => Some(found.iter().cloned().chain([finalizer.to_owned()]).collect()),
        _ => None,
    }
}

/// Whether it has to be known if an object is in use.
fn is_leaving<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.meta().deletion_timestamp.is_some() && object.finalizers().iter().any(|one| one == finalizer)
}

/// Gives the very object that was looked at these finalizers.
async fn write<K>(api: &Api<K>, object: &K, finalizers: Option<Vec<String>>) -> Result<Action, ReconcileError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let Some(finalizers) = finalizers else { return Ok(Action::Done) };
    let metadata =
        json!({"finalizers": finalizers, "uid": object.uid(), "resourceVersion": object.resource_version()});
    let patch = Patch::Merge(json!({"metadata": metadata}));
    match api.patch(&object.name_any(), &PatchParams::default(), &patch).await {
        Ok(_) => Ok(Action::Done),
        // It is gone, or another than was looked at, which a watch tells.
        Err(error) if matches!(code(&error), 404 | 409) => Ok(Action::Done),
        Err(error) => Err(error.into()),
    }
}

struct Claims {
    client: Client,
    claims: Cache<PersistentVolumeClaim>,
    pods: Cache<Pod>,
}

#[async_trait]
impl Reconciler for Claims {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let Some(claim) = self.claims.get(key) else { return Ok(Action::Done) };
        let is_used = is_leaving(&*claim, OF_CLAIM) && self.is_used(key, &claim).await?;
        let claims = Api::namespaced(self.client.clone(), key.namespace());
        write(&claims, &*claim, right(&*claim, OF_CLAIM, is_used)).await
    }
}

impl Claims {
    async fn is_used(&self, key: &Key, claim: &PersistentVolumeClaim) -> Result<bool, kube::Error> {
        let named = self.pods.by_index(BY_CLAIM, &key.to_string());
        if named.iter().any(|pod| uses(pod, claim)) {
            return Ok(true);
        }
        // A pod may be newer than what the cache has seen.
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace());
        let pods = pods.list(&ListParams::default().fields(SCHEDULED)).await?;
        Ok(pods.iter().any(|pod| uses(pod, claim)))
    }
}

/// The name of the claim that a volume of a pod is, if it is one.
fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(named), _) => Some(named.claim_name.clone()),
        (None, Some(_)) => Some(format!("{}-{}", pod.name_any(), volume.name)),
        (None, None) => None,
    }
}

fn volumes(pod: &Pod) -> &[Volume] {
    pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default()
}

/// The keys of the claims that a pod names.
fn claims_of(pod: &Pod) -> Vec<Key> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    volumes(pod).iter().filter_map(|volume| Some(Key::new(namespace, &claim_name(pod, volume)?))).collect()
}

/// Whether a pod that has a node uses a claim.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let name = claim.name_any();
    // One that was made for the pod is let go as soon as the pod is over, or each might wait for the other.
    let is_over =
        pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0);
    let is_own = || {
        let owners = claim.owner_references().iter();
        !is_over
            && owners
                .clone()
                .any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref())
    };
    volumes(pod).iter().any(|volume| {
        claim_name(pod, volume).is_some_and(|named| named == name)
            && (volume.persistent_volume_claim.is_some() || is_own())
    })
}

struct Volumes {
    api: Api<PersistentVolume>,
    volumes: Cache<PersistentVolume>,
}

#[async_trait]
impl Reconciler for Volumes {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let Some(volume) = self.volumes.get(key) else { return Ok(Action::Done) };
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        write(&self.api, &*volume, right(&*volume, OF_VOLUME, phase == Some("Bound"))).await
    }
}

struct Classes {
    client: Client,
    classes: Cache<VolumeAttributesClass>,
}

#[async_trait]
impl Reconciler for Classes {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let Some(class) = self.classes.get(key) else { return Ok(Action::Done) };
        let is_used = is_leaving(&*class, OF_CLASS) && self.is_used(key.name()).await?;
        write(&Api::all(self.client.clone()), &*class, right(&*class, OF_CLASS, is_used)).await
    }
}

impl Classes {
    /// Asked of the server itself: classes are rarely deleted, and a claim may be newer than a cache.
    async fn is_used(&self, class: &str) -> Result<bool, kube::Error> {
        let claims: Api<PersistentVolumeClaim> = Api::all(self.client.clone());
        if claims
            .list(&ListParams::default())
            .await?
            .iter()
            .any(|claim| classes_of_claim(claim).contains(&class))
        {
            return Ok(true);
        }
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        Ok(volumes
            .list(&ListParams::default())
            .await?
            .iter()
            .any(|volume| class_of_volume(volume) == Some(class)))
    }
}

/// The classes that a claim has, wants, or is on its way to.
fn classes_of_claim(claim: &PersistentVolumeClaim) -> Vec<&str> {
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let status = claim.status.as_ref();
    let current = status.and_then(|status| status.current_volume_attributes_class_name.as_deref());
    let target = status.and_then(|status| status.modify_volume_status.as_ref());
    let target = target.and_then(|modifying| modifying.target_volume_attributes_class_name.as_deref());
    [wanted, current, target].into_iter().flatten().collect()
}

fn class_of_volume(volume: &PersistentVolume) -> Option<&str> {
    volume.spec.as_ref()?.volume_attributes_class_name.as_deref()
}

/// The controller of claims.
pub(crate) fn persistent_volume_claims(context: &Context, _: &Options) -> Controller {
    let claims = context.informers.of::<PersistentVolumeClaim>(&Scope::all());
    let pods = context.informers.of::<Pod>(&Scope { fields: Some(SCHEDULED.to_owned()), ..Scope::all() });
    pods.cache().add_index(BY_CLAIM, |pod| claims_of(pod).iter().map(Key::to_string).collect());
    let reconciler =
        Claims { client: context.client.clone(), claims: claims.cache().clone(), pods: pods.cache().clone() };
    context.controller(reconciler).reconciles(&claims).watches(&pods, claims_of)
}

/// The controller of volumes.
pub(crate) fn persistent_volumes(context: &Context, _: &Options) -> Controller {
    let volumes = context.informers.of_cluster::<PersistentVolume>(&Scope::all());
    let reconciler = Volumes { api: Api::all(context.client.clone()), volumes: volumes.cache().clone() };
    context.controller(reconciler).reconciles(&volumes)
}

/// The controller of classes of volume attributes.
pub(crate) fn volume_attributes_classes(context: &Context, _: &Options) -> Controller {
    let classes = context.informers.of_cluster::<VolumeAttributesClass>(&Scope::all());
    let claims = context.informers.of::<PersistentVolumeClaim>(&Scope::all());
    let volumes = context.informers.of_cluster::<PersistentVolume>(&Scope::all());
    // What no longer uses a class may have been the last to do so, and does not say which it used: all are looked at.
    let (by_claim, by_volume) = (classes.cache().clone(), classes.cache().clone());
    let reconciler = Classes { client: context.client.clone(), classes: classes.cache().clone() };
    context
        .controller(reconciler)
        .reconciles(&classes)
        .watches(&claims, move |_| by_claim.keys())
        .watches(&volumes, move |_| by_volume.keys())
}
