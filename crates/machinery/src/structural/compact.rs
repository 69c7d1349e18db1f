//! The compact form of a schema: a few flat tables, in which equal parts are stored once.
//!
//! Descriptions, titles and examples are gone. What most places do not have (limits, patterns, defaults, rules) is
//! in a table of [`Check`]s of which a place has a run. Big definitions repeat themselves, such as with the
//! containers of a pod, so that sharing makes most of them small.

use std::{collections::HashMap, hash::Hash};

use serde_json::Value;

use super::{Format, Kind, ListType};

/// A run of entries in one of the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    pub(super) fn of<T>(self, table: &[T]) -> &[T] {
        let start = self.start as usize;
        table.get(start..start + self.len as usize).unwrap_or_default()
    }

    pub(super) fn text(self, chars: &str) -> &str {
        let start = self.start as usize;
        chars.get(start..start + self.len as usize).unwrap_or_default()
    }
}

/// One place of a schema, by its row in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id(pub(super) u32);

/// What a schema says about one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) format: Option<Format>,
    pub(super) list: ListType,
    pub(super) nullable: bool,
    /// Unknown fields are kept.
    pub(super) preserve: bool,
    pub(super) embedded: bool,
    /// The map has one owner.
    pub(super) atomic: bool,
    /// Keys beyond the fields are allowed, with whatever values.
    pub(super) open: bool,
    /// In the order of their names.
    pub(super) fields: Span,
    /// What is under the keys beyond the fields.
    pub(super) values: Option<Id>,
    pub(super) items: Option<Id>,
    pub(super) checks: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Field {
    pub(super) name: Span,
    pub(super) node: Id,
}

/// A number by its bits, so that it can be told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Real(u64);

impl Real {
    pub(super) fn new(number: f64) -> Self {
        Real(number.to_bits())
    }

    pub(super) fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Something that only some places have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Check {
    Maximum {
        limit: Real,
        exclusive: bool,
    },
    Minimum {
        limit: Real,
        exclusive: bool,
    },
    MultipleOf(Real),
    MaxLength(i64),
    MinLength(i64),
    Pattern(Span),
    MaxItems(i64),
    MinItems(i64),
    MaxProperties(i64),
    MinProperties(i64),
    Required(Span),
    /// One of these strings; in `texts`.
    Texts(Span),
    /// One of these values; in `values`.
    Values(Span),
    /// In `ids`.
    AllOf(Span),
    AnyOf(Span),
    OneOf(Span),
    Not(Id),
    /// In `values`.
    Default(u32),
    /// What entries of the list are told by; in `texts`.
    Keys(Span),
    /// In `rules`.
    Rules(Span),
}

/// One of `x-kubernetes-validations`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RuleRow {
    pub(super) rule: Span,
    pub(super) message: Span,
    pub(super) message_expression: Span,
    pub(super) reason: Span,
    pub(super) field_path: Span,
    pub(super) optional_old_self: Option<bool>,
}

/// The tables of one schema.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) chars: Box<str>,
    pub(super) nodes: Box<[Node]>,
    pub(super) fields: Box<[Field]>,
    pub(super) checks: Box<[Check]>,
    pub(super) texts: Box<[Span]>,
    pub(super) ids: Box<[Id]>,
    pub(super) values: Box<[Value]>,
    pub(super) rules: Box<[RuleRow]>,
    pub(super) root: Id,
}

impl Tables {
    /// About how many bytes of memory the tables take.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>()
            + self.chars.len()
            + size_of_val(&*self.nodes)
            + size_of_val(&*self.fields)
            + size_of_val(&*self.checks)
            + size_of_val(&*self.texts)
            + size_of_val(&*self.ids)
            + size_of_val(&*self.rules)
            + self.values.iter().map(value_size).sum::<usize>()
    }
}

/// About how many bytes of memory a value takes.
pub(super) fn value_size(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(list) => list.iter().map(value_size).sum(),
            Value::Object(map) => map.iter().map(|(key, value)| key.len() + 24 + value_size(value)).sum(),
            _ => 0,
        }
}

/// A table that is being made, in which equal runs are stored once.
struct Runs<T> {
    all: Vec<T>,
    known: HashMap<Box<[T]>, Span>,
}

impl<T: Copy + Eq + Hash> Runs<T> {
    fn new() -> Self {
        Runs { all: vec![], known: HashMap::new() }
    }

    fn add(&mut self, run: &[T]) -> Span {
        if run.is_empty() {
            return Span::default();
        }
        if let Some(known) = self.known.get(run) {
            return *known;
        }
        let span = Span { start: row(self.all.len()), len: row(run.len()) };
        self.all.extend_from_slice(run);
        self.known.insert(run.into(), span);
        span
    }
}

/// Tables that are being made.
pub(super) struct Builder {
    chars: String,
    known_chars: HashMap<Box<str>, Span>,
    nodes: Vec<Node>,
    known_nodes: HashMap<Node, Id>,
    values: Vec<Value>,
    known_values: HashMap<String, u32>,
    fields: Runs<Field>,
    checks: Runs<Check>,
    texts: Runs<Span>,
    ids: Runs<Id>,
    rules: Runs<RuleRow>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Builder {
            chars: String::new(),
            known_chars: HashMap::new(),
            nodes: vec![],
            known_nodes: HashMap::new(),
            values: vec![],
            known_values: HashMap::new(),
            fields: Runs::new(),
            checks: Runs::new(),
            texts: Runs::new(),
            ids: Runs::new(),
            rules: Runs::new(),
        }
    }

    pub(super) fn text(&mut self, text: &str) -> Span {
        if text.is_empty() {
            return Span::default();
        }
        if let Some(known) = self.known_chars.get(text) {
            return *known;
        }
        let span = Span { start: row(self.chars.len()), len: row(text.len()) };
        self.chars.push_str(text);
        self.known_chars.insert(text.into(), span);
        span
    }

    pub(super) fn texts<'a>(&mut self, texts: impl Iterator<Item = &'a str>) -> Span {
        let spans: Vec<Span> = texts.map(|text| self.text(text)).collect();
        self.texts.add(&spans)
    }

    pub(super) fn value(&mut self, value: &Value) -> u32 {
        *self.known_values.entry(value.to_string()).or_insert_with(|| {
            self.values.push(value.clone());
            row(self.values.len() - 1)
        })
    }

    /// The values in a run of their own.
    pub(super) fn values(&mut self, values: &[Value]) -> Span {
        let span = Span { start: row(self.values.len()), len: row(values.len()) };
        self.values.extend_from_slice(values);
        span
    }

    pub(super) fn fields(&mut self, fields: &[Field]) -> Span {
        self.fields.add(fields)
    }

    pub(super) fn checks(&mut self, checks: &[Check]) -> Span {
        self.checks.add(checks)
    }

    pub(super) fn ids(&mut self, ids: &[Id]) -> Span {
        self.ids.add(ids)
    }

    pub(super) fn rules(&mut self, rules: &[RuleRow]) -> Span {
        self.rules.add(rules)
    }

    pub(super) fn node(&mut self, node: Node) -> Id {
        *self.known_nodes.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            Id(row(self.nodes.len() - 1))
        })
    }

    pub(super) fn finish(self, root: Id) -> Tables {
        Tables {
            chars: self.chars.into(),
            nodes: self.nodes.into(),
            fields: self.fields.all.into(),
            checks: self.checks.all.into(),
            texts: self.texts.all.into(),
            ids: self.ids.all.into(),
            values: self.values.into(),
            rules: self.rules.all.into(),
            root,
        }
    }
}

/// A row's number. Schemas come from bodies of a few megabytes, so that it always fits.
fn row(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
