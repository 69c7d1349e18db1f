//! Holding an object against its schema: dropping what is not in it, and telling what has the wrong type.
//!
//! Runs on every write, so it walks the object once and allocates next to nothing while nothing is wrong.

use std::fmt::{self, Write};

use serde_json::{Map, Number, Value};

use super::{Field, Format, Node};
use crate::{
    object::Object,
    quantity::{Quantity, QuantityError},
    time,
};

/// Most findings kept of one object; more would only fill the answer.
const MOST: usize = 100;

/// What was found in an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The fields that its kind does not have, such as `spec.containers[0].bar`. They have been dropped.
    pub unknown: Vec<String>,
    /// What has the wrong type, in the words of Go's decoder, the first in the object first. An object with
    /// such faults must be refused.
    pub faults: Vec<String>,
}

/// Drops `null`s and unknown fields and tells about the latter and about wrong types.
///
/// Where Kubernetes would decode `null` into an entry of a list or map, the entry gets its type's zero value.
/// Whole floats become integers where integers are wanted.
pub fn check(node: &Node, object: &mut Object) -> Report {
    walk(node, object, Walk { report: Report::default(), keeps_nulls: false })
}

/// As [`check`], but keeps `null`s: whoever applies one owns the field, and that it has no value.
pub fn check_applied(node: &Node, object: &mut Object) -> Report {
    walk(node, object, Walk { report: Report::default(), keeps_nulls: true })
}

fn walk(node: &Node, object: &mut Object, mut walk: Walk) -> Report {
    let place = Place { up: None, step: Step::Root, owner: name_of(node) };
    match node.resolve() {
        Node::Object(fields) => walk.fields(fields, object, &place),
        Node::Map(items) => walk.entries(items, object, &place),
        _ => {}
    }
    walk.report
}

/// Replaces a text by its canonical form, if it is not that already.
fn rewrite(text: &mut String, canonical: impl fmt::Display) {
    let canonical = canonical.to_string();
    if *text != canonical {
        *text = canonical;
    }
}

/// Where the walk stands; written out only when there is something to tell.
struct Place<'a> {
    up: Option<&'a Place<'a>>,
    step: Step<'a>,
    /// The type whose field was entered last.
    owner: &'a str,
}

enum Step<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    fn below(&'a self, step: Step<'a>, owner: &'a str) -> Place<'a> {
        Place { up: Some(self), step, owner }
    }

    /// As the unknown fields are told: with indices and keys.
    fn full(&self, out: &mut String) {
        if let Some(up) = self.up {
            up.full(out);
        }
        match self.step {
            Step::Root => {}
            Step::Index(index) => write!(out, "[{index}]").expect("writing to memory cannot fail"),
            Step::Field(name) | Step::Key(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
        }
    }

    /// As Go's decoder tells it: fields only.
    fn fields(&self, out: &mut String) {
        if let Some(up) = self.up {
            up.fields(out);
        }
        if let Step::Field(name) = self.step {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(name);
        }
    }
}

struct Walk {
    report: Report,
    keeps_nulls: bool,
}

impl Walk {
    fn fields(&mut self, fields: &[Field], object: &mut Object, place: &Place<'_>) {
        object.retain(|key, value| {
            let Ok(index) = fields.binary_search_by(|field| (*field.name).cmp(key)) else {
                self.unknown(key, place);
                return false;
            };
            if value.is_null() {
                return self.keeps_nulls;
            }
            let field = &fields[index];
            self.value(&field.node, value, &place.below(Step::Field(&field.name), place.owner));
            true
        });
    }

    fn entries(&mut self, items: &Node, object: &mut Object, place: &Place<'_>) {
        if matches!(items, Node::Any) {
            return;
        }
        for (key, value) in object.iter_mut() {
            self.entry(items, value, &place.below(Step::Key(key), place.owner));
        }
    }

    fn entry(&mut self, node: &Node, value: &mut Value, place: &Place<'_>) {
        match value.is_null() {
            true if self.keeps_nulls => {}
            true => *value = zero(node),
            false => self.value(node, value, place),
        }
    }

    fn value(&mut self, node: &Node, value: &mut Value, place: &Place<'_>) {
        match (node, &mut *value) {
            (Node::Any, _) | (Node::Bool, Value::Bool(_)) | (Node::Number, Value::Number(_)) => {}
            (Node::String(Format::Plain), Value::String(_)) => {}
            (Node::Named(definition), _) => {
                let inner = Place { owner: last(definition.name()), up: place.up, step: place.step.again() };
                match (node.resolve(), &mut *value) {
                    (Node::Object(fields), Value::Object(object)) => self.fields(fields, object, &inner),
                    (Node::Object(_), other) => self.mismatch(kind(other), node, place),
                    (resolved, _) => self.value(resolved, value, &inner),
                }
            }
            (Node::Object(fields), Value::Object(object)) => self.fields(fields, object, place),
            (Node::Map(items), Value::Object(object)) => self.entries(items, object, place),
            (Node::List(items), Value::Array(list)) => {
                if !matches!(**items, Node::Any) {
                    for (index, value) in list.iter_mut().enumerate() {
                        self.entry(items, value, &place.below(Step::Index(index), place.owner));
                    }
                }
            }
            (Node::Integer { narrow }, Value::Number(number)) => match integer(number, *narrow) {
                Whole::AsIs => {}
                Whole::Is(whole) => *value = whole.into(),
                Whole::Not => self.mismatch(format_args!("number {number}"), node, place),
            },
            (Node::IntOrString, Value::String(_)) => {}
            (Node::IntOrString, Value::Number(number)) => match integer(number, true) {
                Whole::AsIs => {}
                Whole::Is(whole) => *value = whole.into(),
                Whole::Not => self.fault(|out| {
                    let _ = write!(out, "json: cannot unmarshal number {number} into Go value of type int32");
                }),
            },
            (Node::String(format), Value::String(text)) => self.text(*format, text),
            (Node::String(Format::Quantity), Value::Number(_)) => match Quantity::from_value(value) {
                Ok(quantity) => *value = quantity.to_string().into(),
                Err(error) => self.fault(|out| {
                    let _ = write!(out, "{error}");
                }),
            },
            (Node::String(Format::Quantity), _) => self.fault(|out| {
                let _ = write!(out, "{}", QuantityError::Format);
            }),
            (Node::String(Format::Time | Format::MicroTime) | Node::IntOrString, other) => {
                let wanted = if matches!(node, Node::IntOrString) { "int32" } else { "string" };
                let found = kind(other);
                self.fault(|out| {
                    let _ = write!(out, "json: cannot unmarshal {found} into Go value of type {wanted}");
                });
            }
            (_, other) => self.mismatch(kind(other), node, place),
        }
    }

    fn text(&mut self, format: Format, text: &mut String) {
        match format {
            Format::Plain => {}
            Format::Bytes => {
                if let Err(at) = base64(text.as_bytes()) {
                    self.fault(|out| {
                        let _ = write!(out, "illegal base64 data at input byte {at}");
                    });
                }
            }
            // Quantities and times have one way to be written, as they would after passing through Go's types.
            Format::Quantity => match Quantity::parse(text.trim()) {
                Ok(quantity) => rewrite(text, quantity),
                Err(error) => self.fault(|out| {
                    let _ = write!(out, "{error}");
                }),
            },
            Format::Time | Format::MicroTime => match time::parse(text) {
                Some(time) if format == Format::Time => rewrite(text, time::rfc3339(time)),
                Some(time) => rewrite(text, time::rfc3339_micro(time)),
                None => {
                    let layout = match format {
                        Format::Time => "2006-01-02T15:04:05Z07:00",
                        _ => "2006-01-02T15:04:05.000000Z07:00",
                    };
                    self.fault(|out| {
                        let _ = write!(
                            out,
                            "parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""
                        );
                    });
                }
            },
        }
    }

    fn unknown(&mut self, key: &str, place: &Place<'_>) {
        if self.report.unknown.len() < MOST {
            let mut path = String::new();
            place.below(Step::Field(key), "").full(&mut path);
            self.report.unknown.push(path);
        }
    }

    fn fault(&mut self, tell: impl FnOnce(&mut String)) {
        if self.report.faults.len() < MOST {
            let mut text = String::new();
            tell(&mut text);
            self.report.faults.push(text);
        }
    }

    fn mismatch(&mut self, found: impl fmt::Display, node: &Node, place: &Place<'_>) {
        self.fault(|out| {
            let mut path = String::new();
            place.fields(&mut path);
            let owner = if place.owner.is_empty() { "Object" } else { place.owner };
            let _ =
                write!(out, "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type ");
            go_type(node, out);
        });
    }
}

impl<'a> Step<'a> {
    fn again(&self) -> Step<'a> {
        match *self {
            Step::Root => Step::Root,
            Step::Field(name) => Step::Field(name),
            Step::Key(key) => Step::Key(key),
            Step::Index(index) => Step::Index(index),
        }
    }
}

/// What Go calls the type of a JSON value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// What Go calls the type of a node.
fn go_type(node: &Node, out: &mut String) {
    match node {
        Node::Any => out.push_str("interface {}"),
        Node::Bool => out.push_str("bool"),
        Node::Integer { narrow: true } => out.push_str("int32"),
        Node::Integer { narrow: false } => out.push_str("int64"),
        Node::Number => out.push_str("float64"),
        Node::String(Format::Bytes) => out.push_str("[]uint8"),
        Node::String(Format::Quantity) => out.push_str("resource.Quantity"),
        Node::String(Format::Time) => out.push_str("v1.Time"),
        Node::String(Format::MicroTime) => out.push_str("v1.MicroTime"),
        Node::String(Format::Plain) => out.push_str("string"),
        Node::IntOrString => out.push_str("intstr.IntOrString"),
        Node::Object(_) => out.push_str("struct"),
        Node::Map(items) => {
            out.push_str("map[string]");
            go_type(items, out);
        }
        Node::List(items) => {
            out.push_str("[]");
            go_type(items, out);
        }
        Node::Named(definition) => {
            let name = definition.name();
            let start = name.rmatch_indices('.').nth(1).map_or(0, |(dot, _)| dot + 1);
            out.push_str(&name[start..]);
        }
    }
}

fn name_of(node: &Node) -> &str {
    match node {
        Node::Named(definition) => last(definition.name()),
        _ => "",
    }
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// What Go would leave where it decodes `null` into an entry of a list or map.
pub(super) fn zero(node: &Node) -> Value {
    match node.resolve() {
        Node::Any | Node::List(_) => Value::Null,
        Node::String(Format::Time | Format::MicroTime) => Value::Null,
        Node::Bool => Value::Bool(false),
        Node::Integer { .. } | Node::Number | Node::IntOrString => 0.into(),
        Node::String(Format::Quantity) => "0".into(),
        Node::String(_) => "".into(),
        Node::Object(_) | Node::Map(_) | Node::Named(_) => Value::Object(Map::new()),
    }
}

enum Whole {
    AsIs,
    Is(i64),
    Not,
}

/// Whether a number is an integer of the right size, or stands for one.
fn integer(number: &Number, narrow: bool) -> Whole {
    let fits = |whole: i64| !narrow || i32::try_from(whole).is_ok();
    if let Some(whole) = number.as_i64() {
        return if fits(whole) { Whole::AsIs } else { Whole::Not };
    }
    /// Beyond this, floats do not tell neighbouring integers apart.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => {
            let whole = float as i64;
            if fits(whole) { Whole::Is(whole) } else { Whole::Not }
        }
        _ => Whole::Not,
    }
}

/// Whether Go's standard decoder takes it: padded, line ends ignored. Else, the byte it stumbles over.
fn base64(text: &[u8]) -> Result<(), usize> {
    let (mut seen, mut padding) = (0usize, 0usize);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => seen += 1,
            b'=' if padding < 2 && seen % 4 >= 2 && seen % 4 + padding < 4 => padding += 1,
            b'\r' | b'\n' => {}
            _ => return Err(at),
        }
    }
    if (seen + padding).is_multiple_of(4) { Ok(()) } else { Err(text.len()) }
}

#[cfg(test)]
mod tests;
