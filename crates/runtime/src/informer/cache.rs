//! The objects of an informer, and the ways to look them up.

use std::{
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use kube::Resource;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::{Key, controller::panic_text};

/// Says under which values an object is found.
type IndexFn<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

struct Index<K> {
    values_of: IndexFn<K>,
    /// The objects themselves, so that a look-up ends here.
    found: HashMap<String, HashMap<Key, Arc<K>>>,
}

impl<K> Index<K> {
    /// Under which values an object is found. It is others' code: one that panics finds nothing, and harms nobody else.
    fn values(&self, object: &K) -> Vec<String> {
        catch_unwind(AssertUnwindSafe(|| (self.values_of)(object))).unwrap_or_else(|panic| {
            let (kind, panic) = (std::any::type_name::<K>(), panic_text(&*panic));
            tracing::error!(kind, panic, "an index panicked: it does not have an object");
            vec![]
        })
    }

    fn insert(&mut self, key: &Key, object: &Arc<K>) {
        for value in self.values(object) {
            self.found.entry(value).or_default().insert(key.clone(), Arc::clone(object));
        }
    }

    fn remove(&mut self, key: &Key, object: &K) {
        for value in self.values(object) {
            if let Some(found) = self.found.get_mut(&value) {
                found.remove(key);
                if found.is_empty() {
                    self.found.remove(&value);
                }
            }
        }
    }
}

/// The objects of an informer, as of the last that was heard. Clones see the same.
pub struct Cache<K> {
    inner: Arc<RwLock<Inner<K>>>,
    /// The newest revision that was seen.
    seen: Arc<watch::Sender<u64>>,
}

struct Inner<K> {
    objects: HashMap<Key, Arc<K>>,
    indexes: HashMap<String, Index<K>>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Cache { inner: Arc::clone(&self.inner), seen: Arc::clone(&self.seen) }
    }
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("len", &self.inner.read().objects.len()).finish_non_exhaustive()
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        let inner = Inner { objects: HashMap::new(), indexes: HashMap::new() };
        Cache { inner: Arc::new(RwLock::new(inner)), seen: Arc::new(watch::channel(0).0) }
    }
}

/// The cache has not seen a revision in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cache has seen revision {seen}, and not {wanted}, within {within:?}")]
pub struct NotSeen {
    /// What was waited for.
    pub wanted: u64,
    /// What it has seen.
    pub seen: u64,
    /// For how long it was waited.
    pub within: Duration,
}

impl<K: Resource> Cache<K> {
    /// One object.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.inner.read().objects.get(key).cloned()
    }

    /// All objects, in no order.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.inner.read().objects.values().cloned().collect()
    }

    /// All keys, in no order.
    pub fn keys(&self) -> Vec<Key> {
        self.inner.read().objects.keys().cloned().collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps an index of this name from now on. One that is there already stays as it is.
    pub fn add_index(
        &self,
        name: impl Into<String>,
        values_of: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) {
        let mut inner = self.inner.write();
        let Inner { objects, indexes } = &mut *inner;
        indexes.entry(name.into()).or_insert_with(|| {
            let mut index = Index { values_of: Arc::new(values_of), found: HashMap::new() };
            objects.iter().for_each(|(key, object)| index.insert(key, object));
            index
        });
    }

    /// The objects that an index has under a value. None when there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<K>> {
        let inner = self.inner.read();
        let found = inner.indexes.get(name).and_then(|index| index.found.get(value));
        found.into_iter().flat_map(HashMap::values).cloned().collect()
    }

    /// All values that an index has.
    pub fn index_values(&self, name: &str) -> Vec<String> {
        let inner = self.inner.read();
        inner.indexes.get(name).into_iter().flat_map(|index| index.found.keys().cloned()).collect()
    }

    /// The newest revision that it has seen: it holds what was there then, or later.
    pub fn revision(&self) -> u64 {
        *self.seen.borrow()
    }

    /// The newest revision that it has seen, and will.
    pub fn watch_revision(&self) -> watch::Receiver<u64> {
        self.seen.subscribe()
    }

    /// Waits until the cache has seen a revision, such as that of an object one has just written: what is read here
    /// afterwards is not older.
    pub async fn wait_for(&self, revision: &str, within: Duration) -> Result<(), NotSeen> {
        let Ok(wanted) = revision.parse::<u64>() else { return Ok(()) };
        let mut seen = self.seen.subscribe();
        let outcome = tokio::time::timeout(within, seen.wait_for(|seen| *seen >= wanted)).await;
        match outcome {
            Ok(Ok(_)) => Ok(()),
            _ => Err(NotSeen { wanted, seen: *self.seen.borrow(), within }),
        }
    }

    /// Takes up an object, whether or not its revision is a greater number: who tells of it knows the order, and after a
    /// restore revisions begin again.
    pub(super) fn apply(&self, key: &Key, object: &Arc<K>) -> Applied<K> {
        let mut inner = self.inner.write();
        let Inner { objects, indexes } = &mut *inner;
        let applied = match objects.get(key) {
            Some(old) if is_same(&**old, &**object) => Applied::Nothing,
            Some(old) => Applied::Instead(Arc::clone(old)),
            None => Applied::New,
        };
        if !matches!(applied, Applied::Nothing) {
            for index in indexes.values_mut() {
                if let Applied::Instead(old) = &applied {
                    index.remove(key, old);
                }
                index.insert(key, object);
            }
            objects.insert(key.clone(), Arc::clone(object));
        }
        applied
    }

    /// Removes an object; what it was.
    pub(super) fn remove(&self, key: &Key) -> Option<Arc<K>> {
        let mut inner = self.inner.write();
        let Inner { objects, indexes } = &mut *inner;
        let old = objects.remove(key)?;
        indexes.values_mut().for_each(|index| index.remove(key, &old));
        Some(old)
    }

    /// Everything up to this revision has been taken up.
    pub(super) fn saw(&self, revision: u64) {
        self.seen.send_if_modified(|seen| {
            let is_newer = revision > *seen;
            *seen = revision.max(*seen);
            is_newer
        });
    }
}

/// What taking up an object has changed.
pub(super) enum Applied<K> {
    New,
    Instead(Arc<K>),
    /// It is what was there.
    Nothing,
}

fn is_same<K: Resource>(one: &K, other: &K) -> bool {
    let of = |object: &K| (object.meta().uid.clone(), object.meta().resource_version.clone());
    of(one) == of(other) && one.meta().resource_version.is_some()
}

pub(super) fn revision<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|revision| revision.parse().ok()).unwrap_or(0)
}
