//! Network policies: which pods may talk to which.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{self, Object},
};

use super::{
    checks::{cidr, defaults_in, selector},
    fields::{each, int, is_set, list, map, one_of, port_or_name, text, texts, within},
};
use crate::resources::{Generation, Strategy};

pub(crate) const STRATEGY: Strategy =
    Strategy { default, validate, generation: Generation::COUNTED, ..Strategy::PLAIN };

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const TYPES: &[&str] = &["Egress", "Ingress"];

fn default(policy: &mut Object) {
    for direction in ["ingress", "egress"] {
        defaults_in(policy, &["spec", direction, "ports"], json!({"protocol": "TCP"}));
    }
    let spec = object::child_mut(policy, "spec");
    if list(spec, "policyTypes").is_empty() {
        let types = match list(spec, "egress").is_empty() {
            true => json!(["Ingress"]),
            false => json!(["Ingress", "Egress"]),
        };
        spec.insert("policyTypes".to_owned(), types);
    }
}

fn validate(policy: &Object, errors: &mut Errors) {
    within(policy, "spec", errors, |spec, errors| {
        selector(spec, "podSelector", errors);
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            each(spec, direction, errors, |rule, errors| {
                each(rule, "ports", errors, check_port);
                each(rule, peers, errors, check_peer);
            });
        }
        if list(spec, "policyTypes").len() > TYPES.len() {
            let shown = json!(list(spec, "policyTypes"));
            return errors.invalid("policyTypes", &shown, "may not specify more than two policyTypes");
        }
        for (index, kind) in texts(spec, "policyTypes").filter(|(_, kind)| !TYPES.contains(kind)) {
            errors.at_index("policyTypes", index, |errors| errors.not_supported("", kind, TYPES));
        }
    });
}

fn check_port(entry: &Object, errors: &mut Errors) {
    one_of(entry, "protocol", PROTOCOLS, errors);
    let end = int(entry, "endPort");
    match entry.get("port") {
        None | Some(Value::Null) => {
            if let Some(end) = end {
                errors.invalid("endPort", &end.into(), "may not be specified when `port` is not specified");
            }
        }
        Some(port) => {
            port_or_name(entry, "port", errors);
            match (end, port.as_i64()) {
                (Some(end), None) => {
                    errors.invalid("endPort", &end.into(), "may not be specified when `port` is non-numeric");
                }
                (Some(end), Some(port)) if end < port => {
                    errors.invalid("endPort", &end.into(), "must be greater than or equal to `port`");
                }
                _ => super::fields::port(entry, "endPort", errors),
            }
        }
    }
}

fn check_peer(peer: &Object, errors: &mut Errors) {
    let selects = is_set(peer, "podSelector") || is_set(peer, "namespaceSelector");
    selector(peer, "podSelector", errors);
    selector(peer, "namespaceSelector", errors);
    match map(peer, "ipBlock") {
        None if !selects => errors.required("", "must specify a peer"),
        Some(_) if selects => errors.forbidden("", "may not specify both ipBlock and another peer"),
        Some(block) => errors.at("ipBlock", |errors| check_block(block, errors)),
        None => {}
    }
}

fn check_block(block: &Object, errors: &mut Errors) {
    if text(block, "cidr").is_empty() {
        return errors.required("cidr", "");
    }
    let Some(range) = cidr("cidr", text(block, "cidr"), errors) else { return };
    for (index, value) in texts(block, "except") {
        errors.at_index("except", index, |errors| {
            let Some(except) = cidr("", value, errors) else { return };
            if !range.contains(&except) || range.prefix_len() >= except.prefix_len() {
                errors.invalid_str("", value, format!("must be a strict subset of `cidr`: {range}"));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn types_follow_the_rules() {
        for (spec, expected) in [
            (json!({}), json!({"policyTypes": ["Ingress"]})),
            (json!({"egress": [{}]}), json!({"egress": [{}], "policyTypes": ["Ingress", "Egress"]})),
            (
                json!({"policyTypes": ["Egress"], "egress": [{"ports": [{"port": 1}]}]}),
                json!({"policyTypes": ["Egress"], "egress": [{"ports": [{"port": 1, "protocol": "TCP"}]}]}),
            ),
        ] {
            assert_eq!(defaulted(&STRATEGY, json!({"spec": spec}))["spec"], expected);
        }
    }

    #[test]
    fn faults_are_found() {
        let from = |peer: Value| json!({"spec": {"ingress": [{"from": [peer]}]}});
        let port = |port: Value| json!({"spec": {"egress": [{"ports": [port]}]}});
        check(
            &STRATEGY,
            &[
                (json!({"spec": {"podSelector": {}}}), &[]),
                (from(json!({"podSelector": {}, "namespaceSelector": {}})), &[]),
                (from(json!({})), &["Required spec.ingress[0].from[0]"]),
                (
                    from(json!({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}})),
                    &["Forbidden spec.ingress[0].from[0]"],
                ),
                (from(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}})), &[]),
                (
                    from(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}})),
                    &["Invalid spec.ingress[0].from[0].ipBlock.except[0]"],
                ),
                (from(json!({"ipBlock": {"cidr": "x"}})), &["Invalid spec.ingress[0].from[0].ipBlock.cidr"]),
                (port(json!({"port": "http"})), &[]),
                (port(json!({"port": 0})), &["Invalid spec.egress[0].ports[0].port"]),
                (port(json!({"port": 80, "endPort": 70})), &["Invalid spec.egress[0].ports[0].endPort"]),
                (port(json!({"endPort": 70})), &["Invalid spec.egress[0].ports[0].endPort"]),
                (port(json!({"protocol": "X"})), &["NotSupported spec.egress[0].ports[0].protocol"]),
                (json!({"spec": {"policyTypes": ["Both"]}}), &["NotSupported spec.policyTypes[0]"]),
            ],
        );
    }
}
