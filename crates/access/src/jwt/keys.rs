//! Public keys: from JSON web keys and sets of them, from PEM files, and back.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{digest, signature::RsaPublicKeyComponents};
use rustls_pki_types::pem::{PemObject, SectionKind};
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate};

use super::{Algorithm, SigningKey, algorithm::Verification};

/// Most bytes of a set of keys, or of a file of keys. Large providers publish some ten keys of a kilobyte each.
const MOST_BYTES: usize = 1024 * 1024;

/// Most keys of a set.
const MOST_KEYS: usize = 256;

/// RSA moduli that are taken, in bytes: 2048 to 8192 bits.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=1024;

/// What stands before the point of a P-256 key in its DER form.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// What stands before the point of a P-384 key in its DER form.
const P384_PREFIX: [u8; 23] = [
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81,
    0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];

/// What stands before an Ed25519 key in its DER form.
const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The algorithm of RSA keys in their DER form, with its empty parameters.
const RSA_ALGORITHM: [u8; 15] =
    [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

/// Why a key cannot be used. Never says what is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// More bytes or keys than anyone publishes.
    #[error("there are more than {MOST_KEYS} keys or {MOST_BYTES} bytes")]
    TooLarge,
    /// It is not written as keys are.
    #[error("{0}")]
    Malformed(Cow<'static, str>),
    /// It is a key, but of a kind, curve or size that is not taken.
    #[error("keys of this kind are not supported: {0}")]
    Unsupported(&'static str),
    /// There is no key in it.
    #[error("there is no key in it")]
    Empty,
}

/// A public key that tokens are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    id: Option<String>,
    /// The only algorithm it is for, where that is said.
    only: Option<Algorithm>,
    material: Material,
}

/// The numbers of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    pub(super) fn new(material: Material) -> Self {
        let key = PublicKey { id: None, only: None, material };
        PublicKey { id: Some(key.thumbprint()), ..key }
    }

    /// Its name in sets and in headers of tokens.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The same, without a name: it is tried whatever key a token names.
    #[must_use]
    pub fn nameless(self) -> Self {
        PublicKey { id: None, ..self }
    }

    /// Reads a JSON web key.
    pub fn from_jwk(jwk: &Value) -> Result<Self, KeyError> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return Err(KeyError::Unsupported("it is not for signatures"));
        }
        let material = match (text("kty"), text("crv")) {
            (Some("RSA"), _) => rsa(number(jwk, "n")?, number(jwk, "e")?)?,
            (Some("EC"), Some("P-256")) => Material::P256(point(jwk, 32)?),
            (Some("EC"), Some("P-384")) => Material::P384(point(jwk, 48)?),
            (Some("OKP"), Some("Ed25519")) => Material::Ed25519(sized(number(jwk, "x")?, 32)?),
            (Some("EC" | "OKP" | "oct"), _) => {
                return Err(KeyError::Unsupported("its type or curve"));
            }
            _ => return Err(KeyError::Malformed("a key says of which type it is in kty".into())),
        };
        let only = match text("alg") {
            None => None,
            Some(name) => Some(Algorithm::from_name(name).ok_or(KeyError::Unsupported("its algorithm"))?),
        };
        Ok(PublicKey { id: text("kid").map(str::to_owned), only, material })
    }

    /// Reads a set of JSON web keys. Keys that cannot be used here are passed over, as those who publish expect.
    pub fn from_jwks(bytes: &[u8]) -> Result<Vec<Self>, KeyError> {
        if bytes.len() > MOST_BYTES {
            return Err(KeyError::TooLarge);
        }
        let set: Value = serde_json::from_slice(bytes)
            .map_err(|error| KeyError::Malformed(format!("a set of keys is JSON: {error}").into()))?;
        let keys = set.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or(KeyError::Malformed("a set of keys has them in a list named keys".into()))?;
        if keys.len() > MOST_KEYS {
            return Err(KeyError::TooLarge);
        }
        Ok(keys.iter().filter_map(|jwk| Self::from_jwk(jwk).ok()).collect())
    }

    /// Reads the keys of a PEM file: public keys, certificates, and private keys, of which the public half is
    /// taken.
    pub fn from_pem(text: &[u8]) -> Result<Vec<Self>, KeyError> {
        if text.len() > MOST_BYTES {
            return Err(KeyError::TooLarge);
        }
        let mut keys = vec![];
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
            let (kind, der) = section.map_err(|_| KeyError::Malformed("the PEM file is damaged".into()))?;
            let material = match kind {
                SectionKind::PublicKey => spki(&der)?,
                SectionKind::Certificate => {
                    let (_, certificate) = X509Certificate::from_der(&der).map_err(|_| damaged())?;
                    spki(certificate.public_key().raw)?
                }
                SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
                    keys.push(SigningKey::from_der(kind, &der)?.public().clone());
                    continue;
                }
                _ => continue,
            };
            if keys.len() == MOST_KEYS {
                return Err(KeyError::TooLarge);
            }
            keys.push(PublicKey::new(material));
        }
        if keys.is_empty() { Err(KeyError::Empty) } else { Ok(keys) }
    }

    /// The key as a JSON web key, as providers publish it.
    pub fn to_jwk(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match &self.material {
            Material::Rsa { modulus, exponent } => {
                json!({"use": "sig", "kty": "RSA", "n": encode(modulus), "e": encode(exponent)})
            }
            Material::P256(point) | Material::P384(point) => {
                let (x, y) = point[1..].split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"use": "sig", "kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
            }
            Material::Ed25519(x) => json!({"use": "sig", "kty": "OKP", "crv": "Ed25519", "x": encode(x)}),
        };
        jwk["alg"] = self.usual_algorithm().name().into();
        if let Some(id) = &self.id {
            jwk["kid"] = id.as_str().into();
        }
        jwk
    }

    /// The algorithm that tokens of this key are usually signed with.
    pub fn usual_algorithm(&self) -> Algorithm {
        self.only.unwrap_or(match &self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::P384(_) => Algorithm::Es384,
            Material::Ed25519(_) => Algorithm::EdDsa,
        })
    }

    /// Whether the key can sign that way, and is meant to.
    pub(super) fn suits(&self, algorithm: Algorithm) -> bool {
        let is_meant = self.only.is_none_or(|only| only == algorithm);
        is_meant
            && matches!(
                (&self.material, algorithm.verification()),
                (Material::Rsa { .. }, Verification::Rsa(_))
                    | (Material::P256(_), Verification::P256)
                    | (Material::P384(_), Verification::P384)
                    | (Material::Ed25519(_), Verification::Ed25519)
            )
    }

    /// Whether the key has signed this.
    pub(super) fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match (&self.material, algorithm.verification()) {
            (Material::Rsa { modulus, exponent }, Verification::Rsa(parameters)) => {
                let key = RsaPublicKeyComponents { n: modulus.as_slice(), e: exponent.as_slice() };
                key.verify(parameters, message, signature).is_ok()
            }
            (Material::P256(raw) | Material::P384(raw) | Material::Ed25519(raw), verification) => {
                verification.holds(raw, message, signature)
            }
            _ => false,
        }
    }

    /// The name that Kubernetes gives to keys that have none: a digest of the key's DER form.
    fn thumbprint(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &self.material.to_der()))
    }
}

impl Material {
    /// The key as a SubjectPublicKeyInfo.
    fn to_der(&self) -> Vec<u8> {
        match self {
            Material::P256(point) => [P256_PREFIX.as_slice(), point].concat(),
            Material::P384(point) => [P384_PREFIX.as_slice(), point].concat(),
            Material::Ed25519(key) => [ED25519_PREFIX.as_slice(), key].concat(),
            Material::Rsa { modulus, exponent } => {
                let numbers = [der_number(modulus), der_number(exponent)].concat();
                let bits = [&[0], der(0x30, &numbers).as_slice()].concat();
                der(0x30, &[RSA_ALGORITHM.as_slice(), &der(0x03, &bits)].concat())
            }
        }
    }
}

/// One DER element.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().position(|byte| *byte != 0).unwrap_or(length.len() - 1)..];
    let mut out = vec![tag];
    if content.len() >= 0x80 {
        out.push(0x80 | significant.len() as u8);
    }
    out.extend_from_slice(significant);
    out.extend_from_slice(content);
    out
}

/// A positive number, of which the first byte is not zero.
fn der_number(number: &[u8]) -> Vec<u8> {
    match number.first() {
        Some(first) if *first >= 0x80 => der(0x02, &[&[0], number].concat()),
        _ => der(0x02, number),
    }
}

fn damaged() -> KeyError {
    KeyError::Malformed("a key or certificate in it is damaged".into())
}

/// The key in a SubjectPublicKeyInfo.
fn spki(der: &[u8]) -> Result<Material, KeyError> {
    for (prefix, make) in [
        (P256_PREFIX.as_slice(), Material::P256 as fn(Vec<u8>) -> Material),
        (&P384_PREFIX, Material::P384),
        (&ED25519_PREFIX, Material::Ed25519),
    ] {
        if let Some(key) = der.strip_prefix(prefix) {
            let length = usize::from(prefix[prefix.len() - 2]) - 1;
            return Ok(make(sized(key.to_vec(), length)?));
        }
    }
    let (_, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| damaged())?;
    match info.parsed() {
        Ok(x509_parser::public_key::PublicKey::RSA(key)) => rsa(key.modulus.to_vec(), key.exponent.to_vec()),
        Ok(_) => Err(KeyError::Unsupported("expected RSA, P-256, P-384 or Ed25519")),
        Err(_) => Err(damaged()),
    }
}

/// An RSA key of a size that is neither weak nor a burden.
pub(super) fn rsa(modulus: Vec<u8>, exponent: Vec<u8>) -> Result<Material, KeyError> {
    let (modulus, exponent) = (without_zeros(modulus), without_zeros(exponent));
    if !MODULUS.contains(&modulus.len()) || exponent.is_empty() || exponent.len() > 4 {
        return Err(KeyError::Unsupported("RSA keys have 2048 to 8192 bits and a small exponent"));
    }
    Ok(Material::Rsa { modulus, exponent })
}

fn without_zeros(number: Vec<u8>) -> Vec<u8> {
    number.into_iter().skip_while(|byte| *byte == 0).collect()
}

/// A field of a JSON web key.
fn number(jwk: &Value, name: &'static str) -> Result<Vec<u8>, KeyError> {
    let text = jwk.get(name).and_then(Value::as_str);
    let decoded = text.and_then(|text| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok());
    decoded.ok_or_else(|| KeyError::Malformed(format!("the field {name} of a key is not base64url").into()))
}

fn sized(bytes: Vec<u8>, length: usize) -> Result<Vec<u8>, KeyError> {
    if bytes.len() == length {
        Ok(bytes)
    } else {
        Err(KeyError::Malformed("a key has the wrong length".into()))
    }
}

/// The point of an elliptic curve, uncompressed.
fn point(jwk: &Value, length: usize) -> Result<Vec<u8>, KeyError> {
    let (x, y) = (sized(number(jwk, "x")?, length)?, sized(number(jwk, "y")?, length)?);
    Ok([&[4], x.as_slice(), &y].concat())
}
