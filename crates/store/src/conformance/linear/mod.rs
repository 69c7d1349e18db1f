//! Linearizability: what concurrent clients saw must have an order that explains all of it.
//!
//! [`record`] lets clients read, range and transact at will and notes every call with the moments it was made
//! and answered. [`check`] then looks for the order. A general search (Wing and Gong's, as in porcupine) is
//! not needed and would see less: commits return their revision, snapshots carry theirs, and the store can
//! tell its whole history, so the order is not searched for but claimed by the store, and only has to be held
//! against the calls. If the claimed order is legal and agrees with real time, the history is linearizable by
//! definition; and where another order might have explained the answers, the store has still broken its word
//! about revisions. This takes time linear in the history, over all keys at once, and an unknown outcome costs
//! nothing, as the history says whether it happened. Start at [`run`].

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
