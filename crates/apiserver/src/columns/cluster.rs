//! Namespaces and what every one has, nodes, events, and how the cluster schedules and coordinates.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    object::{self, Object},
    table::{Cell, Column, find, since},
};

use super::{
    age, boolean, integer, name, path, string, with,
    words::{condition, field, int_at, list, none_if_empty, quantity, str_at},
};

pub(super) fn of(group: &str, kind: &str) -> Option<Vec<Column>> {
    Some(match (group, kind) {
        ("", "Namespace") => vec![name(), path("Status", "status.phase"), age()],
        ("", "Secret") => vec![name(), path("Type", "type"), string("Data", Cell::Count(&["data"])), age()],
        ("", "ConfigMap") => vec![name(), string("Data", Cell::Count(&["data", "binaryData"])), age()],
        ("", "ServiceAccount") => vec![name(), age()],
        ("", "ResourceQuota") => vec![
            name(),
            with("Request", |quota, _| usage(quota, false).into()),
            with("Limit", |quota, _| usage(quota, true).into()),
            age(),
        ],
        ("", "Node") => node(),
        ("", "ComponentStatus") => vec![
            name(),
            with("Status", health),
            with("Message", |component, _| healthy(component).map_or("", |it| field(it, "message")).into()),
            with("Error", |component, _| healthy(component).map_or("", |it| field(it, "error")).into()),
        ],
        ("" | "events.k8s.io", "Event") => event(),
        ("coordination.k8s.io", "Lease") => vec![name(), path("Holder", "spec.holderIdentity"), age()],
        ("node.k8s.io", "RuntimeClass") => vec![name(), path("Handler", "handler"), age()],
        ("scheduling.k8s.io", "PriorityClass") => vec![
            name(),
            integer("Value", Cell::Int("value")),
            boolean("Global-Default", Cell::Bool("globalDefault", false)),
            age(),
            path("PreemptionPolicy", "preemptionPolicy"),
        ],
        _ => return None,
    })
}

fn node() -> Vec<Column> {
    let info = |name, path| string(name, Cell::Text(path, "<unknown>")).wide();
    vec![
        name(),
        with("Status", node_status),
        with("Roles", roles),
        age(),
        path("Version", "status.nodeInfo.kubeletVersion"),
        with("Internal-IP", |node, _| address(node, "InternalIP")).wide(),
        with("External-IP", |node, _| address(node, "ExternalIP")).wide(),
        info("OS-Image", "status.nodeInfo.osImage"),
        info("Kernel-Version", "status.nodeInfo.kernelVersion"),
        info("Container-Runtime", "status.nodeInfo.containerRuntimeVersion"),
    ]
}

fn node_status(node: &Object, _: Timestamp) -> Value {
    let ready = match condition(node, "Ready").map(|condition| field(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match object::bool_at(node, &["spec", "unschedulable"]) {
        Some(true) => format!("{ready},SchedulingDisabled").into(),
        _ => ready.into(),
    }
}

fn roles(node: &Object, _: Timestamp) -> Value {
    let labels = find(node, "metadata.labels").and_then(Value::as_object).into_iter().flatten();
    let role = |(key, value): (&'_ String, &'_ Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let roles: BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    none_if_empty(Vec::from_iter(roles).join(",")).into()
}

fn address(node: &Object, kind: &str) -> Value {
    let addresses = list(node, "status.addresses");
    let found = addresses.iter().find(|address| field(address, "type") == kind);
    found.map_or("<none>", |found| field(found, "address")).into()
}

fn event() -> Vec<Column> {
    vec![
        with("Last Seen", last_seen),
        path("Type", "type"),
        path("Reason", "reason"),
        with("Object", involved),
        path("Subobject", "involvedObject.fieldPath").wide(),
        with("Source", source).wide(),
        with("Message", |event, _| str_at(event, "message").trim().into()),
        with("First Seen", |event, now| first_seen(event, now).into()).wide(),
        string("Count", Cell::With(occurrences)).wide(),
        name().wide(),
    ]
}

fn first_seen(event: &Object, now: Timestamp) -> String {
    since(find(event, "firstTimestamp").or_else(|| find(event, "eventTime")), now)
}

fn last_seen(event: &Object, now: Timestamp) -> Value {
    match (find(event, "series"), find(event, "lastTimestamp")) {
        (Some(series), _) => since(series.get("lastObservedTime"), now).into(),
        (None, Some(last)) => since(Some(last), now).into(),
        (None, None) => first_seen(event, now).into(),
    }
}

/// Events of the newer API have a count only once they are a series.
fn occurrences(event: &Object, _: Timestamp) -> Value {
    match (find(event, "series"), int_at(event, "count")) {
        (Some(_), _) => int_at(event, "series.count").into(),
        (None, 0) => 1.into(),
        (None, count) => count.into(),
    }
}

fn involved(event: &Object, _: Timestamp) -> Value {
    let kind = str_at(event, "involvedObject.kind").to_lowercase();
    match str_at(event, "involvedObject.name") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn source(event: &Object, _: Timestamp) -> Value {
    let either = |paths: [&str; 2]| {
        paths.map(|path| str_at(event, path)).into_iter().find(|text| !text.is_empty()).unwrap_or_default()
    };
    let component = either(["source.component", "reportingComponent"]);
    match either(["source.host", "reportingInstance"]) {
        "" => component.into(),
        instance => format!("{component}, {instance}").into(),
    }
}

/// What is used of each resource and how much there is: limits, or everything else.
fn usage(quota: &Object, limits: bool) -> String {
    let hard = find(quota, "status.hard").and_then(Value::as_object).into_iter().flatten();
    let used = |resource: &str| object::at(quota, &["status", "used", resource]);
    hard.filter(|(resource, _)| resource.starts_with("limits.") == limits)
        .map(|(resource, hard)| {
            format!("{resource}: {}/{}", quantity(used(resource), "0"), quantity(Some(hard), "0"))
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn healthy(component: &Object) -> Option<&Value> {
    list(component, "conditions").iter().find(|condition| field(condition, "type") == "Healthy")
}

fn health(component: &Object, _: Timestamp) -> Value {
    match healthy(component).map(|condition| field(condition, "status")) {
        Some("True") => "Healthy".into(),
        Some(_) => "Unhealthy".into(),
        None => "Unknown".into(),
    }
}
