//! Emptying a kind whose definition is being deleted: its objects go first, by their own finalizers, then it goes itself.

use std::{sync::Arc, time::Duration};

use futures_util::stream::{self, StreamExt};
use serde_json::Value;
use tokio::time::Instant;
use windlass_machinery::{
    object::{list_at, metadata_mut},
    stored::{self, Stored},
};
use windlass_store::{Entry, Expect, Read, Txn};

use super::{
    AGAIN, Definition,
    names::condition,
    rows, settle,
    wire::{Condition, FINALIZER, Wire},
};
use crate::{
    ApiServer,
    admission::Effects,
    registry::{Author, DeleteOptions, parse, read_failed, split_key},
    resources::Resource,
    startup::itself,
    status::{Outcome, Status},
};

/// Deletions at once: enough to share syncs of the disk.
const AT_ONCE: usize = 32;

/// How often it is looked whether objects are gone, if nothing is heard of them.
const LOOK: Duration = Duration::from_secs(10);

/// The least time between two rounds.
const STEP: Duration = Duration::from_millis(5);

/// How long objects may take to go before the definition says that they do not.
const PATIENCE: Duration = Duration::from_secs(60);

/// Begins to empty every definition that is being deleted and is not being emptied.
pub(super) fn all(server: &Arc<ApiServer>) {
    let mut known = server.definitions.known.lock();
    let terminating: Vec<String> = known.terminating.iter().cloned().collect();
    for name in terminating {
        if !known.finalizing.insert(name.clone()) {
            continue;
        }
        let server = Arc::clone(server);
        tokio::spawn(async move {
            let mut draining = server.draining();
            tokio::select! {
                _ = draining.wait_for(|draining| *draining) => {}
                () = finalize(&server, &name) => {}
            }
            server.definitions.known.lock().finalizing.remove(&name);
        });
    }
}

/// Empties one definition and takes it away, however often that has to be tried.
async fn finalize(server: &Arc<ApiServer>, name: &str) {
    let begun = Instant::now();
    let mut pause = AGAIN;
    loop {
        match attempt(server, name, begun).await {
            Ok(true) => return,
            Ok(false) => {
                pause = AGAIN;
                tokio::time::sleep(STEP).await;
            }
            Err(status) => {
                tracing::debug!(name, why = %status, "the objects of a definition could not be deleted");
                let message = format!("could not issue all deletes: {status}");
                let failed = condition("Terminating", true, "InstanceDeletionFailed", &message);
                let _ = tell(server, name, &failed).await;
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(PATIENCE);
            }
        }
    }
}

/// One round; true when the definition is gone, or is not to go.
async fn attempt(server: &Arc<ApiServer>, name: &str, begun: Instant) -> Outcome<bool> {
    let Some(entry) = current(server, name).await? else { return Ok(true) };
    let wire = Wire::read(&entry.value).map_err(Status::internal)?;
    if !wire.waits_for_objects() {
        return Ok(true);
    }
    let definition = {
        let known = server.definitions.known.lock();
        known.by_name.get(name).and_then(|place| place.in_force.clone())
    };
    let Some(definition) = definition else {
        if wire.is_served() {
            // This server has yet to hear of it.
            return Ok(false);
        }
        let never = condition("Terminating", false, "NeverEstablished", "resource was never established");
        return release(server, &entry, &never).await;
    };
    // Nothing is created since the definition was marked, so what is empty stays empty.
    if is_empty(server, &definition).await? {
        let done = condition("Terminating", false, "InstanceDeletionCompleted", "removed all instances");
        return release(server, &entry, &done).await;
    }
    let pending = match begun.elapsed() < PATIENCE {
        true => {
            let message = "CustomResource deletion is in progress";
            condition("Terminating", true, "InstanceDeletionInProgress", message)
        }
        false => {
            let message =
                "could not confirm zero CustomResources remaining: timed out waiting for the condition";
            condition("Terminating", true, "InstanceDeletionCheck", message)
        }
    };
    if wire.condition("Terminating") != Some(&pending) {
        tell(server, name, &pending).await?;
    }
    empty(server, &definition).await?;
    Ok(false)
}

async fn is_empty(server: &ApiServer, definition: &Definition) -> Outcome<bool> {
    let snapshot = server.registry.store.snapshot(Read::Latest).await.map_err(|error| read_failed(&error))?;
    Ok(snapshot.iter(definition.prefix().as_bytes(), None).next().is_none())
}

async fn current(server: &ApiServer, name: &str) -> Outcome<Option<Arc<Entry>>> {
    let snapshot = server.registry.store.snapshot(Read::Latest).await.map_err(|error| read_failed(&error))?;
    Ok(snapshot.get(server.definitions.key(name).as_bytes()).cloned())
}

/// Says how far it is.
async fn tell(server: &ApiServer, name: &str, condition: &Condition) -> Outcome<()> {
    let Some(entry) = current(server, name).await? else { return Ok(()) };
    let change = |definition: &mut _, now| settle::set_condition(definition, condition, now);
    settle::write(&server.registry, &entry, change, Effects::default()).await.map(drop)
}

/// Deletes what is there and waits for what is left of it.
async fn empty(server: &Arc<ApiServer>, definition: &Arc<Definition>) -> Outcome<()> {
    let (store, prefix) = (&server.registry.store, definition.prefix());
    let snapshot = store.snapshot(Read::Latest).await.map_err(|error| read_failed(&error))?;
    let mut watch =
        store.watch(prefix.as_bytes(), snapshot.revision()).await.map_err(|error| read_failed(&error))?;
    // Every object by the rules of the version it is stored in, so that nothing has to be converted.
    let by_place: Vec<Arc<Resource>> =
        (0..definition.spec.versions.len()).map(|place| rows::row(definition, place)).collect();
    let unmarked = snapshot.iter(prefix.as_bytes(), None).filter(|entry| !is_marked(entry));
    let entries: Vec<Arc<Entry>> = unmarked.cloned().collect();
    drop(snapshot);
    if entries.is_empty() {
        // Finalizers of others are waited for.
        let _ = tokio::time::timeout(LOOK, watch.next()).await;
        return Ok(());
    }
    let by_place = &by_place;
    let deletions = stream::iter(entries).map(|entry| async move {
        let stored = Stored::new(&entry.value).and_then(|stored| stored.peek(&["apiVersion"]));
        let place = stored.and_then(|api_version| definition.place_of(&api_version));
        delete(server, &by_place[place.unwrap_or_else(|| definition.storage())], &entry).await
    });
    let mut deletions = std::pin::pin!(deletions.buffer_unordered(AT_ONCE));
    let mut failed = None;
    while let Some(outcome) = deletions.next().await {
        failed = failed.or(outcome.err());
    }
    failed.map_or(Ok(()), Err)
}

fn is_marked(entry: &Entry) -> bool {
    Stored::new(&entry.value).is_some_and(|stored| stored.peek(&["metadata", "deletionTimestamp"]).is_some())
}

async fn delete(server: &ApiServer, row: &Resource, entry: &Entry) -> Outcome<()> {
    let (namespace, name) = split_key(row, &entry.key);
    let (namespace, name) = (String::from_utf8_lossy(namespace), String::from_utf8_lossy(name));
    let user = itself();
    let mut author = Author {
        user: &user,
        manager: "windlass",
        api_version: &row.handled_as,
        applies: false,
        dry_run: false,
        through: "",
        notes: None,
        warnings: vec![],
    };
    match server.registry.delete(row, &namespace, &name, &DeleteOptions::default(), &mut author).await {
        Err(status) if status.code == 404 => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Takes our finalizer away, and with the last one the definition; true when that is done.
async fn release(server: &ApiServer, entry: &Entry, last: &Condition) -> Outcome<bool> {
    let mut definition = parse(entry)?;
    let finalizers = list_at(&definition, &["metadata", "finalizers"]);
    let left: Vec<Value> = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
    if left.is_empty() {
        let txn = Txn::new().delete(entry.key.clone(), Expect::At(entry.revision));
        return Ok(server.registry.store.commit(txn).await.is_ok());
    }
    metadata_mut(&mut definition).insert("finalizers".to_owned(), Value::Array(left));
    settle::set_condition(&mut definition, last, jiff::Timestamp::now());
    let key = String::from_utf8_lossy(&entry.key).into_owned();
    server.registry.put(key, stored::encode(&definition).into(), Expect::At(entry.revision)).await
}
