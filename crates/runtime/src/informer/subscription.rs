//! What one of many listeners has not heard yet.
//!
//! Everyone has a list of their own, so nobody waits for another. What happens to an object before its last change was
//! heard becomes one change, from what the listener knows to what is: a list never has more than one entry for an object,
//! however slow its listener is.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Key;

/// What has happened to an object.
#[derive(Debug)]
pub enum Change<K> {
    /// It is there. `initial` if it was there before the listener.
    Added {
        /// The object.
        object: Arc<K>,
        /// Whether nothing has happened to it since.
        initial: bool,
    },
    /// It is another. Both are the same when it is only looked at again.
    Updated {
        /// What the listener knew.
        old: Arc<K>,
        /// What it is.
        new: Arc<K>,
    },
    /// It is gone. This is the last that was known of it.
    Deleted(Arc<K>),
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Change::Added { object, initial } => {
                Change::Added { object: Arc::clone(object), initial: *initial }
            }
            Change::Updated { old, new } => Change::Updated { old: Arc::clone(old), new: Arc::clone(new) },
            Change::Deleted(object) => Change::Deleted(Arc::clone(object)),
        }
    }
}

impl<K> Change<K> {
    /// The object as it is, or was.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Change::Added { object, .. } | Change::Deleted(object) => object,
            Change::Updated { new, .. } => new,
        }
    }

    /// Whether it was there before the listener, or is only looked at again.
    pub fn is_background(&self) -> bool {
        match self {
            Change::Added { initial, .. } => *initial,
            Change::Updated { old, new } => Arc::ptr_eq(old, new),
            Change::Deleted(_) => false,
        }
    }
}

/// What a listener has not heard of an object.
enum Unheard<K> {
    One(Change<K>),
    /// It was deleted, and another of that name is there.
    Replaced {
        old: Arc<K>,
        new: Arc<K>,
    },
}

/// What was unheard, and what has happened since, as one. `None`: the listener need not hear of it.
fn both<K>(before: Unheard<K>, after: Change<K>) -> Option<Unheard<K>> {
    use Change::{Added, Deleted, Updated};
    Some(match (before, after) {
        (Unheard::One(Added { initial, .. }), Updated { new, .. }) => {
            Unheard::One(Added { object: new, initial })
        }
        (Unheard::One(Added { .. }), Deleted(_)) => return None,
        (Unheard::One(Updated { old, .. }), Updated { new, .. }) => Unheard::One(Updated { old, new }),
        (Unheard::One(Deleted(old)), Added { object: new, .. } | Updated { new, .. }) => {
            Unheard::Replaced { old, new }
        }
        (Unheard::Replaced { old, .. }, Added { object: new, .. } | Updated { new, .. }) => {
            Unheard::Replaced { old, new }
        }
        (Unheard::Replaced { old, .. }, Deleted(_)) => Unheard::One(Deleted(old)),
        (Unheard::One(_), after) => Unheard::One(after),
    })
}

/// What one listener has not heard yet.
pub(super) struct Unread<K> {
    state: Mutex<State<K>>,
    news: Notify,
}

struct State<K> {
    /// In the order in which something first happened to them.
    order: BTreeMap<u64, Key>,
    unheard: HashMap<Key, (u64, Unheard<K>)>,
    n_pushed: u64,
    is_over: bool,
}

impl<K> Unread<K> {
    pub(super) fn new() -> Arc<Self> {
        let state = State { order: BTreeMap::new(), unheard: HashMap::new(), n_pushed: 0, is_over: false };
        Arc::new(Unread { state: Mutex::new(state), news: Notify::new() })
    }

    pub(super) fn push(&self, key: &Key, change: Change<K>) {
        let mut state = self.state.lock();
        let State { order, unheard, n_pushed, .. } = &mut *state;
        let (place, combined) = match unheard.remove(key) {
            Some((place, before)) => (place, both(before, change)),
            None => {
                *n_pushed += 1;
                order.insert(*n_pushed, key.clone());
                (*n_pushed, Some(Unheard::One(change)))
            }
        };
        match combined {
            Some(combined) => drop(unheard.insert(key.clone(), (place, combined))),
            None => drop(order.remove(&place)),
        }
        drop(state);
        self.news.notify_one();
    }

    /// There is no more to come.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.news.notify_one();
    }

    fn pop(&self) -> Popped<K> {
        let mut state = self.state.lock();
        let State { order, unheard, is_over, .. } = &mut *state;
        let Some((place, key)) = order.pop_first() else {
            return if *is_over { Popped::Over } else { Popped::Nothing };
        };
        match unheard.remove(&key) {
            None => Popped::Nothing,
            Some((_, Unheard::One(change))) => Popped::Change(change),
            Some((_, Unheard::Replaced { old, new })) => {
                let added = Change::Added { object: new, initial: false };
                unheard.insert(key.clone(), (place, Unheard::One(added)));
                order.insert(place, key);
                Popped::Change(Change::Deleted(old))
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.state.lock().order.len()
    }
}

enum Popped<K> {
    Change(Change<K>),
    Nothing,
    Over,
}

/// A listener. It is one until it is dropped.
pub struct Subscription<K> {
    pub(super) unread: Arc<Unread<K>>,
    /// Keeps the informer going.
    pub(super) _informer: Arc<dyn Send + Sync>,
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl<K> Subscription<K> {
    /// The next change, if there is one already.
    pub fn try_next(&mut self) -> Option<Change<K>> {
        match self.unread.pop() {
            Popped::Change(change) => Some(change),
            Popped::Nothing | Popped::Over => None,
        }
    }

    /// Waits for the next change; `None` when there are no more to come.
    pub async fn next(&mut self) -> Option<Change<K>> {
        loop {
            let news = self.unread.news.notified();
            match self.unread.pop() {
                Popped::Change(change) => return Some(change),
                Popped::Over => return None,
                Popped::Nothing => news.await,
            }
        }
    }
}

/// All listeners of an informer.
pub(super) struct Listeners<K>(Vec<Weak<Unread<K>>>);

impl<K> Default for Listeners<K> {
    fn default() -> Self {
        Listeners(vec![])
    }
}

impl<K> Listeners<K> {
    pub(super) fn add(&mut self, unread: &Arc<Unread<K>>) {
        // Where nothing changes, nobody else finds out who has gone.
        self.0.retain(|listener| listener.strong_count() > 0);
        self.0.push(Arc::downgrade(unread));
    }

    /// Tells everyone who is still there.
    pub(super) fn tell(&mut self, key: &Key, change: &Change<K>) {
        self.0.retain(|listener| match listener.upgrade() {
            Some(unread) => {
                unread.push(key, change.clone());
                true
            }
            None => false,
        });
    }
}

impl<K> Drop for Listeners<K> {
    fn drop(&mut self) {
        self.0.iter().filter_map(Weak::upgrade).for_each(|unread| unread.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes as text, with numbers for objects.
    fn heard(unread: &Unread<u32>) -> Vec<String> {
        let mut all = vec![];
        while let Popped::Change(change) = unread.pop() {
            all.push(match change {
                Change::Added { object, initial } => format!("+{object}{}", if initial { "!" } else { "" }),
                Change::Updated { old, new } => format!("{old}>{new}"),
                Change::Deleted(object) => format!("-{object}"),
            });
        }
        all
    }

    fn added(object: u32) -> Change<u32> {
        Change::Added { object: object.into(), initial: false }
    }

    fn updated(old: u32, new: u32) -> Change<u32> {
        Change::Updated { old: old.into(), new: new.into() }
    }

    fn deleted(object: u32) -> Change<u32> {
        Change::Deleted(object.into())
    }

    #[test]
    fn what_is_unheard_becomes_one_change_from_what_is_known_to_what_is() {
        let key = Key::new("a", "b");
        for (changes, told) in [
            (vec![added(1), updated(1, 2), updated(2, 3)], vec!["+3"]),
            (vec![added(1), updated(1, 2), deleted(2)], vec![]),
            (vec![updated(1, 2), updated(2, 3)], vec!["1>3"]),
            (vec![updated(1, 2), deleted(2)], vec!["-2"]),
            (vec![deleted(1), added(2)], vec!["-1", "+2"]),
            (vec![deleted(1), added(2), updated(2, 3)], vec!["-1", "+3"]),
            (vec![deleted(1), added(2), deleted(2)], vec!["-1"]),
            (vec![deleted(1), added(2), deleted(2), added(3)], vec!["-1", "+3"]),
            (vec![Change::Added { object: 1.into(), initial: true }, updated(1, 2)], vec!["+2!"]),
        ] {
            let unread = Unread::new();
            changes.into_iter().for_each(|change| unread.push(&key, change));
            assert!(unread.len() <= 1);
            assert_eq!(heard(&unread), told);
            assert_eq!(unread.len(), 0);
        }
    }

    #[test]
    fn objects_are_told_of_in_the_order_in_which_something_happened_to_them_first() {
        let unread = Unread::new();
        let key = |name: &str| Key::new("", name);
        unread.push(&key("a"), added(1));
        unread.push(&key("b"), added(2));
        unread.push(&key("a"), updated(1, 3));
        assert_eq!(heard(&unread), ["+3", "+2"]);
    }
}
