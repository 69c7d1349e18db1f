//! Revisioned keys: read, range, transact, watch, compact.
//!
//! The store knows nothing of objects or HTTP; it keeps bytes under keys and counts the changes. Three engines
//! keep one contract: [`Embedded`] on a directory, [`Etcd`] on a cluster, [`Memory`] for tests. All hold the
//! same tables in memory and serve every read and watch from there; they differ in how a commit becomes
//! durable. Called by the API server only. Start at [`contract`], then [`Store`].

pub mod contract;

#[cfg(feature = "testing")]
pub mod conformance;

mod change;
mod clock;
mod disk;
mod engine;
mod history;
mod key;
mod revision;
mod seal;
mod snapshot;
mod tables;
mod txn;
mod watch;

#[cfg(test)]
mod sim;

pub use change::{Change, Entry};
pub use clock::{Clock, SystemClock};
pub use contract::{Read, ReadError, Store};
pub use disk::{Directory, Disk, DiskFile};
pub use engine::{
    embedded::{Counters, DamageError, Embedded, OpenError, tools},
    etcd::{ConnectError, Etcd, EtcdConfig, EtcdIdentity, EtcdTls, EtcdUser},
    memory::Memory,
};
pub use history::Retention;
pub use key::Key;
pub use revision::Revision;
pub use seal::{Opened, Seal, SealError, UnsealError};
pub use snapshot::{Page, Snapshot, Window};
pub use txn::{CommitError, Expect, MAX_KEY_BYTES, MAX_TXN_BYTES, MAX_TXN_OPS, Mismatch, Txn};
pub use watch::{Delivery, Watch};

/// Runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
