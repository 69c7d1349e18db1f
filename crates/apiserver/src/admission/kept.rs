//! Configurations in a form that can be used at once, kept for as long as nobody changes them.
//!
//! A request looks at their keys and revisions in the store, and at nothing else of those that are known. So nothing is
//! read or compiled twice, and nobody has to be told of changes, not even of those that another server makes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use windlass_machinery::{object::Object, stored::Stored};
use windlass_store::{Key, Revision};

use super::View;

/// The configurations of one resource.
pub(super) struct Kept<T> {
    /// The beginning of their keys.
    prefix: &'static str,
    compile: fn(&Object) -> T,
    latest: ArcSwap<Vec<Arc<Item<T>>>>,
}

/// One configuration.
pub(super) struct Item<T> {
    key: Key,
    revision: Revision,
    pub(super) name: String,
    pub(super) value: T,
}

/// Configurations by name.
pub(super) type All<T> = Arc<Vec<Arc<Item<T>>>>;

impl<T> Kept<T> {
    pub(super) fn new(prefix: &'static str, compile: fn(&Object) -> T) -> Self {
        Kept { prefix, compile, latest: ArcSwap::default() }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self, view: &View) -> bool {
        view.snapshot.count_in(self.prefix.as_bytes()) == 0
    }

    /// All there are, by name.
    pub(super) fn all(&self, view: &View) -> All<T> {
        let known = self.latest.load();
        let mut entries = view.snapshot.iter(self.prefix.as_bytes(), None);
        let is_same = known.iter().all(|item| {
            entries.next().is_some_and(|entry| entry.revision == item.revision && entry.key == item.key)
        });
        if is_same && entries.next().is_none() {
            return Arc::clone(&known);
        }
        let all = Arc::new(self.read(view, &known));
        self.latest.store(Arc::clone(&all));
        all
    }

    fn read(&self, view: &View, known: &[Arc<Item<T>>]) -> Vec<Arc<Item<T>>> {
        let entries = view.snapshot.iter(self.prefix.as_bytes(), None);
        let items = entries.filter_map(|entry| {
            let place = known.binary_search_by(|item| item.key.cmp(&entry.key)).ok();
            if let Some(item) =
                place.map(|place| &known[place]).filter(|item| item.revision == entry.revision)
            {
                return Some(Arc::clone(item));
            }
            let object = Stored::new(&entry.value)?.object(entry.revision.get())?;
            Some(Arc::new(Item {
                key: entry.key.clone(),
                revision: entry.revision,
                name: windlass_machinery::object::name(&object).to_owned(),
                value: (self.compile)(&object),
            }))
        });
        items.collect()
    }
}

/// The configuration of this name.
pub(super) fn named<'a, T>(all: &'a [Arc<Item<T>>], name: &str) -> Option<&'a Item<T>> {
    all.binary_search_by(|item| item.name.as_str().cmp(name)).ok().map(|place| &*all[place])
}
