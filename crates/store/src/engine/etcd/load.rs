//! Loading: the whole prefix as of one revision, to begin with or to begin anew.
//!
//! A fixed revision makes the pages of a load fit together whatever is written meanwhile, and makes the watch
//! that follows take over without a gap. A process that starts goes as far back as its retention asks and
//! etcd still knows, so that watchers of an earlier process find their place. Start at [`oldest`].

use std::{collections::BTreeMap, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    client::Client,
    failure::Failure,
    keyspace::{Found, Keyspace, number_of, revision_from},
    wire::{KeyValue, RangeRequest, RangeResponse, WatchCreateRequest},
};
use crate::{Key, Revision, UnsealError, tables::State};

/// What a load has found.
pub(super) struct Loaded {
    pub(super) state: State,
    /// What is not sealed as it would be now.
    pub(super) stale: BTreeMap<Key, Revision>,
}

/// Why nothing was loaded.
pub(super) enum LoadError {
    /// etcd did not answer as it should.
    Failed(Failure),
    /// A value cannot be opened.
    Sealed(UnsealError),
}

impl From<Failure> for LoadError {
    fn from(failure: Failure) -> Self {
        LoadError::Failed(failure)
    }
}

impl From<UnsealError> for LoadError {
    fn from(error: UnsealError) -> Self {
        LoadError::Sealed(error)
    }
}

impl LoadError {
    fn is_compacted(&self) -> bool {
        matches!(self, LoadError::Failed(failure) if failure.is_compacted())
    }
}

/// Bytes to ask for at once: enough to make round trips cheap, little enough that etcd answers others between.
const PAGE_BYTES: usize = 4 << 20;

/// Entries of the first page, when nothing is known of their size. etcd takes at most 1.5 MiB per entry by
/// default, so this is memory that can be had.
const FIRST_PAGE: usize = 100;

/// Most entries of a page. etcd's own compaction and snapshots work in steps of the same order.
const MAX_PAGE: usize = 2000;

/// How often to follow a compaction that overtakes the load before asking for the newest revision instead.
const MAX_CHASES: usize = 3;

/// Loads the oldest state that can be had, but not from more than `max_changes` revisions ago.
pub(super) async fn oldest(
    client: &Client,
    keys: &Keyspace,
    max_changes: usize,
) -> Result<Loaded, LoadError> {
    let head = newest_revision(client, keys).await?;
    let back = u64::try_from(max_changes).unwrap_or(u64::MAX);
    let mut at = Revision::new(head.get().saturating_sub(back)).max(Revision::FIRST);
    for _ in 0..MAX_CHASES {
        match load(client, keys, at).await {
            Err(error) if error.is_compacted() => at = first_readable(client, keys, at).await?,
            // From before the keys were changed. It is enough if what is there now can be opened.
            Err(LoadError::Sealed(_)) => break,
            loaded => return loaded,
        }
    }
    newest(client, keys).await
}

/// Loads the newest state.
pub(super) async fn newest(client: &Client, keys: &Keyspace) -> Result<Loaded, LoadError> {
    loop {
        let at = newest_revision(client, keys).await?;
        match load(client, keys, at).await {
            // Only a load that took longer than the compaction interval gets here.
            Err(error) if error.is_compacted() => continue,
            loaded => return loaded,
        }
    }
}

/// Where etcd stands: at or after everything that was acknowledged, to anyone, before this was called.
pub(super) async fn newest_revision(client: &Client, keys: &Keyspace) -> Result<Revision, Failure> {
    let request = RangeRequest { key: keys.marker(), count_only: true, ..Default::default() };
    let header = client.call(request).await?.header.unwrap_or_default();
    Ok(revision_from(header.revision))
}

/// Loads the state at one revision, page by page.
async fn load(client: &Client, keys: &Keyspace, at: Revision) -> Result<Loaded, LoadError> {
    let mut state = State::empty(at);
    let mut stale = BTreeMap::new();
    let mut start = keys.start();
    let mut limit = FIRST_PAGE;
    loop {
        let request = RangeRequest {
            key: start,
            range_end: keys.end(),
            limit: limit as i64,
            revision: number_of(at),
            count_only: false,
        };
        let RangeResponse { kvs, more, .. } = client.call(request).await?;
        let n_bytes: usize = kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
        for kv in &kvs {
            let Some(Found { entry, is_current }) = keys.find(kv)? else { continue };
            if !is_current {
                stale.insert(entry.key.clone(), entry.revision);
            }
            state.load(Arc::new(entry));
        }
        let Some(last) = kvs.last().filter(|_| more) else { return Ok(Loaded { state, stale }) };
        start = key_after(last);
        limit = (PAGE_BYTES / (n_bytes / kvs.len()).max(1)).clamp(1, MAX_PAGE);
    }
}

/// The oldest revision that can still be read, given one that cannot.
async fn first_readable(client: &Client, keys: &Keyspace, gone: Revision) -> Result<Revision, Failure> {
    // Only a watch is told where history begins. This one follows a key that no history is read from.
    let create = WatchCreateRequest {
        key: keys.marker(),
        start_revision: number_of(gone),
        ..WatchCreateRequest::default()
    };
    let mut stream = client.watch(create).await?;
    loop {
        let response = stream.next_before_timeout().await?;
        if response.compact_revision > 0 {
            return Ok(revision_from(response.compact_revision));
        }
        if response.canceled {
            return Err(stream.canceled(&response));
        }
    }
}

/// The first key after this one.
fn key_after(kv: &KeyValue) -> Bytes {
    let mut next = BytesMut::with_capacity(kv.key.len() + 1);
    next.put_slice(&kv.key);
    next.put_u8(0);
    next.freeze()
}
