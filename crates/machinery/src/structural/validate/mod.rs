//! Holding an object against a schema, in the words that Kubernetes clients know.
//!
//! The walk follows the schema, so that it is as deep as that at most. Alternatives are tried in silence; only the
//! one that fits best is then told about. All work is charged to a [`Budget`].

mod junctors;
mod lists;
mod numbers;

use serde_json::Value;

use super::{
    Format, Kind, Shape, clipped,
    compact::{Check, Id, Span},
    embedded, pattern,
    place::Place,
};
use crate::{
    field::{Errors, Fault, FieldError, at_most_bytes, at_most_items},
    object::Object,
};

/// Most faults that are told of one object.
const TOLD_MOST: usize = 100;
/// Most allowed values that are shown.
const OPTIONS_SHOWN_MOST: usize = 100;

/// How many steps may yet be taken.
pub(super) struct Budget {
    left: u64,
    is_spent: bool,
}

impl Budget {
    pub(super) fn new(steps: u64) -> Self {
        Budget { left: steps, is_spent: false }
    }

    /// Whether there were enough steps left.
    fn spend(&mut self, steps: u64) -> bool {
        match self.left.checked_sub(steps) {
            Some(left) if !self.is_spent => self.left = left,
            _ => self.is_spent = true,
        }
        !self.is_spent
    }
}

/// Holds a value that is no object of its own against a schema.
pub(super) fn value(shape: Shape<'_>, value: &Value, budget: &mut Budget, errors: &mut Errors) {
    let mut walk = Walk::new(budget);
    walk.value(shape, value, None, &Place::ROOT);
    walk.finish(errors);
}

/// A walk through an object.
pub(super) struct Walk<'b> {
    budget: &'b mut Budget,
    told: Vec<FieldError>,
    /// How many faults there are, told or not.
    n_faults: usize,
    /// How many things were as they should be: which alternative fits best.
    n_fits: usize,
    is_silent: bool,
    /// Whether the walk began at an object, whose own metadata is checked elsewhere.
    is_resource: bool,
}

impl<'b> Walk<'b> {
    pub(super) fn new(budget: &'b mut Budget) -> Self {
        Walk { budget, told: vec![], n_faults: 0, n_fits: 0, is_silent: false, is_resource: false }
    }

    /// Tells the faults.
    pub(super) fn finish(self, errors: &mut Errors) {
        for error in self.told {
            errors.push(error.fault, &error.field, error.shown, error.detail);
        }
    }

    /// Looks at a whole object.
    pub(super) fn object(&mut self, shape: Shape<'_>, object: &Object, old: Option<&Object>) {
        self.is_resource = true;
        if old == Some(object) {
            return;
        }
        self.subject(shape, Subject::Map(object), old.map(Subject::Map), &Place::ROOT);
        if self.budget.is_spent {
            self.fault(Fault::Invalid, &Place::ROOT, "\"\"", || {
                "validation was given up, because the object is too large for its schema".to_owned()
            });
        }
    }

    fn value(&mut self, shape: Shape<'_>, value: &Value, old: Option<&Value>, place: &Place<'_>) {
        self.subject(shape, Subject::of(value), old.map(Subject::of), place);
    }

    fn subject(
        &mut self,
        shape: Shape<'_>,
        subject: Subject<'_>,
        old: Option<Subject<'_>>,
        place: &Place<'_>,
    ) {
        if !self.budget.spend(1) {
            return;
        }
        let (n_told, n_faults) = (self.told.len(), self.n_faults);
        self.kind(shape, subject, place);
        self.checks(shape, subject, old, place);
        match subject {
            Subject::Map(map) => self.map(shape, map, old.and_then(Subject::map), place),
            Subject::Value(Value::Array(list)) => {
                self.list(shape, list, old.and_then(Subject::list), place);
            }
            Subject::Value(_) => {}
        }
        // What was there before is not held against whoever changes something else.
        if self.n_faults > n_faults && old == Some(subject) {
            self.forget(n_told, n_faults);
        }
    }

    fn forget(&mut self, n_told: usize, n_faults: usize) {
        self.told.truncate(n_told);
        self.n_faults = n_faults;
    }

    fn kind(&mut self, shape: Shape<'_>, subject: Subject<'_>, place: &Place<'_>) {
        let found = subject.kind();
        let wanted = match shape.kind() {
            Kind::Any => return,
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::IntOrString => "integer,string",
        };
        let fits = match subject {
            Subject::Value(Value::Null) => shape.is_nullable(),
            Subject::Value(Value::Number(number)) => match shape.kind() {
                Kind::Number => true,
                Kind::Integer | Kind::IntOrString => numbers::is_whole(number),
                _ => false,
            },
            Subject::Value(Value::String(_)) if shape.kind() == Kind::IntOrString => true,
            _ => found == wanted,
        };
        self.hold(fits, Fault::TypeInvalid, place, || {
            (format!("{found:?}"), said(place, format_args!("must be of type {wanted}: {found:?}")))
        });
    }

    fn format(&mut self, format: Format, text: &str, place: &Place<'_>) {
        if self.budget.spend(1 + text.len() as u64 / 16) {
            self.hold(format.fits(text), Fault::TypeInvalid, place, || {
                let text = clipped(text);
                (
                    format!("{text:?}"),
                    said(place, format_args!("must be of type {}: {text:?}", format.name())),
                )
            });
        }
    }

    /// Looks at the fields of a map and at what is below them.
    fn map(&mut self, shape: Shape<'_>, map: &Object, old: Option<&Object>, place: &Place<'_>) {
        if shape.is_embedded() && !(self.is_resource && place.is_root()) {
            self.embedded(map, place);
        }
        for (key, value) in map {
            if let Some(child) = shape.child(key) {
                self.value(child, value, old.and_then(|old| old.get(key)), &place.field(key));
            }
        }
    }

    fn embedded(&mut self, map: &Object, place: &Place<'_>) {
        let mut errors = Errors::new();
        embedded::check_meta(map, &mut errors);
        for error in errors.list() {
            let place = place.field(&error.field);
            self.hold(false, error.fault, &place, || (error.shown.clone(), error.detail.clone()));
        }
    }

    /// Looks at everything that only some places have.
    fn checks(
        &mut self,
        shape: Shape<'_>,
        subject: Subject<'_>,
        old: Option<Subject<'_>>,
        place: &Place<'_>,
    ) {
        if let Subject::Value(Value::String(text)) = subject
            && let Some(format) = shape.format()
        {
            self.format(format, text, place);
        }
        for check in shape.checks() {
            match (*check, subject) {
                (Check::Texts(texts), _) => self.texts(shape, texts, subject, place),
                (Check::Values(values), _) => self.options(shape, values, subject, place),
                // Nothing else is asked of `null`.
                (_, Subject::Value(Value::Null)) => {}
                (Check::Maximum { limit, exclusive }, Subject::Value(Value::Number(number))) => {
                    self.maximum(number, limit.get(), exclusive, place);
                }
                (Check::Minimum { limit, exclusive }, Subject::Value(Value::Number(number))) => {
                    self.minimum(number, limit.get(), exclusive, place);
                }
                (Check::MultipleOf(factor), Subject::Value(Value::Number(number))) => {
                    self.multiple(number, factor.get(), place);
                }
                (Check::MaxLength(most), Subject::Value(Value::String(text))) => {
                    self.hold(n_chars(text) <= most, Fault::TooLong, place, || {
                        (String::new(), at_most_bytes(most))
                    });
                }
                (Check::MinLength(least), Subject::Value(Value::String(text))) => {
                    self.hold(n_chars(text) >= least, Fault::Invalid, place, || {
                        let detail = said(place, format_args!("should be at least {least} chars long"));
                        (format!("{:?}", clipped(text)), detail)
                    });
                }
                (Check::Pattern(expression), Subject::Value(Value::String(text))) => {
                    self.pattern(expression.text(&shape.tables.chars), text, place);
                }
                (Check::MaxItems(most), Subject::Value(Value::Array(list))) => {
                    self.at_most(list.len(), most, place);
                }
                (Check::MinItems(least), Subject::Value(Value::Array(list))) => {
                    self.at_least(list.len(), least, "items", place);
                }
                (Check::MaxProperties(most), Subject::Map(map)) => self.at_most(map.len(), most, place),
                (Check::MinProperties(least), Subject::Map(map)) => {
                    self.at_least(map.len(), least, "properties", place);
                }
                (Check::Required(name), Subject::Map(map)) => {
                    let name = name.text(&shape.tables.chars);
                    self.budget.spend(1);
                    self.hold(map.contains_key(name), Fault::Required, &place.field(name), Default::default);
                }
                (Check::AllOf(all), _) => self.all_of(shape, all, subject, old, place),
                (Check::AnyOf(any), _) => self.any_of(shape, any, subject, place),
                (Check::OneOf(one), _) => self.one_of(shape, one, subject, place),
                (Check::Not(not), _) => self.not(shape, not, subject, place),
                _ => {}
            }
        }
    }

    fn pattern(&mut self, expression: &str, text: &str, place: &Place<'_>) {
        let kept = pattern::kept(expression);
        let is_new = kept.is_none();
        // Whatever does not compile was refused with the schema.
        let Some(pattern) = kept.or_else(|| pattern::compile(expression).ok()) else { return };
        if is_new {
            self.budget.spend(pattern.size() as u64 / 4);
        }
        if self.budget.spend(pattern.cost(text)) {
            self.hold(pattern.is_match(text), Fault::Invalid, place, || {
                (
                    format!("{:?}", clipped(text)),
                    said(place, format_args!("should match '{}'", clipped(expression))),
                )
            });
        }
    }

    fn texts(&mut self, shape: Shape<'_>, texts: Span, subject: Subject<'_>, place: &Place<'_>) {
        let texts = texts.of(&shape.tables.texts);
        if !self.budget.spend(texts.len() as u64) {
            return;
        }
        let found = match subject {
            Subject::Value(Value::String(text)) => {
                texts.iter().any(|option| option.text(&shape.tables.chars) == text)
            }
            _ => false,
        };
        let shown = || texts.iter().map(|option| option.text(&shape.tables.chars).to_owned());
        self.hold(found, Fault::NotSupported, place, || (subject.shown(), supported(shown())));
    }

    fn options(&mut self, shape: Shape<'_>, values: Span, subject: Subject<'_>, place: &Place<'_>) {
        let values = values.of(&shape.tables.values);
        if !self.budget.spend(values.len() as u64) {
            return;
        }
        let found = values.iter().any(|option| subject.is(option));
        let shown = || values.iter().map(|option| option.as_str().map_or(option.to_string(), str::to_owned));
        self.hold(found, Fault::NotSupported, place, || (subject.shown(), supported(shown())));
    }

    fn at_most(&mut self, found: usize, most: i64, place: &Place<'_>) {
        self.hold(count(found) <= most, Fault::TooMany, place, || {
            (String::new(), at_most_items(found, most))
        });
    }

    fn at_least(&mut self, found: usize, least: i64, what: &str, place: &Place<'_>) {
        self.hold(count(found) >= least, Fault::Invalid, place, || {
            (found.to_string(), said(place, format_args!("should have at least {least} {what}")))
        });
    }

    /// Counts what is as it should be, and tells what is not: the value as it is shown, and what is expected.
    fn hold(&mut self, fits: bool, fault: Fault, place: &Place<'_>, tell: impl FnOnce() -> (String, String)) {
        if fits {
            self.n_fits += 1;
            return;
        }
        self.n_faults += 1;
        if !self.is_silent && self.told.len() < TOLD_MOST {
            let (shown, detail) = tell();
            self.told.push(FieldError { fault, field: place.to_string(), shown, detail });
        }
    }

    fn fault(&mut self, fault: Fault, place: &Place<'_>, shown: &str, detail: impl FnOnce() -> String) {
        self.hold(false, fault, place, || (shown.to_owned(), detail()));
    }

    fn ids(shape: Shape<'_>, ids: Span) -> &[Id] {
        ids.of(&shape.tables.ids)
    }
}

/// What stands at a place: a map, or any other value.
#[derive(Clone, Copy, PartialEq)]
enum Subject<'a> {
    Value(&'a Value),
    Map(&'a Object),
}

impl<'a> Subject<'a> {
    fn of(value: &'a Value) -> Self {
        match value {
            Value::Object(map) => Subject::Map(map),
            other => Subject::Value(other),
        }
    }

    fn map(self) -> Option<&'a Object> {
        if let Subject::Map(map) = self { Some(map) } else { None }
    }

    fn list(self) -> Option<&'a [Value]> {
        if let Subject::Value(Value::Array(list)) = self { Some(list) } else { None }
    }

    /// What its type is called.
    fn kind(self) -> &'static str {
        match self {
            Subject::Map(_) | Subject::Value(Value::Object(_)) => "object",
            Subject::Value(Value::Null) => "null",
            Subject::Value(Value::Bool(_)) => "boolean",
            Subject::Value(Value::String(_)) => "string",
            Subject::Value(Value::Number(number)) if number.is_f64() => "number",
            Subject::Value(Value::Number(_)) => "integer",
            Subject::Value(Value::Array(_)) => "array",
        }
    }

    fn is(self, option: &Value) -> bool {
        match (self, option) {
            (Subject::Value(Value::Number(one)), Value::Number(other)) => numbers::is_same(one, other),
            (Subject::Value(value), other) => value == other,
            (Subject::Map(map), Value::Object(other)) => map == other,
            (Subject::Map(_), _) => false,
        }
    }

    fn shown(self) -> String {
        match self {
            Subject::Value(value) => clipped(&value.to_string()),
            Subject::Map(map) => clipped(&Value::Object(map.clone()).to_string()),
        }
    }
}

/// What is said about a field, as Kubernetes says it: with the name of the field once more.
fn said(place: &Place<'_>, what: std::fmt::Arguments<'_>) -> String {
    match place.is_root() {
        true => format!("in body {what}"),
        false => format!("{place} in body {what}"),
    }
}

fn supported(options: impl Iterator<Item = String>) -> String {
    let mut options: Vec<String> =
        options.take(OPTIONS_SHOWN_MOST + 1).map(|option| format!("{:?}", clipped(&option))).collect();
    if options.len() > OPTIONS_SHOWN_MOST {
        options[OPTIONS_SHOWN_MOST] = "...".to_owned();
    }
    format!("supported values: {}", options.join(", "))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn n_chars(text: &str) -> i64 {
    count(text.chars().count())
}
