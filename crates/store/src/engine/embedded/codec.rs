//! Numbers and byte strings as they stand in the store's files, and the checksum over them.
//!
//! Reading never panics and never trusts a length: whatever is wrong comes back as [`Malformed`].

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::planted;

/// The unit a disk writes as a whole. Frames and headers begin on one, so that bytes already synced never
/// share a sector with bytes that are not.
pub(crate) const SECTOR: usize = 512;

/// What a store's checksums are seeded with: they tell apart stores, and files within one, and whoever
/// chooses the values cannot know it.
pub(crate) type Seed = u64;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// `len` rounded up to whole sectors.
pub(crate) const fn sectors(len: usize) -> usize {
    len.div_ceil(SECTOR) * SECTOR
}

/// The checksum of `bytes` but for the eight at `hole`: there it stands itself.
fn checksum(bytes: &[u8], hole: usize, seed: Seed) -> u64 {
    xxh3_64_with_seed(&bytes[hole + 8..], xxh3_64_with_seed(&bytes[..hole], seed))
}

/// Writes the checksum of `bytes` into its hole and returns it.
pub(crate) fn seal_checksum(bytes: &mut [u8], hole: usize, seed: Seed) -> u64 {
    let sum = checksum(bytes, hole, seed);
    bytes[hole..hole + 8].copy_from_slice(&sum.to_le_bytes());
    sum
}

/// Checks the checksum in the hole and returns it.
pub(crate) fn verify_checksum(bytes: &[u8], hole: usize, seed: Seed) -> Result<u64, Malformed> {
    let stated = u64::from_le_bytes(bytes[hole..hole + 8].try_into().expect("eight bytes"));
    match checksum(bytes, hole, seed) == stated || planted::bug(planted::Bug::TrustChecksums) {
        true => Ok(stated),
        false => Err(Malformed("the checksum does not match")),
    }
}

/// Appends `number`, seven bits at a time, lowest first.
pub(crate) fn put_varint(buf: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        buf.push(number as u8 | 0x80);
        number >>= 7;
    }
    buf.push(number as u8);
}

/// Appends the length of `bytes` and the bytes.
pub(crate) fn put_bytes(buf: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(buf, bytes.len() as u64);
    buf.extend_from_slice(bytes);
}

/// Takes numbers and byte strings from the front of a slice.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, n_bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(n_bytes).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed("a number is longer than 64 bits"))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| Malformed("a length is too large"))?)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }
}

/// A value of its own, not a slice of the buffer it was read from: one live value must not keep a whole
/// segment in memory.
pub(crate) fn owned(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
