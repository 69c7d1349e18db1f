//! What is said of schemas in both documents.

use super::*;

#[test]
fn every_object_has_its_head() {
    let document =
        json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": {"type": "object"}}});
    let v3 = published(document.clone(), Dialect::V3);
    assert_eq!(
        v3["properties"]["metadata"]["allOf"][0]["$ref"],
        format!("#/components/schemas/{OBJECT_META}")
    );
    assert_eq!(v3["properties"]["kind"]["type"], "string");
    let v2 = published(document, Dialect::V2);
    assert_eq!(v2["properties"]["metadata"]["$ref"], format!("#/definitions/{OBJECT_META}"));
    for (field, words) in [
        ("apiVersion", "APIVersion defines the versioned schema of this representation of an object."),
        ("kind", "Kind is a string value representing the REST resource this object represents."),
        ("metadata", "Standard object's metadata."),
    ] {
        for document in [&v2, &v3] {
            let said = document["properties"][field]["description"].as_str().unwrap_or_default();
            assert!(said.starts_with(words), "{field}: {said}");
        }
    }
    assert_eq!(published(Value::Null, Dialect::V3), json!({"type": "object"}));
}

/// What both documents say of a field, by what was written.
#[test]
fn a_field_is_published_as_far_as_the_document_can_say_it() {
    let object = json!({"a": {"type": "string"}});
    let cases = [
        (
            json!({"type": "object", "oneOf": [{"required": ["a"]}], "properties": {"a": {"type": "string", "not": {"enum": ["b"]}}}}),
            json!({"type": "object", "properties": object}),
            None,
        ),
        (
            json!({"type": "object", "nullable": true, "properties": object, "required": ["a"]}),
            json!({"required": ["a"]}),
            None,
        ),
        (
            json!({"type": "string", "nullable": true, "format": "date", "enum": ["a"]}),
            json!({"format": "date", "enum": ["a"]}),
            None,
        ),
        (json!({"type": "object", PRESERVE: true, "properties": object}), json!({PRESERVE: true}), None),
        (
            json!({"type": "array", PRESERVE: true, "items": {"type": "object"}}),
            json!({PRESERVE: true}),
            None,
        ),
        (
            json!({"type": "array", "items": {"type": "string", "nullable": true}}),
            json!({"type": "array", "items": {}}),
            None,
        ),
        (
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
            json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}),
            None,
        ),
        (
            json!({"type": "integer", "default": 1, "minimum": 0}),
            json!({"type": "integer", "minimum": 0}),
            None,
        ),
        (
            json!({"type": "string", "nullable": false, "description": "", "enum": [], "$schema": "x"}),
            json!({"type": "string"}),
            Some(json!({"type": "string"})),
        ),
        (
            json!({INT_OR_STRING: true}),
            json!({INT_OR_STRING: true}),
            Some(json!({INT_OR_STRING: true, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
        ),
        (
            json!({INT_OR_STRING: true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({INT_OR_STRING: true}),
            None,
        ),
        (
            json!({INT_OR_STRING: true, "anyOf": [{"pattern": "^a"}]}),
            json!({INT_OR_STRING: true}),
            Some(json!({
                INT_OR_STRING: true, "anyOf": [{"pattern": "^a"}],
                "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}],
            })),
        ),
    ];
    for (written, v2, v3) in cases {
        let document = json!({"type": "object", "properties": {"it": written}});
        assert_eq!(published(document.clone(), Dialect::V2)["properties"]["it"], v2, "{written}");
        let v3 = v3.unwrap_or(written);
        assert_eq!(published(document, Dialect::V3)["properties"]["it"], v3);
    }
}

#[test]
fn whatever_may_hold_anything_is_a_bare_object_in_swagger() {
    let document = json!({"type": "object", PRESERVE: true, "properties": {"spec": {"type": "object"}}});
    assert_eq!(published(document.clone(), Dialect::V2), json!({"type": "object"}));
    assert!(published(document, Dialect::V3)["properties"]["metadata"].is_object());
}

#[test]
fn embedded_objects_say_what_they_are() {
    let document = json!({
        "type": "object",
        "properties": {
            "template": {"type": "object", EMBEDDED: true, "required": ["spec", "kind"]},
            "open": {"type": "object", EMBEDDED: true, PRESERVE: true},
        },
    });
    let v3 = &published(document.clone(), Dialect::V3)["properties"];
    assert!(v3["template"]["properties"]["metadata"].is_object());
    assert_eq!(v3["template"]["required"], json!(["spec", "kind", "apiVersion"]));
    assert_eq!(v3["open"]["required"], json!(["kind", "apiVersion"]));
    let v2 = &published(document, Dialect::V2)["properties"];
    assert_eq!(v2["template"]["required"], json!(["spec", "kind", "apiVersion"]));
    assert_eq!(v2["open"], json!({EMBEDDED: true, PRESERVE: true}));
}
