//! Ingresses and their classes: how requests from outside find a service.

use std::net::IpAddr;

use serde_json::json;
use windlass_machinery::{
    field::Errors,
    names,
    object::{self, Object},
};

use super::{
    checks::{defaults_in, immutable, must_be_named, named},
    fields::{each, int, is_set, list, malformed, map, one_of, port, required, text, texts, within},
};
use crate::resources::{Generation, Strategy};

pub(crate) const INGRESS: Strategy = Strategy {
    prepare_create: super::checks::no_status,
    validate,
    warn,
    generation: Generation::COUNTED,
    ..Strategy::PLAIN
};

pub(crate) const CLASS: Strategy = Strategy {
    default: |class| defaults_in(class, &["spec", "parameters"], json!({"scope": "Cluster"})),
    validate: validate_class,
    validate_update: |new, old, _, errors| immutable(new, old, &["spec.controller"], errors),
    generation: Generation::COUNTED,
    ..Strategy::PLAIN
};

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
/// What a path may not have inside, and at its end.
const NOT_INSIDE: &[&str] = &["//", "/./", "/../", "%2f", "%2F"];
const NOT_AT_END: &[&str] = &["/..", "/."];
const MOST_CONTROLLER: usize = 250;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

fn warn(ingress: &Object, warnings: &mut Vec<String>) {
    if object::at(ingress, &["metadata", "annotations", CLASS_ANNOTATION]).is_some() {
        warnings.push(format!(
            "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        ));
    }
}

fn validate(ingress: &Object, errors: &mut Errors) {
    within(ingress, "spec", errors, |spec, errors| {
        if list(spec, "rules").is_empty() && !is_set(spec, "defaultBackend") {
            errors.invalid("", &json!([]), "either `defaultBackend` or `rules` must be specified");
        }
        if let Some(backend) = map(spec, "defaultBackend") {
            errors.at("defaultBackend", |errors| check_backend(backend, errors));
        }
        each(spec, "rules", errors, check_rule);
        each(spec, "tls", errors, |tls, errors| {
            for (index, host) in texts(tls, "hosts") {
                errors.at_index("hosts", index, |errors| check_host("", host, errors));
            }
            named(tls, "secretName", names::subdomain, errors);
        });
        named(spec, "ingressClassName", names::subdomain, errors);
    });
}

fn check_host(field: &str, host: &str, errors: &mut Errors) {
    match host.contains('*') {
        true => malformed(field, host, names::wildcard_subdomain(host), errors),
        false => malformed(field, host, names::subdomain(host, false), errors),
    }
}

fn check_rule(rule: &Object, errors: &mut Errors) {
    let host = text(rule, "host");
    if !host.is_empty() {
        if host.parse::<IpAddr>().is_ok() {
            errors.invalid_str("host", host, "must be a DNS name, not an IP address");
        }
        check_host("host", host, errors);
    }
    if let Some(http) = map(rule, "http") {
        errors.at("http", |errors| {
            if list(http, "paths").is_empty() {
                errors.required("paths", "");
            }
            each(http, "paths", errors, check_path);
        });
    }
}

fn check_path(entry: &Object, errors: &mut Errors) {
    let path = text(entry, "path");
    match text(entry, "pathType") {
        "" => errors.required("pathType", "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                errors.invalid_str("path", path, "must be an absolute path");
            }
            for part in NOT_INSIDE.iter().filter(|part| path.contains(*part)) {
                errors.invalid_str("path", path, format!("must not contain '{part}'"));
            }
            for end in NOT_AT_END.iter().filter(|end| path.ends_with(*end)) {
                errors.invalid_str("path", path, format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.starts_with('/') {
                errors.invalid_str("path", path, "must be an absolute path");
            }
        }
        other => errors.not_supported("pathType", other, PATH_TYPES),
    }
    within(entry, "backend", errors, check_backend);
}

fn check_backend(backend: &Object, errors: &mut Errors) {
    match (map(backend, "service"), map(backend, "resource")) {
        (Some(_), Some(_)) => errors.invalid_str("", "", "cannot set both resource and service backends"),
        (None, None) => errors.invalid_str("", "", "resource or service backend is required"),
        (None, Some(resource)) => errors.at("resource", |errors| {
            required(resource, &["kind", "name"], errors);
            named(resource, "apiGroup", names::subdomain, errors);
        }),
        (Some(service), None) => errors.at("service", |errors| {
            must_be_named(service, "name", names::label_1035, errors);
            within(service, "port", errors, check_service_port);
        }),
    }
}

fn check_service_port(entry: &Object, errors: &mut Errors) {
    let (name, number) = (text(entry, "name"), int(entry, "number").unwrap_or(0));
    match (name.is_empty(), number == 0) {
        (true, true) => errors.required("", "port name or number is required"),
        (false, false) => errors.invalid_str("", "", "cannot set both port name & port number"),
        (false, true) => malformed("name", name, names::port_name(name), errors),
        (true, false) => port(entry, "number", errors),
    }
}

fn validate_class(class: &Object, errors: &mut Errors) {
    within(class, "spec", errors, |spec, errors| {
        let controller = text(spec, "controller");
        if controller.is_empty() {
            errors.required("controller", "");
        } else if controller.len() > MOST_CONTROLLER {
            errors.too_long("controller", MOST_CONTROLLER);
        } else {
            check_domain_path("controller", controller, errors);
        }
        if let Some(parameters) = map(spec, "parameters") {
            errors.at("parameters", |errors| check_parameters(parameters, errors));
        }
    });
}

/// A domain, a slash and a path.
fn check_domain_path(field: &str, value: &str, errors: &mut Errors) {
    match value.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            malformed(field, value, names::subdomain(domain, false), errors);
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.invalid_str(field, value, detail);
        }
    }
}

fn check_parameters(parameters: &Object, errors: &mut Errors) {
    named(parameters, "apiGroup", names::subdomain, errors);
    must_be_named(parameters, "kind", names::path_segment, errors);
    must_be_named(parameters, "name", names::path_segment, errors);
    match (text(parameters, "scope"), text(parameters, "namespace")) {
        ("", _) => errors.required("scope", ""),
        ("Namespace", "") => errors.required("namespace", "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", _) => named(parameters, "namespace", names::label, errors),
        ("Cluster", namespace) if !namespace.is_empty() => {
            errors.forbidden("namespace", "`parameters.scope` is set to 'Cluster'");
        }
        _ => one_of(parameters, "scope", &["Cluster", "Namespace"], errors),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{super::testing::*, *};

    fn with(path: Value) -> Value {
        let mut path = path;
        if path.get("backend").is_none() {
            path["backend"] = json!({"service": {"name": "a", "port": {"number": 80}}});
        }
        json!({"spec": {"rules": [{"http": {"paths": [path]}}]}})
    }

    #[test]
    fn faults_of_ingresses_are_found() {
        let path = |kind: &str, path: &str| with(json!({"pathType": kind, "path": path}));
        let to = |backend: Value| with(json!({"pathType": "Prefix", "path": "/", "backend": backend}));
        let at = |host: &str| json!({"spec": {"rules": [{"host": host}], "defaultBackend": {"resource": {"kind": "a", "name": "b"}}}});
        check(
            &INGRESS,
            &[
                (path("Prefix", "/a"), &[]),
                (path("ImplementationSpecific", ""), &[]),
                (json!({}), &["Invalid spec"]),
                (path("", "/a"), &["Required spec.rules[0].http.paths[0].pathType"]),
                (path("Regex", "/a"), &["NotSupported spec.rules[0].http.paths[0].pathType"]),
                (path("Exact", "a"), &["Invalid spec.rules[0].http.paths[0].path"]),
                (path("Prefix", "/a/../b"), &["Invalid spec.rules[0].http.paths[0].path"]),
                (to(json!({})), &["Invalid spec.rules[0].http.paths[0].backend"]),
                (
                    to(json!({"service": {}, "resource": {}})),
                    &["Invalid spec.rules[0].http.paths[0].backend"],
                ),
                (
                    to(json!({"service": {"name": "a"}})),
                    &["Required spec.rules[0].http.paths[0].backend.service.port"],
                ),
                (at("*.example.com"), &[]),
                (at("10.0.0.1"), &["Invalid spec.rules[0].host"]),
                (at("a*.example.com"), &["Invalid spec.rules[0].host"]),
                (json!({"spec": {"rules": [{"http": {}}]}}), &["Required spec.rules[0].http.paths"]),
            ],
        );
    }

    #[test]
    fn faults_of_classes_are_found() {
        let with = |parameters: Value| json!({"spec": {"controller": "a.io/b", "parameters": parameters}});
        assert_eq!(
            defaulted(&CLASS, with(json!({"kind": "A"})))["spec"]["parameters"],
            json!({"kind": "A", "scope": "Cluster"})
        );
        check(
            &CLASS,
            &[
                (with(json!({"kind": "A", "name": "a"})), &[]),
                (json!({}), &["Required spec.controller"]),
                (json!({"spec": {"controller": "a"}}), &["Invalid spec.controller"]),
                (
                    with(json!({"kind": "A", "name": "a", "scope": "Namespace"})),
                    &["Required spec.parameters.namespace"],
                ),
                (
                    with(json!({"kind": "A", "name": "a", "namespace": "n"})),
                    &["Forbidden spec.parameters.namespace"],
                ),
            ],
        );
        let (old, new) = (json!({"spec": {"controller": "a/b"}}), json!({"spec": {"controller": "a/c"}}));
        assert_eq!(change_faults(&CLASS, old, new, None), ["Invalid spec.controller"]);
    }
}
