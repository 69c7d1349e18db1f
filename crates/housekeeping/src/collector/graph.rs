//! Who owns whom: all objects by UID, with their owners and their dependents.
//!
//! The graph knows objects that were seen, and owners that were only heard of: those are looked for before anything is
//! deleted. It never asks the API server itself; whatever happens to it says which objects are worth a look.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    hash::Hash,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

pub(super) type Uid = Arc<str>;

/// The finalizers by which a user says what becomes of dependents.
pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Where an object is, or is said to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) api_version: Arc<str>,
    pub(super) kind: Arc<str>,
    /// Empty for what is in none.
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

impl Place {
    /// Where an object of this namespace thinks that its owner is.
    pub(super) fn of_owner(owner: &OwnerReference, namespace: &str) -> Self {
        Place {
            api_version: owner.api_version.as_str().into(),
            kind: owner.kind.as_str().into(),
            namespace: namespace.into(),
            name: owner.name.as_str().into(),
        }
    }

    /// Whether an object of this namespace means what is here.
    fn is_meant(&self, owner: &OwnerReference, namespace: &str) -> bool {
        (self.namespace.is_empty() || *self.namespace == *namespace)
            && *self.api_version == *owner.api_version
            && *self.kind == *owner.kind
            && *self.name == *owner.name
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { api_version, kind, namespace, name } = self;
        write!(f, "[{api_version}/{kind}, namespace: {namespace}, name: {name}]")
    }
}

/// What was seen of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) owners: Vec<OwnerReference>,
    pub(super) finalizers: Vec<String>,
    pub(super) is_deleting: bool,
    pub(super) revision: String,
}

impl State {
    pub(super) fn of(metadata: ObjectMeta) -> Self {
        State {
            owners: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            revision: metadata.resource_version.unwrap_or_default(),
        }
    }

    pub(super) fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| own == finalizer)
    }

    /// It goes once its dependents have gone.
    pub(super) fn waits(&self) -> bool {
        self.is_deleting && self.has(FOREGROUND)
    }

    /// It goes once its dependents do not belong to it any more.
    pub(super) fn orphans(&self) -> bool {
        self.is_deleting && self.has(ORPHAN)
    }

    fn is_newer_than(&self, other: &State) -> bool {
        let number = |state: &State| state.revision.parse::<u64>().ok();
        number(self).zip(number(other)).is_none_or(|(own, other)| own >= other)
    }
}

/// An object.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) state: State,
    pub(super) dependents: HashSet<Uid>,
    /// How many dependents keep it from going.
    pub(super) n_blocking: usize,
    /// Whether it was seen, and not only heard of.
    pub(super) is_observed: bool,
    /// Whether it was seen before, so that its place is where it was, and not only where others think that it is.
    pub(super) is_lost: bool,
}

/// What was found out lately: the oldest is forgotten first.
#[derive(Debug)]
struct Recent<T> {
    known: HashSet<T>,
    order: VecDeque<T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Recent { known: HashSet::new(), order: VecDeque::new() }
    }
}

impl<T: Clone + Eq + Hash> Recent<T> {
    const MOST: usize = 10_000;

    fn add(&mut self, item: T) {
        if !self.known.insert(item.clone()) {
            return;
        }
        self.order.push_back(item);
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// What of an owner can be told without asking for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It is there, or goes without waiting for its dependents.
    Solid,
    /// It is being deleted, and waits for its dependents.
    Waits,
    /// It is not there.
    Absent,
    /// Nothing.
    Nothing,
}

/// All objects.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<Uid, Node>,
    /// Owners that are not there, as of a look at the API server.
    absent: Recent<(Uid, Place)>,
    /// Owners that were seen to go, and the namespaces that they were in. No UID comes back, whatever it is looked for as.
    gone: Recent<(Uid, Arc<str>)>,
    /// Owners that went and left their dependents.
    orphaned: Recent<Uid>,
    /// What is worth a look since it was last asked.
    look: Vec<Uid>,
}

/// The owners of an object, each once, and whether it keeps them from going.
fn links(uid: &str, owners: &[OwnerReference]) -> HashMap<Uid, bool> {
    let mut links: HashMap<Uid, bool> = HashMap::new();
    // What owns itself waits for nobody.
    for owner in owners.iter().filter(|owner| owner.uid != uid) {
        let blocks = owner.block_owner_deletion == Some(true);
        *links.entry(owner.uid.as_str().into()).or_default() |= blocks;
    }
    links
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// What has become worth a look.
    pub(super) fn take_look(&mut self) -> Vec<Uid> {
        std::mem::take(&mut self.look)
    }

    /// An object is there.
    pub(super) fn observe(&mut self, uid: &Uid, place: Place, state: State) {
        let Some(node) = self.nodes.get_mut(uid) else {
            let dependents = HashSet::new();
            let owners = state.owners.clone();
            let node = Node { place, state, dependents, n_blocking: 0, is_observed: true, is_lost: false };
            let is_ending = node.state.orphans() || node.state.waits();
            self.nodes.insert(Arc::clone(uid), node);
            if is_ending {
                self.look.push(Arc::clone(uid));
            }
            self.relink(uid, &[], &owners);
            return;
        };
        if node.is_observed && !state.is_newer_than(&node.state) {
            return;
        }
        let was_elsewhere = !node.is_observed && node.place != place;
        let old = std::mem::replace(&mut node.state, state);
        (node.place, node.is_observed, node.is_lost) = (place, true, false);
        if node.state.orphans() && !old.orphans() {
            self.look.push(Arc::clone(uid));
        }
        if node.state.waits() && !old.waits() {
            self.look.extend(node.dependents.iter().cloned());
            self.look.push(Arc::clone(uid));
        }
        if was_elsewhere {
            // Those who look for it elsewhere may not mean it.
            let node = node.clone();
            let (_, others) = self.partition(uid, &node.dependents, &node.place);
            self.look.extend(others);
        }
        if let Some(node) = self.nodes.get(uid)
            && node.state.owners != old.owners
        {
            let owners = node.state.owners.clone();
            self.relink(uid, &old.owners, &owners);
        }
    }

    /// An object is gone.
    pub(super) fn remove(&mut self, uid: &str) {
        let Some((uid, node)) = self.nodes.remove_entry(uid) else { return };
        self.relink(&uid, &node.state.owners, &[]);
        if !node.dependents.is_empty() {
            self.gone.add((uid, node.place.namespace));
            self.look.extend(node.dependents);
        }
    }

    /// Nobody can see an object any more. Whether it is gone is not known, so nothing happens to its dependents: it is one
    /// that was only heard of.
    pub(super) fn lose(&mut self, uid: &str) {
        let Some((uid, node)) = self.nodes.remove_entry(uid) else { return };
        self.relink(&uid, &node.state.owners, &[]);
        if !node.dependents.is_empty() {
            self.look.push(Arc::clone(&uid));
            self.nodes.insert(
                uid,
                Node {
                    state: State::default(),
                    is_observed: false,
                    is_lost: node.is_observed || node.is_lost,
                    ..node
                },
            );
        }
    }

    /// The same, of one that could be seen as this kind until now, whatever it was seen as before.
    pub(super) fn lose_as(&mut self, uid: &str, api_version: &Arc<str>, kind: &Arc<str>) {
        if let Some(node) = self.nodes.get_mut(uid) {
            (node.place.api_version, node.place.kind) = (Arc::clone(api_version), Arc::clone(kind));
        }
        self.lose(uid);
    }

    /// The API server says that there is no such object at this place.
    pub(super) fn found_absent(&mut self, uid: &Uid, place: &Place) {
        self.absent.add((Arc::clone(uid), place.clone()));
        let Some(node) = self.nodes.get(uid) else { return };
        let (was_seen, dependents) = (node.is_observed || node.is_lost, node.dependents.clone());
        if was_seen && node.place == *place {
            // If it was not lost, a watch will tell. Otherwise it is gone, whatever others know it as.
            if node.is_lost {
                self.remove(uid);
            }
            return;
        }
        let (meant, others) = self.partition(uid, &dependents, place);
        self.look.extend(meant);
        if was_seen {
            return;
        }
        // Those who look for it elsewhere may be right.
        let elsewhere = others.iter().find_map(|other| {
            let dependent = self.nodes.get(other)?;
            let owner = dependent.state.owners.iter().find(|owner| *owner.uid == **uid)?;
            let alternative = Place::of_owner(owner, &dependent.place.namespace);
            (!self.absent.known.contains(&(Arc::clone(uid), alternative.clone()))).then_some(alternative)
        });
        match (elsewhere, self.nodes.get_mut(uid)) {
            (Some(elsewhere), Some(node)) => {
                node.place = elsewhere;
                self.look.push(Arc::clone(uid));
            }
            _ => {
                self.look.extend(others);
                self.nodes.remove(uid);
            }
        }
    }

    /// An owner has left its dependents; those that turn up late are left, too.
    pub(super) fn orphaned(&mut self, uid: &Uid) {
        self.orphaned.add(Arc::clone(uid));
    }

    pub(super) fn was_orphaned(&self, uid: &str) -> bool {
        self.orphaned.known.contains(uid)
    }

    /// What is known of the owner that an object of this namespace names.
    pub(super) fn known(&self, owner: &OwnerReference, namespace: &str) -> Known {
        let uid: Uid = owner.uid.as_str().into();
        let is_absent = |namespace: &str| {
            self.gone.known.contains(&(Arc::clone(&uid), namespace.into()))
                || self.absent.known.contains(&(Arc::clone(&uid), Place::of_owner(owner, namespace)))
        };
        if is_absent("") || is_absent(namespace) {
            return Known::Absent;
        }
        match self.nodes.get(&uid) {
            Some(node) if node.is_observed && node.place.is_meant(owner, namespace) => {
                match node.state.waits() {
                    true => Known::Waits,
                    false => Known::Solid,
                }
            }
            _ => Known::Nothing,
        }
    }

    /// The dependents that mean what is at this place, and the others.
    fn partition(&self, uid: &str, dependents: &HashSet<Uid>, place: &Place) -> (Vec<Uid>, Vec<Uid>) {
        dependents.iter().cloned().partition(|dependent| {
            self.nodes.get(dependent).is_some_and(|node| {
                let mut named = node.state.owners.iter().filter(|owner| owner.uid == uid);
                named.any(|owner| place.is_meant(owner, &node.place.namespace))
            })
        })
    }

    /// An object has other owners than before.
    fn relink(&mut self, uid: &Uid, old: &[OwnerReference], new: &[OwnerReference]) {
        let (before, after) = (links(uid, old), links(uid, new));
        for (owner, blocked) in &before {
            let blocks = after.get(owner).copied();
            if blocks == Some(*blocked) {
                continue;
            }
            let Some(node) = self.nodes.get_mut(owner) else { continue };
            if !node.dependents.contains(uid) {
                continue;
            }
            if blocks.is_none() {
                node.dependents.remove(uid);
            }
            node.n_blocking += usize::from(blocks == Some(true));
            node.n_blocking = node.n_blocking.saturating_sub(usize::from(*blocked));
            if node.state.waits() && node.n_blocking == 0 {
                self.look.push(Arc::clone(owner));
            }
            if !node.is_observed && node.dependents.is_empty() {
                self.nodes.remove(owner);
            }
        }
        for (owner, blocks) in after {
            let is_linked = self.nodes.get(&owner).is_some_and(|node| node.dependents.contains(uid));
            if !is_linked {
                self.link(uid, &owner, blocks, new);
            }
        }
    }

    fn link(&mut self, uid: &Uid, owner: &Uid, blocks: bool, owners: &[OwnerReference]) {
        let Some(namespace) = self.nodes.get(uid).map(|node| Arc::clone(&node.place.namespace)) else {
            return;
        };
        let Some(named) = owners.iter().find(|named| *named.uid == **owner) else { return };
        let place = Place::of_owner(named, &namespace);
        let node = self.nodes.entry(Arc::clone(owner)).or_insert_with(|| {
            self.look.push(Arc::clone(owner));
            Node {
                place: place.clone(),
                state: State::default(),
                dependents: HashSet::new(),
                n_blocking: 0,
                is_observed: false,
                is_lost: false,
            }
        });
        node.dependents.insert(Arc::clone(uid));
        node.n_blocking += usize::from(blocks);
        let is_meant = match node.is_observed {
            true => owners
                .iter()
                .filter(|named| *named.uid == **owner)
                .all(|named| node.place.is_meant(named, &namespace)),
            false => node.place == place,
        };
        if !is_meant || node.state.waits() {
            self.look.push(Arc::clone(uid));
        }
    }
}

#[cfg(test)]
mod tests;
