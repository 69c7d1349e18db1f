//! What becomes of one object.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_runtime::{Action, Key, ReconcileError, Reconciler};

use super::{
    NAME, World,
    graph::{FOREGROUND, Known, Node, ORPHAN, Place, State, Uid},
    monitors::UNSETTLED,
};
use crate::{
    code,
    kinds::{Kind, Metadata},
};

/// When to look again for an owner that is there but has not been seen by a watch: at first, and at most. Its kind may be
/// one that is not followed at all.
const UNSEEN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// When to look again for owners of a kind that is not served.
const UNSERVED: Duration = Duration::from_secs(30);

/// How many dependents are made to forget an owner at once.
const FORGETTING: usize = 32;

/// How often a write is tried with what the object is now.
const ATTEMPTS: usize = 5;

/// Most complaints that are remembered.
const MOST_COMPLAINTS: usize = 4096;

/// Looks after single objects.
pub(super) struct Collector {
    world: Arc<World>,
    /// Owners that objects name although they cannot be theirs, and that was said.
    complaints: Mutex<HashSet<(Uid, String)>>,
    /// Owners that are there but have not been seen by a watch, and how long was waited last before they were looked for.
    unseen: Mutex<HashMap<Uid, Duration>>,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
enum Undone {
    /// Nothing can be said about an owner of a kind that is not served.
    #[error("no matches for kind {0:?} in version {1:?}")]
    Unserved(String, String),
    /// What is in no namespace cannot belong to something that is in one.
    #[error("a cluster-scoped object refers to an owner that is in a namespace")]
    Misplaced,
    #[error(transparent)]
    Failed(#[from] kube::Error),
}

/// The owners of an object, by what they are.
#[derive(Default)]
struct Owners {
    solid: Vec<OwnerReference>,
    n_absent: usize,
    n_waiting: usize,
    n_orphaned: usize,
}

/// An object that is being looked after.
struct Item {
    uid: Uid,
    node: Node,
    kind: Arc<Kind>,
}

#[async_trait]
impl Reconciler for Collector {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let uid: Uid = key.name().into();
        let kinds = self.world.kinds();
        match self.attempt(&uid).await {
            Ok(action) => Ok(action),
            Err(Undone::Unserved(..)) => {
                self.world.unserved.lock().insert(uid);
                // Kinds that were found meanwhile have not heard of this one.
                let is_old = !Arc::ptr_eq(&kinds, &self.world.kinds());
                Ok(Action::After(if is_old { Duration::ZERO } else { UNSERVED }))
            }
            Err(Undone::Misplaced) => Ok(Action::Done),
            Err(Undone::Failed(error)) if code(&error) == 404 => Ok(Action::Done),
            Err(Undone::Failed(error)) => Err(error.into()),
        }
    }
}

impl Collector {
    pub(super) fn new(world: Arc<World>) -> Self {
        Collector { world, complaints: Mutex::default(), unseen: Mutex::default() }
    }

    /// Looks after an object, and again with what it is now where it is not what it was.
    async fn attempt(&self, uid: &Uid) -> Result<Action, Undone> {
        for attempt in 1.. {
            let Some(node) = self.lookup(uid) else { break };
            match self.look_after(Arc::clone(uid), node).await {
                Err(Undone::Failed(error)) if code(&error) == 409 => {
                    if attempt == ATTEMPTS || !self.refresh(uid).await? {
                        return Err(error.into());
                    }
                }
                outcome => return outcome,
            }
        }
        self.unseen.lock().remove(uid);
        Ok(Action::Done)
    }

    /// Has the graph know what an object is now, where a watch has not told yet. Whether that was news.
    async fn refresh(&self, uid: &Uid) -> Result<bool, Undone> {
        let Some(node) = self.lookup(uid).filter(|node| node.is_observed) else { return Ok(true) };
        let kind = self.kind(&node.place.api_version, &node.place.kind)?;
        let found = self.find(&kind, &node.place).await?;
        let Some(found) = found.filter(|found| found.metadata.uid.as_deref() == Some(uid)) else {
            return Ok(false);
        };
        let state = State::of(found.metadata);
        let is_news = state.revision != node.state.revision;
        self.world.change(|graph| {
            // It may have gone meanwhile, and does not come back.
            if graph.get(uid).is_some_and(|node| node.is_observed) {
                graph.observe(uid, node.place, state);
            }
        });
        Ok(is_news)
    }

    /// What the graph knows of an object, without the names of its dependents, of which there may be many.
    fn lookup(&self, uid: &str) -> Option<Node> {
        let graph = self.world.graph.lock();
        let node = graph.get(uid)?;
        Some(Node {
            place: node.place.clone(),
            state: node.state.clone(),
            dependents: HashSet::new(),
            n_blocking: node.n_blocking,
            is_observed: node.is_observed,
            is_lost: node.is_lost,
        })
    }

    fn kind(&self, api_version: &str, kind: &str) -> Result<Arc<Kind>, Undone> {
        let kinds = self.world.kinds();
        let found = kinds.get(api_version, kind).filter(|kind| kind.can(&["get"]));
        found.cloned().ok_or_else(|| Undone::Unserved(kind.to_owned(), api_version.to_owned()))
    }

    async fn look_after(&self, uid: Uid, node: Node) -> Result<Action, Undone> {
        let kind = self.kind(&node.place.api_version, &node.place.kind)?;
        let item = Item { uid, node, kind };
        if !item.node.is_observed {
            return self.verify(&item).await;
        }
        self.unseen.lock().remove(&item.uid);
        let state = &item.node.state;
        if state.orphans() {
            return self.orphan(&item).await;
        }
        if state.waits() {
            if item.node.n_blocking > 0 {
                return Ok(Action::Done);
            }
            if !self.world.is_settled_for(&item.uid) {
                return Ok(Action::After(UNSETTLED));
            }
            self.unfinalize(&item, FOREGROUND).await?;
            return Ok(Action::Done);
        }
        if state.is_deleting || state.owners.is_empty() {
            return Ok(Action::Done);
        }
        self.decide(&item).await
    }

    /// Looks whether an owner is there that was only heard of.
    async fn verify(&self, item: &Item) -> Result<Action, Undone> {
        let mut place = item.node.place.clone();
        if !item.kind.is_namespaced {
            place.namespace = "".into();
        } else if place.namespace.is_empty() {
            return Err(Undone::Misplaced);
        }
        let found = self.find(&item.kind, &place).await?;
        if found.and_then(|found| found.metadata.uid).as_deref() == Some(&*item.uid) {
            return Ok(Action::After(self.until_next_look(&item.uid)));
        }
        self.unseen.lock().remove(&item.uid);
        self.world.change(|graph| graph.found_absent(&item.uid, &place));
        Ok(Action::Done)
    }

    /// How long to wait before an owner is looked for again: twice as long each time.
    fn until_next_look(&self, uid: &Uid) -> Duration {
        let mut unseen = self.unseen.lock();
        let wait = unseen.get(uid).map_or(UNSEEN.0, |last| last.saturating_mul(2).min(UNSEEN.1));
        unseen.insert(Arc::clone(uid), wait);
        wait
    }

    /// Looks for an object. That its kind is not served any more does not mean that it is gone.
    async fn find(&self, kind: &Kind, place: &Place) -> Result<Option<Metadata>, Undone> {
        match self.api(kind, place)?.get(&place.name).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                match status.details.is_some_and(|details| *details.name == *place.name) {
                    true => Ok(None),
                    false => Err(Undone::Unserved(place.kind.to_string(), place.api_version.to_string())),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn api(&self, kind: &Kind, place: &Place) -> Result<Api<Metadata>, Undone> {
        kind.within(&self.world.client, &place.namespace).ok_or(Undone::Misplaced)
    }

    /// Deletes an object that has no owner left, or makes it forget those that are gone.
    async fn decide(&self, item: &Item) -> Result<Action, Undone> {
        let owners = self.classify(item).await?;
        let goes = owners.n_absent + owners.n_waiting;
        if goes + owners.n_orphaned == 0 {
            return Ok(Action::Done);
        }
        if !owners.solid.is_empty() || goes == 0 {
            self.set_owners(item, &item.node.state, owners.solid).await?;
            return Ok(Action::Done);
        }
        let state = &item.node.state;
        let (has_dependents, is_circle) =
            if owners.n_waiting > 0 { self.dependents(&item.uid) } else { (false, false) };
        let mut revision = state.revision.clone();
        let policy = if has_dependents {
            if is_circle && state.owners.iter().any(|owner| owner.block_owner_deletion == Some(true)) {
                let unblocked = state.owners.iter().cloned();
                let unblocked =
                    unblocked.map(|owner| OwnerReference { block_owner_deletion: Some(false), ..owner });
                let written = self.set_owners(item, state, unblocked.collect()).await?;
                revision = written.metadata.resource_version.unwrap_or_default();
            }
            PropagationPolicy::Foreground
        } else if state.has(ORPHAN) {
            PropagationPolicy::Orphan
        } else if state.has(FOREGROUND) {
            PropagationPolicy::Foreground
        } else {
            PropagationPolicy::Background
        };
        self.delete(item, revision, policy).await?;
        Ok(Action::Done)
    }

    /// Whether an object has dependents, and whether one of them waits for its own, which may be the object itself.
    fn dependents(&self, uid: &str) -> (bool, bool) {
        let graph = self.world.graph.lock();
        let Some(node) = graph.get(uid) else { return (false, false) };
        let mut dependents = node.dependents.iter().filter_map(|dependent| graph.get(dependent));
        (!node.dependents.is_empty(), dependents.any(|dependent| dependent.state.waits()))
    }

    async fn classify(&self, item: &Item) -> Result<Owners, Undone> {
        let mut owners = Owners::default();
        let namespace = &item.node.place.namespace;
        for owner in &item.node.state.owners {
            let (known, was_orphaned) = {
                let graph = self.world.graph.lock();
                (graph.known(owner, namespace), graph.was_orphaned(&owner.uid))
            };
            let known = match known {
                Known::Nothing => self.ask(item, owner).await?,
                known => known,
            };
            match known {
                Known::Solid | Known::Nothing => owners.solid.push(owner.clone()),
                Known::Waits => owners.n_waiting += 1,
                Known::Absent if was_orphaned => owners.n_orphaned += 1,
                Known::Absent => owners.n_absent += 1,
            }
        }
        Ok(owners)
    }

    /// Asks the API server about an owner.
    async fn ask(&self, item: &Item, owner: &OwnerReference) -> Result<Known, Undone> {
        let kind = self.kind(&owner.api_version, &owner.kind)?;
        let namespace = &item.node.place.namespace;
        if kind.is_namespaced && namespace.is_empty() {
            self.complain(item, owner).await;
            return Err(Undone::Misplaced);
        }
        let place = Place::of_owner(owner, if kind.is_namespaced { namespace } else { "" });
        let found = self.find(&kind, &place).await?;
        match found.filter(|found| found.metadata.uid.as_deref() == Some(&owner.uid)) {
            Some(found) => Ok(match State::of(found.metadata).waits() {
                true => Known::Waits,
                false => Known::Solid,
            }),
            None => {
                let uid: Uid = owner.uid.as_str().into();
                let is_elsewhere = self.world.change(|graph| {
                    let elsewhere = graph.get(&uid).is_some_and(|node| {
                        node.is_observed && kind.is_namespaced && node.place.namespace != *namespace
                    });
                    graph.found_absent(&uid, &place);
                    elsewhere
                });
                if is_elsewhere {
                    self.complain(item, owner).await;
                }
                Ok(Known::Absent)
            }
        }
    }

    async fn delete(&self, item: &Item, revision: String, policy: PropagationPolicy) -> Result<(), Undone> {
        let preconditions =
            Preconditions { resource_version: Some(revision), uid: Some(item.uid.to_string()) };
        let options = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(policy),
            ..DeleteParams::default()
        };
        let place = &item.node.place;
        tracing::debug!(object = %place, uid = %item.uid, ?options.propagation_policy, "its owners are gone");
        self.api(&item.kind, place)?.delete(&place.name, &options).await?;
        Ok(())
    }

    /// Writes the owners of an object, if it is what it was.
    async fn set_owners(
        &self,
        item: &Item,
        state: &State,
        owners: Vec<OwnerReference>,
    ) -> Result<Metadata, Undone> {
        self.patch(item, state, "ownerReferences", json!(owners)).await
    }

    async fn patch(&self, item: &Item, state: &State, field: &str, value: Value) -> Result<Metadata, Undone> {
        let place = &item.node.place;
        let patch = json!({"metadata": {"uid": &*item.uid, "resourceVersion": state.revision, field: value}});
        let api = self.api(&item.kind, place)?;
        Ok(api.patch(&place.name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Changes an object, with what it is now where it is not what it was. Nothing when it is gone.
    async fn insist(
        &self,
        item: &Item,
        change: impl Fn(&State) -> Option<(&'static str, Value)>,
    ) -> Result<(), Undone> {
        let place = &item.node.place;
        let mut state = item.node.state.clone();
        for attempt in 1.. {
            let Some((field, value)) = change(&state) else { return Ok(()) };
            match self.patch(item, &state, field, value).await {
                Err(Undone::Failed(error)) if code(&error) == 404 => return Ok(()),
                Err(Undone::Failed(error)) if code(&error) == 409 && attempt < ATTEMPTS => {
                    let found = self.api(&item.kind, place)?.get_opt(&place.name).await?;
                    let same = found.filter(|found| found.metadata.uid.as_deref() == Some(&*item.uid));
                    let Some(found) = same else { return Ok(()) };
                    state = State::of(found.metadata);
                }
                outcome => return outcome.map(drop),
            }
        }
        Ok(())
    }

    async fn unfinalize(&self, item: &Item, finalizer: &str) -> Result<(), Undone> {
        self.insist(item, |state| {
            let left: Vec<&String> = state.finalizers.iter().filter(|own| *own != finalizer).collect();
            state.has(finalizer).then(|| ("finalizers", json!(left)))
        })
        .await
    }

    /// Has all dependents forget an owner, and then lets it go.
    async fn orphan(&self, item: &Item) -> Result<Action, Undone> {
        if !self.world.is_settled_for(&item.uid) {
            return Ok(Action::After(UNSETTLED));
        }
        let dependents: Vec<Uid> = {
            let graph = self.world.graph.lock();
            graph.get(&item.uid).into_iter().flat_map(|node| node.dependents.iter().cloned()).collect()
        };
        let each = stream::iter(dependents).map(|dependent| self.forget(dependent, &item.uid));
        let mut each = std::pin::pin!(each.buffer_unordered(FORGETTING));
        let mut outcome = Ok(());
        while let Some(one) = each.next().await {
            outcome = outcome.and(one);
        }
        outcome?;
        self.world.graph.lock().orphaned(&item.uid);
        self.unfinalize(item, ORPHAN).await?;
        Ok(Action::Done)
    }

    async fn forget(&self, dependent: Uid, owner: &str) -> Result<(), Undone> {
        let Some(node) = self.lookup(&dependent).filter(|node| node.is_observed) else { return Ok(()) };
        let kind = self.kind(&node.place.api_version, &node.place.kind)?;
        let item = Item { uid: dependent, node, kind };
        self.insist(&item, |state| {
            let others: Vec<&OwnerReference> = state.owners.iter().filter(|own| own.uid != owner).collect();
            (others.len() < state.owners.len()).then(|| ("ownerReferences", json!(others)))
        })
        .await
    }

    /// Says that an owner cannot be one: once for each object and owner.
    async fn complain(&self, item: &Item, owner: &OwnerReference) {
        {
            let mut complaints = self.complaints.lock();
            if complaints.len() >= MOST_COMPLAINTS {
                complaints.clear();
            }
            if !complaints.insert((Arc::clone(&item.uid), owner.uid.clone())) {
                return;
            }
        }
        let place = &item.node.place;
        let OwnerReference { api_version, kind, name: owner_name, uid, .. } = owner;
        let namespace = place.namespace.to_string();
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {owner_name}, uid: {uid}] does not exist in namespace {namespace:?}"
        );
        tracing::warn!(object = %place, message, "an object names an owner that cannot be one");
        let of_event = if namespace.is_empty() { "default" } else { &namespace };
        let now = jiff::Timestamp::now();
        let name = format!("{}.{:x}", place.name, now.as_nanosecond());
        let now = Time(now);
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(of_event.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(place.api_version.to_string()),
                kind: Some(place.kind.to_string()),
                name: Some(place.name.to_string()),
                namespace: (!namespace.is_empty()).then(|| namespace.clone()),
                uid: Some(item.uid.to_string()),
                ..ObjectReference::default()
            },
            type_: Some("Warning".to_owned()),
            reason: Some("OwnerRefInvalidNamespace".to_owned()),
            message: Some(message),
            source: Some(EventSource { component: Some(NAME.to_owned()), host: None }),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.world.client.clone(), of_event);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            tracing::debug!(%error, "an event could not be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::{Client, client::Body};

    use super::*;

    #[tokio::test]
    async fn owners_that_no_watch_sees_are_looked_for_less_and_less_often() {
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, kube::Error>>()
        });
        let collector = Collector::new(Arc::new(World::new(Client::new(silent, "default"))));
        let [uid, other]: [Uid; 2] = ["a".into(), "b".into()];
        let waits: Vec<u64> = (0..8).map(|_| collector.until_next_look(&uid).as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(collector.until_next_look(&other), UNSEEN.0);
        // What is not there any more is forgotten.
        let done = collector.attempt(&uid).await.unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((done, collector.until_next_look(&uid)), (Action::Done, UNSEEN.0));
    }
}
