//! The store from outside: every engine against the suites of `windlass_store::conformance`.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod conformance;
mod etcd_access;
mod etcd_faults;
mod etcd_history;
mod etcd_probe;
mod etcd_server;
mod formats;
mod harness;
mod kill;
mod linearizability;
mod model;
mod sealed;
