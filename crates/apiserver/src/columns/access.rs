//! Who may do what: roles are left to the plain table; their bindings, and certificates.

use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    object::Object,
    table::{Cell, Column, find},
    time::human_duration,
};

use super::{
    age, name, path, string, with,
    words::{field, list, str_at},
};

pub(super) fn of(group: &str, kind: &str) -> Option<Vec<Column>> {
    Some(match (group, kind) {
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => vec![
            name(),
            with("Role", role),
            age(),
            with("Users", |binding, _| subjects(binding, "User")).wide(),
            with("Groups", |binding, _| subjects(binding, "Group")).wide(),
            with("ServiceAccounts", |binding, _| subjects(binding, "ServiceAccount")).wide(),
        ],
        ("certificates.k8s.io", "CertificateSigningRequest") => vec![
            name(),
            age(),
            string("SignerName", Cell::Text("spec.signerName", "<none>")),
            path("Requestor", "spec.username"),
            with("RequestedDuration", requested_duration),
            with("Condition", signing_state),
        ],
        ("certificates.k8s.io", "ClusterTrustBundle") => {
            vec![name(), string("SignerName", Cell::Text("spec.signerName", "<none>"))]
        }
        ("certificates.k8s.io", "PodCertificateRequest") => vec![
            name(),
            path("PodName", "spec.podName"),
            path("ServiceAccountName", "spec.serviceAccountName"),
            path("NodeName", "spec.nodeName"),
            path("SignerName", "spec.signerName"),
            with("State", issuing_state),
        ],
        _ => return None,
    })
}

fn role(binding: &Object, _: Timestamp) -> Value {
    format!("{}/{}", str_at(binding, "roleRef.kind"), str_at(binding, "roleRef.name")).into()
}

fn subjects(binding: &Object, kind: &str) -> Value {
    let subjects = list(binding, "subjects").iter().filter(|subject| field(subject, "kind") == kind);
    let shown = subjects.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", field(subject, "namespace"), field(subject, "name")),
        _ => field(subject, "name").to_owned(),
    });
    shown.collect::<Vec<_>>().join(", ").into()
}

fn requested_duration(request: &Object, _: Timestamp) -> Value {
    match find(request, "spec.expirationSeconds").and_then(Value::as_i64) {
        Some(seconds) => human_duration(seconds).into(),
        None => "<none>".into(),
    }
}

fn signing_state(request: &Object, _: Timestamp) -> Value {
    let conditions = list(request, "status.conditions");
    let has = |kind: &str| conditions.iter().any(|condition| field(condition, "type") == kind);
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !str_at(request, "status.certificate").is_empty() {
        state.push_str(",Issued");
    }
    state.into()
}

fn issuing_state(request: &Object, _: Timestamp) -> Value {
    let conditions =
        list(request, "status.conditions").iter().rev().map(|condition| field(condition, "type"));
    conditions
        .into_iter()
        .find(|kind| matches!(*kind, "Issued" | "Denied" | "Failed"))
        .unwrap_or("Pending")
        .into()
}
