//! From objects to sets of fields: everything in one object, and the difference between two.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use serde_json::Value;

use super::set::{FieldSet, SELF, put};
use crate::{
    object::{Object, metadata},
    schema::{Field, Format, Merge, Node, Ownership, Strategic},
};

/// Fields that nobody owns, and the metadata, which is looked at by itself.
const UNOWNED: &[&str] = &["apiVersion", "kind", "metadata"];

/// Fields of the metadata that nobody owns, because only the server sets them or nobody can change them.
const UNOWNED_METADATA: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Fields that are there in every object of a built-in kind, even if they are not written. Whoever puts
/// something below them does not own them.
const ALWAYS: &[&str] =
    &["jobTemplate", "loadBalancer", "metadata", "spec", "status", "strategy", "template", "updateStrategy"];

/// The metadata of kinds whose schema says nothing about it.
static METADATA: LazyLock<Node> = LazyLock::new(|| {
    let text = || Box::new(Node::String(Format::Plain));
    let field = |name: &str, node, ownership| Field {
        name: name.into(),
        node,
        required: false,
        merge: Merge { ownership, strategic: Strategic::Replace },
    };
    let by_uid = Ownership::Keyed(Arc::new(["uid".into()]));
    Node::Object(vec![
        field("annotations", Node::Map(text()), Ownership::Plain),
        field("finalizers", Node::List(text()), Ownership::Set),
        field("labels", Node::Map(text()), Ownership::Plain),
        field("ownerReferences", Node::List(Box::new(Node::Any)), by_uid),
    ])
});

impl FieldSet {
    /// Everything that is in an object, as whoever applied it would own it: values, entries of lists and
    /// empty maps, but not the maps that only hold others.
    pub fn of(object: &Object, schema: &Node) -> FieldSet {
        let mut set = Object::new();
        let (rest, meta) = roots(schema);
        of_map(object, rest, UNOWNED, &mut set);
        let mut below = Object::new();
        of_map(metadata(object), meta, UNOWNED_METADATA, &mut below);
        if !below.is_empty() {
            set.insert("f:metadata".to_owned(), Value::Object(below));
        }
        FieldSet(set)
    }
}

/// What a write changes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Delta {
    /// What is new or has another value.
    pub(super) changed: FieldSet,
    /// What is gone, with all that was below it.
    pub(super) removed: FieldSet,
}

impl Delta {
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    /// What changes between two objects.
    pub(super) fn between(old: &Object, new: &Object, schema: &Node) -> Delta {
        let (rest, meta) = roots(schema);
        let mut delta = Delta::default();
        let Delta { changed: FieldSet(changed), removed: FieldSet(removed) } = &mut delta;
        compare_maps(old, new, rest, UNOWNED, changed, removed);
        let (mut below, mut gone) = (Object::new(), Object::new());
        compare_maps(metadata(old), metadata(new), meta, UNOWNED_METADATA, &mut below, &mut gone);
        for (set, below) in [(changed, below), (removed, gone)] {
            if !below.is_empty() {
                set.insert("f:metadata".to_owned(), Value::Object(below));
            }
        }
        delta
    }

    /// What whoever creates an object owns.
    pub(super) fn of_new(object: &Object, schema: &Node) -> FieldSet {
        Self::between(&Object::new(), object, schema).changed
    }
}

/// What is known about a place in an object.
#[derive(Clone, Copy)]
struct At<'a> {
    node: &'a Node,
    ownership: &'a Ownership,
    /// Whether every object has something here, written or not.
    always: bool,
}

impl<'a> At<'a> {
    fn items(self) -> Self {
        At { node: self.node.items().unwrap_or(&Node::Any), ownership: &Ownership::Plain, always: false }
    }

    fn field(self, name: &str) -> (Self, bool) {
        match (self.node.resolve(), self.node.field(name)) {
            (_, Some(field)) => {
                let always = self.always && (field.required || ALWAYS.contains(&name));
                (At { node: &field.node, ownership: &field.merge.ownership, always }, true)
            }
            (Node::Map(items), None) => {
                (At { node: items, ownership: &Ownership::Plain, always: false }, false)
            }
            _ => (At { node: &Node::Any, ownership: &Ownership::Plain, always: false }, false),
        }
    }

    fn shape<'b>(self, value: &'b Value) -> Shape<'a, 'b> {
        match (value, self.ownership) {
            (Value::Object(map), Ownership::Plain | Ownership::Set | Ownership::Keyed(_))
                if !self.node.is_atomic() =>
            {
                Shape::Map(map)
            }
            (Value::Array(list), Ownership::Set) => Shape::Set(list),
            (Value::Array(list), Ownership::Keyed(keys)) => Shape::Keyed(list, keys),
            _ => Shape::Leaf,
        }
    }
}

/// How what is below a value is owned.
enum Shape<'a, 'b> {
    Leaf,
    Map(&'b Object),
    Set(&'b [Value]),
    Keyed(&'b [Value], &'a [Box<str>]),
}

/// Where a walk begins: what is known about the object and about its metadata.
fn roots(schema: &Node) -> (At<'_>, At<'_>) {
    let always = matches!(schema, Node::Named(definition) if definition.name().starts_with("io.k8s."));
    let metadata = schema.field("metadata").map(|field| &field.node);
    let metadata = metadata.filter(|node| node.field("finalizers").is_some()).unwrap_or(&METADATA);
    let at = |node, always| At { node, ownership: &Ownership::Plain, always };
    (at(schema, always), at(metadata, true))
}

fn field_step(name: &str) -> String {
    ["f:", name].concat()
}

fn value_step(value: &Value) -> String {
    format!("v:{value}")
}

/// The step to the entry of a list; an entry that has none of the keys is told by its place.
fn key_step(entry: &Value, keys: &[Box<str>], place: usize) -> String {
    let mut found: Vec<(&str, &Value)> =
        keys.iter().filter_map(|key| Some((&**key, entry.get(&**key)?))).collect();
    if found.is_empty() {
        return format!("i:{place}");
    }
    found.sort_by_key(|(key, _)| *key);
    let mut step = String::from("k:{");
    for (key, value) in found {
        if !step.ends_with('{') {
            step.push(',');
        }
        step.push_str(&Value::from(key).to_string());
        step.push(':');
        step.push_str(&value.to_string());
    }
    step.push('}');
    step
}

fn mark(set: &mut Object) {
    if !set.is_empty() {
        set.insert(SELF.to_owned(), Value::Object(Object::new()));
    }
}

fn of_map(map: &Object, at: At<'_>, skip: &[&str], out: &mut Object) {
    for (name, value) in map {
        if skip.contains(&name.as_str()) {
            continue;
        }
        let (at, known) = at.field(name);
        if let Some(mut below) = of_value(value, at) {
            if !known {
                mark(&mut below);
            }
            out.insert(field_step(name), Value::Object(below));
        }
    }
}

/// What is below a value that is owned; `None` when nothing is.
fn of_value(value: &Value, at: At<'_>) -> Option<Object> {
    let mut out = Object::new();
    match at.shape(value) {
        Shape::Leaf => return Some(out),
        Shape::Map(map) if map.is_empty() => return Some(out),
        Shape::Map(map) => of_map(map, at, &[], &mut out),
        Shape::Set(list) => list.iter().for_each(|value| put(&mut out, value_step(value), Object::new())),
        Shape::Keyed(list, keys) => {
            for (place, entry) in list.iter().enumerate() {
                let mut below = of_value(entry, at.items()).unwrap_or_default();
                mark(&mut below);
                put(&mut out, key_step(entry, keys, place), below);
            }
        }
    }
    (!out.is_empty()).then_some(out)
}

/// What is below a value that was not there before; `None` when it was there without being written and has
/// nothing below it.
fn added(value: &Value, at: At<'_>) -> Option<Object> {
    let mut out = Object::new();
    match at.shape(value) {
        Shape::Leaf => return Some(out),
        Shape::Map(map) => {
            for (name, value) in map {
                let (at, _) = at.field(name);
                if let Some(below) = added(value, at) {
                    out.insert(field_step(name), Value::Object(below));
                }
            }
        }
        Shape::Set(list) => list.iter().for_each(|value| put(&mut out, value_step(value), Object::new())),
        Shape::Keyed(list, keys) => {
            for (place, entry) in list.iter().enumerate() {
                put(&mut out, key_step(entry, keys, place), added(entry, at.items()).unwrap_or_default());
            }
        }
    }
    if at.always {
        return (!out.is_empty()).then_some(out);
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
            if old != new {
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
            put(changed, step.clone(), added(new, At { always: false, ..at }).unwrap_or_default());
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
    keys: &[Box<str>],
    at: At<'_>,
    changed: &mut Object,
    removed: &mut Object,
) {
    let same = |(one, other): (&Value, &Value)| keys.iter().all(|key| one.get(&**key) == other.get(&**key));
    // Entries rarely come, go or move: then no step has to be made for those that are the same.
    if old.len() == new.len() && old.iter().zip(new).all(same) {
        for (place, (old, new)) in old.iter().zip(new).enumerate() {
            compare(old, new, at, changed, removed, || key_step(new, keys, place));
        }
        return;
    }
    let step = |(place, entry)| (key_step(entry, keys, place), entry);
    let mut before: HashMap<String, &Value> = old.iter().enumerate().map(step).collect();
    for (step, entry) in new.iter().enumerate().map(step) {
        match before.remove(&step) {
            Some(old) => compare(old, entry, at, changed, removed, || step),
            None => put(changed, step, added(entry, at).unwrap_or_default()),
        }
    }
    for step in before.into_keys() {
        removed.insert(step, Value::Object(Object::new()));
    }
}
