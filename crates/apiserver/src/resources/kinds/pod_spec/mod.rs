//! Pod specs: what pods and the templates of pods have in common.
//!
//! [`defaults`] fills them in; [`validate`] and [`validate_template`] find what is wrong with them.

mod container;
pub(super) mod defaults;
mod env;
mod probe;
pub(super) mod resources;
mod scheduling;
mod security;
pub(super) mod volume;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use windlass_machinery::{field::Errors, names, object::Object};

pub(super) use self::container::validate_ephemeral;
use super::fields::{
    below, dns_label, each, int, is_set, labels, list, malformed, map, maps, must_be, one_of, qualified,
    subdomain, text, texts, truth, within,
};

/// The fields of a volume that say where its files come from.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "projected",
    "portworxVolume",
    "scaleIO",
    "storageos",
    "csi",
    "ephemeral",
    "image",
];

/// Most seconds a deadline may have.
const MOST_SECONDS: i64 = i32::MAX as i64;

/// What the containers of one pod refer to.
struct Pod<'a> {
    spec: &'a Object,
    /// Volumes by name, and whether they can be block devices.
    volumes: BTreeMap<&'a str, bool>,
    claims: Vec<&'a str>,
}

/// Finds faults in a pod template. `claims` are the names of volumes that come from outside of it.
pub(super) fn validate_template(template: &Object, claims: &[&str], errors: &mut Errors) {
    within(template, "metadata", errors, |metadata, errors| {
        labels(metadata, "labels", errors);
        for key in map(metadata, "annotations").into_iter().flatten().map(|(key, _)| key) {
            qualified("annotations", &key.to_lowercase(), errors);
        }
    });
    within(template, "spec", errors, |spec, errors| {
        validate(spec, claims, errors);
        if !list(spec, "ephemeralContainers").is_empty() {
            errors.forbidden("ephemeralContainers", "ephemeral containers not allowed in pod template");
        }
    });
}

/// Finds faults in a pod spec, without its ephemeral containers.
pub(super) fn validate(spec: &Object, claims: &[&str], errors: &mut Errors) {
    let pod = Pod::of(spec, claims);
    volume::validate(spec, errors);
    validate_claims(spec, errors);
    container::validate(&pod, errors);
    must_be(spec, "restartPolicy", &["Always", "OnFailure", "Never"], errors);
    validate_dns(spec, errors);
    validate_names(spec, errors);
    scheduling::validate(spec, errors);
    within(spec, "securityContext", errors, |context, errors| security::validate_pod(spec, context, errors));
    if let Some(seconds) = int(spec, "activeDeadlineSeconds").filter(|s| !(1..=MOST_SECONDS).contains(s)) {
        let detail = format!("must be between 1 and {MOST_SECONDS}, inclusive");
        errors.invalid("activeDeadlineSeconds", &seconds.into(), detail);
    }
    each(spec, "hostAliases", errors, |alias, errors| {
        let ip = text(alias, "ip");
        malformed("ip", ip, names::ip(ip), errors);
        for (index, host) in texts(alias, "hostnames") {
            malformed(&format!("hostnames[{index}]"), host, names::subdomain(host, false), errors);
        }
    });
    one_of(spec, "preemptionPolicy", &["Never", "PreemptLowerPriority"], errors);
    below(spec, "os", errors, |os, errors| must_be(os, "name", &["linux", "windows"], errors));
    below(spec, "resources", errors, |resources, errors| {
        resources::validate_pod_level(spec, resources, errors);
    });
}

impl<'a> Pod<'a> {
    fn of(spec: &'a Object, claims: &[&'a str]) -> Self {
        let mut volumes: BTreeMap<&str, bool> = claims.iter().map(|name| (*name, true)).collect();
        for (_, volume) in maps(spec, "volumes") {
            let block = is_set(volume, "persistentVolumeClaim") || is_set(volume, "ephemeral");
            volumes.insert(text(volume, "name"), block);
        }
        let claims = maps(spec, "resourceClaims").map(|(_, claim)| text(claim, "name")).collect();
        Pod { spec, volumes, claims }
    }
}

fn validate_claims(spec: &Object, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    each(spec, "resourceClaims", errors, |claim, errors| {
        let name = text(claim, "name");
        if dns_label(claim, "name", errors) && !seen.insert(name.to_owned()) {
            errors.duplicate("name", &name.into());
        }
        match (is_set(claim, "resourceClaimName"), is_set(claim, "resourceClaimTemplateName")) {
            (true, true) => errors.invalid(
                "",
                &claim.clone().into(),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            (false, false) => errors.invalid(
                "",
                &claim.clone().into(),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            _ => {}
        }
        subdomain(claim, "resourceClaimName", errors);
        subdomain(claim, "resourceClaimTemplateName", errors);
    });
}

fn validate_names(spec: &Object, errors: &mut Errors) {
    for field in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName", "schedulerName"]
    {
        subdomain(spec, field, errors);
    }
    for field in ["hostname", "subdomain"] {
        let value = text(spec, field);
        if !value.is_empty() {
            malformed(field, value, names::label(value, false), errors);
        }
    }
    let full = text(spec, "hostnameOverride");
    if !full.is_empty() {
        if full.len() > 64 {
            errors.too_long("hostnameOverride", 64);
        }
        malformed("hostnameOverride", full, names::subdomain(full, false), errors);
        if truth(spec, "hostNetwork") {
            errors.forbidden("hostnameOverride", "may not be specified when hostNetwork is true");
        }
    }
    each(spec, "readinessGates", errors, |gate, errors| {
        qualified("conditionType", text(gate, "conditionType"), errors);
    });
    let mut seen = BTreeSet::new();
    each(spec, "schedulingGates", errors, |gate, errors| {
        let name = text(gate, "name");
        qualified("name", name, errors);
        if !seen.insert(name.to_owned()) {
            errors.duplicate("name", &name.into());
        }
    });
    if !list(spec, "schedulingGates").is_empty() && !text(spec, "nodeName").is_empty() {
        errors.forbidden("nodeName", "cannot be set until all schedulingGates have been cleared");
    }
}

fn validate_dns(spec: &Object, errors: &mut Errors) {
    const POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    must_be(spec, "dnsPolicy", &POLICIES, errors);
    let config = map(spec, "dnsConfig");
    if text(spec, "dnsPolicy") == "None" {
        match config {
            None => errors.required("dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"),
            Some(config) if list(config, "nameservers").is_empty() => errors.required(
                "dnsConfig.nameservers",
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            ),
            Some(_) => {}
        }
    }
    below(spec, "dnsConfig", errors, |config, errors| {
        for (field, most, what) in [("nameservers", 3, "nameservers"), ("searches", 32, "search paths")] {
            if let Some(value) = config.get(field)
                && list(config, field).len() > most
            {
                errors.invalid(field, value, format!("must not have more than {most} {what}"));
            }
        }
        for (index, ip) in texts(config, "nameservers") {
            malformed(&format!("nameservers[{index}]"), ip, names::ip(ip), errors);
        }
        for (index, search) in texts(config, "searches").filter(|(_, search)| *search != ".") {
            let name = search.trim_end_matches('.');
            malformed(&format!("searches[{index}]"), search, names::subdomain(name, false), errors);
        }
        each(config, "options", errors, |option, errors| {
            if text(option, "name").is_empty() {
                errors.required("name", "must not be empty");
            }
        });
    });
}
