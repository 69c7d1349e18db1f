//! Bodies: JSON and YAML into objects, in one pass, with the fields that were given twice.
//!
//! Whatever the bytes, the outcome is an object or an error: depth, aliases and what they expand to are limited.
//! How large a body may be is up to the caller. Start at [`decode_json`].

mod yaml;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::object::Object;

/// Most fields that are reported as given twice.
const DUPLICATES_MOST: usize = 100;
/// How deep objects and lists may be nested in each other: what the JSON reader allows.
const DEPTH_MOST: usize = 127;

/// An object, as it was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The object. Where a field was given twice, the last one counts.
    pub object: Object,
    /// The paths of the fields that were given more than once, such as `spec.containers[0].name`.
    pub duplicates: Vec<String>,
    /// The same as readers of YAML tell it, each time: `line 9: key "name" already set in map`. Of YAML only.
    pub repeated: Vec<String>,
}

/// Why bytes are no object. The text names the line and the column where they are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are not JSON, or not a JSON object.
    #[error("{0}")]
    Json(String),
    /// The bytes are not YAML, or exceed a limit.
    #[error("error converting YAML to JSON: {0}")]
    Yaml(String),
    /// The document is something else than a mapping: `array`, `string`, `number` or `bool`.
    #[error("json: cannot unmarshal {0} into Go value of type map[string]interface {{}}")]
    Kind(&'static str),
}

/// Reads one JSON object and nothing after it.
pub fn decode_json(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut duplicates = vec![];
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let top = Top(Node { path: &Path::Root, duplicates: &mut duplicates });
    match json.deserialize_map(top).and_then(|object| json.end().map(|()| object)) {
        Ok(object) => Ok(Decoded { object, duplicates, repeated: vec![] }),
        Err(error) => Err(DecodeError::Json(error.to_string())),
    }
}

/// Reads one YAML document that is a mapping.
///
/// Scalars mean what they mean to Kubernetes, which is YAML 1.1: `yes`, `no`, `on`, `off`, `y` and `n` are
/// booleans, `0755` is octal, whole floats are integers, timestamps are strings. Keys that are booleans or numbers
/// become strings.
pub fn decode_yaml(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    // Clients that apply send JSON as YAML, and JSON is read many times faster, but without lines.
    if bytes.trim_ascii_start().starts_with(b"{")
        && let Ok(decoded) = decode_json(bytes)
        && decoded.duplicates.is_empty()
    {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| DecodeError::Yaml(error.to_string()))?;
    yaml::read(text)
}

/// Adds a path to those of fields given twice, unless it is there or there are enough.
fn remember(duplicates: &mut Vec<String>, path: impl FnOnce() -> String) {
    if duplicates.len() < DUPLICATES_MOST {
        let path = path();
        if !duplicates.contains(&path) {
            duplicates.push(path);
        }
    }
}

/// Where the reader stands, as a chain on the stack: nothing is built unless it has to be shown.
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => f.write_str(key),
            Path::Key(parent, key) => write!(f, "{parent}.{key}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Reads one value.
struct Node<'a> {
    path: &'a Path<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Node<'_> {
    fn map<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = Path::Key(self.path, &key);
            let value = map.next_value_seed(Node { path: &path, duplicates: &mut *self.duplicates })?;
            match object.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    remember(self.duplicates, || Path::Key(self.path, entry.key()).to_string());
                    entry.insert(value);
                }
            }
        }
        Ok(object)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = vec![];
        loop {
            let path = Path::Index(self.path, list.len());
            match seq.next_element_seed(Node { path: &path, duplicates: &mut *self.duplicates })? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        self.map(map).map(Value::Object)
    }
}

/// Reads the outermost value, which must be an object.
struct Top<'a>(Node<'a>);

impl<'de> Visitor<'de> for Top<'_> {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object, A::Error> {
        self.0.map(map)
    }
}

#[cfg(test)]
mod tests;
