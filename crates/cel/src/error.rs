//! What can go wrong: an expression that does not compile, and one that does not come to a value.

use std::{borrow::Cow, fmt};

/// Why an expression does not compile, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The line, from 1.
    pub line: u32,
    /// The character within the line, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// The line of the source.
    text: String,
}

impl CompileError {
    /// A fault at a byte of the source.
    pub(crate) fn new(source: &str, at: u32, message: impl Into<String>) -> Self {
        let mut at = (at as usize).min(source.len());
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        let before = &source[..at];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let end = source[at..].find('\n').map_or(source.len(), |newline| at + newline);
        CompileError {
            line: before.matches('\n').count() as u32 + 1,
            column: source[start..at].chars().count() as u32 + 1,
            message: message.into(),
            text: source[start..end].to_owned(),
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dots = ".".repeat(self.column.saturating_sub(1) as usize);
        let Self { line, column, message, text } = self;
        write!(f, "ERROR: <input>:{line}:{column}: {message}\n | {text}\n | {dots}^")
    }
}

impl std::error::Error for CompileError {}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// What one expression may cost.
    Expression,
    /// What all expressions for one object may cost.
    Object,
}

/// Why an expression came to no value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvalError {
    /// It cost too much. Nothing absorbs this, and nothing more should be run.
    Budget(Limit),
    /// It failed, such as by a division by zero or a missing key.
    Failed(Cow<'static, str>),
}

/// What is said of arguments for which there is no function.
pub(crate) const NO_SUCH_OVERLOAD: &str = "no such overload";

impl EvalError {
    /// A failure in words that are made when it happens.
    pub(crate) fn failed(message: impl Into<Cow<'static, str>>) -> Self {
        EvalError::Failed(message.into())
    }

    /// The arguments fit no function.
    pub(crate) fn no_such_overload() -> Self {
        EvalError::Failed(Cow::Borrowed(NO_SUCH_OVERLOAD))
    }

    /// There is no such key or field.
    pub(crate) fn no_such_key(key: impl fmt::Display) -> Self {
        EvalError::Failed(Cow::Owned(format!("no such key: {key}")))
    }

    /// Whether the budget is what stopped it.
    pub fn is_budget(&self) -> bool {
        matches!(self, EvalError::Budget(_))
    }

    /// Whether the arguments fitted no function.
    pub fn is_no_such_overload(&self) -> bool {
        matches!(self, EvalError::Failed(message) if message == NO_SUCH_OVERLOAD)
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EvalError::Budget(Limit::Expression) => "operation cancelled: actual cost limit exceeded",
            EvalError::Budget(Limit::Object) => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
            }
            EvalError::Failed(message) => message,
        })
    }
}

impl std::error::Error for EvalError {}

/// The beginning of a text that is too long to be told in a message.
pub(crate) fn shown(text: &str) -> &str {
    match text.char_indices().nth(100) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
