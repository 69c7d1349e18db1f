//! The tables in memory: what is live, what was deleted lately, and the recent history.
//!
//! One writer applies committed changes; any number of readers take a [`State`], which is a handful of
//! pointers, and read it for as long as they like. No disk and no network here: engines make changes durable
//! first and hand them over after. Start at [`Tables::apply`].

use std::{
    ops::Bound,
    sync::{Arc, RwLock, RwLockReadGuard},
};

use bytes::Bytes;
use imbl::OrdMap;
use tokio::sync::watch;

use crate::{
    Change, Entry, Key, ReadError, Revision, Snapshot, Window,
    history::{Ages, History, Retention},
    key::prefix_end,
};

/// The store at one moment. A clone is a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) live: OrdMap<Key, Arc<Entry>>,
    /// How many live keys there are in each folder, which is a key up to its last slash.
    folders: OrdMap<Key, usize>,
    /// Keys deleted inside the window, with the revision of the deletion: reads in the past need them.
    pub(crate) graves: OrdMap<Key, Revision>,
    pub(crate) history: History,
    pub(crate) head: Revision,
    pub(crate) floor: Revision,
    pub(crate) live_bytes: u64,
}

impl State {
    /// An empty store that stands at `revision` and knows nothing of what came before.
    pub(crate) fn empty(revision: Revision) -> Self {
        State {
            live: OrdMap::new(),
            folders: OrdMap::new(),
            graves: OrdMap::new(),
            history: History::default(),
            head: revision,
            floor: revision,
            live_bytes: 0,
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Arc<Entry>> {
        self.live.get(key)
    }

    pub(crate) fn window(&self) -> Window {
        Window { floor: self.floor, head: self.head }
    }

    /// Puts an entry that belongs to the state at the floor: how engines load their base.
    pub(crate) fn load(&mut self, entry: Arc<Entry>) {
        self.live_bytes += entry.bytes();
        let key = entry.key.clone();
        match self.live.insert(key.clone(), entry) {
            Some(old) => self.live_bytes -= old.bytes(),
            None => self.count_in(&key),
        }
    }

    /// Takes an entry of the state at the floor away again.
    pub(crate) fn unload(&mut self, key: &[u8]) {
        if let Some(old) = self.live.remove(key) {
            self.live_bytes -= old.bytes();
            self.count_out(key);
        }
    }

    /// Makes one change, which must not be older than the head.
    pub(crate) fn apply(&mut self, change: Arc<Change>) {
        debug_assert!(change.revision >= self.head);
        self.head = change.revision;
        let mut deleted_before = None;
        match &change.current {
            Some(entry) => {
                self.live_bytes += entry.bytes();
                if self.live.insert(change.key.clone(), entry.clone()).is_none() {
                    self.count_in(&change.key);
                }
                if change.previous.is_none() && !self.graves.is_empty() {
                    deleted_before = self.graves.remove(&change.key);
                }
            }
            None => {
                if self.live.remove(&change.key).is_some() {
                    self.count_out(&change.key);
                }
                self.graves.insert(change.key.clone(), change.revision);
            }
        }
        if let Some(previous) = &change.previous {
            self.live_bytes -= previous.bytes();
        }
        self.history.push(change, deleted_before);
    }

    fn count_in(&mut self, key: &[u8]) {
        let folder = folder(key);
        match self.folders.get_mut(folder) {
            Some(n) => *n += 1,
            None => drop(self.folders.insert(folder.into(), 1)),
        }
    }

    fn count_out(&mut self, key: &[u8]) {
        let folder = folder(key);
        match self.folders.get_mut(folder) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(self.folders.remove(folder)),
        }
    }

    /// How many live keys are in `folder` itself.
    pub(crate) fn count_in_folder(&self, folder: &[u8]) -> usize {
        self.folders.get(folder).copied().unwrap_or(0)
    }

    /// How many live keys start with `prefix`, which ends with a slash: without a look at any of them.
    pub(crate) fn count_below(&self, prefix: &[u8]) -> usize {
        let end = prefix_end(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.folders.range::<_, [u8]>((Bound::Included(prefix), end)).map(|(_, n)| n).sum()
    }

    /// Forgets history up to and including `floor`, and returns what it was, which takes longer to drop than to
    /// take out.
    pub(crate) fn trim(&mut self, floor: Revision) -> Vec<Arc<Change>> {
        let mut forgotten = vec![];
        while let Some(change) = self.history.pop_through(floor) {
            if change.current.is_none() && self.graves.get(&change.key) == Some(&change.revision) {
                self.graves.remove(&change.key);
            }
            forgotten.push(change);
        }
        self.floor = self.floor.max(floor);
        forgotten
    }

    /// The change that putting (`Some`) or deleting (`None`) makes at `revision`; `None` when it makes none.
    pub(crate) fn change(
        key: Key,
        value: Option<Bytes>,
        previous: Option<Arc<Entry>>,
        revision: Revision,
    ) -> Option<Arc<Change>> {
        if value.is_none() && previous.is_none() {
            return None;
        }
        // Versions of one key share its bytes.
        let key = previous.as_ref().map_or(key, |entry| entry.key.clone());
        let current = value.map(|value| Arc::new(Entry { key: key.clone(), value, revision }));
        Some(Arc::new(Change { key, revision, current, previous }))
    }
}

/// The key up to its last slash, and with it.
fn folder(key: &[u8]) -> &[u8] {
    let end = key.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    &key[..end]
}

/// The state that moves: written by one engine, read by everyone.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Held for the time of a pointer copy by readers, and for a bounded number of changes by the writer.
    state: RwLock<State>,
    head_tx: watch::Sender<Revision>,
}

/// Changes applied under one lock: some tens of microseconds for readers to wait.
const APPLY_CHUNK: usize = 64;

impl Tables {
    pub(crate) fn new(state: State) -> Self {
        let (head_tx, _) = watch::channel(state.head);
        Tables { state: RwLock::new(state), head_tx }
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("no one panics while holding the tables")
    }

    pub(crate) fn window(&self) -> Window {
        self.state().window()
    }

    /// The recent past alone: whoever only follows it need not hold on to the live table, which the writer
    /// would have to copy for them.
    pub(crate) fn recent(&self) -> (History, Window) {
        let state = self.state();
        (state.history.clone(), state.window())
    }

    /// Applies committed changes in order. Readers never see half a revision.
    pub(crate) fn apply(&self, changes: &[Arc<Change>]) {
        for chunk in chunks_at_revisions(changes, APPLY_CHUNK) {
            let mut state = self.state.write().expect("no one panics while holding the tables");
            for change in chunk {
                state.apply(change.clone());
            }
        }
        if let Some(last) = changes.last() {
            self.announce(last.revision);
        }
    }

    /// Notes that everything up to `revision` has been applied, though nothing of ours may have changed.
    pub(crate) fn advance(&self, revision: Revision) {
        {
            let mut state = self.state.write().expect("no one panics while holding the tables");
            state.head = state.head.max(revision);
        }
        self.announce(revision);
    }

    fn announce(&self, revision: Revision) {
        self.head_tx.send_if_modified(|head| {
            let moved = revision > *head;
            *head = revision.max(*head);
            moved
        });
    }

    /// Forgets history up to and including `floor`, which must not be above the head.
    pub(crate) fn trim(&self, floor: Revision) {
        self.raise_floor(floor);
        self.sweep();
    }

    /// Lets the window begin at `floor`. What lies below is out of sight at once, and still in memory until
    /// [`Tables::sweep`].
    pub(crate) fn raise_floor(&self, floor: Revision) {
        let mut state = self.state.write().expect("no one panics while holding the tables");
        state.floor = state.floor.max(floor);
    }

    /// Lets go of what lies below the floor. In steps, so that nobody is held up.
    pub(crate) fn sweep(&self) {
        loop {
            let mut state = self.state.write().expect("no one panics while holding the tables");
            let floor = state.floor;
            let step = state.history.revision_at(APPLY_CHUNK).filter(|&step| step < floor);
            let forgotten = state.trim(step.unwrap_or(floor));
            drop(state);
            drop(forgotten);
            if step.is_none() {
                return;
            }
        }
    }

    /// Replaces everything, as after a gap that history cannot bridge.
    pub(crate) fn reset(&self, state: State) {
        let head = state.head;
        *self.state.write().expect("no one panics while holding the tables") = state;
        self.announce(head);
    }

    /// Waits until everything up to `revision` is in the tables.
    pub(crate) async fn reached(&self, revision: Revision) {
        let mut head_rx = self.head_tx.subscribe();
        // The sender lives as long as we do.
        let _ = head_rx.wait_for(|head| *head >= revision).await;
    }

    /// The state as of `at`, or as of the head.
    pub(crate) fn snapshot(&self, at: Option<Revision>) -> Result<Snapshot, ReadError> {
        let state = self.state();
        let at = at.unwrap_or(state.head);
        state.window().check(at)?;
        Ok(Snapshot::new(state.clone(), at))
    }
}

/// Cuts changes into chunks of about `size` that never split a revision.
fn chunks_at_revisions(changes: &[Arc<Change>], size: usize) -> impl Iterator<Item = &[Arc<Change>]> {
    let mut rest = changes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = size.min(rest.len());
        while end < rest.len() && rest[end].revision == rest[end - 1].revision {
            end += 1;
        }
        let (chunk, tail) = rest.split_at(end);
        rest = tail;
        Some(chunk)
    })
}

/// What a change counts at least: about what it takes in memory, however small its key and value.
const MIN_COST: u64 = 384;

/// What changes count against the bound of the window, given the bytes they take where history is kept.
pub(crate) fn window_cost(n_changes: usize, n_bytes: u64) -> u64 {
    n_bytes.max(n_changes as u64 * MIN_COST)
}

/// Retention as the writer applies it, beside the tables.
#[derive(Debug)]
pub(crate) struct Retainer {
    pub(crate) keep: Retention,
    pub(crate) ages: Ages,
}

impl Retainer {
    pub(crate) fn new(keep: Retention) -> Self {
        Retainer { keep, ages: Ages::default() }
    }

    /// Notes changes that were made. `cost` is what the batch takes where history is kept.
    pub(crate) fn note(&mut self, changes: &[Arc<Change>], cost: u64, now_millis: u64) {
        let Some(last) = changes.last() else { return };
        let cost = window_cost(changes.len(), cost);
        self.ages.push(last.revision, now_millis, changes.len(), cost);
    }

    /// Where the window should begin by now, if that has moved. The tables are then to be trimmed.
    pub(crate) fn due(&mut self, live_bytes: u64, now_millis: u64) -> Option<Revision> {
        self.ages.trim(&self.keep, live_bytes, now_millis)
    }

    /// Forgets history because someone asked.
    pub(crate) fn compact(&mut self, tables: &Tables, floor: Revision) {
        self.ages.drop_through(floor);
        tables.trim(floor);
    }
}

#[cfg(test)]
mod tests;
