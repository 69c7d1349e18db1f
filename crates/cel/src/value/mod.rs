//! Values: what variables hold and expressions come to.
//!
//! Objects, lists and texts of the data are borrowed and read when they are asked for; what an expression
//! builds is shared. Cloning a value is cheap.

mod compare;
mod extension;
mod json;
mod object;

use std::{cmp::Ordering, fmt, ops::Deref, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value as Json;

use crate::{
    error::EvalError,
    types::{ExtensionType, Type},
};

pub(crate) use self::{
    compare::{compare, entries, equal, identity},
    json::from_json,
};
pub use self::{
    extension::{Asked, Extension},
    object::Object,
};

/// A value, which borrows from the data and the program it came from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value<'a> {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer that is not negative.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A length of time, in 64 bits of nanoseconds.
    Duration(SignedDuration),
    /// A list.
    List(List<'a>),
    /// A map or an object.
    Map(Map<'a>),
    /// A type, by its name.
    Type(Arc<str>),
    /// A value or none.
    Optional(Option<Arc<Value<'a>>>),
    /// An object that the expression made.
    Object(Arc<Object<'a>>),
    /// A value of the Kubernetes libraries.
    Extension(Arc<Extension<'a>>),
}

/// A text, borrowed or shared.
#[derive(Clone)]
pub enum Text<'a> {
    /// A part of the data or of the program.
    Borrowed(&'a str),
    /// Made by the expression.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A list, borrowed or shared.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// A part of the data, of this type.
    Json(&'a [Json], &'a Type),
    /// Made by the expression.
    Shared(Arc<Vec<Value<'a>>>),
}

/// A map, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// A part of the data, of this type.
    Json(&'a serde_json::Map<String, Json>, &'a Type),
    /// Made by the expression: sorted by key, no key twice.
    Shared(Arc<Vec<(Key<'a>, Value<'a>)>>),
}

/// A key of a map. Numbers are equal whatever their type.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer that is not negative.
    Uint(u64),
    /// A text.
    String(Text<'a>),
}

impl<'a> Key<'a> {
    /// The key a value stands for; a floating point number only when it is whole.
    pub(crate) fn from_value(value: &Value<'a>) -> Option<Key<'a>> {
        Some(match value {
            Value::Bool(key) => Key::Bool(*key),
            Value::Int(key) => Key::Int(*key),
            Value::Uint(key) => Key::Uint(*key),
            Value::String(key) => Key::String(key.clone()),
            Value::Double(key) if key.fract() == 0.0 && key.abs() < 9.0e18 => Key::Int(*key as i64),
            _ => return None,
        })
    }

    pub(crate) fn into_value(self) -> Value<'a> {
        match self {
            Key::Bool(key) => Value::Bool(key),
            Key::Int(key) => Value::Int(key),
            Key::Uint(key) => Value::Uint(key),
            Key::String(key) => Value::String(key),
        }
    }

    /// The number it is, and a rank that keeps the other kinds apart.
    fn rank(&self) -> (u8, i128) {
        match self {
            Key::Bool(key) => (0, i128::from(*key)),
            Key::Int(key) => (1, i128::from(*key)),
            Key::Uint(key) => (1, i128::from(*key)),
            Key::String(_) => (2, 0),
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Key::String(one), Key::String(two)) => (**one).cmp(&**two),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Bool(key) => key.fmt(f),
            Key::Int(key) => key.fmt(f),
            Key::Uint(key) => key.fmt(f),
            Key::String(key) => f.write_str(key),
        }
    }
}

impl<'a> List<'a> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self {
            List::Json(items, _) => items.len(),
            List::Shared(items) => items.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at an index, which must be within the list.
    pub(crate) fn get(&self, index: usize) -> Result<Value<'a>, EvalError> {
        match self {
            List::Json(items, ty) => from_json(&items[index], ty.item()),
            List::Shared(items) => Ok(items[index].clone()),
        }
    }

    /// All elements.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Result<Value<'a>, EvalError>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }
}

impl<'a> Map<'a> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        match self {
            Map::Json(map, _) => map.len(),
            Map::Shared(entries) => entries.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key, if it is there. A field of an object that is null is not there.
    pub(crate) fn get(&self, key: &Key<'_>) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Map::Json(map, ty) => match key {
                Key::String(name) => json::entry(map, ty, name),
                _ => Ok(None),
            },
            Map::Shared(entries) => {
                let at = entries.binary_search_by(|(own, _)| own.cmp(key));
                Ok(at.ok().map(|at| entries[at].1.clone()))
            }
        }
    }

    /// The value of a field, if it is there, by its escaped name.
    pub(crate) fn field(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        self.get(&Key::String(Text::Borrowed(name)))
    }

    /// A map of entries, of which no two may have the same key.
    pub(crate) fn from_entries(mut entries: Vec<(Key<'a>, Value<'a>)>) -> Result<Self, EvalError> {
        entries.sort_by(|(one, _), (two, _)| one.cmp(two));
        match entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(EvalError::failed(format!("insert failed: key {} already exists", pair[0].0))),
            None => Ok(Map::Shared(Arc::new(entries))),
        }
    }
}

impl<'a> Value<'a> {
    /// A text that the expression made.
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Value::String(Text::Shared(text.into()))
    }

    /// A list that the expression made.
    pub(crate) fn list(items: Vec<Value<'a>>) -> Self {
        Value::List(List::Shared(Arc::new(items)))
    }

    /// An optional with a value.
    pub(crate) fn some(value: Value<'a>) -> Self {
        Value::Optional(Some(Arc::new(value)))
    }

    /// An optional without a value.
    pub(crate) const NONE: Value<'static> = Value::Optional(None);

    pub(crate) fn extension(extension: Extension<'a>) -> Self {
        Value::Extension(Arc::new(extension))
    }

    /// The truth value, when it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, when it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The name of its type, as `type()` has it.
    pub fn type_name(&self) -> &str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Object(object) => &object.name,
            Value::Extension(extension) => extension.ty().name(),
        }
    }

    /// Whether a function that asks for this type takes it. What lists and maps contain is not looked at.
    pub(crate) fn fits(&self, ty: &Type) -> bool {
        match (ty, self) {
            (Type::Dyn | Type::Unknown(_), _) => true,
            (Type::Null, Value::Null)
            | (Type::Bool, Value::Bool(_))
            | (Type::Int, Value::Int(_))
            | (Type::Uint, Value::Uint(_))
            | (Type::Double, Value::Double(_))
            | (Type::String, Value::String(_))
            | (Type::Bytes, Value::Bytes(_))
            | (Type::Timestamp, Value::Timestamp(_))
            | (Type::Duration, Value::Duration(_))
            | (Type::List(_), Value::List(_))
            | (Type::Map(_) | Type::Struct(_), Value::Map(_))
            | (Type::Type(_), Value::Type(_))
            | (Type::Optional(_), Value::Optional(_))
            | (Type::Object(_), Value::Object(_)) => true,
            (Type::Extension(ty), Value::Extension(extension)) => extension.ty() == *ty,
            _ => false,
        }
    }

    /// The size that its traversal is paid by: bytes of a text, elements, entries; one for the rest.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Value::String(text) => text.len() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Extension(extension) if extension.ty() == ExtensionType::Cidr => 4,
            _ => 1,
        }
    }

    /// Whether it is what a variable of its type is before it is set: zero, empty, null.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Optional(None) => true,
            Value::Double(value) => *value == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.is_empty(),
            Value::Duration(value) => value.is_zero(),
            Value::Object(object) => object.fields.is_empty(),
            _ => false,
        }
    }

    /// The same value without a borrow; `None` when it is a part of the data.
    pub(crate) fn detached(self) -> Option<Value<'static>> {
        Some(match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Int(value) => Value::Int(value),
            Value::Uint(value) => Value::Uint(value),
            Value::Double(value) => Value::Double(value),
            Value::String(text) => Value::text(&*text),
            Value::Bytes(bytes) => Value::Bytes(bytes),
            Value::Timestamp(value) => Value::Timestamp(value),
            Value::Duration(value) => Value::Duration(value),
            Value::Type(name) => Value::Type(name),
            Value::Optional(None) => Value::Optional(None),
            Value::Optional(Some(value)) => Value::some(value.as_ref().clone().detached()?),
            Value::List(List::Shared(items)) => {
                Value::list(items.iter().map(|item| item.clone().detached()).collect::<Option<_>>()?)
            }
            Value::Map(Map::Shared(entries)) => {
                let entries = entries.iter().map(|(key, value)| {
                    let key = match key {
                        Key::Bool(key) => Key::Bool(*key),
                        Key::Int(key) => Key::Int(*key),
                        Key::Uint(key) => Key::Uint(*key),
                        Key::String(text) => Key::String(Text::Shared((**text).into())),
                    };
                    Some((key, value.clone().detached()?))
                });
                Value::Map(Map::Shared(Arc::new(entries.collect::<Option<_>>()?)))
            }
            Value::Extension(extension) => Value::extension(extension.detached()?),
            Value::List(List::Json(..)) | Value::Map(Map::Json(..)) | Value::Object(_) => return None,
        })
    }
}
