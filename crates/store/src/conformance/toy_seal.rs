//! A seal for tests: it hides what it seals, knows its keys apart, and notices when a value is under a wrong key.
//! It withstands nobody.

use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Opened, Seal, SealError};

const MARK: &[u8] = b"toy:";

/// Seals everything.
#[derive(Debug)]
pub struct ToySeal {
    /// The numbers of the keys it has; the first is the current one.
    keys: Vec<u8>,
    n_sealed: AtomicU64,
}

impl ToySeal {
    /// A seal with these keys, of which the first seals.
    pub fn new(keys: impl IntoIterator<Item = u8>) -> Self {
        ToySeal { keys: keys.into_iter().collect(), n_sealed: AtomicU64::new(0) }
    }
}

impl Seal for ToySeal {
    fn seal(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let number = *self.keys.first()?;
        let nonce = self.n_sealed.fetch_add(1, Ordering::Relaxed);
        let body = hidden(number, nonce, value);
        let mut sealed = MARK.to_vec();
        sealed.push(number);
        sealed.extend_from_slice(&nonce.to_le_bytes());
        sealed.extend_from_slice(&tag(number, nonce, key, &body).to_le_bytes());
        sealed.extend_from_slice(&body);
        Some(sealed)
    }

    fn open(&self, key: &[u8], stored: &[u8]) -> Result<Opened, SealError> {
        let Some(sealed) = stored.strip_prefix(MARK) else {
            return Ok(Opened { value: None, is_current: self.keys.is_empty() });
        };
        let short = || SealError("it is too short".into());
        let (number, rest) = sealed.split_first().ok_or_else(short)?;
        let (nonce, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (stated, body) = rest.split_first_chunk().ok_or_else(short)?;
        if !self.keys.contains(number) {
            return Err(SealError(format!("there is no key {number}")));
        }
        let nonce = u64::from_le_bytes(*nonce);
        if tag(*number, nonce, key, body) != u64::from_le_bytes(*stated) {
            return Err(SealError("it belongs to another key, or was changed".into()));
        }
        let value = hidden(*number, nonce, body);
        Ok(Opened { value: Some(value), is_current: self.keys.first() == Some(number) })
    }
}

fn hidden(number: u8, nonce: u64, bytes: &[u8]) -> Vec<u8> {
    let pad = |block: usize| xxh3_64_with_seed(&[number], nonce ^ (block as u64) << 32).to_le_bytes();
    bytes
        .chunks(8)
        .enumerate()
        .flat_map(|(at, chunk)| chunk.iter().zip(pad(at)).map(|(a, b)| a ^ b).collect::<Vec<_>>())
        .collect()
}

fn tag(number: u8, nonce: u64, key: &[u8], body: &[u8]) -> u64 {
    xxh3_64_with_seed(body, xxh3_64_with_seed(key, nonce ^ u64::from(number) << 56))
}
