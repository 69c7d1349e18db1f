//! The manifest: which parts make up the store's base, and where the log begins.
//!
//! It is replaced as a whole: written under another name, synced, renamed, and the name synced. What it does
//! not name does not exist. Together, parts and log give the store: each part holds the entries of a range of
//! keys as of a revision of its own, and the log holds everything after the oldest of those.

use std::sync::Arc;

use super::{
    codec::{Malformed, Reader, SECTOR, put_bytes, put_varint, seal_checksum, verify_checksum},
    error::{DamageError, Doing, OpenError},
    header::{FileKind, Header, StoreId},
    planted,
    segment::read_all,
    table_file::TableWriter,
};
use crate::{Disk, Entry, Key, Revision, seal::Sealer};

const NAME: &str = "MANIFEST";
const DRAFT: &str = "MANIFEST.new";
/// The checksum stands first after the header.
const HOLE: usize = SECTOR;

pub(crate) fn part_name(number: u64) -> String {
    format!("part-{number:016}")
}

/// The number in a part's name.
pub(crate) fn part_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("part-")?.parse().ok()?;
    (part_name(number) == name).then_some(number)
}

/// One range of keys, from `start` up to the next part's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: Key,
    /// The entries are as of this revision.
    pub(crate) base: Revision,
    /// `None`: the range was empty.
    pub(crate) file: Option<PartFile>,
}

/// The file that holds a part's entries, and how to know it is the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartFile {
    pub(crate) number: u64,
    pub(crate) len: u64,
    /// Checksum of its last block.
    pub(crate) checksum: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) store: StoreId,
    /// The oldest segment that is needed.
    pub(crate) first_segment: u64,
    /// A segment that exists, so that a lost end of the log is noticed; 0 before there is one.
    pub(crate) known_segment: u64,
    /// The checksum of the log's last frame, if the store was closed properly and not opened since.
    pub(crate) closed_at: Option<u64>,
    /// Numbers below this have been used for part files.
    pub(crate) next_part: u64,
    /// In key order; the first begins at the empty key. Never empty.
    pub(crate) parts: Vec<Part>,
}

impl Manifest {
    /// A store with nothing in it, that stands at `revision`.
    pub(crate) fn empty(store: StoreId, revision: Revision) -> Self {
        let part = Part { start: Key::from(&b""[..]), base: revision, file: None };
        Manifest {
            store,
            first_segment: 1,
            known_segment: 0,
            closed_at: None,
            next_part: 1,
            parts: vec![part],
        }
    }

    /// The oldest revision any part is as of: the log is needed from there on.
    pub(crate) fn oldest_base(&self) -> Revision {
        self.parts.iter().map(|part| part.base).min().expect("a manifest has parts")
    }

    /// The newest revision any part is as of: from there on the whole store can be known.
    pub(crate) fn newest_base(&self) -> Revision {
        self.parts.iter().map(|part| part.base).max().expect("a manifest has parts")
    }

    /// The part that `key` belongs to.
    pub(crate) fn part_of(&self, key: &[u8]) -> &Part {
        &self.parts[self.parts.partition_point(|part| *part.start <= *key) - 1]
    }

    /// Makes this the manifest, as one durable step.
    pub(crate) fn write(&self, disk: &dyn Disk) -> std::io::Result<()> {
        let file = disk.create(DRAFT)?;
        file.write_at(&self.encode(), 0)?;
        if !planted::bug(planted::Bug::SkipManifestSync) {
            file.sync()?;
        }
        disk.rename(DRAFT, NAME)?;
        disk.sync_names()
    }

    /// Writes `entries`, which are all from `start` on in their range, to part files of about `part_bytes`
    /// each, as of `base`. Their bytes are durable afterwards, their names are not.
    #[allow(clippy::too_many_arguments, reason = "a part is all of this")]
    pub(crate) fn write_parts<'a>(
        &mut self,
        disk: &dyn Disk,
        entries: impl Iterator<Item = &'a Arc<Entry>>,
        mut start: Key,
        base: Revision,
        part_bytes: u64,
        at_millis: u64,
        sealer: &Sealer,
    ) -> std::io::Result<Vec<Part>> {
        let mut entries = entries.peekable();
        let mut parts = vec![];
        loop {
            let mut part = Part { start, base, file: None };
            if entries.peek().is_some() {
                let number = self.next_part;
                self.next_part += 1;
                let header = Header {
                    kind: FileKind::Part,
                    store: self.store,
                    number,
                    revision: base.get(),
                    at_millis,
                };
                let mut writer = TableWriter::new(disk.create(&part_name(number))?, &header)?;
                while writer.totals().bytes < part_bytes
                    && let Some(entry) = entries.next()
                {
                    writer.push(entry, sealer)?;
                }
                let (len, checksum) = writer.finish(!planted::bug(planted::Bug::SkipPartSync))?;
                part.file = Some(PartFile { number, len, checksum });
            }
            parts.push(part);
            match entries.peek() {
                Some(entry) => start = entry.key.clone(),
                None => return Ok(parts),
            }
        }
    }

    /// Reads the manifest; `None` when there is none.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>, OpenError> {
        if !disk.list().doing(|| "listing the directory".into())?.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let bytes = read_all(disk, NAME)?;
        let header = Header::decode(&bytes, FileKind::Manifest, NAME)?;
        let manifest = Self::decode(&bytes, header.store);
        Ok(Some(manifest.map_err(|why| DamageError::new(NAME, SECTOR as u64, why.0))?))
    }

    /// Whether a file of the directory is named here.
    pub(crate) fn names(&self, file: &str) -> bool {
        file == NAME
            || self.parts.iter().filter_map(|part| part.file).any(|part| part_name(part.number) == file)
            || super::segment::segment_number(file).is_some_and(|number| number >= self.first_segment)
    }

    fn encode(&self) -> Vec<u8> {
        let header =
            Header { kind: FileKind::Manifest, store: self.store, number: 0, revision: 0, at_millis: 0 };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(&[0; 8]);
        for number in
            [self.first_segment, self.known_segment, self.next_part, self.closed_at.is_some().into()]
        {
            put_varint(&mut bytes, number);
        }
        bytes.extend_from_slice(&self.closed_at.unwrap_or(0).to_le_bytes());
        put_varint(&mut bytes, self.parts.len() as u64);
        for part in &self.parts {
            put_bytes(&mut bytes, &part.start);
            put_varint(&mut bytes, part.base.get());
            put_varint(&mut bytes, part.file.is_some().into());
            if let Some(PartFile { number, len, checksum }) = part.file {
                put_varint(&mut bytes, number);
                put_varint(&mut bytes, len);
                bytes.extend_from_slice(&checksum.to_le_bytes());
            }
        }
        seal_checksum(&mut bytes[HOLE..], 0, self.store.seed(FileKind::Manifest, 0));
        bytes
    }

    fn decode(bytes: &[u8], store: StoreId) -> Result<Self, Malformed> {
        if bytes.len() < HOLE + 8 {
            return Err(Malformed("it ends too early"));
        }
        verify_checksum(&bytes[HOLE..], 0, store.seed(FileKind::Manifest, 0))?;
        let mut reader = Reader(&bytes[HOLE + 8..]);
        let (first_segment, known_segment, next_part) =
            (reader.varint()?, reader.varint()?, reader.varint()?);
        let (is_closed, chain) = (reader.varint()? != 0, reader.u64()?);
        let closed_at = is_closed.then_some(chain);
        let n_parts = reader.varint()?;
        let parts = (0..n_parts).map(|_| read_part(&mut reader)).collect::<Result<Vec<_>, _>>()?;
        let ordered = parts.windows(2).all(|pair| pair[0].start < pair[1].start);
        if !reader.is_empty() || !ordered || parts.first().is_none_or(|part| !part.start.is_empty()) {
            return Err(Malformed("its parts make no sense"));
        }
        Ok(Manifest { store, first_segment, known_segment, closed_at, next_part, parts })
    }
}

fn read_part(reader: &mut Reader<'_>) -> Result<Part, Malformed> {
    let start = Key::from(reader.bytes()?);
    let base = Revision::new(reader.varint()?);
    let file = match reader.varint()? {
        0 => None,
        _ => Some(PartFile { number: reader.varint()?, len: reader.varint()?, checksum: reader.u64()? }),
    };
    Ok(Part { start, base, file })
}
