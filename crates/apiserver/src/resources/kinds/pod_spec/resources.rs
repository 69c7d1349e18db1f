//! Requests and limits: what containers and pods ask for, whether it makes sense, and the class of service it
//! amounts to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    names,
    object::{Object, child_mut},
    quantity::Quantity,
};

use crate::resources::kinds::fields::{NEGATIVE, each, map, maps, text};

/// Amounts by the name of the resource.
type Amounts = BTreeMap<String, Quantity>;

/// What decides the class of service.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

fn amounts(resources: Option<&Object>, field: &str) -> Amounts {
    let entries = resources.and_then(|resources| map(resources, field)).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_value(value).ok()?))).collect()
}

fn of_container(container: &Object, field: &str) -> Amounts {
    amounts(map(container, "resources"), field)
}

fn can_be_pod_level(name: &str) -> bool {
    COMPUTE.contains(&name) || name.starts_with("hugepages-")
}

/// Asks for as much as the limit says wherever nothing is asked for.
pub(super) fn requests_from_limits(resources: &mut Object) {
    let Some(limits) = map(resources, "limits").cloned() else { return };
    let requests = child_mut(resources, "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// Fills in the resources of the pod as a whole, if it has any, from those of its containers.
pub(super) fn pod_level(spec: &mut Object) {
    let Some(resources) = map(spec, "resources") else { return };
    let has = |field| map(resources, field).is_some_and(|amounts| !amounts.is_empty());
    let (has_limits, has_requests) = (has("limits"), has("requests"));
    if !has_limits && !has_requests {
        return;
    }
    let fill = |spec: &mut Object, field: &str, amounts: Vec<(String, Value)>| {
        if !amounts.is_empty() {
            let target = child_mut(child_mut(spec, "resources"), field);
            for (name, amount) in amounts {
                target.entry(name).or_insert(amount);
            }
        }
    };
    let shown = |amounts: Amounts, keep: &dyn Fn(&str) -> bool| -> Vec<(String, Value)> {
        let kept = amounts.into_iter().filter(|(name, _)| keep(name));
        kept.map(|(name, amount)| (name, Value::from(amount.to_string()))).collect()
    };
    let asked = amounts(Some(resources), "requests");
    let huge = |name: &str| name.starts_with("hugepages-") && !asked.contains_key(name);
    let limits = shown(aggregate(spec, "limits"), &huge);
    fill(spec, "limits", limits);
    let limited = amounts(map(spec, "resources"), "limits");
    if !limited.is_empty() {
        let requests = shown(aggregate(spec, "requests"), &|name| COMPUTE.contains(&name));
        fill(spec, "requests", requests);
        fill(spec, "requests", shown(limited, &can_be_pod_level));
    } else {
        let everywhere = |name: &str| {
            COMPUTE.contains(&name)
                && maps(spec, "containers")
                    .all(|(_, container)| of_container(container, "limits").contains_key(name))
        };
        let limits = shown(aggregate(spec, "limits"), &everywhere);
        fill(spec, "limits", limits);
    }
}

/// What all containers need together: those that run side by side add up, those that run before the others only
/// count where one of them needs more.
fn aggregate(spec: &Object, field: &str) -> Amounts {
    let add = |total: &mut Amounts, more: &Amounts| {
        for (name, amount) in more {
            let sum = match total.get(name) {
                Some(present) => *present + *amount,
                None => *amount,
            };
            total.insert(name.clone(), sum);
        }
    };
    let mut running = Amounts::new();
    let mut peak = Amounts::new();
    for (_, container) in maps(spec, "initContainers") {
        let mut needed = running.clone();
        add(&mut needed, &of_container(container, field));
        if text(container, "restartPolicy") == "Always" {
            running.clone_from(&needed);
        }
        raise(&mut peak, needed);
    }
    for (_, container) in maps(spec, "containers") {
        add(&mut running, &of_container(container, field));
    }
    raise(&mut running, peak);
    running
}

fn raise(amounts: &mut Amounts, others: Amounts) {
    for (name, other) in others {
        if amounts.get(&name).is_none_or(|amount| *amount < other) {
            amounts.insert(name, other);
        }
    }
}

/// The class of service of a pod: whether it is sure to get what it may use.
pub(in crate::resources::kinds) fn qos_class(spec: &Object) -> &'static str {
    let pod = map(spec, "resources");
    let whole = pod.filter(|_| !amounts(pod, "requests").is_empty() || !amounts(pod, "limits").is_empty());
    let parts: Vec<Option<&Object>> = match whole {
        Some(whole) => vec![Some(whole)],
        None => ["containers", "initContainers"]
            .into_iter()
            .flat_map(|field| maps(spec, field))
            .map(|(_, container)| map(container, "resources"))
            .collect(),
    };
    let mut guaranteed = true;
    let mut any = false;
    for part in parts {
        let compute = |field| -> Amounts {
            let all = amounts(part, field).into_iter();
            all.filter(|(name, amount)| COMPUTE.contains(&name.as_str()) && !amount.is_zero()).collect()
        };
        let (requests, limits) = (compute("requests"), compute("limits"));
        any |= !requests.is_empty() || !limits.is_empty();
        guaranteed &= limits.len() == COMPUTE.len() && requests == limits;
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Finds faults in the requests and limits of a container.
pub(in crate::resources::kinds) fn validate(resources: &Object, claims: &[&str], errors: &mut Errors) {
    let limits = check_amounts(resources, "limits", container_resource, errors);
    let requests = check_amounts(resources, "requests", container_resource, errors);
    for (name, request) in &requests {
        check_pair(name, request, limits.get(name), errors);
    }
    let all = || limits.keys().chain(requests.keys());
    if all().any(|name| name.starts_with("hugepages-")) && !all().any(|name| COMPUTE.contains(&name.as_str()))
    {
        errors.forbidden("", "HugePages require cpu or memory");
    }
    let mut seen = BTreeSet::new();
    each(resources, "claims", errors, |claim, errors| {
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.required("name", "");
        } else if !claims.contains(&name) {
            errors.not_found("name", &name.into());
        } else if !seen.insert(format!("{name}/{request}")) {
            errors.duplicate("name", &name.into());
        }
    });
}

/// Finds faults in the requests and limits of a pod as a whole.
pub(super) fn validate_pod_level(spec: &Object, resources: &Object, errors: &mut Errors) {
    let supported = |name: &str| match can_be_pod_level(name) {
        true => None,
        false => Some("must be a standard resource for pods".to_owned()),
    };
    let limits = check_amounts(resources, "limits", supported, errors);
    let requests = check_amounts(resources, "requests", supported, errors);
    for (name, request) in &requests {
        check_pair(name, request, limits.get(name), errors);
    }
    for (name, needed) in aggregate(spec, "requests") {
        if let Some(request) = requests.get(&name).filter(|request| **request < needed) {
            errors.at_key("requests", &name, |errors| {
                let detail =
                    format!("must be greater than or equal to aggregate container requests of {needed}");
                errors.invalid_str("", &request.to_string(), detail);
            });
        }
    }
}

fn check_amounts(
    resources: &Object,
    field: &str,
    name_fault: impl Fn(&str) -> Option<String>,
    errors: &mut Errors,
) -> Amounts {
    let mut good = Amounts::new();
    for (name, value) in map(resources, field).into_iter().flatten() {
        errors.at_key(field, name, |errors| {
            if let Some(fault) = name_fault(name) {
                errors.invalid_str("", name, fault);
            }
            match Quantity::from_value(value) {
                Err(fault) => errors.invalid("", value, fault.to_string()),
                Ok(amount) => {
                    if amount.is_negative() {
                        errors.invalid_str("", &amount.to_string(), NEGATIVE);
                    }
                    if is_extended(name) && !amount.is_whole() {
                        errors.invalid_str("", &amount.to_string(), "must be an integer");
                    }
                    good.insert(name.clone(), amount);
                }
            }
        });
    }
    good
}

fn check_pair(name: &str, request: &Quantity, limit: Option<&Quantity>, errors: &mut Errors) {
    let exact = is_extended(name) || name.starts_with("hugepages-");
    match limit {
        Some(limit) if exact && request != limit => errors.invalid_str(
            "requests",
            &request.to_string(),
            format!("must be equal to {name} limit of {limit}"),
        ),
        Some(limit) if !exact && request > limit => errors.invalid_str(
            "requests",
            &request.to_string(),
            format!("must be less than or equal to {name} limit of {limit}"),
        ),
        None if exact => errors.required("limits", "Limit must be set for non overcommitable resources"),
        _ => {}
    }
}

/// Resources that nodes advertise themselves, such as `example.com/gpu`.
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| !domain.contains("kubernetes.io"))
}

fn container_resource(name: &str) -> Option<String> {
    if let Some(fault) = names::qualified(name).into_iter().next() {
        return Some(fault);
    }
    let native = ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
    match name.contains('/') || native {
        true => None,
        false => Some("must be a standard resource for containers".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn the_class_of_service_follows_from_requests_and_limits() {
        let both =
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}});
        let some = json!({"requests": {"cpu": "1"}});
        for (spec, expected) in [
            (json!({"containers": [{"resources": {}}]}), "BestEffort"),
            (json!({"containers": [{"resources": {"requests": {"cpu": "0"}}}]}), "BestEffort"),
            (json!({"containers": [{"resources": both}]}), "Guaranteed"),
            (json!({"containers": [{"resources": both}, {"resources": {}}]}), "Burstable"),
            (
                json!({"containers": [{"resources": both}], "initContainers": [{"resources": some}]}),
                "Burstable",
            ),
            (json!({"containers": [{"resources": some}]}), "Burstable"),
            (json!({"containers": [{"resources": {}}], "resources": both}), "Guaranteed"),
            (json!({"containers": [{"resources": both}], "resources": some}), "Burstable"),
        ] {
            assert_eq!(qos_class(&object(spec.clone())), expected, "{spec}");
        }
    }

    #[test]
    fn a_pod_asks_for_what_its_containers_ask_for_together() {
        let mut spec = object(json!({
            "resources": {"limits": {"cpu": "4", "memory": "2Gi"}},
            "initContainers": [
                {"resources": {"requests": {"cpu": "500m"}}, "restartPolicy": "Always"},
                {"resources": {"requests": {"cpu": "3"}}},
            ],
            "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "1"}}}],
        }));
        pod_level(&mut spec);
        assert_eq!(spec["resources"]["requests"], json!({"cpu": "3500m", "memory": "2Gi"}));
    }
}
