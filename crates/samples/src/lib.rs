//! Reconcilers that teach how reconcilers are written, and do something real.
//!
//! - [`foo`] looks after another object, and tells in its status what has become of that one.
//! - [`network`] looks after something outside of the cluster: a network in [`neutron`].
//! - [`at`] waits for a time.
//! - [`redis_migration`] moves the keys of one Redis server to another, as a phase machine.
//!
//! Each has a `REGISTRATION`, and [`REGISTRATIONS`] are all of them. They watch [`readable`] objects, so that one that
//! makes no sense harms nobody but itself.

pub mod at;
pub mod foo;
pub mod network;
pub mod neutron;
pub mod readable;
pub mod redis_migration;

use windlass_runtime::Registration;

/// All of them: what a hub has to offer.
pub const REGISTRATIONS: &[Registration] =
    &[foo::REGISTRATION, network::REGISTRATION, at::REGISTRATION, redis_migration::REGISTRATION];
