//! What pods ask for: requests and limits, of containers and of whole pods.
//!
//! Everything here only reads; a field of the wrong type counts as absent.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_machinery::{
    object::{Object, at, list_at, str_at},
    quantity::Quantity,
};

/// Amounts by the name of the resource.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// What is asked for, and what may be used at most.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) requests: Amounts,
    pub(super) limits: Amounts,
}

/// Reads a map of amounts; what is no quantity is left out.
pub(super) fn amounts(value: Option<&Value>) -> Amounts {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_value(value).ok()?))).collect()
}

/// The containers in a list of the pod, such as `initContainers`.
pub(super) fn containers<'a>(pod: &'a Object, list: &str) -> impl Iterator<Item = &'a Object> {
    list_at(pod, &["spec", list]).iter().filter_map(Value::as_object)
}

/// What one container says itself.
pub(super) fn of_container(container: &Object) -> Needs {
    Needs {
        requests: amounts(at(container, &["resources", "requests"])),
        limits: amounts(at(container, &["resources", "limits"])),
    }
}

/// What the pod says for all of its containers together, where it may.
pub(super) fn of_pod_level(pod: &Object) -> Needs {
    let pick = |field: &str| {
        let mut amounts = amounts(at(pod, &["spec", "resources", field]));
        amounts.retain(|name, _| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-"));
        amounts
    };
    Needs { requests: pick("requests"), limits: pick("limits") }
}

/// What the whole pod comes to: the larger of what runs together in the end and of what starting it takes.
/// What the pod says for all its containers together wins; what it costs besides them comes on top.
pub(super) fn of_pod(pod: &Object, with_overhead: bool) -> Needs {
    let whole = of_pod_level(pod);
    let mut needs = Needs {
        requests: together(pod, |needs| needs.requests, whole.requests),
        limits: together(pod, |needs| needs.limits, whole.limits),
    };
    if with_overhead {
        for (name, amount) in amounts(at(pod, &["spec", "overhead"])) {
            // Where nothing limits the containers, a limit on the rest would limit them too.
            if let Some(limit) = needs.limits.get_mut(&name).filter(|limit| !limit.is_zero()) {
                *limit += amount;
            }
            *needs.requests.entry(name).or_default() += amount;
        }
    }
    needs
}

fn together(pod: &Object, pick: fn(Needs) -> Amounts, whole: Amounts) -> Amounts {
    let mut total = Amounts::new();
    for container in containers(pod, "containers") {
        add(&mut total, &pick(of_container(container)));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in containers(pod, "initContainers") {
        let own = pick(of_container(container));
        // Those that are restarted go on beside everything that starts later.
        let at_once = if str_at(container, &["restartPolicy"]) == Some("Always") {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            sidecars.clone()
        } else {
            let mut at_once = sidecars.clone();
            add(&mut at_once, &own);
            at_once
        };
        raise(&mut most, &at_once);
    }
    raise(&mut total, &most);
    total.extend(whole);
    total
}

/// Adds up.
pub(super) fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += *amount;
    }
}

fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let have = total.entry(name.clone()).or_insert(*amount);
        *have = (*have).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cpu(pod: Value, with_overhead: bool) -> (String, String) {
        let needs = of_pod(pod.as_object().expect("a map"), with_overhead);
        let show = |amounts: &Amounts| amounts.get("cpu").map_or_else(|| "-".to_owned(), ToString::to_string);
        (show(&needs.requests), show(&needs.limits))
    }

    fn asks(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn a_pod_takes_the_larger_of_starting_and_running() {
        for (init, sum) in [
            (json!([]), "3"),
            (json!([asks("2")]), "3"),
            (json!([asks("5"), asks("4")]), "5"),
            (json!([sidecar("1")]), "4"),
            (json!([sidecar("1"), asks("3500m")]), "4500m"),
            (json!([asks("3500m"), sidecar("1")]), "4"),
        ] {
            let pod = json!({"spec": {"containers": [asks("1"), asks("2")], "initContainers": init}});
            assert_eq!(cpu(pod.clone(), false).0, sum, "{pod}");
        }
    }

    #[test]
    fn what_the_pod_says_itself_wins_and_overhead_comes_on_top() {
        let limited = json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}});
        let mut pod = json!({"spec": {"containers": [limited], "overhead": {"cpu": "250m"}}});
        assert_eq!(cpu(pod.clone(), true), ("1250m".to_owned(), "2250m".to_owned()));
        assert_eq!(cpu(pod.clone(), false), ("1".to_owned(), "2".to_owned()));
        pod["spec"]["resources"] = json!({"requests": {"cpu": "500m", "example.com/gpu": "1"}});
        assert_eq!(cpu(pod, true), ("750m".to_owned(), "2250m".to_owned()));
        let unlimited = json!({"spec": {"containers": [asks("1")], "overhead": {"cpu": "1"}}});
        assert_eq!(cpu(unlimited, true), ("2".to_owned(), "-".to_owned()));
    }
}
