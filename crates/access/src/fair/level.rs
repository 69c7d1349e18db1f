//! One priority level: its flows, and which of them comes next.
//!
//! Each flow is served up to some number of seat-seconds; the flow that is furthest behind comes next. A flow that
//! becomes busy begins level with the one that is furthest behind: it has no claim on what was used while it was away,
//! and nobody who has had more goes before it. While others wait, what a flow has had is remembered when it pauses, so
//! pausing gains nothing. What a request will use is guessed when it begins, counted while it runs, and settled when it
//! ends.
//!
//! Queues say how many may wait, and not in which order: a request takes a place in the emptiest queue of its flow's
//! hand. A flow that fills all of its queues therefore leaves others theirs, and gets no more turns by having several.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use super::{
    hand::Hand,
    spec::{LevelKind, LevelSpec, LimitKind, Queuing},
};

/// How long a request is taken to need when it begins. Below the time that most need, a burst of one queue would be let
/// in before any of it is counted; far above it, a queue would wait for a debt that it never ran up.
const GUESS: Duration = Duration::from_millis(3);

/// What a level may use, and how its requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its part of all seats, in relation to the other levels.
    pub shares: u32,
    /// How much of that others may use while it does not.
    pub lendable_percent: u32,
    /// How much more it may use while others do not.
    pub borrowing_percent: Option<u32>,
    /// Its queues. A level that sends requests away has one in which nobody may wait.
    pub queuing: Queuing,
}

impl Shape {
    /// The shape of a level; `None` for one that is not limited.
    pub fn of(spec: &LevelSpec) -> Option<Self> {
        if spec.kind == LevelKind::Exempt {
            return None;
        }
        let limited = spec.limited.clone().unwrap_or_default();
        let queuing = match limited.limit_response.kind {
            LimitKind::Queue => limited.limit_response.queuing.unwrap_or_default(),
            LimitKind::Reject => Queuing { queues: 1, hand_size: 1, queue_length_limit: 0 },
        };
        Some(Shape {
            shares: limited.nominal_concurrency_shares.unwrap_or(30),
            lendable_percent: limited.lendable_percent.unwrap_or(0).min(100),
            borrowing_percent: limited.borrowing_limit_percent,
            queuing,
        })
    }
}

/// How many seats a level may use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// Those that are its own. It may have them as soon as whoever has borrowed them is done.
    pub(super) nominal: u64,
    /// Those of its own that are never lent.
    pub(super) reserved: u64,
    /// The most it may use with what others lend.
    pub(super) most: u64,
}

/// One priority level.
pub(super) struct Level<W> {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) limits: Limits,
    pub(super) in_use: u64,
    pub(super) waiting: usize,
    /// Whether there is no such level any more; it goes when the last of its requests does.
    pub(super) is_gone: bool,
    /// The flows of which requests wait or run. There are never more than requests.
    flows: HashMap<u64, Flow<W>>,
    /// How many wait in each queue, the empty ones left out.
    queues: HashMap<u32, u32>,
    /// The seat-seconds up to which every busy flow has been served. Never goes back.
    floor: f64,
    /// What flows that pause have had above that, while others wait.
    ahead: HashMap<u64, f64>,
}

/// The most flows that are remembered while they pause.
const MOST_AHEAD: usize = 4096;

struct Flow<W> {
    /// The seat-seconds up to which this flow has been served, running requests at their guess.
    served: f64,
    /// In the order of their ids.
    waiting: VecDeque<Waiter<W>>,
    in_use: u64,
    /// The sum of seats times nanoseconds at which they were taken.
    begun: u128,
}

impl<W> Flow<W> {
    fn new(served: f64) -> Self {
        Flow { served, waiting: VecDeque::new(), in_use: 0, begun: 0 }
    }

    /// Up to where this flow has been served: what runs for longer than was guessed counts while it runs.
    fn served_by(&self, now: Duration) -> f64 {
        let guessed = self.begun + u128::from(self.in_use) * GUESS.as_nanos();
        let beyond = (u128::from(self.in_use) * now.as_nanos()).saturating_sub(guessed);
        self.served + beyond as f64 / 1e9
    }
}

/// A request that waits.
pub(super) struct Waiter<W> {
    pub(super) id: u64,
    pub(super) queue: u32,
    pub(super) seats: u32,
    pub(super) whom: W,
}

/// The request of a level that comes next.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) flow: u64,
    pub(super) id: u64,
    pub(super) seats: u32,
}

impl<W> Level<W> {
    pub(super) fn new(name: String, shape: Shape) -> Self {
        Level {
            name,
            shape,
            limits: Limits::default(),
            in_use: 0,
            waiting: 0,
            is_gone: false,
            flows: HashMap::new(),
            queues: HashMap::new(),
            floor: 0.0,
            ahead: HashMap::new(),
        }
    }

    /// The most seats that one request can have. Wider than the level is nothing, or it would never begin; and wide
    /// requests leave one seat free.
    pub(super) fn widest(&self) -> u32 {
        u32::try_from(self.limits.nominal).unwrap_or(u32::MAX).saturating_sub(1).max(1)
    }

    /// Sets what the level may use. Those who wait want no more than that.
    pub(super) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        let widest = self.widest();
        let waiting = self.flows.values_mut().flat_map(|flow| flow.waiting.iter_mut());
        waiting.for_each(|waiter| waiter.seats = waiter.seats.min(widest));
    }

    /// The queue for a request of this flow: the emptiest one of its hand. `None` when that is full.
    pub(super) fn choose(&self, flow: u64) -> Option<u32> {
        let Queuing { queues, hand_size, queue_length_limit } = self.shape.queuing;
        let hand = Hand::deal(flow, queues, hand_size);
        let waiting = |card: &u32| self.queues.get(card).copied().unwrap_or(0);
        let emptiest = hand.cards().iter().copied().min_by_key(waiting)?;
        (waiting(&emptiest) < queue_length_limit).then_some(emptiest)
    }

    fn flow(&mut self, number: u64) -> &mut Flow<W> {
        if !self.flows.contains_key(&number) {
            let least = self.flows.values().map(|flow| flow.served).min_by(f64::total_cmp);
            self.floor = self.floor.max(least.unwrap_or(self.floor));
        }
        let (floor, ahead) = (self.floor, &mut self.ahead);
        let entry = self.flows.entry(number);
        entry.or_insert_with(|| Flow::new(ahead.remove(&number).map_or(floor, |served| served.max(floor))))
    }

    pub(super) fn push(&mut self, flow: u64, waiter: Waiter<W>) {
        *self.queues.entry(waiter.queue).or_default() += 1;
        self.flow(flow).waiting.push_back(waiter);
        self.waiting += 1;
    }

    /// Whose turn it is. Who was there first comes first where two are as far behind.
    pub(super) fn next(&self, now: Duration) -> Option<Next> {
        let heads = self.flows.iter().filter_map(|(number, flow)| {
            let head = flow.waiting.front()?;
            let served = flow.served_by(now) + GUESS.as_secs_f64() * f64::from(head.seats);
            Some((served, Next { flow: *number, id: head.id, seats: head.seats }))
        });
        let first = heads
            .min_by(|(left, one), (right, other)| left.total_cmp(right).then_with(|| one.id.cmp(&other.id)));
        first.map(|(_, next)| next)
    }

    /// Takes the first of a flow out of its queue.
    pub(super) fn pop(&mut self, flow: u64) -> Option<Waiter<W>> {
        let waiter = self.flows.get_mut(&flow)?.waiting.pop_front()?;
        self.leave(waiter.queue);
        Some(waiter)
    }

    /// Takes one that gives up out of its queue; false when it does not wait.
    pub(super) fn remove(&mut self, number: u64, id: u64) -> bool {
        let Some(flow) = self.flows.get_mut(&number) else { return false };
        let Ok(place) = flow.waiting.binary_search_by_key(&id, |waiter| waiter.id) else { return false };
        let Some(waiter) = flow.waiting.remove(place) else { return false };
        self.leave(waiter.queue);
        self.tidy(number);
        true
    }

    fn leave(&mut self, queue: u32) {
        self.waiting -= 1;
        match self.queues.get_mut(&queue) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(self.queues.remove(&queue)),
        }
    }

    /// A request of a flow begins.
    pub(super) fn begin(&mut self, number: u64, seats: u32, now: Duration) {
        let seats = u64::from(seats);
        let flow = self.flow(number);
        flow.served += GUESS.as_secs_f64() * seats as f64;
        flow.in_use += seats;
        flow.begun += u128::from(seats) * now.as_nanos();
        self.in_use += seats;
    }

    /// A request of a flow ends.
    pub(super) fn end(&mut self, number: u64, seats: u32, begun: Duration, now: Duration) {
        let seats = u64::from(seats);
        if let Some(flow) = self.flows.get_mut(&number) {
            let took = now.saturating_sub(begun).as_secs_f64();
            flow.served += (took - GUESS.as_secs_f64()) * seats as f64;
            flow.in_use = flow.in_use.saturating_sub(seats);
            flow.begun = flow.begun.saturating_sub(u128::from(seats) * begun.as_nanos());
        }
        self.in_use = self.in_use.saturating_sub(seats);
        self.tidy(number);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_use == 0 && self.waiting == 0
    }

    /// Forgets a flow that has nothing to do.
    fn tidy(&mut self, number: u64) {
        let is_idle = |flow: &Flow<W>| flow.in_use == 0 && flow.waiting.is_empty();
        let idle = self.flows.get(&number).filter(|flow| is_idle(flow)).map(|flow| flow.served);
        let Some(served) = idle else { return };
        self.flows.remove(&number);
        if self.waiting == 0 {
            return self.ahead.clear();
        }
        if self.ahead.len() >= MOST_AHEAD {
            let floor = self.floor;
            self.ahead.retain(|_, served| *served > floor);
        }
        if served > self.floor && self.ahead.len() < MOST_AHEAD {
            self.ahead.insert(number, served);
        }
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize) {
        (self.flows.len(), self.queues.len())
    }
}
