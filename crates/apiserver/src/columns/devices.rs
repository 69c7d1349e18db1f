//! Devices that pods claim.

use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    object::Object,
    table::{Cell, Column, find},
};

use super::{
    age, name, path, string, with,
    words::{is_deleted, list},
};

pub(super) fn of(group: &str, kind: &str) -> Option<Vec<Column>> {
    Some(match (group, kind) {
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => vec![name(), age()],
        ("resource.k8s.io", "ResourceClaim") => vec![name(), with("State", state), age()],
        ("resource.k8s.io", "ResourceSlice") => vec![
            name(),
            path("Node", "spec.nodeName"),
            path("Driver", "spec.driver"),
            path("Pool", "spec.pool.name"),
            age(),
        ],
        ("resource.k8s.io", "DeviceTaintRule") => vec![
            name(),
            path("Key", "spec.taint.key"),
            path("Value", "spec.taint.value"),
            path("Effect", "spec.taint.effect"),
            string("TimeAdded", Cell::Since("spec.taint.timeAdded", "")),
            age(),
        ],
        _ => return None,
    })
}

fn state(claim: &Object, _: Timestamp) -> Value {
    let is_allocated = find(claim, "status.allocation").is_some();
    let is_reserved = is_allocated && !list(claim, "status.reservedFor").is_empty();
    let states = [
        ("deleted", is_deleted(claim)),
        ("pending", !is_allocated && !is_deleted(claim)),
        ("allocated", is_allocated),
        ("reserved", is_reserved),
    ];
    states
        .into_iter()
        .filter(|(_, holds)| *holds)
        .map(|(state, _)| state)
        .collect::<Vec<_>>()
        .join(",")
        .into()
}
