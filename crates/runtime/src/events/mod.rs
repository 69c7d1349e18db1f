//! Events: what a controller tells people, in `kubectl describe` and `kubectl get events`.
//!
//! A [`Recorder`] never waits: events go into a queue, and one that finds it full is dropped and counted. One task writes
//! them, as client-go does: what is told again is counted up, what is told in ever different words becomes one event, and
//! an object that is told of too often is not told of for a while.

mod correlate;
mod lru;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout},
};

use self::correlate::{Correlator, Verdict};
use crate::metrics::{EventMetrics, Metrics};

/// How many events wait to be written before more are dropped.
const QUEUE: usize = 1000;

/// How often an event is sent before it is given up, and how long to wait in between.
const TRIES: u32 = 12;
const AGAIN: Duration = Duration::from_secs(10);

/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a message may be, in bytes: API servers take 1024, and some of that is for those that are combined.
const MOST_MESSAGE: usize = 1024 - 40;

/// How much of an object's name may stand in an event's: with a dot and sixteen digits it fits into a name.
const MOST_NAME: usize = 253 - 17;

/// Whether an event is worth someone's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It is as it should be.
    Normal,
    /// Something is wrong.
    Warning,
}

enum Message {
    Event(Box<Event>),
    /// Everything before this has been written.
    Flush(oneshot::Sender<()>),
}

/// Writes events. Clones share one queue; it goes on while there is one of them, or a recorder.
#[derive(Clone)]
pub struct Events {
    tx: mpsc::Sender<Message>,
    metrics: EventMetrics,
    last_name: Arc<AtomicU64>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// Writes with a client, and counts.
    pub fn start(client: Client, metrics: &Metrics) -> Self {
        let (tx, rx) = mpsc::channel(QUEUE);
        let metrics = metrics.events();
        let writer = Writer { client, correlator: Correlator::default(), metrics: metrics.clone() };
        tokio::spawn(writer.run(rx));
        Events { tx, metrics, last_name: Arc::default() }
    }

    /// One who tells, under the name of a component.
    pub fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        Recorder { events: self.clone(), component: component.into() }
    }

    /// Waits until everything that was told so far is written, or given up. False if that takes too long.
    pub async fn flush(&self, within: Duration) -> bool {
        let all = async {
            let (done_tx, done_rx) = oneshot::channel();
            self.tx.send(Message::Flush(done_tx)).await.is_ok() && done_rx.await.is_ok()
        };
        timeout(within, all).await.unwrap_or(false)
    }

    /// How many were dropped because too many were waiting.
    pub fn n_dropped(&self) -> u64 {
        self.metrics.dropped.get()
    }

    /// The end of a name that no event of this process has: the time, or the next number after the last.
    fn next_name(&self, now: Timestamp) -> u64 {
        let now = u64::try_from(now.as_nanosecond()).unwrap_or(0);
        let next = |last: u64| Some(now.max(last.saturating_add(1)));
        self.last_name
            .fetch_update(Relaxed, Relaxed, next)
            .map_or(now, |last| now.max(last.saturating_add(1)))
    }
}

/// Tells people what a component does. Clones are the same.
#[derive(Clone, Debug)]
pub struct Recorder {
    events: Events,
    component: Arc<str>,
}

impl Recorder {
    /// All is well with an object.
    pub fn normal<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.record(object.object_ref(&()), EventType::Normal, reason, message);
    }

    /// Something is wrong with an object.
    pub fn warning<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.record(object.object_ref(&()), EventType::Warning, reason, message);
    }

    /// Tells something about an object that is known by reference.
    pub fn record(&self, about: ObjectReference, kind: EventType, reason: &str, message: impl Into<String>) {
        let event = self.event(about, kind, reason, message.into());
        if self.events.tx.try_send(Message::Event(Box::new(event))).is_err() {
            self.events.metrics.dropped.inc();
        }
    }

    fn event(&self, about: ObjectReference, kind: EventType, reason: &str, message: String) -> Event {
        let now = Timestamp::now();
        let namespace = about.namespace.clone().filter(|namespace| !namespace.is_empty());
        let of = about.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("unknown");
        // A name does not end with a dot before another.
        let of = of[..of.floor_char_boundary(MOST_NAME)].trim_end_matches(['.', '-']);
        let name = format!("{of}.{:x}", self.events.next_name(now));
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                // What is in no namespace is told of in this one.
                namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
                ..ObjectMeta::default()
            },
            involved_object: about,
            type_: Some(format!("{kind:?}")),
            reason: Some(reason.to_owned()),
            message: Some(cut(message)),
            source: Some(EventSource { component: Some(self.component.to_string()), host: None }),
            reporting_component: Some(self.component.to_string()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        }
    }
}

fn cut(mut message: String) -> String {
    const END: &str = "…";
    if message.len() > MOST_MESSAGE {
        message.truncate(message.floor_char_boundary(MOST_MESSAGE - END.len()));
        message.push_str(END);
    }
    message
}

struct Writer {
    client: Client,
    correlator: Correlator,
    metrics: EventMetrics,
}

impl Writer {
    async fn run(mut self, mut rx: mpsc::Receiver<Message>) {
        while let Some(message) = rx.recv().await {
            match message {
                // Nobody waits for it any more, perhaps.
                Message::Flush(done) => drop(done.send(())),
                Message::Event(event) => {
                    match self.correlator.take(*event, Instant::now()) {
                        Verdict::Skip => self.metrics.filtered.inc(),
                        Verdict::Write { event, is_known } => self.write(&event, is_known).await,
                    };
                }
            }
        }
    }

    /// Writes an event, however often that has to be tried.
    async fn write(&self, event: &Event, is_known: bool) -> u64 {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        for n in 1..=TRIES {
            let why = match timeout(PATIENCE, self.try_write(event, is_known)).await {
                Ok(Ok(())) => return self.metrics.written.inc(),
                Ok(Err(error)) => error,
                Err(_) => kube::Error::Service(format!("no answer within {PATIENCE:?}").into()),
            };
            if is_refusal(&why) || n == TRIES {
                tracing::warn!(event = name, error = %why, "an event could not be written");
                break;
            }
            // Not all who met the same outage come back at the same time.
            let part = if n == 1 { fastrand::f64() } else { 1.0 };
            sleep(AGAIN.mul_f64(part)).await;
        }
        self.metrics.failed.inc()
    }

    async fn try_write(&self, event: &Event, is_known: bool) -> Result<(), kube::Error> {
        let (name, namespace) = (&event.metadata.name, &event.metadata.namespace);
        let name = name.as_deref().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace.as_deref().unwrap_or_default());
        if is_known {
            let patch = serde_json::json!({
                "count": event.count,
                "lastTimestamp": event.last_timestamp,
                "message": event.message,
            });
            match api.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await {
                // It has expired meanwhile, or was never written.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                patched => return patched.map(drop),
            }
        }
        match api.create(&PostParams::default(), event).await {
            // An earlier try has come through without an answer.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            created => created.map(drop),
        }
    }
}

/// Whether it is of no use to ask again.
fn is_refusal(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code < 500 && status.code != 429,
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) => true,
        _ => false,
    }
}
