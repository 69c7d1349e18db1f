//! Faults of environment variables and where their values come from.

use serde_json::Value;
use windlass_machinery::{field::Errors, names, object::Object, quantity::Quantity};

use crate::resources::kinds::fields::{below, each, is_set, malformed, map, required, text};

const FROM: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// The fields of a pod that a variable can have the value of.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Finds faults in the environment of a container.
pub(super) fn validate(container: &Object, errors: &mut Errors) {
    each(container, "env", errors, |variable, errors| {
        let name = text(variable, "name");
        match name.is_empty() {
            true => errors.required("name", ""),
            false => malformed("name", name, names::env_name(name), errors),
        }
        below(variable, "valueFrom", errors, |source, errors| {
            if !text(variable, "value").is_empty() {
                errors.invalid_str("", "", "may not be specified when `value` is not empty");
            }
            value_from(source, errors);
        });
    });
    each(container, "envFrom", errors, |source, errors| {
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            malformed("prefix", prefix, names::env_name(prefix), errors);
        }
        match (is_set(source, "configMapRef"), is_set(source, "secretRef")) {
            (false, false) => {
                errors.invalid_str("", "", "must specify one of: `configMapRef` or `secretRef`");
            }
            (true, true) => {
                errors.invalid_str("", "", "may not have more than one field specified at a time")
            }
            _ => {}
        }
        for field in ["configMapRef", "secretRef"] {
            below(source, field, errors, |reference, errors| {
                required(reference, &["name"], errors);
            });
        }
    });
}

fn value_from(source: &Object, errors: &mut Errors) {
    match FROM.iter().filter(|field| is_set(source, field)).count() {
        0 => errors.invalid_str(
            "",
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef`, or `fileKeyRef`",
        ),
        1 => {}
        _ => errors.invalid_str("", "", "may not have more than one field specified at a time"),
    }
    below(source, "fieldRef", errors, |reference, errors| field_ref(reference, &FIELDS, errors));
    below(source, "resourceFieldRef", errors, resource_ref);
    for field in ["configMapKeyRef", "secretKeyRef"] {
        below(source, field, errors, |reference, errors| {
            required(reference, &["name"], errors);
            key(reference, "key", errors);
        });
    }
    below(source, "fileKeyRef", errors, |reference, errors| {
        required(reference, &["key", "volumeName", "path"], errors);
    });
}

/// The key of a secret or config map under `field`.
pub(super) fn key(object: &Object, field: &str, errors: &mut Errors) {
    let key = text(object, field);
    match key.is_empty() {
        true => errors.required(field, ""),
        false => malformed(field, key, names::config_key(key), errors),
    }
}

/// A reference to a field of the pod: one of `fields`, or a label or annotation by its key.
pub(super) fn field_ref(reference: &Object, fields: &[&str], errors: &mut Errors) {
    required(reference, &["apiVersion"], errors);
    let path = text(reference, "fieldPath");
    if path.is_empty() {
        errors.required("fieldPath", "");
        return;
    }
    let subscript = path.split_once('[').and_then(|(map, rest)| Some((map, rest.strip_suffix("']")?)));
    match subscript.and_then(|(map, rest)| Some((map, rest.strip_prefix('\'')?))) {
        Some(("metadata.labels", key)) => malformed("fieldPath", path, names::qualified(key), errors),
        Some(("metadata.annotations", key)) => {
            malformed("fieldPath", path, names::qualified(&key.to_lowercase()), errors);
        }
        Some((map, _)) => {
            errors.invalid_str("fieldPath", path, format!("field does not support subscript: {map}"));
        }
        None if fields.contains(&path) => {}
        None => errors.not_supported("fieldPath", path, fields),
    }
}

/// A reference to what a container asks for.
pub(super) fn resource_ref(reference: &Object, errors: &mut Errors) {
    let resource = text(reference, "resource");
    let huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if resource.is_empty() {
        errors.required("resource", "");
    } else if !RESOURCES.contains(&resource) && !huge {
        errors.not_supported("resource", resource, &RESOURCES);
    }
    let divisor = reference.get("divisor").filter(|value| !value.is_null());
    if let Some(divisor) = divisor {
        divisor_of(resource, divisor, errors);
    }
}

fn divisor_of(resource: &str, divisor: &Value, errors: &mut Errors) {
    const SIZES: [&str; 13] =
        ["0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi"];
    let Ok(amount) = Quantity::from_value(divisor) else {
        errors.invalid("divisor", divisor, "must be a quantity");
        return;
    };
    let shown = amount.to_string();
    let cpu = resource.ends_with(".cpu");
    let good = match cpu {
        true => ["0", "1", "1m"].contains(&shown.as_str()),
        false => SIZES.contains(&shown.as_str()) || shown == "1Ei",
    };
    if !good {
        let detail = match cpu {
            true => "only divisor's values 1m and 1 are supported with the cpu resource",
            false => {
                "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"
            }
        };
        errors.invalid_str("divisor", &shown, detail);
    }
}

/// The fields of a pod that a file can have the value of.
pub(super) const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// A file made from a field of the pod.
pub(super) fn downward_file(file: &Object, errors: &mut Errors) {
    match (map(file, "fieldRef"), map(file, "resourceFieldRef")) {
        (None, None) => errors.required("fieldRef", "must specify one of: fieldRef, resourceFieldRef"),
        (Some(_), Some(_)) => {
            errors.invalid_str(
                "",
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
        _ => {}
    }
    below(file, "fieldRef", errors, |reference, errors| field_ref(reference, &FILE_FIELDS, errors));
    below(file, "resourceFieldRef", errors, |reference, errors| {
        required(reference, &["containerName"], errors);
        resource_ref(reference, errors);
    });
}
