//! Faults of containers: names, images, ports, mounts, and what only some kinds of containers may have.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_machinery::{field::Errors, names, object::Object};

use super::{Pod, env, probe, resources, security};
use crate::resources::kinds::fields::{
    below, dns_label, each, int, is_set, list, malformed, map, maps, must_be, one_of, port, required, text,
    truth,
};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];

/// Which of the three lists a container is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Main,
    Init,
    Ephemeral,
}

/// Finds faults in the containers and init containers of a pod.
pub(super) fn validate(pod: &Pod<'_>, errors: &mut Errors) {
    if list(pod.spec, "containers").is_empty() {
        errors.required("containers", "");
    }
    let mut names = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    for (field, place) in [("containers", Place::Main), ("initContainers", Place::Init)] {
        // Init containers run one after the other, so they may share host ports with each other.
        each(pod.spec, field, errors, |container, errors| {
            one(pod, container, place, errors);
            unique_name(container, &mut names, errors);
            if place == Place::Main {
                unique_host_ports(container, &mut host_ports, errors);
            }
        });
    }
}

/// Finds faults in the ephemeral containers of a pod.
pub(in crate::resources::kinds) fn validate_ephemeral(spec: &Object, errors: &mut Errors) {
    const FORBIDDEN: [&str; 7] = [
        "ports",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "resizePolicy",
        "restartPolicyRules",
    ];
    let pod = Pod::of(spec, &[]);
    let all = ["containers", "initContainers"].into_iter().flat_map(|field| maps(spec, field));
    let mut names: BTreeSet<String> = all.map(|(_, container)| text(container, "name").to_owned()).collect();
    each(spec, "ephemeralContainers", errors, |container, errors| {
        one(&pod, container, Place::Ephemeral, errors);
        unique_name(container, &mut names, errors);
        for field in FORBIDDEN.into_iter().filter(|field| is_set(container, field)) {
            errors.forbidden(field, "cannot be set for an Ephemeral Container");
        }
        if map(container, "resources").is_some_and(|resources| !resources.is_empty()) {
            errors.forbidden("resources", "cannot be set for an Ephemeral Container");
        }
        let target = text(container, "targetContainerName");
        let known = || ["containers", "initContainers"].into_iter().flat_map(|field| maps(spec, field));
        if !target.is_empty() && !known().any(|(_, container)| text(container, "name") == target) {
            errors.not_found("targetContainerName", &target.into());
        }
        for (index, mount) in maps(container, "volumeMounts") {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    let detail = "cannot be set for an Ephemeral Container";
                    errors.at_index("volumeMounts", index, |errors| errors.forbidden(field, detail));
                }
            }
        }
    });
}

fn unique_name(container: &Object, seen: &mut BTreeSet<String>, errors: &mut Errors) {
    let name = text(container, "name");
    if !name.is_empty() && !seen.insert(name.to_owned()) {
        errors.duplicate("name", &name.into());
    }
}

fn one(pod: &Pod<'_>, container: &Object, place: Place, errors: &mut Errors) {
    dns_label(container, "name", errors);
    required(container, &["image"], errors);
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], errors);
    must_be(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], errors);
    ports(container, truth(pod.spec, "hostNetwork"), errors);
    env::validate(container, errors);
    mounts(pod, container, errors);
    devices(pod, container, errors);
    below(container, "resources", errors, |found, errors| {
        resources::validate(found, &pod.claims, errors);
    });
    below(container, "securityContext", errors, |context, errors| {
        security::validate_container(pod.spec, context, errors);
    });
    resize_policies(container, errors);
    restart(container, place, errors);
    if place != Place::Ephemeral {
        runtime_hooks(pod, container, place, errors);
    }
}

fn restart(container: &Object, place: Place, errors: &mut Errors) {
    if place == Place::Ephemeral {
        if is_set(container, "restartPolicy") {
            errors.forbidden("restartPolicy", "cannot be set for an Ephemeral Container");
        }
        return;
    }
    one_of(container, "restartPolicy", &RESTART_POLICIES, errors);
    if !list(container, "restartPolicyRules").is_empty() && !is_set(container, "restartPolicy") {
        errors.required("restartPolicy", "must specify restartPolicy when restart rules are used");
    }
    each(container, "restartPolicyRules", errors, |rule, errors| {
        must_be(rule, "action", &["Restart", "RestartAllContainers"], errors);
        match map(rule, "exitCodes") {
            None => errors.required("exitCodes", "must be specified"),
            Some(codes) => errors.at("exitCodes", |errors| {
                must_be(codes, "operator", &["In", "NotIn"], errors);
                if list(codes, "values").len() > 255 {
                    errors.too_many("values", list(codes, "values").len(), 255);
                }
            }),
        }
    });
}

fn runtime_hooks(pod: &Pod<'_>, container: &Object, place: Place, errors: &mut Errors) {
    let sidecar = text(container, "restartPolicy") == "Always";
    if place == Place::Init && !sidecar {
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if is_set(container, field) {
                errors.forbidden(field, "may not be set for init containers without restartPolicy=Always");
            }
        }
        return;
    }
    let grace = int(pod.spec, "terminationGracePeriodSeconds").unwrap_or(30);
    below(container, "lifecycle", errors, |lifecycle, errors| {
        for hook in ["postStart", "preStop"] {
            below(lifecycle, hook, errors, |handler, errors| {
                probe::handler(handler, &probe::HOOKS, grace, errors);
            });
        }
    });
    for field in PROBES {
        below(container, field, errors, |found, errors| probe::validate(field, found, grace, errors));
    }
}

fn ports(container: &Object, host_network: bool, errors: &mut Errors) {
    let mut names_seen = BTreeSet::new();
    each(container, "ports", errors, |entry, errors| {
        let name = text(entry, "name");
        if !name.is_empty() {
            let faults = names::port_name(name);
            let good = faults.is_empty();
            malformed("name", name, faults, errors);
            if good && !names_seen.insert(name.to_owned()) {
                errors.duplicate("name", &name.into());
            }
        }
        let number = int(entry, "containerPort").unwrap_or_default();
        match number {
            0 => errors.required("containerPort", ""),
            _ => port(entry, "containerPort", errors),
        }
        let host = int(entry, "hostPort").unwrap_or_default();
        if host != 0 {
            port(entry, "hostPort", errors);
            if host_network && host != number {
                let detail = "must match `hostPort` when `hostNetwork` is true";
                errors.invalid("containerPort", &number.into(), detail);
            }
        }
        must_be(entry, "protocol", &["SCTP", "TCP", "UDP"], errors);
    });
}

fn unique_host_ports(container: &Object, seen: &mut BTreeSet<String>, errors: &mut Errors) {
    each(container, "ports", errors, |entry, errors| {
        let Some(host) = int(entry, "hostPort").filter(|host| *host != 0) else { return };
        let shown = format!("{}/{}/{host}", text(entry, "protocol"), text(entry, "hostIP"));
        if !seen.insert(shown.clone()) {
            errors.duplicate("hostPort", &shown.into());
        }
    });
}

fn mounts(pod: &Pod<'_>, container: &Object, errors: &mut Errors) {
    let mut paths = BTreeSet::new();
    let privileged = map(container, "securityContext").is_some_and(|context| truth(context, "privileged"));
    each(container, "volumeMounts", errors, |mount, errors| {
        let name = text(mount, "name");
        if name.is_empty() {
            errors.required("name", "");
        } else if !pod.volumes.contains_key(name) {
            errors.not_found("name", &name.into());
        }
        let path = text(mount, "mountPath");
        if path.is_empty() {
            errors.required("mountPath", "");
        } else if !paths.insert(path.to_owned()) {
            errors.invalid_str("mountPath", path, "must be unique");
        }
        for field in ["subPath", "subPathExpr"] {
            inner_path(mount, field, errors);
        }
        if !text(mount, "subPath").is_empty() && !text(mount, "subPathExpr").is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.invalid_str("subPathExpr", text(mount, "subPathExpr"), detail);
        }
        one_of(mount, "mountPropagation", &["Bidirectional", "HostToContainer", "None"], errors);
        if text(mount, "mountPropagation") == "Bidirectional" && !privileged {
            let detail = "Bidirectional mount propagation is available only to privileged containers";
            errors.forbidden("mountPropagation", detail);
        }
        one_of(mount, "recursiveReadOnly", &["Disabled", "Enabled", "IfPossible"], errors);
        if ["Enabled", "IfPossible"].contains(&text(mount, "recursiveReadOnly")) && !truth(mount, "readOnly")
        {
            errors.forbidden("recursiveReadOnly", "may only be specified when readOnly is true");
        }
    });
}

/// The path under `field`, if any, must stay below where it starts.
pub(super) fn inner_path(object: &Object, field: &str, errors: &mut Errors) {
    let path = text(object, field);
    if path.starts_with('/') {
        errors.invalid_str(field, path, "must be a relative path");
    }
    no_way_up(field, path, errors);
}

/// No step of the path may lead upwards.
pub(super) fn no_way_up(field: &str, path: &str, errors: &mut Errors) {
    if path.split('/').any(|step| step == "..") {
        errors.invalid_str(field, path, "must not contain '..'");
    }
}

fn devices(pod: &Pod<'_>, container: &Object, errors: &mut Errors) {
    let mounted: BTreeSet<&str> =
        maps(container, "volumeMounts").map(|(_, mount)| text(mount, "name")).collect();
    let mut seen = BTreeSet::new();
    let mut paths = BTreeSet::new();
    each(container, "volumeDevices", errors, |device, errors| {
        let name = text(device, "name");
        if !required(device, &["name", "devicePath"], errors) {
            return;
        }
        match pod.volumes.get(name) {
            None => errors.not_found("name", &name.into()),
            Some(false) => errors.invalid_str(
                "name",
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            ),
            Some(true) if mounted.contains(name) => {
                errors.invalid_str("name", name, "must not already exist in volumeMounts");
            }
            Some(true) if !seen.insert(name.to_owned()) => errors.invalid_str("name", name, "must be unique"),
            Some(true) => {}
        }
        let path = text(device, "devicePath");
        if !paths.insert(path.to_owned()) {
            errors.invalid_str("devicePath", path, "must be unique");
        }
        no_way_up("devicePath", path, errors);
    });
}

fn resize_policies(container: &Object, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    each(container, "resizePolicy", errors, |policy, errors| {
        let name = text(policy, "resourceName");
        if !seen.insert(name.to_owned()) {
            errors.duplicate("", &Value::Object(policy.clone()));
        }
        must_be(policy, "resourceName", &["cpu", "memory"], errors);
        must_be(policy, "restartPolicy", &["NotRequired", "RestartContainer"], errors);
    });
}
