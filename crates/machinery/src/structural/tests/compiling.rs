//! Which schemas Kubernetes takes.

use serde_json::{Value, json};

use super::{compile_spec, refused};
use crate::{
    field::Errors,
    structural::{Schema, field_path},
};

/// What is said about a schema of an object whose `spec` is this, seen from `spec`.
fn refused_spec(spec: &Value) -> Vec<String> {
    let faults = refused(&json!({"type": "object", "properties": {"spec": spec}}));
    faults.into_iter().map(|fault| fault.replace("schema.properties[spec]", "spec")).collect()
}

#[track_caller]
fn check(cases: &[(Value, &str)], refused: fn(&Value) -> Vec<String>) {
    for (schema, fault) in cases {
        let faults = refused(schema);
        match *fault {
            "" => assert_eq!(faults, [""; 0], "{schema}"),
            fault => assert!(faults.iter().any(|found| found == fault), "{schema}: {faults:?}"),
        }
    }
}

#[test]
fn every_place_has_a_type() {
    check(
        &[
            (json!({"type": "object"}), ""),
            (json!({}), "schema.type: Required value: must not be empty at the root"),
            (json!({"x-kubernetes-preserve-unknown-fields": true}), ""),
            (
                json!({"type": "string"}),
                r#"schema.type: Invalid value: "string": must be object at the root"#,
            ),
            (
                json!({"type": "object", "properties": {"a": {}}}),
                "schema.properties[a].type: Required value: must not be empty for specified object fields",
            ),
            (json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true}}}), ""),
            (
                json!({"type": "object", "properties": {"a": {"x-kubernetes-preserve-unknown-fields": true}}}),
                "",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
                "schema.properties[a].items.type: Required value: must not be empty for specified array items",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array"}}}),
                "schema.properties[a].items: Required value: must be specified",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {}}}}),
                "schema.properties[a].additionalProperties.type: Required value: must not be empty for specified object fields",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "text"}}}),
                r#"schema.properties[a].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "null"}}}),
                "schema.properties[a].type: Forbidden: type cannot be set to null, use nullable as an alternative",
            ),
            (json!("string"), r#"schema: Invalid value: "string": must be a schema"#),
        ],
        refused,
    );
}

#[test]
fn parts_of_openapi_that_kubernetes_leaves_out_are_refused() {
    check(
        &[
            (json!({"type": "string", "$ref": "#/a"}), "spec.$ref: Forbidden: $ref is not supported"),
            (json!({"type": "string", "id": "a"}), "spec.id: Forbidden: id is not supported"),
            (
                json!({"type": "object", "definitions": {"a": {}}}),
                "spec.definitions: Forbidden: definitions is not supported",
            ),
            (json!({"type": "object", "definitions": {}}), ""),
            (
                json!({"type": "object", "patternProperties": {"a": {"type": "string"}}}),
                "spec.patternProperties: Forbidden: patternProperties is not supported",
            ),
            (
                json!({"type": "object", "dependencies": {"a": ["b"]}}),
                "spec.dependencies: Forbidden: dependencies is not supported",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "additionalItems": false}),
                "spec.additionalItems: Forbidden: additionalItems is not supported",
            ),
            (
                json!({"type": "array", "items": [{"type": "string"}]}),
                "spec.items: Forbidden: items must be a schema object and not an array",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
                "spec.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ),
            (json!({"type": "array", "items": {"type": "string"}, "uniqueItems": false}), ""),
            (
                json!({"type": "object", "additionalProperties": false}),
                "spec.additionalProperties: Forbidden: additionalProperties cannot be set to false",
            ),
            (json!({"type": "object", "additionalProperties": true}), ""),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
                "spec.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true}),
                "",
            ),
        ],
        refused_spec,
    );
    check(
        &[(
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "schema.additionalProperties: Forbidden: must not be used at the root",
        )],
        refused,
    );
}

#[test]
fn keys_of_the_wrong_type_are_told() {
    check(
        &[
            (json!({"type": 1}), "spec.type: Invalid value: 1: must be a string"),
            (
                json!({"type": "string", "maxLength": "x"}),
                r#"spec.maxLength: Invalid value: "x": must be an integer"#,
            ),
            (
                json!({"type": "string", "maxLength": 1.5}),
                "spec.maxLength: Invalid value: 1.5: must be an integer",
            ),
            (json!({"type": "string", "maxLength": null}), ""),
            (
                json!({"type": "object", "properties": []}),
                "spec.properties: Invalid value: []: must be a map of schemas",
            ),
            (
                json!({"type": "object", "required": "a"}),
                r#"spec.required: Invalid value: "a": must be a list of strings"#,
            ),
            (
                json!({"type": "object", "anyOf": [true]}),
                "spec.anyOf: Invalid value: [true]: must be a list of schemas",
            ),
            (
                json!({"type": "object", "nullable": "yes"}),
                r#"spec.nullable: Invalid value: "yes": must be a boolean"#,
            ),
            (
                json!({"type": "object", "x-kubernetes-validations": ["self"]}),
                r#"spec.x-kubernetes-validations[0]: Invalid value: "self": must be a map"#,
            ),
        ],
        refused_spec,
    );
}

#[test]
fn junctors_only_restrict_values() {
    let forbidden = [
        ("type", json!("string"), "empty"),
        ("title", json!("a"), "empty"),
        ("description", json!("a"), "empty"),
        ("default", json!(false), "undefined"),
        ("nullable", json!(true), "false"),
        ("additionalProperties", json!({"minimum": 1}), "undefined"),
        ("x-kubernetes-preserve-unknown-fields", json!(true), "false"),
        ("x-kubernetes-int-or-string", json!(true), "false"),
    ];
    for (key, value, words) in forbidden {
        for junctor in ["allOf", "anyOf", "oneOf", "not"] {
            let nested = json!({key: value});
            let (inside, place) = match junctor {
                "not" => (nested, "not".to_owned()),
                junctor => (json!([nested]), format!("{junctor}[0]")),
            };
            let fault = format!("spec.{place}.{key}: Forbidden: must be {words} to be structural");
            check(&[(json!({"type": "object", junctor: inside}), &fault)], refused_spec);
        }
    }
    check(
        &[
            (
                json!({"type": "object", "oneOf": [{"required": ["a"]}, {"not": {"anyOf": [{"required": ["b"]}, {"minProperties": 2}]}}]}),
                "",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"properties": {"a": {"type": "string"}}}]}),
                "spec.allOf[0].properties[a].type: Forbidden: must be empty to be structural",
            ),
            (
                json!({"type": "object", "anyOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]}),
                "spec.anyOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural",
            ),
            (
                json!({"type": "object", "anyOf": [{"properties": {"metadata": {}}}]}),
                "spec.anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
            ),
        ],
        refused_spec,
    );
    check(
        &[
            (
                json!({"type": "object", "allOf": [{"properties": {"foo": {"items": {"minimum": 1}}}}]}),
                "schema.properties[foo]: Required value: because it is defined in allOf[0].properties[foo]",
            ),
            (
                json!({"type": "object", "properties": {"foo": {"type": "string"}}, "allOf": [{"properties": {"foo": {"items": {}}}}]}),
                "schema.properties[foo].items: Required value: because it is defined in allOf[0].properties[foo].items",
            ),
            (
                json!({"type": "object", "properties": {"foo": {"type": "string"}}, "not": {"properties": {"foo": {"maxLength": 1}}}}),
                "",
            ),
        ],
        refused,
    );
}

#[test]
fn integers_or_strings_may_name_both_types() {
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    check(
        &[
            (json!({"x-kubernetes-int-or-string": true, "anyOf": both}), ""),
            (json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": both}, {"maxLength": 3}]}), ""),
            (
                json!({"x-kubernetes-int-or-string": true, "allOf": [{"maxLength": 3}, {"anyOf": both}]}),
                "spec.allOf[1].anyOf[0].type: Forbidden: must be empty to be structural",
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "string"}, {"type": "integer"}]}),
                "spec.anyOf[0].type: Forbidden: must be empty to be structural",
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
                "spec.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
            ),
        ],
        refused_spec,
    );
}

#[test]
fn the_metadata_of_an_object_can_only_be_restricted_by_name() {
    let refused_meta = |meta: &Value| refused(&json!({"type": "object", "properties": {"metadata": meta}}));
    let fault = "schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified";
    check(
        &[
            (json!({"type": "object"}), ""),
            (json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}}), ""),
            (
                json!({"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}),
                "",
            ),
            (
                json!({"type": "object", "properties": {"name": {"type": "string"}, "labels": {"type": "object"}}}),
                fault,
            ),
            (json!({"type": "object", "required": ["name"]}), fault),
            (
                json!({"type": "string"}),
                r#"schema.properties[metadata].type: Invalid value: "string": must be object"#,
            ),
            (
                json!({"type": "object", "properties": {"name": {"type": "string", "default": "a"}}}),
                "schema.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata",
            ),
        ],
        refused_meta,
    );
    check(
        &[(
            json!({"type": "object", "properties": {"kind": {"type": "integer"}}}),
            r#"schema.properties[kind].type: Invalid value: "integer": must be string"#,
        )],
        refused,
    );
}

#[test]
fn embedded_resources_are_objects_with_something_in_them() {
    let embedded = |rest: Value| {
        let mut schema = json!({"x-kubernetes-embedded-resource": true});
        schema.as_object_mut().expect("an object").extend(rest.as_object().cloned().expect("an object"));
        schema
    };
    check(
        &[
            (embedded(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})), ""),
            (embedded(json!({"type": "object", "properties": {"spec": {"type": "object"}}})), ""),
            (
                embedded(json!({"type": "object"})),
                "spec.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            ),
            (
                embedded(json!({})),
                "spec.type: Required value: must be object if x-kubernetes-embedded-resource is true",
            ),
            (
                embedded(json!({"type": "string"})),
                r#"spec.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true"#,
            ),
            (
                embedded(json!({"type": "object", "additionalProperties": {"type": "string"}})),
                "spec.additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set",
            ),
            (
                embedded(
                    json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {
                        "x": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
                    }}}}),
                ),
                "spec.properties[metadata].properties[x].x-kubernetes-embedded-resource: Forbidden: must not be used inside of resource meta",
            ),
        ],
        refused_spec,
    );
}

#[test]
fn list_and_map_types_fit_what_they_are_said_of() {
    let map = |items: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": items});
    let set = |items: Value| json!({"type": "array", "x-kubernetes-list-type": "set", "items": items});
    let entry = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}});
    check(
        &[
            (map(entry.clone()), ""),
            (map(json!({"type": "object", "properties": {"k": {"type": "string", "default": "a"}}})), ""),
            (
                map(json!({"type": "object", "properties": {"k": {"type": "string"}}})),
                "spec.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ),
            (
                map(
                    json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "nullable": true}}}),
                ),
                "spec.items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ),
            (
                map(json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "object"}}})),
                r#"spec.items.properties[k].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map"#,
            ),
            (
                map(json!({"type": "object", "required": ["k"]})),
                r#"spec.x-kubernetes-list-map-keys: Invalid value: ["k"]: entries must all be names of item properties"#,
            ),
            (
                map(json!({"type": "string"})),
                r#"spec.items.type: Invalid value: "string": must be object if parent array's x-kubernetes-list-type is map"#,
            ),
            (
                map(
                    json!({"type": "object", "nullable": true, "required": ["k"], "properties": {"k": {"type": "string"}}}),
                ),
                "spec.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map",
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "map", "items": entry}),
                "spec.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "k"], "items": entry}),
                r#"spec.x-kubernetes-list-map-keys: Invalid value: ["k","k"]: must not contain duplicate entries"#,
            ),
            (
                json!({"type": "array", "x-kubernetes-list-map-keys": ["k"], "items": entry}),
                "spec.x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "set", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "string"}}),
                r#"spec.x-kubernetes-list-type: Invalid value: "set": must be map if x-kubernetes-list-map-keys is non-empty"#,
            ),
            (
                json!({"type": "object", "x-kubernetes-list-type": "atomic"}),
                r#"spec.type: Invalid value: "object": must be array if x-kubernetes-list-type is specified"#,
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "bag", "items": {"type": "string"}}),
                r#"spec.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map""#,
            ),
            (set(json!({"type": "string"})), ""),
            (set(json!({"type": "object", "x-kubernetes-map-type": "atomic"})), ""),
            (
                set(json!({"type": "object"})),
                "spec.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
            ),
            (set(json!({"type": "array", "items": {"type": "string"}})), ""),
            (
                set(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})),
                r#"spec.items.x-kubernetes-list-type: Invalid value: "set": must be atomic as item of a list with x-kubernetes-list-type=set"#,
            ),
            (json!({"type": "object", "x-kubernetes-map-type": "atomic"}), ""),
            (
                json!({"type": "string", "x-kubernetes-map-type": "atomic"}),
                r#"spec.type: Invalid value: "string": must be object if x-kubernetes-map-type is specified"#,
            ),
            (
                json!({"type": "object", "x-kubernetes-map-type": "merged"}),
                r#"spec.x-kubernetes-map-type: Unsupported value: "merged": supported values: "atomic", "granular""#,
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
                "spec.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
            ),
        ],
        refused_spec,
    );
}

#[test]
fn defaults_are_valid_themselves() {
    check(
        &[
            (json!({"type": "string", "default": "a"}), ""),
            (json!({"type": "string", "default": null}), ""),
            (
                json!({"type": "string", "default": 1}),
                r#"spec.default: Invalid value: "integer": in body must be of type string: "integer""#,
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "integer"}}, "default": {"a": "x"}}),
                r#"spec.default.a: Invalid value: "string": a in body must be of type integer: "string""#,
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "integer"}}, "default": {"b": 1}}),
                r#"spec.default: Invalid value: {"b":1}: must not have unknown fields"#,
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": {"b": 1}}),
                "",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "integer", "nullable": true}}, "default": {"a": null}}),
                "",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "integer"}}, "default": {"a": null}}),
                r#"spec.default.a: Invalid value: "null": a in body must be of type integer: "null""#,
            ),
            (
                json!({"type": "array", "items": {"type": "string", "enum": ["a"], "default": "b"}}),
                r#"spec.items.default: Unsupported value: "b": supported values: "a""#,
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string", "maxLength": 1, "default": "ab"}}),
                "spec.additionalProperties.default: Too long: may not be more than 1 byte",
            ),
            (
                json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                    "default": {"kind": "A"}}),
                "spec.default.apiVersion: Required value",
            ),
            (
                json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "a/b"}}}}}),
                r#"spec.properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid metadata: metadata.name: Invalid value: "a/b": may not contain '/'"#,
            ),
            (
                json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"metadata": {"type": "object", "properties": {"finalizers": {"type": "array", "items": {"type": "string", "default": "x/y"}}}}}}),
                "",
            ),
        ],
        refused_spec,
    );
}

#[test]
fn rules_are_complete_before_anyone_evaluates_them() {
    let with = |rule: Value| json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [rule]});
    let prefix = "spec.x-kubernetes-validations[0]";
    let cases = [
        (
            json!({"rule": "true", "reason": "FieldValueForbidden", "fieldPath": ".a", "optionalOldSelf": true}),
            "",
        ),
        (json!({"rule": "true", "fieldPath": "['a']"}), ""),
        (json!({"rule": "  "}), ".rule: Required value: rule is not specified"),
        (
            json!({"rule": "true", "message": " "}),
            r#".message: Invalid value: " ": must be non-empty if specified"#,
        ),
        (
            json!({"rule": "true", "message": "a\nb"}),
            r#".message: Invalid value: "a\nb": must not contain line breaks"#,
        ),
        (
            json!({"rule": "true\n&& true"}),
            ".message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "messageExpression": " "}),
            ".messageExpression: Required value: messageExpression must be non-empty if specified",
        ),
        (
            json!({"rule": "true", "reason": "Odd"}),
            r#".reason: Unsupported value: "Odd": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
        ),
        (
            json!({"rule": "true", "fieldPath": ".b"}),
            r#".fieldPath: Invalid value: ".b": must be a valid path"#,
        ),
        (
            json!({"rule": "true", "fieldPath": "a"}),
            r#".fieldPath: Invalid value: "a": must be a valid path"#,
        ),
    ];
    for (rule, fault) in cases {
        let fault = if fault.is_empty() { String::new() } else { format!("{prefix}{fault}") };
        check(&[(with(rule), &fault)], refused_spec);
    }
}

#[test]
fn patterns_must_be_expressions_that_go_reads() {
    check(
        &[
            (json!({"type": "string", "pattern": "^[a-z]+$"}), ""),
            (
                json!({"type": "string", "pattern": "(?=a)"}),
                r#"spec.pattern: Invalid value: "(?=a)": must be a valid regular expression, but isn't: invalid or unsupported Perl syntax: `(?=`"#,
            ),
            (
                json!({"type": "string", "not": {"pattern": "["}}),
                r#"spec.not.pattern: Invalid value: "[": must be a valid regular expression, but isn't: missing closing ]"#,
            ),
        ],
        refused_spec,
    );
}

#[test]
fn paths_lead_to_the_places_they_name() {
    let schema = compile_spec(&json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "it's": {"type": "string"},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "list": {"type": "array", "items": {"type": "string"}},
        },
    }));
    let path = |path: &str, keys: bool| {
        field_path(schema.root(), path, keys).map(|(names, shape)| format!("{names:?} {:?}", shape.kind()))
    };
    assert_eq!(path(".spec.name", false), Ok(r#"["spec", "name"] String"#.to_owned()));
    assert_eq!(path(".spec.map.x", false), Ok(r#"["spec", "map", "x"] Integer"#.to_owned()));
    assert_eq!(path(r".spec['it\'s']", true), Ok(r#"["spec", "it's"] String"#.to_owned()));
    assert_eq!(path(".spec.map['a.b']", true), Ok(r#"["spec", "map", "a.b"] Integer"#.to_owned()));
    for (text, keys, fault) in [
        (".spec.map['a.b']", false, "array notation is not allowed"),
        (".spec.absent", true, "does not refer to a valid field"),
        (".spec.name.deeper", true, "does not refer to a valid field"),
        (".spec.list[0]", true, "expected single quoted string but got 0]"),
        (".spec.", true, "unexpected end of JSON path"),
        (".spec['name'", true, "unexpected end of JSON path"),
        ("spec", true, "expected [ or . but got: spec"),
        (r".spec['\q']", true, r"invalid string literal: invalid escape char \q"),
    ] {
        assert_eq!(path(text, keys).err().as_deref(), Some(fault), "{text}");
    }
}

#[test]
fn schemas_that_are_nested_too_deeply_are_refused() {
    let mut schema = json!({"type": "string"});
    for _ in 0..300 {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    let mut errors = Errors::new();
    assert!(Schema::compile(&schema, &mut errors).is_none());
    assert!(errors.list()[0].detail.starts_with("must not be nested more than"), "{:?}", errors.list());
}
