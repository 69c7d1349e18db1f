//! From objects to sets of fields, and back: what is in an object, and what of an object is in a set.

use serde_json::Value;

use super::{
    delta::mark,
    place::{
        At, Kind, METADATA_STEP, Shape, UNOWNED, UNOWNED_METADATA, field_step, key_step, roots, value_step,
    },
    set::{FieldSet, is_member, put, show_step},
};
use crate::{
    object::{Object, metadata},
    schema::{Key, Node},
};

/// What in an object cannot be owned: where, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct ListError {
    path: String,
    why: String,
}

impl ListError {
    fn under(mut self, step: &str) -> Self {
        let mut path = String::new();
        show_step(step, &mut path);
        path.push_str(&self.path);
        self.path = path;
        self
    }
}

impl FieldSet {
    /// Everything that is in an object, as whoever applied it would own it: values, entries of lists and
    /// empty maps, but not the maps that only hold others, nor lists that merge and are empty.
    pub fn of(object: &Object, schema: &Node) -> FieldSet {
        Reading { strict: false }.object(object, schema).unwrap_or_default()
    }

    /// As [`FieldSet::of`], of an object that is to be applied: entries of lists must be told apart.
    pub fn of_applied(object: &Object, schema: &Node) -> Result<FieldSet, ListError> {
        Reading { strict: true }.object(object, schema)
    }

    /// What of an object is in the set. Of what [`FieldSet::of`] gives for an object this is the object again, but for
    /// `null`s, empty lists that merge, and what nobody owns.
    pub fn extract(&self, object: &Object, schema: &Node) -> Object {
        let (rest, meta) = roots(schema);
        let mut out = extract_map(object, rest, &self.0);
        for field in UNOWNED {
            out.remove(*field);
        }
        if let Some(Value::Object(below)) = self.0.get(METADATA_STEP) {
            let metadata = extract_map(metadata(object), meta, below);
            if !metadata.is_empty() {
                out.insert("metadata".to_owned(), Value::Object(metadata));
            }
        }
        out
    }
}

/// Reads a set from an object. Only a strict one fails.
#[derive(Clone, Copy)]
struct Reading {
    strict: bool,
}

impl Reading {
    fn object(self, object: &Object, schema: &Node) -> Result<FieldSet, ListError> {
        let mut set = Object::new();
        let (rest, meta) = roots(schema);
        self.map(object, rest, UNOWNED, &mut set)?;
        let mut below = Object::new();
        self.map(metadata(object), meta, UNOWNED_METADATA, &mut below)
            .map_err(|error| error.under(METADATA_STEP))?;
        if !below.is_empty() {
            set.insert(METADATA_STEP.to_owned(), Value::Object(below));
        }
        Ok(FieldSet(set))
    }

    fn map(self, map: &Object, at: At<'_>, skip: &[&str], out: &mut Object) -> Result<(), ListError> {
        for (name, value) in map {
            if skip.contains(&name.as_str()) {
                continue;
            }
            let (at, known) = at.field(name);
            let below = self.value(value, at).map_err(|error| error.under(&field_step(name)))?;
            if let Some(mut below) = below {
                if !known {
                    mark(&mut below);
                }
                out.insert(field_step(name), Value::Object(below));
            }
        }
        Ok(())
    }

    /// What is below a value that is owned; `None` when nothing is.
    fn value(self, value: &Value, at: At<'_>) -> Result<Option<Object>, ListError> {
        let mut out = Object::new();
        match at.shape(value) {
            Shape::Leaf => return Ok(Some(out)),
            Shape::Map(map) if map.is_empty() => return Ok(Some(out)),
            Shape::Map(map) => self.map(map, at, &[], &mut out)?,
            Shape::Set(list) => {
                for (place, value) in list.iter().enumerate() {
                    self.check(place, set_fault(value))?;
                    self.put(&mut out, value_step(value), Object::new())?;
                }
            }
            Shape::Keyed(list, keys) => {
                for (place, entry) in list.iter().enumerate() {
                    self.check(place, keyed_fault(entry, keys))?;
                    let step = key_step(entry, keys, place);
                    let below = self.value(entry, at.items()).map_err(|error| error.under(&step))?;
                    let mut below = below.unwrap_or_default();
                    mark(&mut below);
                    self.put(&mut out, step, below)?;
                }
            }
        }
        Ok((!out.is_empty()).then_some(out))
    }

    fn check(self, place: usize, fault: Option<String>) -> Result<(), ListError> {
        match fault.filter(|_| self.strict) {
            Some(fault) => Err(ListError { path: String::new(), why: format!("element {place}: {fault}") }),
            None => Ok(()),
        }
    }

    fn put(self, out: &mut Object, step: String, below: Object) -> Result<(), ListError> {
        if self.strict && out.contains_key(&step) {
            let mut shown = String::new();
            show_step(&step, &mut shown);
            let why = format!("duplicate entries for key {shown}");
            return Err(ListError { path: String::new(), why });
        }
        put(out, step, below);
        Ok(())
    }
}

/// Why a value cannot be in a set.
pub(crate) fn set_fault(value: &Value) -> Option<String> {
    let fault = match value {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        _ => return None,
    };
    Some(fault.to_owned())
}

/// Why a value cannot be an entry of a list with keys.
pub(crate) fn keyed_fault(entry: &Value, keys: &[Key]) -> Option<String> {
    match entry {
        Value::Null => Some("associative list with keys may not have a null element".to_owned()),
        Value::Object(_) if keys.iter().any(|key| key.of(entry).is_some()) => None,
        Value::Object(_) => {
            let names: Vec<&str> = keys.iter().map(|key| &*key.name).collect();
            Some(format!(
                "associative list with keys has an element that omits all key fields {names:?} (and doesn't have default values for any key fields)"
            ))
        }
        _ => Some("associative list with keys may not have non-map elements".to_owned()),
    }
}

fn extract_map(map: &Object, at: At<'_>, set: &Object) -> Object {
    let mut out = Object::new();
    for (step, below) in set {
        let (Some(name), Value::Object(below)) = (step.strip_prefix("f:"), below) else { continue };
        if let Some(value) = map.get(name)
            && let Some(value) = extract_value(value, at.field(name).0, below)
        {
            out.insert(name.to_owned(), value);
        }
    }
    out
}

/// What of a value is in a set; `None` when nothing is.
fn extract_value(value: &Value, at: At<'_>, set: &Object) -> Option<Value> {
    match (at.kind(value), value) {
        (Kind::Map, Value::Object(map)) => {
            let map = extract_map(map, at, set);
            (is_member(set) || !map.is_empty()).then_some(Value::Object(map))
        }
        (Kind::Set, Value::Array(list)) => {
            let held = |value: &&Value| is_step(set, &value_step(value));
            let list: Vec<Value> = list.iter().filter(held).cloned().collect();
            (!list.is_empty()).then_some(Value::Array(list))
        }
        (Kind::Keyed(keys), Value::Array(list)) => {
            let entry = |(place, entry): (usize, &Value)| {
                let below = set.get(&key_step(entry, keys, place))?.as_object()?;
                extract_value(entry, at.items(), below)
            };
            let list: Vec<Value> = list.iter().enumerate().filter_map(entry).collect();
            (!list.is_empty()).then_some(Value::Array(list))
        }
        _ => is_member(set).then(|| value.clone()),
    }
}

/// Everything that is below a value, as whoever applied it would own it.
pub(super) fn below_value(value: &Value, at: At<'_>) -> Object {
    Reading { strict: false }.value(value, at).ok().flatten().unwrap_or_default()
}

/// Whether a step is in a set itself.
pub(crate) fn is_step(set: &Object, step: &str) -> bool {
    set.get(step).and_then(Value::as_object).is_some_and(is_member)
}
