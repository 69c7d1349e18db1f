//! What is told about objects.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{compile, compile_spec, faults, object, spec};

/// Whether a `spec` fits a schema: what is said about it, without what stands before it.
#[track_caller]
fn check(schema: Value, cases: &[(Value, &[&str])]) {
    let schema = compile_spec(&schema);
    for (value, expected) in cases {
        let faults = faults(&schema, &spec(value.clone()), None);
        let faults: Vec<&str> =
            faults.iter().map(|fault| fault.strip_prefix("spec").unwrap_or(fault)).collect();
        assert_eq!(faults, *expected, "{value}");
    }
}

#[test]
fn types_are_told_by_name() {
    let wrong = |found: &str, wanted: &str| {
        format!(r#": Invalid value: "{found}": spec in body must be of type {wanted}: "{found}""#)
    };
    let kinds = [
        ("string", json!({"type": "string"}), vec!["string"]),
        ("integer", json!({"type": "integer"}), vec!["integer", "whole"]),
        ("number", json!({"type": "number"}), vec!["integer", "whole", "number"]),
        ("boolean", json!({"type": "boolean"}), vec!["boolean"]),
        ("object", json!({"type": "object"}), vec!["object"]),
        ("array", json!({"type": "array", "items": {"type": "string"}}), vec!["array"]),
        ("integer,string", json!({"x-kubernetes-int-or-string": true}), vec!["integer", "whole", "string"]),
    ];
    let values = [
        ("null", json!(null)),
        ("string", json!("a")),
        ("integer", json!(1)),
        ("whole", json!(1.0)),
        ("number", json!(1.5)),
        ("boolean", json!(true)),
        ("object", json!({})),
        ("array", json!([])),
    ];
    for (wanted, schema, fitting) in kinds {
        for (found, value) in &values {
            let shown = if *found == "whole" { "number" } else { found };
            let fault = wrong(shown, wanted);
            let expected: &[&str] = if fitting.contains(found) { &[] } else { &[&fault] };
            check(schema.clone(), &[(value.clone(), expected)]);
        }
    }
    check(json!({"type": "string", "nullable": true}), &[(json!(null), &[])]);
    check(json!({"x-kubernetes-preserve-unknown-fields": true}), &[(json!(null), &[]), (json!([1]), &[])]);
}

#[test]
fn numbers_are_within_their_limits() {
    check(
        json!({"type": "number", "minimum": 1, "maximum": 10.5}),
        &[
            (json!(1), &[]),
            (json!(10.5), &[]),
            (json!(0.5), &[": Invalid value: 0.5: spec in body should be greater than or equal to 1"]),
            (json!(11), &[": Invalid value: 11: spec in body should be less than or equal to 10.5"]),
        ],
    );
    check(
        json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 3, "exclusiveMaximum": true}),
        &[
            (json!(2), &[]),
            (json!(1), &[": Invalid value: 1: spec in body should be greater than 1"]),
            (json!(3), &[": Invalid value: 3: spec in body should be less than 3"]),
        ],
    );
    check(
        json!({"type": "integer", "maximum": 9_007_199_254_740_992_i64}),
        &[
            (json!(9_007_199_254_740_992_i64), &[]),
            (
                json!(9_007_199_254_740_993_i64),
                &[
                    ": Invalid value: 9007199254740993: spec in body should be less than or equal to 9007199254740992",
                ],
            ),
        ],
    );
    check(
        json!({"type": "number", "multipleOf": 0.1}),
        &[
            (json!(0.3), &[]),
            (json!(2), &[]),
            (json!(0.25), &[": Invalid value: 0.25: spec in body should be a multiple of 0.1"]),
        ],
    );
    check(
        json!({"type": "integer", "multipleOf": 3}),
        &[(json!(-9), &[]), (json!(10), &[": Invalid value: 10: spec in body should be a multiple of 3"])],
    );
    check(
        json!({"type": "integer", "multipleOf": 0}),
        &[(json!(1), &[": Invalid value: 0: factor MultipleOf declared for spec must be positive: 0"])],
    );
}

#[test]
fn strings_are_of_the_right_length_and_shape() {
    check(
        json!({"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-zä]*$"}),
        &[
            (json!("ab"), &[]),
            (json!("äää"), &[]),
            (json!("a"), &[r#": Invalid value: "a": spec in body should be at least 2 chars long"#]),
            (json!("abcd"), &[": Too long: may not be more than 3 bytes"]),
            (json!("AB"), &[r#": Invalid value: "AB": spec in body should match '^[a-zä]*$'"#]),
        ],
    );
}

#[test]
fn values_are_among_the_allowed() {
    check(
        json!({"type": "string", "enum": ["a", "b"]}),
        &[(json!("a"), &[]), (json!("c"), &[r#": Unsupported value: "c": supported values: "a", "b""#])],
    );
    check(
        json!({"x-kubernetes-preserve-unknown-fields": true, "enum": [1, {"a": 1}, null, "x"]}),
        &[
            (json!(1.0), &[]),
            (json!({"a": 1}), &[]),
            (json!(null), &[]),
            (json!(2), &[r#": Unsupported value: 2: supported values: "1", "{\"a\":1}", "null", "x""#]),
        ],
    );
    let many: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    let schema = compile_spec(&json!({"type": "string", "enum": many}));
    let fault = faults(&schema, &spec(json!("x")), None).remove(0);
    assert!(fault.len() < 2000 && fault.ends_with(r#""99", ..."#), "{fault}");
}

#[test]
fn lists_and_maps_have_the_right_number_of_entries() {
    check(
        json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}}),
        &[
            (json!([1]), &[]),
            (json!([]), &[": Invalid value: 0: spec in body should have at least 1 items"]),
            (json!([1, 2, 3]), &[": Too many: 3: must have at most 2 items"]),
            (
                json!([1, "x"]),
                &[r#"[1]: Invalid value: "string": spec[1] in body must be of type integer: "string""#],
            ),
        ],
    );
    check(
        json!({"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"type": "integer"}}),
        &[
            (json!({"a": 1}), &[]),
            (json!({}), &[": Invalid value: 0: spec in body should have at least 1 properties"]),
            (json!({"a": 1, "b": 2, "c": 3}), &[": Too many: 3: must have at most 2 items"]),
            (
                json!({"a": "x"}),
                &[r#".a: Invalid value: "string": spec.a in body must be of type integer: "string""#],
            ),
        ],
    );
    check(
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "object", "required": ["b"]}}}),
        &[
            (json!({}), &[".a: Required value"]),
            (json!({"a": {}}), &[".a.b: Required value"]),
            (json!({"a": {"b": null}}), &[]),
        ],
    );
}

#[test]
fn entries_of_sets_and_maps_differ() {
    check(
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
        &[(json!(["a", "b"]), &[]), (json!(["a", "b", "a", "a"]), &[r#"[2]: Duplicate value: "a""#])],
    );
    let map = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
        "items": {"type": "object", "properties": {"a": {"type": "string", "default": ""}, "b": {"type": "integer", "default": 1}, "c": {"type": "integer"}}},
    });
    check(
        map,
        &[
            (json!([{"a": "x", "b": 1}, {"a": "x", "b": 2}]), &[]),
            (
                json!([{"a": "x", "b": 1, "c": 1}, {"b": 1, "a": "x", "c": 2}]),
                &[r#"[1]: Duplicate value: {"a":"x","b":1}"#],
            ),
            (json!([{"c": 1}, {"c": 2}]), &["[1]: Duplicate value: {}"]),
            (
                json!([{"a": "x", "b": 1}, "y"]),
                &[
                    r#"[1]: Invalid value: "y": must be an object for an array of list-type map"#,
                    r#"[1]: Invalid value: "string": spec[1] in body must be of type object: "string""#,
                ],
            ),
        ],
    );
    // Without a list type, entries may be alike.
    check(json!({"type": "array", "items": {"type": "string"}}), &[(json!(["a", "a"]), &[])]);
}

#[test]
fn junctors_tell_how_many_alternatives_fit() {
    let properties = json!({"a": {"type": "integer"}, "b": {"type": "integer"}});
    check(
        json!({"type": "object", "properties": properties, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        &[
            (json!({"a": 1}), &[]),
            (
                json!({}),
                &[
                    r#": Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
                    ".a: Required value",
                ],
            ),
            (
                json!({"a": 1, "b": 1}),
                &[
                    r#": Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
                ],
            ),
        ],
    );
    check(
        json!({"type": "object", "properties": properties, "anyOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 5}}, "required": ["b"]}]}),
        &[
            (json!({"a": 1, "b": 1}), &[]),
            (
                json!({"b": 1}),
                &[
                    r#": Invalid value: "": "spec" must validate at least one schema (anyOf)"#,
                    ".b: Invalid value: 1: spec.b in body should be greater than or equal to 5",
                ],
            ),
        ],
    );
    check(
        json!({"type": "object", "properties": properties, "allOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        &[
            (json!({"a": 1, "b": 1}), &[]),
            (
                json!({"a": 1}),
                &[
                    ".b: Required value",
                    r#": Invalid value: "": "spec" must validate all the schemas (allOf)"#,
                ],
            ),
            (
                json!({}),
                &[
                    ".a: Required value",
                    ".b: Required value",
                    r#": Invalid value: "": "spec" must validate all the schemas (allOf). None validated"#,
                ],
            ),
        ],
    );
    check(
        json!({"type": "object", "properties": properties, "not": {"required": ["a", "b"]}}),
        &[
            (json!({"a": 1}), &[]),
            (json!({"a": 1, "b": 1}), &[r#": Invalid value: "": "spec" must not validate the schema (not)"#]),
        ],
    );
    check(
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        &[(json!(1), &[]), (json!("a"), &[])],
    );
}

#[test]
fn embedded_resources_are_checked_like_resources() {
    check(
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        &[
            (json!({"apiVersion": "v1", "kind": "A"}), &[]),
            (json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x", "namespace": "y"}}), &[]),
            (json!({}), &[".apiVersion: Required value", ".kind: Required value"]),
            (
                json!({"apiVersion": "", "kind": ""}),
                &[".apiVersion: Required value", ".kind: Required value"],
            ),
            (
                json!({"apiVersion": "a/b/c", "kind": "A"}),
                &[r#".apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#],
            ),
            (
                json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a/b"}}),
                &[r#".metadata.name: Invalid value: "a/b": may not contain '/'"#],
            ),
            (
                json!({"apiVersion": "v1", "kind": "A", "metadata": []}),
                &[".metadata: Invalid value: []: must be an object"],
            ),
        ],
    );
}

#[test]
fn the_name_of_an_object_can_be_restricted() {
    let schema = compile(&json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}},
    }}));
    assert_eq!(faults(&schema, &object(json!({"metadata": {"name": "abc"}})), None), [""; 0]);
    let long = object(json!({"metadata": {"name": "abcd"}}));
    assert_eq!(faults(&schema, &long, None), ["metadata.name: Too long: may not be more than 3 bytes"]);
}

fn ratcheting() -> Value {
    let entry = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 5}, "w": {"type": "integer"}}});
    json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer", "maximum": 5},
            "m": {"type": "integer", "maximum": 5},
            "inner": {"type": "object", "required": ["must"], "properties": {"a": {"type": "integer"}, "must": {"type": "string"}}},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": entry},
            "atomic": {"type": "array", "items": entry},
            "map": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 5}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 1}},
            "all": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "allOf": [{"properties": {"x": {"maximum": 5}}}]},
        },
    })
}

#[test]
fn what_did_not_change_is_not_held_against_an_update() {
    let schema = compile_spec(&ratcheting());
    let too_large = |field: &str| {
        format!("spec.{field}: Invalid value: 9: spec.{field} in body should be less than or equal to 5")
    };
    let cases: &[(Value, Value, Vec<String>)] = &[
        (json!({"n": 9}), json!({"n": 9}), vec![]),
        (json!({"n": 9}), json!({"n": 9, "m": 1}), vec![]),
        (json!({"n": 9}), json!({"n": 9, "m": 9}), vec![too_large("m")]),
        (json!({"n": 8}), json!({"n": 9}), vec![too_large("n")]),
        (json!({"inner": {"a": 1}}), json!({"inner": {"a": 1}, "n": 1}), vec![]),
        (
            json!({"inner": {"a": 1}}),
            json!({"inner": {"a": 2}}),
            vec!["spec.inner.must: Required value".to_owned()],
        ),
        (json!({"map": {"a": 9}}), json!({"map": {"a": 9, "b": 1}}), vec![]),
        (json!({"map": {"a": 9}}), json!({"map": {"b": 9}}), vec![too_large("map.b")]),
        // Entries of maps are told by their keys, wherever they are.
        (
            json!({"keyed": [{"k": "a", "v": 9}, {"k": "b", "v": 1}]}),
            json!({"keyed": [{"k": "c", "v": 1}, {"k": "b", "v": 9}, {"k": "a", "v": 9}]}),
            vec![too_large("keyed[1].v")],
        ),
        (json!({"keyed": [{"k": "a", "v": 9}]}), json!({"keyed": [{"k": "a", "v": 9, "w": 1}]}), vec![]),
        // Other lists are one value.
        (json!({"atomic": [{"k": "a", "v": 9}]}), json!({"atomic": [{"k": "a", "v": 9}], "n": 1}), vec![]),
        (
            json!({"atomic": [{"k": "a", "v": 9}]}),
            json!({"atomic": [{"k": "a", "v": 9}, {"k": "b"}]}),
            vec![too_large("atomic[0].v")],
        ),
        (json!({"set": ["a", "a"]}), json!({"set": ["a", "a", "b"]}), vec![]),
        (
            json!({"set": ["a"]}),
            json!({"set": ["a", "a"]}),
            vec![r#"spec.set[1]: Duplicate value: "a""#.to_owned()],
        ),
        (json!({"all": {"x": 9, "y": 1}}), json!({"all": {"x": 9, "y": 2}}), vec![]),
    ];
    for (old, new, expected) in cases {
        let found = faults(&schema, &spec(new.clone()), Some(&spec(old.clone())));
        assert_eq!(found, *expected, "{old} -> {new}");
    }
}

#[test]
fn errors_that_are_forgotten_do_not_hide_others() {
    let schema = compile_spec(&json!({"type": "object", "properties": {
        "a": {"type": "array", "items": {"type": "integer"}}, "b": {"type": "integer"},
    }}));
    let many: Vec<Value> = (0..500).map(|n| json!(format!("x{n}"))).collect();
    let old = spec(json!({"a": many, "b": 1}));
    let new = spec(json!({"a": many, "b": "x"}));
    assert_eq!(
        faults(&schema, &new, Some(&old)),
        [r#"spec.b: Invalid value: "string": spec.b in body must be of type integer: "string""#]
    );
    assert_eq!(faults(&schema, &new, None).len(), 100);
}

/// However it is done, it must not take longer than this: a thousand times what is expected.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn alternatives_without_end_are_given_up() {
    let mut alternatives: Vec<Value> =
        (0..2000).map(|n| json!({"properties": {"a": {"minimum": n + 1}}, "required": ["a"]})).collect();
    alternatives.push(json!({"minProperties": 1, "properties": {"a": {"maximum": 0}}}));
    let schema = compile_spec(&json!({
        "type": "array",
        "items": {"type": "object", "properties": {"a": {"type": "integer"}}, "oneOf": alternatives, "anyOf": alternatives},
    }));
    let started = Instant::now();
    let fits = spec(Value::Array(vec![json!({"a": 0}); 100_000]));
    let told = faults(&schema, &fits, None);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    assert!(told.iter().any(|fault| fault.contains("validation was given up")), "{told:?}");
    // Even then, what did not change can be written again.
    assert_eq!(faults(&schema, &fits, Some(&fits)), [""; 0]);
}

#[test]
fn long_texts_and_large_patterns_are_given_up() {
    let schema = compile_spec(&json!({
        "type": "string", "allOf": (0..50).map(|n| json!({"pattern": format!("(a|b|aab){{1,{}}}c$", 500 + n)})).collect::<Vec<_>>(),
    }));
    let started = Instant::now();
    let told = faults(&schema, &spec(json!("ab".repeat(1_000_000))), None);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    assert!(told.iter().any(|fault| fault.contains("validation was given up")), "{told:?}");
}

#[test]
fn long_values_are_shown_in_part() {
    let schema = compile_spec(&json!({"type": "string", "pattern": "^b"}));
    let told = faults(&schema, &spec(json!("a".repeat(1_000_000))), None);
    assert!(told[0].len() < 3000, "{}", told[0].len());
}
