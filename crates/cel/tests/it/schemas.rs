//! Types from schemas, and how data that does not fit is told.

use serde_json::json;
use windlass_cel::{Budget, Env, Type, Variables};

#[test]
fn schemas_become_types() {
    for (schema, ty) in [
        (json!({"type": "string"}), "string"),
        (json!({"type": "integer"}), "int"),
        (json!({"type": "number"}), "double"),
        (json!({"type": "boolean"}), "bool"),
        (json!({"type": "string", "format": "byte"}), "bytes"),
        (json!({"type": "string", "format": "date-time"}), "timestamp"),
        (json!({"type": "string", "format": "date"}), "timestamp"),
        (json!({"type": "string", "format": "duration"}), "duration"),
        (json!({"type": "string", "format": "uuid"}), "string"),
        (json!({"x-kubernetes-int-or-string": true}), "dyn"),
        (json!({"type": "array", "items": {"type": "integer"}}), "list(int)"),
        (json!({"type": "array"}), "list(dyn)"),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), "map(string, string)"),
        (json!({"type": "object", "additionalProperties": true}), "map(string, dyn)"),
        (json!({"type": "object", "properties": {"a": {"type": "string"}}}), "object"),
        (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), "dyn"),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), "dyn"),
        (json!({"$ref": "#/definitions/x"}), "dyn"),
        (json!({}), "dyn"),
        (json!(true), "dyn"),
    ] {
        assert_eq!(Type::from_schema(&schema).ty.to_string(), ty, "{schema}");
    }
}

#[test]
fn sizes_come_from_the_schema_or_the_largest_request() {
    for (schema, most) in [
        (json!({"type": "string", "maxLength": 10}), 40),
        (json!({"type": "string", "enum": ["a", "bcd"]}), 3),
        (json!({"type": "string"}), 3 * 1024 * 1024 - 2),
        (json!({"type": "string", "format": "byte", "maxLength": 10}), 10),
        (json!({"type": "array", "maxItems": 5, "items": {"type": "integer"}}), 5),
        (json!({"type": "array", "items": {"type": "boolean"}}), (3 * 1024 * 1024 - 2) / 5),
        (json!({"type": "object", "maxProperties": 7, "additionalProperties": {"type": "string"}}), 7),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), (3 * 1024 * 1024 - 2) / 8),
    ] {
        assert_eq!(Type::from_schema(&schema).most, most, "{schema}");
    }
}

#[test]
fn a_resource_shows_its_names_and_nothing_else_of_the_metadata() {
    let schema = json!({
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
            "spec": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
    });
    let env = Env::new().variable("self", Type::from_resource_schema(&schema));
    for (source, fits) in [
        ("self.metadata.name == 'a'", true),
        ("self.metadata.generateName == 'a'", true),
        ("self.apiVersion == 'v1' && self.kind == 'K'", true),
        ("self.spec.n == 1", true),
        ("self.metadata.labels", false),
        ("self.metadata.uid", false),
        ("self.status", false),
    ] {
        assert_eq!(env.compile(source).is_ok(), fits, "{source}");
    }
}

#[test]
fn data_that_does_not_fit_the_schema_is_told() {
    let schema = json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer"}, "s": {"type": "string"}, "t": {"type": "string", "format": "date-time"},
            "d": {"type": "string", "format": "duration"}, "b": {"type": "string", "format": "byte"},
            "l": {"type": "array", "items": {"type": "string"}},
            "ln": {"type": "array", "items": {"type": "string", "nullable": true}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    });
    let env = Env::new().variable("self", Type::from_schema(&schema));
    let data = json!({
        "n": "1", "s": 1, "t": "x", "d": "x", "b": "?", "l": [null], "ln": [null, "a"], "m": {"a": "x"},
    });
    for (source, expected) in [
        ("self.n == 1", "invalid data, expected int, got string"),
        ("self.s == 'a'", "invalid data, expected string, got number"),
        ("self.t == timestamp(0)", "Invalid date-time formatted string x"),
        ("self.d == duration('1s')", "Invalid duration x"),
        ("self.b == b''", "Invalid byte formatted string"),
        ("self.l[0] == 'a'", "invalid data, got null for schema with nullable=false"),
        ("self.l.all(x, x == 'a')", "invalid data, got null for schema with nullable=false"),
        ("dyn(self.ln[0]) == null", "true"),
        ("self.ln.exists(x, x == 'a')", "true"),
        ("self.m.a == 1", "invalid data, expected int, got string"),
        ("has(self.n)", "true"),
    ] {
        let program = env.compile(source).unwrap_or_else(|errors| panic!("{source}: {}", errors[0]));
        let found = match program.eval(&Variables::new().json("self", &data), &mut Budget::default()) {
            Ok(value) => crate::support::show(&value),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{source}");
    }
}

#[test]
fn whole_numbers_may_be_written_with_a_point() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "f": {"type": "number"}}});
    let env = Env::new().variable("self", Type::from_schema(&schema));
    let program = env.compile("self.n == 2 && self.f == 2.0").expect("compiles");
    let data = json!({"n": 2.0, "f": 2});
    let value = program.eval(&Variables::new().json("self", &data), &mut Budget::default()).expect("a value");
    assert_eq!(value.as_bool(), Some(true));
}
