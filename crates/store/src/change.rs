//! What is stored and what is told about it: one version of a value, and one step between two versions.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Key, Revision};

/// One version of the value of a key. Written once, shared by the tables, the history and every reader.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key it belongs to.
    pub key: Key,
    /// The bytes that were put.
    pub value: Bytes,
    /// The revision of the transaction that put them.
    pub revision: Revision,
}

impl Entry {
    /// Bytes of key and value.
    pub(crate) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// One committed step of one key. Changes of one transaction share its revision.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// The key that changed.
    pub key: Key,
    /// When it changed.
    pub revision: Revision,
    /// The version that is there now; `None` when the key was deleted.
    pub current: Option<Arc<Entry>>,
    /// The version that was there before; `None` when the key was created.
    pub previous: Option<Arc<Entry>>,
}
