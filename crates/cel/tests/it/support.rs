//! Runs tables of expressions, and prints values.

use serde_json::{Value as Json, json};
use windlass_cel::{Budget, Env, Key, List, Map, Program, Type, Value, Variables};

/// A value as the tables have it: `1`, `1u`, `1.0`, `"a"`, `b"a"`, `[1, 2]`, `{"a": 1}`.
pub(crate) fn show(value: &Value<'_>) -> String {
    match value {
        Value::Uint(value) => format!("{value}u"),
        Value::Double(value) => format!("{value:?}"),
        Value::String(text) => format!("{:?}", &**text),
        Value::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Value::List(List::Shared(items)) => {
            format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", "))
        }
        Value::Map(Map::Shared(entries)) => {
            let entries = entries.iter().map(|(key, value)| format!("{}: {}", show_key(key), show(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("some({})", show(value)),
        Value::Type(name) => name.to_string(),
        Value::Object(object) => {
            let fields = object.fields.iter().map(|(name, value)| format!("{name}: {}", show(value)));
            format!("{}{{{}}}", object.name, fields.collect::<Vec<_>>().join(", "))
        }
        other => match other.to_json() {
            Ok(Json::String(text)) => text,
            Ok(json) => json.to_string(),
            Err(_) => format!("{other:?}"),
        },
    }
}

fn show_key(key: &Key<'_>) -> String {
    match key {
        Key::Uint(key) => format!("{key}u"),
        Key::String(text) => format!("{:?}", &**text),
        other => other.to_string(),
    }
}

/// What the expressions of the tables see: `d` is dynamic, `s` has a schema.
pub(crate) fn data() -> (Json, Json) {
    let dynamic = json!({
        "int": 3, "float": 2.5, "text": "hello", "yes": true, "nothing": null,
        "list": [1, 2, 3], "mixed": [1, "a", 2.0], "map": {"a": 1, "b": 2},
        "big": 9_007_199_254_740_993_i64, "namespace": "default",
        "containers": [{"name": "a", "image": "x:1", "ports": [80, 443]}, {"name": "b", "image": "y:2"}],
    });
    let typed = json!({
        "name": "web", "replicas": 3, "ratio": 1, "enabled": true, "absent": null,
        "labels": {"app": "web", "tier": "front"}, "tags": ["a", "b", "a"],
        "set": ["x", "y"], "otherSet": ["y", "x"],
        "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        "portsTurned": [{"name": "https", "port": 443}, {"name": "http", "port": 80}],
        "target": "50%", "since": "2024-02-29T12:30:45Z", "day": "2024-03-01", "ttl": "1h30m",
        "data": "aGVsbG8=", "x-y": 1, "a.b/c": 2, "namespace": "default", "dunder__name": 4,
        "free": {"deep": {"er": 5}}, "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
    });
    (dynamic, typed)
}

pub(crate) fn schema() -> Json {
    let port = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
        "required": ["name"],
    });
    let ports = json!({
        "type": "array", "items": port, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
    });
    let set = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"}, "replicas": {"type": "integer"}, "ratio": {"type": "number"},
            "enabled": {"type": "boolean"}, "absent": {"type": "string", "nullable": true},
            "missing": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "tags": {"type": "array", "items": {"type": "string"}}, "set": set.clone(), "otherSet": set,
            "ports": ports.clone(), "portsTurned": ports,
            "target": {"x-kubernetes-int-or-string": true},
            "since": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"},
            "ttl": {"type": "string", "format": "duration"}, "data": {"type": "string", "format": "byte"},
            "x-y": {"type": "integer"}, "a.b/c": {"type": "integer"}, "namespace": {"type": "string"},
            "dunder__name": {"type": "integer"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true},
        },
    })
}

pub(crate) fn env() -> Env {
    Env::new().variable("d", Type::Dyn).variable("s", Type::from_schema(&schema()))
}

pub(crate) fn compiled(env: &Env, source: &str) -> Program {
    env.compile(source).unwrap_or_else(|errors| panic!("{source}: {}", errors[0]))
}

/// Runs one expression with the data above.
fn run(source: &str) -> String {
    let (dynamic, typed) = data();
    let program = match env().compile(source) {
        Ok(program) => program,
        Err(errors) => return errors[0].to_string(),
    };
    let variables = Variables::new().json("d", &dynamic).json("s", &typed);
    match program.eval(&variables, &mut Budget::default()) {
        Ok(value) => show(&value),
        Err(error) => format!("!{error}"),
    }
}

/// Runs a table of expressions and what they come to; `!` begins the words of a failure.
#[track_caller]
pub(crate) fn table(rows: &[(&str, &str)]) {
    let mut wrong = vec![];
    for (source, expected) in rows {
        let found = run(source);
        if found != *expected {
            wrong.push(format!("{source}\n  came to  {found}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// Runs a table of expressions that do not compile, and the beginning of what is said.
#[track_caller]
pub(crate) fn refused(env: &Env, rows: &[(&str, &str)]) {
    let mut wrong = vec![];
    for (source, expected) in rows {
        let found = match env.compile(source) {
            Ok(program) => format!("compiled to {}", program.result()),
            Err(errors) => {
                let error = &errors[0];
                format!("{}:{}: {}", error.line, error.column, error.message)
            }
        };
        if !found.starts_with(expected) {
            wrong.push(format!("{source}\n  said     {found}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
