//! What a verified token says, and whether it says it to us and now.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::TokenError;

/// Clocks that differ by more than this are wrong.
pub const MOST_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// What a token has to say to be believed.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Who may have issued it.
    pub issuers: &'a [String],
    /// Whom it may be meant for; one in common is enough.
    pub audiences: &'a [String],
    /// How far the clock of the issuer may differ; at most [`MOST_SKEW`] counts.
    pub skew: SignedDuration,
    /// Whether it has to expire at all.
    pub must_expire: bool,
}

/// What a token says whose signature has been verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims(pub(super) Map<String, Value>);

impl Claims {
    /// Everything it says.
    pub fn all(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Everything it says.
    pub fn into_all(self) -> Map<String, Value> {
        self.0
    }

    /// A text; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whom it is meant for.
    pub fn audiences(&self) -> Vec<&str> {
        match self.0.get("aud") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => vec![],
        }
    }

    /// When it ends to be good, if it does.
    pub fn expires(&self) -> Result<Option<Timestamp>, TokenError> {
        self.time("exp")
    }

    /// Whether it was issued by who should have, for us, and is good now. Says when it ends to be.
    pub fn check(&self, expected: &Expected<'_>, now: Timestamp) -> Result<Option<Timestamp>, TokenError> {
        if !expected.issuers.iter().any(|issuer| issuer == self.text("iss")) {
            return Err(TokenError::Issuer);
        }
        let expires = self.check_times(expected.skew, expected.must_expire, now)?;
        let is_ours = |audience: &&str| expected.audiences.iter().any(|own| own == audience);
        if !self.audiences().iter().any(is_ours) {
            return Err(TokenError::Audience);
        }
        Ok(expires)
    }

    /// Whether it is good now. Says when it ends to be.
    pub fn check_times(
        &self,
        skew: SignedDuration,
        must_expire: bool,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, TokenError> {
        let skew = skew.clamp(SignedDuration::ZERO, MOST_SKEW);
        let (early, late) = (
            now.checked_sub(skew).unwrap_or(Timestamp::MIN),
            now.checked_add(skew).unwrap_or(Timestamp::MAX),
        );
        let expires = self.expires()?;
        if must_expire && expires.is_none() {
            return Err(TokenError::NoExpiry);
        }
        if expires.is_some_and(|expires| early >= expires) {
            return Err(TokenError::Expired);
        }
        for name in ["nbf", "iat"] {
            if self.time(name)?.is_some_and(|begins| begins > late) {
                return Err(TokenError::NotYet);
            }
        }
        Ok(expires)
    }

    /// A time, in seconds since 1970, whole or not. What lies beyond all times is the last of them.
    fn time(&self, name: &str) -> Result<Option<Timestamp>, TokenError> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| seconds.is_finite()).ok_or(TokenError::BadTime)?;
        let (first, last) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        let second = (seconds.floor() as i64).clamp(first, last);
        Timestamp::from_second(second).map(Some).map_err(|_| TokenError::BadTime)
    }
}
