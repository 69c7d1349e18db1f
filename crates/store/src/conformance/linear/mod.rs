//! Linearizability: what concurrent clients saw must have an order that explains all of it.
//!
//! [`record`] lets clients read, range and transact at will and notes every call with the moments it was made
//! and answered. [`check`] then looks for the order. It does not have to search: commits return their
//! revision, snapshots carry theirs, and the store can tell its whole history, so the order is claimed by the
//! store and only has to be held against the calls. If the claimed order is legal and agrees with real time,
//! the history is linearizable by definition; and where another order might have explained the answers, the
//! store has still broken its word about revisions. An unknown outcome costs nothing, as the history says
//! whether it happened.
//!
//! A general search (Wing and Gong's; `porcupine-rs` 0.3 was tried on these recordings, without unknown
//! outcomes) comes to the same verdicts, several times slower. It has no way to say that a call may never have
//! happened, and it brings a benchmark framework along as a dependency, so it is not used. Start at [`run`].

mod check;
mod record;
#[cfg(test)]
mod tests;

pub use self::{
    check::{Violation, check},
    record::{Call, Load, Outcome, Recording, What, record},
};

use super::Harness;

/// Records a history of a fresh store and checks it; panics when it is not linearizable.
pub async fn run(harness: &dyn Harness, load: Load) {
    let store = harness.fresh().await;
    let recording = record(store.clone(), load).await;
    if let Err(violation) = check(&recording) {
        panic!("with {load:?}: {violation}");
    }
    store.close().await;
}
