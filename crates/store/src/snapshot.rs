//! Snapshots: the whole store at one revision, for as long as the reader holds it.
//!
//! Taking one copies a few pointers. At the head it is the live table itself; in the past, keys that have
//! changed since are looked up in the history that came with it.

use std::{iter::Peekable, ops::Bound, sync::Arc};

use crate::{Change, Entry, Key, ReadError, Revision, key::prefix_end, tables::State};

/// The revisions that can be read: a state at `floor` or later, changes after `floor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The oldest readable revision.
    pub floor: Revision,
    /// The newest revision.
    pub head: Revision,
}

impl Window {
    /// Refuses a revision outside the window.
    pub(crate) fn check(&self, revision: Revision) -> Result<(), ReadError> {
        if revision < self.floor {
            return Err(ReadError::Compacted { requested: revision, floor: self.floor });
        }
        if revision > self.head {
            return Err(ReadError::Future { requested: revision, head: self.head });
        }
        Ok(())
    }
}

/// Some entries of a range, in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What was found, up to the limit.
    pub entries: Vec<Arc<Entry>>,
    /// Whether the range holds more after these.
    pub more: bool,
}

/// The store at one revision. Reads of it never wait and never change.
#[derive(Clone, Debug)]
pub struct Snapshot {
    state: State,
    at: Revision,
}

impl Snapshot {
    pub(crate) fn new(state: State, at: Revision) -> Self {
        Snapshot { state, at }
    }

    /// The revision this is a snapshot of.
    pub fn revision(&self) -> Revision {
        self.at
    }

    /// The version of `key` at this revision.
    pub fn get(&self, key: &[u8]) -> Option<&Arc<Entry>> {
        if let Some(entry) = self.state.live.get(key) {
            return self.then(entry);
        }
        let grave = *self.state.graves.get(key)?;
        if grave <= self.at { None } else { self.state.history.version_at(key, grave, self.at) }
    }

    /// At most `limit` entries (0: all) whose keys start with `prefix` and are not less than `start`.
    pub fn range(&self, prefix: &[u8], start: Option<&[u8]>, limit: usize) -> Page {
        let mut found = self.iter(prefix, start);
        let entries = match limit {
            0 => found.by_ref().cloned().collect(),
            _ => found.by_ref().take(limit).cloned().collect(),
        };
        Page { more: limit != 0 && found.next().is_some(), entries }
    }

    /// All entries whose keys start with `prefix` and are not less than `start`, in key order.
    pub fn iter<'a>(
        &'a self,
        prefix: &'a [u8],
        start: Option<&[u8]>,
    ) -> impl Iterator<Item = &'a Arc<Entry>> {
        let end = prefix_end(prefix);
        let bounds = bounds(prefix, start, end.as_deref());
        self.between(bounds)
    }

    /// How many keys start with `prefix`.
    pub fn count(&self, prefix: &[u8]) -> usize {
        match self.is_at_head() && prefix.ends_with(b"/") {
            true => self.state.count_below(prefix),
            false => self.iter(prefix, None).count(),
        }
    }

    /// How many keys are in `folder`, which ends with a slash, and in no folder below it. At the head this is one look.
    pub fn count_in(&self, folder: &[u8]) -> usize {
        match self.is_at_head() {
            true => self.state.count_in_folder(folder),
            false => {
                let below = |entry: &&Arc<Entry>| entry.key[folder.len()..].contains(&b'/');
                self.iter(folder, None).filter(|entry| !below(entry)).count()
            }
        }
    }

    /// Bytes of all live keys and values at the head this snapshot was taken from.
    pub fn live_bytes(&self) -> u64 {
        self.state.live_bytes
    }

    /// The changes after this snapshot's revision, up to the head it was taken from.
    pub fn changes(&self) -> impl Iterator<Item = &Arc<Change>> {
        self.state.history.after(self.at)
    }

    /// All entries between two keys, in key order.
    pub(crate) fn between(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Entries<'_> {
        let has_graves = !self.is_at_head() && !self.state.graves.is_empty();
        Entries {
            snapshot: self,
            live: self.state.live.range::<_, [u8]>(bounds).peekable(),
            graves: has_graves.then(|| self.state.graves.range::<_, [u8]>(bounds).peekable()),
            gathered: vec![].into_iter(),
            n_gather: GATHER.0,
        }
    }

    #[inline]
    fn is_at_head(&self) -> bool {
        self.at == self.state.head
    }

    /// Follows a live entry back to this snapshot's revision.
    fn then<'a>(&'a self, entry: &'a Arc<Entry>) -> Option<&'a Arc<Entry>> {
        if entry.revision <= self.at {
            return Some(entry);
        }
        self.state.history.version_at(&entry.key, entry.revision, self.at)
    }
}

fn bounds<'a>(
    prefix: &'a [u8],
    start: Option<&'a [u8]>,
    end: Option<&'a [u8]>,
) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let start = start.map_or(prefix, |start| start.max(prefix));
    match end {
        // An inverted range would panic in the map; an empty one would too when both ends are exclusive.
        Some(end) if start >= end => (Bound::Included(end), Bound::Excluded(end)),
        Some(end) => (Bound::Included(start), Bound::Excluded(end)),
        None => (Bound::Included(start), Bound::Unbounded),
    }
}

type Ranged<'a, V> = Peekable<imbl::ordmap::RangedIter<'a, Key, V, imbl::shared_ptr::DefaultSharedPtr>>;

/// Live entries are fetched from the table this many at a time before any of them is looked at: each look is a
/// cache miss, and only misses that stand together overlap. The first few alone, for those who want no more.
const GATHER: (usize, usize) = (4, 64);

/// Entries of a snapshot in key order: the live table and the graves, merged.
pub(crate) struct Entries<'a> {
    snapshot: &'a Snapshot,
    live: Ranged<'a, Arc<Entry>>,
    /// `None` when there are none left, or none that matter.
    graves: Option<Ranged<'a, Revision>>,
    gathered: std::vec::IntoIter<&'a Arc<Entry>>,
    n_gather: usize,
}

impl<'a> Entries<'a> {
    /// The next live entry, when there are no graves to merge with.
    #[inline]
    fn next_live(&mut self) -> Option<&'a Arc<Entry>> {
        match self.gathered.next() {
            Some(entry) => Some(entry),
            None => self.gather(),
        }
    }

    #[inline(never)]
    fn gather(&mut self) -> Option<&'a Arc<Entry>> {
        let gathered: Vec<_> = self.live.by_ref().take(self.n_gather).map(|(_, entry)| entry).collect();
        self.n_gather = GATHER.1;
        self.gathered = gathered.into_iter();
        self.gathered.next()
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = &'a Arc<Entry>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(graves) = &mut self.graves else {
                let entry = self.next_live()?;
                if self.snapshot.is_at_head() {
                    return Some(entry);
                }
                match self.snapshot.then(entry) {
                    Some(entry) => return Some(entry),
                    None => continue,
                }
            };
            let dead_first = match (self.live.peek(), graves.peek()) {
                (_, None) => {
                    self.graves = None;
                    continue;
                }
                (None, Some(_)) => true,
                (Some((live, _)), Some((dead, _))) => dead < live,
            };
            let found = if dead_first {
                graves.next().and_then(|(key, _)| self.snapshot.get(key))
            } else {
                self.live.next().and_then(|(_, entry)| self.snapshot.then(entry))
            };
            if found.is_some() {
                return found;
            }
        }
    }
}
