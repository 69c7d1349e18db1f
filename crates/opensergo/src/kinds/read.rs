//! Reading objects that nobody has looked at before: whatever is in them, what is wrong is said with its path.
//!
//! A [`Node`] is a place in an object, whether there is anything or not. Asked for a value that is not there, it makes a
//! note of that and answers with something harmless, so that one look finds all that is wrong. Start at [`Subject::new`].

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::{self, Display},
    ops::RangeInclusive,
};

use kube::api::DynamicObject;
use serde_json::Value;

/// More would not be read: whoever has so many begins with the first ones.
const MOST_FINDINGS: usize = 10;

/// How long what is said of one of them may be: it goes into the status of the object, together with the others.
const LONGEST_FINDING: usize = 200;

/// How much of a wrong value, or of a name in a path, is shown.
const SHOWN: usize = 60;

/// The most bytes of a message. SDKs take 4 MiB at once for all rules of an app, so that one of them must leave room for
/// the others.
const MOST_BYTES: usize = 1024 * 1024;

/// The longest namespace. It becomes a part of the name of each service, so that a long one would be written many times.
const LONGEST_NAMESPACE: usize = 253;

/// Where objects are that do not say where.
const DEFAULT_NAMESPACE: &str = "default";

/// What was found while an object was read.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Why there can be no message.
    pub(crate) problems: Vec<String>,
    /// What has no effect.
    pub(crate) warnings: Vec<String>,
}

/// Makes a note, unless there are enough. Then the text is not even made: it may be that of a large value.
pub(super) fn note(notes: &mut Vec<String>, text: fmt::Arguments<'_>) {
    if notes.len() >= MOST_FINDINGS {
        return;
    }
    let text = Brief(&text.to_string(), LONGEST_FINDING).to_string();
    if !notes.contains(&text) {
        notes.push(text);
    }
}

/// An object that is read.
pub(crate) struct Subject<'a> {
    object: &'a DynamicObject,
    findings: RefCell<Findings>,
}

impl<'a> Subject<'a> {
    /// Begins to read.
    pub(crate) fn new(object: &'a DynamicObject) -> Self {
        Subject { object, findings: RefCell::default() }
    }

    /// Its name.
    pub(crate) fn name(&self) -> String {
        let name = self.object.metadata.name.clone().unwrap_or_default();
        if name.is_empty() {
            self.refuse(format_args!("metadata.name: expected a name"));
        }
        name
    }

    /// Its namespace.
    pub(crate) fn namespace(&self) -> &'a str {
        let given = self.object.metadata.namespace.as_deref().filter(|name| !name.is_empty());
        if given.is_some_and(|name| name.len() > LONGEST_NAMESPACE) {
            let most = LONGEST_NAMESPACE;
            self.refuse(format_args!("metadata.namespace: expected a name of at most {most} letters"));
            return DEFAULT_NAMESPACE;
        }
        given.unwrap_or(DEFAULT_NAMESPACE)
    }

    /// The app that it is for.
    pub(crate) fn app(&self) -> Option<&'a str> {
        self.object.metadata.labels.as_ref()?.get("app").map(String::as_str).filter(|app| !app.is_empty())
    }

    /// What it says.
    pub(crate) fn spec(&self) -> Node<'_> {
        let spec = Node {
            path: "spec".to_owned(),
            value: self.object.data.get("spec").filter(|spec| !spec.is_null()),
            findings: &self.findings,
        };
        if !spec.value.is_some_and(Value::is_object) {
            spec.refuse("an object");
        }
        spec
    }

    /// Whether a message of so many bytes may be sent; makes a note if not.
    pub(crate) fn may_have(&self, n_bytes: usize) -> bool {
        if n_bytes > MOST_BYTES {
            self.refuse(format_args!(
                "expected a message of at most {MOST_BYTES} bytes, found at least {n_bytes}"
            ));
        }
        n_bytes <= MOST_BYTES
    }

    fn refuse(&self, text: fmt::Arguments<'_>) {
        note(&mut self.findings.borrow_mut().problems, text);
    }

    /// Ends reading.
    pub(crate) fn end(self) -> Findings {
        self.findings.into_inner()
    }
}

/// A place in an object.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    path: String,
    value: Option<&'a Value>,
    findings: &'a RefCell<Findings>,
}

impl<'a> Node<'a> {
    /// Whether there is anything.
    pub(crate) fn is_there(&self) -> bool {
        self.value.is_some()
    }

    /// A place below it.
    pub(crate) fn field(&self, name: &str) -> Node<'a> {
        self.check("an object", Value::is_object);
        self.below(format!("{}.{name}", self.path), self.value.and_then(|value| value.get(name)))
    }

    /// The places in a list; none without one.
    pub(crate) fn items(&self) -> Vec<Node<'a>> {
        self.check("a list", Value::is_array);
        let values = self.value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let item = |(idx, value)| self.below(format!("{}[{idx}]", self.path), Some(value));
        values.iter().enumerate().map(item).collect()
    }

    /// How many places there are in a list, whatever is in them.
    pub(crate) fn n_items(&self) -> usize {
        self.value.and_then(Value::as_array).map_or(0, Vec::len)
    }

    /// The places in a list of objects; none without one.
    pub(crate) fn objects(&self) -> Vec<Node<'a>> {
        let items = self.items();
        for item in items.iter().filter(|item| !item.value.is_some_and(Value::is_object)) {
            item.refuse("an object");
        }
        items
    }

    /// The places in a map, by name; none without one.
    pub(crate) fn entries(&self) -> BTreeMap<&'a str, Node<'a>> {
        self.check("an object", Value::is_object);
        let fields = self.value.and_then(Value::as_object).into_iter().flatten();
        let entry = |(name, value): (&'a String, _)| {
            (name.as_str(), self.below(format!("{}[{}]", self.path, shown(name)), Some(value)))
        };
        fields.map(entry).collect()
    }

    /// A text that has to be there.
    pub(crate) fn text(&self) -> &'a str {
        let text = self.optional_text().unwrap_or_default();
        if text.is_empty() {
            self.refuse("a text");
        }
        text
    }

    /// A text, if there is one.
    pub(crate) fn optional_text(&self) -> Option<&'a str> {
        self.check("a text", Value::is_string);
        self.value.and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// The texts in a list.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.items().iter().map(|item| item.text().to_owned()).collect()
    }

    /// Whether it says yes.
    pub(crate) fn flag(&self) -> Option<bool> {
        self.check("true or false", Value::is_boolean);
        self.value.and_then(Value::as_bool)
    }

    /// A whole number that has to be there.
    pub(crate) fn whole<N: TryFrom<i64> + Default>(&self, range: RangeInclusive<i64>) -> N {
        let found = self.value.and_then(whole).filter(|number| range.contains(number));
        found.and_then(|number| N::try_from(number).ok()).unwrap_or_else(|| {
            self.refuse(format_args!("a whole number from {} to {}", range.start(), range.end()));
            N::default()
        })
    }

    /// A whole number, if there is one.
    pub(crate) fn optional_whole<N: TryFrom<i64> + Default>(&self, range: RangeInclusive<i64>) -> Option<N> {
        self.is_there().then(|| self.whole(range))
    }

    /// Any number, if there is one.
    pub(crate) fn optional_number(&self) -> Option<f64> {
        self.check("a number", Value::is_number);
        self.value.and_then(Value::as_f64)
    }

    /// One of several words.
    pub(crate) fn choice<T: Copy + Default>(&self, choices: &[(&str, T)]) -> T {
        let word = self.value.and_then(Value::as_str);
        let chosen = choices.iter().find(|(name, _)| Some(*name) == word);
        chosen.map(|(_, meaning)| *meaning).unwrap_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.refuse(names.join(" or "));
            T::default()
        })
    }

    /// A text that is read further; what it should be is said where it cannot be.
    pub(crate) fn parsed<T: Default>(&self, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> T {
        let parsed = self.value.and_then(Value::as_str).and_then(parse);
        parsed.unwrap_or_else(|| {
            self.refuse(expected);
            T::default()
        })
    }

    /// Makes a note that something else was expected here.
    pub(crate) fn refuse(&self, expected: impl Display) {
        self.refuse_found(expected, Shown(self.value));
    }

    /// The same where something else is wrong with it than can be seen.
    pub(crate) fn refuse_found(&self, expected: impl Display, found: impl Display) {
        let problems = &mut self.findings.borrow_mut().problems;
        note(problems, format_args!("{}: expected {expected}, found {found}", self.path));
    }

    /// Makes a note that this asks for what nobody can be told. An empty list or map asks for nothing.
    pub(crate) fn refuse_if_there(&self, why: &str) {
        let is_empty = |value: &Value| match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if self.value.is_some_and(|value| !is_empty(value)) {
            note(&mut self.findings.borrow_mut().problems, format_args!("{}: {why}", self.path));
        }
    }

    /// Makes a note of something that stops nothing.
    pub(crate) fn warn(&self, text: impl Display) {
        note(&mut self.findings.borrow_mut().warnings, format_args!("{}: {text}", self.path));
    }

    fn below(&self, path: String, value: Option<&'a Value>) -> Node<'a> {
        Node { path, value: value.filter(|value| !value.is_null()), findings: self.findings }
    }

    /// Makes a note if there is something of another type.
    fn check(&self, expected: &str, is_right: fn(&Value) -> bool) {
        if self.value.is_some_and(|value| !is_right(value)) {
            self.refuse(expected);
        }
    }
}

/// A whole number, however it is written: 10.0 is one, as for an API server.
fn whole(value: &Value) -> Option<i64> {
    // Beyond this, numbers with a point are no longer exact.
    const MOST_EXACT: f64 = (1_u64 << 53) as f64;
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && number.abs() <= MOST_EXACT).then_some(number as i64)
    })
}

/// A value as it is shown to whoever wrote it.
struct Shown<'a>(Option<&'a Value>);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(value) = self.0 else { return f.write_str("nothing") };
        write!(f, "{}", shown(&value.to_string()))
    }
}

/// As much of a text as is shown of a value.
pub(super) fn shown(text: &str) -> Brief<'_> {
    Brief(text, SHOWN)
}

/// The beginning of a text: so many letters of it.
pub(super) struct Brief<'a>(&'a str, usize);

impl Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Brief(text, most) = *self;
        match text.char_indices().nth(most) {
            Some((end, _)) => write!(f, "{}…", &text[..end]),
            None => f.write_str(text),
        }
    }
}
