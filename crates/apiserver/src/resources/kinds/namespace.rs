//! Namespaces: active until deleted, then terminating until their finalizers are gone.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    names,
    object::{self, Object},
};

use super::fields::{malformed, texts, within};
use crate::resources::Strategy;

pub(crate) const STRATEGY: Strategy = Strategy {
    default: label_with_name,
    prepare_create,
    prepare_update: |new, _, _| terminate(new),
    validate,
    validate_update,
    name: names::label,
    deleting: |namespace| {
        object::set_at(namespace, PHASE, Some("Terminating".into()));
        // It waits to be emptied, not for a time.
        object::metadata_mut(namespace).remove("deletionGracePeriodSeconds");
    },
    holds: |namespace| !object::list_at(namespace, &["spec", "finalizers"]).is_empty(),
    ..Strategy::PLAIN
};

/// The label by which selectors can name a namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const PHASE: &[&str] = &["status", "phase"];
/// The finalizer that waits for the content to be deleted.
const CONTENT: &str = "kubernetes";
/// Finalizers that need no domain in front.
const STANDARD: &[&str] = &[CONTENT, "orphan", "foregroundDeletion"];

fn label_with_name(namespace: &mut Object) {
    let name = object::name(namespace).to_owned();
    if !name.is_empty() {
        object::set_at(namespace, &["metadata", "labels", NAME_LABEL], Some(name.into()));
    }
}

fn prepare_create(namespace: &mut Object) {
    label_with_name(namespace);
    namespace.insert("status".to_owned(), json!({"phase": "Active"}));
    let mut finalizers = object::list_at(namespace, &["spec", "finalizers"]).to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == CONTENT) {
        finalizers.push(CONTENT.into());
    }
    object::set_at(namespace, &["spec", "finalizers"], Some(Value::Array(finalizers)));
}

fn is_deleted(namespace: &Object) -> bool {
    object::str_at(namespace, &["metadata", "deletionTimestamp"]).is_some()
}

fn terminate(namespace: &mut Object) {
    if is_deleted(namespace) {
        (STRATEGY.deleting)(namespace);
    }
}

fn validate(namespace: &Object, errors: &mut Errors) {
    within(namespace, "spec", errors, |spec, errors| {
        for (index, finalizer) in texts(spec, "finalizers") {
            errors.at_index("finalizers", index, |errors| {
                malformed("", finalizer, names::qualified(finalizer), errors);
                if !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
                    let detail = "name is neither a standard finalizer name nor is it fully qualified";
                    errors.invalid_str("", finalizer, detail);
                }
            });
        }
    });
}

fn validate_update(new: &Object, _old: &Object, part: Option<&str>, errors: &mut Errors) {
    if part == Some("finalize") {
        validate(new, errors);
    }
    let phase = object::str_at(new, PHASE).unwrap_or_default();
    if part == Some("status") && !is_deleted(new) && phase != "Active" {
        errors.invalid_str("status.phase", phase, "may only be 'Active' if `deletionTimestamp` is empty");
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn a_new_namespace_is_active_and_waits_for_its_content() {
        assert_eq!(
            created(&STRATEGY, json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}})),
            json!({
                "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"}
            })
        );
    }

    #[test]
    fn a_deleted_namespace_is_terminating() {
        let old = json!({"metadata": {"name": "a"}, "status": {"phase": "Active"}});
        let mut deleted = old.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        assert_eq!(updated(&STRATEGY, old.clone(), deleted, None)["status"]["phase"], "Terminating");
        assert_eq!(updated(&STRATEGY, old.clone(), old.clone(), None)["status"]["phase"], "Active");
        let mut wished = old.clone();
        wished["status"]["phase"] = json!("Terminating");
        assert_eq!(change_faults(&STRATEGY, old, wished, Some("status")), ["Invalid status.phase"]);
    }

    #[test]
    fn finalizers_are_standard_or_qualified() {
        let with = |finalizer: &str| json!({"metadata": {"name": "a"}, "spec": {"finalizers": [finalizer]}});
        check(
            &STRATEGY,
            &[
                (with("kubernetes"), &[]),
                (with("example.com/mine"), &[]),
                (with("mine"), &["Invalid spec.finalizers[0]"]),
            ],
        );
    }
}
