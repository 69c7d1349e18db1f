//! The signing algorithms that are known, all of them of public keys.

use ring::signature::{
    self, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
};

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// RSA with PKCS#1 v1.5 and SHA-256.
    Rs256,
    /// RSA with PKCS#1 v1.5 and SHA-384.
    Rs384,
    /// RSA with PKCS#1 v1.5 and SHA-512.
    Rs512,
    /// RSA-PSS with SHA-256.
    Ps256,
    /// RSA-PSS with SHA-384.
    Ps384,
    /// RSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

/// How a signature of a kind of key is verified.
pub(super) enum Verification {
    Rsa(&'static RsaParameters),
    P256,
    P384,
    Ed25519,
}

impl Algorithm {
    /// All that are known.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
    ];

    /// As headers of tokens write it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    pub(super) fn verification(self) -> Verification {
        match self {
            Algorithm::Rs256 => Verification::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::Rs384 => Verification::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::Rs512 => Verification::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::Ps256 => Verification::Rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::Ps384 => Verification::Rsa(&RSA_PSS_2048_8192_SHA384),
            Algorithm::Ps512 => Verification::Rsa(&RSA_PSS_2048_8192_SHA512),
            Algorithm::Es256 => Verification::P256,
            Algorithm::Es384 => Verification::P384,
            Algorithm::EdDsa => Verification::Ed25519,
        }
    }
}

impl Verification {
    /// Whether a raw public key, not of RSA, has signed this.
    pub(super) fn holds(&self, key: &[u8], message: &[u8], signed: &[u8]) -> bool {
        let unparsed: &'static dyn signature::VerificationAlgorithm = match self {
            Verification::Rsa(_) => return false,
            Verification::P256 => &signature::ECDSA_P256_SHA256_FIXED,
            Verification::P384 => &signature::ECDSA_P384_SHA384_FIXED,
            Verification::Ed25519 => &signature::ED25519,
        };
        signature::UnparsedPublicKey::new(unparsed, key).verify(message, signed).is_ok()
    }
}
