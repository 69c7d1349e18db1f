//! The first sector of every file of the store: what it is, whose it is, which one it is.

use super::{
    codec::{Malformed, Reader, SECTOR, Seed, seal_checksum, verify_checksum},
    error::{DamageError, OpenError},
};

/// The format this program writes, and the newest it reads.
pub(crate) const FORMAT: u32 = 1;

/// Offset of the header's checksum: it closes the sector.
const HOLE: usize = SECTOR - 8;

/// Identifies one store, from its creation or restoration on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreId(pub(crate) [u8; 16]);

impl StoreId {
    /// One that nobody has had and nobody can guess.
    pub(crate) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let half = || RandomState::new().hash_one(std::time::SystemTime::now()).to_le_bytes();
        StoreId([half(), half()].concat().try_into().expect("sixteen bytes"))
    }

    /// The seed for checksums in the file of this kind and number.
    pub(crate) fn seed(self, kind: FileKind, number: u64) -> Seed {
        let [low, high] = [&self.0[..8], &self.0[8..]]
            .map(|half| u64::from_le_bytes(half.try_into().expect("eight bytes")));
        low ^ high.rotate_left(kind as u32) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl std::fmt::Display for StoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum FileKind {
    /// The list of parts and segments.
    Manifest = 1,
    /// A segment of the log.
    Segment = 2,
    /// The entries of a range of keys.
    Part = 3,
    /// All entries, taken out of the store.
    Snapshot = 4,
}

impl FileKind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            FileKind::Manifest => b"WNDLMANI",
            FileKind::Segment => b"WNDLSEGM",
            FileKind::Part => b"WNDLPART",
            FileKind::Snapshot => b"WNDLSNAP",
        }
    }
}

/// The header's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: FileKind,
    pub(crate) store: StoreId,
    /// Which file of its kind.
    pub(crate) number: u64,
    /// The revision its contents are as of.
    pub(crate) revision: u64,
    /// When it was made.
    pub(crate) at_millis: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; SECTOR] {
        let mut sector = Vec::with_capacity(SECTOR);
        sector.extend_from_slice(self.kind.magic());
        sector.extend_from_slice(&FORMAT.to_le_bytes());
        sector.extend_from_slice(&self.store.0);
        for number in [self.number, self.revision, self.at_millis] {
            sector.extend_from_slice(&number.to_le_bytes());
        }
        let mut sector: [u8; SECTOR] = {
            sector.resize(SECTOR, 0);
            sector.try_into().expect("one sector")
        };
        seal_checksum(&mut sector, HOLE, 0);
        sector
    }

    /// Reads the header of `file`, which should be of this kind. A newer format is refused before anything
    /// else is believed, because its header may look different.
    pub(crate) fn decode(bytes: &[u8], kind: FileKind, file: &str) -> Result<Self, OpenError> {
        let damage = |why: Malformed| OpenError::Damaged(DamageError::new(file, 0, why.0));
        let sector: [u8; SECTOR] = bytes
            .get(..SECTOR)
            .and_then(|head| head.try_into().ok())
            .ok_or(damage(Malformed("it ends too early")))?;
        let mut reader = Reader(&sector);
        let magic: [u8; 8] = reader.array().map_err(damage)?;
        let format = reader.u32().map_err(damage)?;
        let intact = verify_checksum(&sector, HOLE, 0);
        if magic == *kind.magic() && format > FORMAT && intact.is_ok() {
            return Err(OpenError::NewerFormat { file: file.into(), found: format, supported: FORMAT });
        }
        verify_checksum(&sector, HOLE, 0).map_err(damage)?;
        if magic != *kind.magic() || format != FORMAT {
            return Err(damage(Malformed("it is not such a file")));
        }
        let mut reader = Reader(&sector[12..]);
        let mut decode = || {
            Ok(Header {
                kind,
                store: StoreId(reader.array()?),
                number: reader.u64()?,
                revision: reader.u64()?,
                at_millis: reader.u64()?,
            })
        };
        decode().map_err(damage)
    }
}
