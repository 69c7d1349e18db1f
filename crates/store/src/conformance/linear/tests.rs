//! The checker has teeth: stores that break their word are found out.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;

use super::{Load, Outcome, Recording, Violation, What, check, record};
use crate::{CommitError, Memory, Read, ReadError, Revision, Snapshot, Store, Txn, Watch, Window};

/// How a store breaks its word.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Answers `Latest` from a little while ago.
    StaleSnapshot,
    /// Acknowledges what it did not write.
    LostUpdate,
    /// Reads one half of the keys from one state and the other half from another.
    TornRange,
    /// Acknowledges a transaction, and makes it only after the next one.
    Reordered,
    /// Makes a transaction of several keys in two steps.
    TornTransaction,
    /// Ignores preconditions.
    BlindWrite,
    /// Refuses and blames what is not there.
    FalseRefusal,
    /// Says it does not know, though it does: the one fault that is none.
    Forgetful,
}

/// A memory store that goes wrong in every tenth call or so.
struct Faulty {
    inner: Memory,
    fault: Fault,
    n_calls: AtomicU64,
    put_off: std::sync::Mutex<Option<Txn>>,
}

impl Faulty {
    fn new(fault: Fault) -> Arc<Self> {
        let inner = Memory::new().expect("a thread can be spawned");
        Arc::new(Faulty { inner, fault, n_calls: AtomicU64::new(0), put_off: Default::default() })
    }

    fn strikes(&self, fault: Fault) -> bool {
        self.fault == fault && self.n_calls.fetch_add(1, Ordering::Relaxed) % 10 == 9
    }

    fn put_off(&self, txn: Option<Txn>) -> Option<Txn> {
        std::mem::replace(&mut *self.put_off.lock().expect("nothing panics here"), txn)
    }
}

#[async_trait]
impl Store for Faulty {
    async fn commit(&self, mut txn: Txn) -> Result<Revision, CommitError> {
        if !txn.ops.is_empty() && txn.checks.is_empty() && self.strikes(Fault::LostUpdate) {
            return Ok(self.inner.window().head.next());
        }
        if self.strikes(Fault::BlindWrite) {
            txn.checks.clear();
        }
        if txn.ops.len() > 1 && self.strikes(Fault::TornTransaction) {
            let rest = Txn { checks: Vec::new(), ops: txn.ops.split_off(1) };
            self.inner.commit(txn).await?;
            return self.inner.commit(rest).await;
        }
        if self.fault == Fault::Reordered {
            if let Some(earlier) = self.put_off(None) {
                let outcome = self.inner.commit(txn).await;
                let _ = self.inner.commit(earlier).await;
                return outcome;
            }
            if !txn.ops.is_empty() && txn.checks.is_empty() && self.strikes(Fault::Reordered) {
                self.put_off(Some(txn));
                return Ok(self.inner.window().head.next());
            }
        }
        match self.inner.commit(txn).await {
            Ok(_) if self.strikes(Fault::Forgetful) => Err(CommitError::Unknown("forgot".into())),
            Err(CommitError::Refused(mut mismatches)) if self.strikes(Fault::FalseRefusal) => {
                for mismatch in &mut mismatches {
                    mismatch.actual = None;
                }
                Err(CommitError::Refused(mismatches))
            }
            outcome => outcome,
        }
    }

    async fn snapshot(&self, read: Read) -> Result<Snapshot, ReadError> {
        let window = self.inner.window();
        let earlier = Revision::new(window.head.get().saturating_sub(3).max(window.floor.get()));
        if read == Read::Latest && self.strikes(Fault::StaleSnapshot) {
            return self.inner.snapshot(Read::At(earlier)).await;
        }
        if read == Read::Latest && self.strikes(Fault::TornRange) {
            return Ok(torn(&self.inner, earlier, window.head));
        }
        self.inner.snapshot(read).await
    }

    async fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watch, ReadError> {
        if let Some(earlier) = self.put_off(None) {
            let _ = self.inner.commit(earlier).await;
        }
        self.inner.watch(prefix, after).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), ReadError> {
        self.inner.compact(revision).await
    }

    fn window(&self) -> Window {
        self.inner.window()
    }

    async fn stopped(&self) -> Arc<str> {
        self.inner.stopped().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// A snapshot of `head` in which the lower half of the keys is as it was at `earlier`.
fn torn(store: &Memory, earlier: Revision, head: Revision) -> Snapshot {
    let tables = store.tables();
    let old = tables.snapshot(Some(earlier)).expect("inside the window");
    let mut state = tables.state().clone();
    let middle: &[u8] = b"key-5";
    state.live = state.live.into_iter().filter(|(key, _)| **key >= *middle).collect();
    for entry in old.iter(b"", None).filter(|entry| *entry.key < *middle) {
        state.live.insert(entry.key.clone(), entry.clone());
    }
    let at = state.head.max(head);
    Snapshot::new(state, at)
}

async fn recording(fault: Fault) -> Recording {
    record(Faulty::new(fault), Load { n_clients: 8, n_calls: 200, n_keys: 10, seed: 1 }).await
}

async fn violation(fault: Fault) -> Violation {
    match check(&recording(fault).await) {
        Err(violation) => violation,
        Ok(()) => panic!("{fault:?} was not found out"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_correct_store_is_found_correct_and_was_kept_busy() {
    let recording = recording(Fault::None).await;
    assert_eq!(check(&recording), Ok(()));
    let count = |matches: fn(&Outcome) -> bool| {
        let outcomes = recording.calls.iter().filter_map(|call| match &call.what {
            What::Commit { outcome, .. } => Some(outcome),
            _ => None,
        });
        outcomes.filter(|outcome| matches(outcome)).count()
    };
    // A load in which nothing collides would prove nothing.
    assert!(count(|outcome| matches!(outcome, Outcome::Done(_))) > 300);
    assert!(count(|outcome| matches!(outcome, Outcome::Refused(_))) > 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn unknown_outcomes_are_explained_by_the_history() {
    let recording = recording(Fault::Forgetful).await;
    let unknown = |call: &&super::Call| matches!(&call.what, What::Commit { outcome: Outcome::Unknown, .. });
    assert!(recording.calls.iter().filter(unknown).count() > 10);
    assert_eq!(check(&recording), Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stale_snapshot_is_found() {
    assert!(matches!(violation(Fault::StaleSnapshot).await, Violation::Stale { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_update_is_found() {
    assert!(matches!(violation(Fault::LostUpdate).await, Violation::Lost(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_torn_range_is_found() {
    assert!(matches!(violation(Fault::TornRange).await, Violation::Untrue(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reordered_transactions_are_found() {
    assert!(matches!(violation(Fault::Reordered).await, Violation::Lost(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_torn_transaction_is_found() {
    assert!(matches!(violation(Fault::TornTransaction).await, Violation::Lost(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_that_ignores_its_checks_is_found() {
    assert!(matches!(violation(Fault::BlindWrite).await, Violation::Lost(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_refusal_without_a_reason_is_found() {
    assert!(matches!(violation(Fault::FalseRefusal).await, Violation::Unexplained { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_revision_that_nobody_asked_for_is_found() {
    let mut recording = recording(Fault::None).await;
    let is_write = |call: &super::Call| match &call.what {
        What::Commit { plan, outcome: Outcome::Done(_) } => !plan.changes.is_empty(),
        _ => false,
    };
    let idx = recording.calls.iter().position(is_write).expect("somebody has written");
    recording.calls.swap_remove(idx);
    assert!(matches!(check(&recording), Err(Violation::Invented(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_revision_given_out_twice_is_found() {
    let mut recording = recording(Fault::None).await;
    let is_write = |call: &&super::Call| match &call.what {
        What::Commit { plan, outcome: Outcome::Done(_) } => !plan.changes.is_empty(),
        _ => false,
    };
    let again = recording.calls.iter().find(is_write).expect("somebody has written").clone();
    recording.calls.push(again);
    assert!(matches!(check(&recording), Err(Violation::Twice(_))));
}
