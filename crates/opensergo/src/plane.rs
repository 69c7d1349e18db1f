//! The control plane itself: joins the rules there are with the streams that want to know them.
//!
//! A [`Source`] tells of objects; [`Plane::heard`] takes them up. Apps whose rules have changed wait
//! for a moment ([`Debounce`]), then everyone who has subscribed is offered all of what there is now. Whoever subscribes
//! is told of at least everything that was there when it did, wherever it was before: see `Plane::greet`.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use kube::api::DynamicObject;
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use windlass_runtime::Key;

use crate::{
    debounce::{Debounce, Pace},
    metrics::Metrics,
    rules::{Content, Rules, Withheld},
    source::Source,
    subscriber::{Patience, Subscriber},
    topic::{App, KindId, Topic},
};

/// How long it may take to see everything there is. After that, what was seen last is what is told.
const CATCH_UP: Duration = Duration::from_secs(2);

/// How long to wait between two looks at everything there is: at least, and in times of what a look takes. However often
/// clients subscribe, the API server has more to do than to answer them.
const BETWEEN: Duration = Duration::from_millis(100);
const BETWEEN_LOOKS: u32 = 4;

/// What can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What it calls itself.
    pub identity: String,
    /// How long changes wait.
    pub pace: Pace,
    /// How long clients may take.
    pub patience: Patience,
    /// How long a client may leave unread what it is sent.
    pub send_timeout: Duration,
    /// The most streams.
    pub most_streams: usize,
    /// The most topics of one stream.
    pub most_topics: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            identity: "unknown-host".to_owned(),
            pace: Pace::default(),
            patience: Patience::default(),
            send_timeout: Duration::from_secs(10),
            most_streams: 100_000,
            most_topics: 1_000,
        }
    }
}

/// What has happened to an object.
#[derive(Clone, Debug)]
pub enum Heard {
    /// It is this now.
    Is(Arc<DynamicObject>),
    /// It is gone.
    Gone(Key),
}

/// An open stream.
#[derive(Debug)]
pub struct Stream {
    /// Its number, which no other has.
    pub id: u64,
    /// Where it comes from.
    pub peer: Option<SocketAddr>,
    /// Who it is, if somebody has asked.
    pub user: Option<String>,
    /// Since when it is there.
    pub since: Timestamp,
    /// What it calls itself.
    pub identifier: Mutex<String>,
    /// What it wants, and has been told.
    pub state: Mutex<Subscriber>,
    /// There may be something to send.
    pub(crate) changed: Notify,
}

/// What is known of a kind.
struct OfKind {
    /// Everything up to this revision has been taken up; nothing before the first list is over.
    revision: watch::Sender<Option<i64>>,
    /// The streams that wait for the first content of topics: one entry each, however often they ask.
    waiting: Mutex<HashMap<(u64, Topic), Weak<Stream>>>,
    somebody_waits: Notify,
}

/// What is to be reported: topics whose delivery is another, and objects that are.
type Unreported = (HashSet<Topic>, HashSet<(KindId, Key)>);

/// Who wants to know.
#[derive(Debug, Default)]
struct Audience {
    streams: BTreeMap<u64, Arc<Stream>>,
    topics: HashMap<Topic, HashMap<u64, Arc<Stream>>>,
}

/// A control plane.
pub struct Plane {
    /// What was set.
    pub settings: Settings,
    /// What is counted.
    pub metrics: Metrics,
    rules: RwLock<Rules>,
    audience: Mutex<Audience>,
    debounce: Mutex<Debounce>,
    debounce_changed: Notify,
    kinds: Vec<OfKind>,
    last_stream: AtomicU64,
    unreported: Mutex<Unreported>,
    /// Whether somebody takes those.
    is_reported: AtomicBool,
    /// Topics that are not told, of which that was said.
    withheld: Mutex<HashMap<Topic, Withheld>>,
}

impl fmt::Debug for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plane").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Plane {
    /// One that knows nothing yet.
    pub fn new(settings: Settings, metrics: Metrics) -> Arc<Self> {
        let kinds = KindId::all().map(|_| OfKind {
            revision: watch::channel(None).0,
            waiting: Mutex::default(),
            somebody_waits: Notify::new(),
        });
        Arc::new(Plane {
            debounce: Mutex::new(Debounce::new(settings.pace)),
            settings,
            metrics,
            rules: RwLock::default(),
            audience: Mutex::default(),
            debounce_changed: Notify::new(),
            kinds: kinds.collect(),
            last_stream: AtomicU64::new(fastrand_seed()),
            unreported: Mutex::default(),
            is_reported: AtomicBool::new(false),
            withheld: Mutex::default(),
        })
    }

    /// Works until it is dropped.
    pub async fn run(self: Arc<Self>, source: Arc<dyn Source>) {
        let mut tasks = tokio::task::JoinSet::new();
        for kind in KindId::all() {
            tasks.spawn(Arc::clone(&self).greet(kind, Arc::clone(&source)));
        }
        tasks.spawn(async move { self.tell().await });
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a part of the control plane has stopped");
            }
        }
    }

    /// Takes up what has happened to objects of a kind. Everything up to the revision is among it, or was before; without
    /// one, not everything has been seen yet.
    pub fn heard(&self, kind: KindId, what: Vec<Heard>, revision: Option<i64>) {
        let mut touched = BTreeSet::new();
        let mut objects = vec![];
        if !what.is_empty() {
            let mut rules = self.rules.write();
            for one in what {
                match one {
                    Heard::Is(object) => {
                        objects.push((kind, Key::of(&*object)));
                        touched.extend(rules.apply(kind, object));
                    }
                    Heard::Gone(key) => touched.extend(rules.remove(kind, &key)),
                }
            }
            // Whoever names what has come or gone is right or wrong now.
            objects.extend(touched.iter().flat_map(|app| rules.naming(app)));
        }
        if self.is_reported.load(Ordering::Relaxed) {
            self.unreported.lock().1.extend(objects);
        }
        let now = Instant::now();
        let is_first = {
            let mut debounce = self.debounce.lock();
            // Each is touched, whichever is the first.
            let n_first = touched.iter().filter(|app| debounce.touch(app, kind, now)).count();
            self.metrics.waiting(debounce.len());
            n_first > 0
        };
        if is_first {
            self.debounce_changed.notify_one();
        }
        self.kinds[kind.idx()].revision.send_if_modified(|seen| {
            let is_newer = revision > *seen;
            *seen = revision.max(*seen);
            is_newer
        });
    }

    /// A stream is there.
    pub fn connect(&self, peer: Option<SocketAddr>, user: Option<String>) -> Option<Arc<Stream>> {
        let mut audience = self.audience.lock();
        if audience.streams.len() >= self.settings.most_streams {
            self.metrics.refused();
            return None;
        }
        let id = self.last_stream.fetch_add(1, Ordering::Relaxed);
        let stream = Arc::new(Stream {
            id,
            peer,
            user,
            since: Timestamp::now(),
            identifier: Mutex::default(),
            state: Mutex::new(Subscriber::new(id, self.settings.patience)),
            changed: Notify::new(),
        });
        audience.streams.insert(id, Arc::clone(&stream));
        self.metrics.streams(audience.streams.len());
        Some(stream)
    }

    /// A stream is gone.
    pub fn disconnect(&self, stream: &Stream) {
        let topics: Vec<Topic> = stream.state.lock().topics().keys().cloned().collect();
        let mut audience = self.audience.lock();
        for topic in &topics {
            audience.leave(topic, stream.id);
            self.metrics.subscribed(topic.kind, -1);
            self.kinds[topic.kind.idx()].waiting.lock().remove(&(stream.id, topic.clone()));
        }
        audience.streams.remove(&stream.id);
        self.metrics.streams(audience.streams.len());
        drop(audience);
        topics.iter().for_each(|topic| self.delivered(topic));
    }

    /// A stream wants to know of a topic.
    pub fn subscribe(&self, stream: &Arc<Stream>, topic: &Topic, request_id: &str) {
        let topic = {
            let mut audience = self.audience.lock();
            let (topic, is_new) = audience.join(topic, stream);
            if is_new {
                self.metrics.subscribed(topic.kind, 1);
            }
            topic
        };
        let is_new = stream.state.lock().subscribe(&topic, request_id, Instant::now());
        if is_new {
            self.delivered(&topic);
            self.await_greeting(stream, topic);
        }
    }

    /// A stream that waits for a topic is told once everything there is has been seen.
    pub(crate) fn await_greeting(&self, stream: &Arc<Stream>, topic: Topic) {
        let kind = &self.kinds[topic.kind.idx()];
        kind.waiting.lock().insert((stream.id, topic), Arc::downgrade(stream));
        kind.somebody_waits.notify_one();
    }

    /// A stream does not want to know of a topic any more.
    pub fn unsubscribe(&self, stream: &Arc<Stream>, topic: &Topic) {
        self.audience.lock().leave(topic, stream.id);
        self.kinds[topic.kind.idx()].waiting.lock().remove(&(stream.id, topic.clone()));
        if stream.state.lock().unsubscribe(topic) {
            self.metrics.subscribed(topic.kind, -1);
            self.delivered(topic);
        }
    }

    /// As which version something is told now. Revisions are one for all who ask the same API server, and never go back.
    pub fn version(&self, kind: KindId) -> i64 {
        self.kinds[kind.idx()].revision.borrow().unwrap_or(0)
    }

    /// Whether everything of a kind has been seen.
    pub fn is_synced(&self, kind: KindId) -> bool {
        self.kinds[kind.idx()].revision.borrow().is_some()
    }

    /// The rules.
    pub fn rules(&self) -> parking_lot::RwLockReadGuard<'_, Rules> {
        self.rules.read()
    }

    /// All streams.
    pub fn streams(&self) -> Vec<Arc<Stream>> {
        self.audience.lock().streams.values().cloned().collect()
    }

    /// The streams that want to know of a topic.
    pub fn listeners(&self, topic: &Topic) -> Vec<Arc<Stream>> {
        let audience = self.audience.lock();
        audience.topics.get(topic).into_iter().flat_map(HashMap::values).cloned().collect()
    }

    /// The delivery of a topic is another now.
    pub(crate) fn delivered(&self, topic: &Topic) {
        if self.is_reported.load(Ordering::Relaxed) {
            self.unreported.lock().0.insert(topic.clone());
        }
    }

    /// Somebody takes what is to be reported.
    pub(crate) fn is_reported(&self) {
        self.is_reported.store(true, Ordering::Relaxed);
    }

    /// Counts the rules there are.
    pub(crate) fn count_rules(&self) {
        let rules = self.rules.read();
        for kind in KindId::all() {
            self.metrics.objects(kind, rules.count(kind), rules.count_untranslatable(kind));
        }
    }

    /// What is to be reported.
    pub(crate) fn take_unreported(&self) -> Unreported {
        std::mem::take(&mut *self.unreported.lock())
    }

    /// What is told of a topic, if it can be.
    fn content(&self, topic: &Topic) -> Option<Arc<Content>> {
        let content = self.rules.read().content(topic);
        let mut withheld = self.withheld.lock();
        let Some(why) = content.withheld else {
            withheld.remove(topic);
            return Some(Arc::new(content));
        };
        if withheld.insert(topic.clone(), why) != Some(why) {
            let (app, kind, size) = (&topic.app, topic.kind, content.data.len());
            tracing::error!(%app, ?kind, ?why, size, "nobody is told what there is; what was told last stays");
        }
        None
    }

    /// Tells everyone what has changed, when no more changes come.
    async fn tell(&self) {
        loop {
            let next = self.debounce.lock().next();
            tokio::select! {
                () = until(next) => {}
                () = self.debounce_changed.notified() => continue,
            }
            let now = Instant::now();
            let due = {
                let mut debounce = self.debounce.lock();
                let due = debounce.due(now);
                self.metrics.waiting(debounce.len());
                due
            };
            for (app, kinds, first) in due {
                self.metrics.debounced(now.saturating_duration_since(first));
                self.publish(&app, kinds, now);
                // Many apps may be due at once, and those who send have work as well.
                tokio::task::yield_now().await;
            }
        }
    }

    fn publish(&self, app: &App, kinds: BTreeSet<KindId>, now: Instant) {
        let mut kinds: Vec<KindId> = kinds.into_iter().collect();
        kinds.sort_by_key(|kind| kind.kind().rank);
        for kind in kinds {
            self.offer(&Topic { app: app.clone(), kind }, now);
        }
    }

    /// Offers everyone who has subscribed what there is of a topic.
    fn offer(&self, topic: &Topic, now: Instant) {
        // How it is delivered is another for all of its rules, even if there is nobody: it may be too large now.
        self.delivered(topic);
        let listeners = self.listeners(topic);
        if listeners.is_empty() {
            return;
        }
        let Some(content) = self.content(topic) else { return };
        for stream in listeners {
            if stream.state.lock().offer(topic, &content, now) {
                stream.changed.notify_one();
            }
        }
    }

    /// Tells streams what there is of the topics that they have subscribed to: no less than was there when they did.
    ///
    /// They may have been elsewhere before, and told there of what is newer than what was seen here. So everything is
    /// looked at once more, once for all who wait.
    async fn greet(self: Arc<Self>, kind: KindId, source: Arc<dyn Source>) {
        let own = &self.kinds[kind.idx()];
        loop {
            own.somebody_waits.notified().await;
            let mut seen = own.revision.subscribe();
            // Before a first list is over there is nothing to tell, however long that takes.
            let _ = seen.wait_for(Option::is_some).await;
            let waiting = std::mem::take(&mut *own.waiting.lock());
            if waiting.is_empty() {
                continue;
            }
            let begun = Instant::now();
            let caught_up = async {
                let revision = source.catch_up(kind).await;
                let _ = seen.wait_for(|seen| *seen >= Some(revision)).await;
            };
            if timeout(CATCH_UP, caught_up).await.is_err() {
                tracing::warn!(?kind, "what is told may be old: the source does not answer");
            }
            let mut contents: HashMap<Topic, Option<Arc<Content>>> = HashMap::new();
            let now = Instant::now();
            for ((_, topic), stream) in waiting {
                let Some(stream) = stream.upgrade() else { continue };
                let content = contents.entry(topic.clone()).or_insert_with(|| self.content(&topic));
                if stream.state.lock().greet(&topic, content.as_ref(), now) {
                    stream.changed.notify_one();
                }
            }
            // What has been offered meanwhile was not for those who waited.
            for (topic, told) in contents {
                if told.map(|content| content.hash) != Some(self.rules.read().content(&topic).hash) {
                    self.offer(&topic, now);
                }
            }
            sleep(BETWEEN.max(begun.elapsed() * BETWEEN_LOOKS).min(CATCH_UP)).await;
        }
    }
}

impl Audience {
    /// Adds a stream to a topic; returns the topic in the words that are there already, and whether the stream is new.
    fn join(&mut self, topic: &Topic, stream: &Arc<Stream>) -> (Topic, bool) {
        let topic =
            self.topics.get_key_value(topic).map_or_else(|| topic.clone(), |(known, _)| known.clone());
        let streams = self.topics.entry(topic.clone()).or_default();
        (topic, streams.insert(stream.id, Arc::clone(stream)).is_none())
    }

    fn leave(&mut self, topic: &Topic, stream: u64) {
        if let Some(streams) = self.topics.get_mut(topic) {
            streams.remove(&stream);
            if streams.is_empty() {
                self.topics.remove(topic);
            }
        }
    }
}

/// Waits until a time, or for ever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Streams of one process are told from those of another in logs: their numbers begin anywhere.
fn fastrand_seed() -> u64 {
    u64::from(fastrand::u32(..)) << 20
}
