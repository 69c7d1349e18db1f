//! How the cases touch a store: short calls that must succeed, within a deadline.

use std::{future::Future, time::Duration};

use bytes::Bytes;

use super::plan::{self, Contents};
use crate::{CommitError, Expect, Key, Mismatch, Read, Revision, Snapshot, Store, Txn};

/// Longest wait for what must happen. Only a failure waits this long, so it is generous to slow machines.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// What `future` yields, which must be before the deadline.
pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {DEADLINE:?}"),
    }
}

pub(super) async fn commit(store: &dyn Store, txn: Txn) -> Revision {
    match within("a commit", store.commit(txn.clone())).await {
        Ok(revision) => revision,
        Err(err) => panic!("{txn:?} failed: {err}"),
    }
}

pub(super) async fn put(store: &dyn Store, key: impl Into<Key>, value: impl Into<Bytes>) -> Revision {
    commit(store, Txn::new().put(key, value, Expect::Any)).await
}

pub(super) async fn delete(store: &dyn Store, key: impl Into<Key>) -> Revision {
    commit(store, Txn::new().delete(key, Expect::Any)).await
}

/// Commits what must be refused, and returns why it was.
pub(super) async fn refused(store: &dyn Store, txn: Txn) -> Vec<Mismatch> {
    match within("a refusal", store.commit(txn.clone())).await {
        Err(CommitError::Refused(mismatches)) => mismatches,
        other => panic!("{txn:?} was not refused but {other:?}"),
    }
}

pub(super) async fn snapshot(store: &dyn Store, read: Read) -> Snapshot {
    match within("a snapshot", store.snapshot(read)).await {
        Ok(snapshot) => snapshot,
        Err(err) => panic!("no snapshot at {read:?}: {err}"),
    }
}

pub(super) async fn latest(store: &dyn Store) -> Snapshot {
    snapshot(store, Read::Latest).await
}

pub(super) async fn contents(store: &dyn Store, read: Read) -> Contents {
    plan::contents(&snapshot(store, read).await)
}

/// The revision the store stands at.
pub(super) async fn head(store: &dyn Store) -> Revision {
    latest(store).await.revision()
}

pub(super) async fn compact(store: &dyn Store, revision: Revision) {
    if let Err(err) = within("a compaction", store.compact(revision)).await {
        panic!("compaction to {revision} failed: {err}");
    }
}
