//! Transactions: what a writer asks for, and why it may be refused.

use std::{collections::HashSet, fmt, sync::Arc};

use bytes::Bytes;

use crate::{Entry, Key, Revision};

/// Most operations in one transaction. etcd refuses more by default, so nobody may rely on more.
pub const MAX_TXN_OPS: usize = 128;

/// Most bytes of keys and values in one transaction: etcd's default request limit of 1.5 MiB, less what its
/// message needs around them. That is mostly the keys of the preconditions; where these alone take more, etcd
/// may find a transaction too large that is within this limit.
pub const MAX_TXN_BYTES: usize = 1536 * 1024 - 64 * 1024;

/// Longest key. Kubernetes names are at most 253 bytes and a key holds four of them.
pub const MAX_KEY_BYTES: usize = 4096;

/// What a key must look like for a transaction to go ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No matter.
    Any,
    /// The key does not exist.
    Absent,
    /// The key was last written at this revision.
    At(Revision),
}

impl Expect {
    /// Whether a key that was last written at `actual` (`None`: absent) is as expected.
    pub fn holds(self, actual: Option<Revision>) -> bool {
        match self {
            Expect::Any => true,
            Expect::Absent => actual.is_none(),
            Expect::At(revision) => actual == Some(revision),
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expect::Any => f.write_str("anything"),
            Expect::Absent => f.write_str("absent"),
            Expect::At(revision) => write!(f, "at revision {revision}"),
        }
    }
}

/// One change that a transaction makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) key: Key,
    /// The new value; `None` deletes.
    pub(crate) value: Option<Bytes>,
}

/// Preconditions and changes over several keys: all of it happens at one revision, or nothing does.
///
/// ```
/// use windlass_store::{Expect, Revision, Txn};
/// let txn = Txn::new()
///     .put("pods/default/web", "v2", Expect::At(Revision::new(7)))
///     .delete("pods/default/old", Expect::Any)
///     .require("namespaces/default", Expect::At(Revision::new(3)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    pub(crate) checks: Vec<(Key, Expect)>,
    pub(crate) ops: Vec<Op>,
}

impl Txn {
    /// A transaction that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes `value` if the key is as expected.
    #[must_use]
    pub fn put(self, key: impl Into<Key>, value: impl Into<Bytes>, expect: Expect) -> Self {
        self.op(key.into(), Some(value.into()), expect)
    }

    /// Deletes the key if it is as expected. Deleting an absent key changes nothing and is no error.
    #[must_use]
    pub fn delete(self, key: impl Into<Key>, expect: Expect) -> Self {
        self.op(key.into(), None, expect)
    }

    /// Goes ahead only if the key is as expected, without changing it.
    #[must_use]
    pub fn require(mut self, key: impl Into<Key>, expect: Expect) -> Self {
        self.check(&key.into(), expect);
        self
    }

    fn op(mut self, key: Key, value: Option<Bytes>, expect: Expect) -> Self {
        self.check(&key, expect);
        self.ops.push(Op { key, value });
        self
    }

    fn check(&mut self, key: &Key, expect: Expect) {
        if expect != Expect::Any {
            self.checks.push((key.clone(), expect));
        }
    }

    /// Bytes of keys and values to be written.
    pub(crate) fn bytes(&self) -> usize {
        self.ops.iter().map(|op| op.key.len() + op.value.as_ref().map_or(0, Bytes::len)).sum()
    }

    /// Refuses what no engine takes, so that all engines refuse alike.
    pub(crate) fn validate(&self) -> Result<(), CommitError> {
        let n_ops = self.ops.len().max(self.checks.len());
        if n_ops > MAX_TXN_OPS {
            return Err(CommitError::TooManyOps { n_ops });
        }
        let n_bytes = self.bytes();
        if n_bytes > MAX_TXN_BYTES {
            return Err(CommitError::TooLarge { n_bytes });
        }
        let keys = self.ops.iter().map(|op| &op.key).chain(self.checks.iter().map(|(key, _)| key));
        for key in keys {
            if key.is_empty() || key.len() > MAX_KEY_BYTES {
                return Err(CommitError::BadKey { key: key.clone() });
            }
        }
        if let [_] | [] = self.ops[..] {
            return Ok(());
        }
        let mut seen = HashSet::with_capacity(self.ops.len());
        match self.ops.iter().find(|op| !seen.insert(&op.key)) {
            Some(op) => Err(CommitError::DuplicateKey { key: op.key.clone() }),
            None => Ok(()),
        }
    }

    /// The preconditions that do not hold over what `lookup` finds.
    pub(crate) fn mismatches(&self, lookup: impl Fn(&Key) -> Option<Arc<Entry>>) -> Vec<Mismatch> {
        let mut found = Vec::new();
        for (key, expected) in &self.checks {
            let actual = lookup(key);
            if !expected.holds(actual.as_ref().map(|entry| entry.revision)) {
                found.push(Mismatch { key: key.clone(), expected: *expected, actual });
            }
        }
        found
    }
}

/// A precondition that did not hold, and what is there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The key in question.
    pub key: Key,
    /// What the transaction expected.
    pub expected: Expect,
    /// What is there now; `None` when the key does not exist.
    pub actual: Option<Arc<Entry>>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { key, expected, actual } = self;
        match actual {
            Some(entry) => write!(f, "key {key} is at revision {}, expected {expected}", entry.revision),
            None => write!(f, "key {key} does not exist, expected {expected}"),
        }
    }
}

/// Why a transaction did not happen, or may not have.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Preconditions did not hold. Nothing was written; look at what is there and decide again.
    #[error("{}", .0.iter().map(Mismatch::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Mismatch>),
    /// A key stands twice among the changes. Nothing was written.
    #[error("key {key} is changed twice in one transaction")]
    DuplicateKey {
        /// The key that stands twice.
        key: Key,
    },
    /// A key is empty or too long. Nothing was written.
    #[error("key {key} has {} bytes, expected 1 to {MAX_KEY_BYTES}", key.len())]
    BadKey {
        /// The key in question.
        key: Key,
    },
    /// Too many operations or preconditions. Nothing was written.
    #[error("transaction has {n_ops} operations, at most {MAX_TXN_OPS} are allowed")]
    TooManyOps {
        /// How many there were.
        n_ops: usize,
    },
    /// Too many bytes. Nothing was written.
    #[error("transaction has {n_bytes} bytes, at most {MAX_TXN_BYTES} are allowed")]
    TooLarge {
        /// How many there were.
        n_bytes: usize,
    },
    /// The disk is full. Nothing was written; the store takes writes again once there is room.
    #[error("no space left for {needed_bytes} more bytes of log")]
    NoSpace {
        /// What the log asked the disk for.
        needed_bytes: u64,
    },
    /// The store could not be reached, or let nobody in. Nothing was written; try again.
    #[error("the store did not take the transaction: {0}")]
    Unavailable(Arc<str>),
    /// The store stopped after a disk error, or never answered: the change may or may not be durable. Read
    /// it back to find out.
    #[error("the outcome of the transaction is unknown: {0}")]
    Unknown(Arc<str>),
    /// The store is closed, or stopped by an earlier failure. Nothing was written.
    #[error("the store takes no more writes: {0}")]
    Stopped(Arc<str>),
}
