//! Schemas as they are written in a definition, read leniently.

use std::sync::LazyLock;

use serde_json::Value;

use crate::{
    field::{Errors, Fault},
    object::Object,
};

/// One schema as it was written. `null` counts as absent, and so does what has the wrong type.
#[derive(Clone, Copy)]
pub(super) struct Source<'a>(pub(super) &'a Object);

/// What can be under a key of a schema.
#[derive(Clone, Copy, PartialEq)]
enum Want {
    Text,
    Flag,
    Number,
    Whole,
    Texts,
    List,
    Schema,
    Schemas,
    NamedSchemas,
    SchemaOrFlag,
    SchemaOrSchemas,
}

const KEYS: &[(&str, Want)] = &[
    ("$ref", Want::Text),
    ("$schema", Want::Text),
    ("additionalProperties", Want::SchemaOrFlag),
    ("allOf", Want::Schemas),
    ("anyOf", Want::Schemas),
    ("description", Want::Text),
    ("enum", Want::List),
    ("exclusiveMaximum", Want::Flag),
    ("exclusiveMinimum", Want::Flag),
    ("format", Want::Text),
    ("id", Want::Text),
    ("items", Want::SchemaOrSchemas),
    ("maxItems", Want::Whole),
    ("maxLength", Want::Whole),
    ("maxProperties", Want::Whole),
    ("maximum", Want::Number),
    ("minItems", Want::Whole),
    ("minLength", Want::Whole),
    ("minProperties", Want::Whole),
    ("minimum", Want::Number),
    ("multipleOf", Want::Number),
    ("not", Want::Schema),
    ("nullable", Want::Flag),
    ("oneOf", Want::Schemas),
    ("pattern", Want::Text),
    ("properties", Want::NamedSchemas),
    ("required", Want::Texts),
    ("title", Want::Text),
    ("type", Want::Text),
    ("uniqueItems", Want::Flag),
    ("x-kubernetes-embedded-resource", Want::Flag),
    ("x-kubernetes-int-or-string", Want::Flag),
    ("x-kubernetes-list-map-keys", Want::Texts),
    ("x-kubernetes-list-type", Want::Text),
    ("x-kubernetes-map-type", Want::Text),
    ("x-kubernetes-preserve-unknown-fields", Want::Flag),
    ("x-kubernetes-validations", Want::List),
];

impl Want {
    fn fits(self, value: &Value) -> bool {
        let schema = |value: &Value| value.is_object() || value.is_null();
        let all = |list: &Value, fits: fn(&Value) -> bool| {
            list.as_array().is_some_and(|list| list.iter().all(fits))
        };
        match self {
            Want::Text => value.is_string(),
            Want::Flag => value.is_boolean(),
            Want::Number => value.is_number(),
            Want::Whole => value.is_i64(),
            Want::Texts => all(value, Value::is_string),
            Want::List => value.is_array(),
            Want::Schema => value.is_object(),
            Want::Schemas => all(value, schema),
            Want::NamedSchemas => value.as_object().is_some_and(|map| map.values().all(schema)),
            Want::SchemaOrFlag => value.is_object() || value.is_boolean(),
            Want::SchemaOrSchemas => value.is_object() || all(value, schema),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Want::Text => "must be a string",
            Want::Flag => "must be a boolean",
            Want::Number => "must be a number",
            Want::Whole => "must be an integer",
            Want::Texts => "must be a list of strings",
            Want::List => "must be a list",
            Want::Schema => "must be a schema",
            Want::Schemas => "must be a list of schemas",
            Want::NamedSchemas => "must be a map of schemas",
            Want::SchemaOrFlag => "must be a schema or a boolean",
            Want::SchemaOrSchemas => "must be a schema",
        }
    }
}

static EMPTY: LazyLock<Object> = LazyLock::new(Object::new);

impl<'a> Source<'a> {
    /// The schema that a value is; without any, the empty one.
    pub(super) fn of(value: &'a Value) -> Self {
        Source(value.as_object().unwrap_or(&EMPTY))
    }

    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// The text under a key, empty if there is none.
    pub(super) fn text(self, key: &str) -> &'a str {
        self.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn flag(self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(super) fn number(self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    pub(super) fn whole(self, key: &str) -> Option<i64> {
        self.get(key)?.as_i64()
    }

    pub(super) fn list(self, key: &str) -> &'a [Value] {
        self.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn texts(self, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list(key).iter().filter_map(Value::as_str)
    }

    pub(super) fn schema(self, key: &str) -> Option<Source<'a>> {
        self.get(key)?.as_object().map(Source)
    }

    pub(super) fn schemas(self, key: &str) -> impl Iterator<Item = Source<'a>> + use<'a> {
        self.list(key).iter().map(Source::of)
    }

    pub(super) fn properties(self) -> impl Iterator<Item = (&'a str, Source<'a>)> + use<'a> {
        let properties = self.get("properties").and_then(Value::as_object).unwrap_or(&EMPTY);
        properties.iter().map(|(name, schema)| (name.as_str(), Source::of(schema)))
    }

    pub(super) fn property(self, name: &str) -> Option<Source<'a>> {
        self.get("properties")?.as_object()?.get(name).map(Source::of)
    }

    /// Tells what has the wrong type.
    pub(super) fn check_types(self, errors: &mut Errors) {
        for (key, want) in KEYS {
            if let Some(value) = self.get(key)
                && !want.fits(value)
            {
                errors.push(Fault::TypeInvalid, key, super::clipped(&value.to_string()), want.words());
            }
        }
    }
}
