//! `format`: a text with clauses such as `%s`, `%d` and `%.2f`, filled from a list.

use super::{
    Outcome, Row, Tools,
    convert::{text_of, with_exponent},
    mismatch,
    strings::quoted,
    time,
};
use crate::{
    cost::{Cost, Grows, tenth},
    error::EvalError,
    types::Type,
    value::{Key, List, Map, Value, entries},
};

pub(super) const ROWS: &[Row] =
    &[("string::format(list(dyn))->string", format, Cost::Tenth(0), Grows::Unknown)];

/// Digits after the point when nobody says.
const PRECISION: usize = 6;
/// More digits than any number has.
const MOST_PRECISION: usize = 1000;
/// How deep a list may nest to be printed.
const MOST_DEPTH: u32 = 100;

fn format<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::List(list)] = args else { return mismatch() };
    let mut formatted = String::with_capacity(text.len());
    let mut rest = &**text;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        formatted.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            formatted.push('%');
            rest = after;
            continue;
        }
        let (clause, after) = clause(rest)?;
        rest = after;
        if next >= list.len() {
            return Err(EvalError::failed(format!("index {next} out of range")));
        }
        let filled = fill(clause, &list.get(next)?, tools)?;
        tools.budget.charge(tenth(filled.len() as u64))?;
        formatted.push_str(&filled);
        next += 1;
    }
    formatted.push_str(rest);
    Ok(Value::text(formatted))
}

/// Whether a text has a clause for each of its arguments that fits its type; else which one it is, and why.
pub(crate) fn check(text: &str, types: &[Type]) -> Result<(), (Option<usize>, String)> {
    let mut rest = text;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        let ((letter, _), after) = clause(rest).map_err(|error| (None, error.to_string()))?;
        rest = after;
        let Some(ty) = types.get(next) else { return Err((None, format!("index {next} out of range"))) };
        let fits = match (letter, ty) {
            (_, Type::Dyn | Type::Error | Type::Unknown(_)) | ('s', _) => Ok(()),
            ('d', Type::Int | Type::Uint) => Ok(()),
            ('d', _) => Err("decimal clause can only be used on integers"),
            ('f' | 'e', Type::Double | Type::String) => Ok(()),
            ('f', _) => Err("fixed-point clause can only be used on doubles"),
            ('e', _) => Err("scientific clause can only be used on doubles"),
            ('b', Type::Int | Type::Uint | Type::Bool) => Ok(()),
            ('b', _) => Err("only integers and bools can be formatted as binary"),
            ('o', Type::Int | Type::Uint) => Ok(()),
            ('o', _) => Err("octal clause can only be used on integers"),
            ('x' | 'X', Type::Int | Type::Uint | Type::String | Type::Bytes) => Ok(()),
            ('x' | 'X', _) => Err("only integers, byte buffers, and strings can be formatted as hex"),
            _ => {
                let why =
                    format!("could not parse formatting clause: unrecognized formatting clause \"{letter}\"");
                return Err((None, why));
            }
        };
        fits.map_err(|why| (Some(next), format!("error during formatting: {why}, was given {ty}")))?;
        next += 1;
    }
    match types.len() > next {
        true => {
            let count = types.len();
            let why = format!("too many arguments supplied to string.format (expected {next}, got {count})");
            Err((None, why))
        }
        false => Ok(()),
    }
}

/// The letter of a clause, and how many digits it asks for.
type Clause = (char, Option<usize>);

fn clause(text: &str) -> Result<(Clause, &str), EvalError> {
    let unfinished = || EvalError::failed("unexpected end of string");
    let (precision, rest) = match text.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(unfinished)?;
            let precision = rest[..end].parse().ok().filter(|digits| *digits <= MOST_PRECISION);
            let precision = precision
                .ok_or_else(|| EvalError::failed("could not parse precision, or it is too large"))?;
            (Some(precision), &rest[end..])
        }
        None => (None, text),
    };
    let letter = rest.chars().next().ok_or_else(unfinished)?;
    Ok(((letter, precision), &rest[letter.len_utf8()..]))
}

fn fill((letter, precision): Clause, value: &Value<'_>, tools: &mut Tools<'_>) -> Result<String, EvalError> {
    let wrong = |what: &str| {
        let found = value.type_name();
        EvalError::failed(format!("error during formatting: {what}, was given {found}"))
    };
    Ok(match (letter, value) {
        ('s', _) => printed(value, tools, 0)?,
        ('d', Value::Int(value)) => value.to_string(),
        ('d', Value::Uint(value)) => value.to_string(),
        ('d', _) => return Err(wrong("decimal clause can only be used on integers")),
        ('f', _) => {
            let number =
                number(value).ok_or_else(|| wrong("fixed-point clause can only be used on doubles"))?;
            if number.is_finite() {
                format!("{number:.*}", precision.unwrap_or(PRECISION))
            } else {
                special(number)
            }
        }
        ('e', _) => {
            let number =
                number(value).ok_or_else(|| wrong("scientific clause can only be used on doubles"))?;
            scientific(number, precision.unwrap_or(PRECISION))
        }
        ('b', Value::Int(value)) => radix(*value, |value| format!("{value:b}")),
        ('b', Value::Uint(value)) => format!("{value:b}"),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b', _) => return Err(wrong("only integers and bools can be formatted as binary")),
        ('o', Value::Int(value)) => radix(*value, |value| format!("{value:o}")),
        ('o', Value::Uint(value)) => format!("{value:o}"),
        ('o', _) => return Err(wrong("octal clause can only be used on integers")),
        ('x' | 'X', _) => {
            let hex = match value {
                Value::Int(value) => radix(*value, |value| format!("{value:x}")),
                Value::Uint(value) => format!("{value:x}"),
                Value::String(text) => hex(text.as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                _ => return Err(wrong("only integers, byte buffers, and strings can be formatted as hex")),
            };
            if letter == 'X' { hex.to_ascii_uppercase() } else { hex }
        }
        _ => return Err(EvalError::failed(format!("unrecognized formatting clause \"{letter}\""))),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn radix(value: i64, write: impl Fn(u64) -> String) -> String {
    let digits = write(value.unsigned_abs());
    if value < 0 { format!("-{digits}") } else { digits }
}

/// A number, or the words for those that are none.
fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(number: f64) -> String {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
    .to_owned()
}

fn scientific(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return special(number);
    }
    let text = format!("{number:.precision$e}");
    match text.split_once('e') {
        Some((digits, exponent)) => with_exponent(digits, exponent.parse().unwrap_or(0)),
        None => text,
    }
}

/// A value as `%s` prints it; within lists and maps, texts are quoted.
fn printed(value: &Value<'_>, tools: &mut Tools<'_>, depth: u32) -> Result<String, EvalError> {
    if depth > MOST_DEPTH {
        return Err(EvalError::failed("value is nested too deeply to be printed"));
    }
    tools.budget.charge(tenth(value.size()))?;
    match value {
        Value::List(list) => printed_list(list, tools, depth),
        Value::Map(map) => printed_map(map, tools, depth),
        Value::Optional(_) | Value::Object(_) => {
            let name = value.type_name();
            Err(EvalError::failed(format!("error during formatting: string clause cannot be used on {name}")))
        }
        _ => Ok(text_of(value)?.into_owned()),
    }
}

fn printed_list(list: &List<'_>, tools: &mut Tools<'_>, depth: u32) -> Result<String, EvalError> {
    let mut parts = vec![];
    for item in list.iter() {
        parts.push(member(&item?, tools, depth)?);
    }
    Ok(format!("[{}]", parts.join(", ")))
}

fn printed_map(map: &Map<'_>, tools: &mut Tools<'_>, depth: u32) -> Result<String, EvalError> {
    let mut parts = vec![];
    for (key, value) in entries(map) {
        let key = match &key {
            Key::String(text) => quoted(text),
            other => other.to_string(),
        };
        parts.push(format!("{key}:{}", member(&value?, tools, depth)?));
    }
    parts.sort();
    Ok(format!("{{{}}}", parts.join(", ")))
}

fn member(value: &Value<'_>, tools: &mut Tools<'_>, depth: u32) -> Result<String, EvalError> {
    Ok(match value {
        Value::String(text) => {
            tools.budget.charge(tenth(text.len() as u64))?;
            quoted(text)
        }
        Value::Bytes(_) => format!("b{}", quoted(&printed(value, tools, depth + 1)?)),
        Value::Timestamp(_) => format!("timestamp({})", quoted(&printed(value, tools, depth + 1)?)),
        Value::Duration(duration) => format!("duration({})", quoted(&time::duration_text(*duration))),
        Value::Double(number) if number.is_finite() => format!("{number:.PRECISION$}"),
        Value::Double(number) => quoted(&special(*number)),
        _ => printed(value, tools, depth + 1)?,
    })
}
