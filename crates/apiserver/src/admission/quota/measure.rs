//! What objects use: amounts by the names that quotas bound.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_machinery::{
    object::{Object, at, bool_at, int_at, list_at, metadata, str_at},
    quantity::Quantity,
};

use crate::{
    admission::pods::{Amounts, add, containers, of_container, of_pod, of_pod_level},
    resources::Resource,
};

/// Objects of the core group that can be counted by their bare plural.
const BY_PLURAL: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// What pods use of a node and quotas can bound as it is, as `requests.` and as `limits.`.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What every container must say for itself where a quota bounds it.
const MUST_SPECIFY: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
const OF_DEVICES: &str = ".deviceclass.resource.k8s.io/devices";

/// Most devices that a request for all of them can get.
const ALL_DEVICES: i64 = 32;

/// What is looked at besides the number of objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pod,
    Service,
    Claim,
    DeviceClaim,
    Other,
}

fn kind(resource: &Resource) -> Kind {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => Kind::Pod,
        ("", "services") => Kind::Service,
        ("", "persistentvolumeclaims") => Kind::Claim,
        ("resource.k8s.io", "resourceclaims") => Kind::DeviceClaim,
        _ => Kind::Other,
    }
}

/// Whether quotas are about this resource at all. Events come and go by themselves.
pub(super) fn is_counted(resource: &Resource) -> bool {
    let is_event = resource.plural == "events" && matches!(resource.group.as_str(), "" | "events.k8s.io");
    resource.namespaced && resource.is_stored() && !is_event
}

/// Whether all objects of this resource use the same.
pub(super) fn only_number(resource: &Resource) -> bool {
    kind(resource) == Kind::Other
}

/// Whether objects of this resource can use what has this name.
pub(super) fn covers(resource: &Resource, name: &str) -> bool {
    if let Some(counted) = name.strip_prefix("count/") {
        return counted == resource.qualified();
    }
    if resource.group.is_empty() && resource.plural == name && BY_PLURAL.contains(&name) {
        return true;
    }
    match kind(resource) {
        Kind::Pod => is_compute(name),
        Kind::Service => matches!(name, "services.loadbalancers" | "services.nodeports"),
        Kind::Claim => {
            let of_class = name.split_once(OF_CLASS).map(|(_, what)| what);
            name == "requests.storage"
                || matches!(of_class, Some("requests.storage" | "persistentvolumeclaims"))
        }
        Kind::DeviceClaim => name.ends_with(OF_DEVICES),
        Kind::Other => false,
    }
}

fn is_compute(name: &str) -> bool {
    if let Some(limited) = name.strip_prefix("limits.") {
        return COMPUTE.contains(&limited);
    }
    match name.strip_prefix("requests.") {
        Some(asked) => COMPUTE.contains(&asked) || asked.starts_with("hugepages-") || is_extended(asked),
        None => COMPUTE.contains(&name) || name.starts_with("hugepages-"),
    }
}

/// Resources that others brought: those with a domain that is not Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// What one object uses.
pub(super) fn usage(resource: &Resource, object: &Object) -> Amounts {
    let one = Quantity::from_int(1);
    let mut used = Amounts::from([(format!("count/{}", resource.qualified()), one)]);
    match kind(resource) {
        // What has ended is still an object, but no longer a pod that takes anything.
        Kind::Pod if is_terminal(object) => return used,
        Kind::Pod => {
            let needs = of_pod(object, true);
            compute(&mut used, &needs.requests, &needs.limits);
        }
        Kind::Service => service(&mut used, object),
        Kind::Claim => claim(&mut used, object),
        Kind::DeviceClaim => devices(&mut used, object),
        Kind::Other => {}
    }
    if resource.group.is_empty() && BY_PLURAL.contains(&resource.plural.as_str()) {
        used.insert(resource.plural.clone(), one);
    }
    used
}

fn is_terminal(pod: &Object) -> bool {
    matches!(str_at(pod, &["status", "phase"]), Some("Succeeded" | "Failed"))
}

fn compute(used: &mut Amounts, requests: &Amounts, limits: &Amounts) {
    for (name, amount) in requests {
        if COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-") {
            used.insert(name.clone(), *amount);
            used.insert(format!("requests.{name}"), *amount);
        } else if is_extended(name) {
            used.insert(format!("requests.{name}"), *amount);
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| COMPUTE.contains(&name.as_str())) {
        used.insert(format!("limits.{name}"), *amount);
    }
}

fn service(used: &mut Amounts, service: &Object) {
    let ports = list_at(service, &["spec", "ports"]);
    let balanced = str_at(service, &["spec", "type"]) == Some("LoadBalancer");
    let chosen = |port: &&Value| port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) != 0;
    let on_nodes = match str_at(service, &["spec", "type"]) {
        Some("NodePort") => ports.len(),
        Some("LoadBalancer")
            if bool_at(service, &["spec", "allocateLoadBalancerNodePorts"]) != Some(false) =>
        {
            ports.len()
        }
        Some("LoadBalancer") => ports.iter().filter(chosen).count(),
        _ => 0,
    };
    used.insert("services.loadbalancers".to_owned(), Quantity::from_int(balanced.into()));
    let on_nodes = i64::try_from(on_nodes).unwrap_or(i64::MAX);
    used.insert("services.nodeports".to_owned(), Quantity::from_int(on_nodes));
}

fn claim(used: &mut Amounts, claim: &Object) {
    let by_annotation = metadata(claim)
        .get("annotations")
        .and_then(|annotations| annotations.get("volume.beta.kubernetes.io/storage-class"))
        .and_then(Value::as_str);
    let class = by_annotation.or_else(|| str_at(claim, &["spec", "storageClassName"]));
    let class = class.filter(|class| !class.is_empty());
    if let Some(class) = class {
        used.insert(format!("{class}{OF_CLASS}persistentvolumeclaims"), Quantity::from_int(1));
    }
    let storage = |path: &[&str]| Quantity::from_value(at(claim, path)?).ok();
    let Some(asked) = storage(&["spec", "resources", "requests", "storage"]) else { return };
    // A volume that is being made smaller again is as large as it was.
    let given = storage(&["status", "allocatedResources", "storage"]).unwrap_or_default();
    let most = if given > asked { given } else { asked };
    used.insert("requests.storage".to_owned(), most);
    if let Some(class) = class {
        used.insert(format!("{class}{OF_CLASS}requests.storage"), most);
    }
}

fn devices(used: &mut Amounts, claim: &Object) {
    let count = |request: &Object| match str_at(request, &["allocationMode"]) {
        Some("All") => ALL_DEVICES,
        _ => int_at(request, &["count"]).unwrap_or(1),
    };
    for request in list_at(claim, &["spec", "devices", "requests"]).iter().filter_map(Value::as_object) {
        let exactly = at(request, &["exactly"]).into_iter();
        let choices = exactly.chain(list_at(request, &["firstAvailable"])).filter_map(Value::as_object);
        let mut most = Amounts::new();
        for choice in choices {
            let class = str_at(choice, &["deviceClassName"]).unwrap_or_default();
            let have = most.entry(format!("{class}{OF_DEVICES}")).or_default();
            *have = (*have).max(Quantity::from_int(count(choice)));
        }
        add(used, &most);
    }
}

/// What containers of a new pod do not say although it is bounded; `None` when nothing is missing.
pub(super) fn unspecified(resource: &Resource, pod: &Object, bounded: &Amounts) -> Option<String> {
    if kind(resource) != Kind::Pod {
        return None;
    }
    let said = |requests: &Amounts, limits: &Amounts| {
        let mut used = Amounts::new();
        compute(&mut used, requests, limits);
        used
    };
    let whole = of_pod_level(pod);
    let whole = said(&whole.requests, &whole.limits);
    let missing =
        MUST_SPECIFY.iter().filter(|name| bounded.contains_key(**name) && !whole.contains_key(**name));
    let missing = missing.filter_map(|name| {
        let all = ["containers", "initContainers"].into_iter().flat_map(|list| containers(pod, list));
        let silent = all.filter(|container| {
            let needs = of_container(container);
            !said(&needs.requests, &needs.limits).contains_key(*name)
        });
        let silent: BTreeSet<&str> =
            silent.map(|container| str_at(container, &["name"]).unwrap_or_default()).collect();
        let silent = Vec::from_iter(silent);
        (!silent.is_empty()).then(|| format!("{name} for: {}", silent.join(",")))
    });
    let missing: Vec<String> = missing.collect();
    (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
}
