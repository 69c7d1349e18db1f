//! Fairness: a request takes a seat before it is served, and waits for it where there are too few.
//!
//! FlowSchemas say which flow a request belongs to, PriorityLevelConfigurations how many seats there are for it and who
//! waits how ([`windlass_access::fair`]). They are objects like any other: a change holds for the next request if it was
//! made through this server, and as soon as it is heard of otherwise. Those that every server has are in [`objects`],
//! and [`kept`] keeps them. Health and version need no seat; their answers, and refusals, say all the same how they were
//! classified, since clients decide by that whether to throttle themselves. Start at [`ApiServer::seat`].

mod kept;
mod metrics;
mod objects;
mod rules;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use windlass_access::{
    Attributes, User,
    fair::{Begun, Dispatcher, LevelId, Refusal, Ticket},
};
use windlass_store::{Read, Snapshot};

use self::rules::{Objects, Rules};
pub(crate) use self::{
    kept::start,
    metrics::FlowMetrics,
    objects::{GROUP, fixed},
    rules::Flow,
};
use super::Allowed;
use crate::{
    ApiServer, Config,
    http::{Route, Target},
    registry::Registry,
    resources::Catalog,
    server::Call,
    status::{Outcome, Status},
};

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The part of the time that a request may take which it may spend waiting: a quarter, so that there is time left to
/// serve it.
const WAITS_AT_MOST: u32 = 4;

/// How many objects of a list one seat is for.
const OBJECTS_PER_SEAT: usize = 100;

/// How many watchers that are told of a write one seat is for.
const WATCHERS_PER_SEAT: usize = 10;

/// The most seats that one request takes.
const MOST_SEATS: usize = 10;

type Turn = oneshot::Sender<Ticket>;

/// Who has a seat and who waits for one.
pub(crate) struct Fairness {
    /// Held for some hundred nanoseconds, and never while waiting.
    dispatcher: Mutex<Dispatcher<Turn>>,
    /// Replaced while the dispatcher is locked, so that both are of the same objects.
    rules: ArcSwap<Rules>,
    metrics: FlowMetrics,
    since: Instant,
    /// Keeps users from choosing names that share their queues with someone.
    seed: u64,
    longest_wait: Duration,
    reads: AtomicUsize,
    writes: AtomicUsize,
}

impl Fairness {
    pub(crate) fn new(config: &Config, metrics: FlowMetrics) -> Arc<Self> {
        let seats = config.max_inflight_reads.saturating_add(config.max_inflight_writes);
        let mut dispatcher = Dispatcher::new(seats as u64);
        let rules = Rules::new(Objects::default(), &mut dispatcher, Duration::ZERO, &metrics).0;
        Arc::new(Fairness {
            dispatcher: Mutex::new(dispatcher),
            rules: ArcSwap::from_pointee(rules),
            metrics,
            since: Instant::now(),
            seed: fastrand::u64(..),
            longest_wait: config.request_timeout / WAITS_AT_MOST,
            reads: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
        })
    }

    /// Requests being served that read, and that write.
    pub(crate) fn inflight(&self) -> (usize, usize) {
        (self.reads.load(Ordering::Relaxed), self.writes.load(Ordering::Relaxed))
    }

    /// Goes by the objects as they are now.
    pub(crate) async fn refresh(&self, registry: &Registry) {
        // What this server has committed has been seen.
        match registry.store.snapshot(Read::Seen).await {
            Ok(snapshot) => self.adopt(&snapshot, &registry.catalog.load()),
            Err(error) => tracing::debug!(%error, "flow schemas could not be read"),
        }
    }

    fn adopt(&self, snapshot: &Snapshot, catalog: &Catalog) {
        let objects = Objects::read(snapshot, catalog);
        let mut dispatcher = self.dispatcher.lock();
        let before = self.rules.load_full();
        if before.revision() > objects.revision {
            return;
        }
        let now = self.since.elapsed();
        let (rules, begun) = Rules::new(objects, &mut dispatcher, now, &self.metrics);
        before.forget(&rules, &self.metrics);
        self.rules.store(Arc::new(rules));
        wake(&mut dispatcher, begun, now);
    }

    /// Where a request belongs, and which flow of it that is.
    pub(crate) fn classify(&self, user: &User, attributes: &Attributes<'_>) -> (Arc<Flow>, u64) {
        self.rules.load().classify(user, attributes, self.seed)
    }

    fn counter(&self, is_write: bool) -> &AtomicUsize {
        if is_write { &self.writes } else { &self.reads }
    }

    /// Waits for a seat.
    async fn wait(
        self: &Arc<Self>,
        flow: &Flow,
        ticket: Ticket,
        turn_rx: oneshot::Receiver<Ticket>,
        most: Duration,
    ) -> Option<Ticket> {
        let mut waiting = Waiting { fairness: self, flow, ticket: Some(ticket), turn_rx, is_cancelled: true };
        flow.counters.in_queue.inc();
        let turn = tokio::time::timeout(most.min(self.longest_wait), &mut waiting.turn_rx).await;
        waiting.is_cancelled = false;
        let begun = turn.ok()?.ok()?;
        waiting.ticket = None;
        Some(begun)
    }

    fn end(&self, ticket: Ticket) {
        let mut dispatcher = self.dispatcher.lock();
        let now = self.since.elapsed();
        let begun = dispatcher.end(ticket, now);
        wake(&mut dispatcher, begun, now);
    }
}

/// Tells those whose turn has come. The lock is held meanwhile: whoever gives up looks first whether it has been told.
fn wake(dispatcher: &mut Dispatcher<Turn>, begun: Begun<Turn>, now: Duration) {
    let mut begun = VecDeque::from(begun);
    while let Some((ticket, turn_tx)) = begun.pop_front() {
        if turn_tx.send(ticket).is_err() {
            begun.extend(dispatcher.end(ticket, now));
        }
    }
}

/// A request in a queue. It leaves the queue when it is dropped.
struct Waiting<'a> {
    fairness: &'a Fairness,
    flow: &'a Flow,
    ticket: Option<Ticket>,
    turn_rx: oneshot::Receiver<Ticket>,
    /// Whether whoever asked goes away.
    is_cancelled: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.flow.counters.in_queue.dec();
        if self.is_cancelled {
            self.fairness.metrics.rejected(self.flow, "cancelled");
        }
        let Some(ticket) = self.ticket.take() else { return };
        let mut dispatcher = self.fairness.dispatcher.lock();
        let ticket = self.turn_rx.try_recv().unwrap_or(ticket);
        let now = self.fairness.since.elapsed();
        let begun = dispatcher.end(ticket, now);
        wake(&mut dispatcher, begun, now);
    }
}

/// A place among the requests in flight.
pub(crate) struct Seat {
    fairness: Arc<Fairness>,
    flow: Arc<Flow>,
    /// `None` for those that need none.
    ticket: Option<Ticket>,
    is_write: bool,
}

impl Seat {
    fn new(fairness: &Arc<Fairness>, flow: Arc<Flow>, ticket: Option<Ticket>, is_write: bool) -> Self {
        flow.counters.dispatched.inc();
        flow.counters.executing.inc();
        fairness.counter(is_write).fetch_add(1, Ordering::Relaxed);
        Seat { fairness: Arc::clone(fairness), flow, ticket, is_write }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.flow.counters.executing.dec();
        self.fairness.counter(self.is_write).fetch_sub(1, Ordering::Relaxed);
        if let Some(ticket) = self.ticket.take() {
            self.fairness.end(ticket);
        }
    }
}

impl Flow {
    /// Says in an answer how the request was classified.
    pub(crate) fn stamp(&self, headers: &mut HeaderMap) {
        for (name, uid) in [(SCHEMA_UID, &self.schema_uid), (LEVEL_UID, &self.level_uid)] {
            if let Some(uid) = uid {
                headers.insert(name, uid.clone());
            }
        }
    }
}

impl ApiServer {
    /// A seat for a request. Waits until there is one, but not for long.
    pub(crate) async fn seat(&self, call: &mut Call, allowed: &Allowed, most: Duration) -> Outcome<Seat> {
        let fairness = &self.fairness;
        let is_write = call.is_write();
        let mut classified = call.flow.clone();
        loop {
            let (flow, number) = match classified.take() {
                Some(classified) => classified,
                None => fairness.classify(&call.user, &allowed.route().wanted(call)),
            };
            call.flow = Some((Arc::clone(&flow), number));
            let Some(level) = flow.level else {
                return Ok(Seat::new(fairness, flow, None, is_write));
            };
            let seats = self.seats_for(call, allowed.route()).await;
            let (ticket, turn_rx) = match fairness.arrive(level, number, seats) {
                Ok(arrival) => arrival,
                // The level has just gone, and the rules with it.
                Err(Refusal::NoLevel) => continue,
                Err(Refusal::NoSeats) => return Err(fairness.send_away(&flow, "concurrency-limit")),
                Err(Refusal::QueueFull) => return Err(fairness.send_away(&flow, "queue-full")),
            };
            let (ticket, waited) = match turn_rx {
                None => (Some(ticket), Duration::ZERO),
                Some(turn_rx) => {
                    let arrived = Instant::now();
                    let ticket = fairness.wait(&flow, ticket, turn_rx, most).await;
                    (ticket, arrived.elapsed())
                }
            };
            flow.counters.waited.observe(waited.as_secs_f64());
            return match ticket {
                Some(ticket) => Ok(Seat::new(fairness, flow, Some(ticket), is_write)),
                None => Err(fairness.send_away(&flow, "time-out")),
            };
        }
    }

    /// How many seats a request takes: more for long lists, and for writes that many are told of.
    async fn seats_for(&self, call: &Call, route: &Route) -> u32 {
        let Route::Resource(target) = route else { return 1 };
        let seats = match call.verb(target) {
            "list" => self.listed(call, target).await.div_ceil(OBJECTS_PER_SEAT),
            "get" | "watch" => 1,
            _ => 1 + self.metrics.watched(&target.resource) / WATCHERS_PER_SEAT,
        };
        seats.clamp(1, MOST_SEATS) as u32
    }

    /// How many objects a list is about.
    async fn listed(&self, call: &Call, target: &Target) -> usize {
        let Ok(snapshot) = self.registry.store.snapshot(Read::Seen).await else { return 1 };
        let range = target.resource.range(&target.namespace);
        let n_stored = snapshot.count(range.as_bytes());
        let selects = call.query.has("labelSelector") || call.query.has("fieldSelector");
        match call.query.int("limit") {
            // Whoever selects has all of them looked at.
            Ok(Some(limit)) if limit > 0 && !selects => {
                n_stored.min(usize::try_from(limit).unwrap_or(usize::MAX))
            }
            _ => n_stored,
        }
    }
}

impl Fairness {
    /// A seat at once, or a place in a queue.
    fn arrive(
        &self,
        level: LevelId,
        flow: u64,
        seats: u32,
    ) -> Result<(Ticket, Option<oneshot::Receiver<Ticket>>), Refusal> {
        let mut turn_rx = None;
        let mut dispatcher = self.dispatcher.lock();
        let now = self.since.elapsed();
        let (ticket, begun) = dispatcher.arrive(level, flow, seats, now, || {
            let (tx, rx) = oneshot::channel();
            turn_rx = Some(rx);
            tx
        })?;
        wake(&mut dispatcher, begun, now);
        Ok((ticket, turn_rx))
    }

    fn send_away(&self, flow: &Flow, reason: &'static str) -> Box<Status> {
        self.metrics.rejected(flow, reason);
        Status::too_many_requests("Too many requests, please try again later.", 1)
    }
}
