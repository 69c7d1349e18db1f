//! Checkpoints: giving the log's space back, a part at a time.
//!
//! The store's base is cut into parts by key. The checkpointer goes round: it takes the part with the oldest
//! base, writes its range anew as of the window's floor, names the new files in the manifest, and drops what
//! nobody needs any more. So the directory holds the live data once, plus one part, plus the log of the window
//! and of one round; and no step is large, however large the store.
//!
//! Rounds are paced by the log: writing `live / 2` bytes of log (but at least [`MIN_ROUND`]) takes it round
//! once. Failing for want of space is no harm, since the old files are still there; every other failure stops
//! the store. Start at [`Checkpointer::step`].

use std::{
    io,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    log::{Segments, Spare, drop_segments},
    manifest::{Manifest, Part, part_name},
    planted,
};
use crate::{Clock, Disk, Revision, Snapshot, seal::Sealer, tables::Tables};

/// Sizes that tests make small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// A part is at least this large, unless the store is smaller.
    pub(crate) min_part: u64,
    /// A round takes at least this many bytes of log.
    pub(crate) min_round: u64,
    /// A segment is at least and at most this large.
    pub(crate) segment: (u64, u64),
}

/// Below this a round would rewrite a small store again and again for nothing.
const MIN_ROUND: u64 = 32 << 20;

/// Parts are some megabytes: sealing a store anew leaves the disk to others most of the time.
const RESEAL_PAUSE: Duration = Duration::from_millis(50);

impl Default for Sizes {
    fn default() -> Self {
        Sizes { min_part: 4 << 20, min_round: MIN_ROUND, segment: (4 << 20, 16 << 20) }
    }
}

impl Sizes {
    /// Sixty-four parts, so that what stands twice while one is rewritten is little.
    pub(crate) fn part(&self, live_bytes: u64) -> u64 {
        (live_bytes / 64).max(self.min_part)
    }

    fn round(&self, live_bytes: u64) -> u64 {
        (live_bytes / 2).max(self.min_round)
    }

    /// A segment is dropped as a whole, so it should be small beside the data.
    pub(crate) fn segment(&self, live_bytes: u64) -> u64 {
        (live_bytes / 16).clamp(self.segment.0, self.segment.1)
    }
}

/// Rewrites parts and drops what they replace. One thread's.
pub(crate) struct Checkpointer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) spare: Arc<Spare>,
    pub(crate) manifest: Manifest,
    pub(crate) sizes: Sizes,
    pub(crate) pace: Pace,
    pub(crate) sealer: Sealer,
    pub(crate) reseal: Reseal,
}

/// What is to be written anew because it is not sealed with the current key.
#[derive(Debug, Default)]
pub(crate) struct Reseal {
    /// Parts from before this revision, or in files with a lower number than this. `None`: nothing.
    pub(crate) until: Option<(Revision, u64)>,
    /// How many parts are left.
    pub(crate) left: Arc<AtomicU64>,
}

impl Reseal {
    fn is_stale(&self, part: &Part) -> bool {
        self.until.is_some_and(|(revision, number)| {
            part.base < revision || part.file.is_some_and(|file| file.number < number)
        })
    }
}

/// How far the parts should have been rewritten by now.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Bytes of log that have been accounted for in `owed`.
    seen_appended: u64,
    /// Bytes of parts that should have been rewritten by now.
    owed: u64,
}

impl Checkpointer {
    /// Rewrites one part if one is due; false when none is.
    pub(crate) fn step_if_due(&mut self) -> io::Result<bool> {
        let live_bytes = self.tables.state().live_bytes;
        self.spare.set_len(self.sizes.segment(live_bytes));
        let round = self.sizes.round(live_bytes);
        let appended = self.segments.appended();
        let written = appended - std::mem::replace(&mut self.pace.seen_appended, appended);
        // Log bytes are owed back in parts, so that one round of log pays for one round of parts.
        self.pace.owed += (u128::from(written) * u128::from(self.base_bytes()) / u128::from(round)) as u64;
        let oldest = self.oldest();
        let size = self.manifest.parts[oldest].file.map_or(0, |file| file.len);
        let floor = self.tables.window().floor;
        // What earlier processes wrote was owed to nobody; it must go all the same.
        let is_due = self.segments.used_through(floor) > round || size > 0 && self.pace.owed >= size;
        let is_due = is_due && self.manifest.parts[oldest].base < floor;
        if !self.must_reseal() && !is_due {
            // What cannot be paid now must not turn into a burst later.
            self.pace.owed = self.pace.owed.min(self.base_bytes());
            return Ok(false);
        }
        self.pace.owed = self.pace.owed.saturating_sub(size);
        self.step()?;
        Ok(true)
    }

    /// Whether there are parts that are not sealed with the current key. Notes how many.
    fn must_reseal(&mut self) -> bool {
        if self.reseal.until.is_none() {
            return false;
        }
        let n_left = self.manifest.parts.iter().filter(|part| self.reseal.is_stale(part)).count() as u64;
        self.reseal.left.store(n_left, Ordering::Relaxed);
        if n_left == 0 {
            self.reseal.until = None;
            tracing::info!("everything is sealed with the current key; old ones can be taken away");
        }
        n_left > 0
    }

    /// How long to rest after a part: not at all, unless it is rewritten for no other reason than its seals.
    pub(crate) fn rest(&self) -> Duration {
        if self.reseal.until.is_some() { RESEAL_PAUSE } else { Duration::ZERO }
    }

    /// Rewrites the part with the oldest base, as of the window's floor.
    pub(crate) fn step(&mut self) -> io::Result<()> {
        let (state, floor) = {
            let state = self.tables.state();
            (state.clone(), state.floor)
        };
        let part_bytes = self.sizes.part(state.live_bytes);
        let snapshot = Snapshot::new(state, floor);
        let old = self.choose(part_bytes);
        let mut next = self.manifest.clone();
        let end = next.parts.get(old.end).map(|part| part.start.clone());
        let start = next.parts[old.start].start.clone();
        let upper = end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&**end));
        let entries = snapshot.between((Bound::Included(&*start), upper));
        let base = match planted::bug(planted::Bug::MislabelPart) {
            true => self.tables.window().head,
            false => floor,
        };
        let at_millis = self.clock.now_millis();
        let sealer = &self.sealer;
        let fresh =
            next.write_parts(&*self.disk, entries, start.clone(), base, part_bytes, at_millis, sealer)?;
        let replaced: Vec<Part> = next.parts.splice(old, fresh).collect();
        if !planted::bug(planted::Bug::SkipNameSync) {
            self.disk.sync_names()?;
        }
        next.first_segment = self
            .segments
            .first_needed(next.oldest_base())
            .unwrap_or(next.first_segment)
            .max(next.first_segment);
        if planted::bug(planted::Bug::DropSegmentsEarly) {
            drop_segments(&*self.disk, &self.segments, next.first_segment)?;
        }
        next.known_segment = next.known_segment.max(next.first_segment);
        next.write(&*self.disk)?;
        self.manifest = next;
        for file in replaced.iter().filter_map(|part| part.file) {
            self.disk.remove(&part_name(file.number))?;
        }
        drop_segments(&*self.disk, &self.segments, self.manifest.first_segment)
    }

    /// Notes that the log was ended properly with a frame of this checksum.
    pub(crate) fn close(&mut self, chain: u64) {
        self.manifest.closed_at = Some(chain);
        if let Err(error) = self.manifest.write(&*self.disk) {
            tracing::warn!(%error, "the store is closed, but the manifest does not say so");
        }
    }

    /// Bytes of all part files.
    fn base_bytes(&self) -> u64 {
        self.manifest.parts.iter().filter_map(|part| part.file).map(|file| file.len).sum()
    }

    fn oldest(&self) -> usize {
        let by_base = self.manifest.parts.iter().enumerate().min_by_key(|(_, part)| part.base);
        by_base.expect("a manifest has parts").0
    }

    /// A part that is to be sealed anew, else the one with the oldest base; and as many of its neighbours as fit into one part with it.
    fn choose(&self, part_bytes: u64) -> std::ops::Range<usize> {
        let parts = &self.manifest.parts;
        let size = |idx: usize| parts[idx].file.map_or(0, |file| file.len);
        let stale = parts.iter().position(|part| self.reseal.is_stale(part));
        let first = stale.unwrap_or_else(|| self.oldest());
        let (mut end, mut total) = (first + 1, size(first));
        while end < parts.len() && total + size(end) <= part_bytes {
            total += size(end);
            end += 1;
        }
        first..end
    }
}
