//! What a pod spec says where its author said nothing.

use serde_json::{Value, json};
use windlass_machinery::object::{Object, child_mut, default_to};

use super::{SOURCES, resources};
use crate::resources::kinds::fields::{fill, int, is_set, map_mut, maps_mut, text, truth};

/// The lists of containers of a pod spec.
pub(in crate::resources::kinds) const CONTAINERS: [&str; 3] =
    ["containers", "initContainers", "ephemeralContainers"];

/// Permissions of files made from secrets and the like: 0644.
const MODE: i64 = 0o644;

/// Fills in the pod template under `field`.
pub(in crate::resources::kinds) fn template(parent: &mut Object, field: &str) {
    let template = child_mut(parent, field);
    default_to(template, "metadata", json!({}));
    spec(child_mut(template, "spec"));
}

/// Fills in any pod spec.
pub(in crate::resources::kinds) fn spec(spec: &mut Object) {
    fill(spec, "restartPolicy", "Always");
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "schedulerName", "default-scheduler");
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "securityContext", json!({}));
    same_account(spec);
    for field in CONTAINERS {
        maps_mut(spec, field).for_each(container);
    }
    maps_mut(spec, "volumes").for_each(volume);
}

/// Fills in what only pods have, not the templates of pods.
pub(in crate::resources::kinds) fn pod(spec: &mut Object) {
    default_to(spec, "enableServiceLinks", true);
    let host_network = truth(spec, "hostNetwork");
    for field in ["containers", "initContainers"] {
        for container in maps_mut(spec, field) {
            if let Some(resources) = map_mut(container, "resources") {
                resources::requests_from_limits(resources);
            }
            for port in maps_mut(container, "ports").filter(|_| host_network) {
                fill(port, "hostPort", int(port, "containerPort").unwrap_or_default());
            }
        }
    }
    resources::pod_level(spec);
}

/// `serviceAccount` is an older name of `serviceAccountName`: both say the same.
fn same_account(spec: &mut Object) {
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    };
    if !account.is_empty() {
        let account = Value::from(account);
        spec.insert("serviceAccountName".to_owned(), account.clone());
        spec.insert("serviceAccount".to_owned(), account);
    }
}

fn container(container: &mut Object) {
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    fill(container, "imagePullPolicy", pull_policy(text(container, "image")));
    default_to(container, "resources", json!({}));
    for port in maps_mut(container, "ports") {
        fill(port, "protocol", "TCP");
    }
    for variable in maps_mut(container, "env") {
        if let Some(source) = map_mut(variable, "valueFrom") {
            field_ref(source);
            default_at(source, "fileKeyRef", "optional", false.into());
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = map_mut(container, name) {
            probe(found);
        }
    }
    if let Some(lifecycle) = map_mut(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            map_mut(lifecycle, name).map(http_get);
        }
    }
}

/// Images that may change under their name are always pulled.
fn pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or_default();
    let changes = match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !last.contains('@'),
    };
    match changes && !image.is_empty() {
        true => "Always",
        false => "IfNotPresent",
    }
}

fn probe(probe: &mut Object) {
    fill(probe, "timeoutSeconds", 1);
    fill(probe, "periodSeconds", 10);
    fill(probe, "successThreshold", 1);
    fill(probe, "failureThreshold", 3);
    http_get(probe);
    default_at(probe, "grpc", "service", "".into());
}

fn http_get(handler: &mut Object) {
    if let Some(action) = map_mut(handler, "httpGet") {
        fill(action, "path", "/");
        fill(action, "scheme", "HTTP");
    }
}

fn field_ref(holder: &mut Object) {
    if let Some(reference) = map_mut(holder, "fieldRef") {
        fill(reference, "apiVersion", "v1");
    }
}

fn default_at(object: &mut Object, child: &str, field: &str, value: Value) {
    if let Some(child) = map_mut(object, child) {
        default_to(child, field, value);
    }
}

/// Fields of volume sources that have a value of their own: source, field, value.
fn volume_defaults() -> [(&'static str, &'static str, Value); 15] {
    [
        ("secret", "defaultMode", MODE.into()),
        ("configMap", "defaultMode", MODE.into()),
        ("downwardAPI", "defaultMode", MODE.into()),
        ("projected", "defaultMode", MODE.into()),
        ("hostPath", "type", "".into()),
        ("iscsi", "iscsiInterface", "default".into()),
        ("rbd", "pool", "rbd".into()),
        ("rbd", "user", "admin".into()),
        ("rbd", "keyring", "/etc/ceph/keyring".into()),
        ("azureDisk", "cachingMode", "ReadWrite".into()),
        ("azureDisk", "kind", "Shared".into()),
        ("azureDisk", "fsType", "ext4".into()),
        ("azureDisk", "readOnly", false.into()),
        ("scaleIO", "storageMode", "ThinProvisioned".into()),
        ("scaleIO", "fsType", "xfs".into()),
    ]
}

fn volume(volume: &mut Object) {
    if !SOURCES.iter().any(|source| is_set(volume, source)) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for (source, field, value) in volume_defaults() {
        default_at(volume, source, field, value);
    }
    if let Some(source) = map_mut(volume, "downwardAPI") {
        maps_mut(source, "items").for_each(field_ref);
    }
    if let Some(source) = map_mut(volume, "projected") {
        maps_mut(source, "sources").for_each(projection);
    }
    if let Some(source) = map_mut(volume, "image") {
        fill(source, "pullPolicy", pull_policy(text(source, "reference")));
    }
    if let Some(template) =
        map_mut(volume, "ephemeral").and_then(|source| map_mut(source, "volumeClaimTemplate"))
    {
        default_to(template, "metadata", json!({}));
        default_at(template, "spec", "volumeMode", "Filesystem".into());
    }
}

fn projection(projection: &mut Object) {
    default_at(projection, "serviceAccountToken", "expirationSeconds", 3600.into());
    default_at(projection, "podCertificate", "maxExpirationSeconds", 86400.into());
    if let Some(source) = map_mut(projection, "downwardAPI") {
        maps_mut(source, "items").for_each(field_ref);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_fixed_tag_are_always_pulled() {
        for (image, expected) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("registry:5000/nginx", "Always"),
            ("registry:5000/team/nginx:2", "IfNotPresent"),
            ("nginx@sha256:0123", "IfNotPresent"),
            ("nginx:latest@sha256:0123", "IfNotPresent"),
            ("", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), expected, "{image}");
        }
    }
}
