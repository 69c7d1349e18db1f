//! Sealing anew: what this process found in etcd that is not sealed with its current key, it writes once more.
//!
//! Only what was there when it started: while keys are being changed on one server after the other, each would
//! undo what the others do. Values stay the same; watchers see them at a new revision. Start at [`run`].

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::sleep;

use super::{Shared, commit};
use crate::{CommitError, Entry, Expect, Key, Revision, Txn};

/// A hundred writes a second are little beside what etcd takes.
const PAUSE: Duration = Duration::from_millis(10);

/// How long to wait when etcd does not take writes.
const UNAVAILABLE: Duration = Duration::from_secs(1);

/// The keys that are to be written anew, at the revisions they had.
#[derive(Debug)]
pub(super) struct Stale {
    /// `false` once the past has come in: what comes later is somebody else's to write.
    found: Mutex<(BTreeMap<Key, Revision>, bool)>,
}

impl Stale {
    pub(super) fn new(found: BTreeMap<Key, Revision>) -> Self {
        Stale { found: Mutex::new((found, true)) }
    }

    fn found(&self) -> MutexGuard<'_, (BTreeMap<Key, Revision>, bool)> {
        self.found.lock().expect("no one panics while holding the stale keys")
    }

    /// Notes how a version that came in is sealed.
    pub(super) fn note(&self, entry: &Entry, is_current: bool) {
        let mut found = self.found();
        match is_current {
            true => drop(found.0.remove(&entry.key)),
            false if found.1 => drop(found.0.insert(entry.key.clone(), entry.revision)),
            false => {}
        }
    }

    /// Takes the keys that were found after a gap for the ones that were known.
    pub(super) fn replace(&self, keys: BTreeMap<Key, Revision>) {
        let mut found = self.found();
        if found.1 {
            found.0 = keys;
        } else {
            found.0.retain(|key, revision| keys.get(key) == Some(revision));
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.found().0.len() as u64
    }

    /// Takes no more; true when there is anything to do.
    fn close(&self) -> bool {
        let mut found = self.found();
        found.1 = false;
        !found.0.is_empty()
    }

    fn first(&self) -> Option<(Key, Revision)> {
        self.found().0.first_key_value().map(|(key, revision)| (key.clone(), *revision))
    }

    fn remove(&self, key: &Key) {
        self.found().0.remove(key);
    }
}

/// Writes anew what has been found so far.
pub(super) async fn run(shared: Arc<Shared>) {
    if !shared.stale.close() {
        return;
    }
    let n_keys = shared.stale.len();
    tracing::info!(n_keys, "sealing values in etcd anew with the current key, in the background");
    while let Some((key, revision)) = shared.stale.first() {
        let live = shared.tables.state().get(&key).cloned();
        let pause = match live.filter(|entry| entry.revision == revision) {
            // Written or deleted by someone meanwhile.
            None => Duration::ZERO,
            Some(entry) => {
                let txn = Txn::new().put(key.clone(), entry.value.clone(), Expect::At(revision));
                match commit::commit(&shared, &txn).await {
                    Err(CommitError::Unavailable(_) | CommitError::Unknown(_)) => {
                        sleep(UNAVAILABLE).await;
                        continue;
                    }
                    Err(CommitError::Stopped(_)) => return,
                    Err(error @ CommitError::TooLarge { .. }) => {
                        tracing::warn!(%key, %error, "a value cannot be sealed with the current key");
                    }
                    Ok(_) | Err(_) => {}
                }
                PAUSE
            }
        };
        shared.stale.remove(&key);
        sleep(pause).await;
    }
    tracing::info!(n_keys, "every value in etcd is sealed with the current key");
}
