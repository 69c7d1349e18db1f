//! From a structural schema to the form that managed fields and server-side apply use.

use std::{collections::HashMap, sync::Arc};

use super::{Kind, ListType, Shape, embedded::METADATA};
use crate::schema::{Definition, Field, Format, Key, Merge, Node, Ownership, Presence, Strategic};

/// The whole schema, with the metadata that all kinds have.
pub(super) fn node(root: Shape<'_>) -> Node {
    let mut uses = HashMap::new();
    count(root, &mut uses);
    let mut conversion = Conversion { uses, shared: HashMap::new() };
    let is_open = root.preserves_unknown() || root.is_open();
    let fields = Node::Object(conversion.fields(root, true, root.preserves_unknown()));
    match is_open {
        false => fields,
        true => {
            let definition = Definition::named("").open();
            definition.define(fields);
            Node::Named(Arc::new(definition))
        }
    }
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
    /// By place, and whether it is below one that keeps unknown fields.
    shared: HashMap<(u32, bool), Arc<Definition>>,
}

impl Conversion {
    /// What merges are done by. `keeps` is whether a place around this one keeps unknown fields: then they merge here
    /// as well, although they are dropped from the outcome.
    fn node(&mut self, shape: Shape<'_>, keeps: bool) -> Node {
        match shape.kind() {
            // Without a type, it is a map if it has fields.
            Kind::Any if shape.fields().next().is_some() => self.map(shape, keeps),
            // What may be of several types is told by validation.
            Kind::Any | Kind::IntOrString => Node::Any,
            Kind::Boolean => Node::Bool,
            Kind::Integer => Node::Integer { narrow: false },
            Kind::Number => Node::Number,
            // Of texts with a format, only validation knows what they may be.
            Kind::String if shape.format().is_some_and(|format| format != super::Format::Byte) => {
                Node::String(Format::Time)
            }
            Kind::String => Node::String(Format::Plain),
            Kind::Array => {
                let keeps = keeps || shape.preserves_unknown();
                Node::List(Box::new(shape.items().map_or(Node::Any, |items| self.node(items, keeps))))
            }
            Kind::Object => self.map(shape, keeps),
        }
    }

    fn map(&mut self, shape: Shape<'_>, keeps: bool) -> Node {
        let keeps = keeps || shape.preserves_unknown();
        let has_fields = shape.is_embedded() || shape.fields().next().is_some();
        if !has_fields && !shape.is_atomic() {
            return match shape.values() {
                Some(values) => Node::Map(Box::new(self.node(values, keeps))),
                // A map of which nothing is said merges, whatever is kept of it.
                None => Node::Map(Box::new(Node::Any)),
            };
        }
        if let Some(known) = self.shared.get(&(shape.id(), keeps)) {
            return Node::Named(Arc::clone(known));
        }
        let node = match (has_fields, shape.values()) {
            (false, Some(values)) => Node::Map(Box::new(self.node(values, keeps))),
            (false, None) => Node::Any,
            (true, _) => Node::Object(self.fields(shape, shape.is_embedded(), keeps)),
        };
        let is_used_again = self.uses.get(&shape.id()).is_some_and(|uses| *uses > 1);
        let is_open = has_fields && (keeps || shape.is_open());
        if !is_used_again && !shape.is_atomic() && !is_open {
            return node;
        }
        let definition = if shape.is_atomic() { Definition::atomic("") } else { Definition::named("") };
        let definition = if is_open { definition.open() } else { definition };
        definition.define(node);
        let definition = Arc::new(definition);
        self.shared.insert((shape.id(), keeps), Arc::clone(&definition));
        Node::Named(definition)
    }

    fn fields(&mut self, shape: Shape<'_>, is_resource: bool, keeps: bool) -> Vec<Field> {
        let required: Vec<&str> = shape.required().collect();
        let mut fields: Vec<Field> = shape
            .fields()
            .filter(|(name, _)| !(is_resource && super::openapi::META.contains(name)))
            .map(|(name, field)| Field {
                name: name.into(),
                node: self.node(field, keeps),
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
