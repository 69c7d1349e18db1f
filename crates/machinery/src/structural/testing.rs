//! Definitions for tests, with the features and the sizes of those that well-known operators install.

use serde_json::{Value, json};

use crate::object::Object;

/// How many levels of schemas a generated definition has.
pub const LEVELS: usize = 24;

/// A definition that is made of about this many bytes of JSON, with this many versions: schemas [`LEVELS`] deep,
/// alternatives, integers or strings, unknown fields that are kept, embedded resources, list and map types, defaults,
/// patterns, formats and rules.
pub fn large_definition(group: &str, n_versions: usize, n_bytes: usize) -> Object {
    const NAMES: &[&str] = &["v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"];
    let names = NAMES.iter().take(n_versions.clamp(1, NAMES.len()));
    let n_bytes = n_bytes / names.len();
    let versions: Vec<Value> = names
        .enumerate()
        .map(|(index, name)| {
            json!({
                "name": name, "served": true, "storage": index == 0,
                "schema": {"openAPIV3Schema": large_schema(index, n_bytes)},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector"},
                },
                "additionalPrinterColumns": [
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "selectableFields": [{"jsonPath": ".spec.mode"}],
            })
        })
        .collect();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("engines.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": versions,
            "names": {"plural": "engines", "singular": "engine", "kind": "Engine", "listKind": "EngineList",
                "shortNames": ["eng"], "categories": ["all"]},
        },
    });
    match definition {
        Value::Object(definition) => definition,
        _ => Object::new(),
    }
}

/// An object that is valid by the schemas of [`large_definition`].
pub fn large_object(group: &str, version: &str, name: &str) -> Object {
    let object = json!({
        "apiVersion": format!("{group}/{version}"), "kind": "Engine",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "mode": "Auto", "replicas": 3, "port": "http",
            "section0": section_value(),
            "section1": section_value(),
            "template": {
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "inner", "labels": {"app": "x"}},
                "data": {"a": "b"},
            },
        },
        "status": {"replicas": 3, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    match object {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

fn section_value() -> Value {
    json!({
        "secretRef": {"name": "s"},
        "containers": [
            {"name": "main", "image": "nginx", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "probe": {"httpGet": {"port": "http"}}},
            {"name": "side", "image": "envoy", "env": [{"name": "A", "value": "1"}]},
        ],
        "free": {"anything": [1, {"goes": true}]},
        "level": {"level": {"level": {"name": "deep"}}},
        "settings": {"a": {"timeout": "30s", "ratio": 0.5}},
        "tags": ["a", "b"],
    })
}

/// A text as long as descriptions usually are.
fn about(what: &str) -> String {
    format!(
        "{what} says how this part of the engine behaves. It is read when the engine starts and again whenever it \
         changes; values that are not given are chosen by the engine itself. More info: https://example.com/docs/{what}"
    )
}

fn large_schema(version: usize, n_bytes: usize) -> Value {
    let mut spec = json!({
        "type": "object",
        "description": about("spec"),
        "required": ["mode"],
        "properties": {
            "mode": {"type": "string", "enum": ["Auto", "Manual", "Off"], "default": "Auto", "description": about("mode")},
            "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 1000, "default": 1},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "template": {
                "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            },
        },
        "x-kubernetes-validations": [
            {"rule": "self.mode != 'Off' || self.replicas == 0", "message": "must not have replicas when it is off"},
            {"rule": "self.replicas >= oldSelf.replicas || self.mode != 'Manual'", "reason": "FieldValueForbidden",
                "fieldPath": ".replicas"},
        ],
    });
    let status = json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "replicas": {"type": "integer"},
            "selector": {"type": "string"},
            "conditions": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object", "required": ["type", "status"],
                    "properties": {
                        "type": {"type": "string", "maxLength": 316, "pattern": "^([a-zA-Z0-9.-]+/)?[A-Za-z][A-Za-z0-9_.]*$"},
                        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                        "lastTransitionTime": {"type": "string", "format": "date-time"},
                        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                    },
                },
            },
        },
    });
    // Once is enough to know how large a section is; names of several digits make little difference.
    let n_sections = (n_bytes / section(version, 0).to_string().len()).max(2);
    if let Some(Value::Object(properties)) = spec.get_mut("properties") {
        properties.extend((0..n_sections).map(|index| (format!("section{index}"), section(version, index))));
    }
    json!({
        "type": "object",
        "description": about("Engine"),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": about("apiVersion")},
            "kind": {"type": "string", "description": about("kind")},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    })
}

fn section(version: usize, index: usize) -> Value {
    let container = container();
    let mut own = Object::new();
    for option in 0..8 {
        own.insert(
            format!("option{index}x{option}"),
            json!({"type": "string", "nullable": option % 3 == 0, "maxLength": 64 + option, "description": about("option")}),
        );
    }
    json!({
        "type": "object",
        "description": about(&format!("section{index}")),
        "oneOf": [
            {"required": ["secretRef"]},
            {"required": ["inline"]},
            {"allOf": [
                {"not": {"required": ["secretRef"]}},
                {"not": {"required": ["inline"]}},
                {"properties": {"tags": {"maxItems": 0}}},
            ]},
        ],
        "properties": {
            "secretRef": {
                "type": "object", "x-kubernetes-map-type": "atomic", "required": ["name"],
                "properties": {
                    "name": {"type": "string", "format": "k8s-long-name", "description": about("name")},
                    "key": {"type": "string", "default": "value"},
                },
            },
            "inline": {"type": "string", "format": "byte", "nullable": true},
            "containers": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": container,
            },
            "initContainers": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": container,
            },
            "free": {"x-kubernetes-preserve-unknown-fields": true, "description": about("free")},
            "level": level(version, 5),
            "settings": {
                "type": "object", "maxProperties": 100,
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "timeout": {"type": "string", "format": "duration", "default": "10s"},
                        "ratio": {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.01},
                        "options": {"type": "object", "properties": own},
                    },
                    "x-kubernetes-validations": [{"rule": "!has(self.ratio) || self.ratio > 0.0"}],
                },
            },
            "tags": {
                "type": "array", "x-kubernetes-list-type": "set", "maxItems": 64,
                "items": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
            },
        },
    })
}

/// Objects in each other, down to the last level.
fn level(version: usize, depth: usize) -> Value {
    let mut properties = Object::new();
    properties.insert("name".to_owned(), json!({"type": "string", "description": about("name")}));
    properties.insert(
        format!("limit{depth}v{version}"),
        json!({"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+%?$", "description": about("limit")}),
    );
    if depth < LEVELS {
        properties.insert("level".to_owned(), level(version, depth + 1));
    }
    json!({
        "type": "object",
        "description": about("level"),
        "anyOf": [{"required": ["name"]}, {"required": [format!("limit{depth}v{version}")]}, {"minProperties": 0}],
        "properties": properties,
    })
}

fn container() -> Value {
    let quantity = json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true,
    });
    let probe = json!({
        "type": "object",
        "description": about("probe"),
        "properties": {
            "httpGet": {
                "type": "object", "required": ["port"],
                "properties": {
                    "path": {"type": "string", "description": about("path")},
                    "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
                    "scheme": {"type": "string", "enum": ["HTTP", "HTTPS"], "default": "HTTP"},
                },
            },
            "periodSeconds": {"type": "integer", "format": "int32", "minimum": 1, "default": 10},
        },
    });
    json!({
        "type": "object",
        "description": about("container"),
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "format": "k8s-short-name", "description": about("name")},
            "image": {"type": "string", "description": about("image")},
            "args": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
            "env": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}, "value": {"type": "string", "description": about("value")}},
                },
            },
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                "items": {
                    "type": "object", "required": ["containerPort"],
                    "properties": {
                        "containerPort": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
                        "protocol": {"type": "string", "default": "TCP", "enum": ["TCP", "UDP", "SCTP"]},
                    },
                },
            },
            "resources": {
                "type": "object",
                "properties": {
                    "limits": {"type": "object", "additionalProperties": quantity, "description": about("limits")},
                    "requests": {"type": "object", "additionalProperties": quantity, "description": about("requests")},
                },
            },
            "probe": probe,
            "startupProbe": probe,
        },
    })
}
