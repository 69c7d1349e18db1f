//! What is counted, under the names that dashboards for client-go and controller-runtime know.

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// Seconds, as a gauge has them.
type Seconds = Gauge<f64, std::sync::atomic::AtomicU64>;
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: String,
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    result: &'static str,
}

/// From ten nanoseconds to ten seconds, as client-go has them.
fn queue_times() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 10))
}

/// From some milliseconds to a minute, as controller-runtime has them.
fn reconcile_times() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
        1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0,
        40.0, 50.0, 60.0,
    ])
}

/// Everything that a manager counts. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    depth: Family<QueueLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    queued: Histograms<QueueLabels>,
    worked: Histograms<QueueLabels>,
    unfinished: Family<QueueLabels, Seconds>,
    longest: Family<QueueLabels, Seconds>,
    reconciles: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    terminal: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    timeouts: Family<ControllerLabels, Counter>,
    times: Histograms<ControllerLabels>,
    most: Family<ControllerLabels, Gauge>,
    active: Family<ControllerLabels, Gauge>,
    events: Family<OutcomeLabels, Counter>,
    leads: Family<LeaseLabels, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics(Arc::new(Families {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queued: Family::new_with_constructor(queue_times),
            worked: Family::new_with_constructor(queue_times),
            unfinished: Family::default(),
            longest: Family::default(),
            reconciles: Family::default(),
            errors: Family::default(),
            terminal: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            times: Family::new_with_constructor(reconcile_times),
            most: Family::default(),
            active: Family::default(),
            events: Family::default(),
            leads: Family::default(),
        }))
    }
}

impl Metrics {
    /// Adds all of it to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let own = &*self.0;
        let queue = registry.sub_registry_with_prefix("workqueue");
        queue.register("depth", "Current depth of workqueue", own.depth.clone());
        queue.register("adds", "Total number of adds handled by workqueue", own.adds.clone());
        queue.register("retries", "Total number of retries handled by workqueue", own.retries.clone());
        queue.register(
            "queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            own.queued.clone(),
        );
        queue.register(
            "work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            own.worked.clone(),
        );
        queue.register(
            "unfinished_work_seconds",
            "Seconds of work that is in progress and not yet in work_duration_seconds",
            own.unfinished.clone(),
        );
        queue.register(
            "longest_running_processor_seconds",
            "How many seconds the longest running processor has been running",
            own.longest.clone(),
        );
        let controller = registry.sub_registry_with_prefix("controller_runtime");
        controller.register("reconcile", "Reconciles by result", own.reconciles.clone());
        controller.register("reconcile_errors", "Reconciles that failed", own.errors.clone());
        controller.register(
            "terminal_reconcile_errors",
            "Reconciles that failed and are not tried again",
            own.terminal.clone(),
        );
        controller.register("reconcile_panics", "Reconciles that panicked", own.panics.clone());
        controller.register("reconcile_timeouts", "Reconciles that took too long", own.timeouts.clone());
        controller.register("reconcile_time_seconds", "How long reconciles take", own.times.clone());
        controller.register("max_concurrent_reconciles", "Most reconciles at once", own.most.clone());
        controller.register("active_workers", "Reconciles that are under way", own.active.clone());
        registry.register("leader_election_master_status", "1 while this process leads", own.leads.clone());
        registry.register("windlass_recorder_events", "Events by what became of them", own.events.clone());
    }

    /// Whether this process leads, by the lease of this name.
    pub(crate) fn leads(&self, lease: &str, is_leader: bool) {
        let labels = LeaseLabels { name: lease.to_owned() };
        self.0.leads.get_or_create_owned(&labels).set(i64::from(is_leader));
    }

    /// What the queue of this name counts.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let (own, labels) = (&*self.0, QueueLabels { name: name.to_owned(), controller: name.to_owned() });
        QueueMetrics {
            depth: own.depth.get_or_create_owned(&labels),
            adds: own.adds.get_or_create_owned(&labels),
            retries: own.retries.get_or_create_owned(&labels),
            queued: own.queued.get_or_create_owned(&labels),
            worked: own.worked.get_or_create_owned(&labels),
            unfinished: own.unfinished.get_or_create_owned(&labels),
            longest: own.longest.get_or_create_owned(&labels),
        }
    }

    /// What an event recorder counts.
    pub(crate) fn events(&self) -> EventMetrics {
        let of = |result| self.0.events.get_or_create_owned(&OutcomeLabels { result });
        EventMetrics {
            written: of("written"),
            dropped: of("dropped"),
            filtered: of("filtered"),
            failed: of("failed"),
        }
    }

    /// What the controller of this name counts.
    pub fn controller(&self, name: &str) -> ControllerMetrics {
        let (own, labels) = (&*self.0, ControllerLabels { controller: name.to_owned() });
        let of = |result| {
            own.reconciles.get_or_create_owned(&ResultLabels { controller: name.to_owned(), result })
        };
        ControllerMetrics {
            successes: of("success"),
            failures: of("error"),
            delays: of("requeue_after"),
            requeues: of("requeue"),
            errors: own.errors.get_or_create_owned(&labels),
            terminal: own.terminal.get_or_create_owned(&labels),
            panics: own.panics.get_or_create_owned(&labels),
            timeouts: own.timeouts.get_or_create_owned(&labels),
            times: own.times.get_or_create_owned(&labels),
            most: own.most.get_or_create_owned(&labels),
            active: own.active.get_or_create_owned(&labels),
        }
    }
}

/// What one queue counts.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    queued: Histogram,
    worked: Histogram,
    unfinished: Seconds,
    longest: Seconds,
}

impl Default for QueueMetrics {
    /// Counted, and shown nowhere.
    fn default() -> Self {
        Metrics::default().queue("")
    }
}

impl QueueMetrics {
    pub(crate) fn added(&self, n_keys: usize) {
        self.adds.inc_by(n_keys as u64);
    }

    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    pub(crate) fn depth(&self, n_ready: usize) {
        self.depth.set(n_ready as i64);
    }

    pub(crate) fn taken(&self, waited: Duration) {
        self.queued.observe(waited.as_secs_f64());
    }

    pub(crate) fn done(&self, took: Duration) {
        self.worked.observe(took.as_secs_f64());
    }

    pub(crate) fn unfinished(&self, sum: Duration, longest: Duration) {
        self.unfinished.set(sum.as_secs_f64());
        self.longest.set(longest.as_secs_f64());
    }
}

/// What one controller counts.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    pub(crate) successes: Counter,
    pub(crate) failures: Counter,
    pub(crate) delays: Counter,
    pub(crate) requeues: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal: Counter,
    pub(crate) panics: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) times: Histogram,
    pub(crate) most: Gauge,
    pub(crate) active: Gauge,
}

/// What an event recorder counts.
#[derive(Clone, Debug)]
pub(crate) struct EventMetrics {
    /// The API server has them.
    pub(crate) written: Counter,
    /// There were too many waiting.
    pub(crate) dropped: Counter,
    /// There were too many of one object.
    pub(crate) filtered: Counter,
    /// The API server did not take them.
    pub(crate) failed: Counter,
}
