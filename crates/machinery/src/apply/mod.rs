//! Server-side apply: an object that says only what one manager wants, merged into what there is.
//!
//! [`apply()`] merges a configuration by the kinds of its lists and maps, takes out what the manager
//! applied before and does not apply any more and nobody else owns, and holds what changes against what
//! others own ([`Conflicts`]). It never looks at values but to compare them, and never decides whether the outcome is
//! a valid object.
//!
//! ```
//! use serde_json::json;
//! use windlass_machinery::{apply::{Request, apply}, managed::{Operation, Write}, schema::Node};
//!
//! let object = |value: serde_json::Value| value.as_object().cloned().unwrap_or_default();
//! let by = |manager| Request {
//!     write: Write { manager, operation: Operation::Apply, api_version: "v1", subresource: "", time: "", unowned: None },
//!     versions: &Node::Any,
//!     force: false,
//! };
//! let made = apply(&object(json!({})), &object(json!({"spec": {"a": 1}})), &by("one")).unwrap();
//! let both = apply(&made, &object(json!({"spec": {"b": 2}})), &by("two")).unwrap();
//! assert_eq!(both["spec"], json!({"a": 1, "b": 2}));
//! let conflict = apply(&both, &object(json!({"spec": {"a": 3}})), &by("two")).unwrap_err();
//! assert_eq!(conflict.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .spec.a");
//! ```

mod conflicts;
mod last_applied;
mod merge;
#[cfg(test)]
mod properties;
mod prune;
#[cfg(test)]
mod tests;
mod typed;

use serde_json::Value;

pub use self::{
    conflicts::{Conflict, Conflicts},
    typed::faults,
};
use crate::{
    managed::{
        Entry, FIELD, FieldSet, ListError, Managers, Operation, Versions, Write, delta::Delta,
        place::is_built_in, versions::Change,
    },
    object::{Object, metadata, metadata_mut, uid},
    schema::Node,
};

/// The name of the entry for all that is there when an object without entries is first applied to.
const BEFORE: &str = "before-first-apply";

/// Who applies, and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The write; its operation is apply.
    pub write: Write<'a>,
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// Whether to take fields over from others.
    pub force: bool,
}

/// Why an object was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The entries of a list cannot be told apart: 400.
    #[error(transparent)]
    List(#[from] ListError),
    /// Others own what would change, and force was not asked for: 409.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// The version of the write is not one of those that are served: 400.
    #[error("version {0} is not served")]
    Version(String),
}

/// What becomes of an object when a configuration is applied to it, with its entries. Both are in the version of the
/// write; an empty `live` is no object.
///
/// The configuration has been held against the schema ([`faults`]) and has only fields that can be written this way. `null`s in it come through. The time of the manager's entry is that of the
/// write, unless nothing at all has changed.
pub fn apply(live: &Object, config: &Object, request: &Request<'_>) -> Result<Object, ApplyError> {
    let Request { write, versions, .. } = request;
    let schema = versions
        .schema(write.api_version)
        .ok_or_else(|| ApplyError::Version(write.api_version.to_owned()))?;
    let own = FieldSet::of_applied(config, schema)?;
    let mut managers = managers(live, schema, request);
    let last = managers.0.iter().position(|entry| entry.is_by(write)).map(|place| managers.0.remove(place));
    let mut merged = without_entries(live);
    merge::merge(&mut merged, config, schema);
    if let Some(last) = &last
        && (last.fields != own || last.api_version != write.api_version)
    {
        prune::give_up(&mut merged, config, last, &own, &managers, request);
        merge::empty_to_null(&mut merged, config);
    }
    let mut change = Change::new(live, &merged, *versions, write);
    let taken = conflicts::find(&managers, &mut change);
    if !request.force && !taken.is_empty() {
        let left = last_applied::not_ours(taken, live, schema, write);
        if !left.is_empty() {
            return Err(ApplyError::Conflicts(Conflicts::of(&left)));
        }
    }
    pass_on(&mut managers, &mut change);
    let unchanged = change.of(write.api_version).is_some_and(Delta::is_empty);
    let mut entry = Entry::of(write, own);
    if let Some(last) = last
        && unchanged
        && last.fields == entry.fields
        && last.api_version == entry.api_version
    {
        entry.time = last.time;
    }
    managers.0.push(entry);
    last_applied::keep_up(&mut merged, config, write);
    if let Some(list) = managers.encode() {
        metadata_mut(&mut merged).insert(FIELD.to_owned(), list);
    }
    Ok(merged)
}

/// Puts everything that is in a configuration into an object by the kinds of its lists and maps, whoever owns it.
pub fn merge_into(live: &mut Object, config: &Object, schema: &Node) -> Result<(), ListError> {
    FieldSet::of_applied(config, schema)?;
    merge::merge(live, config, schema);
    Ok(())
}

/// The entries to begin with.
fn managers(live: &Object, schema: &Node, request: &Request<'_>) -> Managers {
    let list = metadata(live).get(FIELD).cloned();
    let mut managers = list.map(Managers::trusted).unwrap_or_default();
    managers.0.retain(|entry| request.versions.schema(&entry.api_version).is_some());
    if managers.0.is_empty() && !uid(live).is_empty() {
        let before = Write { manager: BEFORE, operation: Operation::Update, ..request.write };
        let mut fields = Delta::of_new(live, schema);
        if let Some(unowned) = before.unowned {
            fields.prune(unowned);
        }
        managers.0.push(Entry::of(&before, fields));
    }
    // The lists of built-in kinds are what they are; those of others may have been defined anew.
    for entry in managers.0.iter_mut().filter(|_| !is_built_in(schema)) {
        let Some(schema) = request.versions.schema(&entry.api_version) else { continue };
        // An update may have left a list empty, which others have filled since.
        let told = entry.operation == Operation::Apply && entry.api_version == request.write.api_version;
        entry.fields.fit(schema, told.then_some(live));
    }
    managers
}

/// Takes from others what changes and what is gone.
fn pass_on(managers: &mut Managers, change: &mut Change<'_>) {
    for entry in &mut managers.0 {
        if let Some(delta) = change.of(&entry.api_version) {
            entry.fields.difference(&delta.changed);
            entry.fields.prune(&delta.removed);
        }
    }
}

/// The object without its entries, which may be half of it.
fn without_entries(object: &Object) -> Object {
    let mut copy = Object::new();
    for (field, value) in object {
        let value = match (field.as_str(), value) {
            ("metadata", Value::Object(metadata)) => Value::Object(
                metadata
                    .iter()
                    .filter(|(field, _)| *field != FIELD)
                    .map(|(field, value)| (field.clone(), value.clone()))
                    .collect(),
            ),
            (_, value) => value.clone(),
        };
        copy.insert(field.clone(), value);
    }
    copy
}
