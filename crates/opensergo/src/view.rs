//! What a control plane shows of itself: who is connected, and what each has been told.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use http::{Method, Response, Uri};
use http_body_util::Full;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windlass_runtime::pages::{JSON, METRICS, PLAIN, page};

use crate::{
    plane::{Plane, Stream},
    serve::is_complete,
    source::Source,
    subscriber::{Subscription, Told},
    topic::{KindId, Topic},
};

/// How many subscribers are shown at once.
const MOST_SHOWN: usize = 1_000;

/// How many subscriptions of each.
const MOST_TOPICS: usize = 100;

/// How a control plane is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// What it calls itself.
    pub identity: String,
    /// What it knows of each kind.
    pub kinds: Vec<KindView>,
    /// How many streams are open.
    pub streams: usize,
    /// How many of them are among those that were asked for; not all are shown.
    pub matching: usize,
    /// The streams.
    pub subscribers: Vec<SubscriberView>,
}

/// What is known of a kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindView {
    /// What clients call it.
    pub kind: String,
    /// How many objects there are.
    pub rules: usize,
    /// As which version they are told.
    pub version: i64,
    /// Whether all of them have been seen.
    pub synced: bool,
    /// What is wrong, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriberView {
    /// Its number, which is in the log, too.
    pub stream: u64,
    /// Where it comes from.
    pub peer: Option<String>,
    /// Who it is, if somebody has asked.
    pub user: Option<String>,
    /// What it calls itself.
    pub identifier: String,
    /// Since when it is there.
    pub connected_since: Timestamp,
    /// What it wants to be told of.
    pub subscriptions: Vec<SubscriptionView>,
}

/// What a stream was told of a topic.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionView {
    /// The namespace.
    pub namespace: String,
    /// The app.
    pub app: String,
    /// The kind.
    pub kind: String,
    /// The version that was sent last, and when.
    pub sent: Option<SentView>,
    /// The version that was accepted last, and when it was sent.
    pub acknowledged: Option<SentView>,
    /// Whether it has accepted what there is.
    pub in_sync: bool,
    /// Whether an answer is expected.
    pub awaiting_answer: bool,
    /// Why it did not accept what it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A version, and when it was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SentView {
    /// The version.
    pub version: i64,
    /// The time.
    pub at: Timestamp,
}

/// Which streams to show.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    namespace: Option<String>,
    app: Option<String>,
}

impl Wanted {
    fn of(uri: &Uri) -> Self {
        let mut wanted = Wanted::default();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            match &*name {
                "namespace" => wanted.namespace = Some(value.into_owned()),
                "app" => wanted.app = Some(value.into_owned()),
                _ => {}
            }
        }
        wanted
    }

    fn takes(&self, topic: &Topic) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == &*topic.app.namespace)
            && self.app.as_deref().is_none_or(|wanted| wanted == &*topic.app.name)
    }

    fn is_all(&self) -> bool {
        self.namespace.is_none() && self.app.is_none()
    }
}

/// Shows a plane.
pub fn view(plane: &Plane, source: &dyn Source, wanted: &Wanted) -> View {
    let streams = plane.streams();
    let kinds = KindId::all().map(|kind| KindView {
        kind: kind.kind().id(),
        rules: plane.rules().count(kind),
        version: plane.version(kind),
        synced: plane.is_synced(kind),
        trouble: source.trouble(kind),
    });
    let matching: Vec<&Arc<Stream>> = streams
        .iter()
        .filter(|stream| {
            wanted.is_all() || stream.state.lock().topics().keys().any(|topic| wanted.takes(topic))
        })
        .collect();
    View {
        identity: plane.settings.identity.clone(),
        kinds: kinds.collect(),
        streams: streams.len(),
        matching: matching.len(),
        subscribers: subscribers(plane, &matching, wanted),
    }
}

/// Shows streams. The rules and a stream are never looked at at once: whoever holds both waits for whoever wants both.
fn subscribers(plane: &Plane, streams: &[&Arc<Stream>], wanted: &Wanted) -> Vec<SubscriberView> {
    let mut hashes: HashMap<Topic, u64> = HashMap::new();
    let shown = streams.iter().take(MOST_SHOWN).map(|stream| {
        let mut topics: Vec<Topic> =
            stream.state.lock().topics().keys().filter(|topic| wanted.takes(topic)).cloned().collect();
        topics.sort();
        topics.truncate(MOST_TOPICS);
        for topic in &topics {
            hashes.entry(topic.clone()).or_insert_with(|| plane.rules().content(topic).hash);
        }
        let identifier = stream.identifier.lock().clone();
        let state = stream.state.lock();
        let told = topics.iter().filter_map(|topic| Some((topic, state.topics().get(topic)?)));
        SubscriberView {
            stream: stream.id,
            peer: stream.peer.map(|peer| peer.to_string()),
            user: stream.user.clone(),
            identifier,
            connected_since: stream.since,
            subscriptions: told.map(|(topic, told)| subscription(topic, told, hashes[topic])).collect(),
        }
    });
    shown.collect()
}

fn subscription(topic: &Topic, told: &Subscription, hash: u64) -> SubscriptionView {
    SubscriptionView {
        namespace: topic.app.namespace.to_string(),
        app: topic.app.name.to_string(),
        kind: topic.kind.kind().kind.to_owned(),
        sent: told.sent.as_ref().map(sent),
        acknowledged: told.accepted.as_ref().map(sent),
        in_sync: told.is_in_sync(hash),
        awaiting_answer: told.is_under_way,
        last_error: told.error.clone(),
    }
}

fn sent(told: &Told) -> SentView {
    let ago = Instant::now().saturating_duration_since(told.at);
    let ago = SignedDuration::try_from(ago).unwrap_or_default();
    SentView { version: told.version, at: Timestamp::now().saturating_sub(ago).unwrap_or_default() }
}

/// Answers with pages: `/subscribers`, `/metrics`, `/readyz`, `/livez` and `/healthz`.
#[derive(Clone)]
pub struct Pages {
    plane: Arc<Plane>,
    source: Arc<dyn Source>,
    registry: Arc<Registry>,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").finish_non_exhaustive()
    }
}

impl Pages {
    /// The pages of a plane.
    pub fn new(plane: Arc<Plane>, source: Arc<dyn Source>) -> Self {
        let mut registry = Registry::default();
        plane.metrics.register(&mut registry);
        Pages { plane, source, registry: Arc::new(registry) }
    }

    /// Answers a request.
    pub fn answer(&self, method: &Method, uri: &Uri) -> Response<Full<Bytes>> {
        if method != Method::GET && method != Method::HEAD {
            return page(PLAIN, 405, "405 method not allowed\n".to_owned());
        }
        match uri.path().trim_end_matches('/') {
            "/healthz" | "/livez" => page(PLAIN, 200, "ok\n".to_owned()),
            "/readyz" => match is_complete(&self.plane, &*self.source) {
                true => page(PLAIN, 200, "ok\n".to_owned()),
                false => page(PLAIN, 503, "not all rules have been seen yet\n".to_owned()),
            },
            "/subscribers" => {
                let shown = view(&self.plane, &*self.source, &Wanted::of(uri));
                match serde_json::to_string_pretty(&shown) {
                    Ok(text) => page(JSON, 200, text),
                    Err(error) => page(PLAIN, 500, error.to_string()),
                }
            }
            "/metrics" => {
                self.plane.count_rules();
                let mut text = String::new();
                match encode(&mut text, &self.registry) {
                    Ok(()) => page(METRICS, 200, text),
                    Err(error) => page(PLAIN, 500, error.to_string()),
                }
            }
            _ => page(PLAIN, 404, "404 page not found\n".to_owned()),
        }
    }
}
