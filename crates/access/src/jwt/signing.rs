//! Making tokens.

use std::fmt;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::{
    rand::SystemRandom,
    rsa::KeyPair as RsaKeyPair,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaPublicKeyComponents,
    },
};
use rustls_pki_types::pem::{PemObject, SectionKind};
use serde_json::{Map, Value, json};

use super::{
    KeyError, PublicKey,
    keys::{Material, rsa},
};

/// A private key that signs tokens: of P-256 (`ES256`), or of RSA (`RS256`).
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    P256(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.public.id()).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// A new key of P-256, as a PEM file.
    pub fn generate_pem() -> Result<String, KeyError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let made = made.map_err(|_| KeyError::Unsupported("the system has no randomness"))?;
        let text = STANDARD.encode(made.as_ref());
        let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        Ok(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n")))
    }

    /// The first private key of a PEM file.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
            let (kind, der) = section.map_err(|_| KeyError::Malformed("the PEM file is damaged".into()))?;
            if matches!(
                kind,
                SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey
            ) {
                return Self::from_der(kind, &der);
            }
        }
        Err(KeyError::Empty)
    }

    pub(super) fn from_der(kind: SectionKind, der: &[u8]) -> Result<Self, KeyError> {
        const EXPECTED: &str = "expected a private key of P-256 (PKCS#8) or of RSA";
        let pair = match kind {
            SectionKind::PrivateKey => {
                let p256 =
                    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new());
                match p256 {
                    Ok(pair) => Pair::P256(Box::new(pair)),
                    Err(_) => Pair::Rsa(Box::new(
                        RsaKeyPair::from_pkcs8(der).map_err(|_| KeyError::Unsupported(EXPECTED))?,
                    )),
                }
            }
            SectionKind::RsaPrivateKey => {
                Pair::Rsa(Box::new(RsaKeyPair::from_der(der).map_err(|_| KeyError::Unsupported(EXPECTED))?))
            }
            _ => {
                return Err(KeyError::Unsupported(
                    "expected PKCS#8, which `openssl pkcs8 -topk8 -nodes` makes of an EC PRIVATE KEY",
                ));
            }
        };
        let material = match &pair {
            Pair::P256(pair) => Material::P256(pair.public_key().as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                rsa(n, e)?
            }
        };
        Ok(SigningKey { pair, public: PublicKey::new(material) })
    }

    /// The half that verifies.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// A token that says this. `None` if the system has no randomness.
    pub fn sign(&self, claims: &Map<String, Value>) -> Option<String> {
        let algorithm = self.public.usual_algorithm().name();
        let header = json!({"alg": algorithm, "kid": self.public.id()}).to_string();
        let claims = Value::Object(claims.clone()).to_string();
        let mut token = [URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims)].join(".");
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::P256(pair) => pair.sign(&random, token.as_bytes()).ok()?.as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, token.as_bytes(), &mut signature).ok()?;
                signature
            }
        };
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Some(token)
    }
}
