//! Table files: entries in key order, in checksummed blocks. Parts of the store and snapshots taken out of it
//! are such files.
//!
//! ```text
//! sector 0   header (what, whose, which, as of which revision)
//! block      length u32 · entries u32 · checksum u64 · entries
//! …
//! last block length 16, no entries; body: entries u64 · bytes u64 of the whole file
//! ```
//! An entry is its key, its value (each with its length before it) and its revision, as varints and bytes.

use std::sync::Arc;

use super::{
    codec::{Malformed, Reader, SECTOR, Seed, owned, put_bytes, put_varint, seal_checksum, verify_checksum},
    error::{DamageError, OpenError},
    header::{FileKind, Header, StoreId},
};
use crate::{DiskFile, Entry, MAX_KEY_BYTES, Revision, seal::Sealer};

/// Blocks are closed at this size: large enough to make the checksum cheap, small enough to write smoothly.
const BLOCK: usize = 128 << 10;
const BLOCK_HEADER: usize = 16;
const HOLE: usize = 8;

/// Adds up what a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) entries: u64,
    /// Bytes of keys and values.
    pub(crate) bytes: u64,
}

/// Writes a table file, entry by entry.
pub(crate) struct TableWriter {
    file: Box<dyn DiskFile>,
    seed: Seed,
    offset: u64,
    block: Vec<u8>,
    block_entries: u32,
    totals: Totals,
}

impl TableWriter {
    pub(crate) fn new(file: Box<dyn DiskFile>, header: &Header) -> std::io::Result<Self> {
        file.write_at(&header.encode(), 0)?;
        Ok(TableWriter {
            file,
            seed: header.store.seed(header.kind, header.number),
            offset: SECTOR as u64,
            block: vec![0; BLOCK_HEADER],
            block_entries: 0,
            totals: Totals::default(),
        })
    }

    /// Adds an entry, sealed. Entries come in key order.
    pub(crate) fn push(&mut self, entry: &Entry, sealer: &Sealer) -> std::io::Result<()> {
        let stored = sealer.seal(&entry.key, &entry.value);
        put_bytes(&mut self.block, &entry.key);
        put_bytes(&mut self.block, &stored);
        put_varint(&mut self.block, entry.revision.get());
        self.block_entries += 1;
        self.totals.entries += 1;
        self.totals.bytes += (entry.key.len() + stored.len()) as u64;
        if self.block.len() >= BLOCK { self.flush().map(drop) } else { Ok(()) }
    }

    /// What has been added so far.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Completes the file and makes its bytes durable; returns its length and the checksum of its last block.
    pub(crate) fn finish(mut self, sync: bool) -> std::io::Result<(u64, u64)> {
        if self.block_entries > 0 {
            self.flush()?;
        }
        self.block.extend_from_slice(&self.totals.entries.to_le_bytes());
        self.block.extend_from_slice(&self.totals.bytes.to_le_bytes());
        let checksum = self.flush()?;
        if sync {
            self.file.sync()?;
        }
        Ok((self.offset, checksum))
    }

    fn flush(&mut self) -> std::io::Result<u64> {
        let len = (self.block.len() - BLOCK_HEADER) as u32;
        self.block[..4].copy_from_slice(&len.to_le_bytes());
        self.block[4..8].copy_from_slice(&self.block_entries.to_le_bytes());
        let checksum = seal_checksum(&mut self.block, HOLE, self.seed ^ self.offset);
        self.file.write_at(&self.block, self.offset)?;
        self.offset += self.block.len() as u64;
        self.block.truncate(BLOCK_HEADER);
        self.block_entries = 0;
        Ok(checksum)
    }
}

/// A table file that has been read, with its header checked.
pub(crate) struct TableReader {
    name: String,
    pub(crate) header: Header,
    bytes: Vec<u8>,
}

impl TableReader {
    pub(crate) fn new(name: &str, kind: FileKind, bytes: Vec<u8>) -> Result<Self, OpenError> {
        let header = Header::decode(&bytes, kind, name)?;
        Ok(TableReader { name: name.into(), header, bytes })
    }

    /// Refuses a file that is not the one it should be.
    pub(crate) fn expect(&self, store: StoreId, number: u64, revision: Revision) -> Result<(), DamageError> {
        let Header { store: its_store, number: its_number, revision: its_revision, .. } = self.header;
        if (its_store, its_number, its_revision) == (store, number, revision.get()) {
            return Ok(());
        }
        Err(DamageError::new(&self.name, 0, "it is not the file the manifest names"))
    }

    /// Calls `entry` for each entry, in key order; returns the totals and the checksum of the last block.
    pub(crate) fn for_each(&self, mut entry: impl FnMut(Arc<Entry>)) -> Result<(Totals, u64), DamageError> {
        let seed = self.header.store.seed(self.header.kind, self.header.number);
        let mut totals = Totals::default();
        let mut offset = SECTOR;
        let mut last_key: Option<Arc<Entry>> = None;
        loop {
            let mut block = |bytes: &[u8]| {
                read_block(bytes, seed ^ offset as u64, |found| {
                    if last_key.as_ref().is_some_and(|last| last.key >= found.key) {
                        return Err(Malformed("keys are out of order"));
                    }
                    if found.revision.get() > self.header.revision {
                        return Err(Malformed("an entry is newer than its file"));
                    }
                    if found.key.is_empty() || found.key.len() > MAX_KEY_BYTES {
                        return Err(Malformed("a key has an impossible length"));
                    }
                    totals.entries += 1;
                    totals.bytes += found.bytes();
                    last_key = Some(found.clone());
                    entry(found);
                    Ok(())
                })
            };
            let block = block(&self.bytes[offset..])
                .map_err(|why| DamageError::new(&self.name, offset as u64, why.0))?;
            offset += block.len;
            let Some(stated) = block.totals else { continue };
            if stated != totals || offset != self.bytes.len() {
                return Err(DamageError::new(&self.name, offset as u64, "the totals do not match"));
            }
            return Ok((totals, block.checksum));
        }
    }

    /// The file's length.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

struct Block {
    len: usize,
    checksum: u64,
    /// Only the last block has them.
    totals: Option<Totals>,
}

fn read_block(
    bytes: &[u8],
    seed: Seed,
    mut entry: impl FnMut(Arc<Entry>) -> Result<(), Malformed>,
) -> Result<Block, Malformed> {
    let mut header = Reader(bytes.get(..BLOCK_HEADER).ok_or(Malformed("it ends too early"))?);
    let (body_len, n_entries) = (header.u32()? as usize, header.u32()?);
    let len = BLOCK_HEADER + body_len;
    let block = bytes.get(..len).ok_or(Malformed("a block is longer than its file"))?;
    let checksum = verify_checksum(block, HOLE, seed)?;
    let mut body = Reader(&block[BLOCK_HEADER..]);
    if n_entries == 0 {
        let totals = Totals { entries: body.u64()?, bytes: body.u64()? };
        return Ok(Block { len, checksum, totals: Some(totals) });
    }
    for _ in 0..n_entries {
        let (key, value) = (body.bytes()?, body.bytes()?);
        let revision = Revision::new(body.varint()?);
        entry(Arc::new(Entry { key: key.into(), value: owned(value), revision }))?;
    }
    match body.is_empty() {
        true => Ok(Block { len, checksum, totals: None }),
        false => Err(Malformed("a block holds more than its entries")),
    }
}
