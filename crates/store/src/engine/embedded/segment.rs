//! Segments: the files the log is cut into. A header sector, frames, and at the end a frame that says so.
//!
//! A segment is written full of zeros and synced under another name before it is used, so that a commit never
//! waits for the file system to find space, and whatever bears a segment's name has an intact header.

use std::ops::ControlFlow;

use super::{
    codec::{SECTOR, Seed},
    error::{DamageError, Doing, OpenError},
    frame::{Frame, FrameKind},
    header::{FileKind, Header, StoreId},
};
use crate::{Disk, DiskFile};

/// Zeros are written in pieces of this size.
const ZEROS: usize = 256 << 10;

pub(crate) fn segment_name(number: u64) -> String {
    format!("log-{number:016}")
}

/// What a file is called while it is being written.
pub(crate) fn draft_name(name: &str) -> String {
    format!("{name}.new")
}

/// The number in a segment's name.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("log-")?.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

/// A segment that frames can be written to.
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) file: Box<dyn DiskFile>,
    /// Its length on disk, all of it written once.
    pub(crate) len: u64,
    /// Where the next frame goes.
    pub(crate) offset: u64,
    pub(crate) seed: Seed,
}

impl Segment {
    /// Makes an empty segment, durable with its name.
    pub(crate) fn prepare(disk: &dyn Disk, store: StoreId, number: u64, len: u64) -> std::io::Result<Self> {
        let name = segment_name(number);
        let draft = draft_name(&name);
        let made = Self::write_empty(disk, &draft, store, number, len);
        if made.is_err() {
            // What was written may be all the space there is.
            let _ = disk.remove(&draft);
        }
        let file = made?;
        disk.rename(&draft, &name)?;
        disk.sync_names()?;
        Ok(Segment { number, file, len, offset: SECTOR as u64, seed: store.seed(FileKind::Segment, number) })
    }

    fn write_empty(
        disk: &dyn Disk,
        draft: &str,
        store: StoreId,
        number: u64,
        len: u64,
    ) -> std::io::Result<Box<dyn DiskFile>> {
        let file = disk.create(draft)?;
        let header = Header { kind: FileKind::Segment, store, number, revision: 0, at_millis: 0 };
        file.write_at(&header.encode(), 0)?;
        let zeros = vec![0; ZEROS.min(len as usize)];
        let mut offset = SECTOR as u64;
        while offset < len {
            let n_bytes = (len - offset).min(zeros.len() as u64) as usize;
            file.write_at(&zeros[..n_bytes], offset)?;
            offset += n_bytes as u64;
        }
        file.sync()?;
        Ok(file)
    }

    /// Whether a frame of `len` bytes fits, with a closing frame after it.
    pub(crate) fn fits(&self, len: usize) -> bool {
        self.offset + len as u64 + SECTOR as u64 <= self.len
    }
}

/// How a segment's frames come to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a closing frame of this kind, after which there are only zeros.
    Closed(FrameKind),
    /// Without one: nothing, or only zeros, after the last frame.
    Open,
    /// Without one, and with bytes after the last frame that are the remains of a write nobody was promised.
    Torn,
}

/// What reading a segment found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned {
    pub(crate) ending: Ending,
    /// The first byte after the last intact frame.
    pub(crate) end: u64,
    /// The checksum of the last intact frame.
    pub(crate) chain: Option<u64>,
    /// Its length as a file.
    pub(crate) len: u64,
}

/// A whole segment, read into memory.
pub(crate) struct SegmentReader {
    pub(crate) name: String,
    bytes: Vec<u8>,
    seed: Seed,
}

impl SegmentReader {
    /// Reads the segment and checks its header.
    pub(crate) fn read(disk: &dyn Disk, store: StoreId, number: u64) -> Result<Self, OpenError> {
        let name = segment_name(number);
        let bytes = read_all(disk, &name)?;
        let header = Header::decode(&bytes, FileKind::Segment, &name)?;
        if header.store != store || header.number != number {
            return Err(DamageError::new(&name, 0, "it belongs to another store or place in the log").into());
        }
        Ok(SegmentReader { name, bytes, seed: store.seed(FileKind::Segment, number) })
    }

    /// Calls `frame` with the segment's name and every frame, in order, after checking that it follows on `chain`.
    pub(crate) fn scan(
        &self,
        mut chain: Option<u64>,
        mut frame: impl FnMut(&str, &Frame<'_>) -> Result<(), OpenError>,
    ) -> Result<Scanned, OpenError> {
        let mut offset = SECTOR;
        let mut ending = Ending::Open;
        let mut last = None;
        while offset < self.bytes.len() {
            match self.step(offset, chain, &mut frame)? {
                ControlFlow::Continue((kind, len, checksum)) => {
                    offset += len;
                    (chain, last) = (Some(checksum), Some(checksum));
                    if kind.is_last() {
                        ending = Ending::Closed(kind);
                        self.expect_zeros(offset)?;
                        break;
                    }
                }
                ControlFlow::Break(found) => {
                    ending = found;
                    break;
                }
            }
        }
        let end = offset.min(self.bytes.len()) as u64;
        Ok(Scanned { ending, end, chain: last, len: self.bytes.len() as u64 })
    }

    fn step(
        &self,
        offset: usize,
        chain: Option<u64>,
        on_frame: &mut impl FnMut(&str, &Frame<'_>) -> Result<(), OpenError>,
    ) -> Result<ControlFlow<Ending, (FrameKind, usize, u64)>, OpenError> {
        let damage = |why: &str| DamageError::new(&self.name, offset as u64, why);
        match Frame::decode(&self.bytes[offset..], self.seed ^ offset as u64) {
            Ok(frame) => {
                if chain.is_some_and(|chain| chain != frame.previous) {
                    return Err(damage("a frame does not follow on the one before it").into());
                }
                on_frame(&self.name, &frame)?;
                Ok(ControlFlow::Continue((frame.kind, frame.len, frame.checksum)))
            }
            Err(_) if all_zero(&self.bytes[offset..]) => Ok(ControlFlow::Break(Ending::Open)),
            Err(why) => {
                if self.holds_intact_frame(offset + SECTOR) {
                    return Err(damage(&format!("{why}, yet a later frame is intact")).into());
                }
                Ok(ControlFlow::Break(Ending::Torn))
            }
        }
    }

    /// Whether an intact frame begins at `offset` or later: proof that what stands before it was once synced.
    fn holds_intact_frame(&self, offset: usize) -> bool {
        let sectors = (offset..self.bytes.len()).step_by(SECTOR);
        sectors.into_iter().any(|at| Frame::decode(&self.bytes[at..], self.seed ^ at as u64).is_ok())
    }

    fn expect_zeros(&self, offset: usize) -> Result<(), DamageError> {
        match self.bytes[offset..].iter().position(|&byte| byte != 0) {
            None => Ok(()),
            Some(at) => Err(DamageError::new(
                &self.name,
                (offset + at) as u64,
                "there are bytes after the closing frame",
            )),
        }
    }
}

/// Reads a whole file.
pub(crate) fn read_all(disk: &dyn Disk, name: &str) -> Result<Vec<u8>, OpenError> {
    let doing = || format!("reading {name}");
    let file = disk.open(name).doing(doing)?;
    let len = file.len().doing(doing)?;
    let mut bytes = Vec::new();
    // A length that was tampered with is an error, not an abort.
    let reserved =
        usize::try_from(len).map_err(|_| ()).and_then(|len| bytes.try_reserve_exact(len).map_err(drop));
    reserved.map_err(|()| std::io::Error::from(std::io::ErrorKind::OutOfMemory)).doing(doing)?;
    bytes.resize(len as usize, 0);
    file.read_at(&mut bytes, 0).doing(doing)?;
    Ok(bytes)
}

fn all_zero(bytes: &[u8]) -> bool {
    let chunks = bytes.chunks_exact(SECTOR);
    chunks.remainder().iter().all(|&byte| byte == 0) && chunks.into_iter().all(|chunk| chunk == [0; SECTOR])
}
