//! CustomResourceDefinitions: kinds that come and go while the server runs.
//!
//! [`Definitions`] follows the definitions in the store and keeps the catalog in step with them: every change is taken
//! up in the order of the store, on every server that shares it. A definition that has no names yet, or asks for others,
//! is decided on ([`names`], `settle.rs`); one that is being deleted is emptied first (`finalize.rs`). A [`Definition`]
//! in force gives one row for each version ([`rows`]), with the rules and conversions of a [`Kind`]. Requests that write
//! a definition wait until this server has taken it up ([`Definitions::caught_up`]). Start at [`start`].

mod convert;
mod definition;
mod finalize;
mod kind;
mod names;
mod rows;
mod settle;
pub(crate) mod v1beta1;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_store::{Change, Delivery, Entry, Read, ReadError, Revision, Snapshot};

pub(crate) use self::{
    definition::Definition,
    kind::Kind,
    names::condition,
    settle::{note_deletion, set_condition},
    wire::{Condition, FINALIZER},
};
use self::{
    names::Register,
    wire::{Names, Wire},
};
use crate::{
    ApiServer, StartError,
    registry::Registry,
    resources::{Catalog, Resource},
};

/// The row of the definitions.
const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

/// How long a request waits until this server has taken up what it wrote.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(10);

/// How long it takes until what failed is tried anew.
const AGAIN: Duration = Duration::from_millis(500);

/// What this server knows of the definitions.
pub(crate) struct Definitions {
    /// Where they are in the store.
    prefix: String,
    known: Mutex<Known>,
    /// Counts what has been taken up.
    changed_tx: watch::Sender<u64>,
}

#[derive(Default)]
struct Known {
    /// Everything up to here has been taken up.
    seen: u64,
    by_name: BTreeMap<String, Place>,
    /// The names that are taken, by group.
    registers: HashMap<String, Register>,
    /// When this server last gave out names of a group, which it then knows even before it hears of it.
    granted: HashMap<String, u64>,
    /// Definitions whose names are to be decided on.
    unsettled: BTreeSet<String>,
    /// Definitions that wait for their objects to be deleted.
    terminating: BTreeSet<String>,
    /// Those of them that are being emptied.
    finalizing: BTreeSet<String>,
}

/// One definition.
struct Place {
    revision: u64,
    group: String,
    /// The names that it was given.
    names: Names,
    /// It asks for names that it was not given.
    waits: bool,
    /// The versions that it serves.
    served: Vec<String>,
    in_force: Option<Arc<Definition>>,
}

impl Definitions {
    /// None are known yet. The names of built-in kinds are taken.
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let mut known = Known::default();
        for row in catalog.all() {
            let names = Names {
                plural: row.plural.clone(),
                singular: row.singular.clone(),
                kind: row.kind.clone(),
                list_kind: row.list_kind.clone(),
                short_names: row.short_names.clone(),
                categories: vec![],
            };
            known.registers.entry(row.group.clone()).or_default().add("", &names);
        }
        let prefix = catalog.get(GROUP, PLURAL).map(|row| row.prefix.clone()).unwrap_or_default();
        Definitions { prefix, known: Mutex::new(known), changed_tx: watch::channel(0).0 }
    }

    /// Whether a row is that of the definitions.
    pub(crate) fn is_theirs(&self, resource: &Resource) -> bool {
        self.prefix == resource.prefix
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Takes up everything that is there, and drops what is not.
    fn take_all(&self, registry: &Registry, snapshot: &Snapshot) {
        self.step(registry, snapshot.revision(), |known, step| {
            let mut gone: BTreeSet<String> = known.by_name.keys().cloned().collect();
            for entry in snapshot.iter(self.prefix.as_bytes(), None) {
                let name = self.name_of(&entry.key);
                gone.remove(&name);
                known.take(step, &name, self.key(&name), Some(entry));
            }
            for name in gone {
                known.take(step, &name, self.key(&name), None);
            }
        });
    }

    /// Takes up changes.
    fn take(&self, registry: &Registry, changes: &[Arc<Change>]) {
        let Some(last) = changes.last() else { return };
        self.step(registry, last.revision, |known, step| {
            for change in changes {
                let name = self.name_of(&change.key);
                known.take(step, &name, self.key(&name), change.current.as_ref());
            }
        });
    }

    /// Brings what is known and the catalog to another revision.
    fn step(&self, registry: &Registry, revision: Revision, work: impl FnOnce(&mut Known, &mut Step)) {
        let mut known = self.known.lock();
        let mut step = Step { catalog: Catalog::clone(&registry.catalog.load()), retired: vec![] };
        work(&mut known, &mut step);
        known.seen = known.seen.max(revision.get());
        registry.catalog.store(Arc::new(step.catalog));
        // Only now: whoever hears of it looks into the catalog for what is there instead.
        step.retired.iter().for_each(|definition| definition.retire());
        drop(known);
        self.changed_tx.send_modify(|n_taken| *n_taken += 1);
    }

    fn name_of(&self, key: &[u8]) -> String {
        let name = key.strip_prefix(self.prefix.as_bytes()).unwrap_or(key);
        String::from_utf8_lossy(name).into_owned()
    }

    /// Tells whenever something has been taken up.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed_tx.subscribe()
    }

    /// The groups and versions that definitions serve, as far as this server has heard of them.
    pub(crate) fn served_versions(&self) -> BTreeSet<(String, String)> {
        let known = self.known.lock();
        let served = known
            .by_name
            .values()
            .flat_map(|place| place.served.iter().map(|version| (place.group.clone(), version.clone())));
        served.collect()
    }

    /// Whether a definition serves this group and version as the store has it.
    pub(crate) fn is_served_at(&self, snapshot: &Snapshot, group: &str, version: &str) -> bool {
        let ending = format!(".{group}");
        let of_group = snapshot
            .iter(self.prefix.as_bytes(), None)
            .filter(|entry| self.name_of(&entry.key).ends_with(&ending))
            .filter_map(|entry| Wire::read(&entry.value).ok());
        of_group
            .into_iter()
            .any(|wire| wire.spec.group == group && wire.served_versions().any(|own| own == version))
    }

    /// Waits until this server has taken up what the store holds now: of one definition, or of all.
    pub(crate) async fn caught_up(&self, registry: &Registry, name: Option<&str>) {
        let Ok(snapshot) = registry.store.snapshot(Read::Latest).await else { return };
        let wanted: Vec<(String, u64)> = match name {
            Some(name) => {
                let entry = snapshot.get(self.key(name).as_bytes());
                vec![(name.to_owned(), entry.map_or(0, |entry| entry.revision.get()))]
            }
            None => {
                let entries = snapshot.iter(self.prefix.as_bytes(), None);
                entries.map(|entry| (self.name_of(&entry.key), entry.revision.get())).collect()
            }
        };
        drop(snapshot);
        let mut changed_rx = self.changed_tx.subscribe();
        let caught_up = changed_rx.wait_for(|_| {
            let known = self.known.lock();
            wanted.iter().all(|(name, revision)| known.is_settled(name, *revision))
        });
        // Whoever waits too long is answered all the same: what it wrote is written.
        let _ = tokio::time::timeout(CAUGHT_UP_WITHIN, caught_up).await;
    }
}

/// What is served after some changes.
struct Step {
    catalog: Catalog,
    /// What is no longer in force.
    retired: Vec<Arc<Definition>>,
}

impl Known {
    /// Takes up one definition as it is now, or that it is gone.
    fn take(&mut self, step: &mut Step, name: &str, key: String, entry: Option<&Arc<Entry>>) {
        let before = self.by_name.remove(name);
        if let Some(before) = &before {
            self.registers.entry(before.group.clone()).or_default().remove(name, &before.names);
        }
        let wire = entry.and_then(|entry| match Wire::read(&entry.value) {
            Ok(wire) => Some((wire, entry)),
            Err(error) => {
                tracing::error!(name, %error, "a stored definition cannot be read and is not served");
                None
            }
        });
        let Some((wire, entry)) = wire else {
            self.unsettled.remove(name);
            self.terminating.remove(name);
            if let Some(before) = before {
                step.retire(before.in_force);
                self.free(&before.group);
            }
            return;
        };
        let (group, revision) = (wire.spec.group.clone(), entry.revision.get());
        let register = self.registers.entry(group.clone()).or_default();
        register.add(name, &wire.status.accepted_names);
        let decision = names::decide(&wire, register);
        let is_settled = decision.is_in(&wire);
        match is_settled || wire.is_terminating() {
            true => self.unsettled.remove(name),
            false => self.unsettled.insert(name.to_owned()),
        };
        match wire.waits_for_objects() {
            true => self.terminating.insert(name.to_owned()),
            false => self.terminating.remove(name),
        };
        let names = wire.status.accepted_names.clone();
        let waits = decision.accepted.status != "True";
        let served = wire.served_versions().map(str::to_owned).collect();
        let had_other_names = before.as_ref().is_some_and(|before| before.names != names);
        let in_force = step.put_in_force(key, wire, entry, before.and_then(|before| before.in_force));
        self.by_name.insert(
            name.to_owned(),
            Place { revision, group: group.clone(), names, waits, served, in_force },
        );
        if had_other_names {
            self.free(&group);
        }
    }

    /// Notes that a definition was given names.
    fn grant(&mut self, name: &str, group: &str, names: Names, revision: u64) {
        if let Some(place) = self.by_name.get_mut(name) {
            let register = self.registers.entry(group.to_owned()).or_default();
            register.remove(name, &place.names);
            register.add(name, &names);
            if place.names != names {
                place.names = names;
                self.free(group);
            }
        }
        self.granted.insert(group.to_owned(), revision);
    }

    /// Names of a group have become free: who waits for some is to be decided on anew.
    fn free(&mut self, group: &str) {
        let waiting = self.by_name.iter().filter(|(_, place)| place.waits && place.group == group);
        self.unsettled.extend(waiting.map(|(name, _)| name.clone()));
    }

    /// Whether a definition has been taken up at this revision or later, and decided on.
    fn is_settled(&self, name: &str, revision: u64) -> bool {
        match self.by_name.get(name) {
            Some(place) => revision > 0 && place.revision >= revision && !self.unsettled.contains(name),
            // It is gone, or has yet to be heard of.
            None => self.seen >= revision,
        }
    }
}

impl Step {
    /// Serves a definition as it is now. `before` is what was in force of it.
    fn put_in_force(
        &mut self,
        key: String,
        wire: Wire,
        entry: &Arc<Entry>,
        before: Option<Arc<Definition>>,
    ) -> Option<Arc<Definition>> {
        let revision = entry.revision.get();
        let is_served = wire.is_served();
        if let Some(same) = before.as_ref().filter(|before| is_served && before.is_same(&wire)) {
            same.moved(&wire, entry.value.clone(), revision);
            return before;
        }
        self.retire(before);
        if !is_served {
            return None;
        }
        let definition = Definition::new(key, wire, entry.value.clone(), revision);
        self.catalog = self.catalog.with(rows::served(&definition));
        Some(definition)
    }

    /// Serves a definition no longer.
    fn retire(&mut self, definition: Option<Arc<Definition>>) {
        if let Some(definition) = definition {
            self.catalog = self.catalog.without(&definition.spec.group, &definition.names.plural);
            self.retired.push(definition);
        }
    }
}

/// Serves the definitions that are there, and follows them from here on.
pub(crate) async fn start(server: &Arc<ApiServer>) -> Result<(), StartError> {
    let snapshot = server.registry.store.snapshot(Read::Latest).await.map_err(StartError::Read)?;
    server.definitions.take_all(&server.registry, &snapshot);
    let server = Arc::clone(server);
    let mut after = snapshot.revision();
    drop(snapshot);
    tokio::spawn(async move {
        let mut draining = server.draining();
        loop {
            let outcome = tokio::select! {
                _ = draining.wait_for(|draining| *draining) => return,
                outcome = follow(&server, after) => outcome,
            };
            if let Err(error) = outcome {
                tracing::debug!(%error, "the watch on definitions broke off and begins anew");
            }
            tokio::time::sleep(AGAIN).await;
            if let Ok(snapshot) = server.registry.store.snapshot(Read::Latest).await {
                server.definitions.take_all(&server.registry, &snapshot);
                after = snapshot.revision();
            }
        }
    });
    Ok(())
}

/// Follows the definitions until the watch breaks.
async fn follow(server: &Arc<ApiServer>, after: Revision) -> Result<(), ReadError> {
    let definitions = &server.definitions;
    let mut watch = server.registry.store.watch(definitions.prefix.as_bytes(), after).await?;
    loop {
        let is_done = settle::all(server).await;
        finalize::all(server);
        let delivery = tokio::select! {
            delivery = watch.next() => delivery?,
            // What could not be written is tried anew, even if nothing happens.
            () = tokio::time::sleep(AGAIN), if !is_done => continue,
        };
        if let Delivery::Changes(changes) = delivery {
            definitions.take(&server.registry, &changes);
        }
    }
}
