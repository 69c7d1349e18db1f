//! What a queue knows, without waiting: every step takes the time as an argument and holds no lock.
//!
//! A key is *dirty* when there is something to do for it, and *in hand* while a worker has it. Both can be: then it is
//! handed out once more when the worker is done, and never to two at a time.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

use super::{Limits, Priority};

/// Some years are as good as for ever, and can be added to any time.
pub(super) const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Where a key stands among those that are ready: the time it would have come at without its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// In nanoseconds since the queue began.
    rank: i128,
    /// Who was there first comes first where two are of one rank.
    seq: u64,
}

/// A key that is to be handed out.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    priority: Priority,
    since: Instant,
    /// `None` while a worker has it.
    place: Option<Place>,
}

/// A key that is to become dirty later.
#[derive(Clone, Copy, Debug)]
struct Later {
    /// Where it stands among them: its time, and a number.
    alarm: (Instant, u64),
    priority: Priority,
}

/// How often a key has failed, and until when that is waited for.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    until: Instant,
}

/// A key that was handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct InHand {
    pub(super) since: Instant,
    pub(super) priority: Priority,
}

/// The state of a queue.
#[derive(Debug)]
pub(super) struct State<K> {
    limits: Limits,
    begun: Instant,
    n_ready: u64,
    dirty: HashMap<K, Dirty>,
    ready: BTreeMap<Place, K>,
    in_hand: HashMap<K, InHand>,
    later: HashMap<K, Later>,
    /// The same, the earliest first.
    alarms: BTreeMap<(Instant, u64), K>,
    n_alarms: u64,
    failures: HashMap<K, Failures>,
    /// When the bucket would be full, had nothing been taken: in the future by what was.
    bucket: Instant,
    pub(super) is_shut: bool,
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn new(limits: Limits, now: Instant) -> Self {
        State {
            limits,
            begun: now,
            n_ready: 0,
            dirty: HashMap::new(),
            ready: BTreeMap::new(),
            in_hand: HashMap::new(),
            later: HashMap::new(),
            alarms: BTreeMap::new(),
            n_alarms: 0,
            failures: HashMap::new(),
            bucket: now,
            is_shut: false,
        }
    }

    /// There is something to do for a key. True if it was not known yet.
    pub(super) fn add(&mut self, key: K, priority: Priority, now: Instant) -> bool {
        if self.is_shut {
            return false;
        }
        let is_in_hand = self.in_hand.contains_key(&key);
        match self.dirty.entry(key.clone()) {
            Entry::Occupied(mut known) if priority > known.get().priority => {
                let dirty = known.get_mut();
                dirty.priority = priority;
                if let Some(place) = dirty.place {
                    let better = Place { rank: rank(self.begun, &self.limits, dirty), ..place };
                    dirty.place = Some(better);
                    self.ready.remove(&place);
                    self.ready.insert(better, key);
                }
                false
            }
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                let mut dirty = Dirty { priority, since: now, place: None };
                if !is_in_hand {
                    let place = Place { rank: rank(self.begun, &self.limits, &dirty), seq: self.n_ready };
                    self.n_ready += 1;
                    dirty.place = Some(place);
                    self.ready.insert(place, key);
                }
                vacant.insert(dirty);
                true
            }
        }
    }

    /// There will be something to do for a key. The earliest time counts, and the highest priority. True if there is
    /// already, and there was not before.
    pub(super) fn add_at(&mut self, key: K, at: Instant, priority: Priority, now: Instant) -> bool {
        if self.is_shut {
            return false;
        }
        if at <= now {
            return self.add(key, priority, now);
        }
        let alarm = (at, self.n_alarms);
        match self.later.entry(key.clone()) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.priority = known.priority.max(priority);
                if at >= known.alarm.0 {
                    return false;
                }
                self.alarms.remove(&known.alarm);
                known.alarm = alarm;
            }
            Entry::Vacant(vacant) => {
                vacant.insert(Later { alarm, priority });
            }
        }
        self.n_alarms += 1;
        self.alarms.insert(alarm, key);
        false
    }

    /// Makes those dirty whose time has come, as of that time: nobody may have looked since. How many were not before, and
    /// when the next one's comes.
    pub(super) fn wake(&mut self, now: Instant) -> (usize, Option<Instant>) {
        let mut n_new = 0;
        while let Some(first) = self.alarms.first_entry() {
            let at = first.key().0;
            if at > now {
                return (n_new, Some(at));
            }
            let key = first.remove();
            if let Some(later) = self.later.remove(&key) {
                n_new += usize::from(self.add(key, later.priority, at));
            }
        }
        (n_new, None)
    }

    /// Hands out the key whose turn it is, and says for how long it has waited.
    pub(super) fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        let (_, key) = self.ready.pop_first()?;
        let dirty = self.dirty.remove(&key);
        let (priority, since) =
            dirty.map_or((Priority::default(), now), |dirty| (dirty.priority, dirty.since));
        self.in_hand.insert(key.clone(), InHand { since: now, priority });
        Some((key, now.saturating_duration_since(since)))
    }

    /// A worker is done with a key, which is to be handed out again if it is dirty; for how long it had it.
    pub(super) fn done(&mut self, key: &K, now: Instant) -> Duration {
        let Some(InHand { since, .. }) = self.in_hand.remove(key) else { return Duration::ZERO };
        if let Some(dirty) = self.dirty.get_mut(key) {
            // It stands in line from now on, as it could not before.
            dirty.since = now;
            let place = Place { rank: rank(self.begun, &self.limits, dirty), seq: self.n_ready };
            self.n_ready += 1;
            dirty.place = Some(place);
            self.ready.insert(place, key.clone());
        }
        now.saturating_duration_since(since)
    }

    /// When a key that has failed may be tried again. Failing again before that time is not counted: it was tried because
    /// of something else, and what it waits for has not passed.
    pub(super) fn fail(&mut self, key: &K, now: Instant) -> Instant {
        let Limits { base, most, .. } = self.limits;
        let failures = self.failures.entry(key.clone()).or_insert(Failures { count: 0, until: now });
        if now >= failures.until {
            let delay = base.saturating_mul(1_u32.checked_shl(failures.count).unwrap_or(u32::MAX)).min(most);
            *failures = Failures { count: failures.count.saturating_add(1), until: now + delay };
        }
        failures.until.max(self.draw(now))
    }

    /// Takes one from the bucket; when it may be used.
    fn draw(&mut self, now: Instant) -> Instant {
        let Limits { per_second, burst, .. } = self.limits;
        // Neither is what is no number a limit.
        if per_second.is_nan() || per_second <= 0.0 {
            return now;
        }
        let one = Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(Duration::MAX).min(FOR_EVER);
        let full = self.bucket.max(now);
        self.bucket = (full + one).min(now + FOR_EVER);
        let ahead = one.saturating_mul(burst);
        self.bucket.checked_sub(ahead).unwrap_or(now).max(now)
    }

    /// Forgets that a key has failed.
    pub(super) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    pub(super) fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).map_or(0, |failures| failures.count)
    }

    /// The priority with which a key was handed out.
    pub(super) fn priority_in_hand(&self, key: &K) -> Priority {
        self.in_hand.get(key).map(|in_hand| in_hand.priority).unwrap_or_default()
    }

    /// Takes no more keys. What is ready is still handed out; what was to come later is not.
    pub(super) fn shut(&mut self) {
        self.is_shut = true;
        self.later.clear();
        self.alarms.clear();
    }

    /// Forgets everything that waits.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.dirty.clear();
        self.later.clear();
        self.alarms.clear();
    }

    pub(super) fn n_failing(&self) -> usize {
        self.failures.len()
    }

    pub(super) fn n_ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn n_in_hand(&self) -> usize {
        self.in_hand.len()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.ready.is_empty() && self.in_hand.is_empty()
    }

    /// For how long workers have had what they have: all of them together, and the one that has it longest.
    pub(super) fn unfinished(&self, now: Instant) -> (Duration, Duration) {
        let times = self.in_hand.values().map(|in_hand| now.saturating_duration_since(in_hand.since));
        times.fold((Duration::ZERO, Duration::ZERO), |(sum, longest), time| (sum + time, longest.max(time)))
    }

    /// Whether the parts agree with each other.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let placed: std::collections::HashSet<&K> = self.ready.values().collect();
        assert_eq!(placed.len(), self.ready.len(), "no key stands in two places");
        for (key, dirty) in &self.dirty {
            assert_eq!(dirty.place.is_none(), self.in_hand.contains_key(key), "ready unless in hand");
            assert!(dirty.place.is_none_or(|place| self.ready.get(&place) == Some(key)));
        }
        assert!(placed.iter().all(|key| self.dirty.contains_key(*key)), "what is ready is dirty");
        assert_eq!(self.alarms.len(), self.later.len(), "one alarm for each");
    }
}

/// The time at which a key would have come without its priority: a level of it is worth some waiting. So whoever waits
/// for long enough comes before whoever is more important, and nothing has to be worked out again while it waits.
fn rank(begun: Instant, limits: &Limits, dirty: &Dirty) -> i128 {
    let came = dirty.since.saturating_duration_since(begun).as_nanos();
    let head_start = i128::from(dirty.priority.0) * limits.ageing.as_nanos().min(1 << 60) as i128;
    came.min(1 << 100) as i128 - head_start
}
