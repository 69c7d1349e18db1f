//! Seats, and who gets them.
//!
//! A level may always use the seats that it does not lend. What it lends, and what rounding leaves, is a pool: levels
//! that use less than is theirs come first there, and among those whoever uses the smallest part of it; then come the
//! levels that borrow. Whoever is first there and wants more than is left is waited for, so many small requests never
//! keep a large one away. What is borrowed comes back as requests end; none is cut short.
//!
//! Requests that take several seats take long, and never take the last one: whoever wants one seat, and has had less
//! than others, does not wait for a long list to end.

use std::{collections::BTreeMap, time::Duration};

use super::level::{Level, Limits, Next, Shape, Waiter};

/// A level that a dispatcher knows. Never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LevelId(u32);

/// A request that runs or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    id: u64,
    level: LevelId,
    flow: u64,
    seats: u32,
    begun: Option<Duration>,
}

impl Ticket {
    /// Since when it runs; `None` while it waits.
    pub fn begun(&self) -> Option<Duration> {
        self.begun
    }

    /// How many seats it takes.
    pub fn seats(&self) -> u32 {
        self.seats
    }
}

/// Requests whose turn has come: their tickets from now on, and what was left with them.
pub type Begun<W> = Vec<(Ticket, W)>;

/// Why a request cannot even wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There are no seats, and the level has no queues.
    #[error("there are no seats")]
    NoSeats,
    /// There are no seats, and too many wait already.
    #[error("the queue is full")]
    QueueFull,
    /// There is no such level any more: ask what there is now.
    #[error("there is no such level")]
    NoLevel,
}

/// Shares out seats. `W` is what is given back when the turn of a request has come that had to wait.
pub struct Dispatcher<W> {
    /// How many seats there are.
    total: u64,
    /// How many are taken.
    in_use: u64,
    /// How many are taken or kept for levels that do not lend them.
    committed: u64,
    waiting: usize,
    n_tickets: u64,
    n_levels: u32,
    levels: BTreeMap<LevelId, Level<W>>,
}

impl<W> Dispatcher<W> {
    /// A dispatcher of this many seats, and of no levels yet.
    pub fn new(total: u64) -> Self {
        Dispatcher {
            total: total.max(1),
            in_use: 0,
            committed: 0,
            waiting: 0,
            n_tickets: 0,
            n_levels: 0,
            levels: BTreeMap::new(),
        }
    }

    /// Has exactly these levels from now on. What runs or waits in others is still served, for which they keep their
    /// part. Gives those whose turn has come.
    pub fn configure(&mut self, levels: &[(&str, Shape)], now: Duration) -> Begun<W> {
        for level in self.levels.values_mut() {
            level.is_gone = true;
        }
        for (name, shape) in levels {
            match self.levels.values_mut().find(|level| level.name == *name) {
                Some(level) => {
                    level.is_gone = false;
                    level.shape = *shape;
                }
                None => {
                    let id = LevelId(self.n_levels);
                    self.n_levels += 1;
                    self.levels.insert(id, Level::new((*name).to_owned(), *shape));
                }
            }
        }
        self.share();
        self.dispatch(now)
    }

    /// Gives each level its part of the seats.
    fn share(&mut self) {
        self.levels.retain(|_, level| !level.is_gone || !level.is_idle());
        let all: u64 = self.levels.values().map(|level| u64::from(level.shape.shares)).sum();
        for level in self.levels.values_mut() {
            level.limit(limits(&level.shape, self.total, all));
        }
        self.committed = self.levels.values().map(|level| level.in_use.max(level.limits.reserved)).sum();
    }

    /// The level of this name.
    pub fn level(&self, name: &str) -> Option<LevelId> {
        let found = self.levels.iter().find(|(_, level)| level.name == name && !level.is_gone);
        found.map(|(id, _)| *id)
    }

    /// A request of a flow arrives and wants seats. It runs at once if its ticket says since when; otherwise `whom` is
    /// asked for what is to be given back when its turn has come. Gives those whose turn has come, too.
    pub fn arrive(
        &mut self,
        level: LevelId,
        flow: u64,
        seats: u32,
        now: Duration,
        whom: impl FnOnce() -> W,
    ) -> Result<(Ticket, Begun<W>), Refusal> {
        let is_alone = self.waiting == 0;
        let found = self.levels.get_mut(&level).filter(|level| !level.is_gone).ok_or(Refusal::NoLevel)?;
        let seats = seats.clamp(1, found.widest());
        let id = self.n_tickets;
        self.n_tickets += 1;
        let mut ticket = Ticket { id, level, flow, seats, begun: None };
        let sends_away = found.shape.queuing.queue_length_limit == 0;
        let needs = Needs::of(found, seats);
        let keeps_order = needs.shared == 0 || is_alone || (sends_away && needs.is_own);
        if found.waiting == 0 && keeps_order && needs.fit(self.total, self.in_use, self.committed) {
            found.begin(flow, seats, now);
            self.in_use += u64::from(seats);
            self.committed += needs.shared;
            ticket.begun = Some(now);
            return Ok((ticket, vec![]));
        }
        if sends_away {
            return Err(Refusal::NoSeats);
        }
        let queue = found.choose(flow).ok_or(Refusal::QueueFull)?;
        found.push(flow, Waiter { id, queue, seats, whom: whom() });
        self.waiting += 1;
        Ok((ticket, self.dispatch(now)))
    }

    /// A request that ran has ended. Gives those whose turn has come.
    pub fn end(&mut self, ticket: Ticket, now: Duration) -> Begun<W> {
        let Some(begun) = ticket.begun else { return self.give_up(ticket, now) };
        let Some(level) = self.levels.get_mut(&ticket.level) else { return vec![] };
        let before = level.in_use.max(level.limits.reserved);
        level.end(ticket.flow, ticket.seats, begun, now);
        self.committed -= before - level.in_use.max(level.limits.reserved);
        self.in_use -= u64::from(ticket.seats);
        self.tidy(ticket.level);
        self.dispatch(now)
    }

    /// A request gives up waiting. Gives those whose turn has come.
    pub fn give_up(&mut self, ticket: Ticket, now: Duration) -> Begun<W> {
        let Some(level) = self.levels.get_mut(&ticket.level) else { return vec![] };
        if !level.remove(ticket.flow, ticket.id) {
            return vec![];
        }
        self.waiting -= 1;
        self.tidy(ticket.level);
        self.dispatch(now)
    }

    /// How many seats are taken.
    pub fn in_use(&self) -> u64 {
        self.in_use
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Forgets a level that is gone once it has nothing to do.
    fn tidy(&mut self, id: LevelId) {
        if self.levels.get(&id).is_some_and(|level| level.is_gone && level.is_idle()) {
            self.share();
        }
    }

    /// Lets begin whoever can.
    fn dispatch(&mut self, now: Duration) -> Begun<W> {
        let mut begun = vec![];
        while self.waiting > 0 {
            let Some((id, next, needs)) = self.first(now) else { break };
            let Some(level) = self.levels.get_mut(&id) else { break };
            if !needs.fit(self.total, self.in_use, self.committed) {
                break;
            }
            let Some(waiter) = level.pop(next.flow) else { break };
            level.begin(next.flow, next.seats, now);
            self.waiting -= 1;
            self.in_use += u64::from(next.seats);
            self.committed += needs.shared;
            let ticket =
                Ticket { id: next.id, level: id, flow: next.flow, seats: next.seats, begun: Some(now) };
            begun.push((ticket, waiter.whom));
        }
        begun
    }

    /// The level whose turn it is: first those that need nothing of the pool, then those that use the smallest part of
    /// what is theirs, then those that borrow.
    fn first(&mut self, now: Duration) -> Option<(LevelId, Next, Needs)> {
        let mut first: Option<(Rank, LevelId, Next, Needs)> = None;
        for (id, level) in self.levels.iter_mut().filter(|(_, level)| level.waiting > 0) {
            let Some(next) = level.next(now) else { continue };
            let needs = Needs::of(level, next.seats);
            if !needs.is_allowed {
                continue;
            }
            let used = level.in_use as f64 / level.limits.nominal.max(1) as f64;
            let rank = Rank { shares: needs.shared > 0, borrows: !needs.is_own, used, id: next.id };
            if first.as_ref().is_none_or(|(best, ..)| rank.is_before(best)) {
                first = Some((rank, *id, next, needs));
            }
        }
        first.map(|(_, id, next, needs)| (id, next, needs))
    }

    #[cfg(test)]
    pub(super) fn usage(&self, name: &str) -> (u64, usize) {
        let level = self.levels.values().find(|level| level.name == name);
        level.map_or((0, 0), |level| (level.in_use, level.waiting))
    }

    /// How many flows and queues are remembered.
    #[cfg(test)]
    pub(super) fn kept(&self, name: &str) -> (usize, usize) {
        let level = self.levels.values().find(|level| level.name == name);
        level.map_or((0, 0), Level::kept)
    }

    #[cfg(test)]
    pub(super) fn limits(&self, name: &str) -> Limits {
        self.levels.values().find(|level| level.name == name).map(|level| level.limits).unwrap_or_default()
    }
}

/// What one request needs for a level to let it begin.
#[derive(Clone, Copy)]
struct Needs {
    seats: u64,
    /// Seats that have to stay free.
    spare: u64,
    /// Seats of the pool.
    shared: u64,
    /// Whether the level stays within what is its own.
    is_own: bool,
    /// Whether the level may use that many at all.
    is_allowed: bool,
}

impl Needs {
    fn of<W>(level: &Level<W>, seats: u32) -> Self {
        let Limits { nominal, reserved, most } = level.limits;
        let seats = u64::from(seats);
        let then = level.in_use + seats;
        let spare = u64::from(seats > 1);
        Needs {
            seats,
            spare,
            shared: then.max(reserved) - level.in_use.max(reserved),
            is_own: then <= nominal,
            is_allowed: then + spare <= most,
        }
    }

    fn fit(&self, total: u64, in_use: u64, committed: u64) -> bool {
        self.is_allowed
            && in_use + self.seats + self.spare <= total
            && (self.shared == 0 || committed + self.shared + self.spare <= total)
    }
}

/// Where a level stands among those that wait.
struct Rank {
    shares: bool,
    borrows: bool,
    used: f64,
    id: u64,
}

impl Rank {
    fn is_before(&self, other: &Self) -> bool {
        let key = |rank: &Self| (rank.shares, rank.borrows);
        key(self)
            .cmp(&key(other))
            .then_with(|| self.used.total_cmp(&other.used))
            .then_with(|| self.id.cmp(&other.id))
            .is_lt()
    }
}

/// What a level may use of `total` seats, when all levels together have `all` shares.
fn limits(shape: &Shape, total: u64, all: u64) -> Limits {
    let (total, all) = (u128::from(total), u128::from(all.max(1)));
    let share = total * u128::from(shape.shares);
    let lendable = u128::from(shape.lendable_percent.min(100));
    let nominal = share.div_ceil(all);
    let most = match shape.borrowing_percent {
        Some(percent) => nominal + (nominal * u128::from(percent)).div_ceil(100),
        None => total,
    };
    let small = |seats: u128| u64::try_from(seats.min(total)).unwrap_or(u64::MAX);
    // Rounded down, so that all levels together never keep more than there is.
    Limits {
        nominal: small(nominal),
        reserved: small(share / all * (100 - lendable) / 100),
        most: small(most),
    }
}
