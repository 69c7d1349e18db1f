//! Controllers on kube-rs, with what client-go and controller-runtime give to Go.
//!
//! - [`informer`]: one watch for everyone who wants to know about a kind, with caches and indexes.
//! - [`queue`]: keys for workers, each for one at a time, with back-off and priorities.
//! - [`controller`]: from changes to keys to reconciles.
//! - [`election`]: one acts, of several who could.
//! - [`events`]: what people read in `kubectl describe`.
//! - [`manager`]: runs controllers, and says how they are.
//! - [`registry`]: what a reconciler says of itself, and is given.
//! - [`config`]: what a hub is told.
//! - [`metrics`]: what is counted.
//! - [`pages`]: a small HTTP server for it.
//! - [`phase`]: work that goes through phases, and survives the end of the process.

pub mod config;
pub mod controller;
pub mod election;
pub mod events;
pub mod informer;
mod key;
pub mod manager;
pub mod metrics;
pub mod pages;
pub mod phase;
pub mod queue;
pub mod registry;
#[cfg(test)]
mod testing;

pub use self::{
    config::{HubConfig, ReconcilerConfig},
    controller::{Action, Controller, Feed, ReconcileError, Reconciler},
    election::{Election, Leadership},
    events::{Events, Recorder},
    informer::{Cache, Change, Informer, Informers, Scope, Subscription},
    key::{Key, KeyError},
    manager::{ConfigError, ControllerStatus, Manager},
    phase::GraphFormat,
    queue::{Limits, Priority, Queue},
    registry::{BuildError, Context, NotLeading, Registration},
};
