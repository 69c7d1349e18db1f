//! Namespaces that are deleted: their content goes first, and then they go themselves.
//!
//! Kinds are found by discovery each time, so that custom ones are not forgotten. Pods go before everything else, because
//! they use the rest. Before each kind it is looked whether the namespace is still the one that was deleted: someone else
//! may have let it go, and a new one of its name is not to be emptied. What is
//! left, and why, is said in the conditions that `kubectl describe namespace` shows.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use k8s_openapi::{
    api::core::v1::{Namespace, NamespaceCondition, NamespaceSpec, NamespaceStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
    core::PartialObjectMeta,
};
use parking_lot::Mutex;
use windlass_runtime::{Action, Context, Controller, Key, Limits, ReconcileError, Reconciler, Scope};

use crate::{
    Clock, Options, code,
    kinds::{Kind, Kinds, Metadata, each},
    served, text,
};

/// The finalizer of a namespace's spec that is ours.
const OURS: &str = "kubernetes";

/// Kinds that are emptied at once.
const AT_ONCE: usize = 8;

/// Objects that are deleted at once where they cannot be deleted together.
const SINGLE_AT_ONCE: usize = 32;

/// How long what has finalizers is given, in seconds.
const FINALIZER_ESTIMATE: i64 = 15;

/// How soon it is first looked whether content has gone.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// How long at most to wait before what failed is tried again.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// Empties namespaces.
struct Namespaces {
    client: Client,
    clock: Clock,
    /// How long was waited last for content that stays.
    waits: Mutex<HashMap<Key, Duration>>,
}

/// What was found of one kind, or of all.
#[derive(Debug, Default)]
struct Found {
    /// How long it may take to go, in seconds.
    estimate: i64,
    /// Objects by what they are.
    remaining: BTreeMap<String, usize>,
    /// Objects by their finalizers.
    finalizers: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Found {
    fn failed(error: &kube::Error) -> Self {
        Found { failures: vec![text(error)], ..Found::default() }
    }

    fn add(&mut self, other: Found) {
        self.estimate = self.estimate.max(other.estimate);
        self.failures.extend(other.failures);
        self.remaining.extend(other.remaining);
        for (finalizer, number) in other.finalizers {
            *self.finalizers.entry(finalizer).or_default() += number;
        }
    }
}

/// What of a namespace could not be deleted.
#[derive(Debug, thiserror::Error)]
#[error("the content of the namespace could not be deleted: {0}")]
struct Undeleted(String);

/// The namespace that was deleted is not there any more, though there may be another one of its name.
struct Replaced;

#[async_trait]
impl Reconciler for Namespaces {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = namespaces.get_opt(key.name()).await?;
        let Some(namespace) = found.filter(|namespace| namespace.metadata.deletion_timestamp.is_some())
        else {
            self.waits.lock().remove(key);
            return Ok(Action::Done);
        };
        if !finalizers(&namespace).iter().any(|finalizer| finalizer == OURS) {
            return Ok(Action::Done);
        }
        match self.empty(&namespaces, namespace).await? {
            Some(most) => {
                let mut waits = self.waits.lock();
                let wait = waits.get(key).map_or(FIRST_LOOK, |last| last.saturating_mul(2)).min(most);
                waits.insert(key.clone(), wait);
                Ok(Action::After(wait))
            }
            None => {
                self.waits.lock().remove(key);
                Ok(Action::Done)
            }
        }
    }
}

/// The controller of namespaces that are deleted.
pub(crate) fn controller(context: &Context, options: &Options) -> Controller {
    let namespaces = context.informers.of_cluster::<Namespace>(&Scope::all());
    let emptying = Namespaces {
        client: context.client.clone(),
        clock: Arc::clone(&options.clock),
        waits: Mutex::default(),
    };
    let limits = Limits { most: MOST_WAIT, ..Limits::default() };
    context
        .controller(emptying)
        .limits(limits, &context.metrics)
        .reconciles(&namespaces)
        .workers(options.namespace_workers)
}

fn finalizers(namespace: &Namespace) -> &[String] {
    namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default()
}

impl Namespaces {
    /// Empties a namespace. How long at most to wait for what is left; `None` when nothing is, and it has been let go.
    async fn empty(
        &self,
        namespaces: &Api<Namespace>,
        namespace: Namespace,
    ) -> Result<Option<Duration>, ReconcileError> {
        let (found, kinds) = match Kinds::discover(&self.client).await {
            Ok(kinds) => match self.empty_all(&namespace, &kinds).await {
                Ok(found) => (found, kinds),
                Err(Replaced) => return Ok(None),
            },
            Err(error) => {
                let mut nothing = Kinds::default();
                nothing.unknown.insert(EVERYTHING.to_owned(), text(&error));
                (Found::default(), nothing)
            }
        };
        let mut failures = found.failures.clone();
        failures.extend(discovery_failure(&kinds));
        let conditions = conditions(&found, &kinds);
        let namespace = self.tell(namespaces, namespace, conditions).await?;
        if !failures.is_empty() {
            return Err(Undeleted(failures.join(", ")).into());
        }
        if found.estimate > 0 {
            return Ok(Some(Duration::from_secs(found.estimate.unsigned_abs() / 2 + 1)));
        }
        release(namespaces, namespace).await?;
        Ok(None)
    }

    async fn empty_all(&self, namespace: &Namespace, kinds: &Kinds) -> Result<Found, Replaced> {
        let ours = kinds.preferred.iter().filter(|kind| kind.is_namespaced && kind.can(&["delete"])).cloned();
        let (pods, others): (Vec<_>, Vec<_>) = ours.partition(|kind| is_pods(kind));
        let mut found = Found::default();
        for pods in pods {
            found.add(self.empty_kind(namespace, &pods).await?);
        }
        if !found.remaining.is_empty() {
            return Ok(found);
        }
        let each = stream::iter(others).map(|kind| async move { self.empty_kind(namespace, &kind).await });
        let mut each = std::pin::pin!(each.buffer_unordered(AT_ONCE));
        while let Some(one) = each.next().await {
            found.add(one?);
        }
        Ok(found)
    }

    async fn empty_kind(&self, namespace: &Namespace, kind: &Kind) -> Result<Found, Replaced> {
        match self.is_same(namespace).await {
            Ok(true) => {}
            Ok(false) => return Err(Replaced),
            Err(error) => return Ok(Found::failed(&error)),
        }
        let emptied = self.try_empty_kind(&namespace.name_any(), kind).await;
        Ok(emptied.unwrap_or_else(|error| Found::failed(&error)))
    }

    /// Whether this is still the namespace of its name.
    async fn is_same(&self, namespace: &Namespace) -> Result<bool, kube::Error> {
        let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(self.client.clone());
        let now = namespaces.get_opt(&namespace.name_any()).await?;
        Ok(now.is_some_and(|now| now.metadata.uid == namespace.metadata.uid))
    }

    async fn try_empty_kind(&self, namespace: &str, kind: &Kind) -> Result<Found, kube::Error> {
        let Some(objects) = kind.within(&self.client, namespace) else { return Ok(Found::default()) };
        let is_done = kind.can(&["deletecollection"])
            && served(objects.delete_collection(&DeleteParams::background(), &ListParams::default()).await)?
                .is_some();
        if !kind.can(&["list"]) {
            return Ok(Found::default());
        }
        if !is_done {
            delete_each(&objects).await?;
        }
        let mut left = Left::default();
        served(each(&objects, |object| left.add(object)).await)?;
        Ok(left.found(namespace, kind))
    }

    /// Says how far it is, if that is news.
    async fn tell(
        &self,
        namespaces: &Api<Namespace>,
        mut namespace: Namespace,
        found: Vec<NamespaceCondition>,
    ) -> Result<Namespace, kube::Error> {
        let status = namespace.status.get_or_insert_with(NamespaceStatus::default);
        let mut has_changed = status.phase.as_deref() != Some("Terminating");
        status.phase = Some("Terminating".to_owned());
        let conditions = status.conditions.get_or_insert_with(Vec::new);
        let now = Time((self.clock)());
        for mut new in found {
            new.last_transition_time = Some(now.clone());
            match conditions.iter_mut().find(|old| old.type_ == new.type_) {
                None => conditions.push(new),
                Some(old)
                    if (&old.status, &old.reason, &old.message)
                        == (&new.status, &new.reason, &new.message) =>
                {
                    continue;
                }
                Some(old) => {
                    if old.status == new.status {
                        new.last_transition_time.clone_from(&old.last_transition_time);
                    }
                    *old = new;
                }
            }
            has_changed = true;
        }
        if !has_changed {
            return Ok(namespace);
        }
        namespaces.replace_status(&namespace.name_any(), &PostParams::default(), &namespace).await
    }
}

/// Deletes objects one by one, and none that has come in the place of another.
async fn delete_each(objects: &Api<Metadata>) -> Result<(), kube::Error> {
    let mut all = vec![];
    served(each(objects, |object| all.push((object.name_any(), object.uid()))).await)?;
    let each = stream::iter(all).map(|(name, uid)| async move {
        let preconditions = Some(Preconditions { uid, resource_version: None });
        let options = DeleteParams { preconditions, ..DeleteParams::background() };
        match served(objects.delete(&name, &options).await) {
            Err(error) if code(&error) == 409 => Ok(()),
            outcome => outcome.map(drop),
        }
    });
    let mut each = std::pin::pin!(each.buffer_unordered(SINGLE_AT_ONCE));
    let mut outcome = Ok(());
    while let Some(one) = each.next().await {
        outcome = outcome.and(one);
    }
    outcome
}

fn is_pods(kind: &Kind) -> bool {
    kind.resource.group.is_empty() && kind.resource.plural == "pods"
}

/// What is left of a kind after everything was deleted that can be.
#[derive(Default)]
struct Left {
    number: usize,
    finalizers: BTreeMap<String, usize>,
    /// The longest time that one of them has to end, in seconds.
    grace: i64,
}

impl Left {
    fn add(&mut self, object: Metadata) {
        self.number += 1;
        self.grace = self.grace.max(object.metadata.deletion_grace_period_seconds.unwrap_or(0));
        for finalizer in object.metadata.finalizers.into_iter().flatten() {
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
    }

    fn found(self, namespace: &str, kind: &Kind) -> Found {
        let mut found = Found::default();
        if self.number == 0 {
            return found;
        }
        let resource = &kind.resource;
        found.remaining.insert(format!("{}.{}", resource.plural, resource.group), self.number);
        if is_pods(kind) && self.grace > 0 {
            found.estimate = self.grace;
        } else if !self.finalizers.is_empty() {
            found.estimate = FINALIZER_ESTIMATE;
        } else {
            found.failures.push(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {}, Resource={}",
                resource.api_version, resource.plural
            ));
        }
        found.finalizers = self.finalizers;
        found
    }
}

/// In the place of a version: that nothing could be found out.
const EVERYTHING: &str = "";

fn discovery_failure(kinds: &Kinds) -> Option<String> {
    if let Some(why) = kinds.unknown.get(EVERYTHING) {
        return Some(why.clone());
    }
    let failing: Vec<String> =
        kinds.unknown.iter().map(|(version, why)| format!("{version}: {why}")).collect();
    (!failing.is_empty()).then(|| {
        let all = failing.join(", ");
        format!(
            "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {all}",
            failing.len()
        )
    })
}

/// `3 of this, 4 of that`, as Kubernetes words it.
fn numbers(counted: &BTreeMap<String, usize>, words: (&str, &str)) -> Option<String> {
    let (between, after) = words;
    let each: Vec<String> =
        counted.iter().map(|(name, number)| format!("{name} {between} {number} {after}")).collect();
    (!each.is_empty()).then(|| each.join(", "))
}

fn conditions(found: &Found, kinds: &Kinds) -> Vec<NamespaceCondition> {
    let malformed = kinds.malformed.first();
    let malformed = malformed.map(|version| format!("unexpected GroupVersion string: {version}"));
    let mut failures = found.failures.clone();
    failures.sort();
    let undeleted = (!failures.is_empty()).then(|| {
        format!("Failed to delete all resource types, {} remaining: {}", failures.len(), failures.join(", "))
    });
    let remaining = numbers(&found.remaining, ("has", "resource instances"));
    let remaining = remaining.map(|all| format!("Some resources are remaining: {all}"));
    let held = numbers(&found.finalizers, ("in", "resource instances"));
    let held = held.map(|all| format!("Some content in the namespace has finalizers remaining: {all}"));
    [
        (
            "NamespaceDeletionDiscoveryFailure",
            discovery_failure(kinds),
            "DiscoveryFailed",
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            malformed,
            "GroupVersionParsingFailed",
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            undeleted,
            "ContentDeletionFailed",
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        (
            "NamespaceContentRemaining",
            remaining,
            "SomeResourcesRemain",
            ("ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            held,
            "SomeFinalizersRemain",
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ]
    .into_iter()
    .map(|(type_, wrong, reason, (well, message))| NamespaceCondition {
        type_: type_.to_owned(),
        status: if wrong.is_some() { "True" } else { "False" }.to_owned(),
        reason: Some(if wrong.is_some() { reason } else { well }.to_owned()),
        message: Some(wrong.unwrap_or_else(|| message.to_owned())),
        last_transition_time: None,
    })
    .collect()
}

/// Takes our finalizer away, and with the last one the namespace.
async fn release(namespaces: &Api<Namespace>, mut namespace: Namespace) -> Result<(), kube::Error> {
    let left: Vec<String> =
        finalizers(&namespace).iter().filter(|finalizer| *finalizer != OURS).cloned().collect();
    namespace.spec = Some(NamespaceSpec { finalizers: Some(left) });
    let name = namespace.name_any();
    match namespaces.replace_subresource("finalize", &name, &PostParams::default(), &namespace).await {
        Err(error) if code(&error) == 404 => Ok(()),
        outcome => outcome.map(drop),
    }
}
