//! JSON web tokens: what a signed token says, and whether to believe it.
//!
//! Only the compact form, only signatures of public keys: a token chooses its algorithm, so one that a public key
//! could be mistaken for a secret in (`HS256`), or that needs no key (`none`), is not even known here. Nothing in
//! this module reads a clock, a file or a network. Start at [`Token::parse`], then [`Token::verify`], then
//! [`Claims::check`]; [`SigningKey`] makes tokens.

mod algorithm;
mod claims;
mod key_set;
mod keys;
mod signing;
#[cfg(test)]
mod tests;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

pub use self::{
    algorithm::Algorithm,
    claims::{Claims, Expected, MOST_SKEW},
    key_set::KeySet,
    keys::{KeyError, PublicKey},
    signing::SigningKey,
};

/// Most bytes of a token. Tokens with hundreds of groups fit; headers of requests are not much longer.
pub const MOST_TOKEN: usize = 32 * 1024;

/// Most bytes of a token's header, decoded. A header is an algorithm and the name of a key.
const MOST_HEADER: usize = 2 * 1024;

/// Most keys that one token is held against. A token that names its key is held against one.
const MOST_KEYS: usize = 16;

/// Why a token is not believed. Never says what was in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is not a token in compact form at all, so it may be something else.
    #[error("it is not a JSON web token")]
    NotAToken,
    /// It is longer than any token should be.
    #[error("it is too long")]
    TooLong,
    /// It is signed in a way that is not allowed.
    #[error("its signing algorithm is not allowed")]
    Algorithm,
    /// It has critical parts that are not understood here.
    #[error("its header asks for extensions that are not supported")]
    Critical,
    /// No key is known that could have signed it.
    #[error("no key is known that could have signed it")]
    NoKey,
    /// The signature is of no known key.
    #[error("its signature is not valid")]
    Signature,
    /// It does not say when it expires.
    #[error("it does not say when it expires")]
    NoExpiry,
    /// A time in it is no time.
    #[error("a time in it is not a number")]
    BadTime,
    /// It was good once.
    #[error("it has expired")]
    Expired,
    /// It will be good later.
    #[error("it is not valid yet")]
    NotYet,
    /// It was issued by another.
    #[error("its issuer is not the expected one")]
    Issuer,
    /// It is meant for others.
    #[error("it is meant for another audience")]
    Audience,
}

/// A token that can be read. What it says may be believed once it is verified.
pub struct Token<'a> {
    algorithm: Option<Algorithm>,
    key_id: Option<String>,
    is_critical: bool,
    claims: Map<String, Value>,
    /// What the signature is of.
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Token<'a> {
    /// Reads a token in compact form.
    pub fn parse(text: &'a str) -> Result<Self, TokenError> {
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::NotAToken)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::NotAToken)?;
        if claims.contains('.') {
            return Err(TokenError::NotAToken);
        }
        if text.len() > MOST_TOKEN || header.len() > MOST_HEADER * 4 / 3 {
            return Err(TokenError::TooLong);
        }
        let (header, claims) = (object(header)?, object(claims)?);
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::NotAToken)?;
        let text_of = |name: &str| header.get(name).and_then(Value::as_str);
        Ok(Token {
            algorithm: text_of("alg").and_then(Algorithm::from_name),
            key_id: text_of("kid").map(str::to_owned),
            is_critical: header.contains_key("crit") || header.get("b64") == Some(&Value::Bool(false)),
            claims,
            signed,
            signature,
        })
    }

    /// Who the token says it is from: good for choosing who looks at it, and for nothing else.
    pub fn unverified_issuer(&self) -> &str {
        self.claims.get("iss").and_then(Value::as_str).unwrap_or_default()
    }

    /// The id that the token says it has: good for revoking it.
    pub fn unverified_id(&self) -> &str {
        self.claims.get("jti").and_then(Value::as_str).unwrap_or_default()
    }

    /// Which key the token says it is signed with: good for fetching keys that are not known yet.
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// What the token says, if one of these keys has signed it with one of these algorithms.
    ///
    /// A key that has an id is only tried for tokens that name it or name none.
    pub fn verify<'k>(
        self,
        keys: impl IntoIterator<Item = &'k PublicKey>,
        allowed: &[Algorithm],
    ) -> Result<Claims, TokenError> {
        if self.is_critical {
            return Err(TokenError::Critical);
        }
        let algorithm = self.algorithm.filter(|own| allowed.contains(own)).ok_or(TokenError::Algorithm)?;
        let is_candidate = |key: &PublicKey| {
            let is_named = match (&self.key_id, key.id()) {
                (Some(wanted), Some(own)) => wanted == own,
                _ => true,
            };
            is_named && key.suits(algorithm)
        };
        let mut candidates = keys.into_iter().filter(|key| is_candidate(key)).take(MOST_KEYS).peekable();
        if candidates.peek().is_none() {
            return Err(TokenError::NoKey);
        }
        let is_signed =
            candidates.any(|key| key.has_signed(algorithm, self.signed.as_bytes(), &self.signature));
        if is_signed { Ok(Claims(self.claims)) } else { Err(TokenError::Signature) }
    }
}

/// One of the first two parts of a token.
fn object(part: &str) -> Result<Map<String, Value>, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::NotAToken)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenError::NotAToken)
}
