//! What is counted.

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::topic::KindId;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    kind: &'static str,
    result: &'static str,
}

type Histograms = Family<KindLabels, Histogram, fn() -> Histogram>;

/// From a millisecond to half a minute.
fn seconds() -> Histogram {
    Histogram::new([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0])
}

/// Everything that a control plane counts. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    streams: Gauge,
    refused: Counter,
    cut: Counter,
    subscriptions: Family<KindLabels, Gauge>,
    objects: Family<KindLabels, Gauge>,
    untranslatable: Family<KindLabels, Gauge>,
    pushes: Family<KindLabels, Counter>,
    bytes: Family<KindLabels, Counter>,
    answers: Family<AnswerLabels, Counter>,
    bad_requests: Counter,
    debounce: Histogram,
    waiting: Gauge,
    sending: Histograms,
    answering: Histograms,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics(Arc::new(Families {
            streams: Gauge::default(),
            refused: Counter::default(),
            cut: Counter::default(),
            subscriptions: Family::default(),
            objects: Family::default(),
            untranslatable: Family::default(),
            pushes: Family::default(),
            bytes: Family::default(),
            answers: Family::default(),
            bad_requests: Counter::default(),
            debounce: seconds(),
            waiting: Gauge::default(),
            sending: Family::new_with_constructor(seconds),
            answering: Family::new_with_constructor(seconds),
        }))
    }
}

fn of(kind: KindId) -> KindLabels {
    KindLabels { kind: kind.kind().kind }
}

impl Metrics {
    /// Adds all of it to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let own = &*self.0;
        let registry = registry.sub_registry_with_prefix("opensergo");
        registry.register("streams", "Streams that are open", own.streams.clone());
        registry.register("streams_refused", "Streams that were not taken", own.refused.clone());
        registry.register("streams_cut", "Streams whose client did not read", own.cut.clone());
        registry.register("subscriptions", "Topics of all streams", own.subscriptions.clone());
        registry.register("rules", "Objects", own.objects.clone());
        registry.register("rules_untranslatable", "Objects that make no message", own.untranslatable.clone());
        registry.register("pushes", "Messages with rules that were sent", own.pushes.clone());
        registry.register("pushed_bytes", "What they were in bytes", own.bytes.clone());
        registry.register("answers", "Answers of clients, by what they say", own.answers.clone());
        registry.register("bad_requests", "Requests that made no sense", own.bad_requests.clone());
        registry.register("debounce_seconds", "From the first change until it is told", own.debounce.clone());
        registry.register("debounce_apps", "Apps whose changes are not told yet", own.waiting.clone());
        registry.register("send_seconds", "From being told until it is sent", own.sending.clone());
        registry.register("answer_seconds", "From sending until the answer", own.answering.clone());
    }

    pub(crate) fn streams(&self, n_streams: usize) {
        self.0.streams.set(n_streams as i64);
    }

    pub(crate) fn refused(&self) {
        self.0.refused.inc();
    }

    pub(crate) fn cut(&self) {
        self.0.cut.inc();
    }

    pub(crate) fn subscribed(&self, kind: KindId, by: i64) {
        self.0.subscriptions.get_or_create(&of(kind)).inc_by(by);
    }

    pub(crate) fn objects(&self, kind: KindId, n_objects: usize, n_untranslatable: usize) {
        self.0.objects.get_or_create(&of(kind)).set(n_objects as i64);
        self.0.untranslatable.get_or_create(&of(kind)).set(n_untranslatable as i64);
    }

    pub(crate) fn pushed(&self, kind: KindId, n_bytes: usize, waited: Duration) {
        self.0.pushes.get_or_create(&of(kind)).inc();
        self.0.bytes.get_or_create(&of(kind)).inc_by(n_bytes as u64);
        self.0.sending.get_or_create(&of(kind)).observe(waited.as_secs_f64());
    }

    pub(crate) fn answered(&self, kind: KindId, result: &'static str, took: Option<Duration>) {
        self.0.answers.get_or_create(&AnswerLabels { kind: kind.kind().kind, result }).inc();
        if let Some(took) = took {
            self.0.answering.get_or_create(&of(kind)).observe(took.as_secs_f64());
        }
    }

    pub(crate) fn bad_request(&self) {
        self.0.bad_requests.inc();
    }

    pub(crate) fn debounced(&self, took: Duration) {
        self.0.debounce.observe(took.as_secs_f64());
    }

    /// How many apps wait to be told of.
    pub(crate) fn waiting(&self, n_apps: usize) {
        self.0.waiting.set(n_apps as i64);
    }
}
