//! Persistent volume claims: the wish for a volume. What is wished for stays, but for its size.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    names,
    object::{self, Object},
    quantity::Quantity,
};

use super::{
    checks::{defaults, immutable, named, same, selector},
    fields::{below, is_set, map, one_of, required, text, within},
    volume::{VOLUME_MODES, access_modes, positive},
};
use crate::resources::Strategy;

pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |claim| {
        claim.insert("status".to_owned(), json!({"phase": "Pending"}));
        settle_sources(object::child_mut(claim, "spec"));
    },
    prepare_update: |claim, _, part| {
        if part.is_none() {
            settle_sources(object::child_mut(claim, "spec"));
        }
    },
    validate,
    validate_update,
    returns_deleted: true,
    ..Strategy::PLAIN
};

const STORAGE: &[&str] = &["resources", "requests", "storage"];
const CLAIM: &str = "PersistentVolumeClaim";

fn default(claim: &mut Object) {
    defaults(claim, json!({"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}));
}

/// The older and the newer way to say where the data comes from mean the same within one namespace.
fn settle_sources(spec: &mut Object) {
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source @ Value::Object(_)), None) => {
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (None, Some(Value::Object(mut source))) if text(&source, "namespace").is_empty() => {
            source.remove("namespace");
            spec.insert("dataSource".to_owned(), Value::Object(source));
        }
        _ => {}
    }
}

fn validate(claim: &Object, errors: &mut Errors) {
    within(claim, "spec", errors, validate_spec);
}

/// Finds faults in what is wished for; also for the templates of claims.
pub(super) fn validate_spec(spec: &Object, errors: &mut Errors) {
    access_modes(spec, "at least 1 access mode is required", errors);
    selector(spec, "selector", errors);
    match object::at(spec, STORAGE) {
        None => errors.at_key("resources", "storage", |errors| errors.required("", "")),
        Some(storage) => errors.at_key("resources", "storage", |errors| positive(storage, errors)),
    }
    named(spec, "storageClassName", names::subdomain, errors);
    named(spec, "volumeAttributesClassName", names::subdomain, errors);
    one_of(spec, "volumeMode", VOLUME_MODES, errors);
    for field in ["dataSource", "dataSourceRef"] {
        below(spec, field, errors, |source, errors| {
            required(source, &["name", "kind"], errors);
            if text(source, "apiGroup").is_empty() && text(source, "kind") != CLAIM {
                let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                errors.invalid_str("", text(source, "kind"), detail);
            }
            named(source, "apiGroup", names::subdomain, errors);
        });
    }
}

fn validate_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    let (None, Some(spec), Some(before)) = (part, map(new, "spec"), map(old, "spec")) else { return };
    let bound = object::str_at(new, &["status", "phase"]) == Some("Bound");
    let mut expected = before.clone();
    if bound {
        for path in [STORAGE, &["volumeAttributesClassName"]] {
            object::set_at(&mut expected, path, object::at(spec, path).cloned());
        }
    }
    if text(before, "volumeName").is_empty() {
        object::set_at(&mut expected, &["volumeName"], spec.get("volumeName").cloned());
    }
    if !is_set(before, "storageClassName") {
        object::set_at(&mut expected, &["storageClassName"], spec.get("storageClassName").cloned());
    }
    let kept =
        same(Some(&Value::Object(plain_amount(spec.clone()))), Some(&Value::Object(plain_amount(expected))));
    if !kept {
        errors.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
    shrinks(spec, before, new, errors);
    immutable(new, old, &["spec.volumeMode"], errors);
}

/// The spec with its size in one form, so that `1Gi` and `1024Mi` are the same.
fn plain_amount(mut spec: Object) -> Object {
    let amount = object::at(&spec, STORAGE).and_then(|value| Quantity::from_value(value).ok());
    if let Some(amount) = amount {
        object::set_at(&mut spec, STORAGE, Some(amount.milli().to_string().into()));
    }
    spec
}

/// A claim may take back growth that has not happened, but not what it has.
fn shrinks(spec: &Object, before: &Object, new: &Object, errors: &mut Errors) {
    let amount = |value: Option<&Value>| value.and_then(|value| Quantity::from_value(value).ok());
    let (Some(wish), Some(before)) = (amount(object::at(spec, STORAGE)), amount(object::at(before, STORAGE)))
    else {
        return;
    };
    let has = amount(object::at(new, &["status", "capacity", "storage"]));
    if wish < before && has.is_none_or(|has| wish < has) {
        errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    fn claim(size: &str, change: Value) -> Value {
        let mut claim = json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}
        });
        for (field, value) in object(change) {
            claim["spec"][field] = value;
        }
        claim
    }

    #[test]
    fn defaults_are_filled_in() {
        let source = json!({"kind": "PersistentVolumeClaim", "name": "a"});
        let made = created(&STRATEGY, claim("1Gi", json!({"dataSource": source})));
        assert_eq!(made["status"], json!({"phase": "Pending"}));
        assert_eq!(
            (&made["spec"]["volumeMode"], &made["spec"]["dataSourceRef"]),
            (&json!("Filesystem"), &source)
        );
    }

    #[test]
    fn faults_are_found() {
        let from = |source: Value| claim("1Gi", json!({"dataSource": source}));
        check(
            &STRATEGY,
            &[
                (claim("1Gi", json!({})), &[]),
                (claim("0", json!({})), &["Invalid spec.resources[storage]"]),
                (json!({"spec": {"accessModes": ["ReadWriteOnce"]}}), &["Required spec.resources[storage]"]),
                (claim("1Gi", json!({"accessModes": []})), &["Required spec.accessModes"]),
                (claim("1Gi", json!({"volumeMode": "Tape"})), &["NotSupported spec.volumeMode"]),
                (claim("1Gi", json!({"storageClassName": "A"})), &["Invalid spec.storageClassName"]),
                (
                    from(json!({"name": "a", "kind": "Pod"})),
                    &["Invalid spec.dataSource", "Invalid spec.dataSourceRef"],
                ),
            ],
        );
    }

    #[test]
    fn only_a_bound_claim_grows_and_none_shrinks() {
        let old = claim("2Gi", json!({}));
        let mut loose = old.clone();
        loose["status"]["phase"] = json!("Pending");
        let mut grown = loose.clone();
        grown["spec"]["resources"]["requests"]["storage"] = json!("3Gi");
        for (old, new, expected) in [
            (&old, claim("3Gi", json!({})), vec![]),
            (&old, claim("2048Mi", json!({})), vec![]),
            (&old, claim("1Gi", json!({})), vec![]),
            (&old, claim("1Mi", json!({})), vec!["Forbidden spec.resources.requests.storage"]),
            (&loose, grown, vec!["Forbidden spec"]),
            (&old, claim("2Gi", json!({"volumeName": "v"})), vec![]),
            (&old, claim("2Gi", json!({"accessModes": ["ReadWriteMany"]})), vec!["Forbidden spec"]),
        ] {
            assert_eq!(change_faults(&STRATEGY, old.clone(), new.clone(), None), expected, "{new}");
        }
    }
}
