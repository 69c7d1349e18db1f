//! Deciding on the names of definitions and writing the decision into their status.
//!
//! Several servers on one store decide at once. Whoever gives out names of a group writes to the group's key in the
//! same transaction, so that nobody decides by what is out of date.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_machinery::{
    managed,
    object::{Object, list_at, set_at},
    stored, time,
};
use windlass_store::{Entry, Expect, Read, Revision};

use super::{
    Definitions, GROUP, PLURAL,
    names::{self, Decision},
    wire::{Condition, Wire},
};
use crate::{
    ApiServer,
    admission::Effects,
    registry::{Registry, Served, parse, read_failed},
    status::Outcome,
};

/// The key that is written to when names of a group are given out.
fn group_key(group: &str) -> String {
    format!("ranges/customresourcenames/{group}")
}

impl Decision {
    /// Whether a definition says what was decided.
    pub(super) fn is_in(&self, wire: &Wire) -> bool {
        let says = |condition: &Condition| wire.condition(&condition.kind) == Some(condition);
        self.names == wire.status.accepted_names
            && says(&self.accepted)
            && says(&self.established)
            && self.approved.as_ref().is_none_or(says)
    }
}

/// Decides on all names that are to be decided on; false when some of it has to be tried anew.
pub(super) async fn all(server: &Arc<ApiServer>) -> bool {
    let names: Vec<String> = server.definitions.known.lock().unsettled.iter().cloned().collect();
    let mut is_done = true;
    for name in names {
        match one(&server.definitions, &server.registry, &name).await {
            Ok(done) => is_done &= done,
            Err(error) => {
                tracing::warn!(name, %error, "the names of a definition could not be decided on");
                is_done = false;
            }
        }
    }
    is_done
}

/// Decides on the names of one definition. False when the store is ahead of what has been taken up.
async fn one(definitions: &Definitions, registry: &Registry, name: &str) -> Outcome<bool> {
    let snapshot = registry.store.snapshot(Read::Latest).await.map_err(|error| read_failed(&error))?;
    let Some(entry) = snapshot.get(definitions.key(name).as_bytes()) else { return Ok(true) };
    let Ok(wire) = Wire::read(&entry.value) else { return Ok(true) };
    let key = group_key(&wire.spec.group);
    let given = snapshot.get(key.as_bytes()).map(|entry| entry.revision);
    let decision = {
        let known = definitions.known.lock();
        let seen = known.by_name.get(name).map(|place| place.revision);
        let is_known = |given: Revision| {
            given.get() <= known.seen || known.granted.get(&wire.spec.group) == Some(&given.get())
        };
        if seen != Some(entry.revision.get()) || !given.is_none_or(is_known) {
            return Ok(false);
        }
        let Some(register) = known.registers.get(&wire.spec.group) else { return Ok(true) };
        names::decide(&wire, register)
    };
    if decision.is_in(&wire) {
        definitions.known.lock().unsettled.remove(name);
        definitions.changed_tx.send_modify(|n_taken| *n_taken += 1);
        return Ok(true);
    }
    let mut effects = Effects::default();
    effects.put_raw(key, name.as_bytes().to_vec(), given.map_or(Expect::Absent, Expect::At));
    let conditions: Vec<Condition> =
        [decision.accepted, decision.established].into_iter().chain(decision.approved).collect();
    let change = |definition: &mut Object, now: Timestamp| {
        let names = serde_json::to_value(&decision.names).unwrap_or_default();
        set_at(definition, &["status", "acceptedNames"], Some(names));
        conditions.iter().for_each(|condition| set_condition(definition, condition, now));
    };
    // Refused when someone was faster, whose change is then on its way.
    if let Some(revision) = write(registry, entry, change, effects).await? {
        definitions.known.lock().grant(name, &wire.spec.group, decision.names, revision.get());
    }
    Ok(true)
}

/// Writes a change of the status of a definition, as the server itself. `None` when someone else was faster.
pub(super) async fn write(
    registry: &Registry,
    entry: &Entry,
    change: impl FnOnce(&mut Object, Timestamp),
    effects: Effects,
) -> Outcome<Option<Revision>> {
    let now = Timestamp::now();
    let old = parse(entry)?;
    let mut new = old.clone();
    change(&mut new, now);
    let catalog = registry.catalog.load_full();
    if let Some(row) = catalog.get(GROUP, PLURAL) {
        let write = managed::Write {
            manager: "windlass",
            operation: managed::Operation::Update,
            api_version: &row.handled_as,
            subresource: "status",
            time: &time::rfc3339(now),
            unowned: None,
        };
        managed::track(Some(&old), &mut new, &Served { resource: row, catalog: &catalog }, &write);
    }
    let key = String::from_utf8_lossy(&entry.key).into_owned();
    let value = Bytes::from(stored::encode(&new));
    if value == entry.value {
        return Ok(Some(entry.revision));
    }
    Ok(registry.commit(key, Some(value), Expect::At(entry.revision), effects).await?.ok())
}

/// Says of a definition that it is being deleted since `then`.
pub(crate) fn note_deletion(definition: &mut Object, then: Timestamp) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let pending = names::condition("Terminating", true, "InstanceDeletionPending", message);
    set_condition(definition, &pending, then);
}

/// Puts a condition in place of the one of its type.
pub(crate) fn set_condition(definition: &mut Object, condition: &Condition, now: Timestamp) {
    let mut conditions: Vec<Value> = list_at(definition, &["status", "conditions"]).to_vec();
    let place =
        conditions.iter().position(|one| one.get("type").and_then(Value::as_str) == Some(&condition.kind));
    let since = place.and_then(|place| {
        let before = &conditions[place];
        let is_same = before.get("status").and_then(Value::as_str) == Some(&condition.status);
        before.get("lastTransitionTime").filter(|_| is_same).cloned()
    });
    let shown = json!({
        "type": condition.kind,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since.unwrap_or_else(|| time::rfc3339(now).into()),
    });
    match place {
        Some(place) => conditions[place] = shown,
        None => conditions.push(shown),
    }
    set_at(definition, &["status", "conditions"], Some(Value::Array(conditions)));
}
