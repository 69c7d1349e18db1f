//! Controllers on kube-rs, with what client-go and controller-runtime give to Go.
//!
//! - [`informer`]: one watch for everyone who wants to know about a kind, with caches and indexes.
//! - [`queue`]: keys for workers, each for one at a time, with back-off and priorities.
//! - [`controller`]: from changes to keys to reconciles.
//! - [`metrics`]: what is counted.

pub mod controller;
pub mod informer;
mod key;
pub mod metrics;
pub mod queue;

pub use self::{
    controller::{Action, Controller, Feed, ReconcileError, Reconciler},
    informer::{Cache, Change, Informer, Informers, Scope, Subscription},
    key::{Key, KeyError},
    queue::{Limits, Priority, Queue},
};
