//! Functions on texts. Positions are counted in characters.

use super::{
    Outcome, Row, Tools,
    convert::{length, out_of_range, slice},
    mismatch,
};
use crate::{
    cost::{Cost, Grows, tenth},
    error::EvalError,
    value::{Text, Value},
};

const NO: Grows = Grows::Unknown;

pub(super) const ROWS: &[Row] = &[
    ("string::contains(string)->bool", contains, Cost::Search, NO),
    ("string::startsWith(string)->bool", starts_with, Cost::Tenth(1), NO),
    ("string::endsWith(string)->bool", ends_with, Cost::Tenth(1), NO),
    ("string::charAt(int)->string", char_at, Cost::Scan(0), Grows::AtMost(1)),
    ("string::indexOf(string)->int", index_of, Cost::Tenth(0), NO),
    ("string::indexOf(string,int)->int", index_of, Cost::Tenth(0), NO),
    ("string::lastIndexOf(string)->int", last_index_of, Cost::Tenth(0), NO),
    ("string::lastIndexOf(string,int)->int", last_index_of, Cost::Tenth(0), NO),
    ("string::lowerAscii()->string", lower_ascii, Cost::Tenth(0), Grows::Like(0)),
    ("string::upperAscii()->string", upper_ascii, Cost::Tenth(0), Grows::Like(0)),
    ("string::replace(string,string)->string", replace, Cost::Fifth(0), Grows::Replace),
    ("string::replace(string,string,int)->string", replace, Cost::Fifth(0), Grows::Replace),
    ("string::split(string)->list(string)", split, Cost::Fifth(0), Grows::Split),
    ("string::split(string,int)->list(string)", split, Cost::Fifth(0), Grows::Split),
    ("string::substring(int)->string", substring, Cost::Tenth(0), Grows::Like(0)),
    ("string::substring(int,int)->string", substring, Cost::Tenth(0), Grows::Like(0)),
    ("string::trim()->string", trim, Cost::Tenth(0), Grows::Like(0)),
    ("string::reverse()->string", reverse, Cost::Tenth(0), Grows::Like(0)),
    ("strings.quote(string)->string", quote, Cost::Tenth(0), Grows::Times(0, 2)),
    ("list(string)::join()->string", join, Cost::Join, Grows::Join),
    ("list(string)::join(string)->string", join, Cost::Join, Grows::Join),
];

fn contains<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::String(part)] = args else { return mismatch() };
    Ok(Value::Bool(text.contains(&**part)))
}

fn starts_with<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::String(part)] = args else { return mismatch() };
    Ok(Value::Bool(text.starts_with(&**part)))
}

fn ends_with<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::String(part)] = args else { return mismatch() };
    Ok(Value::Bool(text.ends_with(&**part)))
}

/// The byte at which a character begins; the end of the text is a place too.
fn byte_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn char_at<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::Int(index)] = args else { return mismatch() };
    let from = byte_of(text, *index).ok_or_else(|| out_of_range(index))?;
    let to = from + text[from..].chars().next().map_or(0, char::len_utf8);
    Ok(slice(text, from, to))
}

fn index_of<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, *from),
        _ => return mismatch(),
    };
    if from < 0 {
        return Err(out_of_range(from));
    }
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let found = byte_of(text, from).and_then(|from| Some(from + text[from..].find(&**part)?));
    Ok(Value::Int(found.map_or(-1, |at| length(&text[..at]) as i64)))
}

fn last_index_of<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, part, last) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(last)] => (text, part, Some(*last)),
        _ => return mismatch(),
    };
    if let Some(last) = last.filter(|last| *last < 0) {
        return Err(out_of_range(last));
    }
    if part.is_empty() {
        return Ok(Value::Int(last.unwrap_or_else(|| length(text) as i64)));
    }
    // A match may begin at the last place, so it ends at most that much later.
    let end = match last {
        None => Some(text.len()),
        Some(last) => byte_of(text, last).map(|at| text.len().min(at + part.len())),
    };
    let end = end.map(|end| (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len()));
    let found = end.and_then(|end| text[..end].rfind(&**part));
    Ok(Value::Int(found.map_or(-1, |at| length(&text[..at]) as i64)))
}

fn lower_ascii<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::text(text.to_ascii_lowercase()))
}

fn upper_ascii<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::text(text.to_ascii_uppercase()))
}

fn replace<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, from, to, limit) = match args {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, -1),
        [Value::String(text), Value::String(from), Value::String(to), Value::Int(limit)] => {
            (text, from, to, *limit)
        }
        _ => return mismatch(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = text.matches(&**from).take(limit).count();
    // The result may be far longer than the text, so it is paid for before it is there.
    tools.budget.charge(tenth((count as u64).saturating_mul(to.len() as u64)))?;
    Ok(Value::text(text.replacen(&**from, to, limit)))
}

fn split<'a>(tools: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return mismatch(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut pieces = vec![];
    let mut start = 0;
    if limit == 0 || (separator.is_empty() && text.is_empty()) {
        return Ok(Value::list(pieces));
    }
    let mut rest = &**text;
    while pieces.len() + 1 < limit {
        let end = match separator.is_empty() {
            // Without a separator every character is a piece.
            true => rest.chars().next().map(char::len_utf8).filter(|end| *end < rest.len()),
            false => rest.find(&**separator),
        };
        let Some(end) = end else { break };
        tools.budget.charge(1)?;
        pieces.push(slice(text, start, start + end));
        start += end + separator.len();
        rest = &text[start..];
    }
    pieces.push(slice(text, start, text.len()));
    Ok(Value::list(pieces))
}

fn substring<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, from, to) = match args {
        [Value::String(text), Value::Int(from)] => (text, *from, None),
        [Value::String(text), Value::Int(from), Value::Int(to)] => (text, *from, Some(*to)),
        _ => return mismatch(),
    };
    if let Some(to) = to.filter(|to| from > *to) {
        return Err(EvalError::failed(format!("invalid substring range. start: {from}, end: {to}")));
    }
    let start = byte_of(text, from).ok_or_else(|| out_of_range(from))?;
    let end = match to {
        Some(to) => byte_of(text, to).ok_or_else(|| out_of_range(to))?,
        None => text.len(),
    };
    Ok(slice(text, start, end))
}

fn trim<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    let from = text.len() - text.trim_start().len();
    Ok(slice(text, from, from + text.trim().len()))
}

fn reverse<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::text(text.chars().rev().collect::<String>()))
}

/// A text in double quotes, with what cannot be printed escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn quote<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::text(quoted(text)))
}

fn join<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, Text::Borrowed("")),
        [Value::List(list), Value::String(separator)] => (list, separator.clone()),
        _ => return mismatch(),
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let Value::String(text) = item? else { return mismatch() };
        if index > 0 {
            joined.push_str(&separator);
        }
        joined.push_str(&text);
    }
    Ok(Value::text(joined))
}
