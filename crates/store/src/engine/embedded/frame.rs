//! Frames: what the log is made of. One frame holds one group of transactions and is written and synced as a
//! whole before the next begins, so a crash can spoil the last frame and no other.
//!
//! ```text
//! 0   kind          u8, then three zero bytes
//! 4   body length   u32
//! 8   checksum      u64 over the whole frame, padding included, seeded by its segment and offset
//! 16  previous      u64, the checksum of the frame before: frames form a chain
//! 24  revision      u64, of the first transaction (or as the kind says)
//! 32  time          u64, milliseconds since 1970
//! 40  body          then zeros up to the next sector
//! ```

use std::sync::Arc;

use super::codec::{Malformed, Reader, Seed, put_bytes, put_varint, seal_checksum, sectors, verify_checksum};
use crate::{Change, Revision, seal::Sealer};

const HEADER: usize = 40;
const HOLE: usize = 8;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// Transactions, the first at `revision`, each of the others at the next.
    Txns = 1,
    /// History up to and including `revision` was forgotten on request.
    Compacted = 2,
    /// Everything before this frame was synced. Written when the store falls idle, so that damage to the last
    /// acknowledged frame is not taken for a torn write.
    Synced = 3,
    /// The segment ends here and the next one goes on.
    Continues = 4,
    /// The segment ends here: the store was closed, or recovered from a crash.
    Ends = 5,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<Self> {
        use FrameKind::*;
        [Txns, Compacted, Synced, Continues, Ends].into_iter().find(|&kind| kind as u8 == byte)
    }

    /// Whether nothing may follow in the segment.
    pub(crate) fn is_last(self) -> bool {
        matches!(self, FrameKind::Continues | FrameKind::Ends)
    }
}

/// A frame being put together in a buffer that is used again and again.
#[derive(Debug, Default)]
pub(crate) struct FrameBuilder {
    buf: Vec<u8>,
}

impl FrameBuilder {
    /// A frame of transactions: `changes` in order of revision, without gaps.
    pub(crate) fn txns(&mut self, changes: &[Arc<Change>], sealer: &Sealer) {
        self.start();
        for txn in changes.chunk_by(|a, b| a.revision == b.revision) {
            put_varint(&mut self.buf, txn.len() as u64);
            for change in txn {
                put_op(&mut self.buf, change, sealer);
            }
        }
    }

    /// A frame without a body.
    pub(crate) fn bare(&mut self) {
        self.start();
    }

    fn start(&mut self) {
        self.buf.clear();
        self.buf.resize(HEADER, 0);
    }

    /// Bytes the frame will take on disk.
    pub(crate) fn len(&self) -> usize {
        sectors(self.buf.len())
    }

    /// Completes the frame; returns its bytes and its checksum, the next frame's `previous`.
    pub(crate) fn finish(
        &mut self,
        kind: FrameKind,
        revision: Revision,
        at_millis: u64,
        previous: u64,
        seed: Seed,
    ) -> (&[u8], u64) {
        let body_len = (self.buf.len() - HEADER) as u32;
        self.buf[0] = kind as u8;
        self.buf[4..8].copy_from_slice(&body_len.to_le_bytes());
        self.buf[16..24].copy_from_slice(&previous.to_le_bytes());
        self.buf[24..32].copy_from_slice(&revision.get().to_le_bytes());
        self.buf[32..40].copy_from_slice(&at_millis.to_le_bytes());
        self.buf.resize(self.len(), 0);
        let checksum = seal_checksum(&mut self.buf, HOLE, seed);
        (&self.buf, checksum)
    }
}

fn put_op(buf: &mut Vec<u8>, change: &Change, sealer: &Sealer) {
    match &change.current {
        Some(entry) => {
            put_varint(buf, (change.key.len() as u64) << 1);
            buf.extend_from_slice(&change.key);
            put_bytes(buf, &sealer.seal(&change.key, &entry.value));
        }
        None => {
            put_varint(buf, (change.key.len() as u64) << 1 | 1);
            buf.extend_from_slice(&change.key);
        }
    }
}

/// A frame that has been read and verified.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: FrameKind,
    pub(crate) revision: Revision,
    pub(crate) at_millis: u64,
    pub(crate) previous: u64,
    pub(crate) checksum: u64,
    /// Bytes on disk, padding included.
    pub(crate) len: usize,
    body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads the frame at the front of `bytes`.
    pub(crate) fn decode(bytes: &'a [u8], seed: Seed) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes.get(..HEADER).ok_or(Malformed("it ends too early"))?);
        let [kind, zeros @ ..] = reader.array::<4>()?;
        let body_len = reader.u32()? as usize;
        let (checksum, previous) = (reader.u64()?, reader.u64()?);
        let (revision, at_millis) = (Revision::new(reader.u64()?), reader.u64()?);
        let kind = FrameKind::from_byte(kind)
            .filter(|_| zeros == [0; 3])
            .ok_or(Malformed("no frame begins here"))?;
        let len = sectors(HEADER + body_len);
        let frame = bytes.get(..len).ok_or(Malformed("a frame is longer than its segment"))?;
        verify_checksum(frame, HOLE, seed)?;
        let body = &frame[HEADER..HEADER + body_len];
        Ok(Frame { kind, revision, at_millis, previous, checksum, len, body })
    }

    /// Calls `op` with the revision, key and value (`None`: deleted) of each operation; returns the revision
    /// of the last transaction.
    pub(crate) fn for_each_op(
        &self,
        mut op: impl FnMut(Revision, &'a [u8], Option<&'a [u8]>),
    ) -> Result<Revision, Malformed> {
        let mut reader = Reader(self.body);
        let mut revision = self.revision;
        loop {
            for _ in 0..reader.varint()? {
                let tagged_len = reader.varint()?;
                let len = usize::try_from(tagged_len >> 1).map_err(|_| Malformed("a length is too large"))?;
                let key = reader.take(len)?;
                let value = if tagged_len & 1 == 1 { None } else { Some(reader.bytes()?) };
                op(revision, key, value);
            }
            if reader.is_empty() {
                return Ok(revision);
            }
            revision = revision.next();
        }
    }
}
