//! What is published of the schema of a custom kind.
//!
//! OpenAPI 3 says all of it, and says in so many words what an extension implies: that an int-or-string is one of
//! both, and that an embedded resource has a kind. Swagger 2 cannot say everything, and kubectl takes what is half said
//! for a prohibition, so there less is said: no alternatives, no defaults, and nothing about values that may be null or
//! may hold anything.

use serde_json::{Map, Value, json};

use super::schemas::{Dialect, HEAD, OBJECT_META};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// What Swagger 2 has no words for.
const ALTERNATIVES: &[&str] = &["allOf", "anyOf", "oneOf", "not"];

/// Parts of a schema that are values of objects: whatever they are, they are kept as they are.
const VALUES: &[&str] = &["default", "enum", "example", "x-kubernetes-validations"];

/// What a definition may say and nobody looks at.
const UNUSED: &[&str] = &["$schema", "id"];

type Schema = Map<String, Value>;

/// The schema as it is published, with the fields that every object has.
pub(super) fn published(document: Value, dialect: Dialect) -> Value {
    let bare = || json!({"type": "object"});
    let Value::Object(mut schema) = document else { return bare() };
    // Not even what every object has is named then: kubectl would refuse everything else.
    if dialect == Dialect::V2 && is(&schema, PRESERVE) {
        return bare();
    }
    prepare(&mut schema, dialect);
    add_head(&mut schema, dialect);
    Value::Object(schema)
}

fn is(schema: &Schema, flag: &str) -> bool {
    schema.get(flag).and_then(Value::as_bool) == Some(true)
}

/// Prepares a schema and everything below it.
fn prepare(schema: &mut Schema, dialect: Dialect) {
    schema.retain(|field, value| !UNUSED.contains(&field.as_str()) && !is_unset(field, value));
    if let Some(Value::Array(rules)) = schema.get_mut("x-kubernetes-validations") {
        for rule in rules.iter_mut().filter_map(Value::as_object_mut) {
            rule.retain(|_, value| value != "");
        }
    }
    match dialect {
        Dialect::V2 => restrict(schema),
        Dialect::V3 => unfold(schema),
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(|below| prepare(below, dialect));
    }
    for field in ["items", "additionalProperties"] {
        if let Some(Value::Object(below)) = schema.get_mut(field) {
            prepare(below, dialect);
        }
    }
    if is(schema, EMBEDDED) && (dialect == Dialect::V3 || !is(schema, PRESERVE)) {
        add_head(schema, dialect);
        require_kind(schema);
    }
}

/// Whether a part of a schema says the same as if it were not there.
fn is_unset(field: &str, value: &Value) -> bool {
    match value {
        _ if VALUES.contains(&field) => value.as_array().is_some_and(Vec::is_empty) && field != "default",
        Value::Null => true,
        Value::Bool(flag) => !flag && field != "additionalProperties",
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty() && field == "properties",
        Value::Number(_) => false,
    }
}

/// Leaves out what Swagger 2 cannot say.
fn restrict(schema: &mut Schema) {
    let is_null = |schema: &Value| schema["nullable"] == true;
    let (nullable, open) = (is(schema, "nullable"), is(schema, PRESERVE));
    if let Some(Value::Object(properties)) = schema.get("properties").filter(|_| !nullable && !open) {
        let nulls: Vec<Value> = properties
            .iter()
            .filter(|(_, below)| is_null(below))
            .map(|(name, _)| name.as_str().into())
            .collect();
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|name| !nulls.contains(name));
        }
    }
    if schema.get("additionalProperties").is_some_and(is_null) {
        schema.remove("required");
    }
    schema.retain(|field, value| match field.as_str() {
        "nullable" | "default" => false,
        "properties" | "items" => !nullable && !open,
        "type" if value == "object" => !nullable && !open,
        "type" => !nullable,
        "required" => value.as_array().is_none_or(|names| !names.is_empty()),
        field => !ALTERNATIVES.contains(&field),
    });
    // A list of what is not told.
    if schema.get("type").is_some_and(|kind| kind == "array") && !schema.contains_key("items") {
        schema.remove("type");
    }
}

/// Says what an int-or-string is, unless it is said.
fn unfold(schema: &mut Schema) {
    if !is(schema, INT_OR_STRING) {
        return;
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let all = schema.get("allOf").and_then(Value::as_array).cloned().unwrap_or_default();
    if schema.get("anyOf") == Some(&either) || all.first().is_some_and(|first| first["anyOf"] == either) {
        return;
    }
    match schema.contains_key("anyOf") {
        false => drop(schema.insert("anyOf".to_owned(), either)),
        true => {
            let all = std::iter::once(json!({"anyOf": either})).chain(all).collect();
            schema.insert("allOf".to_owned(), all);
        }
    }
}

/// Adds the fields that every object has, whatever the schema says of them.
fn add_head(schema: &mut Schema, dialect: Dialect) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    for name in ["apiVersion", "kind"] {
        properties[name] = HEAD[name].clone();
    }
    properties["metadata"] = dialect.described(OBJECT_META, HEAD["metadata"]["description"].clone());
}

/// An embedded resource says what it is.
fn require_kind(schema: &mut Schema) {
    let required = schema.entry("required").or_insert_with(|| json!([]));
    let Some(required) = required.as_array_mut() else { return };
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|known| known == name) {
            required.push(name.into());
        }
    }
}

#[cfg(test)]
mod tests;
