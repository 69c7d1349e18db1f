//! Deployments.

use serde_json::json;
use windlass_machinery::{
    field::Errors,
    object::{Object, child_mut, default_to},
};

use super::{
    fields::{fill, int, is_set, map, must_be, non_negative, share, share_of_all, text, within},
    pod_spec::defaults,
    template,
};
use crate::resources::{Generation, Strategy};

/// The rules of deployments.
pub(in crate::resources) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |object| template::first_status(object, json!({})),
    validate,
    validate_update,
    warn: template::warn,
    generation: Generation::Counted { first: 1, metadata: &["annotations"] },
    ..Strategy::PLAIN
};

fn default(object: &mut Object) {
    let spec = child_mut(object, "spec");
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
    default_to(spec, "progressDeadlineSeconds", 600);
    let strategy = child_mut(spec, "strategy");
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child_mut(strategy, "rollingUpdate");
        default_to(rolling, "maxUnavailable", "25%");
        default_to(rolling, "maxSurge", "25%");
    }
    defaults::template(spec, "template");
}

fn validate(object: &Object, errors: &mut Errors) {
    within(object, "spec", errors, |spec, errors| {
        non_negative(spec, &["replicas"], errors);
        template::validate_selector(spec, "deployment", errors);
        template::validate_lasting(spec, "ReplicaSet", &[], errors);
        within(spec, "strategy", errors, validate_strategy);
        non_negative(spec, &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"], errors);
        if let Some(deadline) = int(spec, "progressDeadlineSeconds")
            && deadline <= int(spec, "minReadySeconds").unwrap_or_default()
        {
            errors.invalid(
                "progressDeadlineSeconds",
                &deadline.into(),
                "must be greater than minReadySeconds",
            );
        }
    });
}

fn validate_strategy(strategy: &Object, errors: &mut Errors) {
    must_be(strategy, "type", &["Recreate", "RollingUpdate"], errors);
    if text(strategy, "type") == "Recreate" && is_set(strategy, "rollingUpdate") {
        errors.forbidden("rollingUpdate", "may not be specified when strategy `type` is 'Recreate'");
    }
    let Some(rolling) = map(strategy, "rollingUpdate") else { return };
    errors.at("rollingUpdate", |errors| {
        let unavailable = share_of_all(rolling, "maxUnavailable", errors);
        let surge = share(rolling, "maxSurge", errors);
        if unavailable.is_some_and(|share| share.is_zero())
            && surge.is_some_and(|share| share.is_zero())
            && let Some(value) = rolling.get("maxUnavailable")
        {
            errors.invalid("maxUnavailable", value, "may not be 0 when `maxSurge` is 0");
        }
    });
}

fn validate_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    match part {
        Some("status") => template::validate_counts(
            new,
            old,
            &["unavailableReplicas", "terminatingReplicas"],
            &["updatedReplicas", "readyReplicas", "availableReplicas"],
            errors,
        ),
        _ => template::keep_selector(new, old, errors),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::resources::kinds::variants::{check_invalid, check_update, created};

    fn minimal() -> Value {
        json!({"metadata": {"name": "web"}, "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        }})
    }

    #[test]
    fn a_minimal_deployment_is_filled_in() {
        let mut deployment = created(&STRATEGY, minimal());
        let spec = child_mut(&mut deployment, "spec");
        let template = spec.remove("template").unwrap();
        assert_eq!(template["spec"]["restartPolicy"], "Always");
        assert_eq!(
            Value::Object(deployment),
            json!({
                "metadata": {"name": "web"},
                "spec": {
                    "replicas": 1,
                    "revisionHistoryLimit": 10,
                    "progressDeadlineSeconds": 600,
                    "selector": {"matchLabels": {"app": "web"}},
                    "strategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
                    },
                },
                "status": {},
            })
        );
    }

    #[test]
    fn faults_are_named_by_field() {
        check_invalid(
            &STRATEGY,
            minimal(),
            &[
                (
                    "/spec/replicas",
                    json!(-1),
                    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                ),
                ("/spec/selector", json!(null), "spec.selector: Required value"),
                (
                    "/spec/selector",
                    json!({}),
                    "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
                ),
                (
                    "/spec/template/metadata/labels",
                    json!({"app": "db"}),
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"db\"}: `selector` does not match template `labels`",
                ),
                (
                    "/spec/template/spec/restartPolicy",
                    json!("Never"),
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                ),
                (
                    "/spec/strategy",
                    json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
                ),
                (
                    "/spec/strategy",
                    json!({"type": "Recreate", "rollingUpdate": {}}),
                    "spec.strategy.rollingUpdate: Forbidden",
                ),
                ("/spec/progressDeadlineSeconds", json!(0), "spec.progressDeadlineSeconds: Invalid value: 0"),
                ("/spec/strategy/type", json!("Slow"), "spec.strategy.type: Unsupported value: \"Slow\""),
            ],
        );
    }

    #[test]
    fn the_selector_stays_and_the_status_adds_up() {
        let old = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "replicas": 1},
                         "status": {"replicas": 2, "readyReplicas": 2}});
        check_update(
            &STRATEGY,
            old.clone(),
            None,
            &[
                ("/spec/replicas", json!(3), ""),
                (
                    "/spec/selector/matchLabels/a",
                    json!("c"),
                    "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
                ),
            ],
        );
        check_update(
            &STRATEGY,
            old,
            Some("status"),
            &[
                ("/status/readyReplicas", json!(1), ""),
                (
                    "/status/readyReplicas",
                    json!(3),
                    "status.readyReplicas: Invalid value: 3: cannot be greater than status.replicas",
                ),
            ],
        );
    }
}
