//! Compaction in the background: old revisions leave etcd an interval after they were the newest.
//!
//! Every server on an etcd tries every interval, and one of them gets to do it: they share a key outside any
//! prefix whose version counts the rounds. It is Kubernetes' key and its protocol, so kube-apiservers on the
//! same etcd and we take turns. Start at [`run`].

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::sleep;

use super::{
    Shared,
    client::Client,
    failure::Failure,
    keyspace::{number_of, revision_from},
    wire::{CompactionRequest, Compare, PutRequest, RangeRequest, Request, RequestOp, Response, TxnRequest},
};
use crate::Revision;

/// The key all servers on one etcd agree on.
const ROUND_KEY: &[u8] = b"compact_rev_key";

/// What a server remembers from one interval to the next.
#[derive(Debug, Default)]
struct Round {
    /// The version of the key after the last round we know of.
    version: i64,
    /// Where etcd stood then. `None` before our first round: nothing is known to be an interval old.
    revision: Option<Revision>,
}

/// Takes part in compaction until the store stops.
pub(super) async fn run(shared: Arc<Shared>, interval: Duration) {
    let mut round = Round::default();
    loop {
        match round.advance(&shared.client).await {
            Ok(Some(revision)) => tracing::debug!(revision = revision.get(), "compacted etcd"),
            Ok(None) => {}
            Err(failure) => {
                shared.look_at(&failure);
                tracing::warn!(%failure, "cannot compact etcd; trying again in an interval");
            }
        }
        sleep(interval).await;
    }
}

impl Round {
    /// Tries to open the next round; whoever succeeds compacts to where etcd stood in the last one.
    async fn advance(&mut self, client: &Client) -> Result<Option<Revision>, Failure> {
        let key = Bytes::from_static(ROUND_KEY);
        let value = Bytes::from(self.revision.unwrap_or_default().to_string());
        let read = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        let op = |request| vec![RequestOp { request: Some(request) }];
        let answer = client
            .call(TxnRequest {
                compare: vec![Compare::version(key.clone(), self.version)],
                success: op(Request::Put(PutRequest { key, value })),
                failure: op(Request::Range(read)),
            })
            .await?;
        let revision = revision_from(answer.header.unwrap_or_default().revision);
        let due = self.revision.replace(revision).filter(|_| answer.succeeded);
        self.version = match answer.responses.first().and_then(|op| op.response.as_ref()) {
            Some(Response::Range(range)) => range.kvs.first().map_or(0, |kv| kv.version),
            _ => self.version + 1,
        };
        let Some(due) = due else { return Ok(None) };
        compact(client, due).await?;
        Ok(Some(due))
    }
}

/// Makes `revision` the oldest that etcd can read. No error if it has gone further already.
pub(super) async fn compact(client: &Client, revision: Revision) -> Result<(), Failure> {
    match client.call(CompactionRequest { revision: number_of(revision) }).await {
        Err(failure) if failure.is_compacted() => Ok(()),
        compacted => compacted.map(|_| ()),
    }
}
