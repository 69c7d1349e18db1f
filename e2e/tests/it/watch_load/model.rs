//! What was made, what a selection shows of it, and whether that is what was told.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde::Deserialize;
use tokio::sync::watch;

pub(super) const N_NAMESPACES: usize = 4;

/// How far the slowest watcher may be behind before writers wait for it: well inside what the server remembers.
const MAX_LAG: u64 = 20_000;

/// How long nothing at all may happen.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn namespace(idx: usize) -> String {
    format!("space-{}", idx % N_NAMESPACES)
}

/// An object's place: the writer that owns it and its number there.
pub(super) type Key = (usize, usize);

pub(super) fn name(key: Key) -> String {
    format!("key-{}-{}", key.0, key.1)
}

/// What is there, by key: the counter and the revision.
pub(super) type State = BTreeMap<Key, (u64, u64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Added,
    Modified,
    Deleted,
}

/// A change that a writer made to one of its keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) key: Key,
    /// The counter and the side that were written; nothing if it was deleted.
    pub(super) put: Option<(u64, Side)>,
    /// Where the server said.
    pub(super) revision: Option<u64>,
}

/// The label that objects change, so that they enter and leave selections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Side {
    Left,
    Right,
}

/// An event as a watcher was told of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) n: u64,
    pub(super) revision: u64,
}

/// What a watcher asks for.
#[derive(Clone, Debug)]
pub(super) enum Selection {
    All,
    Namespace(usize),
    Left,
    NamespaceLeft(usize),
    One(Key),
}

impl Selection {
    /// The request for it.
    pub(super) fn path(&self, query: &str) -> String {
        let of = |idx: usize| format!("/api/v1/namespaces/{}/configmaps?{query}", namespace(idx));
        match self {
            // Other ConfigMaps than ours may be there.
            Selection::All => format!("/api/v1/configmaps?labelSelector=side&{query}"),
            Selection::Namespace(idx) => format!("{}&labelSelector=side", of(*idx)),
            Selection::Left => format!("/api/v1/configmaps?labelSelector=side%3Dleft&{query}"),
            Selection::NamespaceLeft(idx) => format!("{}&labelSelector=side+in+(left)", of(*idx)),
            Selection::One(key) => format!("{}&fieldSelector=metadata.name%3D{}", of(key.0), name(*key)),
        }
    }

    fn takes(&self, key: Key, side: Side) -> bool {
        match self {
            Selection::All => true,
            Selection::Namespace(idx) => key.0 % N_NAMESPACES == idx % N_NAMESPACES,
            Selection::Left => side == Side::Left,
            Selection::NamespaceLeft(idx) => key.0 % N_NAMESPACES == idx % N_NAMESPACES && side == Side::Left,
            Selection::One(one) => key == *one,
        }
    }
}

/// What a watcher noted.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) selection: Selection,
    pub(super) first: State,
    /// The revision of the first state.
    pub(super) from: u64,
    pub(super) events: Vec<Told>,
    pub(super) n_watches: usize,
}

impl Watched {
    /// What it holds after everything it was told.
    pub(super) fn state(&self) -> State {
        let mut state = self.first.clone();
        for told in &self.events {
            match told.kind {
                Kind::Deleted => state.remove(&told.key),
                _ => state.insert(told.key, (told.n, told.revision)),
            };
        }
        state
    }
}

/// Whether the watcher was told of exactly what was made of its selection after its first state, in order; or what is
/// wrong.
pub(super) fn check(watched: &Watched, made: &[Made]) -> Result<(), String> {
    let Watched { selection, first, from, events, .. } = watched;
    if let Some(pair) = events.windows(2).find(|pair| pair[0].revision >= pair[1].revision) {
        return Err(format!("{selection:?}: revisions must increase: {pair:?}"));
    }
    if let Some(told) = events.first().filter(|told| told.revision <= *from) {
        return Err(format!("{selection:?}: {told:?} is of the time before {from}"));
    }
    let mut told = by_key(events, |told| told.key);
    for (key, changes) in by_key(made, |made| made.key) {
        let expected = expected(selection, &changes, first.get(&key).map(|(n, _)| *n), *from);
        let told = told.remove(&key).unwrap_or_default();
        let wrong = expected.iter().zip(&told).find(|(expected, told)| !expected.is(told));
        if wrong.is_some() || expected.len() != told.len() {
            let (expected, told) = (expected.len(), told.len());
            let name = name(key);
            return Err(format!(
                "{selection:?}, {name}: {expected} expected, {told} told, the first that differ: {wrong:?}"
            ));
        }
    }
    match told.keys().next() {
        Some(key) => Err(format!("{selection:?}: told of {}, which nobody wrote", name(*key))),
        None => Ok(()),
    }
}

fn by_key<T: Copy>(all: &[T], key: impl Fn(&T) -> Key) -> HashMap<Key, Vec<T>> {
    let mut sorted: HashMap<Key, Vec<T>> = HashMap::new();
    for one in all {
        sorted.entry(key(one)).or_default().push(*one);
    }
    sorted
}

#[derive(Clone, Copy, Debug)]
struct Expected {
    kind: Kind,
    n: u64,
    revision: Option<u64>,
}

impl Expected {
    fn is(&self, told: &Told) -> bool {
        let same_revision = self.revision.is_none_or(|revision| revision == told.revision);
        self.kind == told.kind && self.n == told.n && same_revision
    }
}

/// What of a key's changes a watcher must be told whose first state, of revision `from`, had it at counter `first`.
fn expected(selection: &Selection, changes: &[Made], first: Option<u64>, from: u64) -> Vec<Expected> {
    let mut expected = vec![];
    let mut shown: Option<u64> = None;
    for (idx, change) in changes.iter().enumerate() {
        let key = change.key;
        let now = change.put.filter(|(_, side)| selection.takes(key, *side)).map(|(n, _)| n);
        let (kind, n) = match (shown, now) {
            (None, None) => continue,
            (None, Some(n)) => (Kind::Added, n),
            (Some(_), Some(n)) => (Kind::Modified, n),
            (Some(n), None) => (Kind::Deleted, n),
        };
        shown = now;
        // A deletion's revision is not known; it lies before the next change, and where that leaves a doubt the first
        // state shows whether it was still to come.
        let was_there = match change.revision {
            Some(revision) => revision <= from,
            None => {
                let after_from = idx > 0 && changes[idx - 1].revision.is_some_and(|revision| revision > from);
                !after_from && first != Some(n)
            }
        };
        if !was_there {
            expected.push(Expected { kind, n, revision: change.revision });
        }
    }
    expected
}

/// An object, in whatever form it came.
#[derive(Debug, Deserialize)]
pub(super) struct Object {
    #[serde(default)]
    pub(super) metadata: Metadata,
    /// Where it is a Table.
    #[serde(default)]
    pub(super) rows: Vec<Row>,
    /// Where it is a Status.
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) object: Box<Object>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) resource_version: String,
    #[serde(default)]
    pub(super) annotations: HashMap<String, String>,
}

impl Object {
    /// Its key, counter and revision, if it is one of ours.
    pub(super) fn of(object: Object) -> Option<(Key, (u64, u64))> {
        let metadata = match object.rows.into_iter().next() {
            Some(row) => row.object.metadata,
            None => object.metadata,
        };
        let (writer, number) = metadata.name.strip_prefix("key-")?.split_once('-')?;
        let key = (writer.parse().ok()?, number.parse().ok()?);
        Some((key, (metadata.annotations.get("n")?.parse().ok()?, metadata.resource_version.parse().ok()?)))
    }
}

/// How far everyone is, so that nobody runs away from the others.
pub(super) struct Pace {
    n_changes: u64,
    /// Changes that a writer has taken on.
    taken: AtomicU64,
    made: watch::Sender<u64>,
    /// The newest revision a writer was told.
    head: AtomicU64,
    /// The revision each watcher has got to.
    reached: Vec<AtomicU64>,
    /// The revision after which nothing more is made; 0 until that is known.
    pub(super) last: AtomicU64,
}

impl Pace {
    pub(super) fn new(n_changes: u64, n_watchers: usize) -> Self {
        Pace {
            n_changes,
            taken: AtomicU64::new(0),
            made: watch::channel(0).0,
            head: AtomicU64::new(0),
            reached: (0..n_watchers).map(|_| AtomicU64::new(0)).collect(),
            last: AtomicU64::new(0),
        }
    }

    /// Asks for another change to make; waits while a watcher is far behind.
    pub(super) async fn take(&self) -> bool {
        let begin = Instant::now();
        while self.lag() > MAX_LAG {
            assert!(begin.elapsed() < PATIENCE, "a watcher stays {} revisions behind", self.lag());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.taken.fetch_add(1, Ordering::Relaxed) < self.n_changes
    }

    fn lag(&self) -> u64 {
        let slowest = self.reached.iter().map(|reached| reached.load(Ordering::Relaxed)).min();
        self.head.load(Ordering::Relaxed).saturating_sub(slowest.unwrap_or(0))
    }

    pub(super) fn note_made(&self, revision: Option<u64>) {
        self.head.fetch_max(revision.unwrap_or(0), Ordering::Relaxed);
        self.made.send_modify(|made| *made += 1);
    }

    pub(super) fn note_reached(&self, watcher: usize, revision: u64) {
        self.reached[watcher].store(revision, Ordering::Relaxed);
    }

    /// Waits until this many changes have been made.
    pub(super) async fn until_made(&self, n_changes: u64) {
        let mut made = self.made.subscribe();
        let reached = async { made.wait_for(|made| *made >= n_changes).await.map(|made| *made) };
        reached.await.expect("the sender is ours");
    }

    /// Waits until this many more have been made, or all.
    pub(super) async fn until_made_more(&self, n_changes: u64) {
        let now = *self.made.borrow();
        self.until_made((now + n_changes).min(self.n_changes)).await;
    }

    /// Whether this is the end.
    pub(super) fn is_last(&self, revision: u64) -> bool {
        let last = self.last.load(Ordering::Acquire);
        last > 0 && revision >= last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = (1, 0);

    /// Put at 10 on the left, at 20 on the right, deleted at 25, put at 30 on the left.
    fn made() -> Vec<Made> {
        let put = |n, side, revision| Made { key: KEY, put: Some((n, side)), revision: Some(revision) };
        let deleted = Made { key: KEY, put: None, revision: None };
        vec![put(1, Side::Left, 10), put(2, Side::Right, 20), deleted, put(4, Side::Left, 30)]
    }

    fn told(kind: Kind, n: u64, revision: u64) -> Told {
        Told { kind, key: KEY, n, revision }
    }

    fn outcome(selection: Selection, first: &[u64], from: u64, events: &[Told]) -> Result<(), String> {
        let first = first.iter().map(|&n| (KEY, (n, 0))).collect();
        check(&Watched { selection, first, from, events: events.to_vec(), n_watches: 1 }, &made())
    }

    #[test]
    fn what_was_made_is_what_must_be_told() {
        use Kind::{Added, Deleted, Modified};
        let all = [told(Added, 1, 10), told(Modified, 2, 20), told(Deleted, 2, 25), told(Added, 4, 30)];
        outcome(Selection::All, &[], 0, &all).expect("everything");
        outcome(Selection::All, &[1], 10, &all[1..]).expect("what follows the first state");
        outcome(Selection::All, &[2], 22, &all[2..]).expect("the deletion was still to come");
        outcome(Selection::All, &[], 27, &all[3..]).expect("the deletion had been");
        let left = [told(Added, 1, 10), told(Deleted, 1, 20), told(Added, 4, 30)];
        outcome(Selection::Left, &[], 0, &left).expect("it leaves the selection and comes back");
        outcome(Selection::Left, &[1], 15, &left[1..]).expect("what follows the first state");
        outcome(Selection::One((2, 0)), &[], 0, &[]).expect("another key is no concern");
    }

    #[test]
    fn gaps_duplicates_and_disorder_are_noticed() {
        use Kind::{Added, Deleted, Modified};
        let all = [told(Added, 1, 10), told(Modified, 2, 20), told(Deleted, 2, 25), told(Added, 4, 30)];
        for missing in 0..all.len() {
            let mut events = all.to_vec();
            events.remove(missing);
            outcome(Selection::All, &[], 0, &events).expect_err("a gap");
            let mut events = all.to_vec();
            events.insert(missing, all[missing]);
            outcome(Selection::All, &[], 0, &events).expect_err("a duplicate");
        }
        outcome(Selection::All, &[], 0, &[all[1], all[0], all[2], all[3]]).expect_err("disorder");
        outcome(Selection::All, &[1], 10, &all).expect_err("told of what was there");
        outcome(Selection::All, &[2], 22, &all[3..]).expect_err("the deletion is missing");
        outcome(Selection::Left, &[], 0, &all).expect_err("what does not belong to the selection");
        let wrong = [told(Added, 1, 11), all[1], all[2], all[3]];
        outcome(Selection::All, &[], 0, &wrong).expect_err("another revision");
    }
}
