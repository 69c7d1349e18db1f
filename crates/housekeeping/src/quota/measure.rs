//! What objects use of what quotas bound.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Container, PersistentVolumeClaim, Pod, ResourceRequirements, Service},
    apimachinery::pkg::api::resource::Quantity,
};

use super::amount::Amount;

/// Amounts by name.
pub(super) type Amounts = BTreeMap<String, Amount>;

/// Between the name of a class of storage and what is bounded of it.
pub(super) const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Where the class of a claim was before it had a field.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What pods use of a node.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Reads amounts; what is none is left out.
pub(super) fn amounts<'a>(given: impl IntoIterator<Item = (&'a String, &'a Quantity)>) -> Amounts {
    given.into_iter().filter_map(|(name, amount)| Some((name.clone(), amount.0.parse().ok()?))).collect()
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += *amount;
    }
}

fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let have = total.entry(name.clone()).or_default();
        *have = have.max(*amount);
    }
}

/// Requests or limits.
type Side = fn(&ResourceRequirements) -> Option<&BTreeMap<String, Quantity>>;

fn side(resources: Option<&ResourceRequirements>, side: Side) -> Amounts {
    amounts(resources.and_then(side).into_iter().flatten())
}

/// What a pod comes to: the larger of what runs together in the end and of what starting it takes.
fn together(pod: &Pod, of: Side) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let own = |container: &Container| side(container.resources.as_ref(), of);
    let mut total = Amounts::new();
    spec.containers.iter().for_each(|container| add(&mut total, &own(container)));
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let own = own(container);
        let mut at_once = sidecars.clone();
        add(&mut at_once, &own);
        // Those that are restarted go on beside everything that starts later.
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut total, &own);
            sidecars.clone_from(&at_once);
        }
        raise(&mut most, &at_once);
    }
    raise(&mut total, &most);
    let mut whole = side(spec.resources.as_ref(), of);
    whole.retain(|name, _| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-"));
    total.extend(whole);
    total
}

/// Whether a pod has ended, or should have by now: one that is stuck must not keep its successor from starting.
fn is_over(pod: &Pod, now: Timestamp) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let grace = pod.metadata.deletion_grace_period_seconds.map(SignedDuration::from_secs);
    let deleted = pod.metadata.deletion_timestamp.as_ref();
    let end = deleted.zip(grace).and_then(|(deleted, grace)| deleted.0.checked_add(grace).ok());
    matches!(phase, Some("Succeeded" | "Failed")) || end.is_some_and(|end| end < now)
}

/// Resources that others brought: those with a domain that is not Kubernetes' own.
pub(super) fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// What a pod uses.
pub(super) fn of_pod(pod: &Pod, now: Timestamp) -> Amounts {
    let one = Amount::from_count(1);
    let mut used = Amounts::from([("count/pods".to_owned(), one)]);
    if is_over(pod, now) {
        return used;
    }
    used.insert("pods".to_owned(), one);
    let mut requests = together(pod, |resources| resources.requests.as_ref());
    let mut limits = together(pod, |resources| resources.limits.as_ref());
    let overhead = pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref());
    for (name, amount) in amounts(overhead.into_iter().flatten()) {
        if let Some(limit) = limits.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit += amount;
        }
        *requests.entry(name).or_default() += amount;
    }
    for (name, amount) in requests {
        let is_bare = COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-");
        if is_bare || is_extended(&name) {
            used.insert(format!("requests.{name}"), amount);
        }
        if is_bare {
            used.insert(name, amount);
        }
    }
    let limits = limits.into_iter().filter(|(name, _)| COMPUTE.contains(&name.as_str()));
    used.extend(limits.map(|(name, amount)| (format!("limits.{name}"), amount)));
    used
}

/// What a service uses.
pub(super) fn of_service(service: &Service) -> Amounts {
    let one = Amount::from_count(1);
    let mut used = Amounts::from([("count/services".to_owned(), one), ("services".to_owned(), one)]);
    let Some(spec) = &service.spec else { return used };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let chosen = ports.iter().filter(|port| port.node_port.unwrap_or(0) != 0).count();
    let is_balanced = spec.type_.as_deref() == Some("LoadBalancer");
    let on_nodes = match spec.type_.as_deref() {
        Some("NodePort") => ports.len(),
        Some("LoadBalancer") if spec.allocate_load_balancer_node_ports != Some(false) => ports.len(),
        Some("LoadBalancer") => chosen,
        _ => 0,
    };
    used.insert("services.loadbalancers".to_owned(), Amount::from_count(is_balanced.into()));
    used.insert("services.nodeports".to_owned(), Amount::from_count(on_nodes));
    used
}

/// What a claim uses.
pub(super) fn of_claim(claim: &PersistentVolumeClaim) -> Amounts {
    let one = Amount::from_count(1);
    let name = "persistentvolumeclaims".to_owned();
    let mut used = Amounts::from([(format!("count/{name}"), one), (name, one)]);
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let given = claim.status.as_ref().and_then(|status| status.allocated_resources.as_ref());
    let storage = |amounts: Option<&BTreeMap<String, Quantity>>| {
        amounts.and_then(|amounts| amounts.get("storage")?.0.parse::<Amount>().ok())
    };
    let by_annotation = claim.metadata.annotations.as_ref().and_then(|all| all.get(CLASS));
    let class = by_annotation.or_else(|| claim.spec.as_ref()?.storage_class_name.as_ref());
    let class = class.filter(|class| !class.is_empty());
    used.extend(class.map(|class| (format!("{class}{OF_CLASS}persistentvolumeclaims"), one)));
    if let Some(asked) = storage(requests) {
        // A volume that is being made smaller again is as large as it was.
        let most = asked.max(storage(given).unwrap_or_default());
        used.extend(class.map(|class| (format!("{class}{OF_CLASS}requests.storage"), most)));
        used.insert("requests.storage".to_owned(), most);
    }
    used
}
