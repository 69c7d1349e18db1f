//! Definitions of `v1beta1`, which Kubernetes no longer serves but many published manifests still are of.

use serde_json::{Value, json};

use super::{APPROVED, is_protected, relax, text};
use crate::{
    field::Errors,
    object::{self, Object},
};

/// What is said once for all versions, and where each version says it.
const SHARED: &[(&str, &str)] = &[
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Turns a definition of `v1beta1` into one of `v1`.
///
/// Unless it says otherwise, unknown fields are kept, so that its schemas are made structural and to keep them.
/// What it does not say about kinds in protected groups, which needed no approval then, is said for it.
pub fn from_v1beta1(definition: &mut Object, errors: &mut Errors) {
    definition.insert("apiVersion".to_owned(), "apiextensions.k8s.io/v1".into());
    let group = text(definition, &["spec", "group"]).to_owned();
    if is_protected(&group) && text(definition, &["metadata", "annotations", APPROVED]).is_empty() {
        let annotations = object::child_mut(object::metadata_mut(definition), "annotations");
        annotations.insert(APPROVED.to_owned(), "unapproved, was defined through v1beta1".into());
    }
    let spec = object::child_mut(definition, "spec");
    object::default_to(spec, "scope", "Namespaced");
    errors.at("spec", |errors| {
        spread_versions(spec, errors);
        spread_shared(spec, errors);
    });
    for column in versions_mut(spec).flat_map(columns_mut) {
        rename(column, "JSONPath", "jsonPath");
    }
    let keeps_unknown = spec.remove("preserveUnknownFields").is_none_or(|keeps| keeps != Value::Bool(false));
    if keeps_unknown {
        for version in versions_mut(spec) {
            let schema = object::child_mut(version, "schema");
            match schema.get_mut("openAPIV3Schema").and_then(Value::as_object_mut) {
                Some(source) => relax::root(source),
                None => {
                    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
                    schema.insert("openAPIV3Schema".to_owned(), any);
                }
            }
        }
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        let client = conversion.remove("webhookClientConfig").filter(|client| !client.is_null());
        let reviews = conversion.remove("conversionReviewVersions").filter(|reviews| !reviews.is_null());
        let is_webhook = text(conversion, &["strategy"]) == "Webhook";
        if is_webhook || client.is_some() || reviews.is_some() {
            let mut webhook = Object::new();
            webhook.extend(client.map(|client| ("clientConfig".to_owned(), client)));
            let reviews = reviews.unwrap_or_else(|| json!(["v1beta1"]));
            webhook.insert("conversionReviewVersions".to_owned(), reviews);
            conversion.insert("webhook".to_owned(), webhook.into());
        }
    }
}

/// Makes the list of versions, if there is but one.
fn spread_versions(spec: &mut Object, errors: &mut Errors) {
    let version = spec.remove("version").filter(|version| !version.is_null());
    let first = object::list_at(spec, &["versions"]).first();
    match (first, version) {
        (None, Some(name)) => {
            let only = json!([{"name": name, "served": true, "storage": true}]);
            spec.insert("versions".to_owned(), only);
        }
        (Some(first), Some(name)) if first["name"] != name => {
            errors.invalid("version", &name, "must match the first version in spec.versions");
        }
        _ => {}
    }
}

/// Gives each version what is said once for all of them.
fn spread_shared(spec: &mut Object, errors: &mut Errors) {
    for (shared, own) in SHARED {
        let Some(value) = spec.remove(*shared).filter(is_set) else { continue };
        if versions_mut(spec).any(|version| version.get(*own).is_some_and(is_set)) {
            let what = if *own == "schema" { "schemas" } else { own };
            let detail = format!("top-level and per-version {what} are mutually exclusive");
            errors.forbidden(shared, detail);
            continue;
        }
        for version in versions_mut(spec) {
            version.insert((*own).to_owned(), value.clone());
        }
    }
}

/// Turns a definition of `v1` into one of `v1beta1`, for clients that ask for that.
pub fn to_v1beta1(definition: &mut Object) {
    definition.insert("apiVersion".to_owned(), "apiextensions.k8s.io/v1beta1".into());
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for column in versions_mut(spec).flat_map(columns_mut) {
        rename(column, "jsonPath", "JSONPath");
    }
    let versions = object::list_at(spec, &["versions"]);
    let Some(first) = versions.first().and_then(Value::as_object).cloned() else { return };
    spec.extend(first.get("name").map(|name| ("version".to_owned(), name.clone())));
    for (shared, own) in SHARED {
        let said = |version: &Value| version.get(*own).filter(|value| is_set(value)).cloned();
        let Some(value) = first.get(*own).filter(|value| is_set(value)) else { continue };
        if object::list_at(spec, &["versions"]).iter().all(|version| said(version).as_ref() == Some(value)) {
            versions_mut(spec).for_each(|version| drop(version.remove(*own)));
            spec.insert((*shared).to_owned(), value.clone());
        }
    }
    object::default_to(spec, "preserveUnknownFields", false);
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut)
        && let Some(Value::Object(webhook)) = conversion.remove("webhook")
    {
        for (key, value) in webhook {
            let key = if key == "clientConfig" { "webhookClientConfig".to_owned() } else { key };
            conversion.insert(key, value);
        }
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}

fn versions_mut(spec: &mut Object) -> impl Iterator<Item = &mut Object> {
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    versions.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn columns_mut(version: &mut Object) -> impl Iterator<Item = &mut Object> {
    let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
    columns.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn rename(object: &mut Object, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.entry(to).or_insert(value);
    }
}
