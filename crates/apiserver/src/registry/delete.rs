//! Deleting objects: finalizers, grace, propagation, and the removal itself.

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windlass_machinery::{
    object::{self, Object, metadata_mut},
    stored, time,
};
use windlass_store::Expect;

use super::{
    Registry,
    write::{ATTEMPTS, Attempt, Author, Written, enter, give_way, is_finished},
};
use crate::{
    admission::{Effects, Operation, Outside, Request},
    resources::Resource,
    status::{Outcome, Status},
};

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// How to delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) revision: Option<String>,
}

/// The finalizers by which the garbage collector is told what to do.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl Registry {
    /// Deletes an object, or begins to.
    pub(crate) async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        author: &mut Author<'_>,
    ) -> Outcome<Written> {
        for attempt in 0..ATTEMPTS {
            give_way(attempt).await;
            match self.try_delete(resource, namespace, name, options, author).await? {
                Attempt::Done(written) => return self.versions.show_written(resource, written).await,
                Attempt::Again => {}
            }
        }
        Err(Status::too_many_requests("too many writers change the same object, try again", 1))
    }

    async fn try_delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        author: &mut Author<'_>,
    ) -> Outcome<Attempt> {
        author.warnings.clear();
        let view = self.view().await?;
        let mut effects = Effects::default();
        if !enter(resource, &view, Operation::Delete, &mut effects).await? {
            return Ok(Attempt::Again);
        }
        let key = resource.key(namespace, name);
        let entry = view.snapshot.get(key.as_bytes()).ok_or_else(|| Status::not_found(resource, name))?;
        let old = self.versions.load(resource, entry).await?;
        check(resource, name, options, &old)?;
        let now = Timestamp::now();
        let marked = mark(resource, &old, options, now);
        // An eviction was asked about as such.
        let asked = Some(options).filter(|_| author.through.is_empty());
        if is_finished(resource, &marked) {
            // What goes at once was never seen as marked, unless its kind could have waited.
            let last = if resource.strategy.grace.is_some() { &marked } else { &old };
            return self.remove(resource, &view, entry, &old, last, asked, author).await;
        }
        let mut request = Request {
            operation: Operation::Delete,
            resource,
            part: None,
            namespace,
            name,
            user: author.user,
            dry_run: author.dry_run,
            object: Object::new(),
            old: Some(&old),
            now,
            view: &view,
            rights: &self.rights,
            effects: Effects::default(),
            warnings: vec![],
            api_version: author.api_version,
            through: author.through,
            manager: author.manager,
            deletion: asked,
            notes: author.notes,
            outside: Outside::default(),
        };
        // The effects belong to the removal, which comes later.
        self.mutate(&mut request).await?;
        self.validate(&mut request).await?;
        author.warnings.append(&mut request.warnings);
        let value = Bytes::from(stored::encode(&self.versions.to_stored(resource, marked).await?));
        let revision = entry.revision.get();
        if author.dry_run || value == entry.value {
            return Ok(Attempt::Done(Written { value, revision, created: false, removed: false }));
        }
        match self.commit(key, Some(value.clone()), Expect::At(entry.revision), effects).await? {
            Ok(revision) => {
                Ok(Attempt::Done(Written { value, revision: revision.get(), created: false, removed: false }))
            }
            Err(_) => Ok(Attempt::Again),
        }
    }
}

fn check(resource: &Resource, name: &str, options: &DeleteOptions, old: &Object) -> Outcome<()> {
    let actual = object::uid(old);
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != actual) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}");
        return Err(Status::conflict(resource, name, &why));
    }
    let actual = object::str_at(old, &["metadata", "resourceVersion"]).unwrap_or_default();
    if let Some(wanted) = options.revision.as_deref().filter(|wanted| *wanted != actual) {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {actual}"
        );
        return Err(Status::conflict(resource, name, &why));
    }
    Ok(())
}

/// The object once it is marked as deleted.
fn mark(resource: &Resource, old: &Object, options: &DeleteOptions, now: Timestamp) -> Object {
    let mut new = old.clone();
    set_propagation(resource, &mut new, options.propagation);
    let grace = resource.strategy.grace.map_or(0, |grace| grace(old, options.grace)).max(0);
    let pending = object::int_at(old, &["metadata", "deletionGracePeriodSeconds"]);
    let is_marked = object::metadata(old).contains_key("deletionTimestamp");
    if is_marked && pending.unwrap_or(0) <= grace {
        return new;
    }
    let generation = object::int_at(old, &["metadata", "generation"]);
    let due = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    let metadata = metadata_mut(&mut new);
    metadata.insert("deletionTimestamp".to_owned(), time::rfc3339(due).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    if let Some(generation) = generation.filter(|generation| *generation > 0 && !is_marked) {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
    (resource.strategy.deleting)(&mut new);
    new
}

fn set_propagation(resource: &Resource, object: &mut Object, propagation: Option<Propagation>) {
    let finalizers = object::list_at(object, &["metadata", "finalizers"]);
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    let wanted = match propagation {
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Background) => None,
        None if has(ORPHAN) => Some(ORPHAN),
        None if has(FOREGROUND) => Some(FOREGROUND),
        None if resource.strategy.orphans => Some(ORPHAN),
        None => None,
    };
    let mut kept: Vec<Value> =
        finalizers.iter().filter(|one| !matches!(one.as_str(), Some(ORPHAN | FOREGROUND))).cloned().collect();
    kept.extend(wanted.map(Value::from));
    let metadata = metadata_mut(object);
    match kept.is_empty() {
        true => drop(metadata.remove("finalizers")),
        false => drop(metadata.insert("finalizers".to_owned(), Value::Array(kept))),
    }
}
