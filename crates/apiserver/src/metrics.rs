//! Metrics, by the names that operators of Kubernetes know.

use std::time::Duration;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Registry,
};

use crate::{access::fairness::FlowMetrics, resources::Resource, server::ApiServer};

/// Upper bounds of the histogram of request durations, in seconds.
const DURATIONS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

/// What requests are told apart by.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Labels {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndedLabels {
    #[prometheus(flatten)]
    labels: Labels,
    code: u32,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WatchLabels {
    group: String,
    resource: String,
}

impl WatchLabels {
    fn of(resource: &Resource) -> Self {
        WatchLabels { group: resource.group.clone(), resource: resource.plural.clone() }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AttemptLabels {
    result: &'static str,
    by: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct UserLabels {
    username: &'static str,
}

/// What is counted.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<EndedLabels, Counter>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    watchers: Family<WatchLabels, Gauge>,
    attempts: Family<AttemptLabels, Counter>,
    users: Family<UserLabels, Counter>,
    /// Handlers that panicked.
    pub(crate) panics: Counter,
    /// Who is served and who waits.
    pub(crate) flows: FlowMetrics,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        let durations = Family::new_with_constructor((|| Histogram::new(DURATIONS)) as fn() -> Histogram);
        let watchers = Family::default();
        let (attempts, users) = (Family::default(), Family::default());
        let panics = Counter::default();
        registry.register(
            "apiserver_request",
            "Requests, by what they asked for and how they ended",
            requests.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time from the request's head to the answer's head",
            durations.clone(),
        );
        registry.register("apiserver_longrunning_requests", "Watches being served", watchers.clone());
        registry.register("apiserver_request_panics", "Requests whose handler panicked", panics.clone());
        registry.register(
            "authentication_attempts",
            "Requests, by whether it is known who asks, and by what",
            attempts.clone(),
        );
        registry.register("authenticated_user_requests", "Requests of known users, by kind", users.clone());
        let flows = FlowMetrics::register(&mut registry);
        Metrics { registry, requests, durations, watchers, attempts, users, panics, flows }
    }

    /// Counts a client that is known.
    pub(crate) fn known(&self, by: &'static str, user: &str) {
        self.attempts.get_or_create(&AttemptLabels { result: "success", by }).inc();
        // Names are the clients' to choose, so they are not told apart.
        let username = match user {
            "admin" => "admin",
            _ if user.starts_with("system:serviceaccount:") => "system:serviceaccount",
            _ if user.starts_with("system:") => "system",
            _ => "other",
        };
        self.users.get_or_create(&UserLabels { username }).inc();
    }

    /// Counts a client that is refused because of what it shows.
    pub(crate) fn unknown(&self, by: &'static str) {
        self.attempts.get_or_create(&AttemptLabels { result: "failure", by }).inc();
    }

    /// Counts a request.
    pub(crate) fn request(&self, labels: Labels, code: u16, took: Duration) {
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        self.requests.get_or_create(&EndedLabels { labels, code: u32::from(code) }).inc();
    }

    /// How many watches there are of a resource.
    pub(crate) fn watched(&self, resource: &Resource) -> usize {
        let gauge = self.watchers.get(&WatchLabels::of(resource));
        gauge.map_or(0, |gauge| usize::try_from(gauge.get()).unwrap_or(0))
    }

    /// Counts a watch for as long as it lives.
    pub(crate) fn watching(&self, resource: &Resource) -> Counted {
        let gauge = self.watchers.get_or_create(&WatchLabels::of(resource)).clone();
        gauge.inc();
        Counted(gauge)
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn render(&self, server: &ApiServer) -> String {
        let mut out = String::new();
        let _ = encode(&mut out, &self.registry);
        let mut now = Registry::default();
        now.register_collector(Box::new(Now::of(server)));
        server.issuers.register(&mut now);
        let _ = encode(&mut out, &now);
        // Two registries are one page: only the last end counts.
        out.replacen("# EOF\n", "", 1)
    }
}

/// A watch that is counted.
pub(crate) struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What is looked up when someone asks.
#[derive(Debug)]
struct Now {
    inflight: (usize, usize),
    revision: u64,
    oldest: u64,
    live_bytes: u64,
    to_reseal: u64,
}

impl Now {
    fn of(server: &ApiServer) -> Self {
        let window = server.registry.store.window();
        Now {
            inflight: server.inflight(),
            revision: window.head.get(),
            oldest: window.floor.get(),
            live_bytes: server.live_bytes(),
            to_reseal: server.registry.store.to_reseal(),
        }
    }
}

impl Collector for Now {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut inflight = encoder.encode_descriptor(
            "apiserver_current_inflight_requests",
            "Requests being served",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for (kind, n) in [("readOnly", self.inflight.0), ("mutating", self.inflight.1)] {
            ConstGauge::new(n as i64).encode(inflight.encode_family(&[("request_kind", kind)])?)?;
        }
        for (name, help, value) in [
            ("windlass_store_revision", "The newest revision", self.revision),
            (
                "windlass_store_oldest_revision",
                "The oldest revision that can be read or watched from",
                self.oldest,
            ),
            ("apiserver_storage_size_bytes", "Bytes of live keys and values", self.live_bytes),
            (
                "windlass_store_to_reseal",
                "Parts of the store, or keys in etcd, that are not encrypted with the current key yet",
                self.to_reseal,
            ),
        ] {
            let gauge =
                encoder.encode_descriptor(name, help, None, prometheus_client::metrics::MetricType::Gauge)?;
            ConstGauge::new(value as i64).encode(gauge)?;
        }
        Ok(())
    }
}
