//! Authentication: from what a client shows to who it is.
//!
//! [`Authenticator`]s are asked in order. The first that recognises what is shown decides; one that is shown
//! something of its kind that is no good refuses, and nobody else is asked. A client that shows nothing is anonymous; a
//! client that shows something nobody knows is refused, because it would get an answer that is meant for another.

use std::{borrow::Cow, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use http::{HeaderMap, header};
use jiff::Timestamp;

use crate::{User, localhost::Vouched};

/// The connection that a request came over.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Who the client's certificate is of. The handshake has verified it.
    pub certificate: Option<Arc<User>>,
    /// When that certificate ends to be good.
    pub certificate_expires: Option<Timestamp>,
    /// The other end of the socket.
    pub address: Option<SocketAddr>,
    /// Whether it came over plain HTTP.
    pub is_plain: bool,
    /// Proof that the localhost rule lets this request pass.
    pub vouched: Option<Vouched>,
}

/// What a client shows of itself.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The connection.
    pub peer: &'a Peer,
    /// The headers of the request.
    pub headers: &'a HeaderMap,
}

impl<'a> Shown<'a> {
    /// The bearer token, if there is one.
    pub fn bearer(&self) -> Option<&'a str> {
        let value = self.headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
        let (scheme, token) = value.split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    }

    /// How the client calls itself.
    pub fn agent(&self) -> Cow<'a, str> {
        let agent = self.headers.get(header::USER_AGENT);
        String::from_utf8_lossy(agent.map(http::HeaderValue::as_bytes).unwrap_or_default())
    }

    /// The headers that are needed to ask again later.
    pub fn kept(&self) -> HeaderMap {
        let is_kept = |name: &header::HeaderName| {
            [header::AUTHORIZATION, header::USER_AGENT].contains(name)
                || name.as_str().starts_with("impersonate-")
        };
        let kept = self.headers.iter().filter(|(name, _)| is_kept(name));
        let mut headers = HeaderMap::new();
        for (name, value) in kept {
            headers.append(name, value.clone());
        }
        headers
    }
}

/// Who a client is, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: Arc<User>,
    /// The name of the authenticator that knows it.
    pub by: &'static str,
    /// When what was shown ends to be good, where that is known.
    pub expires: Option<Timestamp>,
}

/// What was shown is no good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{by}: {why}")]
pub struct Refusal {
    /// The name of the authenticator that refuses.
    pub by: &'static str,
    /// What is wrong with it. Never holds what was shown.
    pub why: String,
}

/// One way to know a client.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// Its name, in messages and metrics.
    fn name(&self) -> &'static str;

    /// Who shows this; `None` when that is not for this one to say.
    async fn authenticate(&self, shown: Shown<'_>) -> Result<Option<Identity>, Refusal>;
}

/// All ways to know a client, in the order in which they are tried.
#[derive(Default)]
pub struct Chain(Vec<Arc<dyn Authenticator>>);

impl Chain {
    /// A chain of these.
    pub fn new(authenticators: Vec<Arc<dyn Authenticator>>) -> Self {
        Chain(authenticators)
    }

    /// Who shows this.
    pub async fn authenticate(&self, shown: Shown<'_>) -> Result<Identity, Refusal> {
        for authenticator in &self.0 {
            if let Some(identity) = authenticator.authenticate(shown).await? {
                return Ok(identity);
            }
        }
        match shown.headers.contains_key(header::AUTHORIZATION) {
            true => Err(Refusal { by: "none", why: "nobody here knows these credentials".to_owned() }),
            false => Ok(Identity { user: User::anonymous(), by: "anonymous", expires: None }),
        }
    }
}

/// Knows clients by their certificates, with a clock: connections outlive certificates at times.
#[derive(Debug)]
pub struct Certificates(pub fn() -> Timestamp);

#[async_trait]
impl Authenticator for Certificates {
    fn name(&self) -> &'static str {
        "certificate"
    }

    async fn authenticate(&self, shown: Shown<'_>) -> Result<Option<Identity>, Refusal> {
        let Peer { certificate, certificate_expires: expires, .. } = shown.peer;
        match certificate {
            Some(_) if expires.is_some_and(|at| at <= self.0()) => {
                Err(Refusal { by: self.name(), why: "the certificate has expired".to_owned() })
            }
            Some(user) => Ok(Some(Identity { user: Arc::clone(user), by: self.name(), expires: *expires })),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The handshake checks a certificate once; whoever is asked about again later is asked about by the clock.
    #[tokio::test]
    async fn a_certificate_is_no_good_from_the_second_in_which_it_expires() {
        let second = |second| Timestamp::from_second(second).expect("a time");
        let headers = HeaderMap::new();
        for (expires, is_good) in [(101, true), (100, false), (99, false)] {
            let certificate = Some(Arc::new(User::new("ann", vec![])));
            let peer = Peer { certificate, certificate_expires: Some(second(expires)), ..Peer::default() };
            let clock = || Timestamp::from_second(100).expect("a time");
            let outcome = Certificates(clock).authenticate(Shown { peer: &peer, headers: &headers }).await;
            assert_eq!(outcome.is_ok_and(|identity| identity.is_some()), is_good, "until {expires}");
        }
    }
}
