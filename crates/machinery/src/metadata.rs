//! What must hold of an object's metadata, whatever its kind: on creation and from one state to the next.
//!
//! Names must have been generated and server-set fields filled in before. Start at [`validate_metadata`].

use serde_json::Value;

use crate::field::Errors;
use crate::names::{self, NameRule};
use crate::object::Object;
use crate::time;

/// Most bytes that the keys and values of all annotations have together.
pub const ANNOTATIONS_MOST: usize = 256 << 10;
/// Most bytes of the name of a field manager.
pub const MANAGER_MOST: usize = 128;
/// Most bytes of a subresource in managed fields.
const SUBRESOURCE_MOST: usize = 256;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", ORPHAN, FOREGROUND];

/// The finalizer that leaves dependents behind.
pub const ORPHAN: &str = "orphan";
/// The finalizer that waits for dependents to be deleted.
pub const FOREGROUND: &str = "foregroundDeletion";

const IMMUTABLE: &str = "field is immutable";

/// Removes maps and lists that are empty: to every client they mean the same as none, so that only one form is kept
/// and an update that only adds or omits them changes nothing.
pub fn drop_empty(meta: &mut Object) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences", "managedFields"] {
        let empty = match meta.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        };
        if empty {
            meta.remove(field);
        }
    }
}

/// Checks the metadata of a new object.
pub fn validate_metadata(meta: &Object, namespaced: bool, name_rule: NameRule, errors: &mut Errors) {
    errors.at("metadata", |errors| {
        let begin = text(meta, "generateName");
        if !begin.is_empty()
            && let Some(fault) = name_fault(begin, true, name_rule)
        {
            errors.invalid_str("generateName", begin, fault);
        }
        let name = text(meta, "name");
        if name.is_empty() {
            errors.required("name", "name or generateName is required");
        } else if let Some(fault) = name_fault(name, false, name_rule) {
            errors.invalid_str("name", name, fault);
        }
        validate_namespace(text(meta, "namespace"), namespaced, errors);
        if meta.get("generation").and_then(Value::as_i64).is_some_and(|generation| generation < 0) {
            errors.invalid("generation", &meta["generation"], "must be greater than or equal to 0");
        }
        validate_common(meta, errors);
        validate_finalizers(meta, errors);
    });
}

/// Checks what may become of an object's metadata.
///
/// Fields that the server sets (`uid`, the timestamps, the grace period) may be missing in the new state: clients
/// leave them out and the server carries them over.
pub fn validate_metadata_update(new: &Object, old: &Object, errors: &mut Errors) {
    errors.at("metadata", |errors| {
        let deleting = !text(old, "deletionTimestamp").is_empty();
        if deleting {
            validate_no_new_finalizers(new, old, errors);
        }
        let number = |meta: &Object| meta.get("generation").and_then(Value::as_i64).unwrap_or(0);
        if number(new) < number(old) {
            errors.invalid("generation", &number(new).into(), "must not be decremented");
        }
        for field in ["name", "namespace"] {
            if text(new, field) != text(old, field) {
                errors.invalid_str(field, text(new, field), IMMUTABLE);
            }
        }
        for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            if let Some(value) = new.get(field).filter(|value| !is_unset(value))
                && !same(value, old.get(field).unwrap_or(&Value::Null))
            {
                errors.invalid(field, value, IMMUTABLE);
            }
        }
        validate_common(new, errors);
        if new.get("finalizers") != old.get("finalizers") {
            validate_finalizers(new, errors);
        }
    });
}

/// Checks labels, for fields that hold some: `field` is the map itself.
pub fn validate_labels(labels: &Object, field: &str, errors: &mut Errors) {
    for (key, value) in labels {
        for fault in names::qualified(key) {
            errors.invalid_str(field, key, fault);
        }
        let Some(value) = value.as_str() else { continue };
        for fault in names::label_value(value) {
            errors.invalid_str(field, value, fault);
        }
    }
}

/// Checks annotations, for fields that hold some: `field` is the map itself.
pub fn validate_annotations(annotations: &Object, field: &str, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in annotations {
        for fault in names::qualified(&key.to_lowercase()) {
            errors.invalid_str(field, key, fault);
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_MOST {
        errors.too_long(field, ANNOTATIONS_MOST);
    }
}

/// Checks the name of who writes fields.
pub fn validate_field_manager(name: &str, field: &str, errors: &mut Errors) {
    if name.len() > MANAGER_MOST {
        errors.too_long(field, MANAGER_MOST);
    }
    for (at, c) in name.char_indices().filter(|(_, c)| !is_printable(*c)) {
        errors.invalid_str(
            field,
            name,
            format!("invalid character U+{:04X} (at position {at})", u32::from(c)),
        );
    }
}

/// Names must fit the rule of the kind, and must always be fit to be one segment of a path.
fn name_fault(name: &str, generate: bool, rule: NameRule) -> Option<String> {
    rule(name, generate).or_else(|| names::path_segment(name, generate))
}

fn validate_namespace(namespace: &str, namespaced: bool, errors: &mut Errors) {
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.required("namespace", ""),
        (true, false) => {
            for fault in names::label_faults(namespace) {
                errors.invalid_str("namespace", namespace, fault);
            }
        }
        (false, false) => errors.forbidden("namespace", "not allowed on this type"),
        (false, true) => {}
    }
}

/// What is checked alike on creation and on every change.
fn validate_common(meta: &Object, errors: &mut Errors) {
    if let Some(Value::Object(labels)) = meta.get("labels") {
        validate_labels(labels, "labels", errors);
    }
    if let Some(Value::Object(annotations)) = meta.get("annotations") {
        validate_annotations(annotations, "annotations", errors);
    }
    validate_owners(meta, errors);
    validate_managed_fields(meta, errors);
}

fn validate_owners(meta: &Object, errors: &mut Errors) {
    let Some(Value::Array(owners)) = meta.get("ownerReferences") else { return };
    let mut controller: Option<String> = None;
    for (idx, owner) in owners.iter().enumerate() {
        let Some(owner) = owner.as_object() else { continue };
        errors.at_index("ownerReferences", idx, |errors| validate_owner(owner, errors));
        if owner.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        match &controller {
            Some(first) => errors.invalid(
                "ownerReferences",
                &meta["ownerReferences"],
                format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                ),
            ),
            None => controller = Some(this),
        }
    }
}

fn validate_owner(owner: &Object, errors: &mut Errors) {
    let api_version = text(owner, "apiVersion");
    let (group, version) = group_version(api_version);
    if version.is_empty() && !api_version.is_empty() {
        errors.invalid_str("apiVersion", api_version, "must be <group>/<version> or <version>");
    }
    for field in ["apiVersion", "kind", "name", "uid"] {
        if text(owner, field).is_empty() {
            errors.required(field, "must not be empty");
        }
    }
    // Events come and go by themselves; what they owned would go with them.
    if (group, version, text(owner, "kind")) == ("", "v1", "Event") {
        let shown = Value::Object(owner.clone());
        errors.invalid("", &shown, "/v1, Kind=Event is disallowed from being an owner");
    }
}

fn group_version(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(parts) => parts,
        None => ("", text),
    }
}

fn validate_finalizers(meta: &Object, errors: &mut Errors) {
    let finalizers = strings(meta, "finalizers");
    for finalizer in &finalizers {
        for fault in names::qualified(finalizer) {
            errors.invalid_str("finalizers", finalizer, fault);
        }
    }
    if finalizers.contains(&ORPHAN) && finalizers.contains(&FOREGROUND) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.invalid("finalizers", &meta["finalizers"], detail);
    }
}

/// Checks that finalizers are qualified by a domain, or standard ones. Built-in kinds require it; of custom ones it
/// is only advice.
pub fn validate_finalizers_qualified(meta: &Object, errors: &mut Errors) {
    errors.at("metadata", |errors| {
        for (idx, finalizer) in strings(meta, "finalizers").iter().enumerate() {
            if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer) {
                let detail = "name is neither a standard finalizer name nor is it fully qualified";
                errors.at_index("finalizers", idx, |errors| errors.invalid_str("", finalizer, detail));
            }
        }
    });
}

fn validate_no_new_finalizers(new: &Object, old: &Object, errors: &mut Errors) {
    let known = strings(old, "finalizers");
    let mut added: Vec<&str> = strings(new, "finalizers");
    added.retain(|finalizer| !known.contains(finalizer));
    added.sort_unstable();
    added.dedup();
    if !added.is_empty() {
        let shown: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
        errors.forbidden(
            "finalizers",
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                shown.join(", ")
            ),
        );
    }
}

fn validate_managed_fields(meta: &Object, errors: &mut Errors) {
    let Some(Value::Array(entries)) = meta.get("managedFields") else { return };
    // One empty entry is how clients ask for all to be cleared.
    if let [Value::Object(only)] = &entries[..]
        && only.is_empty()
    {
        return;
    }
    for (index, entry) in entries.iter().enumerate() {
        let Some(entry) = entry.as_object() else { continue };
        errors.at_index("managedFields", index, |errors| {
            let operation = text(entry, "operation");
            if !matches!(operation, "Apply" | "Update") {
                errors.invalid_str("operation", operation, "must be `Apply` or `Update`");
            }
            let kind = text(entry, "fieldsType");
            if !matches!(kind, "" | "FieldsV1") {
                errors.invalid_str("fieldsType", kind, "must be `FieldsV1`");
            }
            validate_field_manager(text(entry, "manager"), "manager", errors);
            if text(entry, "subresource").len() > SUBRESOURCE_MOST {
                errors.too_long("subresource", SUBRESOURCE_MOST);
            }
        });
    }
}

fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn strings<'a>(object: &'a Object, field: &str) -> Vec<&'a str> {
    match object.get(field) {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    }
}

fn is_unset(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

/// Whether two values are the same; times are, however they are written.
fn same(one: &Value, other: &Value) -> bool {
    let as_time = |value: &Value| value.as_str().and_then(time::parse);
    one == other || as_time(one).is_some_and(|time| as_time(other) == Some(time))
}

/// Letters, marks, digits, punctuation, symbols and the plain blank.
fn is_printable(c: char) -> bool {
    let format = matches!(
        u32::from(c),
        0xad | 0x600..=0x605
            | 0x200b..=0x200f
            | 0x202a..=0x202e
            | 0x2060..=0x206f
            | 0xe000..=0xf8ff
            | 0xfeff
            | 0xfff0..=0xfffb
            | 0xfffe..=0xffff
            | 0xe0000..
    );
    c == ' ' || !(c.is_control() || c.is_whitespace() || format)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().expect("an object")
    }

    /// The faults, cut at the explanation of the expression.
    fn shown(errors: &Errors) -> Vec<String> {
        let cut = |text: String| text.split(" (e.g.").next().unwrap_or_default().to_owned();
        errors.list().iter().map(|error| cut(error.to_string())).collect()
    }

    fn created(meta: Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate_metadata(&object(meta), true, names::subdomain, &mut errors);
        shown(&errors)
    }

    fn updated(new: Value, old: Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate_metadata_update(&object(new), &object(old), &mut errors);
        shown(&errors)
    }

    /// `meta` with a name and a namespace.
    fn named(field: &str, value: Value) -> Value {
        let mut meta = json!({"name": "a", "namespace": "b"});
        meta[field] = value;
        meta
    }

    #[test]
    fn empty_maps_and_lists_are_dropped() {
        let Value::Object(mut meta) = json!({"name": "", "labels": {}, "annotations": {"a": ""}, "finalizers": [], "ownerReferences": []})
        else {
            panic!("not an object")
        };
        drop_empty(&mut meta);
        assert_eq!(Value::Object(meta), json!({"name": "", "annotations": {"a": ""}}));
    }

    #[test]
    fn good_metadata_passes() {
        let meta = json!({
            "name": "a", "namespace": "b", "generateName": "a-", "labels": {"x/y": "", "z": "1"},
            "annotations": {"Example.com/Some": "any text"}, "finalizers": ["example.com/f", "orphan"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "K", "name": "o", "uid": "u", "controller": true}],
            "managedFields": [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1"}],
        });
        assert_eq!(created(meta), [""; 0]);
    }

    #[test]
    fn names_and_namespaces_are_checked() {
        assert_eq!(
            created(json!({})),
            [
                "metadata.name: Required value: name or generateName is required",
                "metadata.namespace: Required value"
            ]
        );
        assert_eq!(created(json!({"name": "A", "namespace": "b.c"})).len(), 2);
        assert_eq!(
            created(json!({"name": "a", "namespace": "b.c"})),
            ["metadata.namespace: Invalid value: \"b.c\": must not contain dots"]
        );
        assert_eq!(created(named("generateName", json!("Web-"))).len(), 1);
        let mut errors = Errors::new();
        validate_metadata(
            &object(json!({"name": "a", "namespace": "b"})),
            false,
            names::subdomain,
            &mut errors,
        );
        assert_eq!(shown(&errors), ["metadata.namespace: Forbidden: not allowed on this type"]);
        let mut errors = Errors::new();
        validate_metadata(&object(json!({"name": "a/b"})), false, |_, _| None, &mut errors);
        assert_eq!(shown(&errors), ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]);
    }

    #[test]
    fn labels_and_annotations_are_checked() {
        let faults = created(named("labels", json!({"a b": "c d"})));
        assert_eq!(faults.len(), 2);
        assert!(faults[0].starts_with("metadata.labels: Invalid value: \"a b\": name part must consist"));
        assert!(faults[1].starts_with("metadata.labels: Invalid value: \"c d\": a valid label must be"));
        assert_eq!(created(named("annotations", json!({"a b": "c d"}))).len(), 1);
        let text = "x".repeat(ANNOTATIONS_MOST - 1);
        assert_eq!(created(named("annotations", json!({"a": text}))), [""; 0]);
        assert_eq!(
            created(named("annotations", json!({"aa": text}))),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"]
        );
    }

    #[test]
    fn finalizers_are_checked() {
        assert_eq!(
            created(named("finalizers", json!(["orphan", "foregroundDeletion"]))),
            [
                r#"metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#
            ]
        );
        assert_eq!(created(named("finalizers", json!(["a b"]))).len(), 1);
    }

    #[test]
    fn owners_are_checked() {
        let owner = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": "n", "uid": "u", "controller": true});
        assert_eq!(
            created(named("ownerReferences", json!([{}]))),
            [
                "metadata.ownerReferences[0].apiVersion: Required value: must not be empty",
                "metadata.ownerReferences[0].kind: Required value: must not be empty",
                "metadata.ownerReferences[0].name: Required value: must not be empty",
                "metadata.ownerReferences[0].uid: Required value: must not be empty",
            ]
        );
        let faults = created(named("ownerReferences", json!([owner("A"), owner("B")])));
        assert!(faults[0].ends_with(
            "Only one reference can have Controller set to true. Found \"true\" in references for A/n and B/n"
        ));
        let faults = created(named("ownerReferences", json!([owner("Event")])));
        assert!(faults[0].ends_with("/v1, Kind=Event is disallowed from being an owner"));
        assert!(faults[0].starts_with("metadata.ownerReferences[0]: Invalid value"));
    }

    #[test]
    fn managed_fields_are_checked() {
        let entry =
            json!({"operation": "x", "fieldsType": "y", "manager": "a\u{7}", "subresource": "s".repeat(257)});
        assert_eq!(
            created(named("managedFields", json!([entry]))),
            [
                "metadata.managedFields[0].operation: Invalid value: \"x\": must be `Apply` or `Update`",
                "metadata.managedFields[0].fieldsType: Invalid value: \"y\": must be `FieldsV1`",
                "metadata.managedFields[0].manager: Invalid value: \"a\\u{7}\": invalid character U+0007 (at position 1)",
                "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            ]
        );
    }

    #[test]
    fn what_the_server_set_cannot_be_changed() {
        let old = json!({"name": "a", "namespace": "b", "uid": "u", "generation": 2,
            "creationTimestamp": "2024-01-01T00:00:00Z"});
        assert_eq!(updated(old.clone(), old.clone()), [""; 0]);
        assert_eq!(updated(json!({"name": "a", "namespace": "b", "generation": 2}), old.clone()), [""; 0]);
        let same_time = json!({"name": "a", "namespace": "b", "generation": 3,
            "creationTimestamp": "2024-01-01T01:00:00+01:00"});
        assert_eq!(updated(same_time, old.clone()), [""; 0]);
        let new = json!({"name": "x", "namespace": "y", "uid": "z", "generation": 1,
            "creationTimestamp": "2024-01-01T00:00:01Z", "deletionTimestamp": "2024-01-01T00:00:01Z",
            "deletionGracePeriodSeconds": 1});
        assert_eq!(
            updated(new, old),
            [
                "metadata.generation: Invalid value: 1: must not be decremented",
                "metadata.name: Invalid value: \"x\": field is immutable",
                "metadata.namespace: Invalid value: \"y\": field is immutable",
                "metadata.uid: Invalid value: \"z\": field is immutable",
                "metadata.creationTimestamp: Invalid value: \"2024-01-01T00:00:01Z\": field is immutable",
                "metadata.deletionTimestamp: Invalid value: \"2024-01-01T00:00:01Z\": field is immutable",
                "metadata.deletionGracePeriodSeconds: Invalid value: 1: field is immutable",
            ]
        );
    }

    #[test]
    fn finalizers_of_built_in_kinds_name_a_domain() {
        let faults = |finalizers: Value| {
            let mut errors = Errors::new();
            validate_finalizers_qualified(&object(json!({"finalizers": finalizers})), &mut errors);
            errors.list().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(faults(json!(["a.b/c", "orphan", "foregroundDeletion", "kubernetes"])), [""; 0]);
        assert_eq!(
            faults(json!(["a.b/c", "x"])),
            [
                "metadata.finalizers[1]: Invalid value: \"x\": name is neither a standard finalizer name nor is it fully qualified"
            ]
        );
    }

    #[test]
    fn finalizers_can_only_be_removed_while_deleting() {
        let old = json!({"name": "a", "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a", "b"]});
        assert_eq!(updated(json!({"name": "a", "finalizers": ["b"]}), old.clone()), [""; 0]);
        assert_eq!(
            updated(json!({"name": "a", "finalizers": ["b", "y", "x"]}), old),
            [
                r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"x", "y"}"#
            ]
        );
    }

    #[test]
    fn fields_of_the_wrong_type_do_no_harm() {
        let meta = json!({"name": 1, "namespace": [], "labels": [1], "annotations": {"a": 1}, "finalizers": [1, {}],
            "ownerReferences": {"a": 1}, "managedFields": [1], "generation": "x"});
        assert_eq!(created(meta.clone()).len(), 2);
        updated(meta.clone(), meta);
    }
}
