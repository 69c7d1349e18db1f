//! Why a directory cannot be opened as a store.

use std::io;

use crate::UnsealError;

/// Why a store did not open. Nothing on disk has been changed by the attempt, unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the directory open. Stop it first, or use another directory.
    #[error("{directory} is in use by another process{}", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    InUse {
        /// The directory in question.
        directory: String,
        /// The process that has it, if it left its number.
        pid: Option<u32>,
    },
    /// The directory was written by a newer version of this program. Use that version.
    #[error("{file} has format {found}, this version reads up to format {supported}")]
    NewerFormat {
        /// The file that says so.
        file: String,
        /// Its format.
        found: u32,
        /// The newest format this program reads.
        supported: u32,
    },
    /// A file is not as it was written. The data in it cannot be trusted; restore from a snapshot.
    #[error(transparent)]
    Damaged(#[from] DamageError),
    /// A value is sealed, and not with a key that was given. Bring that key.
    #[error(transparent)]
    Sealed(#[from] UnsealError),
    /// The disk did not do what it was asked.
    #[error("{action} failed")]
    Io {
        /// What was being done, and to which file.
        action: String,
        /// What the disk said.
        source: io::Error,
    },
}

/// A place in a file that does not verify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} is damaged at byte {offset}: {why}")]
pub struct DamageError {
    /// The file's name in the store's directory.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What is wrong there.
    pub why: String,
}

impl DamageError {
    pub(crate) fn new(file: &str, offset: u64, why: impl Into<String>) -> Self {
        DamageError { file: file.into(), offset, why: why.into() }
    }
}

/// Says what was being done when the disk failed.
pub(crate) trait Doing<T> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T, OpenError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T, OpenError> {
        self.map_err(|source| OpenError::Io { action: action(), source })
    }
}
