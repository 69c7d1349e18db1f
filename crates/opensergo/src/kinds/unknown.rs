//! Fields that a definition does not have. A server drops them, and nobody who reads files would notice them.

use std::{collections::HashMap, sync::LazyLock};

use kube::api::DynamicObject;
use serde_json::Value;

use super::{
    KINDS,
    read::{note, shown},
};

/// Where in a definition the schema of what people write is.
const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";

/// Schemas by the names of their definitions: it takes long to make one, and they never change.
static SCHEMAS: LazyLock<HashMap<String, Value>> = LazyLock::new(|| {
    let schema = |definition: Value| definition.pointer(SPEC).cloned().unwrap_or_default();
    let definitions = KINDS.iter().map(|kind| (kind.definition)());
    let written = definitions.map(|one| (one.metadata.name.clone(), serde_json::to_value(&one)));
    written.map(|(name, one)| (name.unwrap_or_default(), one.map(schema).unwrap_or_default())).collect()
});

/// What is said of the first fields that the definition of this name does not have.
pub(super) fn fields(definition: &str, object: &DynamicObject) -> Vec<String> {
    let mut found = vec![];
    if let (Some(schema), Some(spec)) = (SCHEMAS.get(definition), object.data.get("spec")) {
        look(schema, "spec", spec, &mut found);
    }
    found
}

/// Looks for fields that are not in a schema. An object without properties may have any.
fn look(schema: &Value, path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let any = schema.get("additionalProperties");
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, value) in fields {
                let path = format!("{path}.{}", shown(name));
                match (properties.and_then(|properties| properties.get(name)), any, properties) {
                    (Some(schema), ..) | (None, Some(schema), _) => look(schema, &path, value, found),
                    (None, None, Some(_)) => note(found, format_args!("{path}: unknown field")),
                    (None, None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            let items = items.iter().enumerate().map(|(idx, item)| (format!("{path}[{idx}]"), item));
            if let Some(schema) = schema.get("items") {
                items.for_each(|(path, item)| look(schema, &path, item, found));
            }
        }
        _ => {}
    }
}
