//! The store's counter: one increasing integer for everything, never given out twice.

use std::fmt;

/// A point in the store's history. Every effective transaction gets a higher one than all before it.
///
/// Engines may leave gaps (etcd counts writes outside our prefix, a restore jumps ahead), so nothing may
/// assume that the next revision is this one plus one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// What an empty store stands at. Not zero: Kubernetes gives "0" a meaning of its own.
    pub const FIRST: Revision = Revision(1);
    /// Before everything; no store ever stands here.
    pub const ZERO: Revision = Revision(0);

    /// The revision with this number.
    pub const fn new(number: u64) -> Self {
        Revision(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
