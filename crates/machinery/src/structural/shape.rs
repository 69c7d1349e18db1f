//! Reading a compiled schema.

use std::{borrow::Cow, fmt};

use serde_json::Value;

use super::{
    Format,
    compact::{Check, Id, Node, Tables},
};

/// Which type a place has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing is said about it.
    Any,
    /// A map.
    Object,
    /// A list.
    Array,
    /// A string.
    String,
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// A boolean.
    Boolean,
    /// An integer or a string.
    IntOrString,
}

/// How the entries of a list are told from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListType {
    /// Nothing is said, which means the same as `Atomic`.
    Unset,
    /// They are not: the list is one value.
    Atomic,
    /// By their values.
    Set,
    /// By some of their fields.
    Map,
}

/// One place of a schema.
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    pub(super) tables: &'a Tables,
    pub(super) id: Id,
}

/// One of `x-kubernetes-validations`. What is not set is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    /// The expression.
    pub rule: &'a str,
    /// What is said when it does not hold.
    pub message: &'a str,
    /// The expression that makes what is said.
    pub message_expression: &'a str,
    /// The reason of the cause.
    pub reason: &'a str,
    /// The field that is to blame, seen from the place of the rule.
    pub field_path: &'a str,
    /// Whether the rule is also evaluated when there is no old value.
    pub optional_old_self: Option<bool>,
}

impl<'a> Shape<'a> {
    /// A number that is the same for equal places of one schema, so that what is made from them can be shared.
    pub fn id(self) -> u32 {
        self.id.0
    }

    pub(super) fn node(self) -> &'a Node {
        &self.tables.nodes[self.id.0 as usize]
    }

    pub(super) fn checks(self) -> &'a [Check] {
        self.node().checks.of(&self.tables.checks)
    }

    pub(super) fn at(self, id: Id) -> Shape<'a> {
        Shape { id, ..self }
    }

    /// The type.
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// The format, if it is one that means something here.
    pub fn format(self) -> Option<Format> {
        self.node().format
    }

    /// Whether `null` is allowed.
    pub fn is_nullable(self) -> bool {
        self.node().nullable
    }

    /// Whether fields that are not specified are kept.
    pub fn preserves_unknown(self) -> bool {
        self.node().preserve
    }

    /// Whether this is a resource inside of the resource.
    pub fn is_embedded(self) -> bool {
        self.node().embedded
    }

    /// Whether the map has one owner.
    pub fn is_atomic(self) -> bool {
        self.node().atomic
    }

    /// Whether keys beyond the fields may have any value.
    pub fn is_open(self) -> bool {
        self.node().open
    }

    /// How the entries of the list are told from each other.
    pub fn list_type(self) -> ListType {
        self.node().list
    }

    /// The fields that entries of the list are told by.
    pub fn list_keys(self) -> impl Iterator<Item = &'a str> + use<'a> {
        let keys = self.checks().iter().find_map(|check| match check {
            Check::Keys(keys) => Some(keys.of(&self.tables.texts)),
            _ => None,
        });
        keys.unwrap_or_default().iter().map(move |key| key.text(&self.tables.chars))
    }

    /// The specified fields, in the order of their names.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, Shape<'a>)> + use<'a> {
        let fields = self.node().fields.of(&self.tables.fields);
        fields.iter().map(move |field| (field.name.text(&self.tables.chars), self.at(field.node)))
    }

    /// The field of this name.
    pub fn field(self, name: &str) -> Option<Shape<'a>> {
        let fields = self.node().fields.of(&self.tables.fields);
        let found = fields.binary_search_by(|field| field.name.text(&self.tables.chars).cmp(name)).ok()?;
        Some(self.at(fields[found].node))
    }

    /// What is under the keys of a map that are no fields.
    pub fn values(self) -> Option<Shape<'a>> {
        self.node().values.map(|id| self.at(id))
    }

    /// What is under this key, be it a field or not.
    pub fn child(self, key: &str) -> Option<Shape<'a>> {
        self.field(key).or_else(|| self.values())
    }

    /// The entries of the list.
    pub fn items(self) -> Option<Shape<'a>> {
        self.node().items.map(|id| self.at(id))
    }

    /// The default.
    pub fn default(self) -> Option<&'a Value> {
        self.checks().iter().find_map(|check| match check {
            Check::Default(row) => self.tables.values.get(*row as usize),
            _ => None,
        })
    }

    /// The names of the fields that must be set.
    pub fn required(self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.checks().iter().filter_map(move |check| match check {
            Check::Required(name) => Some(name.text(&self.tables.chars)),
            _ => None,
        })
    }

    /// The values that are allowed; empty if all are.
    pub fn options(self) -> Vec<Cow<'a, Value>> {
        let found = self.checks().iter().find_map(|check| match check {
            Check::Texts(texts) => {
                let text = |text: &super::compact::Span| Value::from(text.text(&self.tables.chars));
                Some(texts.of(&self.tables.texts).iter().map(|it| Cow::Owned(text(it))).collect())
            }
            Check::Values(values) => Some(values.of(&self.tables.values).iter().map(Cow::Borrowed).collect()),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// Most characters of the string.
    pub fn max_length(self) -> Option<i64> {
        self.limit(|check| if let Check::MaxLength(most) = check { Some(most) } else { None })
    }

    /// Most entries of the list.
    pub fn max_items(self) -> Option<i64> {
        self.limit(|check| if let Check::MaxItems(most) = check { Some(most) } else { None })
    }

    /// Most keys of the map.
    pub fn max_properties(self) -> Option<i64> {
        self.limit(|check| if let Check::MaxProperties(most) = check { Some(most) } else { None })
    }

    fn limit(self, of: impl Fn(Check) -> Option<i64>) -> Option<i64> {
        self.checks().iter().find_map(|check| of(*check))
    }

    /// The rules in CEL, in the order they were written.
    pub fn rules(self) -> impl Iterator<Item = Rule<'a>> + use<'a> {
        let rows = self.checks().iter().find_map(|check| match check {
            Check::Rules(rules) => Some(rules.of(&self.tables.rules)),
            _ => None,
        });
        let chars = &*self.tables.chars;
        rows.unwrap_or_default().iter().map(move |row| Rule {
            rule: row.rule.text(chars),
            message: row.message.text(chars),
            message_expression: row.message_expression.text(chars),
            reason: row.reason.text(chars),
            field_path: row.field_path.text(chars),
            optional_old_self: row.optional_old_self,
        })
    }
}

/// Only what it is: what is below may be large.
impl fmt::Debug for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} #{}", self.kind(), self.id.0)
    }
}

/// Follows a path of field names with dots before them, and of map keys as in `['a.b']` where those are allowed, to
/// the place that it leads to. The names are returned too.
pub fn field_path<'a>(
    shape: Shape<'a>,
    path: &str,
    keys_allowed: bool,
) -> Result<(Vec<String>, Shape<'a>), String> {
    let (mut names, mut place, mut rest) = (vec![], shape, path);
    while !rest.is_empty() {
        let (name, after) = path_step(rest, keys_allowed)?;
        place = match place.node().fields == super::compact::Span::default() {
            false => place.field(&name),
            true => place.values(),
        }
        .ok_or("does not refer to a valid field")?;
        names.push(name);
        rest = after;
    }
    Ok((names, place))
}

/// The first step of a path, and what comes after it.
fn path_step(rest: &str, keys_allowed: bool) -> Result<(String, &str), String> {
    if let Some(rest) = rest.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        return match end {
            0 => Err("unexpected end of JSON path".to_owned()),
            _ => Ok((rest[..end].to_owned(), &rest[end..])),
        };
    }
    let Some(inside) = rest.strip_prefix('[') else {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
        return Err(format!("expected [ or . but got: {}", rest.get(..end).unwrap_or(rest)));
    };
    if !keys_allowed {
        return Err("array notation is not allowed".to_owned());
    }
    let wrong = || format!("expected single quoted string but got {inside}");
    let mut chars = inside.strip_prefix('\'').ok_or_else(wrong)?.char_indices();
    let mut name = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => {
                let after = inside[1..][at + 1..].strip_prefix(']').ok_or("unexpected end of JSON path")?;
                return Ok((name, after));
            }
            '\\' => name.push(match chars.next() {
                Some((_, 'a')) => '\x07',
                Some((_, 'b')) => '\x08',
                Some((_, 'f')) => '\x0c',
                Some((_, 'n')) => '\n',
                Some((_, 'r')) => '\r',
                Some((_, 't')) => '\t',
                Some((_, 'v')) => '\x0b',
                Some((_, c @ ('\'' | '\\'))) => c,
                other => {
                    let shown = other.map(|(_, c)| c.to_string()).unwrap_or_default();
                    return Err(format!("invalid string literal: invalid escape char \\{shown}"));
                }
            }),
            c => name.push(c),
        }
    }
    Err(wrong())
}
