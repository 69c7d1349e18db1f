//! The log: frames appended to the newest segment, synced before anyone is told.
//!
//! One thread appends ([`Log`]); another keeps the next segment ready ([`Spare`]); the checkpointer drops
//! segments it no longer needs ([`Segments`]). Any failure here is final: a log that could not be written or
//! synced is never written again. Start at [`Log::append`].

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    frame::{FrameBuilder, FrameKind},
    header::StoreId,
    planted,
    segment::{Segment, segment_name},
};
use crate::{Change, Disk, Revision, seal::Sealer};

/// Why a frame is not in the log.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// There is no room for another segment. Nothing was written.
    NoSpace { needed_bytes: u64 },
    /// The disk failed: what is in the log now is unknown.
    Failed { action: &'static str, source: io::Error },
}

/// The log's segments, as everyone may see them.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    by_number: Mutex<BTreeMap<u64, SegmentInfo>>,
    /// Bytes ever appended by this process.
    appended: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentInfo {
    /// Everything in this segment is after this revision.
    pub(crate) after: Revision,
    /// Bytes in use.
    pub(crate) used: u64,
}

impl Segments {
    pub(crate) fn by_number(&self) -> MutexGuard<'_, BTreeMap<u64, SegmentInfo>> {
        self.by_number.lock().expect("no one panics while holding the segments")
    }

    /// Bytes appended since the store was opened.
    pub(crate) fn appended(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Bytes of the log in segments that hold nothing after `revision`.
    pub(crate) fn used_through(&self, revision: Revision) -> u64 {
        let by_number = self.by_number();
        let followed = by_number.values().zip(by_number.values().skip(1));
        followed.take_while(|(_, next)| next.after <= revision).map(|(info, _)| info.used).sum()
    }

    /// The oldest segment that still has something after `revision`.
    pub(crate) fn first_needed(&self, revision: Revision) -> Option<u64> {
        let by_number = self.by_number();
        let newest = by_number.keys().next_back().copied();
        let needed =
            by_number.iter().zip(by_number.iter().skip(1)).find(|(_, (_, next))| next.after > revision);
        needed.map(|((&number, _), _)| number).or(newest)
    }
}

/// The length of a segment when there is no room for a proper one.
const SMALL: u64 = 64 << 10;

/// The next segment, made ready before it is needed.
pub(crate) struct Spare {
    disk: Arc<dyn Disk>,
    store: StoreId,
    slot: Mutex<Slot>,
    wanted: Condvar,
}

struct Slot {
    number: u64,
    ready: Option<Segment>,
    len: u64,
    closing: bool,
}

impl Spare {
    pub(crate) fn new(disk: Arc<dyn Disk>, store: StoreId, number: u64, len: u64) -> Self {
        let slot = Slot { number, ready: None, len, closing: false };
        Spare { disk, store, slot: Mutex::new(slot), wanted: Condvar::new() }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().expect("no one panics while holding the spare segment")
    }

    /// Makes the next segment ready if it is not.
    #[cfg(test)]
    pub(crate) fn prepare(&self) -> io::Result<()> {
        self.slot().prepare(&*self.disk, self.store, 0)
    }

    /// Takes the next segment, making one now if none is ready that has room for `needed` bytes.
    fn take(&self, needed: u64) -> io::Result<Segment> {
        let mut slot = self.slot();
        slot.prepare(&*self.disk, self.store, needed)?;
        slot.number += 1;
        self.wanted.notify_one();
        Ok(slot.ready.take().expect("just prepared"))
    }

    /// Sets the length of segments made from now on.
    pub(crate) fn set_len(&self, len: u64) {
        self.slot().len = len;
    }

    /// Keeps a segment ready until [`Spare::close`]. When there is no space it tries again at the next use.
    pub(crate) fn tend(&self, mut failed: impl FnMut(io::Error)) {
        let mut slot = self.slot();
        while !slot.closing {
            match slot.prepare(&*self.disk, self.store, 0) {
                Ok(()) => {}
                Err(error) if is_no_space(&error) => {}
                Err(error) => return failed(error),
            }
            slot = self.wanted.wait(slot).expect("no one panics while holding the spare segment");
        }
    }

    pub(crate) fn close(&self) {
        self.slot().closing = true;
        self.wanted.notify_one();
    }
}

impl Slot {
    fn prepare(&mut self, disk: &dyn Disk, store: StoreId, needed: u64) -> io::Result<()> {
        if self.ready.as_ref().is_some_and(|segment| segment.len >= needed) {
            return Ok(());
        }
        self.ready = None;
        let prepared = match Segment::prepare(disk, store, self.number, self.len.max(needed)) {
            // On a disk that is nearly full a small one is better than none.
            Err(error) if is_no_space(&error) && self.len > SMALL.max(needed) => {
                Segment::prepare(disk, store, self.number, SMALL.max(needed))
            }
            prepared => prepared,
        };
        self.ready = Some(prepared?);
        Ok(())
    }
}

/// Whether the disk refused for want of space, which may pass.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The writing end.
pub(crate) struct Log {
    active: Segment,
    spare: Arc<Spare>,
    segments: Arc<Segments>,
    /// Checksum of the last frame.
    chain: u64,
    head: Revision,
    frame: FrameBuilder,
    sealer: Sealer,
    /// Whether the last frame is one that promises something, with nothing after it to vouch for it.
    unvouched: bool,
}

impl Log {
    /// Goes on after the frame with checksum `chain`, which brought the store to `head`, in a new segment.
    pub(crate) fn start(
        spare: Arc<Spare>,
        segments: Arc<Segments>,
        chain: u64,
        head: Revision,
        sealer: Sealer,
    ) -> io::Result<Self> {
        let active = spare.take(0)?;
        segments.by_number().insert(active.number, SegmentInfo { after: head, used: active.offset });
        let frame = FrameBuilder::default();
        Ok(Log { active, spare, segments, chain, head, frame, sealer, unvouched: false })
    }

    /// The number of the segment being written.
    pub(crate) fn segment(&self) -> u64 {
        self.active.number
    }

    /// Makes a group of transactions durable; returns the bytes it takes.
    pub(crate) fn append(&mut self, changes: &[Arc<Change>], at_millis: u64) -> Result<u64, AppendError> {
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return Ok(0) };
        self.frame.txns(changes, &self.sealer);
        let len = self.write(FrameKind::Txns, first.revision, at_millis)?;
        self.head = last.revision;
        Ok(len)
    }

    /// Makes durable that history through `floor` was forgotten on request.
    pub(crate) fn compacted(&mut self, floor: Revision, at_millis: u64) -> Result<(), AppendError> {
        self.frame.bare();
        self.write(FrameKind::Compacted, floor, at_millis).map(drop)
    }

    /// Vouches for the last frame, if nothing does yet.
    pub(crate) fn vouch(&mut self, at_millis: u64) -> Result<(), AppendError> {
        if !self.unvouched {
            return Ok(());
        }
        self.frame.bare();
        if !self.active.fits(self.frame.len()) {
            return Ok(());
        }
        self.write(FrameKind::Synced, self.head, at_millis)?;
        self.unvouched = false;
        Ok(())
    }

    /// Ends the log properly; returns the checksum of its last frame.
    pub(crate) fn close(&mut self, at_millis: u64) -> Result<u64, AppendError> {
        self.frame.bare();
        self.put(FrameKind::Ends, self.head, at_millis)?;
        let end = self.active.offset;
        self.active.file.set_len(end).map_err(failed("cutting the closed segment"))?;
        self.active.file.sync().map_err(failed("syncing the closed segment"))?;
        Ok(self.chain)
    }

    fn write(&mut self, kind: FrameKind, revision: Revision, at_millis: u64) -> Result<u64, AppendError> {
        let len = self.frame.len();
        if !self.active.fits(len) {
            self.rotate(len, at_millis)?;
        }
        self.put(kind, revision, at_millis)?;
        self.unvouched = true;
        Ok(len as u64)
    }

    /// Writes the frame that has been built into the active segment and syncs it.
    fn put(&mut self, kind: FrameKind, revision: Revision, at_millis: u64) -> Result<(), AppendError> {
        let seed = self.active.seed ^ self.active.offset;
        let (bytes, checksum) = self.frame.finish(kind, revision, at_millis, self.chain, seed);
        let action = "writing to the log";
        if planted::bug(planted::Bug::AckBeforeSync) {
            self.active.file.sync().map_err(failed("syncing the log, a frame too late"))?;
        }
        self.active.file.write_at(bytes, self.active.offset).map_err(failed(action))?;
        if !planted::bug(planted::Bug::SkipSync) && !planted::bug(planted::Bug::AckBeforeSync) {
            self.active.file.sync().map_err(failed("syncing the log"))?;
        }
        self.active.offset += bytes.len() as u64;
        self.chain = checksum;
        if let Some(info) = self.segments.by_number().get_mut(&self.active.number) {
            info.used = self.active.offset;
        }
        self.segments.appended.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Closes the active segment and goes on in the next. The closing frame is durable before the next segment
    /// gets its first, so that a segment with a successor always ends properly.
    fn rotate(&mut self, needed: usize, at_millis: u64) -> Result<(), AppendError> {
        let needed_bytes = needed as u64 + 2 * super::codec::SECTOR as u64;
        let next = self.spare.take(needed_bytes).map_err(|source| match is_no_space(&source) {
            true => AppendError::NoSpace { needed_bytes },
            false => AppendError::Failed { action: "preparing a segment", source },
        })?;
        let pending = std::mem::take(&mut self.frame);
        self.frame.bare();
        self.put(FrameKind::Continues, self.head, at_millis)?;
        self.frame = pending;
        self.segments.by_number().insert(next.number, SegmentInfo { after: self.head, used: next.offset });
        self.active = next;
        Ok(())
    }
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> AppendError {
    move |source| AppendError::Failed { action, source }
}

/// Removes the segments before `first`, which nothing needs any more.
pub(crate) fn drop_segments(disk: &dyn Disk, segments: &Segments, first: u64) -> io::Result<()> {
    let old: Vec<u64> = segments.by_number().range(..first).map(|(&number, _)| number).collect();
    for number in old {
        disk.remove(&segment_name(number))?;
        segments.by_number().remove(&number);
    }
    Ok(())
}
