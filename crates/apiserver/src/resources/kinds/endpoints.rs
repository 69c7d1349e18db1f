//! Endpoints and endpoint slices: where the pods behind a service are reached.

use std::net::IpAddr;

use serde_json::json;
use windlass_machinery::{field::Errors, names, object::Object};

use super::{
    checks::{defaults_in, immutable, named, reachable, unique_by},
    fields::{
        dns_label, each, is_set, list, malformed, maps, maps_mut, must_be, port, qualified, text, texts,
        within,
    },
};
use crate::resources::{Generation, Strategy};

pub(crate) const ENDPOINTS: Strategy = Strategy {
    default: |endpoints| defaults_in(endpoints, &["subsets", "ports"], json!({"protocol": "TCP"})),
    validate: validate_endpoints,
    warn: |_, warnings| {
        warnings
            .push("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned());
    },
    create_on_update: true,
    ..Strategy::PLAIN
};

pub(crate) const SLICE: Strategy = Strategy {
    default: |slice| defaults_in(slice, &["ports"], json!({"name": "", "protocol": "TCP"})),
    prepare_create: drop_topology,
    prepare_update: |slice, old, _| {
        if !has_topology(old) {
            drop_topology(slice);
        }
    },
    validate: validate_slice,
    validate_update: |new, old, _, errors| immutable(new, old, &["addressType"], errors),
    generation: Generation::Counted { first: 1, metadata: &["labels"] },
    ..Strategy::PLAIN
};

/// An older field, which is no longer taken from those who do not have it yet.
const TOPOLOGY: &str = "deprecatedTopology";

fn drop_topology(slice: &mut Object) {
    for endpoint in maps_mut(slice, "endpoints") {
        endpoint.remove(TOPOLOGY);
    }
}

fn has_topology(slice: &Object) -> bool {
    maps(slice, "endpoints").any(|(_, endpoint)| is_set(endpoint, TOPOLOGY))
}

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const ADDRESS_TYPES: &[&str] = &["FQDN", "IPv4", "IPv6"];
const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_PORTS: usize = 20_000;
const MOST_HINTS: usize = 8;

fn validate_endpoints(endpoints: &Object, errors: &mut Errors) {
    each(endpoints, "subsets", errors, |subset, errors| {
        if list(subset, "addresses").is_empty() && list(subset, "notReadyAddresses").is_empty() {
            errors.required("", "must specify `addresses` or `notReadyAddresses`");
        }
        for field in ["addresses", "notReadyAddresses"] {
            each(subset, field, errors, |address, errors| {
                reachable("ip", text(address, "ip"), errors);
                named(address, "hostname", names::label, errors);
                named(address, "nodeName", names::subdomain, errors);
            });
        }
        let several = list(subset, "ports").len() > 1;
        each(subset, "ports", errors, |entry, errors| {
            if several || !text(entry, "name").is_empty() {
                dns_label(entry, "name", errors);
            }
            check_port(entry, errors);
        });
    });
}

fn check_port(entry: &Object, errors: &mut Errors) {
    port(entry, "port", errors);
    must_be(entry, "protocol", PROTOCOLS, errors);
    if !text(entry, "appProtocol").is_empty() {
        qualified("appProtocol", text(entry, "appProtocol"), errors);
    }
}

fn validate_slice(slice: &Object, errors: &mut Errors) {
    must_be(slice, "addressType", ADDRESS_TYPES, errors);
    let n_endpoints = list(slice, "endpoints").len();
    if n_endpoints > MOST_ENDPOINTS {
        return errors.too_many("endpoints", n_endpoints, MOST_ENDPOINTS);
    }
    each(slice, "endpoints", errors, |endpoint, errors| {
        check_addresses(endpoint, text(slice, "addressType"), errors);
        named(endpoint, "hostname", names::label, errors);
        named(endpoint, "nodeName", names::subdomain, errors);
        if is_set(endpoint, "deprecatedTopology") && !text(endpoint, "nodeName").is_empty() {
            super::fields::labels(endpoint, "deprecatedTopology", errors);
        }
        check_hints(endpoint, errors);
    });
    let n_ports = list(slice, "ports").len();
    if n_ports > MOST_PORTS {
        return errors.too_many("ports", n_ports, MOST_PORTS);
    }
    unique_by(slice, "ports", "name", errors);
    each(slice, "ports", errors, |entry, errors| {
        named(entry, "name", names::label, errors);
        check_port(entry, errors);
    });
}

fn check_addresses(endpoint: &Object, kind: &str, errors: &mut Errors) {
    match list(endpoint, "addresses").len() {
        0 => errors.required("addresses", "must contain at least 1 address"),
        n if n > MOST_ADDRESSES => errors.too_many("addresses", n, MOST_ADDRESSES),
        _ => {}
    }
    for (index, address) in texts(endpoint, "addresses").take(MOST_ADDRESSES) {
        errors.at_index("addresses", index, |errors| match kind {
            "FQDN" => malformed("", address, names::subdomain(address.trim_end_matches('.'), false), errors),
            "IPv4" if matches!(reachable("", address, errors), Some(IpAddr::V6(_))) => {
                errors.invalid_str("", address, "must be an IPv4 address");
            }
            "IPv6" if matches!(reachable("", address, errors), Some(IpAddr::V4(_))) => {
                errors.invalid_str("", address, "must be an IPv6 address");
            }
            _ => {}
        });
    }
}

/// Hints say which zones or nodes should use an endpoint.
fn check_hints(endpoint: &Object, errors: &mut Errors) {
    within(endpoint, "hints", errors, |hints, errors| {
        for field in ["forZones", "forNodes"] {
            let n_hints = list(hints, field).len();
            if n_hints > MOST_HINTS {
                errors.too_many(field, n_hints, MOST_HINTS);
                continue;
            }
            unique_by(hints, field, "name", errors);
            each(hints, field, errors, |hint, errors| {
                let name = text(hint, "name");
                match name.is_empty() {
                    true => errors.required("name", ""),
                    false => malformed("name", name, names::label_value(name), errors),
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{super::testing::*, *};

    #[test]
    fn ports_are_tcp_unless_they_say_otherwise() {
        assert_eq!(
            defaulted(&ENDPOINTS, json!({"subsets": [{"ports": [{"port": 1}]}]})),
            json!({"subsets": [{"ports": [{"port": 1, "protocol": "TCP"}]}]})
        );
        assert_eq!(
            defaulted(&SLICE, json!({"addressType": "IPv4", "ports": [{"port": 1}]})),
            json!({"addressType": "IPv4", "ports": [{"name": "", "port": 1, "protocol": "TCP"}]})
        );
    }

    #[test]
    fn faults_of_endpoints_are_found() {
        let with = |address: &str| json!({"subsets": [{"addresses": [{"ip": address}]}]});
        let ports =
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}, {"port": 2}]}]});
        check(
            &ENDPOINTS,
            &[
                (with("10.0.0.1"), &[]),
                (with("x"), &["Invalid subsets[0].addresses[0].ip"]),
                (with("127.0.0.1"), &["Invalid subsets[0].addresses[0].ip"]),
                (json!({"subsets": [{}]}), &["Required subsets[0]"]),
                (ports, &["Required subsets[0].ports[0].name", "Required subsets[0].ports[1].name"]),
            ],
        );
    }

    #[test]
    fn faults_of_slices_are_found() {
        let with =
            |kind: &str, address: &str| json!({"addressType": kind, "endpoints": [{"addresses": [address]}]});
        let many = |n: usize| -> Value { json!(vec![json!({"addresses": ["10.0.0.1"]}); n]) };
        let twice = json!({"addressType": "IPv4", "ports": [{"name": "a"}, {"name": "a"}]});
        check(
            &SLICE,
            &[
                (with("IPv4", "10.0.0.1"), &[]),
                (with("FQDN", "a.example"), &[]),
                (with("IPv4", "2001:db8::1"), &["Invalid endpoints[0].addresses[0]"]),
                (with("IPv6", "fe80::1"), &["Invalid endpoints[0].addresses[0]"]),
                (json!({}), &["Required addressType"]),
                (json!({"addressType": "IPX"}), &["NotSupported addressType"]),
                (json!({"addressType": "IPv4", "endpoints": [{}]}), &["Required endpoints[0].addresses"]),
                (json!({"addressType": "IPv4", "endpoints": many(1000)}), &[]),
                (json!({"addressType": "IPv4", "endpoints": many(1001)}), &["TooMany endpoints"]),
                (
                    json!({"addressType": "IPv4", "endpoints": [{"addresses": vec!["10.0.0.1"; 101]}]}),
                    &["TooMany endpoints[0].addresses"],
                ),
                (twice, &["Duplicate ports[1].name"]),
            ],
        );
    }

    #[test]
    fn the_address_type_stays() {
        let (old, new) = (json!({"addressType": "IPv4"}), json!({"addressType": "IPv6"}));
        assert_eq!(change_faults(&SLICE, old, new, None), ["Invalid addressType"]);
    }
}
