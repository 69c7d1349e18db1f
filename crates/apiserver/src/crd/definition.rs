//! A definition that is in force: what all versions of a custom kind share, for as long as its rules stay the same.
//!
//! When they change, a new definition takes its place and this one is retired: watches end, and requests that came in
//! under it begin anew. Changes that leave the rules as they are, such as those of its status, only move its revision.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use windlass_machinery::object::Object;
use windlass_store::{Expect, Revision};

use super::{
    convert::Converter,
    kind::{Form, Kind},
    wire::{Names, Spec, Wire},
};
use crate::{
    admission::{Effects, Operation, View},
    resources::Resource,
    status::{Outcome, Status},
};

/// How long a write waits for this server to hear of a change of the definition.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// A definition that is in force.
pub(crate) struct Definition {
    /// Where it is in the store.
    key: String,
    uid: String,
    hash: u128,
    pub(super) spec: Spec,
    /// The names under which it is served.
    pub(super) names: Names,
    /// Its stored form, which is where the schemas are. Replaced as the store replaces it, to hold it once.
    value: Mutex<Bytes>,
    /// Objects written after this revision were written by these rules.
    since: u64,
    /// What is made of its versions, in their order.
    forms: Vec<Form>,
    /// Who turns objects from one version into another, where that takes more than a new name.
    converter: Option<Converter>,
    standing_tx: watch::Sender<Standing>,
}

/// How a definition stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    /// The revision of the definition as this server last saw it.
    revision: u64,
    terminating: bool,
    /// Another one is in its place, or none.
    retired: bool,
}

impl Definition {
    /// Puts a definition in force.
    pub(super) fn new(key: String, wire: Wire, value: Bytes, revision: u64) -> Arc<Self> {
        let standing = Standing { revision, terminating: wire.is_terminating(), retired: false };
        let forms = wire.spec.versions.iter().map(|version| Form::new(&wire.spec.group, &version.name));
        let has_several = wire.spec.versions.len() > 1;
        Arc::new(Definition {
            key,
            forms: forms.collect(),
            converter: Converter::of(&wire.spec.conversion).filter(|_| has_several),
            uid: wire.metadata.uid,
            hash: wire.hash,
            spec: wire.spec,
            names: wire.status.accepted_names,
            value: Mutex::new(value),
            since: revision,
            standing_tx: watch::channel(standing).0,
        })
    }

    /// Whether the rules are still those of this definition.
    pub(super) fn is_same(&self, wire: &Wire) -> bool {
        self.uid == wire.metadata.uid && self.hash == wire.hash && self.names == wire.status.accepted_names
    }

    /// Notes a change that leaves the rules as they are.
    pub(super) fn moved(&self, wire: &Wire, value: Bytes, revision: u64) {
        *self.value.lock() = value;
        let terminating = wire.is_terminating();
        self.standing_tx.send_replace(Standing { revision, terminating, retired: false });
    }

    /// Takes it out of force.
    pub(super) fn retire(&self) {
        self.standing_tx.send_modify(|standing| standing.retired = true);
    }

    /// Waits until it is no longer in force.
    pub(crate) async fn retired(&self) {
        let mut standing = self.standing_tx.subscribe();
        // The sender is ours, so it is not gone.
        let _ = standing.wait_for(|standing| standing.retired).await;
    }

    /// The revision behind which objects have been written by these rules.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// Where its objects are in the store.
    pub(super) fn prefix(&self) -> String {
        format!("{}/{}/", self.spec.group, self.names.plural)
    }

    /// What tells this definition from all others and from itself after a change of its rules.
    pub(crate) fn mark(&self) -> String {
        format!("{:032x} {:?}", self.hash, self.names)
    }

    /// Lets a write in, on condition that the definition stays as it is. False when this server has yet to hear of a
    /// change.
    pub(crate) async fn enter(
        &self,
        resource: &Resource,
        view: &View,
        operation: Operation,
        effects: &mut Effects,
    ) -> Outcome<bool> {
        let mut standing_rx = self.standing_tx.subscribe();
        let standing = *standing_rx.borrow_and_update();
        if standing.retired {
            return Err(Status::redefined());
        }
        match view.snapshot.get(self.key.as_bytes()).map(|entry| entry.revision.get()) {
            Some(actual) if actual == standing.revision => {}
            // It has changed since the view was taken.
            Some(actual) if actual < standing.revision => return Ok(false),
            _ => {
                let _ = tokio::time::timeout(HEARD_WITHIN, standing_rx.changed()).await;
                return Ok(false);
            }
        }
        if standing.terminating && operation == Operation::Create {
            return Err(Status::terminating(resource));
        }
        effects.require(self.key.clone(), Expect::At(Revision::new(standing.revision)));
        Ok(true)
    }

    /// What is made of the version at this place.
    pub(super) fn form(&self, index: usize) -> &Form {
        &self.forms[index]
    }

    /// The place of the version with this `apiVersion`.
    pub(super) fn place_of(&self, api_version: &str) -> Option<usize> {
        self.forms.iter().position(|form| form.api_version == api_version)
    }

    /// The place of the version in which objects are stored.
    pub(super) fn storage(&self) -> usize {
        self.spec.versions.iter().position(|version| version.storage).unwrap_or_default()
    }

    /// Who turns objects from one version into another, where that takes more than a new name.
    pub(super) fn converter(&self) -> Option<&Converter> {
        self.converter.as_ref()
    }

    /// The schema of the version at this place, as it was written.
    pub(crate) fn schema(&self, index: usize) -> Value {
        let value = self.value.lock().clone();
        let mut definition: Object = serde_json::from_slice(&value).unwrap_or_default();
        let versions = definition.get_mut("spec").and_then(|spec| spec.get_mut("versions"));
        let version = versions.and_then(|versions| versions.get_mut(index));
        let schema = version.and_then(|version| version.get_mut("schema")?.get_mut("openAPIV3Schema"));
        schema.map(Value::take).unwrap_or_default()
    }

    /// The kind as it is in the version at this place.
    pub(super) fn kind(self: &Arc<Self>, index: usize) -> Arc<Kind> {
        Arc::new(Kind::new(Arc::clone(self), index))
    }
}
