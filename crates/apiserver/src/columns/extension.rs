//! What shapes the API server itself: admission, priority and fairness, aggregation, migrations. Custom resource
//! definitions are left to the plain table.

use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    object::Object,
    table::{Cell, Column, find, text},
};

use super::{
    age, integer, name, path, string, with,
    words::{condition, entries, field, str_at},
};

pub(super) fn of(group: &str, kind: &str) -> Option<Vec<Column>> {
    Some(match (group, kind) {
        ("admissionregistration.k8s.io", kind) => return admission(kind),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => vec![
            name(),
            path("PriorityLevel", "spec.priorityLevelConfiguration.name"),
            string("MatchingPrecedence", Cell::Int("spec.matchingPrecedence")),
            string("DistinguisherMethod", Cell::Text("spec.distinguisherMethod.type", "<none>")),
            age(),
            with("MissingPL", |schema, _| {
                condition(schema, "Dangling").map_or("?", |it| field(it, "status")).into()
            }),
        ],
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => vec![
            name(),
            path("Type", "spec.type"),
            string("NominalConcurrencyShares", Cell::Path("spec.limited.nominalConcurrencyShares")),
            string("Queues", Cell::Path("spec.limited.limitResponse.queuing.queues")),
            string("HandSize", Cell::Path("spec.limited.limitResponse.queuing.handSize")),
            string("QueueLengthLimit", Cell::Path("spec.limited.limitResponse.queuing.queueLengthLimit")),
            age(),
        ],
        ("apiregistration.k8s.io", "APIService") => {
            vec![name(), with("Service", service), with("Available", available), age()]
        }
        ("storagemigration.k8s.io", "StorageVersionMigration") => {
            vec![string("Name", Cell::Name), with("Resource", migrated), with("Status", migration_state)]
        }
        _ => return None,
    })
}

fn admission(kind: &str) -> Option<Vec<Column>> {
    Some(match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            vec![name(), integer("Webhooks", Cell::Count(&["webhooks"])), age()]
        }
        "ValidatingAdmissionPolicy" => vec![
            name(),
            integer("Validations", Cell::Count(&["spec.validations"])),
            with("ParamKind", param_kind),
            age(),
        ],
        "MutatingAdmissionPolicy" => vec![
            name(),
            integer("Mutations", Cell::Count(&["spec.mutations"])),
            with("ParamKind", param_kind),
            age(),
        ],
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            vec![name(), path("PolicyName", "spec.policyName"), with("ParamRef", param_ref), age()]
        }
        _ => return None,
    })
}

fn param_kind(policy: &Object, _: Timestamp) -> Value {
    match find(policy, "spec.paramKind") {
        Some(kind) => format!("{}/{}", field(kind, "apiVersion"), field(kind, "kind")).into(),
        None => "<unset>".into(),
    }
}

/// Whether a parameter lives in a namespace cannot be told from here: without one it is shown as in any.
fn param_ref(binding: &Object, _: Timestamp) -> Value {
    let Some(param) = find(binding, "spec.paramRef") else { return "<unset>".into() };
    match (field(param, "name"), field(param, "namespace"), param.get("selector")) {
        ("", _, Some(selector)) if selector.is_object() => spelled_out(selector).into(),
        ("", _, _) => "<unset>".into(),
        (name, "", _) => format!("*/{name}").into(),
        (name, namespace, _) => format!("{namespace}/{name}").into(),
    }
}

/// A label selector as Kubernetes spells out its fields, which it does in this one place.
fn spelled_out(selector: &Value) -> String {
    let mut labels = String::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        labels += &format!("{key}: {},", text(Some(value), ""));
    }
    let mut expressions = String::new();
    for expression in entries(selector.get("matchExpressions")) {
        let values: Vec<&str> = entries(expression.get("values")).iter().filter_map(Value::as_str).collect();
        let (key, operator, values) =
            (field(expression, "key"), field(expression, "operator"), values.join(" "));
        expressions +=
            &format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},");
    }
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn service(api: &Object, _: Timestamp) -> Value {
    match find(api, "spec.service") {
        Some(service) => format!("{}/{}", field(service, "namespace"), field(service, "name")).into(),
        None => "Local".into(),
    }
}

fn available(api: &Object, _: Timestamp) -> Value {
    let Some(available) = condition(api, "Available") else { return "Unknown".into() };
    match (field(available, "status"), field(available, "reason")) {
        ("True", _) => "True".into(),
        (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}

fn migrated(migration: &Object, _: Timestamp) -> Value {
    let (resource, group) =
        (str_at(migration, "spec.resource.resource"), str_at(migration, "spec.resource.group"));
    if group.is_empty() { resource.into() } else { format!("{resource}.{group}").into() }
}

/// How far a migration has come: what holds of it last.
fn migration_state(migration: &Object, _: Timestamp) -> Value {
    let holds = |kind: &&str| condition(migration, kind).is_some_and(|it| field(it, "status") == "True");
    ["Succeeded", "Failed", "Running"].into_iter().find(holds).unwrap_or("Unknown").into()
}
