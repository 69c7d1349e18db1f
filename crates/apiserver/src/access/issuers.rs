//! Issuers in the server: where their documents are got, when, and when their configuration is read anew.
//!
//! What a token is worth is decided in [`windlass_access::issuers`]. Here are the connections, the clock and the file:
//! keys are loaded in the background, so that a server is ready without its issuers, and the file is looked at every
//! second. One that is no good changes nothing. Start at [`IssuerConfig::from_file`] and [`Trust::start`].

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use windlass_access::{
    issuers::{Classic, Configuration, Fetch, Issuers, Keys, Limits},
    jwt::Algorithm,
};
use xxhash_rust::xxh3::xxh3_128;

use crate::{ApiServer, webhook::Webhooks};

/// Most bytes of one document. Those of large providers have a few kilobytes.
const DOCUMENT_MOST: usize = 1 << 20;

/// Most bytes of the file that are read; more than is taken, so that what is too large is told.
const FILE_MOST: u64 = 4 << 20;

/// Which issuers are trusted, and how often they are asked.
#[derive(Clone, Debug)]
pub struct IssuerConfig {
    first: Configuration,
    file: Option<Followed>,
    /// How often.
    pub pace: Pace,
}

/// How often issuers, and the file about them, are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two looks at the file.
    pub poll: Duration,
    /// Between two loads of the keys of one issuer, at least: what a flood of tokens of unknown keys can cause.
    pub rest: Duration,
    /// Between two loads when all is well; what an issuer takes back is refused after that.
    pub refresh: Duration,
    /// Between two loads when the issuer cannot be reached.
    pub retry: Duration,
    /// What one document may take.
    pub fetch: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            poll: Duration::from_secs(1),
            rest: Duration::from_secs(5),
            refresh: Duration::from_secs(5 * 60),
            retry: Duration::from_secs(10),
            fetch: Duration::from_secs(10),
        }
    }
}

/// A file that is read anew when it changes.
#[derive(Clone, Debug)]
struct Followed {
    path: PathBuf,
    own_issuers: Vec<String>,
    /// The hash of what was read last.
    seen: u128,
}

impl IssuerConfig {
    /// What a file says; it is followed from then on. `own_issuers` are those that the server itself is.
    pub fn from_file(path: &Path, own_issuers: &[String]) -> Result<Self, String> {
        let mut file = Followed { path: path.to_owned(), own_issuers: own_issuers.to_vec(), seen: 0 };
        let bytes = read(path).map_err(|error| error.to_string())?;
        file.seen = xxh3_128(&bytes);
        let first = file.configuration(&bytes)?;
        Ok(IssuerConfig { first, file: Some(file), pace: Pace::default() })
    }

    /// What the classic flags say.
    pub fn from_flags(classic: &Classic, own_issuers: &[String]) -> Result<Self, String> {
        let first = classic.configuration(own_issuers).map_err(|error| error.to_string())?;
        Ok(IssuerConfig { first, file: None, pace: Pace::default() })
    }
}

impl Followed {
    fn configuration(&self, bytes: &[u8]) -> Result<Configuration, String> {
        let limits = Limits { own_issuers: &self.own_issuers, algorithms: &Algorithm::ALL };
        Configuration::read(bytes, &limits).map_err(|error| error.to_string())
    }

    /// What the file says, if that is new.
    async fn look(&mut self) -> Option<Result<Configuration, String>> {
        let path = self.path.clone();
        let bytes = tokio::task::spawn_blocking(move || read(&path)).await.ok()?;
        let seen = match &bytes {
            Ok(bytes) => xxh3_128(bytes),
            // A file that is gone stays gone for a while, which is told once.
            Err(_) => 0,
        };
        if std::mem::replace(&mut self.seen, seen) == seen {
            return None;
        }
        Some(bytes.map_err(|error| error.to_string()).and_then(|bytes| self.configuration(&bytes)))
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    File::open(path)?.take(FILE_MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReloadLabels {
    status: &'static str,
}

/// The issuers that are trusted.
pub(crate) struct Trust {
    issuers: Arc<Issuers>,
    fetch: Arc<dyn Fetch>,
    config: Option<IssuerConfig>,
    reloads: Family<ReloadLabels, Counter>,
    reloaded: Family<ReloadLabels, Gauge>,
}

impl Trust {
    /// Nobody is asked for anything yet.
    pub(crate) fn new(config: Option<IssuerConfig>, webhooks: &Arc<Webhooks>) -> Self {
        let reloads = Family::<ReloadLabels, Counter>::default();
        for status in ["success", "failure"] {
            drop(reloads.get_or_create(&ReloadLabels { status }));
        }
        let pace = config.as_ref().map(|config| config.pace).unwrap_or_default();
        Trust {
            issuers: Arc::new(Issuers::new(Timestamp::now)),
            fetch: Arc::new(OverHttps { webhooks: Arc::clone(webhooks), timeout: pace.fetch }),
            config,
            reloads,
            reloaded: Family::default(),
        }
    }

    /// Those that are in force.
    pub(crate) fn known(&self) -> &Arc<Issuers> {
        &self.issuers
    }

    /// Adds what is counted here.
    pub(crate) fn register(&self, registry: &mut Registry) {
        if self.config.is_none() {
            return;
        }
        registry.register(
            "apiserver_authentication_config_controller_automatic_reloads",
            "Changes of the authentication configuration, by whether they were put in force",
            self.reloads.clone(),
        );
        registry.register(
            "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
            "When the authentication configuration last changed, by whether it was put in force",
            self.reloaded.clone(),
        );
    }

    /// Loads keys and follows the file for as long as the server runs.
    pub(crate) fn start(server: &Arc<ApiServer>) {
        let trust = &server.issuers;
        let Some(config) = trust.config.clone() else { return };
        trust.put_in_force(&config.first, config.pace);
        let Some(mut file) = config.file else { return };
        let (server, mut draining) = (Arc::clone(server), server.draining());
        tokio::spawn(async move {
            let follow = async {
                loop {
                    tokio::time::sleep(config.pace.poll).await;
                    if let Some(outcome) = file.look().await {
                        server.issuers.reload(outcome, &file.path, config.pace);
                    }
                }
            };
            tokio::select! {
                _ = draining.wait_for(|draining| *draining) => {}
                () = follow => {}
            }
        });
    }

    fn reload(&self, outcome: Result<Configuration, String>, path: &Path, pace: Pace) {
        let status = match outcome {
            Ok(configuration) => {
                self.put_in_force(&configuration, pace);
                tracing::info!(path = %path.display(), "the authentication configuration has changed");
                "success"
            }
            Err(error) => {
                tracing::error!(
                    path = %path.display(), error,
                    "the authentication configuration is no good; the last one stays in force"
                );
                "failure"
            }
        };
        self.reloads.get_or_create(&ReloadLabels { status }).inc();
        self.reloaded.get_or_create(&ReloadLabels { status }).set(Timestamp::now().as_second());
    }

    fn put_in_force(&self, configuration: &Configuration, pace: Pace) {
        for keys in self.issuers.replace(configuration, &self.fetch) {
            tokio::spawn(keep(Arc::downgrade(&keys), pace));
        }
    }
}

/// Keeps the keys of an issuer fresh until it is trusted no more.
async fn keep(keys: Weak<Keys>, pace: Pace) {
    while let Some(keys) = keys.upgrade() {
        let pause = match keys.load().await {
            Ok(n_keys) => {
                tracing::debug!(issuer = keys.issuer(), n_keys, "keys of an issuer loaded");
                pace.refresh
            }
            Err(error) => {
                let error = crate::chain(&error);
                tracing::warn!(issuer = keys.issuer(), error, "keys of an issuer cannot be loaded");
                pace.retry
            }
        };
        tokio::time::sleep(pace.rest).await;
        keys.end_rest();
        // Those that are trusted no more are wanted by nobody.
        let _ = tokio::time::timeout(pause.saturating_sub(pace.rest), keys.wanted()).await;
    }
}

/// Gets documents with the client that calls webhooks.
struct OverHttps {
    webhooks: Arc<Webhooks>,
    timeout: Duration,
}

#[async_trait]
impl Fetch for OverHttps {
    async fn fetch(&self, url: &str, authorities: &str) -> Result<Bytes, String> {
        let authorities = Bytes::copy_from_slice(authorities.as_bytes());
        let got = self.webhooks.get(url, &authorities, self.timeout, DOCUMENT_MOST).await;
        got.map_err(|error| error.to_string())
    }
}
