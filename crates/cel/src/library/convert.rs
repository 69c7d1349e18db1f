//! Conversions between types, `size`, `type` and `dyn`.

use std::borrow::Cow;

use super::{Outcome, Row, Tools, mismatch, time};
use crate::{
    cost::{Cost, Grows},
    error::{EvalError, shown},
    value::{Extension, Text, Value},
};

/// The most characters of a number, a time or an address.
const SHORT: Grows = Grows::AtMost(64);

pub(super) const ROWS: &[Row] = &[
    ("int(int)->int", same, Cost::One, Grows::Unknown),
    ("int(uint)->int", int, Cost::One, Grows::Unknown),
    ("int(double)->int", int, Cost::One, Grows::Unknown),
    ("int(string)->int", int, Cost::Scan(0), Grows::Unknown),
    ("int(timestamp)->int", int, Cost::One, Grows::Unknown),
    ("uint(uint)->uint", same, Cost::One, Grows::Unknown),
    ("uint(int)->uint", uint, Cost::One, Grows::Unknown),
    ("uint(double)->uint", uint, Cost::One, Grows::Unknown),
    ("uint(string)->uint", uint, Cost::Scan(0), Grows::Unknown),
    ("double(double)->double", same, Cost::One, Grows::Unknown),
    ("double(int)->double", double, Cost::One, Grows::Unknown),
    ("double(uint)->double", double, Cost::One, Grows::Unknown),
    ("double(string)->double", double, Cost::Scan(0), Grows::Unknown),
    ("bool(bool)->bool", same, Cost::One, Grows::Unknown),
    ("bool(string)->bool", boolean, Cost::One, Grows::Unknown),
    ("bytes(bytes)->bytes", same, Cost::One, Grows::Like(0)),
    ("bytes(string)->bytes", bytes, Cost::Tenth(0), Grows::Times(0, 4)),
    ("string(string)->string", same, Cost::One, Grows::Like(0)),
    ("string(bytes)->string", string, Cost::Tenth(0), Grows::Like(0)),
    ("string(bool)->string", string, Cost::One, SHORT),
    ("string(int)->string", string, Cost::One, SHORT),
    ("string(uint)->string", string, Cost::One, SHORT),
    ("string(double)->string", string, Cost::One, SHORT),
    ("string(timestamp)->string", string, Cost::One, SHORT),
    ("string(duration)->string", string, Cost::One, SHORT),
    ("string(ip)->string", string, Cost::One, SHORT),
    ("string(cidr)->string", string, Cost::One, SHORT),
    ("type(A)->type(A)", type_of, Cost::One, Grows::Unknown),
    ("dyn(A)->dyn", same, Cost::One, Grows::Like(0)),
    ("size(string)->int", size, Cost::Scan(0), Grows::Unknown),
    ("size(bytes)->int", size, Cost::One, Grows::Unknown),
    ("size(list(A))->int", size, Cost::One, Grows::Unknown),
    ("size(map(A,B))->int", size, Cost::One, Grows::Unknown),
    ("string::size()->int", size, Cost::Scan(0), Grows::Unknown),
    ("bytes::size()->int", size, Cost::One, Grows::Unknown),
    ("list(A)::size()->int", size, Cost::One, Grows::Unknown),
    ("map(A,B)::size()->int", size, Cost::One, Grows::Unknown),
];

fn same<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    args.first().cloned().ok_or_else(EvalError::no_such_overload)
}

pub(super) fn wrong(from: &Value<'_>, to: &str) -> EvalError {
    let from = from.type_name();
    EvalError::failed(format!("type conversion error from '{from}' to '{to}'"))
}

pub(crate) fn int_overflow() -> EvalError {
    EvalError::failed("integer overflow")
}

pub(crate) fn uint_overflow() -> EvalError {
    EvalError::failed("unsigned integer overflow")
}

fn int<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(match args {
        [Value::Uint(value)] => i64::try_from(*value).map_err(|_| int_overflow())?,
        [Value::Double(value)] if *value > i64::MIN as f64 && *value < i64::MAX as f64 => *value as i64,
        [Value::Double(_)] => return Err(int_overflow()),
        [Value::Timestamp(value)] => value.as_second() - i64::from(value.subsec_nanosecond() < 0),
        [text @ Value::String(value)] => value.parse().map_err(|_| wrong(text, "int"))?,
        _ => return mismatch(),
    }))
}

fn uint<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Uint(match args {
        [Value::Int(value)] => u64::try_from(*value).map_err(|_| uint_overflow())?,
        [Value::Double(value)] if *value >= 0.0 && *value < u64::MAX as f64 => *value as u64,
        [Value::Double(_)] => return Err(uint_overflow()),
        [text @ Value::String(value)] => value.parse().map_err(|_| wrong(text, "uint"))?,
        _ => return mismatch(),
    }))
}

fn double<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Double(match args {
        [Value::Int(value)] => *value as f64,
        [Value::Uint(value)] => *value as f64,
        [text @ Value::String(value)] => value.parse().map_err(|_| wrong(text, "double"))?,
        _ => return mismatch(),
    }))
}

fn boolean<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value @ Value::String(text)] = args else { return mismatch() };
    match &**text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
        _ => Err(wrong(value, "bool")),
    }
}

fn bytes<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::Bytes(text.as_bytes().into()))
}

fn string<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return mismatch() };
    Ok(Value::text(text_of(value)?))
}

fn type_of<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return mismatch() };
    Ok(Value::Type(value.type_name().into()))
}

fn size<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let size = match args {
        [Value::String(text)] => length(text),
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return mismatch(),
    };
    Ok(Value::Int(size as i64))
}

/// The number of characters.
pub(super) fn length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// The text a value is converted to.
pub(crate) fn text_of<'v>(value: &'v Value<'_>) -> Result<Cow<'v, str>, EvalError> {
    Ok(Cow::Owned(match value {
        Value::String(text) => return Ok(Cow::Borrowed(text)),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => double_text(*value),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec())
            .map_err(|_| EvalError::failed("invalid UTF-8 in bytes, cannot convert to string"))?,
        Value::Timestamp(value) => value.to_string(),
        Value::Duration(value) => time::duration_text(*value),
        Value::Type(name) => return Ok(Cow::Borrowed(name)),
        Value::Null => return Ok(Cow::Borrowed("null")),
        Value::Extension(extension) => match extension.as_ref() {
            Extension::Ip(value) => value.to_string(),
            Extension::Cidr(value) => value.to_string(),
            Extension::Quantity(value) => value.to_string(),
            Extension::Semver(value) => value.to_string(),
            Extension::Url(value) => value.text.clone(),
            _ => return Err(wrong(value, "string")),
        },
        _ => return Err(wrong(value, "string")),
    }))
}

/// A number with as many digits as it takes, as Go writes it.
pub(super) fn double_text(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        }
        .to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        exponent @ (..-4 | 6..) => with_exponent(digits, exponent),
        _ => format!("{value}"),
    }
}

/// An exponent with its sign and two digits at least.
pub(super) fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// What is said of an index that is not there.
pub(super) fn out_of_range(index: impl std::fmt::Display) -> EvalError {
    EvalError::failed(format!("index out of range: {index}"))
}

/// A part of a text, borrowed where the text is.
pub(super) fn slice<'a>(text: &Text<'a>, from: usize, to: usize) -> Value<'a> {
    match text {
        Text::Borrowed(text) => Value::String(Text::Borrowed(&text[from..to])),
        Text::Shared(text) => Value::text(&text[from..to]),
    }
}

/// What is said of a text that cannot be read.
pub(super) fn unreadable(what: &str, text: &str, why: impl std::fmt::Display) -> EvalError {
    EvalError::failed(format!("{what} {:?} parse error during conversion from string: {why}", shown(text)))
}
