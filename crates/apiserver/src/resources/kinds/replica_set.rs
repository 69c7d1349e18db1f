//! Replica sets, and the replication controllers they came from.

use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    object::{Object, child_mut, default_to, metadata_mut},
};

use super::{
    fields::{labels, map, non_negative, within},
    pod_spec::{self, defaults},
    selector, template,
};
use crate::resources::{Generation, Strategy};

/// The rules of replica sets.
pub(in crate::resources) const STRATEGY: Strategy = Strategy {
    default: |object| {
        let spec = child_mut(object, "spec");
        default_to(spec, "replicas", 1);
        defaults::template(spec, "template");
    },
    prepare_create: |object| template::first_status(object, template::no_replicas()),
    validate: |object, errors| {
        within(object, "spec", errors, |spec, errors| {
            non_negative(spec, &["replicas", "minReadySeconds"], errors);
            // The words are those of deployments, from which they were taken.
            template::validate_selector(spec, "deployment", errors);
            template::validate_lasting(spec, "ReplicaSet", &[], errors);
        });
    },
    validate_update: |new, old, part, errors| match part {
        Some("status") => validate_status(new, old, errors),
        _ => template::keep_selector(new, old, errors),
    },
    warn: template::warn,
    generation: Generation::COUNTED,
    ..Strategy::PLAIN
};

/// The rules of replication controllers.
pub(in crate::resources) const CONTROLLER: Strategy = Strategy {
    default: default_controller,
    validate: validate_controller,
    validate_update: |new, old, part, errors| {
        if part == Some("status") {
            validate_status(new, old, errors);
        }
    },
    orphans: true,
    ..STRATEGY
};

fn validate_status(new: &Object, old: &Object, errors: &mut Errors) {
    template::validate_counts(
        new,
        old,
        &["terminatingReplicas"],
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        errors,
    );
}

/// A replication controller without labels or a selector has those of its pods.
fn default_controller(object: &mut Object) {
    let spec = child_mut(object, "spec");
    default_to(spec, "replicas", 1);
    // Without a template there is nothing to fill in: the fault is named later.
    let Some(found) = map(spec, "template").cloned() else { return };
    defaults::template(spec, "template");
    let labels = template::labels(&found);
    if labels.is_empty() {
        return;
    }
    let labels = Value::Object(labels.clone());
    if map(spec, "selector").is_none_or(Object::is_empty) {
        spec.insert("selector".to_owned(), labels.clone());
    }
    let metadata = metadata_mut(object);
    if map(metadata, "labels").is_none_or(Object::is_empty) {
        metadata.insert("labels".to_owned(), labels);
    }
}

fn validate_controller(object: &Object, errors: &mut Errors) {
    within(object, "spec", errors, |spec, errors| {
        non_negative(spec, &["minReadySeconds", "replicas"], errors);
        let wanted = map(spec, "selector").filter(|wanted| !wanted.is_empty());
        match wanted {
            None => errors.required("selector", ""),
            Some(_) => labels(spec, "selector", errors),
        }
        let Some(found) = map(spec, "template") else {
            errors.required("template", "");
            return;
        };
        errors.at("template", |errors| {
            template::fits(found, selector::includes(wanted, template::labels(found)), errors);
            pod_spec::validate_template(found, &[], errors);
            template::always(found, "ReplicationController", errors);
        });
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::kinds::variants::{check_invalid, created};

    fn minimal(selector: Value) -> Value {
        json!({"metadata": {"name": "web"}, "spec": {
            "selector": selector,
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        }})
    }

    #[test]
    fn a_minimal_replica_set_is_filled_in() {
        let set = created(&STRATEGY, minimal(json!({"matchLabels": {"app": "web"}})));
        assert_eq!(set["spec"]["replicas"], 1);
        assert_eq!(set["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
        assert_eq!(set["status"], json!({"replicas": 0}));
    }

    #[test]
    fn faults_of_replica_sets_are_named_by_field() {
        check_invalid(
            &STRATEGY,
            minimal(json!({"matchLabels": {"app": "web"}})),
            &[
                ("/spec/replicas", json!(-1), "spec.replicas: Invalid value: -1"),
                ("/spec/minReadySeconds", json!(-1), "spec.minReadySeconds: Invalid value: -1"),
                (
                    "/spec/selector",
                    json!({"matchLabels": {"a": "b"}}),
                    "spec.template.metadata.labels: Invalid value",
                ),
                (
                    "/spec/selector",
                    json!({"matchExpressions": [{"key": "app", "operator": "In"}]}),
                    "spec.selector.matchExpressions[0].values: Required value",
                ),
                (
                    "/spec/template/spec/containers/0/image",
                    json!(""),
                    "spec.template.spec.containers[0].image: Required value",
                ),
                (
                    "/spec/template/spec/activeDeadlineSeconds",
                    json!(5),
                    "spec.template.spec.activeDeadlineSeconds: Forbidden",
                ),
            ],
        );
    }

    #[test]
    fn a_replication_controller_selects_the_labels_of_its_pods() {
        let controller = created(&CONTROLLER, minimal(Value::Null));
        assert_eq!(controller["spec"]["selector"], json!({"app": "web"}));
        assert_eq!(controller["metadata"]["labels"], json!({"app": "web"}));
        check_invalid(
            &CONTROLLER,
            minimal(json!({"app": "web"})),
            &[
                ("/spec/selector", json!({"app": "db"}), "spec.template.metadata.labels: Invalid value"),
                ("/spec/template/metadata", json!({}), "spec.template.metadata.labels: Invalid value"),
                ("/spec/template", Value::Null, "spec.template: Required value"),
                ("/spec/replicas", json!(-2), "spec.replicas: Invalid value: -2"),
                (
                    "/spec/template/spec/restartPolicy",
                    json!("OnFailure"),
                    "spec.template.spec.restartPolicy: Unsupported",
                ),
            ],
        );
    }
}
