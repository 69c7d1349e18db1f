//! The store from outside: every engine against the suites of `windlass_store::conformance`.

mod conformance;
mod harness;
mod linearizability;
mod model;
