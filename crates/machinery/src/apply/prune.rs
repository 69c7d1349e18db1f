//! Taking out what a manager applied before, does not apply any more, and nobody else owns.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Request;
use crate::{
    managed::{
        Entry, FieldSet, Managers, Versions,
        fields::is_step,
        place::{At, Kind, METADATA_STEP, UNOWNED, UNOWNED_METADATA, key_step, roots, value_step},
        set::{SELF, is_member},
    },
    object::Object,
    schema::{Key, Node},
};

/// Most sets that are looked into one by one; with more, it is quicker to unite them first.
const FEW: usize = 8;

/// Takes out of a merged object what is in `last`, and neither in `own` nor with another manager.
///
/// This happens in the version in which `last` was applied, because that is what its fields are of.
pub(super) fn give_up(
    merged: &mut Object,
    config: &Object,
    last: &Entry,
    own: &FieldSet,
    others: &Managers,
    request: &Request<'_>,
) {
    let Request { write, versions, .. } = request;
    let Some(schema) = versions.schema(&last.api_version) else { return };
    let own = match last.api_version == write.api_version {
        true => own.clone(),
        false => match versions.convert(config, &last.api_version) {
            Some(config) => FieldSet::of(&config, schema),
            None => return,
        },
    };
    let (same, other): (Vec<&Entry>, Vec<&Entry>) =
        others.0.iter().partition(|entry| entry.api_version == last.api_version);
    let restated = restate(&other, merged, &last.api_version, *versions);
    let kept: Vec<&FieldSet> =
        restated.iter().chain(same.into_iter().map(|entry| &entry.fields)).chain([&own]).collect();
    // Every step looks into each of them.
    let united = (kept.len() > FEW).then(|| {
        let mut all = FieldSet::default();
        kept.iter().for_each(|set| all.union((*set).clone()));
        all
    });
    let kept: Vec<&Object> = match &united {
        Some(all) => vec![&all.0],
        None => kept.into_iter().map(|set| &set.0).collect(),
    };
    if last.api_version == write.api_version {
        prune(merged, schema, &last.fields, &kept);
        return;
    }
    let Some(mut converted) = versions.convert(merged, &last.api_version) else { return };
    prune(&mut converted, schema, &last.fields, &kept);
    if let Some(back) = versions.convert(&converted, write.api_version) {
        *merged = back;
    }
}

/// What entries of other versions own of an object, told in this version: one set for each of theirs.
fn restate(entries: &[&Entry], merged: &Object, api_version: &str, versions: &dyn Versions) -> Vec<FieldSet> {
    let mut by_version: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for entry in entries {
        by_version.entry(&entry.api_version).or_default().union(entry.fields.clone());
    }
    let restated = by_version.into_iter().filter_map(|(theirs, fields)| {
        let object = versions.convert(merged, theirs)?;
        let mut owned = fields.extract(&object, versions.schema(theirs)?);
        for field in ["apiVersion", "kind"] {
            owned.insert(field.to_owned(), object.get(field)?.clone());
        }
        Some(FieldSet::of(&versions.convert(&owned, api_version)?, versions.schema(api_version)?))
    });
    restated.collect()
}

fn prune(object: &mut Object, schema: &Node, last: &FieldSet, kept: &[&Object]) {
    let (rest, meta) = roots(schema);
    prune_map(object, rest, &last.0, kept, UNOWNED);
    if let (Some(Value::Object(metadata)), Some(Value::Object(last))) =
        (object.get_mut("metadata"), last.0.get(METADATA_STEP))
    {
        prune_map(metadata, meta, last, &below(kept, METADATA_STEP), UNOWNED_METADATA);
    }
}

/// What sets have below a step.
fn below<'a>(sets: &[&'a Object], step: &str) -> Vec<&'a Object> {
    sets.iter().filter_map(|set| set.get(step)?.as_object()).collect()
}

/// Takes out of a map what `last` has and no other set; never one of the fields `skip`.
fn prune_map(map: &mut Object, at: At<'_>, last: &Object, kept: &[&Object], skip: &[&str]) {
    for (step, last) in last {
        let (Some(name), Value::Object(last)) = (step.strip_prefix("f:"), last) else { continue };
        if skip.contains(&name) {
            continue;
        }
        let Some(value) = map.get_mut(name) else { continue };
        let (at, known) = at.field(name);
        let kept = below(kept, step);
        // A field of a type goes with what defaults have put into it; a key of a map has an owner of its own.
        let (had, is_kept) = match known {
            true => (true, !kept.is_empty()),
            false => (is_member(last), kept.iter().any(|set| is_member(set))),
        };
        if had && !is_kept || prune_value(value, at, last, &kept) && !kept.iter().any(|set| is_member(set)) {
            map.remove(name);
        }
    }
}

/// Takes out of a value what `last` has and no other set. Whether nothing is left of it.
fn prune_value(value: &mut Value, at: At<'_>, last: &Object, kept: &[&Object]) -> bool {
    if !last.keys().any(|step| step != SELF) {
        return false;
    }
    match (at.kind(value), value) {
        (Kind::Map, Value::Object(map)) => {
            let before = map.len();
            prune_map(map, at, last, kept, &[]);
            map.is_empty() && before > 0
        }
        (Kind::Set, Value::Array(list)) => {
            let before = list.len();
            list.retain(|value| {
                let step = value_step(value);
                !is_step(last, &step) || kept.iter().any(|set| is_step(set, &step))
            });
            list.is_empty() && before > 0
        }
        (Kind::Keyed(keys), Value::Array(list)) => {
            let before = list.len();
            prune_entries(list, keys, at.items(), last, kept);
            list.is_empty() && before > 0
        }
        _ => false,
    }
}

fn prune_entries(list: &mut Vec<Value>, keys: &[Key], at: At<'_>, last: &Object, kept: &[&Object]) {
    let mut place = 0;
    list.retain_mut(|entry| {
        let step = key_step(entry, keys, place);
        place += 1;
        let Some(Value::Object(last)) = last.get(&step) else { return true };
        let kept = below(kept, &step);
        if is_member(last) && !kept.iter().any(|set| is_member(set)) {
            return false;
        }
        // An entry that stays must still be told from the others.
        let keys: Vec<&str> = keys.iter().map(|key| &*key.name).collect();
        if let (Kind::Map, Value::Object(map)) = (at.kind(entry), entry) {
            prune_map(map, at, last, &kept, &keys);
        }
        true
    });
}
