//! Commits: one transaction of ours is one transaction of etcd.
//!
//! etcd compares, writes, and in case of a refusal reads what is there instead, all at one revision. An answer
//! is final either way; no answer means that nobody knows. The tables are not touched here: the change comes
//! back through the feed, and the writer waits for it, so that it reads its own writes. Start at [`commit`].

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::{
    Shared,
    failure::Failure,
    feed::{described, went_back},
    keyspace::{Found, Keyspace, number_of, revision_from},
    wire::{
        Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, RangeRequest, Request, RequestOp,
        Response, ResponseOp, TxnRequest, TxnResponse,
    },
};
use crate::{CommitError, Entry, Expect, Key, Mismatch, ReadError, Revision, Txn, UnsealError};

/// What etcd takes in one request by default. Larger ones go without the reads for the case of a refusal, which
/// are made afterwards then.
const MAX_REQUEST_BYTES: usize = 1536 * 1024 - 512;

/// Makes the changes of `txn`, if its preconditions hold.
pub(super) async fn commit(shared: &Shared, txn: &Txn) -> Result<Revision, CommitError> {
    if txn.ops.is_empty() && txn.checks.is_empty() {
        return current(shared).await;
    }
    let deadline = Instant::now() + shared.request_timeout;
    let seen = shared.tables.window().head;
    let mut message = request(&shared.keys, txn);
    if message.encoded_len() > MAX_REQUEST_BYTES {
        message.failure.clear();
    }
    let answer = shared.client.call(message).await;
    let answer = answer.map_err(|failure| refusal(shared, txn, &failure))?;
    let revision = revision_from(answer.header.unwrap_or_default().revision);
    if revision < seen {
        let reason = went_back(seen, Some(revision));
        shared.hub.stop(&reason);
        return Err(CommitError::Unknown(reason.into()));
    }
    if !answer.succeeded {
        let there = match answer.responses.is_empty() {
            true => read_checked(shared, txn, revision).await?,
            false => answer,
        };
        let mismatches = mismatches(&shared.keys, txn, there);
        return Err(mismatches.map_or_else(unreadable, CommitError::Refused));
    }
    let seen = match had_effect(&answer) {
        true => shared.reached(revision, deadline).await,
        false => shared.catch_up(revision, deadline).await,
    };
    match seen {
        // Stopped while waiting: etcd may not be the one that this process has followed.
        Err(ReadError::Stopped(reason)) => Err(CommitError::Unknown(reason)),
        // Written is written. Whoever must see it in the tables reads the latest and waits there.
        Ok(()) | Err(_) => Ok(revision),
    }
}

/// The revision of a transaction that asks for nothing. etcd would answer that one from memory, however old.
async fn current(shared: &Shared) -> Result<Revision, CommitError> {
    match shared.confirm().await {
        Ok(()) => Ok(shared.tables.window().head),
        Err(ReadError::Stopped(reason)) => Err(CommitError::Stopped(reason)),
        Err(error) => Err(CommitError::Unavailable(error.to_string().into())),
    }
}

/// Reads what a transaction that was refused at `revision` found there.
async fn read_checked(shared: &Shared, txn: &Txn, revision: Revision) -> Result<TxnResponse, CommitError> {
    let mut reads = request(&shared.keys, txn).failure;
    for RequestOp { request } in &mut reads {
        if let Some(Request::Range(range)) = request {
            range.revision = number_of(revision);
        }
    }
    let answer = shared.client.call(TxnRequest { success: reads, ..TxnRequest::default() }).await;
    // Refused it was, so whatever happens to the reads, nothing was written.
    answer.map_err(|failure| CommitError::Unavailable(failure.to_string().into()))
}

fn request(keys: &Keyspace, txn: &Txn) -> TxnRequest {
    let op = |request| RequestOp { request: Some(request) };
    let mut message = TxnRequest::default();
    for (key, expect) in &txn.checks {
        let key = keys.outer(key);
        message.compare.extend(compare(&key, *expect));
        message.failure.push(op(Request::Range(RangeRequest { key, ..RangeRequest::default() })));
    }
    for change in &txn.ops {
        let key = keys.outer(&change.key);
        message.success.push(op(match &change.value {
            Some(value) => Request::Put(PutRequest { key, value: keys.value(&change.key, value) }),
            None => Request::Delete(DeleteRangeRequest { key }),
        }));
    }
    message
}

fn compare(key: &Bytes, expect: Expect) -> Option<Compare> {
    let revision = match expect {
        Expect::Any => return None,
        Expect::Absent => 0,
        // No key was ever written at revision zero, but that is what etcd says of keys that do not exist.
        Expect::At(Revision::ZERO) => -1,
        Expect::At(revision) => number_of(revision),
    };
    Some(Compare::mod_revision(key.clone(), revision))
}

fn mismatches(keys: &Keyspace, txn: &Txn, answer: TxnResponse) -> Result<Vec<Mismatch>, UnsealError> {
    let mut there: HashMap<Key, Arc<Entry>> = HashMap::new();
    for op in answer.responses {
        let Some(Response::Range(range)) = op.response else { continue };
        for kv in &range.kvs {
            let found = keys.find(kv)?;
            there.extend(found.map(|Found { entry, .. }| (entry.key.clone(), Arc::new(entry))));
        }
    }
    Ok(txn.mismatches(|key| there.get(key).cloned()))
}

/// Refused it was, but what is there instead cannot be told.
fn unreadable(error: UnsealError) -> CommitError {
    CommitError::Unavailable(described(&error).into())
}

/// Whether a transaction that succeeded got a revision of its own.
fn had_effect(answer: &TxnResponse) -> bool {
    answer.responses.iter().any(|ResponseOp { response }| {
        matches!(response, Some(Response::Put(_)))
            || matches!(response, Some(Response::Delete(DeleteRangeResponse { deleted: 1.. })))
    })
}

/// What to tell the writer when etcd did not answer as it should.
fn refusal(shared: &Shared, txn: &Txn, failure: &Failure) -> CommitError {
    shared.look_at(failure);
    if failure.is_too_large() {
        return CommitError::TooLarge { n_bytes: txn.bytes() };
    }
    match failure.had_no_effect() {
        true => CommitError::Unavailable(failure.to_string().into()),
        false => CommitError::Unknown(failure.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::Sealer;

    #[test]
    fn preconditions_become_comparisons_and_reads() {
        let keys = Keyspace::new("/registry/", Sealer(None));
        let txn = Txn::new()
            .put("a", "1", Expect::Absent)
            .delete("b", Expect::Any)
            .require("c", Expect::At(Revision::new(7)));
        let message = request(&keys, &txn);
        let outer = |key: &[u8]| keys.outer(key);
        assert_eq!(
            message.compare,
            [Compare::mod_revision(outer(b"a"), 0), Compare::mod_revision(outer(b"c"), 7)]
        );
        assert_eq!(message.success.len(), 2);
        assert_eq!(message.failure.len(), 2);
    }

    #[test]
    fn no_key_is_ever_at_revision_zero() {
        let key = Bytes::from_static(b"a");
        assert_eq!(compare(&key, Expect::At(Revision::ZERO)), Some(Compare::mod_revision(key.clone(), -1)));
    }
}
