//! What controllers of pods have in common: a template, a selector that fits it, counts in the status.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    names,
    object::{Object, metadata, name},
};

use super::{
    fields::{immutable, int, is_set, map, non_negative, required, text, within},
    pod, pod_spec, selector,
};
use crate::resources::{Generation, Strategy};

/// The rules of pod templates, the objects that are nothing else.
pub(in crate::resources) const STRATEGY: Strategy = Strategy {
    default: |object| pod_spec::defaults::template(object, "template"),
    validate: |object, errors| {
        within(object, "template", errors, |template, errors| {
            pod_spec::validate_template(template, &[], errors);
        });
    },
    generation: Generation::COUNTED,
    returns_deleted: true,
    ..Strategy::PLAIN
};

/// Finds faults in the selector of a controller, called `what` in messages.
pub(super) fn validate_selector(spec: &Object, what: &str, errors: &mut Errors) {
    match map(spec, "selector") {
        None => errors.required("selector", ""),
        Some(found) => {
            errors.at("selector", |errors| selector::validate(found, errors));
            if selector::is_empty(found) {
                let shown = Value::Object(found.clone());
                errors.invalid("selector", &shown, format!("empty selector is invalid for {what}"));
            }
        }
    }
}

/// Finds faults in the template of a controller of kind `kind` whose pods run for good. `volumes` are the names
/// of volumes from outside of the template.
pub(super) fn validate_lasting(spec: &Object, kind: &str, volumes: &[&str], errors: &mut Errors) {
    within(spec, "template", errors, |template, errors| {
        if let Some(found) = map(spec, "selector") {
            fits(template, selector::is_empty(found) || selector::matches(found, labels(template)), errors);
        }
        pod_spec::validate_template(template, volumes, errors);
        always(template, kind, errors);
    });
}

/// The pods of a template run for good.
pub(super) fn always(template: &Object, kind: &str, errors: &mut Errors) {
    within(template, "spec", errors, |spec, errors| {
        let policy = text(spec, "restartPolicy");
        if !["", "Always"].contains(&policy) {
            errors.not_supported("restartPolicy", policy, &["Always"]);
        }
        if is_set(spec, "activeDeadlineSeconds") {
            let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
            errors.forbidden("activeDeadlineSeconds", detail);
        }
    });
}

/// Records that the labels of the template are not what the controller selects, unless they are.
pub(super) fn fits(template: &Object, matches: bool, errors: &mut Errors) {
    if !matches {
        let shown = Value::Object(labels(template).clone());
        errors.invalid("metadata.labels", &shown, "`selector` does not match template `labels`");
    }
}

/// The labels of a template.
pub(super) fn labels(template: &Object) -> &Object {
    static EMPTY: std::sync::LazyLock<Object> = std::sync::LazyLock::new(Object::new);
    map(metadata(template), "labels").unwrap_or(&EMPTY)
}

/// The selector of a controller stays as it is.
pub(super) fn keep_selector(new: &Object, old: &Object, errors: &mut Errors) {
    if let (Some(new), Some(old)) = (map(new, "spec"), map(old, "spec")) {
        errors.at("spec", |errors| immutable(new, old, &["selector"], errors));
    }
}

/// Finds faults in the counts of a status: those in `counts` must not be negative, and those in `shares` must not
/// be more than `status.replicas` besides.
pub(super) fn validate_counts(
    new: &Object,
    old: &Object,
    counts: &[&str],
    shares: &[&str],
    errors: &mut Errors,
) {
    within(new, "status", errors, |status, errors| {
        non_negative(status, &["replicas", "observedGeneration", "collisionCount"], errors);
        non_negative(status, counts, errors);
        non_negative(status, shares, errors);
        let all = int(status, "replicas").unwrap_or_default();
        for field in shares {
            if let Some(count) = int(status, field).filter(|count| *count > all) {
                errors.invalid(field, &count.into(), "cannot be greater than status.replicas");
            }
        }
        let available = int(status, "availableReplicas").unwrap_or_default();
        if shares.contains(&"readyReplicas") && available > int(status, "readyReplicas").unwrap_or_default() {
            errors.invalid("availableReplicas", &available.into(), "cannot be greater than readyReplicas");
        }
        let collisions = |status| int(status, "collisionCount").unwrap_or_default();
        if map(old, "status").is_some_and(|old| collisions(status) < collisions(old)) {
            errors.invalid("collisionCount", &collisions(status).into(), "cannot be decremented");
        }
    });
}

/// Sets the status a new object has.
pub(super) fn first_status(object: &mut Object, status: Value) {
    object.insert("status".to_owned(), status);
}

/// Advice about a controller of pods.
pub(super) fn warn(object: &Object, warnings: &mut Vec<String>) {
    if let Some(fault) = names::label(name(object), false).filter(|_| !name(object).is_empty()) {
        warnings.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{fault}]"
        ));
    }
    pod::warn_template(object, warnings);
}

/// The status of something that counts replicas.
pub(super) fn no_replicas() -> Value {
    json!({"replicas": 0})
}

/// A reference to something by kind and name.
pub(super) fn reference(object: &Object, errors: &mut Errors) {
    required(object, &["kind", "name"], errors);
    for field in ["kind", "name"] {
        if let Some(fault) = names::path_segment(text(object, field), false) {
            errors.invalid_str(field, text(object, field), fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::kinds::variants::{check_invalid, created};

    #[test]
    fn a_pod_template_is_filled_in_and_checked() {
        let good = json!({"template": {"spec": {"containers": [{"name": "main", "image": "nginx"}]}}});
        let template = created(&STRATEGY, good.clone());
        assert_eq!(template["template"]["spec"]["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(template["template"]["spec"].get("enableServiceLinks"), None);
        check_invalid(
            &STRATEGY,
            good,
            &[
                ("/template/spec/containers", json!([]), "template.spec.containers: Required value"),
                ("/template/spec/dnsPolicy", json!("None"), "template.spec.dnsConfig: Required value"),
                ("/template/spec/hostname", json!("A"), "template.spec.hostname: Invalid value: \"A\""),
                (
                    "/template/metadata/labels",
                    json!({"a b": "c"}),
                    "template.metadata.labels: Invalid value: \"a b\"",
                ),
                (
                    "/template/spec/ephemeralContainers",
                    json!([{"name": "debug", "image": "nginx"}]),
                    "template.spec.ephemeralContainers: Forbidden",
                ),
            ],
        );
    }
}
