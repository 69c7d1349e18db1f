//! The recent past: every change inside the window, in order.
//!
//! Reads at a past revision and watches that start in the past are answered from here. The history is
//! persistent (a clone is a pointer), so readers keep theirs while the writer appends and trims.
//!
//! A key's versions are linked through the changes: the version that is there now says at which revision it
//! was put; the change of that revision says what was there before; and so on back to the floor. Where a key
//! was created anew, the step says when it had been deleted. With `a` put at 2 and 3, deleted at 5, put at 7:
//!
//! ```text
//! live   a@7          read a at 4:  a@7 is too new, so look at step 7
//! steps  7: put       created anew, deleted before at 5, which is after 4: look at step 5
//!        5: delete    before it a@3, which is not after 4: that is the answer
//!        3: put       before it a@2
//! ```

use std::{collections::VecDeque, sync::Arc, time::Duration};

use imbl::Vector;

use crate::{Change, Entry, Revision};

/// How much of the past is kept. What is older than both minimums goes; what is above `max_bytes` goes in any
/// case.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Changes younger than this stay.
    pub min_age: Duration,
    /// This many of the newest changes stay.
    pub min_changes: usize,
    /// Never keep more than this many bytes of changes, or as many as are live, whichever is more. So the
    /// window of a small store is not starved and that of a large one costs at most what the data cost.
    pub max_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { min_age: Duration::from_secs(300), min_changes: 100_000, max_bytes: 64 << 20 }
    }
}

/// Changes in order of revision, all those after the floor.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    steps: Vector<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    change: Arc<Change>,
    /// Where the change creates a key anew: when it was deleted, if that was inside the window.
    deleted_before: Option<Revision>,
}

impl History {
    pub(crate) fn push(&mut self, change: Arc<Change>, deleted_before: Option<Revision>) {
        self.steps.push_back(Step { change, deleted_before });
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Removes and returns the oldest change if its revision is at most `floor`.
    pub(crate) fn pop_through(&mut self, floor: Revision) -> Option<Arc<Change>> {
        if self.steps.front()?.change.revision > floor {
            return None;
        }
        self.steps.pop_front().map(|step| step.change)
    }

    /// The changes after `revision`, oldest first.
    pub(crate) fn after(&self, revision: Revision) -> impl Iterator<Item = &Arc<Change>> {
        self.steps.focus().narrow(self.first_after(revision)..).into_iter().map(|step| &step.change)
    }

    /// The version of the key that was there at `at`, given that its newest change in the window was at
    /// `newest`, after `at`.
    pub(crate) fn version_at(&self, key: &[u8], mut newest: Revision, at: Revision) -> Option<&Arc<Entry>> {
        loop {
            let step = self.find(key, newest)?;
            newest = match &step.change.previous {
                Some(previous) if previous.revision <= at => return Some(previous),
                Some(previous) => previous.revision,
                None => step.deleted_before.filter(|&deleted| deleted > at)?,
            };
        }
    }

    fn find(&self, key: &[u8], revision: Revision) -> Option<&Step> {
        let start = self.first_after(Revision::new(revision.get() - 1));
        (start..)
            .map_while(|idx| self.steps.get(idx))
            .take_while(|step| step.change.revision == revision)
            .find(|step| *step.change.key == *key)
    }

    /// The revision of the change at this place, counted from the oldest.
    pub(crate) fn revision_at(&self, idx: usize) -> Option<Revision> {
        self.steps.get(idx).map(|step| step.change.revision)
    }

    /// The place of the first change after `revision`.
    ///
    /// Where every transaction makes one change and revisions have no gaps, that can be computed; so the search
    /// begins there and doubles its reach in the direction that is left.
    fn first_after(&self, revision: Revision) -> usize {
        let len = self.steps.len();
        let is_after = |idx: usize| self.steps[idx].change.revision > revision;
        let Some(first) = self.revision_at(0) else { return 0 };
        let guess = len.min((revision.next().get().saturating_sub(first.get())) as usize);
        let (mut low, mut high, mut reach) = (guess, guess, 1);
        if guess < len && !is_after(guess) {
            while high < len && !is_after(high) {
                low = high + 1;
                high = len.min(high + reach);
                reach *= 2;
            }
        } else {
            while low > 0 && is_after(low - 1) {
                high = low - 1;
                low = high.saturating_sub(reach);
                reach *= 2;
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_after(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }
}

/// What the writer knows about the ages and sizes of the changes in the window, in batches.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    batches: VecDeque<Batch>,
    bytes: u64,
    changes: usize,
}

#[derive(Debug)]
struct Batch {
    last: Revision,
    oldest_millis: u64,
    newest_millis: u64,
    bytes: u64,
    changes: usize,
}

/// Batches are merged up to this size: fine enough for the window's edges, coarse enough to cost nothing.
const MERGE_BYTES: u64 = 64 << 10;
const MERGE_MILLIS: u64 = 1000;

impl Ages {
    /// Notes that `n_changes` up to revision `last`, costing `bytes`, were made at `at_millis`.
    pub(crate) fn push(&mut self, last: Revision, at_millis: u64, n_changes: usize, bytes: u64) {
        self.bytes += bytes;
        self.changes += n_changes;
        if let Some(batch) = self.batches.back_mut()
            && batch.bytes + bytes <= MERGE_BYTES
            && at_millis.abs_diff(batch.oldest_millis) < MERGE_MILLIS
        {
            batch.last = last;
            batch.newest_millis = batch.newest_millis.max(at_millis);
            batch.bytes += bytes;
            batch.changes += n_changes;
        } else {
            let (oldest_millis, newest_millis) = (at_millis, at_millis);
            self.batches.push_back(Batch { last, oldest_millis, newest_millis, bytes, changes: n_changes });
        }
    }

    /// Forgets what retention no longer asks for, and returns the new floor if it moved. The newest batch
    /// always stays.
    pub(crate) fn trim(&mut self, keep: &Retention, live_bytes: u64, now_millis: u64) -> Option<Revision> {
        let max_bytes = keep.max_bytes.max(live_bytes);
        let max_age = keep.min_age.as_millis() as u64;
        let mut floor = None;
        while self.batches.len() > 1
            && let Some(oldest) = self.batches.front()
        {
            let over_bytes = self.bytes > max_bytes;
            let spare = self.changes - oldest.changes >= keep.min_changes;
            let old = now_millis.saturating_sub(oldest.newest_millis) > max_age;
            if !(over_bytes || spare && old) {
                break;
            }
            floor = Some(oldest.last);
            self.drop_oldest();
        }
        floor
    }

    /// Forgets batches that lie wholly at or below `floor`.
    pub(crate) fn drop_through(&mut self, floor: Revision) {
        while self.batches.front().is_some_and(|batch| batch.last <= floor) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            self.bytes -= batch.bytes;
            self.changes -= batch.changes;
        }
    }
}

#[cfg(test)]
mod tests;
