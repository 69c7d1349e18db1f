//! The names of a kind.

use serde_json::Value;

use super::text;
use crate::{field::Errors, names, object::Object};

/// Checks the group of a kind.
pub(super) fn validate_group(group: &str, errors: &mut Errors) {
    if group.is_empty() {
        errors.required("group", "");
        return;
    }
    let faults = names::subdomain_faults(group);
    if !faults.is_empty() {
        errors.invalid_str("group", group, faults.join(","));
    } else if !group.contains('.') {
        errors.invalid_str("group", group, "should be a domain with at least one dot");
    }
}

/// Checks the names that are there.
pub(super) fn validate(found: &Object, errors: &mut Errors) {
    for field in ["plural", "singular"] {
        let name = text(found, &[field]);
        if !name.is_empty()
            && let Some(fault) = names::label_1035(name, false)
        {
            errors.invalid_str(field, name, fault);
        }
    }
    for field in ["kind", "listKind"] {
        let name = text(found, &[field]);
        if !name.is_empty()
            && let Some(fault) = names::label_1035(&name.to_lowercase(), false)
        {
            let detail = format!("may have mixed case, but should otherwise match: {fault}");
            errors.invalid_str(field, name, detail);
        }
    }
    let kind = text(found, &["kind"]);
    if !kind.is_empty() && kind == text(found, &["listKind"]) {
        errors.invalid_str("listKind", kind, "kind and listKind may not be the same");
    }
    for field in ["shortNames", "categories"] {
        let list = found.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, name) in list.iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            if let Some(fault) = names::label_1035(name, false) {
                errors.at_index(field, index, |errors| errors.invalid_str("", name, fault));
            }
        }
    }
}
