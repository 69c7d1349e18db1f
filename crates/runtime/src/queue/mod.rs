//! A queue of keys for workers.
//!
//! The rules are those that client-go's users know. A key that is added twice before a worker takes it is handed out once.
//! A key that is added while a worker has it is handed out again afterwards, so no two workers have one key at a time.
//! Keys come out in the order they went in. Of several times at which a key is to come later, the earliest counts. A key
//! that fails waits for 5 ms, then twice as long each time, up to 1000 s, and all that fail share a bucket.
//!
//! Where those rules are known to hurt, ours differ. A key that is tried again early, because something else happened to
//! it, and fails again is not counted twice. And keys can have priorities, each level of which is worth a head start of
//! some seconds ([`Limits::ageing`]): who waits for longer than that comes first, so nothing waits for ever.
//!
//! Time is tokio's, which tests can stop and turn.

mod state;
#[cfg(test)]
mod tests;

use std::{fmt, hash::Hash, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use self::state::{FOR_EVER, State};
use crate::metrics::QueueMetrics;

/// What a queue holds.
pub trait QueueKey: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static> QueueKey for T {}

/// How important a key is. What happens now is 0; what was there before a controller began is less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// Of what was there when the controller began, and of what is looked at again only because time has passed.
    pub const BACKGROUND: Priority = Priority(-1);
}

/// How long keys wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// After the first failure; twice as long after each further one.
    pub base: Duration,
    /// At most.
    pub most: Duration,
    /// How many failures a second are let through, once the burst is used up; 0 is no limit.
    pub per_second: f64,
    /// How many are let through at once.
    pub burst: u32,
    /// What one level of priority is worth.
    pub ageing: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            base: Duration::from_millis(5),
            most: Duration::from_secs(1000),
            per_second: 10.0,
            burst: 100,
            ageing: Duration::from_secs(10),
        }
    }
}

/// A queue. Clones are the same queue.
pub struct Queue<K>(Arc<Shared<K>>);

struct Shared<K> {
    /// Held for short, and never while waiting.
    state: Mutex<State<K>>,
    /// Told when a key is ready, or will be sooner than was thought.
    ready: Notify,
    /// Told when the last worker of a queue that is shut is done.
    drained: Notify,
    metrics: QueueMetrics,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<K: QueueKey> Queue<K> {
    /// An empty queue.
    pub fn new(limits: Limits, metrics: QueueMetrics) -> Self {
        Queue(Arc::new(Shared {
            state: Mutex::new(State::new(limits, Instant::now())),
            ready: Notify::new(),
            drained: Notify::new(),
            metrics,
        }))
    }

    /// There is something to do for a key.
    pub fn add(&self, key: K) {
        self.add_with(key, Priority::default());
    }

    /// The same, with a priority.
    pub fn add_with(&self, key: K, priority: Priority) {
        let (mut state, now) = (self.0.state.lock(), Instant::now());
        self.wake(&mut state, now);
        let is_new = state.add(key, priority, now);
        self.0.metrics.added(usize::from(is_new));
        self.0.metrics.depth(state.n_ready());
        drop(state);
        self.0.ready.notify_one();
    }

    /// There will be something to do for a key. If it is to come earlier already, that stays.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_after_with(key, delay, Priority::default());
    }

    /// The same, with a priority.
    pub fn add_after_with(&self, key: K, delay: Duration, priority: Priority) {
        let now = Instant::now();
        let at = now + delay.min(FOR_EVER);
        let is_new = self.0.state.lock().add_at(key, at, priority, now);
        self.0.metrics.added(usize::from(is_new));
        self.0.ready.notify_one();
    }

    /// A key has failed: it comes again when it has waited long enough, with the priority it had.
    pub fn add_failed(&self, key: K) {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        let (priority, at) = (state.priority_in_hand(&key), state.fail(&key, now));
        let is_new = state.add_at(key, at, priority, now);
        drop(state);
        self.0.metrics.added(usize::from(is_new));
        self.0.metrics.retried();
        self.0.ready.notify_one();
    }

    /// Forgets that a key has failed.
    pub fn forget(&self, key: &K) {
        self.0.state.lock().forget(key);
    }

    /// How often a key has failed since it was last forgotten.
    pub fn failures(&self, key: &K) -> u32 {
        self.0.state.lock().failures(key)
    }

    /// Waits for a key; `None` once the queue is shut and empty.
    pub async fn take(&self) -> Option<Work<K>> {
        loop {
            // From here on nothing that is told is missed.
            let ready = self.0.ready.notified();
            let next = {
                let mut state = self.0.state.lock();
                let now = Instant::now();
                let next = self.wake(&mut state, now);
                if let Some((key, waited)) = state.take(now) {
                    self.0.metrics.taken(waited);
                    self.0.metrics.depth(state.n_ready());
                    if state.n_ready() > 0 || next.is_some() {
                        self.0.ready.notify_one();
                    }
                    return Some(Work { queue: self.clone(), key });
                }
                if state.is_shut {
                    self.0.ready.notify_one();
                    return None;
                }
                next
            };
            match next {
                None => ready.await,
                Some(at) => {
                    let mut watch = Watch { ready: &self.0.ready, is_kept: true };
                    tokio::select! {
                        () = ready => {}
                        () = sleep_until(at) => {}
                    }
                    watch.is_kept = false;
                }
            }
        }
    }

    /// Makes those ready whose time has come, and counts them; when the next one's comes.
    fn wake(&self, state: &mut State<K>, now: Instant) -> Option<Instant> {
        let (n_new, next) = state.wake(now);
        self.0.metrics.added(n_new);
        next
    }

    /// Takes no more keys. What is ready is still handed out.
    pub fn shut(&self) {
        let mut state = self.0.state.lock();
        state.shut();
        if state.is_drained() {
            self.0.drained.notify_waiters();
        }
        drop(state);
        self.0.ready.notify_one();
    }

    /// Takes no more keys, and waits until workers are done with those that it has.
    pub async fn drain(&self) {
        self.shut();
        loop {
            let drained = self.0.drained.notified();
            if self.0.state.lock().is_drained() {
                return;
            }
            drained.await;
        }
    }

    /// How many keys are ready.
    pub fn len(&self) -> usize {
        let mut state = self.0.state.lock();
        // All workers may be busy, and none looks at the clock.
        self.wake(&mut state, Instant::now());
        state.n_ready()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys workers have.
    pub fn in_hand(&self) -> usize {
        self.0.state.lock().n_in_hand()
    }

    /// Forgets everything that waits. Workers keep what they have.
    pub fn clear(&self) {
        let mut state = self.0.state.lock();
        state.clear();
        self.0.metrics.depth(state.n_ready());
        if state.is_shut && state.is_drained() {
            self.0.drained.notify_waiters();
        }
    }

    /// Takes no more keys, and forgets everything that waits.
    pub fn close(&self) {
        self.shut();
        self.clear();
        // Nobody measures it any more.
        self.0.metrics.unfinished(Duration::ZERO, Duration::ZERO);
    }

    /// How many keys have failed and not gone well since.
    pub fn n_failing(&self) -> usize {
        self.0.state.lock().n_failing()
    }

    /// For how long a worker has had what it has, of the one that has had it longest.
    pub fn longest_in_hand(&self) -> Duration {
        self.0.state.lock().unfinished(Instant::now()).1
    }

    /// Tells the metrics how many keys are ready, and for how long workers have had what they have.
    pub fn measure(&self) {
        self.0.metrics.depth(self.len());
        let (sum, longest) = self.0.state.lock().unfinished(Instant::now());
        self.0.metrics.unfinished(sum, longest);
    }
}

/// Held by the worker that watches the clock. If it goes away meanwhile, another one has to.
struct Watch<'a> {
    ready: &'a Notify,
    is_kept: bool,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            self.ready.notify_one();
        }
    }
}

/// A key that a worker has. When it is dropped, the worker is done with it, whatever happened.
pub struct Work<K: QueueKey> {
    queue: Queue<K>,
    key: K,
}

impl<K: QueueKey> Work<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K: QueueKey> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.key).finish()
    }
}

impl<K: QueueKey> Drop for Work<K> {
    fn drop(&mut self) {
        let shared = &self.queue.0;
        let (mut state, now) = (shared.state.lock(), Instant::now());
        self.queue.wake(&mut state, now);
        let took = state.done(&self.key, now);
        let has_ready = state.n_ready() > 0;
        shared.metrics.done(took);
        shared.metrics.depth(state.n_ready());
        if state.is_shut && state.is_drained() {
            shared.drained.notify_waiters();
        }
        drop(state);
        if has_ready {
            shared.ready.notify_one();
        }
    }
}
