//! Resources inside of resources: their `apiVersion`, `kind` and `metadata`.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::place::Place;
use crate::{
    field::{Errors, Fault},
    metadata, names,
    object::{self, Object},
    schema::{self, Definition, Field, Format, Merge, Node, Ownership, Presence, Report, Strategic},
};

/// The metadata that all kinds have, as one shared type.
pub(super) static METADATA: LazyLock<Arc<Definition>> = LazyLock::new(|| {
    let definition = Definition::named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    definition.define(metadata_node());
    Arc::new(definition)
});

fn metadata_node() -> Node {
    let text = || Node::String(Format::Plain);
    let whole = || Node::Integer { narrow: false };
    let owned = |name: &str, node, ownership| Field {
        name: name.into(),
        node,
        required: false,
        merge: Merge { ownership, strategic: Strategic::Replace },
        presence: Presence::Optional,
    };
    let field = |name: &str, node| owned(name, node, Ownership::Plain);
    let owner = Definition::atomic("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference");
    owner.define(Node::Object(vec![
        field("apiVersion", text()),
        field("blockOwnerDeletion", Node::Bool),
        field("controller", Node::Bool),
        field("kind", text()),
        field("name", text()),
        field("uid", text()),
    ]));
    let manager = Node::Object(vec![
        field("apiVersion", text()),
        field("fieldsType", text()),
        field("fieldsV1", Node::Any),
        field("manager", text()),
        field("operation", text()),
        field("subresource", text()),
        field("time", Node::String(Format::Time)),
    ]);
    let by_uid = Ownership::Keyed(Arc::new(["uid".into()]));
    Node::Object(vec![
        field("annotations", Node::Map(Box::new(text()))),
        field("creationTimestamp", Node::String(Format::Time)),
        field("deletionGracePeriodSeconds", whole()),
        field("deletionTimestamp", Node::String(Format::Time)),
        owned("finalizers", Node::List(Box::new(text())), Ownership::Set),
        field("generateName", text()),
        field("generation", whole()),
        field("labels", Node::Map(Box::new(text()))),
        field("managedFields", Node::List(Box::new(manager))),
        field("name", text()),
        field("namespace", text()),
        owned("ownerReferences", Node::List(Box::new(Node::Named(Arc::new(owner)))), by_uid),
        field("resourceVersion", text()),
        field("selfLink", text()),
        field("uid", text()),
    ])
}

/// Brings metadata into form: drops what is not known and tells what has the wrong type.
pub fn coerce_metadata(metadata: &mut Object) -> Report {
    schema::check(&Node::Named(Arc::clone(&METADATA)), metadata)
}

/// Brings `apiVersion`, `kind` and `metadata` of an embedded resource into form. What is malformed is told, or
/// dropped if there is nobody to tell.
pub(super) fn coerce(
    map: &mut Object,
    place: &Place<'_>,
    mut errors: Option<&mut Errors>,
    unknown: &mut Vec<String>,
) {
    for key in ["apiVersion", "kind"] {
        let Some(value) = map.get(key).filter(|value| !value.is_string()) else { continue };
        match &mut errors {
            Some(errors) => errors.invalid(&place.field(key).to_string(), value, "must be a string"),
            None => drop(map.remove(key)),
        }
    }
    let here = place.field("metadata");
    match map.get_mut("metadata") {
        Some(Value::Object(metadata)) => match errors {
            Some(errors) => {
                let report = coerce_metadata(metadata);
                unknown.extend(report.unknown.iter().map(|field| format!("{here}.{field}")));
                if let Some(fault) = report.faults.first() {
                    let shown = super::clipped(&Value::Object(metadata.clone()).to_string());
                    errors.push(Fault::Invalid, &here.to_string(), shown, fault.as_str());
                }
            }
            None => metadata.retain(|key, value| {
                let mut alone = Object::from_iter([(key.clone(), value.take())]);
                let fits = coerce_metadata(&mut alone).faults.is_empty();
                match alone.remove(key).filter(|_| fits) {
                    Some(coerced) => *value = coerced,
                    None => return false,
                }
                true
            }),
        },
        None => {}
        Some(none @ Value::Null) => *none = Value::Object(Object::new()),
        Some(other) => match errors {
            Some(errors) => errors.push(
                Fault::Invalid,
                &here.to_string(),
                super::clipped(&other.to_string()),
                "must be an object",
            ),
            None => drop(map.remove("metadata")),
        },
    }
}

/// Checks `apiVersion`, `kind` and `metadata` of an embedded resource.
pub(super) fn check_meta(resource: &Object, errors: &mut Errors) {
    match resource.get("apiVersion") {
        None => errors.required("apiVersion", ""),
        Some(Value::String(version)) if version.is_empty() => errors.required("apiVersion", ""),
        Some(Value::String(version)) if version.matches('/').count() > 1 => {
            errors.invalid_str("apiVersion", version, format!("unexpected GroupVersion string: {version}"));
        }
        Some(Value::String(_)) => {}
        Some(other) => errors.invalid("apiVersion", other, "must be a string"),
    }
    match resource.get("kind") {
        None => errors.required("kind", ""),
        Some(Value::String(kind)) if kind.is_empty() => errors.required("kind", ""),
        Some(Value::String(kind)) => {
            if let Some(fault) = names::label_1035(&kind.to_lowercase(), false) {
                let detail = format!("may have mixed case, but should otherwise match: {fault}");
                errors.invalid_str("kind", kind, detail);
            }
        }
        Some(other) => errors.invalid("kind", other, "must be a string"),
    }
    match resource.get("metadata") {
        None => {}
        Some(Value::Object(found)) => {
            let mut found = found.clone();
            if let Some(fault) = coerce_metadata(&mut found).faults.first() {
                let shown = super::clipped(&resource["metadata"].to_string());
                errors.push(Fault::Invalid, "metadata", shown, fault.as_str());
                return;
            }
            // An embedded resource need not have a name.
            object::default_to(&mut found, "name", "name");
            if found["name"] == "" {
                found.remove("name");
                object::default_to(&mut found, "name", "name");
            }
            let namespaced = found.get("namespace").is_some_and(|namespace| namespace != "");
            metadata::validate_metadata(&found, namespaced, names::path_segment, errors);
        }
        Some(other) => {
            errors.push(Fault::Invalid, "metadata", super::clipped(&other.to_string()), "must be an object")
        }
    }
}
