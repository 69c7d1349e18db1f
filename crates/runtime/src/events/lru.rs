//! A map that forgets what has not been used for longest, once it is full.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

pub(super) struct Lru<K, V> {
    most: usize,
    values: HashMap<K, (u64, V)>,
    /// When each was last used.
    uses: BTreeMap<u64, K>,
    n_uses: u64,
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Lru { most, values: HashMap::new(), uses: BTreeMap::new(), n_uses: 0 }
    }

    /// The value of a key; a new one if there is none.
    pub(super) fn get_or_insert_with(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        self.n_uses += 1;
        match self.values.get(key) {
            Some((last, _)) => drop(self.uses.remove(last)),
            None if self.values.len() >= self.most => {
                if let Some((_, oldest)) = self.uses.pop_first() {
                    self.values.remove(&oldest);
                }
            }
            None => {}
        }
        self.uses.insert(self.n_uses, key.clone());
        let (last, value) = self.values.entry(key.clone()).or_insert_with(|| (0, make()));
        *last = self.n_uses;
        value
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.values.len(), self.uses.len());
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_been_used_for_longest_is_forgotten() {
        let mut lru = Lru::new(2);
        for (key, expected) in [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3), ("b", 1), ("c", 1)] {
            let n = lru.get_or_insert_with(&key, || 0);
            *n += 1;
            assert_eq!(*n, expected, "{key}");
            assert!(lru.len() <= 2);
        }
    }
}
