//! Horizontal pod autoscalers, kept in their second form; [`convert`] turns them into the first and back.

mod convert;

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{Object, child_mut, default_to},
    quantity::Quantity,
};

pub(in crate::resources) use self::convert::convert;
use super::{
    fields::{below, each, int, is_set, list, map, map_mut, non_negative, one_of, required, text, within},
    selector, template,
};
use crate::resources::{Generation, Strategy};

/// The rules of horizontal pod autoscalers.
pub(in crate::resources) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |object| template::first_status(object, json!({"desiredReplicas": 0})),
    validate,
    validate_update: |new, _, part, errors| {
        if part == Some("status") {
            within(new, "status", errors, |status, errors| {
                non_negative(status, &["currentReplicas", "desiredReplicas"], errors);
            });
        }
    },
    generation: Generation::COUNTED,
    ..Strategy::PLAIN
};

/// Kinds of metrics, and the fields that say more about them.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
    ("External", "external"),
];

fn default(object: &mut Object) {
    let spec = child_mut(object, "spec");
    default_to(spec, "minReplicas", 1);
    if list(spec, "metrics").is_empty() {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    if let Some(behavior) = map_mut(spec, "behavior") {
        let up = child_mut(behavior, "scaleUp");
        default_to(up, "stabilizationWindowSeconds", 0);
        rules(up, json!([policy("Pods", 4), policy("Percent", 100)]));
        rules(child_mut(behavior, "scaleDown"), json!([policy("Percent", 100)]));
    }
}

fn policy(kind: &str, value: i64) -> Value {
    json!({"type": kind, "value": value, "periodSeconds": 15})
}

fn rules(rules: &mut Object, policies: Value) {
    default_to(rules, "selectPolicy", "Max");
    default_to(rules, "policies", policies);
}

fn validate(object: &Object, errors: &mut Errors) {
    within(object, "spec", errors, |spec, errors| {
        let least = int(spec, "minReplicas").unwrap_or(1);
        if least < 1 {
            errors.invalid("minReplicas", &least.into(), "must be greater than or equal to 1");
        }
        let most = int(spec, "maxReplicas").unwrap_or_default();
        if most < 1 {
            errors.invalid("maxReplicas", &most.into(), "must be greater than 0");
        }
        if most < least {
            errors.invalid("maxReplicas", &most.into(), "must be greater than or equal to `minReplicas`");
        }
        within(spec, "scaleTargetRef", errors, template::reference);
        each(spec, "metrics", errors, validate_metric);
        below(spec, "behavior", errors, |behavior, errors| {
            for field in ["scaleUp", "scaleDown"] {
                below(behavior, field, errors, validate_rules);
            }
        });
    });
}

fn validate_metric(metric: &Object, errors: &mut Errors) {
    let kind = text(metric, "type");
    if kind.is_empty() {
        errors.required("type", "must specify a metric source type");
        return;
    }
    let Some((_, field)) = SOURCES.iter().find(|(name, _)| *name == kind) else {
        let mut kinds = SOURCES.map(|(name, _)| name);
        kinds.sort_unstable();
        errors.not_supported("type", kind, &kinds);
        return;
    };
    for (_, other) in SOURCES.iter().filter(|(_, other)| other != field && is_set(metric, other)) {
        errors.forbidden(other, "must populate the given metric source only");
    }
    match map(metric, field) {
        None => errors.required(field, "must populate information for the given metric source"),
        Some(source) => errors.at(field, |errors| validate_source(kind, source, errors)),
    }
}

fn validate_source(kind: &str, source: &Object, errors: &mut Errors) {
    match kind {
        "Resource" | "ContainerResource" => {
            if text(source, "name").is_empty() {
                errors.required("name", "must specify a resource name");
            }
            if kind == "ContainerResource" {
                required(source, &["container"], errors);
            }
        }
        _ => within(source, "metric", errors, |metric, errors| {
            required(metric, &["name"], errors);
            below(metric, "selector", errors, selector::validate);
        }),
    }
    if kind == "Object" {
        within(source, "describedObject", errors, template::reference);
    }
    within(source, "target", errors, |target, errors| {
        validate_target(target, errors);
        let (utilization, average, value) =
            (is_set(target, "averageUtilization"), is_set(target, "averageValue"), is_set(target, "value"));
        match kind {
            "Resource" | "ContainerResource" if !utilization && !average => errors
                .required("averageUtilization", "must set either a target raw value or a target utilization"),
            "Resource" | "ContainerResource" if utilization && average => errors
                .forbidden("averageValue", "may not set both a target raw value and a target utilization"),
            "Pods" if !average => {
                errors.required("averageValue", "must specify a positive target averageValue")
            }
            "Object" if !average && !value => {
                errors.required("averageValue", "must set either a target value or averageValue");
            }
            "External" if !average && !value => errors
                .required("averageValue", "must set either a target value for metric or a per-pod target"),
            "External" if average && value => {
                errors.forbidden("value", "may not set both a target value for metric and a per-pod target")
            }
            _ => {}
        }
    });
}

fn validate_target(target: &Object, errors: &mut Errors) {
    match text(target, "type") {
        "" => errors.required("type", "must specify a metric target type"),
        "Utilization" | "Value" | "AverageValue" => {}
        other => errors.invalid_str("type", other, "must be either Utilization, Value, or AverageValue"),
    }
    for field in ["value", "averageValue"] {
        if let Some(value) = target.get(field).filter(|value| !value.is_null())
            && Quantity::from_value(value).is_ok_and(|amount| amount <= Quantity::default())
        {
            errors.invalid(field, value, "must be positive");
        }
    }
    if let Some(percent) = int(target, "averageUtilization").filter(|percent| *percent < 1) {
        errors.invalid("averageUtilization", &percent.into(), "must be greater than 0");
    }
}

fn validate_rules(rules: &Object, errors: &mut Errors) {
    const WINDOW: i64 = 3600;
    const PERIOD: i64 = 1800;
    non_negative(rules, &["stabilizationWindowSeconds"], errors);
    if let Some(seconds) = int(rules, "stabilizationWindowSeconds").filter(|seconds| *seconds > WINDOW) {
        let detail = format!("must be less than or equal to {WINDOW}");
        errors.invalid("stabilizationWindowSeconds", &seconds.into(), detail);
    }
    one_of(rules, "selectPolicy", &["Disabled", "Max", "Min"], errors);
    if list(rules, "policies").is_empty() {
        errors.required("policies", "must specify at least one Policy");
    }
    each(rules, "policies", errors, |policy, errors| {
        if !["Percent", "Pods"].contains(&text(policy, "type")) {
            errors.not_supported("type", text(policy, "type"), &["Percent", "Pods"]);
        }
        for field in ["value", "periodSeconds"] {
            let number = int(policy, field).unwrap_or_default();
            if number <= 0 {
                errors.invalid(field, &number.into(), super::fields::NOT_POSITIVE);
            } else if field == "periodSeconds" && number > PERIOD {
                errors.invalid(field, &number.into(), format!("must be less than or equal to {PERIOD}"));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::kinds::variants::{check_invalid, created};

    fn minimal() -> Value {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        json!({"metadata": {"name": "web"}, "spec": {"maxReplicas": 5, "scaleTargetRef": target}})
    }

    #[test]
    fn a_minimal_autoscaler_is_filled_in() {
        let scaler = created(&STRATEGY, minimal());
        assert_eq!(scaler["spec"]["minReplicas"], 1);
        assert_eq!(
            scaler["spec"]["metrics"],
            json!([{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
            }}])
        );
        assert_eq!(scaler["status"], json!({"desiredReplicas": 0}));
        let mut with_behavior = minimal();
        with_behavior["spec"]["behavior"] = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
        assert_eq!(
            created(&STRATEGY, with_behavior)["spec"]["behavior"],
            json!({
                "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15},
                ]},
                "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [
                    {"type": "Percent", "value": 100, "periodSeconds": 15},
                ]},
            })
        );
    }

    #[test]
    fn faults_are_named_by_field() {
        check_invalid(
            &STRATEGY,
            minimal(),
            &[
                ("/spec/maxReplicas", json!(0), "spec.maxReplicas: Invalid value: 0: must be greater than 0"),
                (
                    "/spec/minReplicas",
                    json!(6),
                    "spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`",
                ),
                ("/spec/scaleTargetRef/name", json!(""), "spec.scaleTargetRef.name: Required value"),
                (
                    "/spec/metrics",
                    json!([{"type": "Luck"}]),
                    "spec.metrics[0].type: Unsupported value: \"Luck\"",
                ),
                ("/spec/metrics", json!([{"type": "Pods"}]), "spec.metrics[0].pods: Required value"),
                (
                    "/spec/metrics",
                    json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]),
                    "spec.metrics[0].resource.target.averageUtilization: Required value",
                ),
                (
                    "/spec/behavior",
                    json!({"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 5}]}}),
                    "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
                ),
            ],
        );
    }
}
