//! Calls that fail while the engine runs: which, with what, and how much was done all the same.

use std::io;

/// Input/output error.
pub(crate) const EIO: i32 = 5;
/// No space left on device; [`io::ErrorKind::StorageFull`].
pub(crate) const ENOSPC: i32 = 28;

/// A method of [`crate::Disk`] or [`crate::DiskFile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// [`crate::Disk::list`]
    List,
    /// [`crate::Disk::open`]
    Open,
    /// [`crate::DiskFile::len`]
    Len,
    /// [`crate::DiskFile::read_at`]
    Read,
    /// [`crate::Disk::create`]
    Create,
    /// [`crate::Disk::rename`]
    Rename,
    /// [`crate::Disk::remove`]
    Remove,
    /// [`crate::Disk::sync_names`]
    SyncNames,
    /// [`crate::DiskFile::write_at`]
    Write,
    /// [`crate::DiskFile::set_len`]
    SetLen,
    /// [`crate::DiskFile::sync`]
    Sync,
}

/// All calls.
pub(crate) const CALLS: &[Call] = &[
    Call::List,
    Call::Open,
    Call::Len,
    Call::Read,
    Call::Create,
    Call::Rename,
    Call::Remove,
    Call::SyncNames,
    Call::Write,
    Call::SetLen,
    Call::Sync,
];

/// The calls that change the disk, or what is durable on it.
const CHANGES: &[Call] =
    &[Call::Create, Call::Rename, Call::Remove, Call::SyncNames, Call::Write, Call::SetLen, Call::Sync];

/// How much of a failing call is done before it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing. A failed sync, besides, marks what it did not write as clean.
    Nothing,
    /// Of a write, so many percent of its bytes; of any other call, nothing.
    Part(u8),
    /// All of it: only the answer is wrong.
    Everything,
}

/// An error to come: the n-th of some calls fails, and perhaps all after it.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    among: &'static [Call],
    /// How many of the calls go well before one fails.
    spared: u64,
    lasting: bool,
    errno: i32,
    done: Done,
    fired: bool,
}

impl Fault {
    /// Fails one of the [`CHANGES`], after `spared` that went well.
    pub(crate) fn once(spared: u64, errno: i32) -> Self {
        Fault { among: CHANGES, spared, lasting: false, errno, done: Done::Nothing, fired: false }
    }

    /// Fails all of the [`CHANGES`], after `spared` that went well.
    pub(crate) fn lasting(spared: u64, errno: i32) -> Self {
        Fault { lasting: true, ..Fault::once(spared, errno) }
    }

    /// Counts and fails these calls instead of the [`CHANGES`].
    pub(crate) fn among(self, among: &'static [Call]) -> Self {
        Fault { among, ..self }
    }

    /// Has the failing calls do this much instead of [`Done::Nothing`].
    pub(crate) fn having_done(self, done: Done) -> Self {
        Fault { done, ..self }
    }

    /// Whether a call has failed.
    pub(super) fn has_fired(&self) -> bool {
        self.fired
    }

    /// Whether this call fails, and how.
    pub(super) fn strike(&mut self, call: Call) -> Option<(Done, io::Error)> {
        if !self.among.contains(&call) || self.fired && !self.lasting {
            return None;
        }
        if self.spared > 0 {
            self.spared -= 1;
            return None;
        }
        self.fired = true;
        Some((self.done, io::Error::from_raw_os_error(self.errno)))
    }
}
