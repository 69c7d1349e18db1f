//! What is wrong with an object, field by field, in the words Kubernetes clients know.
//!
//! Validators push into [`Errors`]; the API server turns the list into the causes of a `Status`.

use std::fmt;

use serde_json::Value;

/// What kind of fault a field has. The names are the `reason` of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The value is malformed or out of range.
    Invalid,
    /// The field must be set.
    Required,
    /// The value must be unique and is not.
    Duplicate,
    /// The value is not one of those allowed.
    NotSupported,
    /// The field must not be set, or not be changed.
    Forbidden,
    /// What the field refers to does not exist.
    NotFound,
    /// The value has too many bytes.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
    /// The value has the wrong type.
    TypeInvalid,
    /// Something on our side failed.
    Internal,
}

impl Fault {
    /// The `reason` of the cause.
    pub fn reason(self) -> &'static str {
        match self {
            Fault::Invalid => "FieldValueInvalid",
            Fault::Required => "FieldValueRequired",
            Fault::Duplicate => "FieldValueDuplicate",
            Fault::NotSupported => "FieldValueNotSupported",
            Fault::Forbidden => "FieldValueForbidden",
            Fault::NotFound => "FieldValueNotFound",
            Fault::TooLong => "FieldValueTooLong",
            Fault::TooMany => "FieldValueTooMany",
            Fault::TypeInvalid => "FieldValueTypeInvalid",
            Fault::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Fault::Invalid | Fault::TypeInvalid => "Invalid value",
            Fault::Required => "Required value",
            Fault::Duplicate => "Duplicate value",
            Fault::NotSupported => "Unsupported value",
            Fault::Forbidden => "Forbidden",
            Fault::NotFound => "Not found",
            Fault::TooLong => "Too long",
            Fault::TooMany => "Too many",
            Fault::Internal => "Internal error",
        }
    }
}

/// One fault of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// What kind of fault.
    pub fault: Fault,
    /// Where, such as `spec.containers[0].name`.
    pub field: String,
    /// The offending value as it is shown, empty when the fault shows none.
    pub shown: String,
    /// What was expected.
    pub detail: String,
}

impl FieldError {
    /// The message of the cause: everything but the field's name.
    pub fn body(&self) -> String {
        let words = self.fault.words();
        let mut text = match self.fault {
            Fault::Required | Fault::Forbidden | Fault::TooLong | Fault::TooMany | Fault::Internal => {
                words.to_owned()
            }
            _ if self.shown.is_empty() => words.to_owned(),
            _ => format!("{words}: {}", self.shown),
        };
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// How a value is shown in a message: strings quoted, everything else as JSON.
fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

/// The faults found so far, and where in the object the validator stands.
///
/// ```
/// use windlass_machinery::field::Errors;
/// let mut errors = Errors::new();
/// errors.at("spec", |errors| errors.at_index("ports", 0, |errors| errors.required("name", "")));
/// assert_eq!(errors.list()[0].to_string(), "spec.ports[0].name: Required value");
/// ```
#[derive(Debug, Default)]
pub struct Errors {
    path: String,
    list: Vec<FieldError>,
}

/// Most faults reported for one object; more would only fill the answer.
const MOST: usize = 100;

impl Errors {
    /// Nothing found yet, standing at the root of the object.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was found.
    pub fn list(&self) -> &[FieldError] {
        &self.list
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Looks at what is below `field`.
    pub fn at<T>(&mut self, field: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let len = self.path.len();
        self.push_field(field);
        let outcome = check(self);
        self.path.truncate(len);
        outcome
    }

    /// Looks at what is below entry `index` of the list `field`.
    pub fn at_index<T>(&mut self, field: &str, index: usize, check: impl FnOnce(&mut Self) -> T) -> T {
        let len = self.path.len();
        self.push_field(field);
        self.path.push_str(&format!("[{index}]"));
        let outcome = check(self);
        self.path.truncate(len);
        outcome
    }

    /// Looks at what is below key `key` of the map `field`.
    pub fn at_key<T>(&mut self, field: &str, key: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let len = self.path.len();
        self.push_field(field);
        self.path.push_str(&format!("[{key}]"));
        let outcome = check(self);
        self.path.truncate(len);
        outcome
    }

    fn push_field(&mut self, field: &str) {
        if !self.path.is_empty() && !field.is_empty() && !field.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(field);
    }

    /// Records a fault of `field` (empty: of the place itself).
    pub fn push(&mut self, fault: Fault, field: &str, shown: String, detail: impl Into<String>) {
        if self.list.len() >= MOST {
            return;
        }
        let field = self.at(field, |errors| errors.path.clone());
        let error = FieldError { fault, field, shown, detail: detail.into() };
        // Rules overlap, such as those for an object and for its change.
        if !self.list.contains(&error) {
            self.list.push(error);
        }
    }

    /// Records the faults of another list, as seen from here.
    pub fn absorb(&mut self, other: Errors) {
        for error in other.list {
            self.push(error.fault, &error.field, error.shown, error.detail);
        }
    }

    /// The value is malformed or out of range.
    pub fn invalid(&mut self, field: &str, value: &Value, detail: impl Into<String>) {
        self.push(Fault::Invalid, field, show(value), detail);
    }

    /// The string is malformed.
    pub fn invalid_str(&mut self, field: &str, value: &str, detail: impl Into<String>) {
        self.push(Fault::Invalid, field, format!("{value:?}"), detail);
    }

    /// The field must be set.
    pub fn required(&mut self, field: &str, detail: impl Into<String>) {
        self.push(Fault::Required, field, String::new(), detail);
    }

    /// The value must be unique and is not.
    pub fn duplicate(&mut self, field: &str, value: &Value) {
        self.push(Fault::Duplicate, field, show(value), "");
    }

    /// The value is not one of `allowed`.
    pub fn not_supported(&mut self, field: &str, value: &str, allowed: &[&str]) {
        let allowed: Vec<String> = allowed.iter().map(|value| format!("{value:?}")).collect();
        let detail = match allowed.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", allowed.join(", ")),
        };
        self.push(Fault::NotSupported, field, format!("{value:?}"), detail);
    }

    /// The field must not be set, or not be changed.
    pub fn forbidden(&mut self, field: &str, detail: impl Into<String>) {
        self.push(Fault::Forbidden, field, String::new(), detail);
    }

    /// What the field refers to does not exist.
    pub fn not_found(&mut self, field: &str, value: &Value) {
        self.push(Fault::NotFound, field, show(value), "");
    }

    /// The value has more than `most` bytes.
    pub fn too_long(&mut self, field: &str, most: usize) {
        self.push(Fault::TooLong, field, String::new(), at_most_bytes(most));
    }

    /// The list or map has more than `most` entries.
    pub fn too_many(&mut self, field: &str, actual: usize, most: usize) {
        self.push(Fault::TooMany, field, String::new(), at_most_items(actual, most));
    }
}

/// What is said of a text that is too long.
pub(crate) fn at_most_bytes(most: impl fmt::Display) -> String {
    counted(format!("may not be more than {most} byte"))
}

/// What is said of a list or map that has too many entries.
pub(crate) fn at_most_items(actual: impl fmt::Display, most: impl fmt::Display) -> String {
    counted(format!("{actual}: must have at most {most} item"))
}

/// What is counted is in the plural, unless there is one of it.
fn counted(text: String) -> String {
    let is_one = text.rsplit(' ').nth(1) == Some("1");
    if is_one { text } else { text + "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_shown_leaves_no_gap() {
        let mut errors = Errors::new();
        errors.push(Fault::Invalid, "spec", String::new(), "failed rule: self.a");
        errors.push(Fault::Invalid, "spec.a", "1".to_owned(), "too small");
        let said: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
        assert_eq!(said, ["spec: Invalid value: failed rule: self.a", "spec.a: Invalid value: 1: too small"]);
    }
}
