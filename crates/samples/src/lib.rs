//! Reconcilers that teach how reconcilers are written, and do something real.
//!
//! - [`redis_migration`]: moves the keys of one Redis server to another, as a phase machine.

pub mod redis_migration;
