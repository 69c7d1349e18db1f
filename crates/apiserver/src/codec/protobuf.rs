//! The protobuf encoding of objects, as Go clients send them.
//!
//! A body is a prefix and an envelope that tells the kind and holds the message. It is read into what the same
//! object would be in JSON. Go writes the fields that are not pointers even if they are zero; those that its
//! JSON leaves out are left out here too. Start at [`decode`].

use std::{collections::HashMap, rc::Rc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Number, Value, map::Entry};
use windlass_machinery::{object::Object, time};

use super::{
    fields::{Field, Type, fields},
    wire::{Reader, Wire},
};

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// How deep objects and lists may be nested in each other: as in JSON, because that is how they are stored.
const DEPTH_MOST: usize = 127;
/// The type in which the schemas of custom resources are nested.
const JSON_SCHEMA: &str = "apiextensions.k8s.io/v1.JSONSchemaProps";

/// Why bytes are no object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the body does not begin with the prefix of the protobuf encoding")]
    Magic,
    #[error("unexpected end of the protobuf message")]
    Truncated,
    #[error("illegal tag in the protobuf message")]
    Tag,
    #[error("the protobuf field {0} has the wrong wire type")]
    WireType(&'static str),
    #[error("no kind {kind:?} is registered for version {api_version:?} in the protobuf encoding")]
    Kind { api_version: String, kind: String },
    #[error("a string in the protobuf message is not UTF-8")]
    Utf8,
    #[error("the protobuf field {0} holds a number or time that is out of range")]
    Range(&'static str),
    #[error("the JSON in the protobuf field {name} cannot be read")]
    Json { name: &'static str, source: serde_json::Error },
    #[error("the protobuf message is nested too deep")]
    Depth,
    #[error("the protobuf message is too large: as JSON, it has more than {0} bytes")]
    Size(usize),
}

/// Reads an object that takes, roughly, at most this many bytes as JSON.
pub(crate) fn decode(bytes: &[u8], most: usize) -> Result<Object, Error> {
    Decoder { types: HashMap::new(), most, left: most }.envelope(bytes, 1)
}

/// One body being read.
struct Decoder {
    /// The types met so far.
    types: HashMap<Box<str>, Rc<[Field]>>,
    most: usize,
    left: usize,
}

/// The value being read: the field it is in, and how deep it is.
#[derive(Clone, Copy)]
struct Place {
    name: &'static str,
    depth: usize,
}

impl Place {
    fn below(self) -> Place {
        Place { depth: self.depth + 1, ..self }
    }

    fn bytes<'a>(&self, wire: Wire<'a>) -> Result<&'a [u8], Error> {
        match wire {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => Err(Error::WireType(self.name)),
        }
    }

    fn text<'a>(&self, wire: Wire<'a>) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes(wire)?).map_err(|_| Error::Utf8)
    }

    /// Integers of any size are written as 64 bits, negative ones too.
    fn integer(&self, wire: Wire<'_>) -> Result<i64, Error> {
        match wire {
            Wire::Varint(number) => Ok(number.cast_signed()),
            _ => Err(Error::WireType(self.name)),
        }
    }

    fn time(&self, seconds: i64, nanos: i64) -> Result<Timestamp, Error> {
        /// The years that RFC 3339 can write: 1 to 9999.
        const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
        let nanos = i32::try_from(nanos).ok().filter(|nanos| (0..1_000_000_000).contains(nanos));
        let time = nanos.and_then(|nanos| Timestamp::new(seconds, nanos).ok());
        time.filter(|_| SECONDS.contains(&seconds)).ok_or(Error::Range(self.name))
    }
}

impl Decoder {
    /// Reads the prefix, the envelope and the object in it.
    fn envelope(&mut self, bytes: &[u8], depth: usize) -> Result<Object, Error> {
        let bytes = bytes.strip_prefix(MAGIC).ok_or(Error::Magic)?;
        let at = |name| Place { name, depth };
        let (mut api_version, mut kind, mut raw) = ("", "", &b""[..]);
        let mut envelope = Reader::new(bytes);
        while let Some((number, wire)) = envelope.field()? {
            match number {
                1 => {
                    let mut type_meta = Reader::new(at("typeMeta").bytes(wire)?);
                    while let Some((number, wire)) = type_meta.field()? {
                        match number {
                            1 => api_version = at("apiVersion").text(wire)?,
                            2 => kind = at("kind").text(wire)?,
                            _ => {}
                        }
                    }
                }
                2 => raw = at("raw").bytes(wire)?,
                _ => {}
            }
        }
        let type_name = match kind {
            // The same in every group.
            "DeleteOptions" => "meta.k8s.io/v1.DeleteOptions".to_owned(),
            _ => format!("{api_version}.{kind}"),
        };
        if kind.is_empty() || !self.knows(&type_name) {
            return Err(Error::Kind { api_version: api_version.to_owned(), kind: kind.to_owned() });
        }
        let mut object = Object::new();
        self.message(&type_name, raw, at(""), &mut object)?;
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
        Ok(object)
    }

    fn knows(&mut self, type_name: &str) -> bool {
        self.fields(type_name).is_some()
    }

    fn fields(&mut self, type_name: &str) -> Option<Rc<[Field]>> {
        if let Some(known) = self.types.get(type_name) {
            return Some(Rc::clone(known));
        }
        let found: Rc<[Field]> = fields(type_name)?.into();
        self.types.insert(type_name.into(), Rc::clone(&found));
        Some(found)
    }

    /// Takes note of what will be written. A few bytes of protobuf can be many of JSON.
    fn spend(&mut self, n_bytes: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(n_bytes).ok_or(Error::Size(self.most))?;
        Ok(())
    }

    /// Reads the fields of a message into an object.
    fn message(&mut self, name: &str, bytes: &[u8], place: Place, object: &mut Object) -> Result<(), Error> {
        if place.depth > DEPTH_MOST {
            return Err(Error::Depth);
        }
        let fields = self.fields(name).unwrap_or_default();
        let mut message = Reader::new(bytes);
        while let Some((number, wire)) = message.field()? {
            // Fields that are not known belong to another version of Kubernetes.
            let Some(field) = fields.iter().find(|field| field.number == number) else { continue };
            let place = Place { name: field.name, ..place };
            match &field.kind {
                Type::Message(inner) if field.name.is_empty() => {
                    // As deep in JSON, but not here.
                    self.message(inner, place.bytes(wire)?, place.below(), object)?;
                }
                Type::List(items) => {
                    let Some(list) = self.held(object, field, || Value::Array(vec![]))?.as_array_mut() else {
                        continue;
                    };
                    self.items(items, wire, place.below(), list)?;
                }
                Type::Map(items) => {
                    let Some(map) = self.held(object, field, || Map::new().into())?.as_object_mut() else {
                        continue;
                    };
                    let (key, value) = self.entry(items, place.bytes(wire)?, place.below())?;
                    map.insert(key, value);
                }
                kind => {
                    let value = self.value(kind, wire, place.below())?;
                    if !(value.is_null() || field.omitted && is_zero(&value)) {
                        self.spend(field.name.len() + 4)?;
                        object.insert(field.name.to_owned(), value);
                    }
                }
            }
        }
        Ok(())
    }

    /// The list or map in a field, which is there from its first entry on.
    fn held<'o>(
        &mut self,
        object: &'o mut Object,
        field: &Field,
        empty: impl FnOnce() -> Value,
    ) -> Result<&'o mut Value, Error> {
        match object.entry(field.name) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                self.spend(field.name.len() + 4)?;
                Ok(entry.insert(empty()))
            }
        }
    }

    /// Reads an entry of a list, or several numbers that are packed.
    fn items(
        &mut self,
        items: &Type,
        wire: Wire<'_>,
        place: Place,
        list: &mut Vec<Value>,
    ) -> Result<(), Error> {
        match (items, wire) {
            (Type::Bool | Type::I32 | Type::I64 | Type::F64, Wire::Bytes(bytes)) => {
                let mut packed = Reader::new(bytes);
                while let Some(wire) = packed.packed(*items == Type::F64)? {
                    list.push(self.value(items, wire, place.below())?);
                }
            }
            _ => list.push(self.value(items, wire, place.below())?),
        }
        Ok(())
    }

    /// Reads an entry of a map. A key or value that is missing is zero.
    fn entry(&mut self, items: &Type, bytes: &[u8], place: Place) -> Result<(String, Value), Error> {
        let (mut key, mut value) = ("", None);
        let mut entry = Reader::new(bytes);
        while let Some((number, wire)) = entry.field()? {
            match number {
                1 => key = place.text(wire)?,
                2 => value = Some(wire),
                _ => {}
            }
        }
        let wire = value.unwrap_or(match items {
            Type::Bool | Type::I32 | Type::I64 => Wire::Varint(0),
            Type::F64 => Wire::Fixed64(0),
            _ => Wire::Bytes(&[]),
        });
        self.spend(key.len() + 4)?;
        Ok((key.to_owned(), self.value(items, wire, place.below())?))
    }

    /// Reads one value; null where there is none, such as a time that is not set.
    fn value(&mut self, kind: &Type, wire: Wire<'_>, place: Place) -> Result<Value, Error> {
        if place.depth > DEPTH_MOST {
            return Err(Error::Depth);
        }
        self.spend(2)?;
        Ok(match kind {
            Type::Bool => Value::Bool(place.integer(wire)? != 0),
            // The upper half of a 32-bit integer is its sign; what else may be there does not count.
            Type::I32 => (place.integer(wire)? as i32).into(),
            Type::I64 => place.integer(wire)?.into(),
            Type::F64 => match wire {
                Wire::Fixed64(bits) => float(f64::from_bits(bits)).ok_or(Error::Range(place.name))?,
                _ => return Err(Error::WireType(place.name)),
            },
            Type::Text => self.text(place.text(wire)?)?,
            Type::Bytes => self.text(&BASE64_STANDARD.encode(place.bytes(wire)?))?,
            Type::Quantity => match self.parts(wire, place, [Type::Text])? {
                [Value::String(text)] if !text.is_empty() => Value::String(text),
                _ => "0".into(),
            },
            Type::IntOrString => {
                let [which, number, text] = self.parts(wire, place, [Type::I64, Type::I32, Type::Text])?;
                match which.as_i64() {
                    Some(1) => {
                        if text.is_null() {
                            "".into()
                        } else {
                            text
                        }
                    }
                    _ => {
                        if number.is_null() {
                            0.into()
                        } else {
                            number
                        }
                    }
                }
            }
            Type::Time | Type::MicroTime if place.bytes(wire)?.is_empty() => Value::Null,
            Type::Time => {
                let [seconds] = self.parts(wire, place, [Type::I64])?;
                time::rfc3339(place.time(seconds.as_i64().unwrap_or(0), 0)?).into()
            }
            Type::MicroTime => {
                let [seconds, nanos] = self.parts(wire, place, [Type::I64, Type::I32])?;
                let [seconds, nanos] = [seconds, nanos].map(|part| part.as_i64().unwrap_or(0));
                time::rfc3339_micro(place.time(seconds, nanos)?).into()
            }
            Type::Raw => self.raw(wire, place)?,
            Type::Strings => {
                let [items] = self.parts(wire, place, [Type::List(Box::new(Type::Text))])?;
                if items.is_null() { Value::Array(vec![]) } else { items }
            }
            Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings => {
                self.schema(kind, wire, place)?
            }
            Type::Message(name) => {
                let mut object = Object::new();
                self.message(name, place.bytes(wire)?, place, &mut object)?;
                Value::Object(object)
            }
            // Lists and maps are never entries of each other.
            Type::List(_) | Type::Map(_) => return Err(Error::WireType(place.name)),
        })
    }

    fn text(&mut self, text: &str) -> Result<Value, Error> {
        self.spend(text.len())?;
        Ok(text.into())
    }

    /// The first fields of a small message, null where they are missing.
    fn parts<const N: usize>(
        &mut self,
        wire: Wire<'_>,
        place: Place,
        kinds: [Type; N],
    ) -> Result<[Value; N], Error> {
        let mut parts = [const { Value::Null }; N];
        let mut message = Reader::new(place.bytes(wire)?);
        while let Some((number, wire)) = message.field()? {
            let index = number as usize - 1;
            let (Some(part), Some(kind)) = (parts.get_mut(index), kinds.get(index)) else { continue };
            match (kind, &mut *part) {
                (Type::List(items), Value::Array(list)) => {
                    list.push(self.value(items, wire, place.below().below())?);
                }
                (Type::List(items), _) => {
                    *part = Value::Array(vec![self.value(items, wire, place.below().below())?]);
                }
                _ => *part = self.value(kind, wire, place.below())?,
            }
        }
        Ok(parts)
    }

    /// JSON, or an object in this encoding.
    fn raw(&mut self, wire: Wire<'_>, place: Place) -> Result<Value, Error> {
        let mut message = Reader::new(place.bytes(wire)?);
        let mut raw = &b""[..];
        while let Some((number, wire)) = message.field()? {
            if number == 1 {
                raw = place.bytes(wire)?;
            }
        }
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        if raw.starts_with(MAGIC) {
            return self.envelope(raw, place.depth).map(Value::Object);
        }
        self.spend(raw.len())?;
        let name = place.name;
        let value: Value = serde_json::from_slice(raw).map_err(|source| Error::Json { name, source })?;
        match place.depth + height(&value) > DEPTH_MOST {
            true => Err(Error::Depth),
            false => Ok(value),
        }
    }

    /// A schema, or what may stand in its place.
    fn schema(&mut self, kind: &Type, wire: Wire<'_>, place: Place) -> Result<Value, Error> {
        let schema = || Type::Message(JSON_SCHEMA.into());
        let [one, other] = match kind {
            Type::SchemaOrArray => self.parts(wire, place, [schema(), Type::List(Box::new(schema()))])?,
            Type::SchemaOrBool => {
                let [allowed, schema] = self.parts(wire, place, [Type::Bool, schema()])?;
                [if allowed.is_null() { false.into() } else { allowed }, schema]
            }
            _ => self.parts(wire, place, [schema(), Type::List(Box::new(Type::Text))])?,
        };
        Ok(if other.is_null() { one } else { other })
    }
}

/// A float as Go writes it: without a fraction if it is whole.
fn float(number: f64) -> Option<Value> {
    /// Beyond this, floats do not tell neighbouring integers apart.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return Some((number as i64).into());
    }
    Number::from_f64(number).map(Value::Number)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// How many objects and lists are nested in each other.
fn height(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(height).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(height).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
