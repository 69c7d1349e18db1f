//! What is known about a place in an object: how what is below it is owned, and how a step to it is written.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::{
    object::Object,
    schema::{Field, Format, Key, Merge, Node, Ownership, Presence, Strategic, canonical},
};

/// Fields that nobody owns, and the metadata, which is looked at by itself.
pub(crate) const UNOWNED: &[&str] = &["apiVersion", "kind", "metadata"];

/// Fields of the metadata that nobody owns, because only the server sets them or nobody can change them.
pub(crate) const UNOWNED_METADATA: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The step to the metadata.
pub(crate) const METADATA_STEP: &str = "f:metadata";

/// The metadata of kinds whose schema says nothing about it.
static METADATA: LazyLock<Node> = LazyLock::new(|| {
    let text = || Box::new(Node::String(Format::Plain));
    let field = |name: &str, node, ownership| Field {
        name: name.into(),
        node,
        required: false,
        merge: Merge { ownership, strategic: Strategic::Replace },
        presence: Presence::Optional,
    };
    let by_uid = Ownership::Keyed(Arc::new(["uid".into()]));
    Node::Object(vec![
        field("annotations", Node::Map(text()), Ownership::Plain),
        field("finalizers", Node::List(text()), Ownership::Set),
        field("labels", Node::Map(text()), Ownership::Plain),
        field("ownerReferences", Node::List(Box::new(Node::Any)), by_uid),
    ])
});

/// What is known about a place in an object.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    node: &'a Node,
    ownership: &'a Ownership,
    /// Whether every object has something here, set or not. Whoever puts something below it does not own it.
    pub(crate) always: bool,
}

/// How what is below a value is owned.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// As a whole.
    Leaf,
    /// By field.
    Map,
    /// By value.
    Set,
    /// By entry, told by these fields.
    Keyed(&'a [Key]),
}

/// A value, taken apart as it is owned.
pub(crate) enum Shape<'a, 'b> {
    Leaf,
    Map(&'b Object),
    Set(&'b [Value]),
    Keyed(&'b [Value], &'a [Key]),
}

impl<'a> At<'a> {
    /// The same place in an object in which it is written.
    pub(crate) fn written(self) -> Self {
        At { always: false, ..self }
    }

    /// What is known about the entries of the list here.
    pub(crate) fn items(self) -> Self {
        At { node: self.node.items().unwrap_or(&Node::Any), ownership: &Ownership::Plain, always: false }
    }

    /// What is known about a field, and whether the schema names it.
    pub(crate) fn field(self, name: &str) -> (Self, bool) {
        match (self.node.resolve(), self.node.field(name)) {
            (_, Some(field)) => {
                let always = self.always && canonical::is_always_written(field);
                (At { node: &field.node, ownership: &field.merge.ownership, always }, true)
            }
            (Node::Map(items), None) => {
                (At { node: items, ownership: &Ownership::Plain, always: false }, false)
            }
            _ => (At { node: &Node::Any, ownership: &Ownership::Plain, always: false }, false),
        }
    }

    /// Whether a value here has one owner, whatever it is.
    pub(crate) fn is_whole(self) -> bool {
        let scalar_or_list = match self.node.resolve() {
            Node::Any | Node::Object(_) | Node::Map(_) | Node::Named(_) => false,
            Node::List(_) => *self.ownership == Ownership::Plain,
            _ => true,
        };
        let is_atomic = *self.ownership == Ownership::Atomic || self.node.is_atomic();
        scalar_or_list || (is_atomic && *self.ownership != Ownership::Granular)
    }

    /// Whether a value here is what is there without anybody having set it.
    pub(crate) fn is_unset(self, value: &Value) -> bool {
        self.always && canonical::is_zero(self.node, value)
    }

    /// How what is below this value is owned.
    pub(crate) fn kind(self, value: &Value) -> Kind<'a> {
        match (value, self.ownership) {
            (Value::Object(_), Ownership::Granular) => Kind::Map,
            (Value::Object(_), Ownership::Plain | Ownership::Set | Ownership::Keyed(_))
                if !self.node.is_atomic() =>
            {
                Kind::Map
            }
            (Value::Array(_), Ownership::Set) => Kind::Set,
            (Value::Array(_), Ownership::Keyed(keys)) => Kind::Keyed(keys),
            _ => Kind::Leaf,
        }
    }

    /// The value, taken apart as it is owned.
    pub(crate) fn shape<'b>(self, value: &'b Value) -> Shape<'a, 'b> {
        match (self.kind(value), value) {
            (Kind::Map, Value::Object(map)) => Shape::Map(map),
            (Kind::Set, Value::Array(list)) => Shape::Set(list),
            (Kind::Keyed(keys), Value::Array(list)) => Shape::Keyed(list, keys),
            _ => Shape::Leaf,
        }
    }
}

/// Where a walk begins: what is known about the object and about its metadata.
pub(crate) fn roots(schema: &Node) -> (At<'_>, At<'_>) {
    let metadata = schema.field("metadata").map(|field| &field.node);
    let metadata = metadata.filter(|node| node.field("finalizers").is_some()).unwrap_or(&METADATA);
    let at = |node, always| At { node, ownership: &Ownership::Plain, always };
    (at(schema, is_built_in(schema)), at(metadata, true))
}

/// Whether this is the schema of a built-in kind.
pub(crate) fn is_built_in(schema: &Node) -> bool {
    matches!(schema, Node::Named(definition) if definition.name().starts_with("io.k8s."))
}

/// The step to a field.
pub(crate) fn field_step(name: &str) -> String {
    ["f:", name].concat()
}

/// The step to a value of a set.
pub(crate) fn value_step(value: &Value) -> String {
    format!("v:{value}")
}

/// The step to the entry of a list; an entry that has none of the keys is told by its place.
pub(crate) fn key_step(entry: &Value, keys: &[Key], place: usize) -> String {
    let mut found: Vec<(&str, &Value)> =
        keys.iter().filter_map(|key| Some((&*key.name, key.of(entry)?))).collect();
    if found.is_empty() {
        return format!("i:{place}");
    }
    found.sort_by_key(|(key, _)| *key);
    let mut step = String::from("k:{");
    for (key, value) in found {
        if !step.ends_with('{') {
            step.push(',');
        }
        step.push_str(&Value::from(key).to_string());
        step.push(':');
        step.push_str(&value.to_string());
    }
    step.push('}');
    step
}
