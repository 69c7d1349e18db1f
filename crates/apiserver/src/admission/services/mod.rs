//! Services: their addresses and node ports, given out and taken back.
//!
//! The first half of the plugin fills in what the client left out; the second compares what the service had
//! with what it shall have, and reserves or releases the difference in the same transaction. So no address or
//! port is ever held by two services, nor by none that is there.

mod addresses;
mod ports;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use async_trait::async_trait;
use windlass_machinery::object::{self, Object};

use super::{AdmissionConfig, Operation, Plugin, Request, View};
use crate::status::Outcome;

pub(super) struct ServiceAllocation {
    cidrs: Vec<ipnet::IpNet>,
    node_ports: RangeInclusive<u16>,
}

impl ServiceAllocation {
    pub(super) fn new(config: &AdmissionConfig) -> Self {
        let AdmissionConfig { service_cidrs, node_ports, .. } = config;
        ServiceAllocation { cidrs: service_cidrs.clone(), node_ports: node_ports.clone() }
    }
}

#[async_trait]
impl Plugin for ServiceAllocation {
    fn name(&self) -> &'static str {
        "ServiceAllocation"
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.operation == Operation::Delete || !request.is("", "services") {
            return Ok(());
        }
        if let Some(old) = request.old {
            drop_what_the_type_forbids(&mut request.object, old);
        }
        addresses::assign(request, &self.cidrs)?;
        ports::assign(request, &self.node_ports)
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.operation == Operation::Delete && request.is("networking.k8s.io", "ipaddresses") {
            return addresses::keep_what_is_held(request);
        }
        if !request.is("", "services") {
            return Ok(());
        }
        addresses::reserve(request, &self.cidrs)?;
        ports::reserve(request, &self.node_ports)
    }
}

fn kind(service: &Object) -> &str {
    let kind = object::str_at(service, &["spec", "type"]).filter(|kind| !kind.is_empty());
    kind.unwrap_or("ClusterIP")
}

/// Whether services of this type have addresses, be it none (`None`).
fn has_addresses(service: &Object) -> bool {
    kind(service) != "ExternalName"
}

fn is_headless(service: &Object) -> bool {
    object::str_at(service, &["spec", "clusterIP"]) == Some("None")
}

fn is_balanced(service: &Object) -> bool {
    kind(service) == "LoadBalancer"
}

/// Whether every port gets a node port.
fn has_node_ports(service: &Object) -> bool {
    const ALLOCATE: &[&str] = &["spec", "allocateLoadBalancerNodePorts"];
    kind(service) == "NodePort" || is_balanced(service) && object::bool_at(service, ALLOCATE) != Some(false)
}

/// Whether balancers ask nodes if they have an endpoint.
fn has_health_port(service: &Object) -> bool {
    is_balanced(service) && object::str_at(service, &["spec", "externalTrafficPolicy"]) == Some("Local")
}

/// Whether a policy for traffic from outside makes sense.
fn is_external(service: &Object) -> bool {
    matches!(kind(service), "NodePort" | "LoadBalancer")
}

/// Whether it has ports on nodes, or addresses that are not of the cluster.
fn is_reached_from_outside(service: &Object) -> bool {
    is_external(service) || !object::list_at(service, &["spec", "externalIPs"]).is_empty()
}

type Holds = fn(&Object) -> bool;

/// Fields that go with the type, and which types they go with.
const TYPED_FIELDS: [(&str, Holds); 8] = [
    ("clusterIPs", has_addresses),
    ("clusterIP", has_addresses),
    ("ipFamilies", has_addresses),
    ("ipFamilyPolicy", has_addresses),
    ("healthCheckNodePort", has_health_port),
    ("allocateLoadBalancerNodePorts", is_balanced),
    ("loadBalancerClass", is_balanced),
    ("externalTrafficPolicy", is_reached_from_outside),
];

/// A client that changes the type sends back fields of the old type as it found them; they go. What it has
/// changed stays, to be found wrong.
fn drop_what_the_type_forbids(service: &mut Object, old: &Object) {
    let leaves = |holds: Holds, service: &Object| holds(old) && !holds(service);
    if leaves(is_external, service) && ports::none_new(service, old) {
        ports::clear(service);
    }
    for (field, holds) in TYPED_FIELDS {
        let path = &["spec", field];
        if leaves(holds, service) && object::at(service, path) == object::at(old, path) {
            object::set_at(service, path, None);
        }
    }
}

/// A random free one of `0..size`. Those below `low` come last: people like to choose there.
fn pick(size: u128, low: u128, is_free: impl Fn(u128) -> bool) -> Option<u128> {
    /// Enough to find one among many at once, unless nearly all are taken.
    const TRIES: usize = 64;
    /// As many as are ever looked at one by one; ranges of IPv6 have more than could be taken.
    const SCANNED: u128 = 1 << 20;
    [low..size, 0..low].into_iter().find_map(|band| {
        let (start, n_all) = (band.start, band.end.saturating_sub(band.start));
        if n_all == 0 {
            return None;
        }
        let random = || fastrand::u128(0..n_all);
        let tried = (0..TRIES).map(|_| start + random()).find(|candidate| is_free(*candidate));
        tried.or_else(|| {
            let first = random();
            let all = (0..n_all.min(SCANNED)).map(|step| start + (first + step) % n_all);
            all.into_iter().find(|candidate| is_free(*candidate))
        })
    })
}
