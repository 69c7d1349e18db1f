//! What changes between two objects, as sets of fields.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    place::{At, METADATA_STEP, Shape, UNOWNED, UNOWNED_METADATA, field_step, key_step, roots, value_step},
    set::{FieldSet, SELF, put},
};
use crate::{
    object::{Object, metadata},
    schema::{Key, Node},
};

/// What a write changes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Delta {
    /// What is new or has another value.
    pub(crate) changed: FieldSet,
    /// What is gone, with all that was below it.
    pub(crate) removed: FieldSet,
}

impl Delta {
    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    /// The change without these fields and what is below them.
    pub(crate) fn without(mut self, unowned: Option<&FieldSet>) -> Delta {
        if let Some(unowned) = unowned {
            self.changed.prune(unowned);
            self.removed.prune(unowned);
        }
        self
    }

    /// What changes between two objects.
    pub(crate) fn between(old: &Object, new: &Object, schema: &Node) -> Delta {
        let (rest, meta) = roots(schema);
        let mut delta = Delta::default();
        let Delta { changed: FieldSet(changed), removed: FieldSet(removed) } = &mut delta;
        compare_maps(old, new, rest, UNOWNED, changed, removed);
        let (mut below, mut gone) = (Object::new(), Object::new());
        compare_maps(metadata(old), metadata(new), meta, UNOWNED_METADATA, &mut below, &mut gone);
        for (set, below) in [(changed, below), (removed, gone)] {
            if !below.is_empty() {
                set.insert(METADATA_STEP.to_owned(), Value::Object(below));
            }
        }
        delta
    }

    /// What whoever creates an object owns.
    pub(crate) fn of_new(object: &Object, schema: &Node) -> FieldSet {
        Self::between(&Object::new(), object, schema).changed
    }
}

pub(super) fn mark(set: &mut Object) {
    if !set.is_empty() {
        set.insert(SELF.to_owned(), Value::Object(Object::new()));
    }
}

/// What is below a value that was not there before; `None` when it was there without being written and has
/// nothing below it.
fn added(value: &Value, at: At<'_>) -> Option<Object> {
    let mut out = Object::new();
    match at.shape(value) {
        Shape::Leaf => return (!at.is_unset(value)).then_some(out),
        // Steps are in the order of the names: collecting builds the map in one go.
        Shape::Map(map) => {
            let below = map.iter().map(|(name, value)| (name, added(value, at.field(name).0)));
            out = below.filter_map(|(name, below)| Some((field_step(name), Value::Object(below?)))).collect();
        }
        Shape::Set(list) => list.iter().for_each(|value| put(&mut out, value_step(value), Object::new())),
        Shape::Keyed(list, keys) => {
            for (place, entry) in list.iter().enumerate() {
                put(&mut out, key_step(entry, keys, place), added(entry, at.items()).unwrap_or_default());
            }
        }
    }
    if at.always {
        // A list that is set and empty is something else than none.
        return (!out.is_empty() || value.is_array()).then_some(out);
    }
    mark(&mut out);
    Some(out)
}

fn compare_maps(
    old: &Object,
    new: &Object,
    at: At<'_>,
    skip: &[&str],
    changed: &mut Object,
    removed: &mut Object,
) {
    for (name, value) in new {
        if skip.contains(&name.as_str()) {
            continue;
        }
        let (at, _) = at.field(name);
        match old.get(name) {
            Some(before) => compare(before, value, at, changed, removed, || field_step(name)),
            None => {
                if let Some(below) = added(value, at) {
                    changed.insert(field_step(name), Value::Object(below));
                }
            }
        }
    }
    for name in old.keys() {
        if !new.contains_key(name) && !skip.contains(&name.as_str()) {
            removed.insert(field_step(name), Value::Object(Object::new()));
        }
    }
}

fn compare(
    old: &Value,
    new: &Value,
    at: At<'_>,
    changed: &mut Object,
    removed: &mut Object,
    step: impl FnOnce() -> String,
) {
    let (mut below, mut gone) = (Object::new(), Object::new());
    match (at.shape(old), at.shape(new)) {
        (Shape::Leaf, Shape::Leaf) => {
            if !means_the_same(old, new) {
                put(changed, step(), Object::new());
            }
            return;
        }
        (Shape::Map(old), Shape::Map(new)) => compare_maps(old, new, at, &[], &mut below, &mut gone),
        (Shape::Set(old), Shape::Set(new)) if old != new => compare_sets(old, new, &mut below, &mut gone),
        (Shape::Set(_), Shape::Set(_)) => {}
        (Shape::Keyed(old, keys), Shape::Keyed(new, _)) => {
            compare_keyed(old, new, keys, at.items(), &mut below, &mut gone);
        }
        _ => {
            let step = step();
            put(changed, step.clone(), added(new, at.written()).unwrap_or_default());
            put(removed, step, Object::new());
            return;
        }
    }
    if below.is_empty() && gone.is_empty() {
        return;
    }
    let step = step();
    if !gone.is_empty() {
        put(removed, step.clone(), gone);
    }
    if !below.is_empty() {
        put(changed, step, below);
    }
}

/// Whether two values say the same: numbers do that are equal, however they are written.
fn means_the_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || ((one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| means_the_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| means_the_same(one, other)))
        }
        _ => one == other,
    }
}

fn compare_sets(old: &[Value], new: &[Value], changed: &mut Object, removed: &mut Object) {
    let steps = |list: &[Value]| -> Object {
        list.iter().map(|value| (value_step(value), Value::Object(Object::new()))).collect()
    };
    let (old, new) = (steps(old), steps(new));
    changed.extend(new.iter().filter(|(step, _)| !old.contains_key(*step)).map(owned));
    removed.extend(old.iter().filter(|(step, _)| !new.contains_key(*step)).map(owned));
}

fn owned((step, below): (&String, &Value)) -> (String, Value) {
    (step.clone(), below.clone())
}

fn compare_keyed(
    old: &[Value],
    new: &[Value],
    keys: &[Key],
    at: At<'_>,
    changed: &mut Object,
    removed: &mut Object,
) {
    let same = |(one, other): (&Value, &Value)| keys.iter().all(|key| key.of(one) == key.of(other));
    // Entries rarely come, go or move: then no step has to be made for those that are the same.
    if old.len() == new.len() && old.iter().zip(new).all(same) {
        for (place, (old, new)) in old.iter().zip(new).enumerate() {
            compare(old, new, at, changed, removed, || key_step(new, keys, place));
        }
        return;
    }
    let (_, mut before) = by_step(old, keys);
    let (order, mut after) = by_step(new, keys);
    for step in order {
        let Some(new) = after.remove(&step) else { continue };
        let old = before.remove(&step).unwrap_or_default();
        match (&old[..], &new[..]) {
            ([old], [new]) => compare(old, new, at, changed, removed, || step),
            _ if old == new => {}
            // Entries that cannot be told apart change together.
            _ => {
                for entry in new {
                    put(changed, step.clone(), added(entry, at).unwrap_or_default());
                }
            }
        }
    }
    for step in before.into_keys() {
        removed.insert(step, Value::Object(Object::new()));
    }
}

/// The entries of a list by the steps to them, and these steps in order.
fn by_step<'a>(list: &'a [Value], keys: &[Key]) -> (Vec<String>, HashMap<String, Vec<&'a Value>>) {
    let order: Vec<String> =
        list.iter().enumerate().map(|(place, entry)| key_step(entry, keys, place)).collect();
    let mut entries: HashMap<String, Vec<&Value>> = HashMap::with_capacity(list.len());
    for (step, entry) in order.iter().zip(list) {
        entries.entry(step.clone()).or_default().push(entry);
    }
    (order, entries)
}
