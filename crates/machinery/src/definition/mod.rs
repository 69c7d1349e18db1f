//! Custom resource definitions as objects: their defaults, what Kubernetes takes, and what may become of them.
//!
//! Pure: whether names are free, and which conditions a definition has, is for the API server to say. Definitions of
//! `v1beta1` are turned into those of `v1` before anything else ([`from_v1beta1`]).

mod legacy;
mod names;
mod relax;
mod versions;
mod webhook;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use self::legacy::{from_v1beta1, to_v1beta1};

use crate::{
    field::{Errors, Fault},
    object::{self, Object},
    structural::{Schema, Uri, clipped},
};

/// The annotation that says who has approved a kind in a group of the Kubernetes community.
pub const APPROVED: &str = "api-approved.kubernetes.io";

const IMMUTABLE: &str = "field is immutable";

/// Fills in what a definition does not say, and adds the version that is stored to those that were.
pub fn set_defaults(definition: &mut Object) {
    let spec = object::child_mut(definition, "spec");
    let names = object::child_mut(spec, "names");
    if let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned) {
        default_text(names, "singular", kind.to_lowercase());
        if !kind.is_empty() {
            default_text(names, "listKind", format!("{kind}List"));
        }
    }
    object::default_to(spec, "conversion", json!({"strategy": "None"}));
    if let Some(service) = spec
        .get_mut("conversion")
        .and_then(|conversion| conversion.get_mut("webhook")?.get_mut("clientConfig")?.get_mut("service"))
        .and_then(Value::as_object_mut)
    {
        object::default_to(service, "port", 443);
    }
    let Some(storage) = storage_version(definition).map(str::to_owned) else { return };
    let status = object::child_mut(definition, "status");
    object::default_to(status, "storedVersions", Value::Array(vec![]));
    if let Some(Value::Array(stored)) = status.get_mut("storedVersions")
        && !stored.contains(&Value::from(storage.as_str()))
    {
        stored.push(storage.into());
    }
}

fn default_text(object: &mut Object, field: &str, text: String) {
    if object.get(field).is_none_or(|value| value.is_null() || value == "") {
        object.insert(field.to_owned(), text.into());
    }
}

/// The version that objects are stored in.
pub fn storage_version(definition: &Object) -> Option<&str> {
    let versions = object::list_at(definition, &["spec", "versions"]);
    versions.iter().find(|version| version["storage"] == true)?["name"].as_str()
}

/// Checks a new definition, apart from what holds for the metadata of all objects. The schemas of its versions are
/// returned in their order; they can be used if there are no errors.
pub fn validate(definition: &Object, errors: &mut Errors) -> Vec<Option<Schema>> {
    let (plural, group) =
        (text(definition, &["spec", "names", "plural"]), text(definition, &["spec", "group"]));
    let name = object::name(definition);
    if name != format!("{plural}.{group}") {
        errors.invalid_str("metadata.name", name, r#"must be spec.names.plural+"."+spec.group"#);
    }
    validate_approval(definition, None, errors);
    validate_common(definition, None, errors)
}

/// Checks what may become of a definition, apart from what holds for the metadata of all objects.
pub fn validate_update(new: &Object, old: &Object, errors: &mut Errors) -> Vec<Option<Schema>> {
    let same = |path: &[&str], errors: &mut Errors| {
        if object::at(new, path) != object::at(old, path) {
            errors.invalid(&path.join("."), object::at(new, path).unwrap_or(&Value::Null), IMMUTABLE);
        }
    };
    if is_true(old, "Established") {
        same(&["spec", "scope"], errors);
        same(&["spec", "names", "kind"], errors);
    }
    same(&["spec", "group"], errors);
    same(&["spec", "names", "plural"], errors);
    validate_approval(new, Some(old), errors);
    validate_common(new, Some(old), errors)
}

/// Checks the status of a definition.
pub fn validate_status(definition: &Object, errors: &mut Errors) {
    errors.at("status", |errors| {
        if let Some(Value::Object(accepted)) = object::at(definition, &["status", "acceptedNames"]) {
            errors.at("acceptedNames", |errors| names::validate(accepted, errors));
        }
        let Some(stored) = object::at(definition, &["status", "storedVersions"]) else { return };
        let Some(entries) = stored.as_array().filter(|entries| !entries.is_empty()) else {
            errors.invalid("storedVersions", stored, "must have at least one stored version");
            return;
        };
        if let Some(storage) = storage_version(definition)
            && !entries.iter().any(|entry| entry == storage)
        {
            errors.invalid("storedVersions", stored, format!("must have the storage version {storage}"));
        }
        let versions = object::list_at(definition, &["spec", "versions"]);
        for (index, entry) in entries.iter().enumerate() {
            if !versions.iter().any(|version| version["name"] == *entry) {
                let name = entry.as_str().unwrap_or_default();
                errors.at_index("storedVersions", index, |errors| {
                    errors.invalid(
                        "",
                        entry,
                        format!(
                            "missing from spec.versions; {name} was previously a storage version, and must remain in \
                             spec.versions until a storage migration ensures no data remains persisted in {name} and \
                             removes {name} from status.storedVersions"
                        ),
                    );
                });
            }
        }
    });
}

fn validate_common(definition: &Object, old: Option<&Object>, errors: &mut Errors) -> Vec<Option<Schema>> {
    let schemas = errors.at("spec", |errors| validate_spec(definition, errors));
    let keeps =
        |definition: &Object| object::bool_at(definition, &["spec", "preserveUnknownFields"]) == Some(true);
    if keeps(definition) && !old.is_some_and(keeps) {
        errors.invalid(
            "spec.preserveUnknownFields",
            &Value::Bool(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    validate_status(definition, errors);
    schemas
}

fn validate_spec(definition: &Object, errors: &mut Errors) -> Vec<Option<Schema>> {
    let Some(spec) = definition.get("spec").and_then(Value::as_object) else {
        errors.required("", "");
        return vec![];
    };
    names::validate_group(text(spec, &["group"]), errors);
    match text(spec, &["scope"]) {
        "" => errors.required("scope", ""),
        "Cluster" | "Namespaced" => {}
        scope => errors.not_supported("scope", scope, &["Cluster", "Namespaced"]),
    }
    let empty = Object::new();
    let own_names = spec.get("names").and_then(Value::as_object).unwrap_or(&empty);
    errors.at("names", |errors| {
        for field in ["plural", "singular", "kind", "listKind"] {
            if text(own_names, &[field]).is_empty() {
                errors.required(field, "");
            }
        }
        names::validate(own_names, errors);
    });
    if let Some(conversion) = spec.get("conversion").filter(|conversion| !conversion.is_null()) {
        errors.at("conversion", |errors| webhook::validate_conversion(conversion, errors));
    }
    versions::validate(spec, errors)
}

/// Whether a group belongs to the Kubernetes community, so that kinds in it must have been approved.
pub fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// What the annotation says about approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// There is no annotation.
    Missing,
    /// It is neither of the following.
    Invalid,
    /// It begins with `unapproved`.
    Bypassed,
    /// It is the address of the approval.
    Approved,
}

impl Approval {
    /// What the annotation of a definition says, and that in words.
    pub fn of(definition: &Object) -> (Approval, String) {
        const MORE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
        let annotation = text(definition, &["metadata", "annotations", APPROVED]);
        let is_address =
            Uri::request(annotation).is_ok_and(|uri| !uri.scheme.is_empty() && !uri.host.is_empty());
        match annotation {
            "" => (
                Approval::Missing,
                format!("protected groups must have approval annotation {APPROVED:?}, {MORE}"),
            ),
            text if text.starts_with("unapproved") => (Approval::Bypassed, format!("not approved: {text:?}")),
            text if is_address => (Approval::Approved, format!("approved in {text}")),
            _ => (
                Approval::Invalid,
                format!(
                    "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting \
                     with \"unapproved\", {MORE}"
                ),
            ),
        }
    }
}

/// What was not approved before need not be approved now.
fn validate_approval(definition: &Object, old: Option<&Object>, errors: &mut Errors) {
    if !is_protected(text(definition, &["spec", "group"])) {
        return;
    }
    let (approval, words) = Approval::of(definition);
    if old.is_some_and(|old| Approval::of(old).0 == approval) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    match approval {
        Approval::Missing => errors.required(&field, words),
        Approval::Invalid => {
            let annotation = text(definition, &["metadata", "annotations", APPROVED]);
            errors.invalid_str(&field, annotation, words);
        }
        Approval::Bypassed | Approval::Approved => {}
    }
}

/// Whether a condition of a definition is true.
pub fn is_true(definition: &Object, condition: &str) -> bool {
    let conditions = object::list_at(definition, &["status", "conditions"]);
    conditions.iter().any(|found| found["type"] == condition && found["status"] == "True")
}

fn text<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    object::str_at(object, path).unwrap_or_default()
}

/// The value is malformed; it may be large, so that only its beginning is shown.
fn invalid_large(field: &str, value: &Value, detail: &str, errors: &mut Errors) {
    errors.push(Fault::Invalid, field, clipped(&value.to_string()), detail);
}
