//! Issuers: tokens that others have signed, and whom they make of the client that shows one.
//!
//! A [`Configuration`] is an `AuthenticationConfiguration` of Kubernetes, or the classic `--oidc-` flags
//! ([`Classic`]): who is trusted, for which audiences, and by which rules and expressions the claims of a token become
//! a user. [`Issuers`] is the authenticator that holds the one in force. It opens no connection and reads no clock:
//! its [`Keys`] come through a [`Fetch`], when whoever runs it calls [`Keys::load`]. Distributed claims are not
//! supported; a token that has its groups elsewhere is refused.

mod check;
mod classic;
mod keys;
mod mapping;
mod shape;
#[cfg(test)]
mod tests;
mod wire;

use std::{fmt, sync::Arc};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::field::{Errors, FieldError};

pub use self::{
    classic::Classic,
    keys::{Fetch, Keys, LoadError},
};
use self::{mapping::Mappings, wire::Wire};
use crate::{
    MASTERS,
    authn::{Authenticator, Identity, Refusal, Shown},
    jwt::{Algorithm, Expected, MOST_SKEW, Token, TokenError},
};

/// The issuer that has been known by two names.
const GOOGLE: (&str, &str) = ("https://accounts.google.com", "accounts.google.com");

/// Why a configuration is not put in force.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// It cannot be read as one.
    Text(String),
    /// Fields of it are wrong.
    Fields(Vec<FieldError>),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Text(text) => f.write_str(text),
            ConfigError::Fields(faults) => {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                match &*faults {
                    [one] => f.write_str(one),
                    many => write!(f, "[{}]", many.join(", ")),
                }
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// What the server sets to configurations.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// The issuers that the server itself is; nobody else may be.
    pub own_issuers: &'a [String],
    /// How tokens may be signed.
    pub algorithms: &'a [Algorithm],
}

/// Who is trusted, and how.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    issuers: Vec<Arc<Issuer>>,
    anonymous: Option<Anonymous>,
}

impl Configuration {
    /// Reads a file, in YAML or JSON. Finds every fault there is.
    pub fn read(bytes: &[u8], limits: &Limits<'_>) -> Result<Self, ConfigError> {
        Self::of(&Wire::read(bytes)?, limits)
    }

    fn of(wire: &Wire, limits: &Limits<'_>) -> Result<Self, ConfigError> {
        let mut errors = Errors::new();
        let configuration = check::configuration(wire, limits, &mut errors);
        wire::refuse(errors)?;
        Ok(configuration)
    }

    /// The issuers that are trusted.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.issuers.iter().map(|issuer| issuer.url.as_str())
    }
}

/// Where clients that show nothing are let in at all. What they may do there is another matter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Anonymous {
    Everywhere,
    Nowhere,
    At(Vec<String>),
}

/// One issuer.
#[derive(Debug)]
struct Issuer {
    url: String,
    discovery_url: String,
    /// Whom to trust about where it is, in PEM; empty: those that the system trusts.
    authorities: String,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    mappings: Mappings,
}

/// An issuer, and the keys it is known by.
#[derive(Debug)]
struct Trusted {
    issuer: Arc<Issuer>,
    keys: Arc<Keys>,
}

#[derive(Debug, Default)]
struct InForce {
    trusted: Vec<Trusted>,
    anonymous: Option<Anonymous>,
}

/// Knows clients by the tokens of issuers.
pub struct Issuers {
    in_force: ArcSwap<InForce>,
    clock: fn() -> Timestamp,
}

impl Issuers {
    /// Nobody is trusted yet.
    pub fn new(clock: fn() -> Timestamp) -> Self {
        Issuers { in_force: ArcSwap::default(), clock }
    }

    /// Puts a configuration in force, and returns the keys that have not been loaded.
    ///
    /// The keys of an issuer that stays where it was stay too.
    pub fn replace(&self, configuration: &Configuration, fetch: &Arc<dyn Fetch>) -> Vec<Arc<Keys>> {
        let before = self.in_force.load_full();
        let mut fresh = vec![];
        let trust = |issuer: &Arc<Issuer>| {
            let (url, discovery, authorities) = (&issuer.url, &issuer.discovery_url, &issuer.authorities);
            let known = before.trusted.iter().find(|known| known.keys.are_of(url, discovery, authorities));
            let keys = known.map(|known| Arc::clone(&known.keys)).unwrap_or_else(|| {
                let keys = Arc::new(Keys::new(url, discovery, authorities, Arc::clone(fetch)));
                fresh.push(Arc::clone(&keys));
                keys
            });
            Trusted { issuer: Arc::clone(issuer), keys }
        };
        let trusted = configuration.issuers.iter().map(trust).collect();
        self.in_force.store(Arc::new(InForce { trusted, anonymous: configuration.anonymous.clone() }));
        fresh
    }

    /// Whether a client that shows nothing is let in at a path.
    pub fn admits_anonymous(&self, path: &str) -> bool {
        match &self.in_force.load().anonymous {
            None | Some(Anonymous::Everywhere) => true,
            Some(Anonymous::Nowhere) => false,
            Some(Anonymous::At(paths)) => paths.iter().any(|own| own == path),
        }
    }
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuers").finish_non_exhaustive()
    }
}

#[async_trait]
impl Authenticator for Issuers {
    fn name(&self) -> &'static str {
        "issuer"
    }

    async fn authenticate(&self, shown: Shown<'_>) -> Result<Option<Identity>, Refusal> {
        let Some(text) = shown.bearer() else { return Ok(None) };
        let in_force = self.in_force.load_full();
        if in_force.trusted.is_empty() {
            return Ok(None);
        }
        let Ok(token) = Token::parse(text) else { return Ok(None) };
        let Some(trusted) = in_force.trusted.iter().find(|own| own.issuer.is(token.unverified_issuer()))
        else {
            return Ok(None);
        };
        let identity = trusted.identify(text, token, self.clock).await;
        let identity = identity
            .map_err(|why| Refusal { by: self.name(), why: format!("{}: {why}", trusted.issuer.url) })?;
        Ok(Some(Identity { by: self.name(), ..identity }))
    }
}

impl Issuer {
    /// Whether it goes by this name in tokens.
    fn is(&self, name: &str) -> bool {
        name == self.url || (self.url.as_str(), name) == GOOGLE
    }
}

impl Trusted {
    async fn identify(
        &self,
        text: &str,
        token: Token<'_>,
        clock: fn() -> Timestamp,
    ) -> Result<Identity, String> {
        let Issuer { url, audiences, algorithms, mappings, .. } = &*self.issuer;
        let known = self.keys.current();
        let claims = match token.verify(known.iter(), algorithms) {
            // It may be of a key that is new since.
            Err(error @ (TokenError::NoKey | TokenError::Signature)) => {
                let newer = self.keys.newer(&known).await.map_err(|why| format!("{error} ({why})"))?;
                Token::parse(text).and_then(|token| token.verify(newer.iter(), algorithms))
            }
            outcome => outcome,
        };
        let claims = claims.map_err(|error| error.to_string())?;
        let names = match url == GOOGLE.0 {
            true => vec![url.clone(), GOOGLE.1.to_owned()],
            false => vec![url.clone()],
        };
        let expected = Expected { issuers: &names, audiences, skew: MOST_SKEW, must_expire: true };
        let now = clock();
        let expires = claims.check(&expected, now).map_err(|error| error.to_string())?;
        // Clocks may differ about the beginning of a token's life, and nobody gains by its end.
        if expires.is_none_or(|expires| now >= expires) {
            return Err(TokenError::Expired.to_string());
        }
        let user = mappings.user(&Value::Object(claims.into_all()))?;
        if user.is_in(MASTERS) {
            return Err(format!("an issuer has no say in who is in {MASTERS}"));
        }
        Ok(Identity { user: Arc::new(user), by: "", expires })
    }
}
