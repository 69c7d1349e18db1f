//! Services: a stable address for a set of pods.
//!
//! Addresses and node ports are allocated by admission, before any of this looks at them.

mod validation;

use serde_json::json;
use windlass_machinery::{
    names,
    object::{self, Object, default_to},
};

use super::{
    checks::{defaults, visit},
    fields::{list, map, maps_mut, text},
};
use crate::resources::Strategy;

pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: super::checks::no_status,
    prepare_update,
    validate: validation::validate,
    validate_update: validation::validate_update,
    name: names::label_1035,
    warn,
    create_on_update: true,
    returns_deleted: true,
    ..Strategy::PLAIN
};

/// Whether a service of this type has an address of its own.
fn has_address(spec: &Object) -> bool {
    matches!(text(spec, "type"), "ClusterIP" | "NodePort" | "LoadBalancer")
}

/// Whether anything outside the cluster reaches it.
fn is_external(spec: &Object) -> bool {
    match text(spec, "type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !list(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

/// Whether its health is asked for at a port of its own.
fn has_health_port(spec: &Object) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn default(service: &mut Object) {
    let spec = object::child_mut(service, "spec");
    defaults(spec, json!({"sessionAffinity": "None", "type": "ClusterIP"}));
    match text(spec, "sessionAffinity") {
        "ClientIP" => {
            defaults(spec, json!({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}))
        }
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        _ => {}
    }
    for port in maps_mut(spec, "ports") {
        default_port(port);
    }
    if is_external(spec) {
        defaults(spec, json!({"externalTrafficPolicy": "Cluster"}));
    }
    if has_address(spec) {
        defaults(spec, json!({"internalTrafficPolicy": "Cluster"}));
    }
    if text(spec, "type") == "LoadBalancer" {
        defaults(spec, json!({"allocateLoadBalancerNodePorts": true}));
    }
}

fn default_port(port: &mut Object) {
    defaults(port, json!({"protocol": "TCP"}));
    let target = port.get("targetPort");
    if target.is_none_or(|target| *target == json!(0) || *target == json!("") || target.is_null())
        && let Some(number) = port.get("port").cloned()
    {
        port.insert("targetPort".to_owned(), number);
    }
}

/// What has no address of its own has no use for some fields.
fn warn(service: &Object, warnings: &mut Vec<String>) {
    let Some(spec) = map(service, "spec").filter(|spec| text(spec, "clusterIP") == "None") else { return };
    let ignored = [
        ("loadBalancerIP", !text(spec, "loadBalancerIP").is_empty()),
        ("externalIPs", !list(spec, "externalIPs").is_empty()),
        ("SessionAffinity", text(spec, "sessionAffinity") != "None"),
    ];
    for (field, _) in ignored.into_iter().filter(|row| row.1) {
        warnings.push(format!("spec.{field} is ignored for headless services"));
    }
}

fn prepare_update(new: &mut Object, old: &Object, part: Option<&str>) {
    match part {
        None => forget_external_name(new, old),
        Some(_) => visit(new, &["status", "loadBalancer", "ingress"], &mut |ingress| {
            if !text(ingress, "ip").is_empty() {
                default_to(ingress, "ipMode", "VIP");
            }
        }),
    }
}

/// The name goes with its type, unless the update sets another one.
fn forget_external_name(new: &mut Object, old: &Object) {
    let path = &["spec", "externalName"];
    let is_named = |service: &Object| object::str_at(service, &["spec", "type"]) == Some("ExternalName");
    if is_named(old) && !is_named(new) && object::at(new, path) == object::at(old, path) {
        object::set_at(new, path, None);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn defaults_follow_the_type() {
        let ports = json!([{"port": 80}]);
        let full = json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]);
        for (spec, expected) in [
            (
                json!({"ports": ports}),
                json!({
                    "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                    "ports": full
                }),
            ),
            (
                json!({"type": "LoadBalancer", "ports": ports}),
                json!({
                    "type": "LoadBalancer", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                    "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true, "ports": full
                }),
            ),
            (
                json!({"type": "ExternalName", "externalName": "a.b"}),
                json!({"type": "ExternalName", "sessionAffinity": "None", "externalName": "a.b"}),
            ),
            (
                json!({"clusterIP": "None", "sessionAffinity": "ClientIP"}),
                json!({
                    "type": "ClusterIP", "clusterIP": "None",
                    "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Cluster",
                    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}
                }),
            ),
        ] {
            assert_eq!(defaulted(&STRATEGY, json!({"spec": spec}))["spec"], expected);
        }
    }

    #[test]
    fn an_external_name_goes_with_its_type() {
        let old = json!({"spec": {"type": "ExternalName", "externalName": "a"}});
        let new = json!({"spec": {"type": "ClusterIP", "externalName": "a", "ports": [{"port": 80}]}});
        assert_eq!(updated(&STRATEGY, old, new, None)["spec"]["externalName"], serde_json::Value::Null);
    }

    #[test]
    fn addresses_of_balancers_are_virtual_unless_they_say_otherwise() {
        let status =
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "a"}]}}});
        let ingress =
            &updated(&STRATEGY, json!({}), status, Some("status"))["status"]["loadBalancer"]["ingress"];
        assert_eq!(ingress, &json!([{"ip": "10.0.0.1", "ipMode": "VIP"}, {"hostname": "a"}]));
    }
}
