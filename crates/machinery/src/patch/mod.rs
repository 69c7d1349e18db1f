//! Patches: JSON patches, merge patches and strategic merge patches, applied to one object.
//!
//! They see JSON only. What comes out is not checked against a schema, nor for its size: the caller holds it
//! to the same rules as an object that was sent whole. Start at [`json_patch()`], [`merge_patch()`] and
//! [`strategic_merge()`].

mod json;
mod merge;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::{strategic_diff, strategic_merge};

/// Most levels that a patch may make of an object. Parsers refuse to read 128, so what is stored must stay
/// below that.
const DEPTH: usize = 120;

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no patch at all: 400.
    #[error("{0}")]
    Malformed(String),
    /// A JSON patch with more operations than are allowed: 413.
    #[error("The allowed maximum operations in a JSON patch is {most}, got {got}")]
    TooManyOperations {
        /// How many there are.
        got: usize,
        /// How many are allowed.
        most: usize,
    },
    /// It would make too much of the object: 413.
    #[error("{0}")]
    TooLarge(String),
    /// It does not fit the object: 422.
    #[error("{0}")]
    Inapplicable(String),
    /// A `test` of a JSON patch does not hold: 422.
    #[error("testing path {0} failed")]
    TestFailed(String),
    /// A directive of a strategic merge patch is unknown or misused: 400.
    #[error("{0}")]
    Directive(String),
}

impl PatchError {
    /// The HTTP status code of the answer.
    pub fn code(&self) -> u16 {
        match self {
            PatchError::Malformed(_) | PatchError::Directive(_) => 400,
            PatchError::TooManyOperations { .. } | PatchError::TooLarge(_) => 413,
            PatchError::Inapplicable(_) | PatchError::TestFailed(_) => 422,
        }
    }
}

/// What a message quotes of a patch: not all of it, as a patch can have megabytes.
fn short(text: &str) -> &str {
    text.get(..text.floor_char_boundary(500)).unwrap_or(text)
}
