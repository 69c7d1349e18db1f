//! Volumes, claims and their classes.

use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    object::{self, Object},
    table::{Cell, Column, find},
};

use super::{
    age, boolean, integer, name, path, string, with,
    words::{is_deleted, list, quantity, str_at},
};

pub(super) fn of(group: &str, kind: &str) -> Option<Vec<Column>> {
    Some(match (group, kind) {
        ("", "PersistentVolume") => vec![
            name(),
            with("Capacity", |volume, _| quantity(find(volume, "spec.capacity.storage"), "0").into()),
            with("Access Modes", |volume, _| access_modes(volume, "spec.accessModes").into()),
            path("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
            with("Status", phase),
            with("Claim", claim),
            with("StorageClass", class),
            string("VolumeAttributesClass", Cell::Text("spec.volumeAttributesClassName", "<unset>")),
            path("Reason", "status.reason"),
            age(),
            string("VolumeMode", Cell::Text("spec.volumeMode", "<unset>")).wide(),
        ],
        ("", "PersistentVolumeClaim") => vec![
            name(),
            with("Status", phase),
            path("Volume", "spec.volumeName"),
            with("Capacity", |claim, _| {
                if_bound(claim, || quantity(find(claim, "status.capacity.storage"), "0"))
            }),
            with("Access Modes", |claim, _| if_bound(claim, || access_modes(claim, "status.accessModes"))),
            with("StorageClass", class),
            string("VolumeAttributesClass", Cell::Text("spec.volumeAttributesClassName", "<unset>")),
            age(),
            string("VolumeMode", Cell::Text("spec.volumeMode", "<unset>")).wide(),
        ],
        ("storage.k8s.io", "StorageClass") => vec![
            string("Name", Cell::With(class_name)).format("name"),
            path("Provisioner", "provisioner"),
            string("ReclaimPolicy", Cell::Text("reclaimPolicy", "Delete")),
            string("VolumeBindingMode", Cell::Text("volumeBindingMode", "Immediate")),
            string("AllowVolumeExpansion", Cell::Bool("allowVolumeExpansion", false)),
            age(),
        ],
        ("storage.k8s.io", "VolumeAttributesClass") => vec![name(), path("DriverName", "driverName"), age()],
        ("storage.k8s.io", "VolumeAttachment") => vec![
            name(),
            path("Attacher", "spec.attacher").format("name"),
            path("PV", "spec.source.persistentVolumeName"),
            path("Node", "spec.nodeName"),
            boolean("Attached", Cell::Bool("status.attached", false)),
            age(),
        ],
        ("storage.k8s.io", "CSINode") => {
            vec![name(), integer("Drivers", Cell::Count(&["spec.drivers"])), age()]
        }
        ("storage.k8s.io", "CSIDriver") => vec![
            name(),
            boolean("AttachRequired", Cell::Bool("spec.attachRequired", true)),
            boolean("PodInfoOnMount", Cell::Bool("spec.podInfoOnMount", false)),
            boolean("StorageCapacity", Cell::Bool("spec.storageCapacity", false)),
            string("TokenRequests", Cell::Joined("spec.tokenRequests", "audience", "<unset>")),
            boolean("RequiresRepublish", Cell::Bool("spec.requiresRepublish", false)),
            string("Modes", Cell::Joined("spec.volumeLifecycleModes", "", "<none>")),
            age(),
        ],
        _ => return None,
    })
}

fn phase(object: &Object, _: Timestamp) -> Value {
    if is_deleted(object) { "Terminating".into() } else { str_at(object, "status.phase").into() }
}

/// What is known of a claim once it has a volume; empty before.
fn if_bound(claim: &Object, known: impl FnOnce() -> String) -> Value {
    if str_at(claim, "spec.volumeName").is_empty() { "".into() } else { known().into() }
}

fn claim(volume: &Object, _: Timestamp) -> Value {
    if find(volume, "spec.claimRef").is_none() {
        return "".into();
    }
    format!("{}/{}", str_at(volume, "spec.claimRef.namespace"), str_at(volume, "spec.claimRef.name")).into()
}

/// The class of a volume or claim; the annotation is older than the field and still goes before it.
fn class(object: &Object, _: Timestamp) -> Value {
    match annotation(object, "volume.beta.kubernetes.io/storage-class") {
        Some(class) => class.into(),
        None => str_at(object, "spec.storageClassName").into(),
    }
}

fn class_name(class: &Object, _: Timestamp) -> Value {
    let marks =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let is_default = marks.into_iter().any(|mark| annotation(class, mark) == Some("true"));
    format!("{}{}", object::name(class), if is_default { " (default)" } else { "" }).into()
}

fn annotation<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object::str_at(object, &["metadata", "annotations", key])
}

const ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

fn access_modes(object: &Object, path: &str) -> String {
    let modes = list(object, path);
    let has = |mode: &str| modes.iter().any(|value| value == mode);
    ACCESS_MODES.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
