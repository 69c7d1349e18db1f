//! Sets of fields, in the form in which objects carry them.
//!
//! A set is a tree of steps: `f:name` to a field, `k:{"name":"x"}` to the entry of a list with these keys,
//! `v:"x"` to a value in a list, `i:0` to a place in a list. A step without anything below it is in the set;
//! one with something below it is in the set if `.` is there as well. This is `FieldsV1` to the letter, so
//! that sets are read and written without being converted:
//!
//! ```
//! use serde_json::json;
//! use windlass_machinery::managed::FieldSet;
//!
//! let set = FieldSet::from_json(json!({"f:data": {".": {}, "f:a": {}}, "f:spec": {"f:b": {}}})).unwrap();
//! assert!(set.has(&["f:data"]) && set.has(&["f:data", "f:a"]) && set.has(&["f:spec", "f:b"]));
//! assert!(!set.has(&["f:spec"]) && !set.has(&["f:data", "f:b"]));
//! ```

use std::fmt::Write;

use serde_json::{Value, map::Entry};

use super::place::field_step;
use crate::object::Object;

/// Marks a step that is in the set itself, beside what is below it.
pub(crate) const SELF: &str = ".";

/// A set of fields of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSet(pub(crate) Object);

/// `fieldsV1` that is not a set of fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fieldsV1 is malformed at {0:?}")]
pub struct FieldSetError(String);

impl FieldSet {
    /// Reads `fieldsV1`. Steps of unknown kinds are left out; keys and values are brought into the one form
    /// in which they are compared.
    pub fn from_json(json: Value) -> Result<Self, FieldSetError> {
        match json {
            Value::Object(map) => read(map).map(|mut map| {
                map.remove(SELF);
                FieldSet(map)
            }),
            _ => Err(FieldSetError(String::new())),
        }
    }

    /// Takes `fieldsV1` that was written by [`FieldSet::into_json`].
    pub(super) fn trusted(json: Value) -> Self {
        match json {
            Value::Object(map) => FieldSet(map),
            _ => FieldSet::default(),
        }
    }

    /// The set as `fieldsV1`.
    pub fn into_json(self) -> Value {
        Value::Object(self.0)
    }

    /// The whole fields under dotted paths, such as `spec.replicas`.
    pub fn of_paths<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut set = FieldSet::default();
        for path in paths {
            let steps: Vec<String> = path.split('.').map(field_step).collect();
            set.insert(&steps.iter().map(String::as_str).collect::<Vec<_>>());
        }
        set
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a field is in it, given by the steps to it.
    pub fn has(&self, path: &[&str]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let parent = parents.iter().try_fold(&self.0, |map, step| map.get(*step)?.as_object());
        parent.and_then(|map| map.get(*last)?.as_object()).is_some_and(is_member)
    }

    /// Puts a field in, given by the steps to it.
    pub fn insert(&mut self, path: &[&str]) {
        let mut steps = path.iter().rev();
        let Some(last) = steps.next() else { return };
        let mut set = single(last, Object::new());
        for step in steps {
            set = single(step, set);
        }
        unite(&mut self.0, set);
    }

    /// Puts in all that is in another set.
    pub fn union(&mut self, other: FieldSet) {
        unite(&mut self.0, other.0);
    }

    /// Takes out all that is in another set; what is below stays.
    pub fn difference(&mut self, other: &FieldSet) {
        subtract_below(&mut self.0, &other.0);
    }

    /// What is in both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        FieldSet(common_below(&self.0, &other.0))
    }

    /// Takes out the outermost fields of another set, with all that is below them.
    pub fn prune(&mut self, other: &FieldSet) {
        prune_below(&mut self.0, &other.0);
    }

    /// The fields as messages name them, such as `.spec.containers[name="x"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut out = vec![];
        self.visit(&mut |path| {
            out.push(path.to_owned());
            true
        });
        out
    }

    /// Calls `visit` with each field as messages name it, until it gives false.
    pub fn visit(&self, visit: &mut dyn FnMut(&str) -> bool) {
        visit_below(&self.0, &mut String::new(), visit);
    }

    /// How many fields are in it.
    pub fn len(&self) -> usize {
        count(&self.0)
    }
}

fn single(step: &str, below: Object) -> Object {
    Object::from_iter([(step.to_owned(), Value::Object(below))])
}

pub(crate) fn is_member(below: &Object) -> bool {
    below.is_empty() || below.contains_key(SELF)
}

/// Brings what is below a step into its one form after something was taken out; false when nothing is left.
fn settle(below: &mut Object) -> bool {
    if below.len() == 1 && below.contains_key(SELF) {
        below.clear();
        return true;
    }
    !below.is_empty()
}

fn read(map: Object) -> Result<Object, FieldSetError> {
    let mut out = Object::new();
    for (step, below) in map {
        let Value::Object(below) = below else { return Err(FieldSetError(step)) };
        let Some(step) = read_step(step)? else { continue };
        let mut below = read(below)?;
        settle(&mut below);
        put(&mut out, step, below);
    }
    Ok(out)
}

/// A step in the form in which it is compared; `None` when its kind is unknown.
fn read_step(step: String) -> Result<Option<String>, FieldSetError> {
    let Some((kind, rest)) = step.split_once(':') else {
        return Ok((step == SELF).then_some(step));
    };
    let wrong = || FieldSetError(step.clone());
    match kind {
        "f" => Ok(Some(step)),
        "i" => rest.parse::<i64>().map(|place| Some(format!("i:{place}"))).map_err(|_| wrong()),
        "v" => {
            let value: Value = serde_json::from_str(rest).map_err(|_| wrong())?;
            Ok(Some(format!("v:{value}")))
        }
        "k" => {
            let keys: Object = serde_json::from_str(rest).map_err(|_| wrong())?;
            Ok(Some(format!("k:{}", Value::Object(keys))))
        }
        _ => Ok(None),
    }
}

/// Puts a step and what is below it into a set.
pub(super) fn put(set: &mut Object, step: String, below: Object) {
    match set.entry(step) {
        Entry::Vacant(entry) => drop(entry.insert(Value::Object(below))),
        Entry::Occupied(mut entry) => match entry.get_mut() {
            Value::Object(present) => unite_step(present, below),
            other => *other = Value::Object(below),
        },
    }
}

fn unite(set: &mut Object, other: Object) {
    for (step, below) in other {
        if let Value::Object(below) = below {
            put(set, step, below);
        }
    }
}

fn unite_step(present: &mut Object, below: Object) {
    match (present.is_empty(), below.is_empty()) {
        (true, true) => {}
        (false, true) => put(present, SELF.to_owned(), below),
        (true, false) => {
            *present = below;
            put(present, SELF.to_owned(), Object::new());
        }
        (false, false) => unite(present, below),
    }
}

fn subtract_below(set: &mut Object, other: &Object) {
    each_common(set, other, subtract_step);
}

/// Takes from a step what is in another set; false when nothing is left.
fn subtract_step(below: &mut Object, other: &Object) -> bool {
    if below.is_empty() {
        return !is_member(other);
    }
    if is_member(other) {
        below.remove(SELF);
    }
    subtract_below(below, other);
    settle(below)
}

fn prune_below(set: &mut Object, other: &Object) {
    each_common(set, other, |below, other| {
        if other.is_empty() {
            return false;
        }
        // Nothing below: it stays, because the other set is about what is below it.
        below.is_empty() || {
            prune_below(below, other);
            settle(below)
        }
    });
}

/// Changes every step that is in both sets, and takes out those for which `change` gives false. Takes no longer than
/// the smaller one is large.
fn each_common(set: &mut Object, other: &Object, change: impl Fn(&mut Object, &Object) -> bool) {
    if set.len() < other.len() {
        set.retain(|step, below| match (below, other.get(step)) {
            (Value::Object(below), Some(Value::Object(other))) if step != SELF => change(below, other),
            _ => true,
        });
        return;
    }
    for (step, other) in other {
        let (Some(Value::Object(below)), Value::Object(other)) = (set.get_mut(step), other) else { continue };
        if step != SELF && !change(below, other) {
            set.remove(step);
        }
    }
}

fn common_below(one: &Object, other: &Object) -> Object {
    let mut out = Object::new();
    for (step, below) in one {
        let (Value::Object(below), Some(Value::Object(other))) = (below, other.get(step)) else { continue };
        if step == SELF {
            continue;
        }
        let member = is_member(below) && is_member(other);
        let mut common = common_below(below, other);
        if member && !common.is_empty() {
            common.insert(SELF.to_owned(), Value::Object(Object::new()));
        }
        if member || !common.is_empty() {
            out.insert(step.clone(), Value::Object(common));
        }
    }
    out
}

fn visit_below(set: &Object, path: &mut String, visit: &mut dyn FnMut(&str) -> bool) -> bool {
    for (step, below) in set {
        let Value::Object(below) = below else { continue };
        if step == SELF {
            continue;
        }
        let length = path.len();
        show_step(step, path);
        if is_member(below) && !visit(path) || !visit_below(below, path, visit) {
            return false;
        }
        path.truncate(length);
    }
    true
}

fn count(set: &Object) -> usize {
    let steps = set.iter().filter(|(step, _)| *step != SELF).filter_map(|(_, below)| below.as_object());
    steps.map(|below| usize::from(is_member(below)) + count(below)).sum()
}

/// A step as messages name it.
pub(crate) fn show_step(step: &str, path: &mut String) {
    let written = match step.split_once(':') {
        Some(("v", value)) => write!(path, "[={value}]"),
        Some(("i", place)) => write!(path, "[{place}]"),
        Some(("k", keys)) => {
            let keys: Object = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            write!(path, "[{}]", keys.join(","))
        }
        Some((_, name)) => write!(path, ".{name}"),
        None => Ok(()),
    };
    written.expect("writing to memory cannot fail");
}
