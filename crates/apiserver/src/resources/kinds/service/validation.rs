//! Whether a service makes sense.

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_machinery::{
    field::{Errors, Fault},
    names,
    object::{self, Object},
};

use super::{
    super::{
        checks::{between, cidr, each_one_of, immutable, must_be_named, reachable, same},
        fields::{
            below, each, int, is_set, labels, list, malformed, maps, must_be, one_of, port, port_or_name,
            qualified, text, texts, within,
        },
    },
    has_address, has_health_port, is_external,
};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const POLICIES: &[&str] = &["Cluster", "Local"];
const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const FAMILY_POLICIES: &[&str] = &["SingleStack", "PreferDualStack", "RequireDualStack"];
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameNode", "PreferSameZone"];
/// The port kubelets listen on: a balancer that took it would cut nodes off.
const KUBELET: i64 = 10250;

pub(super) fn validate(service: &Object, errors: &mut Errors) {
    within(service, "spec", errors, |spec, errors| {
        by_type(spec, errors);
        ports(spec, errors);
        labels(spec, "selector", errors);
        affinity(spec, errors);
        addresses(spec, errors);
        external(spec, errors);
        balancer(spec, errors);
        one_of(spec, "internalTrafficPolicy", POLICIES, errors);
        one_of(spec, "trafficDistribution", DISTRIBUTIONS, errors);
    });
}

fn is_headless(spec: &Object) -> bool {
    text(spec, "clusterIP") == "None"
}

fn by_type(spec: &Object, errors: &mut Errors) {
    let kind = text(spec, "type");
    if list(spec, "ports").is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.required("ports", "");
    }
    match kind {
        "LoadBalancer" | "NodePort" => {
            if is_headless(spec) {
                let detail = format!("may not be set to 'None' for {kind} services");
                errors.at_index("clusterIPs", 0, |errors| errors.invalid_str("", "None", detail));
            }
            for (index, port) in maps(spec, "ports").filter(|_| kind == "LoadBalancer") {
                if int(port, "port") == Some(KUBELET) {
                    let detail = "may not expose port 10250 externally since it is used by kubelet";
                    errors.at_index("ports", index, |errors| errors.invalid("port", &KUBELET.into(), detail));
                }
            }
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !same(spec.get(field), None) {
                    errors.forbidden(field, "may not be set for ExternalName services");
                }
            }
            must_be_named(
                spec,
                "externalName",
                |name, generate| names::subdomain(name.strip_suffix('.').unwrap_or(name), generate),
                errors,
            );
        }
        _ => {}
    }
    must_be(spec, "type", TYPES, errors);
}

fn ports(spec: &Object, errors: &mut Errors) {
    let several = list(spec, "ports").len() > 1;
    each(spec, "ports", errors, |entry, errors| {
        let name = text(entry, "name");
        if name.is_empty() && several {
            errors.required("name", "");
        } else if !name.is_empty() {
            malformed("name", name, names::label(name, false), errors);
        }
        port(entry, "port", errors);
        must_be(entry, "protocol", PROTOCOLS, errors);
        port_or_name(entry, "targetPort", errors);
        if !text(entry, "appProtocol").is_empty() {
            qualified("appProtocol", text(entry, "appProtocol"), errors);
        }
        let (kind, number) = (text(spec, "type"), int(entry, "nodePort").unwrap_or(0));
        if matches!(kind, "ClusterIP" | "ExternalName") && number != 0 {
            errors.forbidden("nodePort", format!("may not be used when `type` is '{kind}'"));
        } else if number != 0 {
            port(entry, "nodePort", errors);
        }
    });
    repeated(spec, errors, "name", |port| match text(port, "name") {
        "" => Value::Null,
        name => name.into(),
    });
    repeated(spec, errors, "", |port| json!({"protocol": port.get("protocol"), "port": port.get("port")}));
    repeated(spec, errors, "nodePort", |port| match int(port, "nodePort").unwrap_or(0) {
        0 => Value::Null,
        number => json!([port.get("protocol"), number]),
    });
}

/// Ports may not share what `key` makes of them.
fn repeated(spec: &Object, errors: &mut Errors, field: &str, key: fn(&Object) -> Value) {
    let mut seen = HashSet::new();
    for (index, port) in maps(spec, "ports") {
        let value = key(port);
        if !value.is_null() && !seen.insert(value.to_string()) {
            let shown = port.get(field).unwrap_or(&value);
            errors.at_index("ports", index, |errors| errors.duplicate(field, shown));
        }
    }
}

fn affinity(spec: &Object, errors: &mut Errors) {
    must_be(spec, "sessionAffinity", &["ClientIP", "None"], errors);
    let seconds = object::int_at(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
    match (text(spec, "sessionAffinity"), seconds) {
        ("None", _) if is_set(spec, "sessionAffinityConfig") => {
            errors.forbidden("sessionAffinityConfig", "must not be set when session affinity is None");
        }
        ("ClientIP", Some(seconds)) if !(1..=86400).contains(&seconds) => {
            let detail = "must be greater than 0 and less than 86400";
            errors.invalid("sessionAffinityConfig.clientIP.timeoutSeconds", &seconds.into(), detail);
        }
        _ => {}
    }
}

fn addresses(spec: &Object, errors: &mut Errors) {
    let first = list(spec, "clusterIPs").first().and_then(Value::as_str);
    match (text(spec, "clusterIP"), first) {
        ("", Some(_)) => errors.forbidden("clusterIPs", "must be empty when `clusterIP` is not specified"),
        (address, Some(first)) if address != first => errors.at_index("clusterIPs", 0, |errors| {
            errors.invalid_str("", first, "first value must match `clusterIP`");
        }),
        _ => {}
    }
    for (index, address) in texts(spec, "clusterIPs") {
        errors.at_index("clusterIPs", index, |errors| match address {
            "None" if list(spec, "clusterIPs").len() == 1 => {}
            "None" => errors.invalid_str("", address, "'None' must be the first and only value"),
            address => malformed("", address, names::ip(address), errors),
        });
    }
    if list(spec, "clusterIPs").len() > 2 {
        errors.invalid("clusterIPs", &json!(list(spec, "clusterIPs")), "may only hold up to 2 values");
    }
    one_of(spec, "ipFamilyPolicy", FAMILY_POLICIES, errors);
    each_one_of(spec, "ipFamilies", FAMILIES, errors);
    for (index, address) in texts(spec, "externalIPs") {
        errors.at_index("externalIPs", index, |errors| reachable("", address, errors));
    }
}

fn external(spec: &Object, errors: &mut Errors) {
    let policy = text(spec, "externalTrafficPolicy");
    match (is_external(spec), policy) {
        (true, "") => errors.required("externalTrafficPolicy", ""),
        (true, _) => one_of(spec, "externalTrafficPolicy", POLICIES, errors),
        (false, "") => {}
        (false, _) => {
            let detail = "may only be set for externally-accessible services";
            errors.invalid_str("externalTrafficPolicy", policy, detail);
        }
    }
    let port = int(spec, "healthCheckNodePort").unwrap_or(0);
    if port != 0 && !has_health_port(spec) {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid("healthCheckNodePort", &port.into(), detail);
    } else if port != 0 {
        between(spec, "healthCheckNodePort", 1, 65535, errors);
    }
}

fn balancer(spec: &Object, errors: &mut Errors) {
    if text(spec, "type") != "LoadBalancer" {
        for field in ["loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if !same(spec.get(field), None) {
                errors.forbidden(field, "may only be used when `type` is 'LoadBalancer'");
            }
        }
        return;
    }
    for (index, range) in texts(spec, "loadBalancerSourceRanges") {
        errors.at_index("loadBalancerSourceRanges", index, |errors| cidr("", range.trim(), errors));
    }
    if !is_set(spec, "allocateLoadBalancerNodePorts") {
        errors.required("allocateLoadBalancerNodePorts", "");
    }
    if !text(spec, "loadBalancerClass").is_empty() {
        qualified("loadBalancerClass", text(spec, "loadBalancerClass"), errors);
    }
}

pub(super) fn validate_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    if part.is_some() {
        return below(new, "status", errors, |status, errors| {
            below(status, "loadBalancer", errors, ingress);
        });
    }
    let empty = Object::new();
    let spec = new.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let before = old.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    if has_address(spec) && has_address(before) {
        primary(spec, before, errors);
    }
    if text(spec, "type") == text(before, "type") && text(spec, "type") == "LoadBalancer" {
        immutable(new, old, &["spec.loadBalancerClass"], errors);
    }
}

/// The first address and family stay; a second may come and go.
fn primary(spec: &Object, before: &Object, errors: &mut Errors) {
    errors.at("spec", |errors| {
        let (first, old) = (list(spec, "clusterIPs").first(), list(before, "clusterIPs").first());
        match (first, old) {
            (None, Some(old)) => errors.at_index("clusterIPs", 0, |errors| {
                errors.invalid("", old, "primary clusterIP can not be unset");
            }),
            (Some(new), Some(old)) if new != old => errors.at_index("clusterIPs", 0, |errors| {
                errors.invalid("", &json!(list(spec, "clusterIPs")), "may not change once set");
            }),
            _ => {}
        }
        let (first, old) = (list(spec, "ipFamilies").first(), list(before, "ipFamilies").first());
        if let (Some(new), Some(old)) = (first, old)
            && new != old
        {
            let shown = new.to_string();
            errors.at_index("ipFamilies", 0, |errors| {
                errors.push(Fault::Invalid, "", shown, "may not change once set");
            });
        }
    });
}

fn ingress(balancer: &Object, errors: &mut Errors) {
    each(balancer, "ingress", errors, |ingress, errors| {
        let (address, name) = (text(ingress, "ip"), text(ingress, "hostname"));
        if !address.is_empty() {
            malformed("ip", address, names::ip(address), errors);
            must_be(ingress, "ipMode", &["VIP", "Proxy"], errors);
        } else if is_set(ingress, "ipMode") {
            errors.forbidden("ipMode", "may not be specified when `ip` is not set");
        }
        if !name.is_empty() {
            malformed("hostname", name, names::subdomain(name, false), errors);
            if name.parse::<std::net::IpAddr>().is_ok() {
                errors.invalid_str("hostname", name, "must be a DNS name, not an IP address");
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::testing::*, STRATEGY},
        *,
    };

    #[test]
    fn faults_are_found() {
        let with = |spec: Value| json!({"spec": spec});
        let port = |name: &str, number: i64| json!({"name": name, "port": number});
        check(
            &STRATEGY,
            &[
                (with(json!({"ports": [{"port": 80}]})), &[]),
                (with(json!({"clusterIP": "None"})), &[]),
                (with(json!({})), &["Required spec.ports"]),
                (
                    with(json!({"ports": [{"port": 0}]})),
                    &["Invalid spec.ports[0].port", "Invalid spec.ports[0].targetPort"],
                ),
                (with(json!({"ports": [port("a", 80), {"port": 81}]})), &["Required spec.ports[1].name"]),
                (with(json!({"ports": [port("a", 80), port("a", 81)]})), &["Duplicate spec.ports[1].name"]),
                (with(json!({"ports": [port("a", 80), port("b", 80)]})), &["Duplicate spec.ports[1]"]),
                (with(json!({"ports": [port("A", 80)]})), &["Invalid spec.ports[0].name"]),
                (
                    with(json!({"ports": [{"port": 80, "protocol": "ICMP"}]})),
                    &["NotSupported spec.ports[0].protocol"],
                ),
                (
                    with(json!({"ports": [{"port": 80, "nodePort": 30000}]})),
                    &["Forbidden spec.ports[0].nodePort"],
                ),
                (with(json!({"type": "Other", "ports": [{"port": 80}]})), &["NotSupported spec.type"]),
                (with(json!({"type": "ExternalName"})), &["Required spec.externalName"]),
                (with(json!({"type": "ExternalName", "externalName": "a.example."})), &[]),
                (
                    with(
                        json!({"type": "ExternalName", "externalName": "a", "clusterIPs": ["10.0.0.1"], "clusterIP": "10.0.0.1"}),
                    ),
                    &["Forbidden spec.clusterIPs"],
                ),
                (
                    with(json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 80}]})),
                    &["Invalid spec.clusterIPs[0]"],
                ),
                (
                    with(
                        json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"], "ports": [{"port": 80}]}),
                    ),
                    &["Invalid spec.clusterIPs[0]"],
                ),
                (
                    with(json!({"ports": [{"port": 80}], "loadBalancerSourceRanges": ["10.0.0.0/8"]})),
                    &["Forbidden spec.loadBalancerSourceRanges"],
                ),
                (
                    with(
                        json!({"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerSourceRanges": ["x"]}),
                    ),
                    &["Invalid spec.loadBalancerSourceRanges[0]"],
                ),
                (
                    with(json!({"ports": [{"port": 80}], "sessionAffinity": "Sticky"})),
                    &["NotSupported spec.sessionAffinity"],
                ),
                (
                    with(json!({"ports": [{"port": 80}], "externalTrafficPolicy": "Local"})),
                    &["Invalid spec.externalTrafficPolicy"],
                ),
                (
                    with(json!({"ports": [{"port": 80}], "externalIPs": ["127.0.0.1"]})),
                    &["Invalid spec.externalIPs[0]"],
                ),
                (
                    with(json!({"ports": [{"port": 80}], "selector": {"a b": "c"}})),
                    &["Invalid spec.selector"],
                ),
            ],
        );
    }

    #[test]
    fn the_first_address_stays() {
        let with = |addresses: &[&str]| json!({"spec": {"clusterIPs": addresses, "ports": [{"port": 80}]}});
        let faults = |old: &[&str], new: &[&str]| change_faults(&STRATEGY, with(old), with(new), None);
        assert_eq!(faults(&["10.0.0.1"], &["10.0.0.2"]), ["Invalid spec.clusterIPs[0]"]);
        assert_eq!(faults(&["10.0.0.1"], &[]), ["Invalid spec.clusterIPs[0]"]);
        assert_eq!(faults(&["10.0.0.1"], &["10.0.0.1", "2001:db8::1"]), [""; 0]);
        let external = json!({"spec": {"type": "ExternalName", "externalName": "a"}});
        assert_eq!(change_faults(&STRATEGY, external, with(&["10.0.0.2"]), None), [""; 0]);
    }
}
