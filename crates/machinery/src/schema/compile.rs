//! From JSON schemas to compiled ones.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde_json::{Map, Value};

use super::{Definition, Field, Format, Key, Merge, Node, Ownership, Presence, check::zero};

/// The types compiled so far, by name.
pub type Definitions = HashMap<String, Arc<Definition>>;

/// What a type is that is no object with fields, whatever its schema says.
fn leaf(name: &str) -> Option<Node> {
    Some(match name.strip_prefix("io.k8s.apimachinery.pkg.")? {
        "api.resource.Quantity" => Node::String(Format::Quantity),
        "apis.meta.v1.MicroTime" => Node::String(Format::MicroTime),
        "apis.meta.v1.Time" => Node::String(Format::Time),
        "util.intstr.IntOrString" => Node::IntOrString,
        "apis.meta.v1.FieldsV1" | "runtime.RawExtension" => Node::Any,
        _ => return None,
    })
}

/// Compiles JSON schemas whose references point into one document.
pub struct Compiler<'a> {
    /// The schemas that `$ref` can point to, by name.
    pub sources: &'a Map<String, Value>,
    /// The types compiled so far; they are shared, and those that are new are added.
    pub definitions: &'a mut Definitions,
    /// Whether values of this type have one owner each.
    pub atomic: &'a dyn Fn(&str) -> bool,
    /// How the value in a field is merged: by the name of the type (empty if it has none), the name of the
    /// field and the field's schema.
    pub merge: &'a dyn Fn(&str, &str, &Value) -> Merge,
    /// What is written of an absent or empty field: by the names of the type and of the field.
    pub presence: &'a dyn Fn(&str, &str) -> Presence,
}

impl Compiler<'_> {
    /// Compiles what a schema describes. `owner` is the name of the type it belongs to, empty if it has none.
    pub fn compile(&mut self, schema: &Value, owner: &str) -> Node {
        if let Some(name) = reference(schema) {
            return self.named(&name);
        }
        if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
            return Node::IntOrString;
        }
        let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
        match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
            "boolean" => Node::Bool,
            "integer" => Node::Integer { narrow: format == "int32" },
            "number" => Node::Number,
            "string" => Node::String(match format {
                "byte" => Format::Bytes,
                "date-time" => Format::Time,
                _ => Format::Plain,
            }),
            "array" => Node::List(Box::new(self.items(schema.get("items")))),
            "object" => self.object(schema, owner),
            _ => Node::Any,
        }
    }

    /// The type of this name, compiled if it has not been.
    pub fn named(&mut self, name: &str) -> Node {
        if let Some(definition) = self.definitions.get(name) {
            return Node::Named(Arc::clone(definition));
        }
        if let Some(leaf) = leaf(name) {
            return leaf;
        }
        let Some(schema) = self.sources.get(name) else { return Node::Any };
        if schema.get("properties").is_none() {
            return self.compile(schema, name);
        }
        let definition =
            Arc::new(if (self.atomic)(name) { Definition::atomic(name) } else { Definition::named(name) });
        // Known before it is compiled, because it may contain itself.
        self.definitions.insert(name.to_owned(), Arc::clone(&definition));
        definition.define(self.compile(schema, name));
        Node::Named(definition)
    }

    fn items(&mut self, schema: Option<&Value>) -> Node {
        schema.map_or(Node::Any, |schema| self.compile(schema, ""))
    }

    fn object(&mut self, schema: &Value, owner: &str) -> Node {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return match schema.get("additionalProperties") {
                Some(items @ Value::Object(_)) => Node::Map(Box::new(self.compile(items, ""))),
                Some(Value::Bool(true)) => Node::Map(Box::new(Node::Any)),
                _ => Node::Any,
            };
        };
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let fields = properties.iter().map(|(name, property)| {
            let node = self.compile(property, "");
            Field {
                name: name.as_str().into(),
                merge: with_defaults((self.merge)(owner, name, property), &node),
                node,
                required: required.iter().any(|field| field == name),
                presence: (self.presence)(owner, name),
            }
        });
        let mut fields: Vec<Field> = fields.collect();
        fields.sort_by(|one, other| one.name.cmp(&other.name));
        fields.shrink_to_fit();
        Node::Object(fields)
    }
}

/// Entries are told apart by fields that Go's types always have: what is not set counts as zero.
fn with_defaults(mut merge: Merge, list: &Node) -> Merge {
    if let Ownership::Keyed(keys) = &merge.ownership {
        let zero_of = |key: &Key| {
            let field =
                list.items().and_then(|items| items.field(&key.name)).filter(|field| field.required)?;
            Some(zero(&field.node))
        };
        let keys = keys
            .iter()
            .map(|key| Key { name: key.name.clone(), default: key.default.clone().or_else(|| zero_of(key)) });
        merge.ownership = Ownership::Keyed(keys.collect());
    }
    merge
}

/// The name of the type that a schema refers to, directly or as the only part of `allOf`.
pub fn reference(schema: &Value) -> Option<Cow<'_, str>> {
    let schema = match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only,
        _ => schema,
    };
    let path = schema.get("$ref")?.as_str()?;
    Some(unescape(path.rsplit('/').next()?))
}

/// One step of a JSON pointer as it is meant.
fn unescape(step: &str) -> Cow<'_, str> {
    match step.contains('~') {
        true => step.replace("~1", "/").replace("~0", "~").into(),
        false => step.into(),
    }
}
