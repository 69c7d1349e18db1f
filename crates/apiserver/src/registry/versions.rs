//! Custom kinds in several versions: what the registry reads is put into the version of the row, and what it
//! writes into the version of the store.
//!
//! Everything that leaves the registry has passed here, so that whoever renders it copies bytes. Built-in kinds
//! pass untouched; so does what is stored in the wanted version and by the rules that still hold. Only a kind with a
//! conversion webhook has to be waited for.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use windlass_machinery::object::Object;
use windlass_store::{Change, Entry, Key, Revision};

use super::{Written, parse};
use crate::{
    crd::Kind,
    resources::Resource,
    status::{Outcome, Status},
    webhook::Webhooks,
};

/// Changes whose converted form is kept for other watchers.
const KEPT: usize = 64;

/// Bytes of changes that are kept, not counting the newest.
const KEPT_BYTES: usize = 4 * 1024 * 1024;

/// How objects of custom kinds come into other versions.
pub(crate) struct Versions {
    webhooks: Arc<Webhooks>,
    /// The latest changes that watchers wanted in another form, the newest last.
    changes: Mutex<VecDeque<Converted>>,
}

/// A change, and what has been made of it for one kind.
struct Converted {
    change: Arc<Change>,
    kind: Arc<Kind>,
    outcome: Arc<OnceCell<Arc<Change>>>,
}

impl Versions {
    pub(crate) fn new(webhooks: Arc<Webhooks>) -> Self {
        Versions { webhooks, changes: Mutex::default() }
    }

    pub(crate) fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }

    /// An entry in the version of the resource.
    pub(crate) async fn show(&self, resource: &Resource, entry: Arc<Entry>) -> Outcome<Arc<Entry>> {
        match resource.custom() {
            Some(kind) if kind.asks() => {
                let mut shown = kind.show_all(vec![entry], &self.webhooks).await?;
                shown.pop().ok_or_else(|| Status::internal("an object was lost in its conversion"))
            }
            _ => Ok(shown(resource, entry)),
        }
    }

    /// What was written, in the version of the resource.
    pub(super) async fn show_written(&self, resource: &Resource, written: Written) -> Outcome<Written> {
        if resource.custom().is_none() {
            return Ok(written);
        }
        let Written { value, revision, created, removed } = written;
        // Nobody looks at the key.
        let entry = Entry { key: Key::from("-"), value, revision: Revision::new(revision) };
        let shown = self.show(resource, Arc::new(entry)).await?;
        Ok(Written { value: shown.value.clone(), revision, created, removed })
    }

    /// The object of an entry, in the version in which the resource is handled.
    pub(crate) async fn load(&self, resource: &Resource, entry: &Entry) -> Outcome<Object> {
        let object = parse(entry)?;
        match resource.custom().filter(|kind| !kind.is_shown(entry)) {
            None => Ok(object),
            Some(kind) => kind.read(object, &self.webhooks).await,
        }
    }

    /// An object, in the version in which it is stored.
    pub(crate) async fn to_stored(&self, resource: &Resource, object: Object) -> Outcome<Object> {
        match resource.custom() {
            None => Ok(object),
            Some(kind) => kind.write(object, &self.webhooks).await,
        }
    }

    /// A change, with what it is about in the version of the resource. Made once for all watchers.
    pub(super) async fn show_change(&self, resource: &Resource, change: Arc<Change>) -> Outcome<Arc<Change>> {
        let Some(kind) = resource.custom() else { return Ok(change) };
        let entries = change.previous.iter().chain(&change.current);
        if entries.clone().all(|entry| kind.is_shown(entry)) {
            return Ok(change);
        }
        let outcome = self.shared(&change, kind);
        let made = outcome.get_or_try_init(|| async {
            let mut shown = kind.show_all(entries.cloned().collect(), &self.webhooks).await?.into_iter();
            let mut next = |entry: &Option<Arc<Entry>>| entry.as_ref().and_then(|_| shown.next());
            let (previous, current) = (next(&change.previous), next(&change.current));
            let (key, revision) = (change.key.clone(), change.revision);
            Ok(Arc::new(Change { key, revision, current, previous }))
        });
        made.await.cloned()
    }

    fn shared(&self, change: &Arc<Change>, kind: &Arc<Kind>) -> Arc<OnceCell<Arc<Change>>> {
        let mut changes = self.changes.lock();
        let is_same = |one: &&Converted| Arc::ptr_eq(&one.change, change) && Arc::ptr_eq(&one.kind, kind);
        if let Some(one) = changes.iter().rev().find(is_same) {
            return Arc::clone(&one.outcome);
        }
        let outcome = Arc::new(OnceCell::new());
        changes.push_back(Converted {
            change: Arc::clone(change),
            kind: Arc::clone(kind),
            outcome: Arc::clone(&outcome),
        });
        let mut bytes: usize = changes.iter().map(Converted::bytes).sum();
        while changes.len() > KEPT || (changes.len() > 1 && bytes > KEPT_BYTES) {
            bytes -= changes.pop_front().map_or(0, |oldest| oldest.bytes());
        }
        outcome
    }
}

impl Converted {
    /// About how much memory it holds on to.
    fn bytes(&self) -> usize {
        let entries = self.change.previous.iter().chain(&self.change.current);
        entries.map(|entry| 2 * entry.value.len()).sum()
    }
}

/// An entry in the version of the resource, as far as no webhook has to be asked.
pub(super) fn shown(resource: &Resource, entry: Arc<Entry>) -> Arc<Entry> {
    match resource.custom() {
        None => entry,
        Some(kind) => kind.show(entry),
    }
}

/// An entry with another value.
pub(crate) fn with_value(entry: &Entry, value: Bytes) -> Arc<Entry> {
    Arc::new(Entry { key: entry.key.clone(), value, revision: entry.revision })
}
