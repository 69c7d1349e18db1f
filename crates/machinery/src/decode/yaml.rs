//! YAML into objects, from the events of the parser.
//!
//! Nothing here recurses, so no document can exhaust the stack, and what aliases copy is counted before it is
//! copied. Scalars mean what they mean to Kubernetes ([`resolve`]).

use std::collections::HashMap;

use serde_json::map::Entry;
use serde_json::{Number, Value};
use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle, Span, Tag};

use super::{DEPTH_MOST, DUPLICATES_MOST, DecodeError, Decoded, remember};
use crate::object::Object;

/// Most nodes that anchors and aliases copy: a body of a few lines must not become millions of values.
const COPIED_NODES_MOST: usize = 200_000;
/// Most bytes of text that they copy: a few times the largest body.
const COPIED_TEXT_MOST: usize = 16 << 20;
/// Most nodes of a document: no object is that large, and each costs some microsecond.
const NODES_MOST: usize = 400_000;

/// Reads one document that is a mapping.
pub(super) fn read(text: &str) -> Result<Decoded, DecodeError> {
    let builder = parse(text).map_err(DecodeError::Yaml)?;
    let Builder { root, duplicates, repeated, .. } = builder;
    match root {
        Some(Value::Object(object)) => Ok(Decoded { object, duplicates, repeated }),
        Some(Value::Null) | None => Err(DecodeError::Kind("null")),
        Some(Value::Array(_)) => Err(DecodeError::Kind("array")),
        Some(Value::String(_)) => Err(DecodeError::Kind("string")),
        Some(Value::Number(_)) => Err(DecodeError::Kind("number")),
        Some(Value::Bool(_)) => Err(DecodeError::Kind("bool")),
    }
}

/// Reads one document; the error is what is wrong and where.
fn parse(text: &str) -> Result<Builder, String> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut builder = Builder::default();
    let (mut documents, mut events) = (0, 0);
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| at_line(error.marker().line(), error.kind()))?;
        if matches!(event, Event::DocumentStart(..)) {
            documents += 1;
        }
        events += 1;
        if events > NODES_MOST {
            return Err(at_line(span.start.line(), "the document has too many nodes"));
        }
        if documents > 1 {
            return Err(at_line(span.start.line(), "expected one document, found another"));
        }
        builder.line = span.start.line();
        builder.take(event).map_err(|error| at(&span, error))?;
    }
    Ok(builder)
}

fn at(span: &Span, error: String) -> String {
    at_line(span.start.line(), error)
}

fn at_line(line: usize, error: impl std::fmt::Display) -> String {
    format!("yaml: line {line}: {error}")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// How large a value is.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    text: usize,
    /// How deep lists and mappings are nested in it: none in a scalar.
    depth: usize,
}

/// A list or a mapping that has begun and not ended.
struct Frame {
    open: Open,
    anchor: usize,
    size: Size,
    /// Where it began.
    line: usize,
}

enum Open {
    List(Vec<Value>),
    Map { object: Object, key: Option<Key>, merged: Vec<Object> },
}

/// The key whose value comes next.
enum Key {
    Field {
        name: String,
        /// Whether it was written as one; else as a number or a boolean.
        is_text: bool,
    },
    Merge,
}

#[derive(Default)]
struct Builder {
    stack: Vec<Frame>,
    root: Option<Value>,
    anchors: HashMap<usize, (Value, Size)>,
    copied: Size,
    duplicates: Vec<String>,
    repeated: Vec<String>,
    /// Where the parser stands.
    line: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if style == ScalarStyle::Plain && text == "<<" && tag.is_none() && self.wants_key() {
                    return self.key(Key::Merge);
                }
                let size = Size { nodes: 1, text: text.len(), depth: 0 };
                let value = resolve(&text, style, tag.as_deref())?;
                self.node(value, size, anchor, self.line)
            }
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor).map(|(_, size)| *size);
                let size = known.ok_or("an anchor's value contains itself")?;
                self.charge(size)?;
                let value = self.anchors.get(&anchor).map_or(Value::Null, |(value, _)| value.clone());
                self.node(value, size, 0, self.line)
            }
            Event::SequenceStart(_, anchor, _) => self.open(Open::List(vec![]), anchor),
            Event::MappingStart(_, anchor, _) => {
                self.open(Open::Map { object: Object::new(), key: None, merged: vec![] }, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Frame { open, anchor, mut size, line }) = self.stack.pop() else { return Ok(()) };
                size.depth += 1;
                let value = match open {
                    Open::List(list) => Value::Array(list),
                    Open::Map { object, merged, .. } => Value::Object(merge(object, merged)),
                };
                self.node(value, size, anchor, line)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, open: Open, anchor: usize) -> Result<(), String> {
        if self.wants_key() {
            return Err("a list or a mapping cannot be a key".to_owned());
        }
        let size = Size { nodes: 1, ..Size::default() };
        self.stack.push(Frame { open, anchor, size, line: self.line });
        self.check_depth(0)
    }

    /// A value, which began at a line, is complete: it goes where the document stands.
    fn node(&mut self, value: Value, size: Size, anchor: usize, line: usize) -> Result<(), String> {
        self.check_depth(size.depth)?;
        if anchor != 0 {
            self.charge(size)?;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        if self.wants_key() {
            let is_text = value.is_string();
            return self.key(Key::Field { name: key_text(value)?, is_text });
        }
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        frame.size.nodes += size.nodes;
        frame.size.text += size.text;
        frame.size.depth = frame.size.depth.max(size.depth);
        match &mut frame.open {
            Open::List(list) => list.push(value),
            Open::Map { object, key, merged } => match key.take() {
                Some(Key::Merge) => collect_merged(value, merged)?,
                Some(Key::Field { name, is_text }) => match object.entry(name) {
                    Entry::Vacant(entry) => {
                        entry.insert(value);
                    }
                    Entry::Occupied(mut entry) => {
                        let field = entry.key().clone();
                        entry.insert(value);
                        self.duplicate(&field, is_text, line);
                    }
                },
                None => {}
            },
        }
        Ok(())
    }

    fn wants_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { open: Open::Map { key: None, .. }, .. }))
    }

    fn key(&mut self, next: Key) -> Result<(), String> {
        if let Some(Frame { open: Open::Map { key, .. }, size, .. }) = self.stack.last_mut() {
            if let Key::Field { name, .. } = &next {
                size.text += name.len();
            }
            *key = Some(next);
        }
        Ok(())
    }

    fn check_depth(&self, below: usize) -> Result<(), String> {
        match self.stack.len() + below > DEPTH_MOST {
            true => Err(format!("exceeded max depth of {DEPTH_MOST}")),
            false => Ok(()),
        }
    }

    fn charge(&mut self, size: Size) -> Result<(), String> {
        self.copied.nodes += size.nodes;
        self.copied.text += size.text;
        match self.copied.nodes > COPIED_NODES_MOST || self.copied.text > COPIED_TEXT_MOST {
            true => Err("document contains excessive aliasing".to_owned()),
            false => Ok(()),
        }
    }

    /// Notes that `field` of the mapping on top of the stack was given again, with a value that begins at a line.
    fn duplicate(&mut self, field: &str, is_text: bool, line: usize) {
        if self.repeated.len() < DUPLICATES_MOST {
            let key = if is_text { format!("{field:?}") } else { field.to_owned() };
            self.repeated.push(format!("line {line}: key {key} already set in map"));
        }
        let stack = &self.stack;
        remember(&mut self.duplicates, || {
            let mut path = String::new();
            for frame in stack {
                match &frame.open {
                    Open::List(list) => path.push_str(&format!("[{}]", list.len())),
                    Open::Map { key: Some(Key::Field { name, .. }), .. } => push_field(&mut path, name),
                    Open::Map { .. } => {}
                }
            }
            push_field(&mut path, field);
            path
        });
    }
}

fn push_field(path: &mut String, field: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(field);
}

fn collect_merged(value: Value, merged: &mut Vec<Object>) -> Result<(), String> {
    let list = match value {
        Value::Array(list) => list,
        one => vec![one],
    };
    for value in list {
        match value {
            Value::Object(object) => merged.push(object),
            _ => return Err("map merge requires map or sequence of maps as the value".to_owned()),
        }
    }
    Ok(())
}

/// What is merged in never replaces what is there; of several, the first counts.
fn merge(mut object: Object, merged: Vec<Object>) -> Object {
    for (field, value) in merged.into_iter().flatten() {
        object.entry(field).or_insert(value);
    }
    object
}

fn key_text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("{} cannot be a key", kind(&other))),
    }
}

/// The value of a scalar, by its tag or by how it looks.
fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let string = || Ok(Value::String(text.to_owned()));
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain { plain(text) } else { string() };
    };
    let wanted = match (tag.handle(), tag.suffix()) {
        ("tag:yaml.org,2002:", "binary") => return Err("!!binary is not supported".to_owned()),
        ("tag:yaml.org,2002:", name @ ("null" | "bool" | "int" | "float")) => name,
        _ => return string(),
    };
    let value = plain(text)?;
    let fits = match &value {
        Value::Null => wanted == "null",
        Value::Bool(_) => wanted == "bool",
        Value::Number(number) => wanted == "float" || wanted == "int" && !number.is_f64(),
        _ => false,
    };
    if fits { Ok(value) } else { Err(format!("cannot decode {} `{text}` as a !!{wanted}", kind(&value))) }
}

/// The value of a plain scalar by the rules of YAML 1.1, as far as Kubernetes follows them: no times, no numbers to
/// the base of sixty.
fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(Value::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(Value::Bool(false));
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => return Err(format!("unsupported value: {text}")),
        _ => {}
    }
    let looks_numeric = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    let number = looks_numeric.then(|| number(&text.replace('_', ""))).flatten();
    Ok(number.map_or_else(|| Value::String(text.to_owned()), Value::Number))
}

fn number(text: &str) -> Option<Number> {
    if let Some(number) = integer(text) {
        return Some(number);
    }
    let value: f64 = is_float(text).then(|| text.parse().ok()).flatten()?;
    // On its way through JSON a whole float loses its fraction.
    match value.fract() == 0.0 && value.abs() < i64::MAX as f64 {
        true => Some((value as i64).into()),
        false => Number::from_f64(value),
    }
}

/// An integer of 64 bits, to the base that its prefix says.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // The standard library would take another sign here.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(digits, base).ok()?;
    match negative {
        true => 0i64.checked_sub_unsigned(value).map(Number::from),
        false => Some(value.into()),
    }
}

/// Digits with at most one dot, at least one of them, and perhaps an exponent.
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['-', '+']).unwrap_or(exponent)),
        None => (text, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && whole.len() + fraction.len() > 0
        && digits(exponent)
        && !exponent.is_empty()
}
