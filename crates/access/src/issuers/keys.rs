//! The keys of one issuer: found by its discovery document, kept, and asked for again when a token names another.
//!
//! Whoever runs the server calls [`Keys::load`], first at once and then whenever [`Keys::wanted`] says so, or after a
//! while. Between two loads it lets them rest; a token of an unknown key is then refused without asking anyone, so
//! that a flood of such tokens costs one load. Keys that were loaded stay good while the issuer cannot be reached.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use crate::jwt::{KeyError, PublicKey};

/// Most requests that wait for keys at once. More would only be held up, and take memory.
const MOST_WAITING: usize = 256;

/// Gets documents of issuers.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// What is at an https address. Trusts the authorities given in PEM; those of the system when there are none.
    ///
    /// Bounds the time and the size, and follows no redirect.
    async fn fetch(&self, url: &str, authorities: &str) -> Result<Bytes, String>;
}

/// Why keys could not be loaded. Those there are stay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A document did not come.
    #[error("{0}")]
    NoDocument(String),
    /// The discovery document is not one.
    #[error("the discovery document at {url:?} {why}")]
    Discovery {
        /// Where it is.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The set of keys is not one.
    #[error("the keys at {url:?} cannot be read")]
    Keys {
        /// Where they are.
        url: String,
        /// What is wrong with them.
        source: KeyError,
    },
}

/// The keys of one issuer.
pub struct Keys {
    issuer: String,
    discovery_url: String,
    authorities: String,
    fetch: Arc<dyn Fetch>,
    current: ArcSwap<Vec<PublicKey>>,
    is_resting: AtomicBool,
    n_waiting: AtomicUsize,
    wanted: Notify,
    /// Counts loads that have ended, however they did.
    loads_tx: watch::Sender<u64>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Keys {
    pub(super) fn new(issuer: &str, discovery_url: &str, authorities: &str, fetch: Arc<dyn Fetch>) -> Self {
        Keys {
            issuer: issuer.to_owned(),
            discovery_url: discovery_url.to_owned(),
            authorities: authorities.to_owned(),
            fetch,
            current: ArcSwap::default(),
            is_resting: AtomicBool::new(false),
            n_waiting: AtomicUsize::new(0),
            wanted: Notify::new(),
            loads_tx: watch::channel(0).0,
        }
    }

    /// Whose keys they are.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    pub(super) fn are_of(&self, issuer: &str, discovery_url: &str, authorities: &str) -> bool {
        (&*self.issuer, &*self.discovery_url, &*self.authorities) == (issuer, discovery_url, authorities)
    }

    /// Those that are known.
    pub(super) fn current(&self) -> Arc<Vec<PublicKey>> {
        self.current.load_full()
    }

    /// Others than `known`, once they are loaded; says why there are none.
    pub(super) async fn newer(
        &self,
        known: &Arc<Vec<PublicKey>>,
    ) -> Result<Arc<Vec<PublicKey>>, &'static str> {
        let mut loads_rx = self.loads_tx.subscribe();
        let newer = |otherwise| {
            let current = self.current();
            if Arc::ptr_eq(&current, known) { Err(otherwise) } else { Ok(current) }
        };
        if let Ok(newer) = newer("") {
            return Ok(newer);
        }
        if self.is_resting.load(Ordering::Acquire) {
            return Err("the keys of the issuer were asked for a moment ago");
        }
        let _waiting = Waiting::enter(&self.n_waiting).ok_or("too many wait for the keys of the issuer")?;
        self.wanted.notify_one();
        // The sender is ours, so it is there.
        let _ = loads_rx.changed().await;
        newer("the keys of the issuer could not be had")
    }

    /// Waits until a token of an unknown key has come.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Gets the keys; says how many there are. They rest from then on.
    pub async fn load(&self) -> Result<usize, LoadError> {
        let outcome = self.read().await;
        self.is_resting.store(true, Ordering::Release);
        let outcome = outcome.map(|keys| {
            let n_keys = keys.len();
            if **self.current.load() != keys {
                self.current.store(Arc::new(keys));
            }
            n_keys
        });
        // Those who have asked meanwhile have been waiting for this one.
        std::pin::pin!(self.wanted.notified()).enable();
        self.loads_tx.send_modify(|loads| *loads += 1);
        outcome
    }

    /// Lets them be asked for again.
    pub fn end_rest(&self) {
        self.is_resting.store(false, Ordering::Release);
    }

    async fn read(&self) -> Result<Vec<PublicKey>, LoadError> {
        let document = self.get(&self.discovery_url).await?;
        let url = self
            .keys_url(&document)
            .map_err(|why| LoadError::Discovery { url: self.discovery_url.clone(), why })?;
        let keys = self.get(&url).await?;
        PublicKey::from_jwks(&keys).map_err(|source| LoadError::Keys { url, source })
    }

    async fn get(&self, url: &str) -> Result<Bytes, LoadError> {
        self.fetch.fetch(url, &self.authorities).await.map_err(LoadError::NoDocument)
    }

    /// Where the keys are, if the document is about this issuer.
    fn keys_url(&self, document: &[u8]) -> Result<String, String> {
        let document: Value = serde_json::from_slice(document).map_err(|_| "is not JSON".to_owned())?;
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
        let (issuer, url) = (text("issuer"), text("jwks_uri"));
        if issuer != self.issuer {
            return Err(format!("is of another issuer, expected {:?} got {:?}", self.issuer, shown(issuer)));
        }
        match url.starts_with("https://") {
            true => Ok(url.to_owned()),
            false => Err("has no jwks_uri that is an https address".to_owned()),
        }
    }
}

/// The beginning of what a stranger wrote.
fn shown(text: &str) -> &str {
    text.char_indices().nth(200).map_or(text, |(end, _)| &text[..end])
}

/// One who waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(counter: &'a AtomicUsize) -> Option<Self> {
        let waiting = Waiting(counter);
        (counter.fetch_add(1, Ordering::Relaxed) < MOST_WAITING).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
