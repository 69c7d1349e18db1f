//! The store from outside: every engine against the suites of `windlass_store::conformance`.

mod conformance;
mod formats;
mod harness;
mod kill;
mod linearizability;
mod model;
