//! Holding a configuration against the schema by which it is merged, in the words that clients of apply know.
//!
//! Only what merging has to know is looked at: which fields there are, what is a map, a list, a number or a text, and
//! whether the entries of a list can be told apart. Whether the outcome is a valid object is for others to say. The
//! values are shown as Go shows them, because that is what clients and their tests look for.

use std::collections::HashSet;

use serde_json::{Number, Value};

use crate::{
    managed::{
        fields::{keyed_fault, set_fault},
        place::{key_step, value_step},
        set::show_step,
    },
    object::Object,
    schema::{Field, Format, Node, Ownership},
};

/// Most faults that are told of one configuration; more would only fill the answer.
const MAX_FAULTS: usize = 100;

/// Most bytes of a value that are shown.
const MAX_SHOWN: usize = 1 << 10;

/// What is wrong with a configuration: where, and what, as in `.spec.replicas: expected numeric (int or float), got
/// string`.
pub fn faults(config: &Object, schema: &Node) -> Vec<String> {
    let mut walk = Walk { path: String::new(), faults: vec![] };
    match schema.resolve() {
        Node::Object(fields) => walk.fields(fields, schema.is_open(), config),
        Node::Map(values) => walk.entries(values, config),
        _ => {}
    }
    walk.faults
}

struct Walk {
    path: String,
    faults: Vec<String>,
}

impl Walk {
    /// Tells a fault, and that there was one.
    fn tell(&mut self, why: impl std::fmt::Display) {
        if self.faults.len() < MAX_FAULTS {
            let colon = if self.path.is_empty() { "" } else { ": " };
            self.faults.push(format!("{}{colon}{why}", self.path));
        }
    }

    /// Looks at what is one step further.
    fn under(&mut self, step: &str, look: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        look(self);
        self.path.truncate(length);
    }

    /// Looks at what is in a field.
    fn below(&mut self, name: &str, look: impl FnOnce(&mut Self)) {
        self.under(".", |walk| walk.under(name, look));
    }

    fn fields(&mut self, fields: &[Field], is_open: bool, map: &Object) {
        for (name, value) in map {
            let known = fields.binary_search_by(|field| (*field.name).cmp(name));
            match known.map(|place| &fields[place]) {
                Ok(field) => {
                    self.below(name, |walk| walk.value(&field.node, &field.merge.ownership, value));
                }
                Err(_) if is_open => {}
                // What else is in the map is not looked at then.
                Err(_) => return self.below(name, |walk| walk.tell("field not declared in schema")),
            }
        }
    }

    fn entries(&mut self, values: &Node, map: &Object) {
        for (key, value) in map {
            self.below(key, |walk| walk.value(values, &Ownership::Plain, value));
        }
    }

    fn value(&mut self, node: &Node, ownership: &Ownership, value: &Value) {
        if value.is_null() {
            return;
        }
        match (node.resolve(), value) {
            // What may be a number or a text is taken for whatever it is.
            (Node::Any | Node::Named(_) | Node::IntOrString, _) => {}
            (Node::Object(fields), Value::Object(map)) => self.fields(fields, node.is_open(), map),
            (Node::Map(values), Value::Object(map)) => self.entries(values, map),
            (Node::Object(_) | Node::Map(_), _) => {
                self.tell(format_args!("expected map, got {}", Boxed(value)))
            }
            (Node::List(items), Value::Array(list)) => self.list(items, ownership, list),
            (Node::List(_), _) => self.tell(format_args!("expected list, got {}", Boxed(value))),
            (Node::Bool, Value::Bool(_)) => {}
            (Node::Bool, _) => self.tell(format_args!("expected boolean, got {}", Boxed(value))),
            (Node::Integer { .. } | Node::Number, Value::Number(_)) => {}
            (Node::Integer { .. } | Node::Number, _) => {
                self.tell(format_args!("expected numeric (int or float), got {}", go_type(value)));
            }
            (Node::String(Format::Plain | Format::Bytes), Value::String(_)) => {}
            (Node::String(Format::Plain | Format::Bytes), _) => self.tell(format_args!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                shown(value, Style::Literal)
            )),
            (Node::String(_), Value::Object(_) | Value::Array(_)) => {
                self.tell(format_args!("expected any scalar, got {}", Boxed(value)));
            }
            (Node::String(_), _) => {}
        }
    }

    fn list(&mut self, items: &Node, ownership: &Ownership, list: &[Value]) {
        let mut seen = HashSet::new();
        for (place, entry) in list.iter().enumerate() {
            let (fault, step) = match ownership {
                Ownership::Set => (set_fault(entry), value_step(entry)),
                Ownership::Keyed(keys) => (keyed_fault(entry, keys), key_step(entry, keys, place)),
                Ownership::Plain | Ownership::Granular | Ownership::Atomic => (None, format!("i:{place}")),
            };
            if let Some(fault) = fault {
                // Without a name for it, nothing below can be told either.
                return self.tell(format_args!("element {place}: {fault}"));
            }
            let mut shown = String::new();
            show_step(&step, &mut shown);
            if !seen.insert(step) {
                self.tell(format_args!("duplicate entries for key {shown}"));
            }
            self.under(&shown, |walk| walk.value(items, &Ownership::Plain, entry));
        }
    }
}

/// What Go calls the type of a value that it knows nothing about.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go prints a pointer to a struct that holds it.
struct Boxed<'a>(&'a Value);

impl std::fmt::Display for Boxed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "&{{{}}}", shown(self.0, Style::Plain))
    }
}

/// How Go prints values: `%v` or `%#v`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Literal,
}

/// A value as Go prints it, or its beginning.
fn shown(value: &Value, style: Style) -> String {
    let mut out = String::new();
    print(value, style, &mut out);
    if let Some((end, _)) = out.char_indices().nth(MAX_SHOWN) {
        out.truncate(end);
        out.push_str("...");
    }
    out
}

fn print(value: &Value, style: Style, out: &mut String) {
    if out.len() > 4 * MAX_SHOWN {
        return;
    }
    let is_literal = style == Style::Literal;
    match value {
        Value::Null if is_literal => out.push_str("interface {}(nil)"),
        Value::Null => out.push_str("<nil>"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&go_number(number)),
        Value::String(text) if is_literal => out.push_str(&format!("{text:?}")),
        Value::String(text) => out.push_str(text),
        Value::Array(list) => {
            let (open, between, close) =
                if is_literal { ("[]interface {}{", ", ", "}") } else { ("[", " ", "]") };
            out.push_str(open);
            for (place, entry) in list.iter().enumerate() {
                if place > 0 {
                    out.push_str(between);
                }
                print(entry, style, out);
            }
            out.push_str(close);
        }
        Value::Object(map) => {
            let (open, between, close) =
                if is_literal { ("map[string]interface {}{", ", ", "}") } else { ("map[", " ", "]") };
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push_str(open);
            for (place, key) in keys.into_iter().enumerate() {
                if place > 0 {
                    out.push_str(between);
                }
                match is_literal {
                    true => out.push_str(&format!("{key:?}:")),
                    false => out.push_str(&format!("{key}:")),
                }
                print(&map[key], style, out);
            }
            out.push_str(close);
        }
    }
}

/// A number as Go prints it: a float has an exponent from a million on, and below a ten-thousandth.
fn go_number(number: &Number) -> String {
    if !number.is_f64() {
        return number.to_string();
    }
    let float = number.as_f64().unwrap_or_default();
    // Both give the fewest digits that tell the number from its neighbours.
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>().unwrap_or_default() {
        -4..6 => float.to_string(),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}

#[cfg(test)]
mod tests;
