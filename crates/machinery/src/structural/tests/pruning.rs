//! What is dropped, and what is filled in.

use serde_json::{Value, json};

use super::{compile, compile_spec, object, spec};
use crate::{
    field::Errors,
    structural::{Overgrown, Schema, coerce_metadata},
};

/// What is left of an object, and what was dropped.
#[track_caller]
fn pruned(schema: &Schema, value: Value) -> (Value, Vec<String>) {
    let (mut object, mut errors) = (object(value), Errors::new());
    let unknown = schema.prune(&mut object, Some(&mut errors));
    assert!(errors.is_empty(), "{:?}", errors.list());
    (Value::Object(object), unknown)
}

fn defaulted(schema: &Schema, value: Value) -> Value {
    let mut object = object(value);
    schema.default(&mut object).expect("small defaults");
    Value::Object(object)
}

#[test]
fn fields_that_are_not_specified_are_dropped_and_told() {
    let schema = compile_spec(&json!({
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            "empty": {"type": "object"},
        },
    }));
    let (left, unknown) = pruned(
        &schema,
        json!({
            "apiVersion": "a/v1", "kind": "A", "metadata": {"odd": 1}, "top": 1,
            "spec": {"a": "x", "b": 1, "list": [{"x": 1, "y": 2}, {"z": {}}], "map": {"k": {"x": 1, "y": 2}}, "empty": {"q": 1}},
        }),
    );
    assert_eq!(
        left,
        json!({
            "apiVersion": "a/v1", "kind": "A", "metadata": {"odd": 1},
            "spec": {"a": "x", "list": [{"x": 1}, {}], "map": {"k": {"x": 1}}, "empty": {}},
        })
    );
    assert_eq!(
        unknown,
        ["spec.b", "spec.empty.q", "spec.list[0].y", "spec.list[1].z", "spec.map.k.y", "top"]
    );
}

#[test]
fn unknown_fields_are_kept_where_the_schema_says_so() {
    let schema = compile(&json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "strict": {"type": "object", "properties": {"a": {"type": "string"}}},
            "open": {"type": "object", "additionalProperties": true},
            "typeless": {"x-kubernetes-preserve-unknown-fields": true},
            "list": {
                "type": "array", "x-kubernetes-preserve-unknown-fields": true,
                "items": {"type": "object", "properties": {"in": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            },
        },
    }));
    let value = json!({
        "more": {"x": {"y": 1}}, "strict": {"a": "x", "b": 1}, "open": {"k": {"deep": 1}}, "typeless": [{"a": {"b": 1}}],
        "list": [{"kept": 1, "in": {"a": "x", "b": 1}}],
    });
    let (left, unknown) = pruned(&schema, value.clone());
    let mut expected = value;
    expected["strict"] = json!({"a": "x"});
    expected["list"] = json!([{"kept": 1, "in": {"a": "x"}}]);
    assert_eq!((left, unknown), (expected, vec!["list[0].in.b".to_owned(), "strict.b".to_owned()]));
}

fn embedding() -> Schema {
    compile_spec(&json!({
        "type": "object",
        "properties": {
            "strict": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"data": {"type": "object"}}},
            "any": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        },
    }))
}

#[test]
fn embedded_resources_have_metadata_like_any_other() {
    let schema = embedding();
    let resource = json!({
        "apiVersion": "v1", "kind": "A", "odd": 1,
        "metadata": {"name": "x", "labels": {"a": "b"}, "creationTimestamp": null, "odd": 1},
    });
    let (left, unknown) = pruned(&schema, json!({"spec": {"strict": resource, "any": resource}}));
    let metadata = json!({"name": "x", "labels": {"a": "b"}});
    assert_eq!(
        left["spec"],
        json!({
            "strict": {"apiVersion": "v1", "kind": "A", "metadata": metadata},
            "any": {"apiVersion": "v1", "kind": "A", "metadata": metadata, "odd": 1},
        })
    );
    assert_eq!(unknown, ["spec.any.metadata.odd", "spec.strict.metadata.odd", "spec.strict.odd"]);
}

#[test]
fn malformed_metadata_of_embedded_resources_is_told_or_dropped() {
    let schema = embedding();
    let value = json!({"any": {
        "apiVersion": 1, "kind": "A", "metadata": {"name": 1, "labels": {"a": 1}, "generation": 7},
    }});
    let (mut told, mut errors) = (spec(value.clone()), Errors::new());
    schema.prune(&mut told, Some(&mut errors));
    let faults: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert_eq!(faults[0], "spec.any.apiVersion: Invalid value: 1: must be a string");
    assert!(faults[1].starts_with("spec.any.metadata: Invalid value: "), "{faults:?}");
    let mut dropped = spec(value);
    schema.prune(&mut dropped, None);
    assert_eq!(dropped["spec"], json!({"any": {"kind": "A", "metadata": {"generation": 7}}}));
    let mut no_map = spec(json!({"any": {"metadata": "x"}}));
    schema.prune(&mut no_map, None);
    assert_eq!(no_map["spec"], json!({"any": {}}));
}

#[test]
fn metadata_of_objects_can_be_coerced_by_itself() {
    let mut meta = object(json!({"name": "a", "odd": 1, "labels": {"a": 1}}));
    let report = coerce_metadata(&mut meta);
    assert_eq!(report.unknown, ["odd"]);
    assert_eq!(report.faults.len(), 1);
}

#[test]
fn a_hundred_dropped_fields_are_told() {
    let schema = compile_spec(&json!({"type": "object"}));
    let mut many =
        spec((0..1000).map(|n| (format!("f{n}"), json!(1))).collect::<serde_json::Map<_, _>>().into());
    assert_eq!(schema.prune(&mut many, None).len(), 100);
    assert_eq!(many["spec"], json!({}));
}

#[test]
fn defaults_are_filled_in_below_what_is_there() {
    let schema = compile(&json!({
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": "x"},
            "nested": {"type": "object", "properties": {"b": {"type": "integer", "default": 1}, "c": {"type": "object",
                "properties": {"d": {"type": "boolean", "default": true}}}}},
            "whole": {"type": "object", "default": {}, "properties": {"e": {"type": "string", "default": "y"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"f": {"type": "integer", "default": 2}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"g": {"type": "integer", "default": 3}}}},
        },
    }));
    let cases = [
        (json!({}), json!({"a": "x", "whole": {"e": "y"}})),
        (json!({"a": "z", "whole": {"e": ""}}), json!({"a": "z", "whole": {"e": ""}})),
        (json!({"nested": {}}), json!({"a": "x", "whole": {"e": "y"}, "nested": {"b": 1}})),
        (
            json!({"nested": {"c": {}}}),
            json!({"a": "x", "whole": {"e": "y"}, "nested": {"b": 1, "c": {"d": true}}}),
        ),
        (
            json!({"list": [{}, {"f": 0}]}),
            json!({"a": "x", "whole": {"e": "y"}, "list": [{"f": 2}, {"f": 0}]}),
        ),
        (json!({"map": {"k": {}}}), json!({"a": "x", "whole": {"e": "y"}, "map": {"k": {"g": 3}}})),
        (
            json!({"nested": "wrong", "list": 1}),
            json!({"a": "x", "whole": {"e": "y"}, "nested": "wrong", "list": 1}),
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(defaulted(&schema, given.clone()), expected, "{given}");
    }
}

#[test]
fn null_is_dropped_or_replaced_where_it_is_not_allowed() {
    let schema = compile_spec(&json!({
        "type": "object",
        "properties": {
            "plain": {"type": "string"},
            "default": {"type": "string", "default": "x"},
            "nullable": {"type": "string", "nullable": true},
            "both": {"type": "string", "nullable": true, "default": "x"},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "items": {"type": "string", "default": "y"}},
            "bare": {"type": "array", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string", "default": "z"}},
            "strict": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }));
    let given = json!({"spec": {
        "plain": null, "default": null, "nullable": null, "both": null, "free": null, "list": [null, "a"], "bare": [null],
        "map": {"k": null}, "strict": {"k": null}, "unknown": null,
    }});
    // What is applied is held against the schema with its nulls: only defaults take their place then.
    let kept = defaulted(&schema, given.clone());
    assert_eq!((&kept["spec"]["plain"], &kept["spec"]["strict"]), (&Value::Null, &json!({"k": null})));
    let mut given = object(given);
    schema.drop_nulls(&mut given);
    assert_eq!(
        defaulted(&schema, Value::Object(given))["spec"],
        json!({
            "default": "x", "nullable": null, "both": null, "list": ["y", "a"], "bare": [null], "map": {"k": "z"}, "strict": {},
            "unknown": null,
        })
    );
}

#[test]
fn defaults_cannot_make_an_object_grow_without_bound() {
    let schema = compile_spec(&json!({
        "type": "array",
        "items": {"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(10_000)}}},
    }));
    let mut object = spec(Value::Array(vec![json!({}); 100_000]));
    assert_eq!(schema.default(&mut object), Err(Overgrown));
}
