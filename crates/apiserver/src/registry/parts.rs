//! Dotted paths, and what a write through a part of an object may change.

use serde_json::Value;
use windlass_machinery::{
    managed::FieldSet,
    object::{self, Object, at, metadata_mut, set_at},
};

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

/// Fields of the metadata that a write through most parts may change as well.
const METADATA: &[&str] = &["metadata.annotations", "metadata.labels", "metadata.finalizers"];

/// Fields that are read from every write, and which the server sets.
const ALSO_READ: &[&str] = &["metadata.managedFields", "metadata.resourceVersion"];

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
    let metadata = METADATA.iter().filter(|_| part.metadata);
    for path in part.writes.iter().chain(metadata).chain(ALSO_READ) {
        carry_over(&mut result, &new, path);
    }
    result
}

/// Fields that are not written when a whole object is: nobody comes to own them by it. Those of parts that are
/// written apart.
pub(super) fn unowned(resource: &Resource, part: Option<&str>) -> Option<FieldSet> {
    let reserved = resource.parts.iter().filter(|part| part.reserved);
    let mut paths = reserved.flat_map(|part| part.writes).copied().peekable();
    (part.is_none() && paths.peek().is_some()).then(|| FieldSet::of_paths(paths))
}

/// What nobody comes to own who applies to an object that has no managed fields yet: what is not written that way.
pub(crate) fn unowned_before(resource: &Resource, part: Option<&Part>, live: &Object) -> Option<FieldSet> {
    if object::metadata(live).contains_key("managedFields") {
        return None;
    }
    let Some(part) = part else { return unowned(resource, None) };
    let is_written = |field: &str| part.writes.iter().any(|path| path.split('.').next() == Some(field));
    let others = live.keys().map(String::as_str).filter(|field| *field != "metadata" && !is_written(field));
    Some(FieldSet::of_paths(others))
}

/// Whether an object has fields of parts that are written apart.
pub(crate) fn holds_reserved(resource: &Resource, object: &Object) -> bool {
    let reserved = resource.parts.iter().filter(|part| part.reserved);
    reserved.flat_map(|part| part.writes).any(|path| get_path(object, path).is_some())
}

/// Fields of the metadata that say which object is meant.
const SAYS_WHICH: &[&str] = &["name", "namespace", "uid", "resourceVersion"];

/// Leaves of a configuration only what can be applied this way: for a part its own fields, for the object itself all
/// but the fields of reserved parts. The status of a new object is not applied either.
pub(crate) fn restrict_applied(resource: &Resource, part: Option<&Part>, creates: bool, config: &mut Object) {
    let Some(part) = part else {
        let is_left = |part: &Part| match creates {
            true => part.name == "status" && !resource.strategy.status_on_create,
            false => part.reserved,
        };
        for path in resource.parts.iter().filter(|part| is_left(part)).flat_map(|part| part.writes) {
            set_path(config, path, None);
        }
        return;
    };
    let mut kept = Object::new();
    for field in ["apiVersion", "kind"] {
        kept.extend(config.get_key_value(field).map(|(field, value)| (field.clone(), value.clone())));
    }
    for field in SAYS_WHICH {
        if let Some(value) = object::metadata(config).get(*field) {
            metadata_mut(&mut kept).insert((*field).to_owned(), value.clone());
        }
    }
    let metadata = METADATA.iter().filter(|_| part.metadata);
    for path in part.writes.iter().chain(metadata) {
        if let Some(value) = get_path(config, path) {
            set_path(&mut kept, path, Some(value.clone()));
        }
    }
    *config = kept;
}

/// Whether two versions of an object differ in what `metadata.generation` counts.
pub(crate) fn counts_as_change(resource: &Resource, new: &Object, old: &Object) -> bool {
    let is_counted = |field: &str| {
        let reserved = resource.parts.iter().any(|part| part.reserved && part.writes.contains(&field));
        !reserved && !matches!(field, "metadata" | "apiVersion" | "kind")
    };
    let fields = new.keys().chain(old.keys());
    fields.filter(|field| is_counted(field)).any(|field| new.get(field) != old.get(field))
}
