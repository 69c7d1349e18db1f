//! Dotted paths, and what a write through a part of an object may change.

use serde_json::Value;
use windlass_machinery::object::{Object, at, set_at};

use crate::resources::{Part, Resource};

/// What stands under a dotted path.
pub(crate) fn get_path<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    at(object, &path.split('.').collect::<Vec<_>>())
}

/// Puts a value under a dotted path, or removes what is there.
pub(crate) fn set_path(object: &mut Object, path: &str, value: Option<Value>) {
    set_at(object, &path.split('.').collect::<Vec<_>>(), value);
}

fn carry_over(to: &mut Object, from: &Object, path: &str) {
    let value = get_path(from, path);
    if get_path(to, path) != value {
        set_path(to, path, value.cloned());
    }
}

/// Fields of the metadata that a write through a part may change as well.
const ALSO_WRITTEN: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.finalizers",
    "metadata.managedFields",
    "metadata.resourceVersion",
];

/// Leaves of a write only what it may change: for a part its own fields, for the object itself all but the
/// fields of reserved parts.
pub(crate) fn restrict(resource: &Resource, part: Option<&Part>, mut new: Object, old: &Object) -> Object {
    let Some(part) = part else {
        for part in resource.parts.iter().filter(|part| part.reserved) {
            for path in part.writes {
                carry_over(&mut new, old, path);
            }
        }
        return new;
    };
    let mut result = old.clone();
    for path in part.writes.iter().chain(ALSO_WRITTEN) {
        carry_over(&mut result, &new, path);
    }
    result
}

/// Whether two versions of an object differ in what `metadata.generation` counts.
pub(crate) fn counts_as_change(resource: &Resource, new: &Object, old: &Object) -> bool {
    let is_counted = |field: &str| {
        let reserved = resource.parts.iter().any(|part| part.reserved && part.writes.contains(&field));
        !reserved && !matches!(field, "metadata" | "apiVersion" | "kind" | "status")
    };
    let fields = new.keys().chain(old.keys());
    fields.filter(|field| is_counted(field)).any(|field| new.get(field) != old.get(field))
}
