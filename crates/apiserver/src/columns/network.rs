//! What pods are reached by: services, endpoints, ingresses, addresses.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    object::Object,
    table::{Cell, Column, find, text},
};

use super::{
    age, name, path, string, with,
    words::{entries, field, first, labels, list, none_if_empty, resource_name, selector_or_none, str_at},
};

pub(super) fn of(group: &str, kind: &str) -> Option<Vec<Column>> {
    Some(match (group, kind) {
        ("", "Service") => vec![
            name(),
            path("Type", "spec.type"),
            with("Cluster-IP", cluster_ip),
            with("External-IP", external_ip),
            with("Port(s)", service_ports),
            age(),
            with("Selector", |service, _| labels(find(service, "spec.selector")).into()).wide(),
        ],
        ("", "Endpoints") => vec![name(), with("Endpoints", endpoints), age()],
        ("discovery.k8s.io", "EndpointSlice") => vec![
            name(),
            path("AddressType", "addressType"),
            with("Ports", slice_ports),
            with("Endpoints", slice_endpoints),
            age(),
        ],
        ("networking.k8s.io", "Ingress") => vec![
            name(),
            string("Class", Cell::Text("spec.ingressClassName", "<none>")),
            with("Hosts", hosts),
            with("Address", |ingress, _| balancers(ingress).join(",").into()),
            with("Ports", ingress_ports),
            age(),
        ],
        ("networking.k8s.io", "IngressClass") => {
            vec![name(), path("Controller", "spec.controller"), with("Parameters", parameters), age()]
        }
        ("networking.k8s.io", "NetworkPolicy") => vec![
            name(),
            with("Pod-Selector", |policy, _| selector_or_none(find(policy, "spec.podSelector")).into()),
            age(),
        ],
        ("networking.k8s.io", "ServiceCIDR") => {
            vec![name(), string("CIDRs", Cell::Joined("spec.cidrs", "", "")), age()]
        }
        ("networking.k8s.io", "IPAddress") => vec![name(), with("ParentRef", parent)],
        _ => return None,
    })
}

/// More would push the other columns off the screen.
const MOST: usize = 3;

fn cluster_ip(service: &Object, _: Timestamp) -> Value {
    let first = list(service, "spec.clusterIPs").first().or_else(|| find(service, "spec.clusterIP"));
    text(first, "<none>").into()
}

fn external_ip(service: &Object, _: Timestamp) -> Value {
    let own = list(service, "spec.externalIPs").iter().filter_map(Value::as_str).map(str::to_owned);
    match str_at(service, "spec.type") {
        "ClusterIP" | "NodePort" => none_if_empty(own.collect::<Vec<_>>().join(",")).into(),
        "LoadBalancer" => {
            let all: Vec<String> = balancers(service).into_iter().chain(own).collect();
            if all.is_empty() { "<pending>".into() } else { all.join(",").into() }
        }
        "ExternalName" => str_at(service, "spec.externalName").into(),
        _ => "<unknown>".into(),
    }
}

/// The addresses of the load balancers in front of it, in their order, each once.
fn balancers(object: &Object) -> Vec<String> {
    let address =
        |balancer| ["ip", "hostname"].map(|name| field(balancer, name)).into_iter().find(|a| !a.is_empty());
    let addresses: BTreeSet<&str> =
        list(object, "status.loadBalancer.ingress").iter().filter_map(address).collect();
    addresses.into_iter().map(str::to_owned).collect()
}

fn service_ports(service: &Object, _: Timestamp) -> Value {
    let port = |port: &Value| {
        let number = |name: &str| port.get(name).and_then(Value::as_i64).unwrap_or_default();
        let node_port = Some(number("nodePort")).filter(|port| *port > 0).map(|port| format!(":{port}"));
        format!("{}{}/{}", number("port"), node_port.unwrap_or_default(), field(port, "protocol"))
    };
    none_if_empty(list(service, "spec.ports").iter().map(port).collect::<Vec<_>>().join(",")).into()
}

fn endpoints(endpoints: &Object, _: Timestamp) -> Value {
    let subsets = list(endpoints, "subsets");
    let mut shown = Vec::new();
    for subset in subsets {
        let addresses = entries(subset.get("addresses")).iter().map(|address| field(address, "ip"));
        let ports = entries(subset.get("ports"));
        if ports.is_empty() {
            shown.extend(addresses.clone().map(str::to_owned));
        }
        for port in ports {
            let port = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            shown.extend(addresses.clone().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    if subsets.is_empty() { "<none>".into() } else { first(MOST, &shown, ",").into() }
}

fn slice_ports(slice: &Object, _: Timestamp) -> Value {
    let port = |port: &Value| match (port.get("port"), port.get("name").and_then(Value::as_str)) {
        (Some(Value::Number(number)), _) => number.to_string(),
        (_, Some(name)) => name.to_owned(),
        _ => "*".to_owned(),
    };
    first_or_unset(list(slice, "ports").iter().map(port).collect())
}

fn slice_endpoints(slice: &Object, _: Timestamp) -> Value {
    let addresses = list(slice, "endpoints").iter().flat_map(|endpoint| entries(endpoint.get("addresses")));
    first_or_unset(addresses.filter_map(Value::as_str).map(str::to_owned).collect())
}

fn first_or_unset(all: Vec<String>) -> Value {
    match first(MOST, &all, ",") {
        shown if shown.is_empty() => "<unset>".into(),
        shown => shown.into(),
    }
}

/// Rules without a host are not shown, but count as more once enough hosts are.
fn hosts(ingress: &Object, _: Timestamp) -> Value {
    let rules = list(ingress, "spec.rules");
    let named = rules.iter().enumerate().filter(|(_, rule)| !field(rule, "host").is_empty());
    let shown: Vec<(usize, &str)> = named.map(|(at, rule)| (at, field(rule, "host"))).take(MOST).collect();
    let Some((last, _)) = shown.last() else { return "*".into() };
    let has_more = shown.len() == MOST && last + 1 < rules.len();
    let hosts = shown.iter().map(|(_, host)| *host).collect::<Vec<_>>().join(",");
    if has_more { format!("{hosts} + {} more...", rules.len() - MOST).into() } else { hosts.into() }
}

fn ingress_ports(ingress: &Object, _: Timestamp) -> Value {
    if list(ingress, "spec.tls").is_empty() { "80".into() } else { "80, 443".into() }
}

fn parameters(class: &Object, _: Timestamp) -> Value {
    let Some(parameters) = find(class, "spec.parameters") else { return "<none>".into() };
    let group = match field(parameters, "apiGroup") {
        "" => String::new(),
        group => format!(".{group}"),
    };
    format!("{}{group}/{}", field(parameters, "kind"), field(parameters, "name")).into()
}

fn parent(address: &Object, _: Timestamp) -> Value {
    let Some(parent) = find(address, "spec.parentRef") else { return "<none>".into() };
    let resource = resource_name(field(parent, "resource"), field(parent, "group"));
    let parts = [resource.as_str(), field(parent, "namespace"), field(parent, "name")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/").into()
}
