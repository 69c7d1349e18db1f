//! Scheduling: what pods and nodes get that the scheduler looks at.

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_machinery::{
    object::{self, Object},
    quantity::Quantity,
};

use super::{Operation, Plugin, Request, View};
use crate::status::Outcome;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// How long a pod stays on a node that has stopped answering.
const TOLERATION_SECONDS: i64 = 300;
/// The classes the system's own pods use: they are known before their objects are there.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const PREEMPT: &str = "PreemptLowerPriority";

/// Turns the name of a priority class into a number.
pub(super) struct Priority;

#[async_trait]
impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn looks_again(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        match (request.operation, request.old) {
            (Operation::Create, _) if request.is("", "pods") => prioritise(request),
            (Operation::Update, Some(old)) if request.is("", "pods") => {
                let spec = object::child_mut(&mut request.object, "spec");
                for field in ["priority", "preemptionPolicy"] {
                    if let Some(value) = object::at(old, &["spec", field]) {
                        object::default_to(spec, field, value.clone());
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let default = request.operation != Operation::Delete
            && request.is("scheduling.k8s.io", "priorityclasses")
            && object::bool_at(&request.object, &["globalDefault"]) == Some(true);
        if !default {
            return Ok(());
        }
        match default_priority(request.view) {
            Some(other) if object::name(&other) != request.called() => Err(request.refuse(format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                object::name(&other)
            ))),
            _ => Ok(()),
        }
    }
}

fn prioritise(request: &mut Request<'_>) -> Outcome<()> {
    let view = request.view;
    let named = object::str_at(&request.object, &["spec", "priorityClassName"]).unwrap_or_default();
    let class = if named.is_empty() {
        default_priority(view)
    } else if let Some((class, _)) = view.get("scheduling.k8s.io", "priorityclasses", "", named) {
        Some(class)
    } else if let Some((name, value)) = SYSTEM_CLASSES.iter().find(|(name, _)| *name == named) {
        json!({"metadata": {"name": name}, "value": value}).as_object().cloned()
    } else {
        return Err(request.refuse(format!("no PriorityClass with name {named} was found")));
    };
    let class = class.unwrap_or_default();
    let value = object::int_at(&class, &["value"]).unwrap_or_default();
    let policy = object::str_at(&class, &["preemptionPolicy"]).unwrap_or(PREEMPT);
    let tail = "from the given PriorityClass name";
    if let Some(given) =
        object::int_at(&request.object, &["spec", "priority"]).filter(|given| *given != value)
    {
        return Err(request.refuse(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; \
             priority admission controller computed {value} {tail}"
        )));
    }
    let given = object::str_at(&request.object, &["spec", "preemptionPolicy"]);
    if let Some(given) = given.filter(|given| *given != policy) {
        return Err(request.refuse(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
             priority admission controller computed {policy} {tail}"
        )));
    }
    let spec = object::child_mut(&mut request.object, "spec");
    if !object::name(&class).is_empty() {
        spec.insert("priorityClassName".to_owned(), object::name(&class).into());
    }
    spec.insert("priority".to_owned(), value.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}

/// The class of pods that name none: should there be several, the least.
fn default_priority(view: &View) -> Option<Object> {
    let classes = view.list("scheduling.k8s.io", "priorityclasses", "").into_iter().map(|(class, _)| class);
    let defaults = classes.filter(|class| object::bool_at(class, &["globalDefault"]) == Some(true));
    defaults.min_by_key(|class| object::int_at(class, &["value"]))
}

/// Lets pods stay for a while on a node that has stopped answering.
pub(super) struct DefaultTolerationSeconds;

#[async_trait]
impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn looks_again(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.operation == Operation::Delete || !request.is("", "pods") {
            return Ok(());
        }
        let mut tolerations = object::list_at(&request.object, &["spec", "tolerations"]).to_vec();
        let n_given = tolerations.len();
        for key in [NOT_READY, UNREACHABLE] {
            if !tolerations.iter().any(|toleration| tolerates(toleration, key)) {
                tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute",
                                        "tolerationSeconds": TOLERATION_SECONDS}));
            }
        }
        if tolerations.len() > n_given {
            object::set_at(&mut request.object, &["spec", "tolerations"], Some(tolerations.into()));
        }
        Ok(())
    }
}

/// Whether a toleration says anything about being thrown out for `key`.
fn tolerates(toleration: &Value, key: &str) -> bool {
    let is = |field: &str, value: &str| {
        let given = toleration.get(field).and_then(Value::as_str).unwrap_or_default();
        given.is_empty() || given == value
    };
    is("key", key) && is("effect", "NoExecute")
}

/// Keeps pods from new nodes until they are ready.
pub(super) struct TaintNodesByCondition;

#[async_trait]
impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn looks_again(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.operation != Operation::Create || !request.is("", "nodes") {
            return Ok(());
        }
        let mut taints = object::list_at(&request.object, &["spec", "taints"]).to_vec();
        let same = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
        if !taints.iter().any(same) {
            taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
            object::set_at(&mut request.object, &["spec", "taints"], Some(taints.into()));
        }
        Ok(())
    }
}

/// Adds what running under a runtime class costs and needs.
pub(super) struct RuntimeClass;

#[async_trait]
impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn looks_again(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.operation != Operation::Create || !request.is("", "pods") {
            return Ok(());
        }
        let Some(class) = runtime_class(request)? else { return Ok(()) };
        if let Some(overhead) = overhead(&class) {
            let given = object::at(&request.object, &["spec", "overhead"]).and_then(Value::as_object);
            if given.is_some_and(|given| !given.is_empty() && !same_quantities(given, overhead)) {
                let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
                return Err(request.refuse(why));
            }
            object::set_at(&mut request.object, &["spec", "overhead"], Some(overhead.clone().into()));
        }
        merge_selector(request, &class)?;
        merge_tolerations(&mut request.object, &class);
        Ok(())
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.operation != Operation::Create || !request.is("", "pods") {
            return Ok(());
        }
        let class = runtime_class(request)?;
        let given = object::at(&request.object, &["spec", "overhead"]).and_then(Value::as_object);
        let Some(given) = given.filter(|given| !given.is_empty()) else { return Ok(()) };
        let why = match class.as_ref().and_then(overhead) {
            None => "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            Some(overhead) if !same_quantities(given, overhead) => {
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            }
            Some(_) => return Ok(()),
        };
        Err(request.refuse(why))
    }
}

fn runtime_class(request: &Request<'_>) -> Outcome<Option<Object>> {
    let name = object::str_at(&request.object, &["spec", "runtimeClassName"]).unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    match request.view.get("node.k8s.io", "runtimeclasses", "", name) {
        Some((class, _)) => Ok(Some(class)),
        None => Err(request.refuse(format!("pod rejected: RuntimeClass {name:?} not found"))),
    }
}

fn overhead(class: &Object) -> Option<&Object> {
    let overhead = object::at(class, &["overhead", "podFixed"])?.as_object()?;
    (!overhead.is_empty()).then_some(overhead)
}

fn same_quantities(one: &Object, other: &Object) -> bool {
    let same = |value: &Value, other: &Value| match (Quantity::from_value(value), Quantity::from_value(other))
    {
        (Ok(value), Ok(other)) => value == other,
        _ => value == other,
    };
    let matches = |(name, value): (&String, &Value)| other.get(name).is_some_and(|other| same(value, other));
    one.len() == other.len() && one.iter().all(matches)
}

fn merge_selector(request: &mut Request<'_>, class: &Object) -> Outcome<()> {
    let needs = object::at(class, &["scheduling", "nodeSelector"]).and_then(Value::as_object);
    let Some(needs) = needs.filter(|needs| !needs.is_empty()) else { return Ok(()) };
    let given = object::at(&request.object, &["spec", "nodeSelector"]).and_then(Value::as_object);
    let mut merged = given.cloned().unwrap_or_default();
    for (key, value) in needs {
        match merged.get(key).filter(|given| *given != value) {
            None => merged.insert(key.clone(), value.clone()),
            Some(given) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                return Err(request.refuse(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    text(value),
                    text(given)
                )));
            }
        };
    }
    object::set_at(&mut request.object, &["spec", "nodeSelector"], Some(merged.into()));
    Ok(())
}

fn merge_tolerations(pod: &mut Object, class: &Object) {
    let needs = object::list_at(class, &["scheduling", "tolerations"]);
    let mut merged = object::list_at(pod, &["spec", "tolerations"]).to_vec();
    let n_given = merged.len();
    for toleration in needs {
        if !merged.contains(toleration) {
            merged.push(toleration.clone());
        }
    }
    if merged.len() > n_given {
        object::set_at(pod, &["spec", "tolerations"], Some(merged.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::{World, admit};

    const PC: (&str, &str) = ("scheduling.k8s.io", "priorityclasses");

    async fn create(plugin: &dyn Plugin, world: &World, spec: Value) -> Result<Value, String> {
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let admitted = admit(plugin, world.request("", "pods", "n", pod)).await;
        admitted.map(|(pod, _)| pod["spec"].clone()).map_err(|status| status.message)
    }

    #[tokio::test]
    async fn priority_comes_from_the_class() {
        let world = World::new(&[
            (PC.0, PC.1, json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})),
            (PC.0, PC.1, json!({"metadata": {"name": "usual"}, "value": 5, "globalDefault": true})),
        ])
        .await;
        let cases = [
            (json!({}), "usual", 5, PREEMPT),
            (json!({"priorityClassName": "high"}), "high", 1000, "Never"),
            (json!({"priorityClassName": "high", "priority": 1000}), "high", 1000, "Never"),
            (
                json!({"priorityClassName": "system-node-critical"}),
                "system-node-critical",
                2_000_001_000,
                PREEMPT,
            ),
        ];
        for (spec, class, priority, policy) in cases {
            let spec = create(&Priority, &world, spec).await.unwrap();
            let expected =
                json!({"priorityClassName": class, "priority": priority, "preemptionPolicy": policy});
            assert_eq!(spec, expected);
        }
        let spec = create(&Priority, &World::new(&[]).await, json!({})).await.unwrap();
        assert_eq!(spec, json!({"priority": 0, "preemptionPolicy": PREEMPT}));
        for (spec, why) in [
            (json!({"priorityClassName": "x"}), "no PriorityClass with name x was found"),
            (
                json!({"priority": 7}),
                "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 5 from the given PriorityClass name",
            ),
        ] {
            let message = create(&Priority, &world, spec).await.unwrap_err();
            assert_eq!(message, format!("pods \"p\" is forbidden: {why}"));
        }
    }

    #[tokio::test]
    async fn only_one_priority_class_is_the_default() {
        let usual = json!({"metadata": {"name": "usual"}, "value": 5, "globalDefault": true});
        let world = World::new(&[(PC.0, PC.1, usual.clone())]).await;
        let other = json!({"metadata": {"name": "other"}, "value": 6, "globalDefault": true});
        assert!(admit(&Priority, world.request(PC.0, PC.1, "", other)).await.is_err());
        let old = World::object(usual.clone());
        assert!(admit(&Priority, world.update(PC.0, PC.1, "", &old, usual)).await.is_ok());
    }

    #[tokio::test]
    async fn pods_tolerate_silent_nodes_for_a_while() {
        let world = World::new(&[]).await;
        let cases = [
            (json!([]), 2),
            (json!([{"operator": "Exists"}]), 1),
            (json!([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}]), 2),
            (json!([{"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}]), 3),
        ];
        for (tolerations, n_after) in cases {
            let spec = json!({"tolerations": tolerations});
            let spec = create(&DefaultTolerationSeconds, &world, spec).await.unwrap();
            assert_eq!(spec["tolerations"].as_array().unwrap().len(), n_after, "{tolerations}");
        }
    }

    #[tokio::test]
    async fn new_nodes_are_tainted_once() {
        let world = World::new(&[]).await;
        let tainted = json!([{"key": NOT_READY, "effect": "NoSchedule"}]);
        for spec in [json!({}), json!({"taints": tainted})] {
            let request = world.request("", "nodes", "", json!({"metadata": {"name": "n"}, "spec": spec}));
            let (node, _) = admit(&TaintNodesByCondition, request).await.unwrap();
            assert_eq!(node["spec"]["taints"], tainted);
        }
    }

    #[tokio::test]
    async fn a_runtime_class_adds_its_overhead_and_its_needs() {
        let scheduling = json!({"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm"}]});
        let class = json!({"metadata": {"name": "vm"}, "handler": "vm", "scheduling": scheduling,
                           "overhead": {"podFixed": {"cpu": "250m"}}});
        let world = World::new(&[("node.k8s.io", "runtimeclasses", class)]).await;
        let spec = json!({"runtimeClassName": "vm", "nodeSelector": {"a": "b"}});
        let spec = create(&RuntimeClass, &world, spec).await.unwrap();
        let expected = json!({"runtimeClassName": "vm", "overhead": {"cpu": "250m"},
                              "nodeSelector": {"a": "b", "vm": "yes"}, "tolerations": [{"key": "vm"}]});
        assert_eq!(spec, expected);
        for (spec, accepted) in [
            (json!({"runtimeClassName": "vm", "overhead": {"cpu": "0.25"}}), true),
            (json!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}), false),
            (json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}), false),
            (json!({"runtimeClassName": "x"}), false),
            (json!({"overhead": {"cpu": "1"}}), false),
        ] {
            assert_eq!(create(&RuntimeClass, &world, spec.clone()).await.is_ok(), accepted, "{spec}");
        }
    }
}
