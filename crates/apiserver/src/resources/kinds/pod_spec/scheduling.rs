//! Faults in what a pod says about the nodes it may run on.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_machinery::{field::Errors, names, object::Object};

use crate::resources::kinds::{
    fields::{below, each, int, is_set, labels, list, malformed, one_of, positive, qualified, text, texts},
    selector,
};

/// Finds faults in the node selector, affinity, tolerations and spread of a pod.
pub(super) fn validate(spec: &Object, errors: &mut Errors) {
    labels(spec, "nodeSelector", errors);
    below(spec, "affinity", errors, |affinity, errors| {
        below(affinity, "nodeAffinity", errors, node_affinity);
        for field in ["podAffinity", "podAntiAffinity"] {
            below(affinity, field, errors, pod_affinity);
        }
    });
    each(spec, "tolerations", errors, toleration);
    spread(spec, errors);
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn node_affinity(affinity: &Object, errors: &mut Errors) {
    below(affinity, REQUIRED, errors, |selector, errors| {
        if list(selector, "nodeSelectorTerms").is_empty() {
            errors.required("nodeSelectorTerms", "must have at least one node selector term");
        }
        each(selector, "nodeSelectorTerms", errors, node_term);
    });
    each(affinity, PREFERRED, errors, |term, errors| {
        weight(term, errors);
        below(term, "preference", errors, node_term);
    });
}

fn weight(term: &Object, errors: &mut Errors) {
    let weight = int(term, "weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.invalid("weight", &weight.into(), "must be in the range 1-100");
    }
}

fn node_term(term: &Object, errors: &mut Errors) {
    each(term, "matchExpressions", errors, |expression, errors| {
        let n_values = list(expression, "values").len();
        match text(expression, "operator") {
            "In" | "NotIn" if n_values == 0 => {
                errors.required("values", "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if n_values > 0 => {
                errors.forbidden(
                    "values",
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "Gt" | "Lt" if n_values != 1 => {
                errors.required("values", "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.invalid_str("operator", other, "not a valid selector operator"),
        }
        qualified("key", text(expression, "key"), errors);
        for (index, value) in texts(expression, "values") {
            malformed(&format!("values[{index}]"), value, names::label_value(value), errors);
        }
    });
    each(term, "matchFields", errors, |expression, errors| {
        if !["In", "NotIn"].contains(&text(expression, "operator")) {
            errors.invalid_str("operator", text(expression, "operator"), "not a valid selector operator");
        } else if list(expression, "values").len() != 1 {
            errors.required(
                "values",
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            );
        }
        if text(expression, "key") != "metadata.name" {
            errors.invalid_str("key", text(expression, "key"), "not a valid field selector key");
        }
    });
}

fn pod_affinity(affinity: &Object, errors: &mut Errors) {
    each(affinity, REQUIRED, errors, pod_term);
    each(affinity, PREFERRED, errors, |term, errors| {
        weight(term, errors);
        below(term, "podAffinityTerm", errors, pod_term);
    });
}

fn pod_term(term: &Object, errors: &mut Errors) {
    for field in ["labelSelector", "namespaceSelector"] {
        below(term, field, errors, selector::validate);
    }
    for (_, namespace) in texts(term, "namespaces") {
        malformed("namespace", namespace, names::label(namespace, false), errors);
    }
    match_label_keys(term, &["matchLabelKeys", "mismatchLabelKeys"], errors);
    topology_key(term, errors);
}

fn topology_key(object: &Object, errors: &mut Errors) {
    let key = text(object, "topologyKey");
    match key.is_empty() {
        true => errors.required("topologyKey", "can not be empty"),
        false => qualified("topologyKey", key, errors),
    }
}

fn match_label_keys(object: &Object, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        if list(object, field).is_empty() {
            continue;
        }
        if !is_set(object, "labelSelector") {
            errors.forbidden(field, "must not be specified when labelSelector is not set");
        }
        for (index, key) in texts(object, field) {
            qualified(&format!("{field}[{index}]"), key, errors);
        }
    }
}

fn toleration(toleration: &Object, errors: &mut Errors) {
    let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
    if !key.is_empty() {
        qualified("key", key, errors);
    } else if operator != "Exists" {
        errors.invalid_str(
            "operator",
            operator,
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    let effect = text(toleration, "effect");
    if is_set(toleration, "tolerationSeconds") && effect != "NoExecute" {
        errors.invalid_str("effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    let value = text(toleration, "value");
    match operator {
        "" | "Equal" => malformed("operator", value, names::label_value(value), errors),
        "Exists" if !value.is_empty() => {
            let shown = Value::Object(toleration.clone());
            errors.invalid("operator", &shown, "value must be empty when `operator` is 'Exists'");
        }
        "Exists" => {}
        "Lt" | "Gt" => {
            if value.parse::<i64>().is_err() {
                errors.invalid_str("value", value, "value must be a valid integer for numeric operators");
            }
        }
        other => errors.not_supported("operator", other, &["Equal", "Exists", "Lt", "Gt"]),
    }
    one_of(toleration, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
}

fn spread(spec: &Object, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    each(spec, "topologySpreadConstraints", errors, |constraint, errors| {
        let skew = int(constraint, "maxSkew").unwrap_or_default();
        if skew <= 0 {
            errors.invalid("maxSkew", &skew.into(), "must be greater than zero");
        }
        topology_key(constraint, errors);
        let when = text(constraint, "whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&when) {
            errors.not_supported("whenUnsatisfiable", when, &["DoNotSchedule", "ScheduleAnyway"]);
        }
        let pair = format!("{{{}, {when}}}", text(constraint, "topologyKey"));
        if !seen.insert(pair.clone()) {
            errors.duplicate("{topologyKey, whenUnsatisfiable}", &pair.into());
        }
        positive(constraint, &["minDomains"], errors);
        if let Some(domains) = constraint.get("minDomains").filter(|value| !value.is_null())
            && when != "DoNotSchedule"
        {
            let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
            errors.invalid("minDomains", domains, detail);
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            one_of(constraint, field, &["Honor", "Ignore"], errors);
        }
        match_label_keys(constraint, &["matchLabelKeys"], errors);
        below(constraint, "labelSelector", errors, selector::validate);
    });
}
