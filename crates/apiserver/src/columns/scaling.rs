//! Scales and autoscalers.

use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    object::Object,
    table::{Cell, Column},
};

use super::{
    age, integer, name, string, with,
    words::{field, first, list, quantity, str_at},
};

pub(super) fn of(group: &str, kind: &str) -> Option<Vec<Column>> {
    Some(match (group, kind) {
        ("autoscaling", "HorizontalPodAutoscaler") => vec![
            name(),
            with("Reference", reference),
            with("Targets", targets),
            string("MinPods", Cell::Text("spec.minReplicas", "<unset>")),
            string("MaxPods", Cell::Int("spec.maxReplicas")),
            string("Replicas", Cell::Int("status.currentReplicas")),
            age(),
        ],
        ("autoscaling", "Scale") => vec![
            string("Name", Cell::Name),
            integer("Desired", Cell::Int("spec.replicas")),
            integer("Available", Cell::Int("status.replicas")),
            age(),
        ],
        _ => return None,
    })
}

fn reference(autoscaler: &Object, _: Timestamp) -> Value {
    let [kind, name] =
        ["spec.scaleTargetRef.kind", "spec.scaleTargetRef.name"].map(|path| str_at(autoscaler, path));
    format!("{kind}/{name}").into()
}

/// More would push the other columns off the screen.
const MOST_TARGETS: usize = 2;

fn targets(autoscaler: &Object, _: Timestamp) -> Value {
    let statuses = list(autoscaler, "status.currentMetrics");
    let specs = list(autoscaler, "spec.metrics");
    if specs.is_empty() {
        return "<none>".into();
    }
    let targets: Vec<String> = specs
        .iter()
        .enumerate()
        .map(|(at, spec)| target(spec, statuses.get(at).unwrap_or(&Value::Null)))
        .collect();
    first(MOST_TARGETS, &targets, ", ").into()
}

/// One metric: what there is, a slash, and what is wanted.
fn target(spec: &Value, status: &Value) -> String {
    let source = match field(spec, "type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let part =
        |value: &Value, part: &str| value.pointer(&format!("/{source}/{part}")).cloned().unwrap_or_default();
    let (wanted, current) = (part(spec, "target"), part(status, "current"));
    // A quantity that is missing where the type of the target asks for it is shown as Kubernetes shows it.
    let pair = |field: &str| {
        let current =
            if current.is_null() { "<unknown>".to_owned() } else { quantity(current.get(field), "<nil>") };
        format!("{current}/{}", quantity(wanted.get(field), "<nil>"))
    };
    let is_average = wanted.get("averageValue").is_some_and(|value| !value.is_null());
    let of_resource = format!("{}: ", field(&spec[source], "name"));
    match source {
        "pods" => pair("averageValue"),
        "external" | "object" if is_average => match current.get("averageValue") {
            Some(_) => format!("{} (avg)", pair("averageValue")),
            None => format!("<unknown>/{} (avg)", quantity(wanted.get("averageValue"), "<nil>")),
        },
        "external" | "object" => pair("value"),
        _ if is_average => of_resource + &pair("averageValue"),
        _ => {
            let percent =
                |value: &Value, absent: &str| match value.get("averageUtilization").and_then(Value::as_i64) {
                    Some(percent) => format!("{percent}%"),
                    None => absent.to_owned(),
                };
            format!("{of_resource}{}/{}", percent(&current, "<unknown>"), percent(&wanted, "<auto>"))
        }
    }
}
