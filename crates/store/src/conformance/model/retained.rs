//! Whether a store forgot only what its retention lets it forget.

use std::collections::VecDeque;

use crate::{Revision, conformance::plan::Effect, history::Retention};

/// Stores forget in batches of about this size, and may keep or drop one too many.
const BATCH_BYTES: u64 = 64 << 10;

/// What an engine may count for a change beside key and value.
const OVERHEAD_BYTES: u64 = 512;

/// The changes that a store must be able to tell, by its own account of its window.
#[derive(Debug)]
pub(super) struct Retained {
    keep: Retention,
    /// Without a clock, ages are not known.
    ages_known: bool,
    revisions: VecDeque<Kept>,
    n_changes: usize,
    bytes: u64,
    /// The largest transaction so far: a batch ends after one, so it can be that much larger.
    largest: u64,
}

#[derive(Debug)]
struct Kept {
    revision: Revision,
    at_millis: u64,
    n_changes: usize,
    bytes: u64,
}

impl Retained {
    pub(super) fn new(keep: Retention, ages_known: bool) -> Self {
        Retained { keep, ages_known, revisions: VecDeque::new(), n_changes: 0, bytes: 0, largest: 0 }
    }

    /// Notes one committed transaction.
    pub(super) fn push(&mut self, revision: Revision, effects: &[Effect], at_millis: u64) {
        let bytes =
            effects.iter().map(|effect| effect.key.len() + effect.current.as_ref().map_or(0, |v| v.len()));
        let kept = Kept { revision, at_millis, n_changes: effects.len(), bytes: bytes.sum::<usize>() as u64 };
        self.n_changes += kept.n_changes;
        self.bytes += kept.bytes;
        self.largest = self.largest.max(kept.bytes);
        self.revisions.push_back(kept);
    }

    /// Forgets because somebody asked for it.
    pub(super) fn compact(&mut self, floor: Revision) {
        self.drop_through(floor);
    }

    /// The store has moved its floor to `floor` on its own; panics if it should have kept more, or less.
    pub(super) fn forget(&mut self, floor: Revision, live_bytes: u64, now_millis: u64) {
        let newest = self.drop_through(floor);
        let max_bytes = self.keep.max_bytes.max(live_bytes);
        let slack = BATCH_BYTES + 2 * self.largest;
        if let Some(newest) = newest {
            let old = !self.ages_known
                || now_millis.saturating_sub(newest.at_millis) >= self.keep.min_age.as_millis() as u64;
            let spare = self.n_changes >= self.keep.min_changes;
            let at_most = self.bytes + self.n_changes as u64 * OVERHEAD_BYTES + slack;
            assert!(
                old && spare || at_most > max_bytes,
                "forgot {newest:?} at {now_millis} with {} changes, {} bytes left",
                self.n_changes,
                self.bytes
            );
        }
        let at_least = self.bytes.saturating_sub(slack);
        assert!(at_least <= max_bytes, "keeps {} bytes, {max_bytes} are allowed", self.bytes);
    }

    fn drop_through(&mut self, floor: Revision) -> Option<Kept> {
        let mut newest = None;
        while self.revisions.front().is_some_and(|kept| kept.revision <= floor) {
            newest = self.revisions.pop_front();
            if let Some(kept) = &newest {
                self.n_changes -= kept.n_changes;
                self.bytes -= kept.bytes;
            }
        }
        newest
    }
}
