//! From a structural schema to the form that managed fields and server-side apply use.

use std::{collections::HashMap, sync::Arc};

use super::{Kind, ListType, Shape, embedded::METADATA};
use crate::schema::{Definition, Field, Format, Key, Merge, Node, Ownership, Presence, Strategic};

/// The whole schema, with the metadata that all kinds have.
pub(super) fn node(root: Shape<'_>) -> Node {
    let mut uses = HashMap::new();
    count(root, &mut uses);
    let mut conversion = Conversion { uses, shared: HashMap::new() };
    Node::Object(conversion.fields(root, true))
}

/// Counts how often each map is used, so that those used often are converted once.
fn count(shape: Shape<'_>, uses: &mut HashMap<u32, u32>) {
    let seen = uses.entry(shape.id()).or_default();
    *seen += 1;
    if *seen > 1 {
        return;
    }
    let fields = shape.fields().map(|(_, field)| field);
    for below in fields.chain(shape.values()).chain(shape.items()) {
        count(below, uses);
    }
}

struct Conversion {
    uses: HashMap<u32, u32>,
    shared: HashMap<u32, Arc<Definition>>,
}

impl Conversion {
    fn node(&mut self, shape: Shape<'_>) -> Node {
        match shape.kind() {
            // Without a type, it is a map if it has fields.
            Kind::Any if shape.fields().next().is_some() => self.map(shape),
            Kind::Any => Node::Any,
            Kind::Boolean => Node::Bool,
            Kind::Integer => Node::Integer { narrow: false },
            Kind::Number => Node::Number,
            Kind::String => Node::String(Format::Plain),
            Kind::IntOrString => Node::IntOrString,
            Kind::Array => Node::List(Box::new(shape.items().map_or(Node::Any, |items| self.node(items)))),
            Kind::Object => self.map(shape),
        }
    }

    fn map(&mut self, shape: Shape<'_>) -> Node {
        let has_fields = shape.is_embedded() || shape.fields().next().is_some();
        if !has_fields && !shape.is_atomic() {
            return match shape.values() {
                Some(values) => Node::Map(Box::new(self.node(values))),
                None if shape.preserves_unknown() || shape.is_open() => Node::Any,
                None => Node::Object(vec![]),
            };
        }
        if let Some(known) = self.shared.get(&shape.id()) {
            return Node::Named(Arc::clone(known));
        }
        let node = match (has_fields, shape.values()) {
            (false, Some(values)) => Node::Map(Box::new(self.node(values))),
            (false, None) => Node::Any,
            (true, _) => Node::Object(self.fields(shape, shape.is_embedded())),
        };
        let is_used_again = self.uses.get(&shape.id()).is_some_and(|uses| *uses > 1);
        if !is_used_again && !shape.is_atomic() {
            return node;
        }
        let definition = if shape.is_atomic() { Definition::atomic("") } else { Definition::named("") };
        definition.define(node);
        let definition = Arc::new(definition);
        self.shared.insert(shape.id(), Arc::clone(&definition));
        Node::Named(definition)
    }

    fn fields(&mut self, shape: Shape<'_>, is_resource: bool) -> Vec<Field> {
        let required: Vec<&str> = shape.required().collect();
        let mut fields: Vec<Field> = shape
            .fields()
            .filter(|(name, _)| !(is_resource && super::openapi::META.contains(name)))
            .map(|(name, field)| Field {
                name: name.into(),
                node: self.node(field),
                required: required.contains(&name),
                merge: Merge { ownership: ownership(field), strategic: Strategic::Replace },
                presence: Presence::Optional,
            })
            .collect();
        if is_resource {
            let meta = |name: &str, node| Field {
                name: name.into(),
                node,
                required: false,
                merge: Merge::PLAIN,
                presence: Presence::Optional,
            };
            fields.push(meta("apiVersion", Node::String(Format::Plain)));
            fields.push(meta("kind", Node::String(Format::Plain)));
            fields.push(meta("metadata", Node::Named(Arc::clone(&METADATA))));
            fields.sort_by(|one, other| one.name.cmp(&other.name));
        }
        fields.shrink_to_fit();
        fields
    }
}

/// A field that tells entries apart, and what counts for one that does not have it.
fn key(list: Shape<'_>, name: &str) -> Key {
    let field = list.items().and_then(|entry| entry.field(name));
    Key { name: name.into(), default: field.and_then(|field| field.default().cloned()) }
}

fn ownership(shape: Shape<'_>) -> Ownership {
    match shape.list_type() {
        ListType::Set => Ownership::Set,
        ListType::Map => Ownership::Keyed(shape.list_keys().map(|name| key(shape, name)).collect()),
        ListType::Atomic | ListType::Unset if shape.is_atomic() => Ownership::Atomic,
        ListType::Atomic | ListType::Unset => Ownership::Plain,
    }
}
