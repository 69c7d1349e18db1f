//! Objects over the store: every read and every write of an object passes here.
//!
//! The registry knows rows, not kinds, and speaks no HTTP. Start at [`Registry::get`], [`Registry::create`],
//! [`Registry::update`] and [`Registry::delete`].

mod delete;
pub(crate) mod list;
mod parts;
pub(crate) mod render;
mod select;
mod served;
mod versions;
mod watch;
mod write;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use bytes::Bytes;
use tokio::time::Instant;
use windlass_machinery::{object::Object, stored::Stored};
use windlass_store::{Entry, Expect, Read, ReadError, Revision, Snapshot, Store};

pub(crate) use self::{
    delete::{DeleteOptions, Propagation},
    list::{ListOptions, Listing},
    parts::{get_path, holds_reserved, restrict_applied, set_path, unowned_before},
    render::{Rendering, convert, to_handled},
    select::{Selection, split_key},
    served::Served,
    versions::{Versions, with_value},
    watch::{Lines, WatchOptions, watch_stream},
    write::{Author, SET_BY_SERVER, Written, keep_metadata},
};
use crate::{
    access::Rights,
    admission::{Effects, Plugin, View},
    resources::{Catalog, Resource},
    status::{Outcome, Status},
};

/// How long a read waits for a revision that the store has not reached yet.
const FRESH_WITHIN: Duration = Duration::from_secs(3);

/// Objects over the store.
pub(crate) struct Registry {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) catalog: ArcSwap<Catalog>,
    pub(crate) plugins: Vec<Arc<dyn Plugin>>,
    /// What watchers share.
    pub(crate) lines: Arc<Lines>,
    /// How objects of custom kinds come into other versions.
    pub(crate) versions: Arc<Versions>,
    /// Who has which roles.
    pub(crate) rights: Arc<Rights>,
    /// Whether writes to an object itself may change everything, parts with a path of their own included.
    pub(crate) unrestricted: bool,
    /// How long a list can be gone on with.
    pub(crate) continue_ttl: Duration,
}

impl Registry {
    /// The store as it is now, and what is served.
    pub(crate) async fn view(&self) -> Outcome<View> {
        let snapshot = self.store.snapshot(Read::Latest).await.map_err(|error| read_failed(&error))?;
        Ok(View { snapshot, catalog: self.catalog.load_full() })
    }

    /// A snapshot that is as fresh as a `resourceVersion` without a match rule asks for.
    pub(crate) async fn fresh(&self, revision: Option<u64>) -> Outcome<Snapshot> {
        let read = match revision {
            None => Read::Latest,
            Some(_) => Read::Seen,
        };
        let wanted = revision.unwrap_or(0);
        let deadline = Instant::now() + FRESH_WITHIN;
        loop {
            let snapshot = self.store.snapshot(read).await.map_err(|error| read_failed(&error))?;
            let head = snapshot.revision().get();
            if head >= wanted {
                return Ok(snapshot);
            }
            if Instant::now() >= deadline {
                return Err(too_large_revision(wanted, head));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Writes one key that is as expected; false when it is not.
    pub(crate) async fn put(&self, key: String, value: Bytes, expect: Expect) -> Outcome<bool> {
        Ok(self.commit(key, Some(value), expect, Effects::default()).await?.is_ok())
    }

    /// One object in the form of the resource's version.
    pub(crate) async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        revision: Option<u64>,
    ) -> Outcome<Arc<Entry>> {
        let snapshot = self.fresh(revision).await?;
        let key = resource.key(namespace, name);
        let entry = snapshot.get(key.as_bytes()).ok_or_else(|| Status::not_found(resource, name))?;
        self.versions.show(resource, Arc::clone(entry)).await
    }
}

/// Parses an entry. What is stored was written by us, so it is an object.
pub(crate) fn parse(entry: &Entry) -> Outcome<Object> {
    parse_bytes(&entry.value, entry.revision)
}

pub(crate) fn parse_bytes(value: &Bytes, revision: Revision) -> Outcome<Object> {
    let object = Stored::new(value).and_then(|stored| stored.object(revision.get()));
    object.ok_or_else(|| Status::internal("a stored object cannot be read"))
}

/// A revision that the store has not reached.
pub(crate) fn too_large_revision(wanted: u64, head: u64) -> Box<Status> {
    let message = format!("Too large resource version: {wanted}, current: {head}");
    Status::timeout(message, 1).cause("ResourceVersionTooLarge", "Too large resource version")
}

/// What a client is told when a read fails.
pub(crate) fn read_failed(error: &ReadError) -> Box<Status> {
    match error {
        ReadError::Compacted { requested, floor } => {
            Status::expired(format!("too old resource version: {requested} ({floor})"))
        }
        ReadError::Future { requested, head } => too_large_revision(requested.get(), head.get()),
        other => Status::unavailable(other.to_string()),
    }
}
