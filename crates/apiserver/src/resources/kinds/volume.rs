//! Persistent volumes: storage that outlives pods, of exactly one sort.

use serde_json::{Value, json};
use windlass_machinery::{field::Errors, names, object::Object};

use super::{
    checks::{amount, defaults, defaults_in, dotted, immutable, must_be_named, named, same},
    fields::{below, is_set, list, map, one_of, required, text, texts, within},
};
use crate::resources::Strategy;

pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    warn: |volume, warnings| {
        if dotted(volume, "spec.persistentVolumeReclaimPolicy") == Some(&json!("Recycle")) {
            let advice = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
            warnings.push(format!("spec.persistentVolumeReclaimPolicy: {advice}"));
        }
    },
    validate,
    validate_update,
    returns_deleted: true,
    ..Strategy::PLAIN
};

pub(super) const ACCESS_MODES: &[&str] =
    &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(super) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const RECLAIM_POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];
const HOST_PATH_TYPES: &[&str] =
    &["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];

/// The sorts of volumes, and what each must say.
const SOURCES: &[(&str, &[&str])] = &[
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cephfs", &[]),
    ("cinder", &["volumeID"]),
    ("csi", &["driver", "volumeHandle"]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("flocker", &[]),
    ("gcePersistentDisk", &["pdName"]),
    ("glusterfs", &["endpoints", "path"]),
    ("hostPath", &["path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("local", &["path"]),
    ("nfs", &["server", "path"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("quobyte", &["registry", "volume"]),
    ("rbd", &["image"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &["volumeName"]),
    ("vsphereVolume", &["volumePath"]),
];

fn default(volume: &mut Object) {
    defaults(
        volume,
        json!({
            "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"}
        }),
    );
    for (source, values) in [
        ("hostPath", json!({"type": ""})),
        ("iscsi", json!({"iscsiInterface": "default"})),
        ("rbd", json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"})),
        (
            "azureDisk",
            json!({"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": false}),
        ),
        ("scaleIO", json!({"storageMode": "ThinProvisioned", "fsType": "xfs"})),
    ] {
        defaults_in(volume, &["spec", source], values);
    }
}

fn prepare_create(volume: &mut Object) {
    let mut status = json!({"phase": "Pending"});
    if let Some(time) = dotted(volume, "metadata.creationTimestamp") {
        status["lastPhaseTransitionTime"] = time.clone();
    }
    volume.insert("status".to_owned(), status);
}

fn validate(volume: &Object, errors: &mut Errors) {
    within(volume, "spec", errors, validate_spec);
}

/// Finds faults in what a volume is; also used for the volume inside an attachment.
pub(super) fn validate_spec(spec: &Object, errors: &mut Errors) {
    access_modes(spec, "", errors);
    check_capacity(spec, errors);
    let found: Vec<_> = SOURCES.iter().filter(|source| is_set(spec, source.0)).collect();
    if found.is_empty() {
        errors.required("", "must specify a volume type");
    }
    for (index, (source, fields)) in found.into_iter().enumerate() {
        if index > 0 {
            errors.forbidden(source, "may not specify more than 1 volume type");
        } else {
            below(spec, source, errors, |source, errors| {
                required(source, fields, errors);
            });
        }
    }
    check_paths(spec, errors);
    below(spec, "nodeAffinity", errors, |affinity, errors| match map(affinity, "required") {
        None => errors.required("required", "must specify required node constraints"),
        Some(terms) if list(terms, "nodeSelectorTerms").is_empty() => {
            errors.required("required.nodeSelectorTerms", "must have at least one node selector term");
        }
        Some(_) => {}
    });
    one_of(spec, "persistentVolumeReclaimPolicy", RECLAIM_POLICIES, errors);
    one_of(spec, "volumeMode", VOLUME_MODES, errors);
    named(spec, "storageClassName", names::subdomain, errors);
    named(spec, "volumeAttributesClassName", names::subdomain, errors);
    below(spec, "claimRef", errors, |claim, errors| {
        must_be_named(claim, "name", names::subdomain, errors);
        must_be_named(claim, "namespace", names::label, errors);
    });
}

/// How a volume or claim is mounted: at least one way, and the exclusive one alone.
pub(super) fn access_modes(spec: &Object, detail: &str, errors: &mut Errors) {
    if list(spec, "accessModes").is_empty() {
        errors.required("accessModes", detail);
    }
    for (index, mode) in texts(spec, "accessModes") {
        if !ACCESS_MODES.contains(&mode) {
            errors.at_index("accessModes", index, |errors| errors.not_supported("", mode, ACCESS_MODES));
        }
    }
    if list(spec, "accessModes").len() > 1
        && texts(spec, "accessModes").any(|mode| mode.1 == "ReadWriteOncePod")
    {
        errors.forbidden("accessModes", "may not use ReadWriteOncePod with other access modes");
    }
}

fn check_capacity(spec: &Object, errors: &mut Errors) {
    let Some(capacity) = map(spec, "capacity").filter(|capacity| !capacity.is_empty()) else {
        return errors.required("capacity", "");
    };
    if capacity.len() > 1 || !capacity.contains_key("storage") {
        let shown = capacity.keys().find(|name| *name != "storage").map(String::as_str).unwrap_or_default();
        errors.not_supported("capacity", shown, &["storage"]);
    }
    for (name, value) in capacity {
        errors.at_key("capacity", name, |errors| positive(value, errors));
    }
}

/// An amount that must be more than none.
pub(super) fn positive(value: &Value, errors: &mut Errors) {
    if amount(value, "", errors).is_some_and(|amount| amount.is_zero()) {
        errors.invalid("", value, "must be greater than zero");
    }
}

fn check_paths(spec: &Object, errors: &mut Errors) {
    let backsteps = "must not contain '..'";
    below(spec, "hostPath", errors, |source, errors| {
        let path = text(source, "path");
        if path.split('/').any(|part| part == "..") {
            errors.invalid_str("path", path, backsteps);
        }
        one_of(source, "type", HOST_PATH_TYPES, errors);
    });
    below(spec, "local", errors, |source, errors| {
        let path = text(source, "path");
        if path.split('/').any(|part| part == "..") {
            errors.invalid_str("path", path, backsteps);
        }
    });
    if is_set(spec, "local") && !is_set(spec, "nodeAffinity") {
        errors.required("nodeAffinity", "Local volume requires node affinity");
    }
    below(spec, "nfs", errors, |source, errors| {
        let path = text(source, "path");
        if !path.is_empty() && !path.starts_with('/') {
            errors.invalid_str("path", path, "must be an absolute path");
        }
    });
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle"
        && map(spec, "hostPath").is_some_and(|source| text(source, "path") == "/")
    {
        errors.forbidden("persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'");
    }
}

fn validate_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    if part.is_some() {
        return;
    }
    let (Some(spec), Some(before)) = (map(new, "spec"), map(old, "spec")) else { return };
    if SOURCES.iter().any(|(source, _)| !same_source(source, spec.get(*source), before.get(*source))) {
        errors.forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        );
    }
    immutable(new, old, &["spec.volumeMode"], errors);
    if is_set(before, "nodeAffinity") {
        immutable(new, old, &["spec.nodeAffinity"], errors);
    }
}

/// Secrets that are used to grow or publish a volume of a CSI driver may be added later.
fn same_source(source: &str, new: Option<&Value>, old: Option<&Value>) -> bool {
    let (Some(Value::Object(new)), Some(Value::Object(old)), "csi") = (new, old, source) else {
        return same(new, old);
    };
    let fields = new.keys().chain(old.keys());
    fields.into_iter().all(|field| {
        let growable = matches!(field.as_str(), "controllerExpandSecretRef" | "nodeExpandSecretRef");
        (growable && !is_set(old, field)) || same(new.get(field), old.get(field))
    })
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    fn volume(change: Value) -> Value {
        let mut spec = json!({
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}
        });
        for (field, value) in object(change) {
            spec[field] = value;
        }
        json!({"spec": spec})
    }

    #[test]
    fn defaults_are_filled_in() {
        assert_eq!(
            created(&STRATEGY, volume(json!({}))),
            json!({
                "spec": {
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/a", "type": ""},
                    "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"
                },
                "status": {"phase": "Pending"}
            })
        );
    }

    #[test]
    fn faults_are_found() {
        check(
            &STRATEGY,
            &[
                (volume(json!({})), &[]),
                (volume(json!({"accessModes": []})), &["Required spec.accessModes"]),
                (volume(json!({"accessModes": ["Often"]})), &["NotSupported spec.accessModes[0]"]),
                (
                    volume(json!({"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]})),
                    &["Forbidden spec.accessModes"],
                ),
                (volume(json!({"capacity": {}})), &["Required spec.capacity"]),
                (volume(json!({"capacity": {"storage": "0"}})), &["Invalid spec.capacity[storage]"]),
                (volume(json!({"capacity": {"storage": "1", "cpu": "1"}})), &["NotSupported spec.capacity"]),
                (volume(json!({"hostPath": null})), &["Required spec"]),
                (volume(json!({"nfs": {"server": "a", "path": "/"}})), &["Forbidden spec.nfs"]),
                (volume(json!({"hostPath": {"path": "/a/../b"}})), &["Invalid spec.hostPath.path"]),
                (volume(json!({"hostPath": null, "local": {"path": "/a"}})), &["Required spec.nodeAffinity"]),
                (volume(json!({"volumeMode": "Tape"})), &["NotSupported spec.volumeMode"]),
                (volume(json!({"claimRef": {"name": "a"}})), &["Required spec.claimRef.namespace"]),
            ],
        );
    }

    #[test]
    fn what_it_is_stays() {
        let faults = |new: Value| change_faults(&STRATEGY, volume(json!({})), new, None);
        assert_eq!(faults(volume(json!({"claimRef": {"name": "a", "namespace": "b"}}))), [""; 0]);
        assert_eq!(
            faults(volume(json!({"hostPath": {"path": "/b"}}))),
            ["Forbidden spec.persistentvolumesource"]
        );
        assert_eq!(faults(volume(json!({"volumeMode": "Block"}))), ["Invalid spec.volumeMode"]);
    }
}
