//! What is published of the schema of a custom kind.
//!
//! OpenAPI 3 says all of it. Swagger 2 cannot say everything, and kubectl takes what is half said for a prohibition, so
//! there less is said: no alternatives, and nothing about values that may be null or may hold anything.

use serde_json::{Map, Value, json};

use super::schemas::{API_VERSION, Dialect, KIND, OBJECT_META, text};

/// The schema as it is published, with the fields that every object has.
pub(super) fn published(document: Value, dialect: Dialect) -> Value {
    let mut schema = match document {
        Value::Object(schema) => schema,
        _ => Map::from_iter([("type".to_owned(), "object".into())]),
    };
    // What it says of these does not count.
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata"));
    }
    let mut schema = Value::Object(schema);
    prepare(&mut schema, dialect);
    if dialect == Dialect::V3 || !is(&schema, PRESERVE) {
        add_head(&mut schema, dialect);
    }
    schema
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// What Swagger 2 has no words for.
const ALTERNATIVES: &[&str] = &["allOf", "anyOf", "oneOf", "not"];

fn is(schema: &Value, flag: &str) -> bool {
    schema.get(flag).and_then(Value::as_bool) == Some(true)
}

/// Prepares a schema and everything below it.
fn prepare(schema: &mut Value, dialect: Dialect) {
    if dialect == Dialect::V2 {
        restrict(schema);
    }
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(|property| prepare(property, dialect));
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = object.get_mut(below) {
            prepare(below, dialect);
        }
    }
    if is(schema, EMBEDDED) && (dialect == Dialect::V3 || !is(schema, PRESERVE)) {
        add_head(schema, dialect);
    }
}

/// Leaves out what Swagger 2 cannot say.
fn restrict(schema: &mut Value) {
    let (is_null, is_open) = (is(schema, "nullable"), is(schema, PRESERVE));
    let Some(object) = schema.as_object_mut() else { return };
    object.retain(|field, _| match field.as_str() {
        "nullable" => false,
        "type" | "format" | "enum" => !is_null,
        "properties" | "items" | "required" => !is_null && !is_open,
        field => !ALTERNATIVES.contains(&field),
    });
}

/// Adds the fields that every object has.
fn add_head(schema: &mut Value, dialect: Dialect) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let description = "What every object has: its name, labels, annotations and more.";
    let mut metadata = dialect.reference(OBJECT_META);
    match dialect {
        Dialect::V2 => metadata["description"] = description.into(),
        // Nothing may stand beside a reference.
        Dialect::V3 => metadata = json!({"description": description, "allOf": [metadata]}),
    }
    let properties = &mut schema["properties"];
    for (field, own) in [("apiVersion", text(API_VERSION)), ("kind", text(KIND)), ("metadata", metadata)] {
        properties[field] = own;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_has_its_head() {
        let document = json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": {"type": "object"}}});
        let v3 = published(document.clone(), Dialect::V3);
        assert_eq!(
            v3["properties"]["metadata"]["allOf"][0]["$ref"],
            format!("#/components/schemas/{OBJECT_META}")
        );
        assert_eq!(v3["properties"]["kind"]["type"], "string");
        let v2 = published(document, Dialect::V2);
        assert_eq!(v2["properties"]["metadata"]["$ref"], format!("#/definitions/{OBJECT_META}"));
        assert!(published(Value::Null, Dialect::V3)["properties"]["apiVersion"].is_object());
    }

    #[test]
    fn swagger_says_nothing_that_it_could_not_take_back() {
        let document = json!({
            "type": "object",
            "properties": {
                "either": {"type": "object", "oneOf": [{"required": ["a"]}], "properties": {"a": {"type": "string", "not": {"enum": ["b"]}}}},
                "maybe": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
                "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
                "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "list": {"type": "array", "items": {"type": "string", "nullable": true}},
            },
        });
        let v3 = published(document.clone(), Dialect::V3);
        for field in ["either", "maybe", "anything", "port", "list"] {
            assert_eq!(v3["properties"][field], document["properties"][field], "{field}");
        }
        let v2 = published(document, Dialect::V2);
        let expected = json!({
            "either": {"type": "object", "properties": {"a": {"type": "string"}}},
            "maybe": {},
            "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "port": {"x-kubernetes-int-or-string": true},
            "list": {"type": "array", "items": {}},
        });
        for (field, expected) in expected.as_object().expect("an object") {
            assert_eq!(&v2["properties"][field], expected, "{field}");
        }
    }

    #[test]
    fn whatever_may_hold_anything_has_no_fields_in_swagger() {
        let document = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(published(document.clone(), Dialect::V2), document);
        assert!(published(document, Dialect::V3)["properties"]["metadata"].is_object());
    }

    #[test]
    fn embedded_objects_have_a_head_too() {
        let document = json!({
            "type": "object", "properties": {"template": {"type": "object", "x-kubernetes-embedded-resource": true}},
        });
        let v3 = published(document, Dialect::V3);
        assert!(v3["properties"]["template"]["properties"]["metadata"].is_object());
    }
}
