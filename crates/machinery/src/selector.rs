//! Selectors: which objects a request is about, by label or by field.
//!
//! A selector is read once, from the text of a query or from an object's field, and then asked of many objects.
//! Errors are in the words Kubernetes clients know. Start at [`LabelSelector::parse`] and
//! [`FieldSelector::parse`].

mod fields;
mod text;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

pub use fields::{FieldSelector, FieldTerm};

use crate::field::Errors;
use crate::metadata::validate_labels;
use crate::names;
use crate::object::Object;

/// Why a selector cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `key=value`
    Equals,
    /// `key==value`, which means the same.
    DoubleEquals,
    /// `key!=value`; holds when there is no such label.
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; holds when there is no such label.
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`
    GreaterThan,
    /// `key<1`
    LessThan,
}

/// One thing that must hold of an object's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what; sorted.
    pub values: Vec<String>,
}

/// What must hold of an object's labels.
///
/// ```
/// use windlass_machinery::selector::LabelSelector;
/// let selector = LabelSelector::parse("app in (web, api),!old").expect("well formed");
/// assert!(selector.matches(|key| (key == "app").then_some("web")));
/// assert_eq!(selector.to_string(), "app in (api,web),!old");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    /// Selects nothing at all, whatever the requirements.
    nothing: bool,
}

impl Requirement {
    /// Checks the parts of a requirement and puts them together.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        let mut errors = Errors::new();
        let faults = names::qualified(key);
        if !faults.is_empty() {
            errors.invalid_str("key", key, faults.join("; "));
        }
        let shown = || Value::from(values.clone());
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                errors.invalid("values", &shown(), "for 'in', 'notin' operators, values set can't be empty");
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                errors.invalid("values", &shown(), "exact-match compatibility requires one single value");
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                errors.invalid("values", &shown(), "values set must be empty for exists and does not exist");
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    let detail = "for 'Gt', 'Lt' operators, exactly one value is required";
                    errors.invalid("values", &shown(), detail);
                }
                for (index, value) in values.iter().enumerate().filter(|(_, value)| number(value).is_none()) {
                    errors.at_index("values", index, |errors| {
                        let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                        errors.invalid_str("", value, detail);
                    });
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let faults = names::label_value(value);
            if !faults.is_empty() {
                errors.at_index("values", index, |errors| {
                    errors.invalid_str(&format!("[{key}]"), value, faults.join("; "));
                });
            }
        }
        match errors.list() {
            [] => Ok(Requirement { key: key.to_owned(), operator, values }),
            [one] => Err(SelectorError(one.to_string())),
            several => {
                let several: Vec<String> = several.iter().map(ToString::to_string).collect();
                Err(SelectorError(format!("[{}]", several.join(", "))))
            }
        }
    }

    /// Whether it holds for a label's value.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let has = |value: &str| self.values.iter().any(|one| one == value);
        let compares = |holds: fn(&i64, &i64) -> bool| {
            let (Some(value), [bound]) = (value.and_then(number), &self.values[..]) else { return false };
            number(bound).is_some_and(|bound| holds(&value, &bound))
        };
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(has),
            Operator::NotEquals | Operator::NotIn => !value.is_some_and(has),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => compares(i64::gt),
            Operator::LessThan => compares(i64::lt),
        }
    }
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        LabelSelector { requirements: vec![], nothing: true }
    }

    /// Reads the text of a query, such as `app=web,tier notin (test)`. The empty text selects everything.
    pub fn parse(query: &str) -> Result<Self, SelectorError> {
        Ok(Self::all(text::parse(query)?))
    }

    /// Selects what has exactly these labels, as `spec.selector` of a service has them; none select everything.
    pub fn from_map(labels: &Object) -> Self {
        let exact = labels.iter().filter_map(|(key, value)| {
            let values = vec![value.as_str()?.to_owned()];
            Some(Requirement { key: key.clone(), operator: Operator::Equals, values })
        });
        Self::all(exact.collect())
    }

    /// Reads `matchLabels` and `matchExpressions`. Null selects nothing, the empty object everything.
    pub fn from_object(selector: &Value) -> Result<Self, SelectorError> {
        let Some(selector) = selector.as_object() else { return Ok(Self::nothing()) };
        let mut requirements = vec![];
        if let Some(Value::Object(labels)) = selector.get("matchLabels") {
            for (key, value) in labels {
                let values = vec![value.as_str().unwrap_or_default().to_owned()];
                requirements.push(Requirement::new(key, Operator::Equals, values)?);
            }
        }
        for expression in crate::object::list_at(selector, &["matchExpressions"]) {
            let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(SelectorError(format!("{other:?} is not a valid label selector operator")));
                }
            };
            let values: BTreeSet<&str> = match expression.get("values") {
                Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
                _ => BTreeSet::new(),
            };
            let values = values.into_iter().map(str::to_owned).collect();
            requirements.push(Requirement::new(text("key"), operator, values)?);
        }
        Ok(Self::all(requirements))
    }

    fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        LabelSelector { requirements, nothing: false }
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Whether nothing can be selected.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// What must hold, by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether an object is selected, given how its labels are looked up.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|one| one.matches(get(&one.key)))
    }

    /// Whether an object with these labels is selected.
    pub fn matches_map(&self, labels: &Object) -> bool {
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }

    /// The one value that a label must have to be selected, if there is one.
    pub fn exact(&self, key: &str) -> Option<&str> {
        self.requirements.iter().find_map(|one| match (one.operator, &one.values[..]) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) if one.key == key => {
                Some(value.as_str())
            }
            _ => None,
        })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// The text that would be read as this selector; empty for everything and for nothing.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

/// Checks a field that holds `matchLabels` and `matchExpressions`; the errors stand at that field.
pub fn validate_label_selector(selector: &Object, errors: &mut Errors) {
    if let Some(Value::Object(labels)) = selector.get("matchLabels") {
        validate_labels(labels, "matchLabels", errors);
    }
    for (index, expression) in crate::object::list_at(selector, &["matchExpressions"]).iter().enumerate() {
        let Some(expression) = expression.as_object() else { continue };
        errors.at_index("matchExpressions", index, |errors| validate_expression(expression, errors));
    }
}

fn validate_expression(expression: &Object, errors: &mut Errors) {
    let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
    let values = crate::object::list_at(expression, &["values"]);
    match (text("operator"), values.is_empty()) {
        ("In" | "NotIn", true) => {
            errors.required("values", "must be specified when `operator` is 'In' or 'NotIn'");
        }
        ("Exists" | "DoesNotExist", false) => {
            errors.forbidden("values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
        (other, _) => errors.invalid_str("operator", other, "not a valid selector operator"),
    }
    for fault in names::qualified(text("key")) {
        errors.invalid_str("key", text("key"), fault);
    }
    for (index, value) in values.iter().enumerate() {
        let Some(value) = value.as_str() else { continue };
        errors.at_index("values", index, |errors| {
            for fault in names::label_value(value) {
                errors.invalid_str("", value, fault);
            }
        });
    }
}

#[cfg(test)]
mod tests;
