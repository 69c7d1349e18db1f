//! Whether a schema is structural: that it says for every place which type is there, and that what is below
//! `allOf`, `anyOf`, `oneOf` and `not` only restricts values. Errors are in the words that Kubernetes clients know.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{pattern, source::Source};
use crate::field::Errors;

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Where a schema stands, as far as messages differ.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Most bytes that the patterns of one schema have together when they are compiled.
const PATTERNS_MOST: usize = 64 << 20;
/// How many patterns are told that cannot be compiled.
const UNFIT_PATTERNS_MOST: usize = 10;

/// Checks a whole schema whose depth is known to be bounded.
pub(super) fn check(source: Source<'_>, errors: &mut Errors) {
    place(source, Level::Root, errors);
    complete(source, Some(source), &mut vec![], errors);
    check_patterns(source, PATTERNS_MOST, errors);
}

/// Checks all patterns of a schema, which may take so many bytes together.
pub(super) fn check_patterns(source: Source<'_>, most: usize, errors: &mut Errors) {
    let mut patterns = Patterns { most, seen: HashSet::new(), n_bytes: 0, n_unfit: 0 };
    patterns.place(source, errors);
    if patterns.n_bytes > most {
        errors.forbidden("", "the patterns of the schema are too large together when they are compiled");
    }
}

/// The check of patterns.
struct Patterns<'a> {
    most: usize,
    seen: HashSet<&'a str>,
    n_bytes: usize,
    n_unfit: usize,
}

impl<'a> Patterns<'a> {
    /// Checks the patterns of a place and of all below it.
    fn place(&mut self, source: Source<'a>, errors: &mut Errors) {
        let expression = source.text("pattern");
        let is_spent = self.n_bytes > self.most || self.n_unfit >= UNFIT_PATTERNS_MOST;
        if !expression.is_empty() && !is_spent && self.seen.insert(expression) {
            match pattern::compile(expression) {
                Ok(pattern) => self.n_bytes += pattern.size(),
                Err(fault) => {
                    self.n_unfit += 1;
                    let detail = format!("must be a valid regular expression, but isn't: {fault}");
                    errors.invalid_str("pattern", &super::clipped(expression), detail);
                }
            }
        }
        for (name, property) in source.properties() {
            errors.at_key("properties", name, |errors| self.place(property, errors));
        }
        for junctor in ["allOf", "anyOf", "oneOf"] {
            for (index, nested) in source.schemas(junctor).enumerate() {
                errors.at_index(junctor, index, |errors| self.place(nested, errors));
            }
        }
        for key in ["not", "items", "additionalProperties"] {
            if let Some(nested) = source.schema(key) {
                errors.at(key, |errors| self.place(nested, errors));
            }
        }
    }
}

fn place(source: Source<'_>, level: Level, errors: &mut Errors) {
    if source.text("type") == "array" && source.get("items").is_none() {
        errors.required("items", "must be specified");
    }
    if let Some(items) = source.schema("items") {
        errors.at("items", |errors| place(items, Level::Item, errors));
    }
    for (name, property) in source.properties() {
        errors.at_key("properties", name, |errors| place(property, Level::Field, errors));
    }
    if source.get("additionalProperties").is_some() {
        if level == Level::Root {
            errors.forbidden("additionalProperties", "must not be used at the root");
        }
        if source.flag(EMBEDDED) {
            errors.forbidden("additionalProperties", format!("must not be used if {EMBEDDED} is set"));
        }
    }
    if let Some(values) = source.schema("additionalProperties") {
        errors.at("additionalProperties", |errors| place(values, Level::Field, errors));
    }
    if source.flag(INT_OR_STRING) {
        for extension in [PRESERVE, EMBEDDED] {
            if source.flag(extension) {
                errors.invalid(
                    extension,
                    &Value::Bool(true),
                    format!("must be false if {INT_OR_STRING} is true"),
                );
            }
        }
    }
    let first = source.list("allOf").first().map(Source::of);
    let in_all_of = first.is_some_and(|first| is_int_or_string(first.list("anyOf")));
    restrictions(source, is_int_or_string(source.list("anyOf")), in_all_of, errors);
    check_type(source, level, errors);
    check_meta(source, level, errors);
    if source.flag(EMBEDDED) && !source.flag(PRESERVE) && source.properties().next().is_none() {
        errors.required("properties", format!("must not be empty if {EMBEDDED} is true without {PRESERVE}"));
    }
}

fn check_type(source: Source<'_>, level: Level, errors: &mut Errors) {
    let kind = source.text("type");
    if source.flag(EMBEDDED) && kind != "object" {
        let detail = format!("must be object if {EMBEDDED} is true");
        match kind {
            "" => errors.required("type", detail),
            _ => errors.invalid_str("type", kind, detail),
        }
    } else if kind.is_empty() && !source.flag(INT_OR_STRING) && !source.flag(PRESERVE) {
        errors.required(
            "type",
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        );
    }
    if level == Level::Root && !["", "object"].contains(&kind) {
        errors.invalid_str("type", kind, "must be object at the root");
    }
}

/// What a resource is and what it is called is the same for all resources.
fn check_meta(source: Source<'_>, level: Level, errors: &mut Errors) {
    if level != Level::Root && !source.flag(EMBEDDED) {
        return;
    }
    for (name, kind) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = source.property(name) else { continue };
        errors.at_key("properties", name, |errors| {
            if property.text("type") != kind {
                errors.invalid_str("type", property.text("type"), format!("must be {kind}"));
            }
            if name == "metadata" && level == Level::Root && !only_names(property) {
                errors.forbidden(
                    "",
                    "must not specify anything other than name and generateName, but metadata is implicitly specified",
                );
            }
        });
    }
}

fn only_names(metadata: Source<'_>) -> bool {
    let ignored = ["type", "properties", "default", "example", "externalDocs"];
    let set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    metadata.0.iter().all(|(key, value)| ignored.contains(&key.as_str()) || !set(value))
        && metadata.properties().all(|(name, _)| ["name", "generateName"].contains(&name))
}

/// Whether this is how to write that a value is an integer or a string.
fn is_int_or_string(alternatives: &[Value]) -> bool {
    *alternatives == [json!({"type": "integer"}), json!({"type": "string"})]
}

/// Checks what restricts the values of a place, apart from what may tell integers from strings.
fn restrictions(source: Source<'_>, skip_any_of: bool, skip_in_all_of: bool, errors: &mut Errors) {
    if !skip_any_of {
        alternatives(source, "anyOf", false, errors);
    }
    alternatives(source, "allOf", skip_in_all_of, errors);
    alternatives(source, "oneOf", false, errors);
    if let Some(not) = source.schema("not") {
        errors.at("not", |errors| nested(not, false, errors));
    }
}

fn alternatives(source: Source<'_>, junctor: &str, skip_in_first: bool, errors: &mut Errors) {
    for (index, alternative) in source.schemas(junctor).enumerate() {
        let skip = skip_in_first && index == 0;
        errors.at_index(junctor, index, |errors| nested(alternative, skip, errors));
    }
}

/// What a key must be to mean nothing.
#[derive(Clone, Copy)]
enum Unset {
    Empty,
    False,
    Undefined,
}

/// What must not be set below junctors.
const OUTSIDE_ONLY: &[(&str, Unset)] = &[
    ("type", Unset::Empty),
    ("additionalProperties", Unset::Undefined),
    ("default", Unset::Undefined),
    ("title", Unset::Empty),
    ("description", Unset::Empty),
    ("nullable", Unset::False),
    ("externalDocs", Unset::Undefined),
    (PRESERVE, Unset::False),
    (EMBEDDED, Unset::False),
    (INT_OR_STRING, Unset::False),
    ("x-kubernetes-list-map-keys", Unset::Empty),
    ("x-kubernetes-list-type", Unset::Undefined),
    ("x-kubernetes-map-type", Unset::Undefined),
    ("x-kubernetes-validations", Unset::Empty),
];

fn nested(source: Source<'_>, skip_any_of: bool, errors: &mut Errors) {
    restrictions(source, skip_any_of, false, errors);
    if let Some(items) = source.schema("items") {
        errors.at("items", |errors| nested(items, false, errors));
    }
    for (name, property) in source.properties() {
        errors.at_key("properties", name, |errors| nested(property, false, errors));
    }
    for (key, unset) in OUTSIDE_ONLY {
        let (is_set, words) = match unset {
            Unset::Empty => (!source.text(key).is_empty() || !source.list(key).is_empty(), "empty"),
            Unset::False => (source.flag(key), "false"),
            Unset::Undefined => (source.get(key).is_some(), "undefined"),
        };
        if is_set {
            errors.forbidden(key, format!("must be {words} to be structural"));
        }
    }
    if source.property("metadata").is_some() {
        errors.at_key("properties", "metadata", |errors| {
            errors.forbidden("", "must not be specified in a nested context");
        });
    }
}

/// Checks that what junctors at the root restrict is also specified outside of them. As in Kubernetes, junctors
/// further down are not asked for that.
fn complete(source: Source<'_>, outside: Option<Source<'_>>, at: &mut Vec<String>, errors: &mut Errors) {
    for junctor in ["allOf", "anyOf", "oneOf"] {
        for (index, alternative) in source.schemas(junctor).enumerate() {
            at.push(format!("{junctor}[{index}]"));
            complete_nested(alternative, outside, at, errors);
            at.pop();
        }
    }
    if let Some(not) = source.schema("not") {
        at.push("not".to_owned());
        complete_nested(not, outside, at, errors);
        at.pop();
    }
}

fn complete_nested(
    source: Source<'_>,
    outside: Option<Source<'_>>,
    at: &mut Vec<String>,
    errors: &mut Errors,
) {
    let Some(outside) = outside else {
        errors.required("", format!("because it is defined in {}", at.join(".")));
        return;
    };
    complete(source, Some(outside), at, errors);
    if let Some(items) = source.schema("items") {
        at.push("items".to_owned());
        errors.at("items", |errors| complete_nested(items, outside.schema("items"), at, errors));
        at.pop();
    }
    for (name, property) in source.properties() {
        at.push(format!("properties[{name}]"));
        errors.at_key("properties", name, |errors| {
            complete_nested(property, outside.property(name), at, errors);
        });
        at.pop();
    }
}
