//! The localhost rule: whoever comes over a listener of its own, on loopback, is a user without showing anything.
//!
//! Loopback is no proof of anything by itself: proxies on the machine, browsers and forwarded ports come from there
//! too. So a request counts only when nothing about it speaks of someone behind the one who connects: no header that a
//! proxy or a browser adds, this listener and nothing else in `Host` and `:authority`, and a kind of body that no form
//! in a web page can send. No header ever speaks for a request. The user is named, is in no powerful group, and may do
//! what roles allow it. Start at [`Guard::check`].

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock},
};

use async_trait::async_trait;
use http::{HeaderMap, Method, Uri, Version, header, request::Parts};

use crate::{
    UNAUTHENTICATED, User,
    authn::{Authenticator, Identity, Refusal, Shown},
};

#[cfg(test)]
mod tests;

/// The name of whoever the rule lets in.
pub const LOCALHOST: &str = "system:localhost";

/// The group of whoever the rule lets in.
pub const LOCAL_GROUP: &str = "system:unauthenticated-local";

/// Headers that tell of someone behind whoever connects, or of a page in a browser.
const TELLTALE: &[&str] = &[
    "forwarded",
    "via",
    "origin",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-originating-ip",
    "x-envoy-external-address",
    "true-client-ip",
    "fastly-client-ip",
    "cf-connecting-ip",
    "cf-ray",
    "cdn-loop",
    "max-forwards",
    "access-control-request-method",
    "access-control-request-headers",
    "access-control-request-private-network",
];

/// How the names of such headers begin.
const TELLTALE_PREFIXES: &[&str] = &["x-forwarded", "x-original-", "x-remote-", "proxy-"];

/// What a browser says of where a request comes from.
const FETCH_SITE: &str = "sec-fetch-site";

/// Bodies that change something. None of them can be sent by a form, or by a script that has not asked before.
const BODIES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/x-yaml",
    "text/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Proof that a request passed a [`Guard`]. Nothing else gives it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouched(());

/// Why a request is not let in by the localhost rule, nor by any other on that listener.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Suspicion {
    /// The other end of the socket is another machine.
    #[error("connections are taken from this machine only")]
    Remote,
    /// A header speaks of someone else.
    #[error("the header {0} is not taken here: it is what proxies and browsers add")]
    Header(String),
    /// The request is for someone else.
    #[error("the request is not for this server: {0}")]
    Misdirected(&'static str),
    /// The body could come from a form.
    #[error("a request that changes something needs a content type of an object or a patch")]
    Body,
}

impl Suspicion {
    /// The HTTP status that says so.
    pub fn code(&self) -> u16 {
        match self {
            Suspicion::Remote | Suspicion::Header(_) => 403,
            Suspicion::Misdirected(_) => 421,
            Suspicion::Body => 415,
        }
    }
}

/// Decides about every request of one listener.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    port: u16,
}

impl Guard {
    /// For a listener that is bound to this address.
    ///
    /// Nothing but the two addresses of loopback will do: whatever else reaches this machine is not on it.
    pub fn new(bound: SocketAddr) -> Option<Self> {
        const LOOPBACK: [IpAddr; 2] =
            [IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)];
        LOOPBACK.contains(&bound.ip()).then_some(Guard { port: bound.port() })
    }

    /// Whether the head of a request from `peer` is what a program on this machine sends of its own accord.
    pub fn check(&self, peer: SocketAddr, head: &Parts) -> Result<Vouched, Suspicion> {
        if !peer.ip().is_loopback() {
            return Err(Suspicion::Remote);
        }
        if let Some(name) = telltale(&head.headers) {
            return Err(Suspicion::Header(name.to_owned()));
        }
        self.check_authority(&head.uri, &head.headers, &head.method, head.version)?;
        match is_read(&head.method) || has_object(&head.headers) {
            true => Ok(Vouched(())),
            false => Err(Suspicion::Body),
        }
    }

    fn check_authority(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        method: &Method,
        version: Version,
    ) -> Result<(), Suspicion> {
        let misdirected = |why| Err(Suspicion::Misdirected(why));
        if *method == Method::CONNECT {
            return misdirected("it is no proxy");
        }
        if uri.scheme_str().is_some_and(|scheme| scheme != "http") {
            return misdirected("it speaks plain HTTP here");
        }
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().map(|value| value.to_str().unwrap_or_default());
        if hosts.next().is_some() {
            return misdirected("there is more than one Host");
        }
        let authority = uri.authority().map(http::uri::Authority::as_str);
        let is_needed = version < Version::HTTP_2;
        match (host, authority) {
            (None, Some(_)) if is_needed => return misdirected("there is no Host"),
            (None, None) => return misdirected("there is no Host"),
            (Some(host), Some(authority)) if host != authority => {
                return misdirected("its target and its Host differ");
            }
            _ => {}
        }
        match host.or(authority).is_some_and(|name| self.is_own(name)) {
            true => Ok(()),
            false => misdirected("its Host is none of localhost, 127.0.0.1 and [::1] with the port in use"),
        }
    }

    /// Whether this is what programs on this machine call the listener.
    fn is_own(&self, name: &str) -> bool {
        ["localhost", "127.0.0.1", "[::1]"].iter().any(|own| match name.strip_prefix(own) {
            // Clients leave out the port that is usual.
            Some("") => self.port == 80,
            Some(rest) => rest.strip_prefix(':').is_some_and(|port| port == self.port.to_string()),
            None => false,
        })
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The header that gives a request away, if one does.
fn telltale(headers: &HeaderMap) -> Option<&str> {
    let is_telltale = |name: &str| {
        TELLTALE.contains(&name) || TELLTALE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let from_a_page = headers.get_all(FETCH_SITE).iter().any(|value| value != "none");
    let named = headers.keys().map(header::HeaderName::as_str).find(|name| is_telltale(name));
    named.or(from_a_page.then_some(FETCH_SITE))
}

/// Whether the body is said to be an object or a patch.
fn has_object(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Ok(value) = value.to_str() else { return false };
    let media = value.split(';').next().unwrap_or_default().trim();
    BODIES.iter().any(|body| media.eq_ignore_ascii_case(body))
}

/// Knows those that a [`Guard`] has let pass and that show nothing else.
#[derive(Debug, Default)]
pub struct Localhost;

#[async_trait]
impl Authenticator for Localhost {
    fn name(&self) -> &'static str {
        "localhost"
    }

    async fn authenticate(&self, shown: Shown<'_>) -> Result<Option<Identity>, Refusal> {
        static USER: LazyLock<Arc<User>> = LazyLock::new(|| {
            Arc::new(User::new(LOCALHOST, [LOCAL_GROUP, UNAUTHENTICATED].map(str::to_owned).to_vec()))
        });
        let shows_nothing = !shown.headers.contains_key(header::AUTHORIZATION);
        let is_known = shows_nothing && shown.peer.vouched.is_some();
        Ok(is_known.then(|| Identity { user: Arc::clone(&USER), by: self.name(), expires: None }))
    }
}
