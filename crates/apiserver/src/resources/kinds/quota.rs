//! Limits on namespaces: quotas on all of it, ranges for each object in it.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    names,
    object::{self, Object},
    quantity::Quantity,
};

use super::{
    checks::{amount, each_one_of, immutable, no_status, visit},
    fields::{each, is_set, list, malformed, map, maps, text, texts, within},
};
use crate::resources::Strategy;

pub(crate) const QUOTA: Strategy = Strategy {
    prepare_create: no_status,
    validate: |quota, errors| within(quota, "spec", errors, validate_quota),
    validate_update: |new, old, part, errors| match part {
        None => immutable(new, old, &["spec.scopes"], errors),
        Some(_) => within(new, "status", errors, |status, errors| {
            limits(status, "hard", errors);
            limits(status, "used", errors);
        }),
    },
    returns_deleted: true,
    ..Strategy::PLAIN
};

pub(crate) const RANGE: Strategy =
    Strategy { default: default_range, validate: validate_range, create_on_update: true, ..Strategy::PLAIN };

const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
const OPPOSITES: &[(&str, &str)] = &[("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];
const OPERATORS: &[&str] = &["DoesNotExist", "Exists", "In", "NotIn"];

/// What can be counted without a domain in front of it.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// What is counted in whole objects.
const COUNTED: &[&str] = &[
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn validate_quota(spec: &Object, errors: &mut Errors) {
    limits(spec, "hard", errors);
    each_one_of(spec, "scopes", SCOPES, errors);
    let has = |scope: &str| texts(spec, "scopes").any(|entry| entry.1 == scope);
    if OPPOSITES.iter().any(|(one, other)| has(one) && has(other)) {
        errors.invalid("scopes", &json!(list(spec, "scopes")), "conflicting scopes");
    }
    if has("BestEffort") {
        for name in map(spec, "hard").into_iter().flat_map(Object::keys).filter(|name| *name != "pods") {
            let detail = "unsupported scope applied to resource";
            errors.invalid("scopes", &json!(list(spec, "scopes")), format!("{detail}: {name}"));
        }
    }
    within(spec, "scopeSelector", errors, |selector, errors| {
        each(selector, "matchExpressions", errors, |expression, errors| {
            let (scope, operator) = (text(expression, "scopeName"), text(expression, "operator"));
            let n_values = list(expression, "values").len();
            if !SCOPES.contains(&scope) {
                errors.not_supported("scopeName", scope, SCOPES);
            }
            match operator {
                "In" | "NotIn" if n_values == 0 => errors.required(
                    "values",
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                ),
                "Exists" | "DoesNotExist" if n_values > 0 => errors.invalid(
                    "values",
                    &json!(list(expression, "values")),
                    "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector",
                ),
                operator if !OPERATORS.contains(&operator) => {
                    errors.invalid_str("operator", operator, "not a valid selector operator");
                }
                "Exists" => {}
                _ if !matches!(scope, "PriorityClass" | "VolumeAttributesClass") => errors.invalid_str(
                    "operator",
                    operator,
                    "must be 'Exist' only operator when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
                ),
                _ => {}
            }
        });
    });
}

/// Amounts by what can be limited: something standard, or qualified by a domain.
fn limits(object: &Object, field: &str, errors: &mut Errors) {
    for (name, value) in map(object, field).into_iter().flatten() {
        errors.at_key(field, name, |errors| {
            malformed("", name, names::qualified(name), errors);
            let known = STANDARD.contains(&name.as_str())
                || COUNTED.contains(&name.as_str())
                || name.starts_with("requests.hugepages-")
                || name.starts_with("hugepages-");
            if !name.contains('/') && !known {
                errors.invalid_str("", name, "must be a standard resource for quota");
            }
            let counted = COUNTED.contains(&name.as_str()) || name.starts_with("count/");
            if amount(value, "", errors).is_some_and(|amount| counted && !amount.is_whole()) {
                errors.invalid("", value, "must be an integer");
            }
        });
    }
}

/// Limits of containers follow from each other: the default from the maximum, the default request from the
/// default and then from the minimum.
fn default_range(range: &mut Object) {
    visit(range, &["spec", "limits"], &mut |limit| {
        if text(limit, "type") != "Container" {
            return;
        }
        for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            let Some(source) = map(limit, from).cloned() else { continue };
            let target = object::child_mut(limit, to);
            for (name, value) in source {
                target.entry(name).or_insert(value);
            }
        }
    });
}

fn validate_range(range: &Object, errors: &mut Errors) {
    within(range, "spec", errors, |spec, errors| {
        for (index, limit) in maps(spec, "limits") {
            let kind = text(limit, "type");
            errors.at_index("limits", index, |errors| {
                check_type(kind, errors);
                if maps(spec, "limits").take(index).any(|earlier| text(earlier.1, "type") == kind) {
                    errors.duplicate("type", &kind.into());
                }
                check_limit(limit, kind, errors);
            });
        }
    });
}

fn check_type(kind: &str, errors: &mut Errors) {
    malformed("type", kind, names::qualified(kind), errors);
    if !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
        errors.invalid_str("type", kind, "must be a standard limit type or fully qualified");
    }
}

fn check_limit(limit: &Object, kind: &str, errors: &mut Errors) {
    if kind == "Pod" {
        for field in ["default", "defaultRequest"] {
            if is_set(limit, field) && map(limit, field).is_some_and(|map| !map.is_empty()) {
                errors.forbidden(field, "may not be specified when `type` is 'Pod'");
            }
        }
    }
    let storage = |field: &str| object::at(limit, &[field, "storage"]).is_some();
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        errors.required("", "either minimum or maximum storage value is required, but neither was provided");
    }
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        super::checks::amounts(limit, field, errors);
    }
    for (low, high) in [
        ("min", "max"),
        ("min", "defaultRequest"),
        ("defaultRequest", "max"),
        ("defaultRequest", "default"),
        ("min", "default"),
        ("default", "max"),
    ] {
        check_order(limit, low, high, errors);
    }
    check_ratio(limit, errors);
}

fn quantity(limit: &Object, field: &str, name: &str) -> Option<Quantity> {
    Quantity::from_value(object::at(limit, &[field, name])?).ok()
}

/// The words for what is too low or too high.
fn said(field: &str) -> &str {
    match field {
        "defaultRequest" => "default request",
        field => field,
    }
}

fn check_order(limit: &Object, low: &str, high: &str, errors: &mut Errors) {
    for (name, value) in map(limit, low).into_iter().flatten() {
        let (Some(least), Some(most)) = (quantity(limit, low, name), quantity(limit, high, name)) else {
            continue;
        };
        if least > most {
            // The fault is shown where the default is, if one of the two is.
            let (field, value) = match (low, high) {
                ("min", "defaultRequest") | ("min", "default") => {
                    (high, object::at(limit, &[high, name]).unwrap_or(&Value::Null))
                }
                _ => (low, value),
            };
            let detail = format!("{} value {least} is greater than {} value {most}", said(low), said(high));
            errors.at_key(field, name, |errors| errors.invalid("", value, detail));
        }
    }
}

fn check_ratio(limit: &Object, errors: &mut Errors) {
    for (name, value) in map(limit, "maxLimitRequestRatio").into_iter().flatten() {
        let Ok(ratio) = Quantity::from_value(value) else { continue };
        errors.at_key("maxLimitRequestRatio", name, |errors| {
            if ratio.milli() < 1000 {
                errors.invalid("", value, format!("ratio {ratio} is less than 1"));
            }
            let (min, max) = (quantity(limit, "min", name), quantity(limit, "max", name));
            if let (Some(min), Some(max)) = (min, max)
                && min.milli() > 0
                && ratio.as_f64() > max.as_f64() / min.as_f64()
            {
                let most = max.as_f64() / min.as_f64();
                errors.invalid("", value, format!("ratio {ratio} is greater than max/min = {most:.6}"));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn faults_of_quotas_are_found() {
        let with = |spec: Value| json!({"spec": spec});
        let select = |expression: Value| with(json!({"scopeSelector": {"matchExpressions": [expression]}}));
        check(
            &QUOTA,
            &[
                (
                    with(json!({"hard": {"pods": "10", "requests.cpu": "1500m", "count/jobs.batch": "3"}})),
                    &[],
                ),
                (with(json!({"hard": {"pods": "1.5"}})), &["Invalid spec.hard[pods]"]),
                (with(json!({"hard": {"pods": "-1"}})), &["Invalid spec.hard[pods]"]),
                (with(json!({"hard": {"apples": "1"}})), &["Invalid spec.hard[apples]"]),
                (with(json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]})), &[]),
                (with(json!({"scopes": ["BestEffort", "NotBestEffort"]})), &["Invalid spec.scopes"]),
                (with(json!({"scopes": ["Best"]})), &["NotSupported spec.scopes[0]"]),
                (with(json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]})), &["Invalid spec.scopes"]),
                (
                    select(json!({"scopeName": "PriorityClass", "operator": "In"})),
                    &["Required spec.scopeSelector.matchExpressions[0].values"],
                ),
                (select(json!({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]})), &[]),
                (
                    select(json!({"scopeName": "BestEffort", "operator": "DoesNotExist"})),
                    &["Invalid spec.scopeSelector.matchExpressions[0].operator"],
                ),
            ],
        );
        let scopes = |scope: &str| json!({"spec": {"scopes": [scope]}});
        assert_eq!(
            change_faults(&QUOTA, scopes("BestEffort"), scopes("NotBestEffort"), None),
            ["Invalid spec.scopes"]
        );
    }

    #[test]
    fn defaults_of_containers_follow_from_max_and_min() {
        let limit = json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"}});
        assert_eq!(
            defaulted(&RANGE, json!({"spec": {"limits": [limit]}}))["spec"]["limits"][0],
            json!({
                "type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"},
                "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"}
            })
        );
        let pod = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}});
        assert_eq!(defaulted(&RANGE, pod.clone()), pod);
    }

    #[test]
    fn faults_of_ranges_are_found() {
        let with = |limit: Value| json!({"spec": {"limits": [limit]}});
        check(
            &RANGE,
            &[
                (with(json!({"type": "Pod", "max": {"cpu": "2"}, "min": {"cpu": "1"}})), &[]),
                (
                    with(json!({"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}})),
                    &["Invalid spec.limits[0].min[cpu]"],
                ),
                (
                    with(
                        json!({"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}),
                    ),
                    &["Invalid spec.limits[0].default[cpu]"],
                ),
                (
                    with(json!({"type": "Pod", "default": {"cpu": "1"}})),
                    &["Forbidden spec.limits[0].default"],
                ),
                (with(json!({"type": "PersistentVolumeClaim"})), &["Required spec.limits[0]"]),
                (with(json!({"type": "Thing"})), &["Invalid spec.limits[0].type"]),
                (
                    with(json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}})),
                    &["Invalid spec.limits[0].maxLimitRequestRatio[cpu]"],
                ),
                (
                    json!({"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}}),
                    &["Duplicate spec.limits[1].type"],
                ),
            ],
        );
    }
}
