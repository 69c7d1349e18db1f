//! Types from OpenAPI v3 schemas, as Kubernetes maps them.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    escape::escape,
    types::{Declared, ListKind, ListType, MapType, StructField, StructType, Type},
};

/// The largest request there is, and so the most bytes anything in it can have.
pub(crate) const MOST_REQUEST: u64 = 3 * 1024 * 1024;
/// Schemas are read this deep; what is below is dynamic.
const MOST_DEPTH: usize = 64;
/// The most bytes of a date, time or duration.
const MOST_TIME: u64 = 32;

impl Type {
    /// The type of what a schema describes, with the sizes the schema allows.
    ///
    /// Objects with properties have those fields only; with `additionalProperties` they are maps. What the
    /// schema says nothing about is dynamic.
    pub fn from_schema(schema: &Value) -> Declared {
        Reader { depth: 0 }.read(schema, "object")
    }

    /// The type of a whole resource: `apiVersion`, `kind`, `metadata.name` and `metadata.generateName` are
    /// there even when the schema does not name them, and nothing else of the metadata is.
    pub fn from_resource_schema(schema: &Value) -> Declared {
        match schema.as_object() {
            Some(object) => Reader { depth: 0 }.object(object, "object", true),
            None => Declared::from(Type::Dyn),
        }
    }

    /// The type that stands at a place within a schema; `path` names it in messages.
    pub(crate) fn from_schema_at(schema: &Value, path: &str) -> Declared {
        Reader { depth: 0 }.read(schema, path)
    }
}

struct Reader {
    depth: usize,
}

/// A field of a schema that is set to true.
pub(crate) fn flag(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn number(schema: &Map<String, Value>, name: &str) -> Option<u64> {
    let number = schema.get(name)?;
    number.as_u64().or_else(|| number.as_f64().map(|number| number.max(0.0) as u64))
}

impl Reader {
    fn read(&mut self, schema: &Value, path: &str) -> Declared {
        let Some(object) = schema.as_object() else { return Declared::from(Type::Dyn) };
        if self.depth >= MOST_DEPTH {
            return Declared::from(Type::Dyn);
        }
        self.depth += 1;
        let mut declared = self.kind(object, path);
        self.depth -= 1;
        declared.nullable = flag(object, "nullable") || declared.ty == Type::Dyn;
        declared
    }

    fn kind(&mut self, schema: &Map<String, Value>, path: &str) -> Declared {
        if flag(schema, "x-kubernetes-int-or-string") {
            let most = text_length(schema);
            return Declared { ty: Type::Dyn, most, least_json: 1, nullable: true };
        }
        // Scalars have no size that would be weighed.
        let scalar = |ty, least_json| Declared { ty, most: 0, least_json, nullable: false };
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => self.object(schema, path, flag(schema, "x-kubernetes-embedded-resource")),
            Some("array") => self.array(schema, path),
            Some("string") => text(schema),
            Some("boolean") => scalar(Type::Bool, 4),
            Some("number") => scalar(Type::Double, 1),
            Some("integer") => scalar(Type::Int, 1),
            _ if schema.contains_key("properties") => self.object(schema, path, false),
            _ => Declared::from(Type::Dyn),
        }
    }

    fn array(&mut self, schema: &Map<String, Value>, path: &str) -> Declared {
        let item = match schema.get("items") {
            Some(items) => self.read(items, &format!("{path}.@items")),
            None => Declared::from(Type::Dyn),
        };
        let kind = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map(list_keys(schema)),
            _ => ListKind::Atomic,
        };
        // One byte for the comma; two for the brackets.
        let most = number(schema, "maxItems").unwrap_or((MOST_REQUEST - 2) / (item.least_json + 1));
        let ty = Type::List(Arc::new(ListType { item, kind }));
        Declared { ty, most, least_json: 2, nullable: false }
    }

    fn object(&mut self, schema: &Map<String, Value>, path: &str, resource: bool) -> Declared {
        let properties = schema.get("properties").and_then(Value::as_object);
        if properties.is_none_or(Map::is_empty) && !resource {
            if let Some(value) =
                schema.get("additionalProperties").filter(|value| **value != Value::Bool(false))
            {
                return self.map(schema, value, path);
            }
            if flag(schema, "x-kubernetes-preserve-unknown-fields") {
                return Declared::from(Type::Dyn);
            }
        }
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut fields = BTreeMap::new();
        let mut least_json = 2;
        for (name, property) in properties.into_iter().flatten() {
            let declared = self.read(property, &format!("{path}.{name}"));
            if required.contains(&&**name) && property.get("default").is_none() {
                // Two quotes, the colon and the comma.
                least_json += name.len() as u64 + declared.least_json + 4;
            }
            if let Some(escaped) = escape(name) {
                fields.insert(escaped.into(), StructField { json: (**name).into(), declared });
            }
        }
        if resource {
            with_metadata(&mut fields, path);
        }
        let ty = Type::Struct(Arc::new(StructType { name: path.to_owned(), fields }));
        Declared { ty, most: 0, least_json, nullable: false }
    }

    fn map(&mut self, schema: &Map<String, Value>, value: &Value, path: &str) -> Declared {
        let value = self.read(value, &format!("{path}.@values"));
        // A key of no letters: two quotes, the colon and the comma, and two bytes to tell keys apart.
        let most = number(schema, "maxProperties").unwrap_or((MOST_REQUEST - 2) / (value.least_json + 6));
        let ty = Type::Map(Arc::new(MapType { key: Type::String, value }));
        Declared { ty, most, least_json: 2, nullable: false }
    }
}

/// The fields every resource has; of the metadata, expressions see the names alone.
fn with_metadata(fields: &mut BTreeMap<Box<str>, StructField>, path: &str) {
    let text = Declared { ty: Type::String, most: MOST_REQUEST - 2, least_json: 2, nullable: false };
    let metadata = ["name", "generateName"].map(|name| (name, text.clone()));
    let metadata = Type::structure(&format!("{path}.metadata"), metadata);
    let metadata = Declared { ty: metadata, most: 0, least_json: 2, nullable: false };
    for (name, declared) in [("apiVersion", text.clone()), ("kind", text), ("metadata", metadata)] {
        fields.insert(name.into(), StructField { json: name.into(), declared });
    }
}

pub(crate) fn list_keys(schema: &Map<String, Value>) -> Vec<Box<str>> {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    keys.into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}

fn text(schema: &Map<String, Value>) -> Declared {
    let declared = |ty, most, least_json| Declared { ty, most, least_json, nullable: false };
    match schema.get("format").and_then(Value::as_str) {
        Some("byte") => declared(Type::Bytes, number(schema, "maxLength").unwrap_or(MOST_REQUEST - 2), 2),
        Some("date") => declared(Type::Timestamp, MOST_TIME, 12),
        Some("date-time") => declared(Type::Timestamp, MOST_TIME, 21),
        Some("duration") => declared(Type::Duration, MOST_TIME, 3),
        _ => declared(Type::String, text_length(schema), 2),
    }
}

/// The most characters of a text; a character may take four bytes.
fn text_length(schema: &Map<String, Value>) -> u64 {
    if let Some(most) = number(schema, "maxLength") {
        return most.saturating_mul(4);
    }
    let options = schema.get("enum").and_then(Value::as_array).filter(|options| !options.is_empty());
    match options {
        Some(options) => {
            options.iter().filter_map(Value::as_str).map(|text| text.len() as u64).max().unwrap_or(0)
        }
        None => MOST_REQUEST - 2,
    }
}
