//! The contract. Read this first.
//!
//! A store maps keys to values and counts its changes: every transaction that changes anything gets a
//! [`Revision`] above all earlier ones, and everything it changed carries that revision. The recent past, the
//! [`Window`], stays readable and watchable. All engines keep the same contract; `crate::conformance` (feature
//! `testing`) is the proof.
//!
//! Promises:
//! - **Durable.** When [`Store::commit`] returns `Ok`, the change survives any crash. When it returns
//!   [`CommitError::Unknown`], it may or may not; every other error means that nothing was written.
//! - **Linearizable.** A snapshot taken with [`Read::Latest`] contains every transaction that was
//!   acknowledged, by anyone, before it was asked for.
//! - **Never twice.** A revision is never given out again, not after a crash, not after a restore.
//! - **Watches** deliver every change of the prefix exactly once and in order, all changes of a revision
//!   together, or end with [`ReadError::Compacted`]. A watcher that does not read costs no memory and delays
//!   nobody: it is cut off when what it has not read leaves the window.

use async_trait::async_trait;

use crate::{CommitError, Revision, Snapshot, Txn, Watch, Window};

/// Which state a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The newest: everything acknowledged before now.
    Latest,
    /// Whatever this process has seen so far. Never waits; may be behind other writers.
    Seen,
    /// The state at this revision, which must be inside the window.
    At(Revision),
}

/// Revisioned keys. See the [module](self) for what every engine promises.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Makes all changes of `txn` at one new revision, if all its preconditions hold.
    ///
    /// A transaction that changes nothing (only preconditions, or deletes of absent keys) gets the current
    /// revision and makes no new one. Dropping the future leaves open whether the transaction happens.
    async fn commit(&self, txn: Txn) -> Result<Revision, CommitError>;

    /// Takes a consistent view of everything. Cheap, and it never blocks a writer.
    async fn snapshot(&self, read: Read) -> Result<Snapshot, ReadError>;

    /// Follows the keys that start with `prefix`, from the first change after `after` on.
    async fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watch, ReadError>;

    /// Forgets history: afterwards `revision` is the oldest that can be read. What is live stays.
    ///
    /// Compacting to where the window begins already is no error; above the head is.
    async fn compact(&self, revision: Revision) -> Result<(), ReadError>;

    /// What this process can read without asking anyone.
    fn window(&self) -> Window;

    /// Resolves when the store has stopped, by [`Store::close`] or by a failure, with the reason. A stopped
    /// store acknowledges nothing more.
    async fn stopped(&self) -> std::sync::Arc<str>;

    /// How much is still to be written anew because it is not sealed with the current key: parts of an embedded
    /// store, keys in etcd. Zero when old keys can be taken away.
    fn to_reseal(&self) -> u64 {
        0
    }

    /// Finishes what has been accepted, then stops. Watches end with [`ReadError::Stopped`]; what is in memory
    /// can still be read.
    async fn close(&self);
}

/// Why something cannot be read or watched.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// That part of history is gone; list anew and go on from there.
    #[error("revision {requested} has been compacted, the oldest readable one is {floor}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// Where the window begins.
        floor: Revision,
    },
    /// That revision does not exist yet.
    #[error("revision {requested} is in the future, the newest is {head}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// Where the window ends.
        head: Revision,
    },
    /// The newest state could not be confirmed; try again.
    #[error("the store did not answer: {0}")]
    Unavailable(std::sync::Arc<str>),
    /// The store is closed, or stopped by a failure.
    #[error("the store has stopped: {0}")]
    Stopped(std::sync::Arc<str>),
}
