//! Sealing: values are changed on their way to disk or etcd, and changed back when they come from there.
//!
//! In memory everything is plain, so readers and watchers pay nothing. The store does not know how a value is
//! sealed or which ones are: whoever opens it brings a [`Seal`]. The tools that look at a directory bring none,
//! and so they copy sealed values as they are.

use std::{borrow::Cow, fmt, sync::Arc};

use bytes::Bytes;

use crate::Key;

/// Turns values into what is kept of them, and back.
///
/// What is printed of it must not give its keys away.
pub trait Seal: fmt::Debug + Send + Sync + 'static {
    /// What to keep of `value`; `None` keeps it as it is. Never the same twice, and of no use under another key.
    fn seal(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>>;

    /// The value of which `stored` was kept under `key`.
    fn open(&self, key: &[u8], stored: &[u8]) -> Result<Opened, SealError>;
}

/// A value that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The value; `None` when it is what is stored.
    pub value: Option<Vec<u8>>,
    /// Whether it is kept as [`Seal::seal`] would keep it now. If not, it is written anew in the background.
    pub is_current: bool,
}

/// Why a value cannot be opened, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SealError(pub String);

/// A value that cannot be opened: the store does not open, since it cannot serve it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value of {key} cannot be opened")]
pub struct UnsealError {
    /// The key in question.
    pub key: Key,
    /// Why it cannot.
    pub source: SealError,
}

/// What an engine does to values that leave it and come back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sealer(pub(crate) Option<Arc<dyn Seal>>);

impl Sealer {
    /// What to keep of a value.
    pub(crate) fn seal<'a>(&self, key: &[u8], value: &'a Bytes) -> Cow<'a, [u8]> {
        match self.0.as_ref().and_then(|seal| seal.seal(key, value)) {
            Some(sealed) => Cow::Owned(sealed),
            None => Cow::Borrowed(value),
        }
    }

    /// What was kept of a value, opened.
    pub(crate) fn open(&self, key: &[u8], stored: &[u8]) -> Result<Opened, UnsealError> {
        match &self.0 {
            None => Ok(Opened { value: None, is_current: true }),
            Some(seal) => {
                seal.open(key, stored).map_err(|source| UnsealError { key: Key::from(key), source })
            }
        }
    }

    /// Whether a value that nobody will read is kept as it should be.
    pub(crate) fn is_current(&self, key: &[u8], stored: &[u8]) -> bool {
        self.open(key, stored).is_ok_and(|opened| opened.is_current)
    }
}
