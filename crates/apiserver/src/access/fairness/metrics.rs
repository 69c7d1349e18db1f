//! What is counted of flows. There are as many labels as there are schemas: those of schemas that go, go with them.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::Flow;

/// Upper bounds of the histogram of waits, in seconds. The first is for those who did not have to.
const WAITS: [f64; 11] = [0.0001, 0.001, 0.005, 0.02, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct FlowLabels {
    pub(super) priority_level: String,
    pub(super) flow_schema: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RejectedLabels {
    #[prometheus(flatten)]
    labels: FlowLabels,
    reason: &'static str,
}

/// Why requests are sent away.
const REASONS: [&str; 4] = ["cancelled", "concurrency-limit", "queue-full", "time-out"];

/// What is counted of all flows.
#[derive(Clone)]
pub(crate) struct FlowMetrics {
    in_queue: Family<FlowLabels, Gauge>,
    executing: Family<FlowLabels, Gauge>,
    dispatched: Family<FlowLabels, Counter>,
    rejected: Family<RejectedLabels, Counter>,
    waited: Family<FlowLabels, Histogram, fn() -> Histogram>,
}

/// What is counted of one schema.
pub(super) struct Counters {
    pub(super) in_queue: Gauge,
    pub(super) executing: Gauge,
    pub(super) dispatched: Counter,
    pub(super) waited: Histogram,
}

impl FlowMetrics {
    /// Adds them to what is shown.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let waited = Family::new_with_constructor((|| Histogram::new(WAITS)) as fn() -> Histogram);
        let metrics = FlowMetrics {
            in_queue: Family::default(),
            executing: Family::default(),
            dispatched: Family::default(),
            rejected: Family::default(),
            waited,
        };
        for (name, help, gauges) in [
            ("current_inqueue_requests", "Requests that wait for a seat", &metrics.in_queue),
            ("current_executing_requests", "Requests that have a seat or need none", &metrics.executing),
        ] {
            registry.register(format!("apiserver_flowcontrol_{name}"), help, gauges.clone());
        }
        registry.register(
            "apiserver_flowcontrol_dispatched_requests",
            "Requests that were let through",
            metrics.dispatched.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_rejected_requests",
            "Requests that were sent away, and why",
            metrics.rejected.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_request_wait_duration_seconds",
            "How long requests waited for a seat",
            metrics.waited.clone(),
        );
        metrics
    }

    pub(super) fn counters(&self, labels: &FlowLabels) -> Counters {
        Counters {
            in_queue: self.in_queue.get_or_create(labels).clone(),
            executing: self.executing.get_or_create(labels).clone(),
            dispatched: self.dispatched.get_or_create(labels).clone(),
            waited: self.waited.get_or_create(labels).clone(),
        }
    }

    pub(super) fn rejected(&self, flow: &Flow, reason: &'static str) {
        let labels = RejectedLabels { labels: flow.labels.clone(), reason };
        self.rejected.get_or_create(&labels).inc();
    }

    /// Shows nothing more of a schema that is gone.
    pub(super) fn forget(&self, labels: &FlowLabels) {
        self.in_queue.remove(labels);
        self.executing.remove(labels);
        self.dispatched.remove(labels);
        self.waited.remove(labels);
        for reason in REASONS {
            self.rejected.remove(&RejectedLabels { labels: labels.clone(), reason });
        }
    }
}
