//! One key of one provider: the bytes it makes, and what it makes of them.
//!
//! | provider | after the prefix | bound to the key of the store |
//! |---|---|---|
//! | `aescbc` | IV (16), AES-CBC, padded as PKCS 7 | no |
//! | `aesgcm` | nonce (12), AES-GCM, tag (16) | yes |
//! | `secretbox` | nonce (24), Poly1305 tag (16), XSalsa20 | no |
//! | `xchacha20poly1305` | nonce (24), XChaCha20, Poly1305 tag (16) | yes |
//!
//! The last is ours alone: nonces of 24 random bytes never meet, however often a value is sealed, and it tells
//! whether a value stands where it belongs.

use std::fmt;

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::{
    Aes128Gcm, Aes256Gcm, AesGcm,
    aead::{Aead, Payload, consts::U12},
};
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyInit, KeyIvInit, block_padding::Pkcs7};
use chacha20poly1305::XChaCha20Poly1305;
use crypto_secretbox::{
    XSalsa20Poly1305,
    aead::{AeadInPlace, KeyInit as _},
};
use ring::rand::{SecureRandom, SystemRandom};

/// Where nonces and new keys come from: the system.
#[derive(Debug)]
pub struct Random(SystemRandom);

impl Default for Random {
    fn default() -> Self {
        Random(SystemRandom::new())
    }
}

impl Random {
    /// New random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill(&mut bytes).expect("the system has given random bytes to TLS before");
        bytes
    }
}

/// How values are sealed, by the name that a configuration has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AesCbc,
    AesGcm,
    SecretBox,
    XChaCha,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::AesCbc, Kind::AesGcm, Kind::SecretBox, Kind::XChaCha];

    /// Its name in a configuration and in what it makes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::AesCbc => "aescbc",
            Kind::AesGcm => "aesgcm",
            Kind::SecretBox => "secretbox",
            Kind::XChaCha => "xchacha20poly1305",
        }
    }

    /// How many bytes its keys may have.
    pub(super) fn sizes(self) -> &'static [usize] {
        match self {
            Kind::AesCbc | Kind::AesGcm => &[16, 24, 32],
            Kind::SecretBox | Kind::XChaCha => &[32],
        }
    }

    /// What it makes of a secret; `None` when that has the wrong size.
    pub(super) fn key(self, name: &str, secret: &[u8]) -> Option<SealingKey> {
        let cipher = match (self, secret.len()) {
            (Kind::AesCbc, 16) => Cipher::Cbc128(secret.try_into().ok()?),
            (Kind::AesCbc, 24) => Cipher::Cbc192(secret.try_into().ok()?),
            (Kind::AesCbc, 32) => Cipher::Cbc256(secret.try_into().ok()?),
            (Kind::AesGcm, 16) => Cipher::Gcm128(Box::new(Aes128Gcm::new_from_slice(secret).ok()?)),
            (Kind::AesGcm, 24) => Cipher::Gcm192(Box::new(AesGcm::new_from_slice(secret).ok()?)),
            (Kind::AesGcm, 32) => Cipher::Gcm256(Box::new(Aes256Gcm::new_from_slice(secret).ok()?)),
            (Kind::SecretBox, _) => Cipher::SecretBox(XSalsa20Poly1305::new_from_slice(secret).ok()?),
            (Kind::XChaCha, _) => Cipher::XChaCha(XChaCha20Poly1305::new_from_slice(secret).ok()?),
            _ => return None,
        };
        Some(SealingKey { prefix: format!("k8s:enc:{}:v1:{name}:", self.name()).into_bytes(), cipher })
    }
}

/// A key that seals and opens.
pub(super) struct SealingKey {
    /// What every value that it has sealed begins with.
    pub(super) prefix: Vec<u8>,
    cipher: Cipher,
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.prefix))
    }
}

enum Cipher {
    Cbc128([u8; 16]),
    Cbc192([u8; 24]),
    Cbc256([u8; 32]),
    Gcm128(Box<Aes128Gcm>),
    Gcm192(Box<AesGcm<Aes192, U12>>),
    Gcm256(Box<Aes256Gcm>),
    SecretBox(XSalsa20Poly1305),
    XChaCha(XChaCha20Poly1305),
}

const IV: usize = 16;
const GCM_NONCE: usize = 12;
const LONG_NONCE: usize = 24;
const TAG: usize = 16;

impl SealingKey {
    /// The value, sealed. `place` is where it will stand.
    pub(super) fn seal(&self, random: &Random, place: &[u8], value: &[u8]) -> Vec<u8> {
        let payload = Payload { msg: value, aad: place };
        let (nonce, body) = match &self.cipher {
            Cipher::Cbc128(key) => {
                cbc_seal(random, |iv| cbc::Encryptor::<Aes128>::new(key.into(), iv), value)
            }
            Cipher::Cbc192(key) => {
                cbc_seal(random, |iv| cbc::Encryptor::<Aes192>::new(key.into(), iv), value)
            }
            Cipher::Cbc256(key) => {
                cbc_seal(random, |iv| cbc::Encryptor::<Aes256>::new(key.into(), iv), value)
            }
            Cipher::Gcm128(cipher) => {
                aead_seal::<_, GCM_NONCE>(random, |n| cipher.encrypt(&n.into(), payload))
            }
            Cipher::Gcm192(cipher) => {
                aead_seal::<_, GCM_NONCE>(random, |n| cipher.encrypt(&n.into(), payload))
            }
            Cipher::Gcm256(cipher) => {
                aead_seal::<_, GCM_NONCE>(random, |n| cipher.encrypt(&n.into(), payload))
            }
            Cipher::XChaCha(cipher) => {
                aead_seal::<_, LONG_NONCE>(random, |n| cipher.encrypt(&n.into(), payload))
            }
            Cipher::SecretBox(cipher) => aead_seal::<_, LONG_NONCE>(random, |nonce| {
                let mut body = value.to_vec();
                let tag = cipher.encrypt_in_place_detached(&nonce.into(), b"", &mut body)?;
                Ok::<_, crypto_secretbox::aead::Error>([tag.as_slice(), &body].concat())
            }),
        };
        [&*self.prefix, &nonce, &body].concat()
    }

    /// The value of which this was made, for this place; `None` when it was not.
    pub(super) fn open(&self, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let sealed = sealed.strip_prefix(&*self.prefix)?;
        match &self.cipher {
            Cipher::Cbc128(key) => cbc_open(|iv| cbc::Decryptor::<Aes128>::new(key.into(), iv), sealed),
            Cipher::Cbc192(key) => cbc_open(|iv| cbc::Decryptor::<Aes192>::new(key.into(), iv), sealed),
            Cipher::Cbc256(key) => cbc_open(|iv| cbc::Decryptor::<Aes256>::new(key.into(), iv), sealed),
            Cipher::Gcm128(cipher) => {
                let (nonce, msg) = sealed.split_first_chunk::<GCM_NONCE>()?;
                cipher.decrypt(nonce.into(), Payload { msg, aad: place }).ok()
            }
            Cipher::Gcm192(cipher) => {
                let (nonce, msg) = sealed.split_first_chunk::<GCM_NONCE>()?;
                cipher.decrypt(nonce.into(), Payload { msg, aad: place }).ok()
            }
            Cipher::Gcm256(cipher) => {
                let (nonce, msg) = sealed.split_first_chunk::<GCM_NONCE>()?;
                cipher.decrypt(nonce.into(), Payload { msg, aad: place }).ok()
            }
            Cipher::XChaCha(cipher) => {
                let (nonce, msg) = sealed.split_first_chunk::<LONG_NONCE>()?;
                cipher.decrypt(nonce.into(), Payload { msg, aad: place }).ok()
            }
            Cipher::SecretBox(cipher) => {
                let (nonce, rest) = sealed.split_first_chunk::<LONG_NONCE>()?;
                let (tag, body) = rest.split_first_chunk::<TAG>()?;
                let mut value = body.to_vec();
                cipher.decrypt_in_place_detached(nonce.into(), b"", &mut value, tag.into()).ok()?;
                Some(value)
            }
        }
    }
}

type Iv = cbc::cipher::Array<u8, cbc::cipher::consts::U16>;

fn cbc_seal<E: BlockModeEncrypt>(
    random: &Random,
    encryptor: impl FnOnce(&Iv) -> E,
    value: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let iv = random.bytes::<IV>();
    (iv.to_vec(), encryptor(&iv.into()).encrypt_padded_vec::<Pkcs7>(value))
}

fn cbc_open<D: BlockModeDecrypt>(decryptor: impl FnOnce(&Iv) -> D, sealed: &[u8]) -> Option<Vec<u8>> {
    let (iv, body) = sealed.split_first_chunk::<IV>()?;
    decryptor(iv.into()).decrypt_padded_vec::<Pkcs7>(body).ok()
}

fn aead_seal<E: fmt::Debug, const N: usize>(
    random: &Random,
    encrypt: impl FnOnce([u8; N]) -> Result<Vec<u8>, E>,
) -> (Vec<u8>, Vec<u8>) {
    let nonce = random.bytes();
    (nonce.to_vec(), encrypt(nonce).expect("a value is below the gigabytes that a cipher takes"))
}
