//! Compiled schemas: what is known about the fields of a kind, in a compact form.
//!
//! A schema is a tree of [`Node`]s. Types that are used in many places are compiled once and shared as
//! [`Definition`]s, which also makes recursive types possible. [`Compiler`] makes them from JSON schemas,
//! [`check()`] holds an object against them, [`canonicalize`] writes it as Go's types would.

pub(crate) mod canonical;
mod check;
mod compile;

pub use self::{
    canonical::{canonicalize, canonicalize_stored},
    check::{Report, check, check_applied},
    compile::{Compiler, Definitions, reference},
};

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

/// The shape of one value.
#[derive(Debug)]
pub enum Node {
    /// Any JSON value: nothing below is checked or pruned.
    Any,
    /// A boolean.
    Bool,
    /// An integer of 32 or 64 bits.
    Integer {
        /// Whether it must fit into 32 bits.
        narrow: bool,
    },
    /// A number.
    Number,
    /// A string.
    String(Format),
    /// A string or an integer.
    IntOrString,
    /// A map with known fields.
    Object(Vec<Field>),
    /// A map with free keys, all of one shape.
    Map(Box<Node>),
    /// A list.
    List(Box<Node>),
    /// A type shared with other places.
    Named(Arc<Definition>),
}

/// What a string must look like to be taken at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// No matter.
    Plain,
    /// Base64.
    Bytes,
    /// RFC 3339, to the second.
    Time,
    /// RFC 3339, to the microsecond.
    MicroTime,
    /// A quantity, which may also be given as a number.
    Quantity,
}

/// One field of an object.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: Box<str>,
    /// The shape of its value.
    pub node: Node,
    /// Whether the type cannot do without it.
    pub required: bool,
    /// How the list or map that it holds is owned and merged.
    pub merge: Merge,
    /// What is written when it is absent or empty.
    pub presence: Presence,
}

/// What Go writes of a field that is absent or empty: that follows from the field's tag and type in Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// A pointer that is left out when absent. What is there stays, however empty.
    #[default]
    Optional,
    /// Left out when empty. A struct is never empty, so it is always written.
    OmitEmpty,
    /// Left out when it is the zero value of its type.
    OmitZero,
    /// Always written: as the zero value of its type, which is `null` for lists and maps.
    Always,
    /// A pointer that is always written: as `null` when absent.
    Nullable,
}

/// How the list or map in a field is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Who owns what, in server-side apply and in managed fields.
    pub ownership: Ownership,
    /// What a strategic merge patch does with it.
    pub strategic: Strategic,
}

impl Merge {
    /// What holds for a field of which nothing is said: maps are merged field by field, lists are replaced.
    pub const PLAIN: Merge = Merge { ownership: Ownership::Plain, strategic: Strategic::Replace };
}

/// Who owns what below a field, in server-side apply and in managed fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Maps by field; lists and scalars as a whole.
    Plain,
    /// By field, even if values of its type have one owner elsewhere.
    Granular,
    /// The whole value has one owner, even if it is a map.
    Atomic,
    /// A list of scalars, each owned by itself.
    Set,
    /// A list of objects, each told by these fields and owned field by field.
    Keyed(Arc<[Key]>),
}

/// A field by which the entries of a list are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name of the field.
    pub name: Box<str>,
    /// What counts for an entry that does not have it.
    pub default: Option<Value>,
}

impl From<&str> for Key {
    fn from(name: &str) -> Self {
        Key { name: name.into(), default: None }
    }
}

impl Key {
    /// What an entry has there, or what counts for it.
    pub fn of<'a>(&'a self, entry: &'a Value) -> Option<&'a Value> {
        entry.get(&*self.name).filter(|value| !value.is_null()).or(self.default.as_ref())
    }
}

/// What a strategic merge patch does with a list; maps are always merged unless `$patch` says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategic {
    /// Replaces it (for a map: merges it, as always).
    Replace,
    /// Merges a list of objects by this field.
    MergeBy(&'static str),
    /// Merges a list of scalars as a set.
    MergeSet,
    /// Drops fields of the map that `$retainKeys` does not name (the list of volumes: merged by the key too).
    RetainKeys(Option<&'static str>),
}

/// A named type.
pub struct Definition {
    name: Box<str>,
    atomic: bool,
    open: bool,
    node: OnceLock<Node>,
}

impl Definition {
    /// A type that is yet to be compiled.
    pub fn named(name: &str) -> Self {
        Definition { name: name.into(), atomic: false, open: false, node: OnceLock::new() }
    }

    /// A type that is yet to be compiled, whose values have one owner each, wherever they are.
    pub fn atomic(name: &str) -> Self {
        Definition { atomic: true, ..Definition::named(name) }
    }

    /// The same type, whose objects may have fields that it does not name. [`check()`] drops those all the same.
    #[must_use]
    pub fn open(self) -> Self {
        Definition { open: true, ..self }
    }

    /// Its name, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says what the type is. Only the first time counts.
    pub fn define(&self, node: Node) {
        let _ = self.node.set(node);
    }
}

/// Only the name: types may contain themselves.
impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Node {
    /// The node itself, or what the named type stands for.
    pub fn resolve(&self) -> &Node {
        match self {
            Node::Named(definition) => definition.node.get().map_or(&Node::Any, Node::resolve),
            other => other,
        }
    }

    /// Whether values of this named type have one owner each, also as entries of a list.
    pub fn is_atomic(&self) -> bool {
        matches!(self, Node::Named(definition) if definition.atomic)
    }

    /// Whether objects of this named type may have fields that it does not name.
    pub fn is_open(&self) -> bool {
        matches!(self, Node::Named(definition) if definition.open)
    }

    /// The field of this name, if this is an object with known fields that has it.
    pub fn field(&self, name: &str) -> Option<&Field> {
        match self.resolve() {
            Node::Object(fields) => {
                fields.binary_search_by(|field| (*field.name).cmp(name)).ok().map(|index| &fields[index])
            }
            _ => None,
        }
    }

    /// The shape of the entries, if this is a list or a map with free keys.
    pub fn items(&self) -> Option<&Node> {
        match self.resolve() {
            Node::List(items) | Node::Map(items) => Some(items),
            _ => None,
        }
    }
}
