//! Field selectors: `metadata.name=a,spec.nodeName!=b`. Which fields can be asked for is up to the kind.

use std::borrow::Cow;
use std::fmt;

use super::SelectorError;

/// One thing that must hold of an object's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field, such as `metadata.name`.
    pub field: String,
    /// Whether the field must not have the value.
    pub negated: bool,
    /// The value, without escapes.
    pub value: String,
}

/// What must hold of an object's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// What must hold, sorted by the text it was written as.
    pub terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Reads the text of a query. The empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let terms = parts.into_iter().filter(|part| !part.is_empty()).map(|part| {
            let (field, operator, value) = split_term(part).ok_or_else(|| {
                SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            Ok(FieldTerm { field: field.to_owned(), negated: operator == "!=", value: unescape(value)? })
        });
        Ok(FieldSelector { terms: terms.collect::<Result<_, _>>()? })
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether an object is selected, given how its fields are looked up. A missing field is the empty text.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.terms.iter().all(|term| {
            let is = get(&term.field).as_deref().unwrap_or_default() == term.value;
            is != term.negated
        })
    }

    /// The one value that a field must have to be selected, if there is one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let term = self.terms.iter().find(|term| term.field == field && !term.negated)?;
        Some(&term.value)
    }
}

/// The text that would be read as this selector.
impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let operator = if term.negated { "!=" } else { "=" };
            write!(f, "{comma}{}{operator}", term.field)?;
            for c in term.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// Splits at the commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let is_end = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        is_end
    })
    .collect()
}

/// Splits at the first operator.
fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    let at = term.bytes().enumerate().position(|(at, byte)| match byte {
        b'=' => true,
        b'!' => term.as_bytes().get(at + 1) == Some(&b'='),
        _ => false,
    })?;
    let (field, rest) = term.split_at(at);
    let operator = ["!=", "==", "="].into_iter().find(|operator| rest.starts_with(operator))?;
    Some((field, operator, &rest[operator.len()..]))
}

fn unescape(text: &str) -> Result<String, SelectorError> {
    let escape =
        |shown: &str| SelectorError(format!("invalid field selector: invalid escape sequence: {shown}"));
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => value.push(c),
                Some(other) => return Err(escape(&format!("\\{other}"))),
                None => return Err(escape("\\")),
            },
            // Kubernetes shows the character as its number.
            ',' | '=' => {
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            _ => value.push(c),
        }
    }
    Ok(value)
}
