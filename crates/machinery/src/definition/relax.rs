//! Making the schema of an old definition structural without asking more of objects than it did.
//!
//! Types that are not said are told by what else is said. Every map keeps its unknown fields. Junctors that say more
//! than they can in a structural schema are dropped.

use serde_json::{Value, json};

use crate::object::Object;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// Deeper ones are refused anyway.
const DEPTH_MOST: usize = 120;

/// What can be said below junctors about values.
const RESTRICTIONS: &[&str] = &[
    "format",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "multipleOf",
    "maxProperties",
    "minProperties",
    "required",
    "enum",
    "items",
    "properties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];

/// What can be left out below junctors without changing what they mean.
const WORDS: &[&str] = &["title", "description", "externalDocs", "example", "default"];

/// Makes the schema of an object structural.
pub(super) fn root(schema: &mut Object) {
    schema.insert("type".to_owned(), "object".into());
    schema.remove("additionalProperties");
    place(schema, 0);
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for name in ["apiVersion", "kind"] {
        if properties.contains_key(name) {
            properties.insert(name.to_owned(), json!({"type": "string"}));
        }
    }
    if properties.contains_key("metadata") {
        properties.insert("metadata".to_owned(), json!({"type": "object"}));
    }
}

fn place(schema: &mut Object, depth: usize) {
    if depth > DEPTH_MOST {
        return;
    }
    junctors(schema, depth);
    if schema.get(INT_OR_STRING) == Some(&Value::Bool(true)) {
        return;
    }
    let has = |key: &str| schema.get(key).is_some_and(|value| !value.is_null());
    let kind = match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
        "" if has("properties") || has("additionalProperties") || has("required") => "object",
        "" if has("items") => "array",
        kind => kind,
    };
    let kind = kind.to_owned();
    match kind.as_str() {
        "" => {
            schema.insert(PRESERVE.to_owned(), true.into());
        }
        "object" => {
            let is_struct =
                schema.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
            if is_struct || schema.get("additionalProperties") == Some(&Value::Bool(false)) {
                schema.remove("additionalProperties");
            }
            if !schema.get("additionalProperties").is_some_and(Value::is_object) {
                schema.insert(PRESERVE.to_owned(), true.into());
            }
        }
        "array" if !schema.get("items").is_some_and(Value::is_object) => {
            schema.insert("items".to_owned(), json!({PRESERVE: true}));
        }
        _ => {}
    }
    if !kind.is_empty() {
        schema.insert("type".to_owned(), kind.into());
    }
    for below in children(schema) {
        place(below, depth + 1);
    }
}

fn children(schema: &mut Object) -> Vec<&mut Object> {
    let mut found = vec![];
    for (key, value) in schema.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Value::Object(map)) => {
                for property in map.values_mut() {
                    if property.is_null() {
                        *property = json!({});
                    }
                    found.extend(property.as_object_mut());
                }
            }
            ("items" | "additionalProperties", Value::Object(schema)) => found.push(schema),
            _ => {}
        }
    }
    found
}

/// Leaves only junctors that restrict values, and in them only that.
fn junctors(schema: &mut Object, depth: usize) {
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    if schema.get("anyOf") == Some(&both) {
        schema.remove("type");
        schema.insert(INT_OR_STRING.to_owned(), true.into());
        return;
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(alternatives)) = schema.get_mut(key)
            && !alternatives.iter_mut().all(|alternative| restrict(alternative, depth))
        {
            schema.remove(key);
        }
    }
    if schema.get_mut("not").is_some_and(|not| !restrict(not, depth)) {
        schema.remove("not");
    }
}

/// Drops all but restrictions. Returns whether it still means the same.
fn restrict(schema: &mut Value, depth: usize) -> bool {
    let Some(map) = schema.as_object_mut().filter(|_| depth < DEPTH_MOST) else {
        *schema = json!({});
        return false;
    };
    let mut is_same = true;
    map.retain(|key, value| {
        let is_kept = RESTRICTIONS.contains(&key.as_str());
        is_same &= is_kept || WORDS.contains(&key.as_str()) || value.is_null();
        is_kept
    });
    for below in children(map) {
        let mut value = Value::Object(std::mem::take(below));
        is_same &= restrict(&mut value, depth + 1);
        if let Value::Object(restricted) = value {
            *below = restricted;
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(alternatives)) = map.get_mut(key) {
            for alternative in alternatives {
                is_same &= restrict(alternative, depth + 1);
            }
        }
    }
    if let Some(not) = map.get_mut("not") {
        is_same &= restrict(not, depth + 1);
    }
    is_same
}
