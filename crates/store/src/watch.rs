//! Watches: delivering committed changes to readers, in order, from a revision onward.
//!
//! Watchers of one prefix form a group with one short ring of its latest changes, filled by a publisher
//! thread of the store: a commit costs the writer nothing, and a change is filed once per group however many
//! watch. A watcher is a position. It reads from its group's ring, or from the history when it has fallen (or
//! begun) further back, and is cut off when the history no longer reaches back to it. So nothing is buffered
//! per watcher, and nobody waits for a slow one. Start at [`Hub::watch`].

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::{Change, ReadError, Revision, tables::Tables};

/// Changes kept in a group's ring. Below a few dozen, watchers that are merely a scheduling delay behind would
/// scan the history; far above, idle groups would hold on to values for nothing.
const RING: usize = 256;

/// Changes handed out at once, so that one watcher cannot hold a lock or a worker for long.
const BATCH: usize = 64;

/// Changes of the history looked at in one go while catching up.
const SCAN: usize = 1024;

/// How often rings of quiet groups give up what the history has given up.
const SWEEP: Duration = Duration::from_secs(1);

/// What a watch yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Changes in order of revision; never empty, never half a transaction.
    Changes(Vec<Arc<Change>>),
    /// Everything of the prefix up to this revision has been delivered.
    Progress(Revision),
}

/// A reader's place in the stream of changes of one prefix. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    hub: Arc<Hub>,
    group: Arc<Group>,
    changed_rx: watch::Receiver<()>,
    /// Everything of the prefix up to here has been delivered.
    cursor: Revision,
    progress: Option<(Duration, Instant)>,
}

impl Watch {
    /// Also yields [`Delivery::Progress`], this often while nothing changes.
    #[must_use]
    pub fn with_progress(mut self, every: Duration) -> Self {
        self.progress = Some((every, Instant::now() + every));
        self
    }

    /// Everything of the prefix up to this revision has been delivered.
    pub fn delivered(&self) -> Revision {
        self.cursor
    }

    /// Waits for the next delivery. Safe to drop and call again: nothing is lost.
    pub async fn next(&mut self) -> Result<Delivery, ReadError> {
        loop {
            self.changed_rx.mark_unchanged();
            let batch = self.poll()?;
            if !batch.is_empty() {
                self.reset_progress();
                return Ok(Delivery::Changes(batch));
            }
            let Some((_, due)) = self.progress else {
                let _ = self.changed_rx.changed().await;
                continue;
            };
            if tokio::time::timeout_at(due, self.changed_rx.changed()).await.is_err() {
                // Only what was filed before the ring was found empty is known to have been delivered.
                let batch = self.poll()?;
                self.reset_progress();
                return Ok(match batch.is_empty() {
                    true => Delivery::Progress(self.cursor),
                    false => Delivery::Changes(batch),
                });
            }
        }
    }

    /// What can be delivered without waiting, up to a batch. An empty answer means that
    /// [`Watch::delivered`] has reached everything that was published when this was called.
    pub fn poll(&mut self) -> Result<Vec<Arc<Change>>, ReadError> {
        loop {
            self.hub.check_running()?;
            let published = self.hub.published();
            let mut batch = Vec::new();
            if self.group.take(self.cursor, published, &mut batch) {
                self.cursor = match batch.last() {
                    Some(last) => last.revision,
                    None => published.max(self.cursor),
                };
                return Ok(batch);
            }
            self.scan_history(&mut batch)?;
            if !batch.is_empty() {
                return Ok(batch);
            }
        }
    }

    /// Reads on in the history, for a while or to its end.
    fn scan_history(&mut self, batch: &mut Vec<Arc<Change>>) -> Result<(), ReadError> {
        let (history, window) = self.hub.tables.recent();
        if self.cursor < window.floor {
            return Err(ReadError::Compacted { requested: self.cursor, floor: window.floor });
        }
        let mut last = self.cursor;
        for (n_seen, change) in history.after(self.cursor).enumerate() {
            let whole_revision = change.revision != last;
            if whole_revision && (n_seen >= SCAN || batch.len() >= BATCH) {
                self.cursor = last;
                return Ok(());
            }
            last = change.revision;
            if change.key.starts_with(&self.group.prefix) {
                batch.push(change.clone());
            }
        }
        self.cursor = window.head;
        Ok(())
    }

    fn reset_progress(&mut self) {
        if let Some((every, due)) = &mut self.progress {
            *due = Instant::now() + *every;
        }
    }
}

/// All watchers of one prefix.
#[derive(Debug)]
struct Group {
    prefix: Box<[u8]>,
    ring: Mutex<Ring>,
    changed_tx: watch::Sender<()>,
}

#[derive(Debug)]
struct Ring {
    /// The ring holds every change of the prefix after this revision.
    start: Revision,
    changes: VecDeque<Arc<Change>>,
    /// Whether anything was filed since the watchers were last woken.
    fresh: bool,
}

impl Ring {
    fn starting(start: Revision) -> Self {
        Ring { start, changes: VecDeque::new(), fresh: false }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.changes.pop_front() {
            self.start = oldest.revision;
        }
    }
}

impl Group {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().expect("no one panics while holding a ring")
    }

    /// Copies what comes after `cursor`, up to `published`: what lies beyond is still being filed, and the last
    /// revision there may be incomplete. False when the ring does not reach back to `cursor`.
    fn take(&self, cursor: Revision, published: Revision, batch: &mut Vec<Arc<Change>>) -> bool {
        let ring = self.ring();
        if cursor < ring.start {
            return false;
        }
        let first = ring.changes.partition_point(|change| change.revision <= cursor);
        for change in ring.changes.range(first..) {
            let full =
                batch.len() >= BATCH && batch.last().is_some_and(|last| last.revision != change.revision);
            if full || change.revision > published {
                break;
            }
            batch.push(change.clone());
        }
        true
    }

    /// Takes a change in; true when it is the first since the last [`Group::wake`].
    fn file(&self, change: &Arc<Change>) -> bool {
        let mut ring = self.ring();
        ring.changes.push_back(change.clone());
        if ring.changes.len() > RING {
            ring.drop_oldest();
        }
        !std::mem::replace(&mut ring.fresh, true)
    }

    fn wake(&self) {
        self.ring().fresh = false;
        self.changed_tx.send_replace(());
    }

    /// Gives up what the history has given up.
    fn sweep(&self, floor: Revision) {
        let mut ring = self.ring();
        while ring.changes.front().is_some_and(|change| change.revision <= floor) {
            ring.drop_oldest();
        }
    }
}

/// Where the changes come out: the groups, and the thread that files changes with them.
#[derive(Debug)]
pub(crate) struct Hub {
    tables: Arc<Tables>,
    /// Everything up to here has been filed with its groups, whole revisions at a time, or is missing from
    /// rings that say so. Written with `groups` held, after the rings.
    published: AtomicU64,
    groups: Mutex<BTreeMap<Box<[u8]>, Weak<Group>>>,
    /// Whether the tables have moved since the publisher last looked.
    moved: Mutex<bool>,
    wake: Condvar,
    stop_tx: watch::Sender<Option<Arc<str>>>,
}

impl Hub {
    /// A hub over `tables`, which publishes nothing until [`Hub::spawn_publisher`].
    pub(crate) fn new(tables: Arc<Tables>) -> Arc<Self> {
        let head = tables.window().head;
        Arc::new(Hub {
            tables,
            published: AtomicU64::new(head.get()),
            groups: Mutex::default(),
            moved: Mutex::default(),
            wake: Condvar::new(),
            stop_tx: watch::channel(None).0,
        })
    }

    /// Starts the thread that files changes; it ends with the store.
    pub(crate) fn spawn_publisher(self: &Arc<Self>) -> std::io::Result<()> {
        let hub = Arc::downgrade(self);
        std::thread::Builder::new().name("store-publish".into()).spawn(move || publish(&hub)).map(drop)
    }

    /// Follows `prefix` from the first change after `after`.
    pub(crate) fn watch(self: &Arc<Self>, prefix: &[u8], after: Revision) -> Result<Watch, ReadError> {
        self.check_running()?;
        self.tables.window().check(after)?;
        let group = self.join(prefix);
        let changed_rx = group.changed_tx.subscribe();
        Ok(Watch { hub: self.clone(), group, changed_rx, cursor: after, progress: None })
    }

    /// Tells the publisher that the tables have moved. Costs the caller the same whoever watches.
    pub(crate) fn notify(&self) {
        let mut moved = self.moved.lock().expect("no one panics while holding the signal");
        if !std::mem::replace(&mut *moved, true) {
            self.wake.notify_one();
        }
    }

    /// Ends all watches with this reason. The first reason stays.
    pub(crate) fn stop(&self, reason: &str) {
        self.stop_tx.send_if_modified(|stopped| {
            let first = stopped.is_none();
            stopped.get_or_insert_with(|| reason.into());
            first
        });
        for group in self.groups().values().filter_map(Weak::upgrade) {
            group.wake();
        }
        self.notify();
    }

    /// Why the store has stopped, if it has.
    pub(crate) fn stop_reason(&self) -> Option<Arc<str>> {
        self.stop_tx.borrow().clone()
    }

    /// Waits until the store stops.
    pub(crate) async fn stopped(&self) -> Arc<str> {
        let mut stop_rx = self.stop_tx.subscribe();
        match stop_rx.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(reason)) => reason.clone(),
            _ => "the store was dropped".into(),
        }
    }

    fn check_running(&self) -> Result<(), ReadError> {
        match self.stop_reason() {
            Some(reason) => Err(ReadError::Stopped(reason)),
            None => Ok(()),
        }
    }

    fn published(&self) -> Revision {
        Revision::new(self.published.load(Ordering::Acquire))
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, Weak<Group>>> {
        self.groups.lock().expect("no one panics while holding the groups")
    }

    fn join(&self, prefix: &[u8]) -> Arc<Group> {
        let mut groups = self.groups();
        if let Some(group) = groups.get(prefix).and_then(Weak::upgrade) {
            return group;
        }
        // With the groups held the publisher stands still, so the ring begins exactly here.
        let ring = Mutex::new(Ring::starting(self.published()));
        let group = Arc::new(Group { prefix: prefix.into(), ring, changed_tx: watch::channel(()).0 });
        groups.insert(prefix.into(), Arc::downgrade(&group));
        group
    }

    /// Files the next changes with their groups and wakes those; false when there is nothing left.
    fn publish_some(&self) -> bool {
        let (history, window) = self.tables.recent();
        let from = self.published();
        if from < window.floor {
            self.skip_to(window.floor);
            return true;
        }
        let mut touched: Vec<Arc<Group>> = Vec::new();
        let mut groups = self.groups();
        let mut published = from;
        let mut more = false;
        for (n_filed, change) in history.after(from).enumerate() {
            if n_filed >= SCAN && change.revision != published {
                more = true;
                break;
            }
            published = change.revision;
            for_each_prefix_of(&mut groups, &change.key, |group| {
                if group.file(change) {
                    touched.push(group.clone());
                }
            });
        }
        if !more {
            published = published.max(window.head);
        }
        self.published.store(published.get(), Ordering::Release);
        drop(groups);
        for group in touched {
            group.wake();
        }
        more
    }

    /// History was cut before it could be filed (or replaced): rings can no longer claim to be complete.
    fn skip_to(&self, floor: Revision) {
        let groups = self.groups();
        let live: Vec<_> = groups.values().filter_map(Weak::upgrade).collect();
        for group in &live {
            *group.ring() = Ring::starting(floor);
        }
        // Only now: a watcher that finds nothing in its ring takes everything published for delivered.
        self.published.store(floor.get(), Ordering::Release);
        drop(groups);
        for group in live {
            group.wake();
        }
    }

    fn sweep(&self) {
        let floor = self.tables.window().floor;
        self.groups().retain(|_, group| match group.upgrade() {
            Some(group) => {
                group.sweep(floor);
                true
            }
            None => false,
        });
    }
}

/// Calls `found` for every group whose prefix `key` starts with, longest first.
///
/// Groups are in byte order, so the one just before the key is either a prefix of it or shares a shorter one
/// with it; either way the next candidate is shorter, and the walk takes as many steps as there are levels.
fn for_each_prefix_of(
    groups: &mut BTreeMap<Box<[u8]>, Weak<Group>>,
    key: &[u8],
    mut found: impl FnMut(&Arc<Group>),
) {
    let mut dead = Vec::new();
    let mut upper = std::ops::Bound::Included(key);
    while let Some((prefix, group)) = groups.range::<[u8], _>((std::ops::Bound::Unbounded, upper)).next_back()
    {
        let n_common = prefix.iter().zip(key).take_while(|(a, b)| a == b).count();
        if n_common == prefix.len() {
            match group.upgrade() {
                Some(group) => found(&group),
                None => dead.push(prefix.clone()),
            }
            upper = std::ops::Bound::Excluded(&key[..n_common]);
        } else {
            upper = std::ops::Bound::Included(&key[..n_common]);
        }
    }
    for prefix in dead {
        groups.remove(&prefix);
    }
}

/// The publisher: files changes as they come, until the hub is gone or stopped.
fn publish(hub: &Weak<Hub>) {
    let mut swept = std::time::Instant::now();
    while let Some(hub) = hub.upgrade() {
        while hub.publish_some() {}
        if swept.elapsed() >= SWEEP {
            hub.sweep();
            swept = std::time::Instant::now();
        }
        if hub.stop_reason().is_some() {
            return;
        }
        let moved = hub.moved.lock().expect("no one panics while holding the signal");
        let waited = hub.wake.wait_timeout_while(moved, SWEEP, |moved| !*moved);
        *waited.expect("no one panics while holding the signal").0 = false;
    }
}

#[cfg(test)]
mod tests;
