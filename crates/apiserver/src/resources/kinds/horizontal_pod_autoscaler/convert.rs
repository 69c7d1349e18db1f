//! Between the two forms of horizontal pod autoscalers.
//!
//! The first form knows one number, the processor use wanted; whatever else there is travels in annotations,
//! where metrics have an older shape of their own.

use serde_json::{Map, Value, json};
use windlass_machinery::object::{Object, at, child_mut, int_at, metadata_mut, set_at};

use super::SOURCES;
use crate::resources::kinds::fields::{is_set, list, map, map_mut, text};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// A field in the older shape, and the path to it in the newer one.
type Move = (&'static str, &'static [&'static str]);

/// What each source is called in either shape: source, what is wanted, what is there.
const MOVES: [(&str, &[Move], &[Move]); 5] = [
    (
        "object",
        &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("targetValue", &["target", "value"]),
            ("averageValue", &["target", "averageValue"]),
        ],
        &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("currentValue", &["current", "value"]),
            ("averageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
        &[
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
    ("resource", RESOURCE, CURRENT_RESOURCE),
    ("containerResource", RESOURCE, CURRENT_RESOURCE),
    (
        "external",
        &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("targetValue", &["target", "value"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
        &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("currentValue", &["current", "value"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
];

const RESOURCE: &[Move] = &[
    ("name", &["name"]),
    ("container", &["container"]),
    ("targetAverageUtilization", &["target", "averageUtilization"]),
    ("targetAverageValue", &["target", "averageValue"]),
];
const CURRENT_RESOURCE: &[Move] = &[
    ("name", &["name"]),
    ("container", &["container"]),
    ("currentAverageUtilization", &["current", "averageUtilization"]),
    ("currentAverageValue", &["current", "averageValue"]),
];

/// Turns an autoscaler into the form of `api_version`.
pub(in crate::resources) fn convert(object: &mut Object, api_version: &str) {
    let from = text(object, "apiVersion").to_owned();
    match (from.as_str(), api_version) {
        ("autoscaling/v2", "autoscaling/v1") => to_first(object),
        ("autoscaling/v1", "autoscaling/v2") => to_second(object),
        _ => {}
    }
    object.insert("apiVersion".to_owned(), api_version.into());
}

fn is_cpu(metric: &Value, field: &[&str]) -> bool {
    let utilization = metric.as_object().and_then(|metric| at(metric, field));
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu" && utilization.is_some()
}

const WANTED: [&str; 3] = ["resource", "target", "averageUtilization"];
const THERE: [&str; 3] = ["resource", "current", "averageUtilization"];

fn to_first(object: &mut Object) {
    let mut kept: Vec<(&str, Value)> = Vec::new();
    let spec = child_mut(object, "spec");
    let metrics = list(spec, "metrics").to_vec();
    spec.remove("metrics");
    let (cpu, others) = split_cpu(&metrics, &WANTED);
    set_at(spec, &["targetCPUUtilizationPercentage"], cpu);
    if !others.is_empty() {
        kept.push((METRICS, others.iter().map(|metric| older(metric, false)).collect()));
    }
    if let Some(behavior) = spec.remove("behavior").filter(|behavior| !behavior.is_null()) {
        kept.push((BEHAVIOR, behavior));
    }
    if let Some(status) = map_mut(object, "status") {
        let metrics = list(status, "currentMetrics").to_vec();
        status.remove("currentMetrics");
        let (cpu, _) = split_cpu(&metrics, &THERE);
        set_at(status, &["currentCPUUtilizationPercentage"], cpu);
        if !metrics.is_empty() {
            kept.push((CURRENT_METRICS, metrics.iter().map(|metric| older(metric, true)).collect()));
        }
        if let Some(conditions) = status.remove("conditions").filter(|conditions| !conditions.is_null()) {
            kept.push((CONDITIONS, conditions));
        }
        for field in ["currentReplicas", "desiredReplicas"] {
            status.entry(field).or_insert(json!(0));
        }
    }
    for (annotation, value) in kept {
        child_mut(metadata_mut(object), "annotations")
            .insert(annotation.to_owned(), value.to_string().into());
    }
}

/// The processor use a list of metrics speaks of, and the other metrics.
fn split_cpu(metrics: &[Value], path: &[&str]) -> (Option<Value>, Vec<Value>) {
    let place = metrics.iter().position(|metric| is_cpu(metric, path));
    let cpu = place.and_then(|place| at(metrics[place].as_object()?, path).cloned());
    let others = metrics.iter().enumerate().filter(|(index, _)| Some(*index) != place);
    (cpu, others.map(|(_, metric)| metric.clone()).collect())
}

fn to_second(object: &mut Object) {
    let mut taken = take_annotations(object);
    let cpu = int_at(object, &["spec", "targetCPUUtilizationPercentage"]);
    let spec = child_mut(object, "spec");
    spec.remove("targetCPUUtilizationPercentage");
    let mut metrics: Vec<Value> = newer_list(taken.remove(METRICS), false);
    if let Some(percent) = cpu {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        metrics.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    if !metrics.is_empty() {
        spec.insert("metrics".to_owned(), metrics.into());
    }
    if let Some(behavior) = taken.remove(BEHAVIOR).filter(Value::is_object) {
        spec.insert("behavior".to_owned(), behavior);
    }
    let Some(status) = map_mut(object, "status") else { return };
    let cpu = status.remove("currentCPUUtilizationPercentage").filter(|value| !value.is_null());
    let mut metrics = newer_list(taken.remove(CURRENT_METRICS), true);
    if let Some(percent) = cpu.filter(|_| metrics.is_empty()) {
        let current = json!({"averageUtilization": percent});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "current": current}}));
    }
    if !metrics.is_empty() {
        status.insert("currentMetrics".to_owned(), metrics.into());
    }
    if let Some(conditions) = taken.remove(CONDITIONS).filter(Value::is_array) {
        status.insert("conditions".to_owned(), conditions);
    }
}

/// Removes the annotations that hold what the first form has no fields for. What cannot be read is dropped.
fn take_annotations(object: &mut Object) -> Map<String, Value> {
    let mut taken = Map::new();
    let Some(metadata) = map_mut(object, "metadata") else { return taken };
    let Some(annotations) = map_mut(metadata, "annotations") else { return taken };
    for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR] {
        let read = annotations.remove(name).and_then(|text| serde_json::from_str(text.as_str()?).ok());
        if let Some(value) = read {
            taken.insert(name.to_owned(), value);
        }
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    taken
}

fn newer_list(metrics: Option<Value>, current: bool) -> Vec<Value> {
    let metrics = metrics.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    metrics.iter().map(|metric| newer(metric, current)).collect()
}

fn moves(field: &str, current: bool) -> &'static [Move] {
    let found = MOVES.iter().find(|(name, ..)| *name == field);
    found.map_or(&[], |(_, wanted, there)| if current { there } else { wanted })
}

/// The sources of a metric, each through `change`.
fn each_source(metric: &Value, change: impl Fn(&str, &Object) -> Object) -> Value {
    let Some(metric) = metric.as_object() else { return Value::Null };
    let mut out = Object::new();
    set_at(&mut out, &["type"], metric.get("type").cloned());
    for (_, field) in SOURCES {
        if let Some(source) = map(metric, field) {
            out.insert(field.to_owned(), Value::Object(change(field, source)));
        }
    }
    Value::Object(out)
}

fn older(metric: &Value, current: bool) -> Value {
    each_source(metric, |field, source| {
        let mut out = Object::new();
        for (name, path) in moves(field, current) {
            set_at(&mut out, &[name], at(source, path).cloned());
        }
        if field == "object" && !current {
            // The older shape cannot do without it, even where it means nothing.
            out.entry("targetValue").or_insert(json!("0"));
        }
        out
    })
}

fn newer(metric: &Value, current: bool) -> Value {
    each_source(metric, |field, source| {
        let mut out = Object::new();
        for (name, path) in moves(field, current) {
            set_at(&mut out, path, source.get(*name).cloned());
        }
        if current {
            return out;
        }
        let target = child_mut(&mut out, "target");
        if field == "object" && is_set(target, "averageValue") {
            target.remove("value");
        }
        let kind = [("averageUtilization", "Utilization"), ("averageValue", "AverageValue")];
        let kind =
            kind.into_iter().find(|(field, _)| is_set(target, field)).map_or("Value", |(_, kind)| kind);
        target.insert("type".to_owned(), kind.into());
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::kinds::variants::object;

    #[test]
    fn the_processor_use_wanted_is_a_number_in_the_first_form() {
        let first = json!({"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 60}});
        let mut scaler = object(first.clone());
        convert(&mut scaler, "autoscaling/v2");
        assert_eq!(
            scaler["spec"],
            json!({"maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60},
            }}]})
        );
        convert(&mut scaler, "autoscaling/v1");
        assert_eq!(Value::Object(scaler), first);
    }

    #[test]
    fn nothing_of_the_second_form_is_lost_in_the_first() {
        let second = json!({
            "apiVersion": "autoscaling/v2",
            "metadata": {"name": "web", "annotations": {"team": "a"}},
            "spec": {
                "metrics": [
                    {"type": "Resource", "resource": {
                        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                    {"type": "Resource", "resource": {
                        "name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "Pods", "pods": {
                        "metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "100"}}},
                    {"type": "Object", "object": {
                        "describedObject": {"kind": "Ingress", "name": "main"},
                        "metric": {"name": "rps", "selector": {"matchLabels": {"a": "b"}}},
                        "target": {"type": "Value", "value": "2k"}}},
                    {"type": "External", "external": {
                        "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "30"}}},
                    {"type": "ContainerResource", "containerResource": {
                        "name": "cpu", "container": "main",
                        "target": {"type": "Utilization", "averageUtilization": 70}}},
                ],
                "behavior": {"scaleUp": {"selectPolicy": "Max"}},
            },
            "status": {
                "currentReplicas": 2,
                "desiredReplicas": 3,
                "conditions": [{"type": "AbleToScale", "status": "True"}],
                "currentMetrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "current": {"averageUtilization": 40, "averageValue": "400m"}}}],
            },
        });
        let mut scaler = object(second.clone());
        convert(&mut scaler, "autoscaling/v1");
        assert_eq!(scaler["spec"], json!({"targetCPUUtilizationPercentage": 50}));
        assert_eq!(
            scaler["status"],
            json!({"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 40})
        );
        let metrics = scaler["metadata"]["annotations"][METRICS].as_str().unwrap();
        let metrics: Value = serde_json::from_str(metrics).unwrap();
        assert_eq!(
            metrics[1],
            json!({"type": "Pods", "pods": {"metricName": "rps", "targetAverageValue": "100"}})
        );
        convert(&mut scaler, "autoscaling/v2");
        assert_eq!(Value::Object(scaler), second);
    }
}
