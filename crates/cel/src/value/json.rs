//! Values from JSON, by type, and back.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Number, Value as Json};

use super::{Key, List, Map, Text, Value, compare::entries};
use crate::{
    error::{EvalError, shown},
    library::{convert, time},
    types::{Declared, Type},
};

/// What is not declared.
static DYNAMIC: Declared = Declared { ty: Type::Dyn, most: u64::MAX, least_json: 1, nullable: true };
/// How deep a value may be to become JSON.
const MOST_DEPTH: u32 = 200;

impl Type {
    /// What the elements of a list of the data are.
    pub(crate) fn item(&self) -> &Declared {
        match self {
            Type::List(list) => &list.item,
            _ => &DYNAMIC,
        }
    }

    /// What the value of a key of the data is.
    pub(crate) fn value_at(&self, key: &str) -> &Declared {
        match self {
            Type::Map(map) => &map.value,
            Type::Struct(_) => self.field_by_json(key),
            _ => &DYNAMIC,
        }
    }

    /// What the value of a key is, by its escaped name where it is a field.
    pub(crate) fn value_of(&self, key: &str) -> &Declared {
        match self {
            Type::Struct(structure) => structure.fields.get(key).map_or(&DYNAMIC, |field| &field.declared),
            _ => self.value_at(key),
        }
    }

    /// What a field is, by its name in the JSON.
    pub(crate) fn field_by_json(&self, name: &str) -> &Declared {
        match self {
            Type::Struct(structure) => {
                structure.field_by_json(name).map_or(&DYNAMIC, |(_, field)| &field.declared)
            }
            _ => &DYNAMIC,
        }
    }
}

/// The entry of a map of the data, by its escaped name where the map is an object with known fields.
pub(super) fn entry<'a>(
    map: &'a serde_json::Map<String, Json>,
    ty: &'a Type,
    name: &str,
) -> Result<Option<Value<'a>>, EvalError> {
    match ty {
        Type::Struct(structure) => {
            let Some(field) = structure.field(name) else { return Ok(None) };
            match map.get(&*field.json) {
                Some(Json::Null) | None => Ok(None),
                Some(value) => from_json(value, &field.declared).map(Some),
            }
        }
        _ => map.get(name).map(|value| from_json(value, ty.value_at(name))).transpose(),
    }
}

#[cold]
fn unexpected(json: &Json, ty: &Type) -> EvalError {
    let found = match json {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "list",
        Json::Object(_) => "map",
    };
    EvalError::failed(format!("invalid data, expected {ty}, got {found}"))
}

/// The value of a part of the data.
pub(crate) fn from_json<'a>(json: &'a Json, declared: &'a Declared) -> Result<Value<'a>, EvalError> {
    match json {
        Json::Null if declared.nullable => Ok(Value::Null),
        Json::Null => Err(EvalError::failed("invalid data, got null for schema with nullable=false")),
        _ => typed(json, &declared.ty),
    }
}

fn typed<'a>(json: &'a Json, ty: &'a Type) -> Result<Value<'a>, EvalError> {
    Ok(match (ty, json) {
        (Type::String, Json::String(text)) => Value::String(Text::Borrowed(text)),
        (Type::Int, Json::Number(number)) => Value::Int(integer(number).ok_or_else(|| unexpected(json, ty))?),
        (Type::Double, Json::Number(number)) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        (Type::Bool, Json::Bool(value)) => Value::Bool(*value),
        (Type::List(_), Json::Array(items)) => Value::List(List::Json(items, ty)),
        (Type::Map(_) | Type::Struct(_), Json::Object(map)) => Value::Map(Map::Json(map, ty)),
        (Type::Dyn, _) => dynamic(json),
        (Type::Timestamp, Json::String(text)) => Value::Timestamp(timestamp(text)?),
        (Type::Duration, Json::String(text)) => {
            let duration = parse_duration(text);
            Value::Duration(
                duration.ok_or_else(|| EvalError::failed(format!("Invalid duration {}", shown(text))))?,
            )
        }
        (Type::Bytes, Json::String(text)) => Value::Bytes(bytes(text)?),
        (Type::Optional(of), _) => Value::some(typed(json, of)?),
        _ => return Err(unexpected(json, ty)),
    })
}

/// A value whose type nobody declared.
fn dynamic(json: &Json) -> Value<'_> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Text::Borrowed(text)),
        Json::Array(items) => Value::List(List::Json(items, &DYNAMIC.ty)),
        Json::Object(map) => Value::Map(Map::Json(map, &DYNAMIC.ty)),
    }
}

/// The integer; one that is written as `1.0` is one too.
fn integer(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let double = number.as_f64()?;
        (double.fract() == 0.0 && double.abs() < 9.0e15).then_some(double as i64)
    })
}

fn bytes(text: &str) -> Result<Arc<[u8]>, EvalError> {
    let bytes = STANDARD.decode(text).map_err(|_| EvalError::failed("Invalid byte formatted string"))?;
    Ok(bytes.into())
}

/// A date, or a date with a time.
fn timestamp(text: &str) -> Result<Timestamp, EvalError> {
    let midnight = format!("{text}T00:00:00Z");
    time::parse_timestamp(text)
        .or_else(|| time::parse_timestamp(&midnight).filter(|_| text.len() == 10))
        .ok_or_else(|| EvalError::failed(format!("Invalid date-time formatted string {}", shown(text))))
}

/// A duration as schemas have it: that of Go, and days and weeks.
fn parse_duration(text: &str) -> Option<SignedDuration> {
    time::parse_duration(text).or_else(|| {
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit())?;
        let amount: i64 = trimmed[..end].parse().ok()?;
        let hours = match trimmed[end..].trim() {
            "d" | "day" | "days" => 24,
            "w" | "week" | "weeks" => 7 * 24,
            _ => return None,
        };
        time::bounded(SignedDuration::from_hours(
            amount.checked_mul(hours).filter(|hours| *hours < 3_000_000)?,
        ))
    })
}

impl Value<'_> {
    /// The value as JSON: bytes in base64, times and durations as text, none as null.
    ///
    /// Fails for what JSON cannot hold: types, keys that are no text, what nests too deeply.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        self.to_json_at(0)
    }

    fn to_json_at(&self, depth: u32) -> Result<Json, EvalError> {
        if depth > MOST_DEPTH {
            return Err(EvalError::failed("value is nested too deeply for JSON"));
        }
        Ok(match self {
            Value::Null | Value::Optional(None) => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Uint(value) => Json::from(*value),
            Value::Double(value) => Number::from_f64(*value)
                .map(Json::Number)
                .ok_or_else(|| EvalError::failed("JSON has no infinity and no NaN"))?,
            Value::String(text) => Json::from(&**text),
            Value::Bytes(bytes) => Json::from(STANDARD.encode(bytes)),
            Value::Timestamp(_) | Value::Duration(_) | Value::Extension(_) => {
                Json::from(convert::text_of(self)?.into_owned())
            }
            Value::Optional(Some(value)) => value.to_json_at(depth + 1)?,
            Value::List(List::Json(items, _)) => Json::Array(items.to_vec()),
            Value::Map(Map::Json(map, _)) => Json::Object((*map).clone()),
            Value::List(list) => {
                let items = list.iter().map(|item| item?.to_json_at(depth + 1));
                Json::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Map(map) => {
                let mut object = serde_json::Map::new();
                for (key, value) in entries(map) {
                    let Key::String(key) = key else {
                        return Err(EvalError::failed("map key is not a string"));
                    };
                    object.insert(key.to_string(), value?.to_json_at(depth + 1)?);
                }
                Json::Object(object)
            }
            Value::Object(made) => {
                let mut object = serde_json::Map::new();
                for (name, value) in &made.fields {
                    object.insert(name.to_string(), value.to_json_at(depth + 1)?);
                }
                Json::Object(object)
            }
            Value::Type(name) => return Err(EvalError::failed(format!("type {name} is no JSON"))),
        })
    }
}
