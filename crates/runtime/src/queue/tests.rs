//! The rules of the queue, in virtual time, against a simple model, and under every order of steps.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::atomic::{AtomicUsize, Ordering},
};

use prometheus_client::{encoding::text::encode, registry::Registry};

use super::*;
use crate::metrics::Metrics;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Without the bucket, which most tests would run into.
fn queue() -> Queue<u32> {
    Queue::new(Limits { per_second: 0.0, ..Limits::default() }, QueueMetrics::default())
}

/// What is there at once.
async fn ready(queue: &Queue<u32>) -> Option<Work<u32>> {
    tokio::time::timeout(Duration::ZERO, queue.take()).await.ok().flatten()
}

async fn keys(queue: &Queue<u32>) -> Vec<u32> {
    let mut keys = vec![];
    while let Some(work) = ready(queue).await {
        keys.push(*work.key());
    }
    keys
}

#[tokio::test(start_paused = true)]
async fn keys_come_out_once_in_the_order_they_went_in() {
    let queue = queue();
    for key in [3, 1, 2, 1, 3, 3] {
        queue.add(key);
    }
    assert_eq!(queue.len(), 3);
    assert_eq!(keys(&queue).await, [3, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_while_a_worker_has_it_comes_again_when_the_worker_is_done() {
    let queue = queue();
    queue.add(1);
    let work = queue.take().await.expect("a key");
    queue.add(1);
    queue.add(1);
    assert!(ready(&queue).await.is_none(), "nobody else gets it meanwhile");
    drop(work);
    assert_eq!(keys(&queue).await, [1], "once");
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_until_there_is_something_to_do() {
    let queue = queue();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await.map(|work| *work.key()) }
    });
    tokio::time::sleep(millis(100)).await;
    assert!(!waiting.is_finished());
    queue.add(7);
    assert_eq!(waiting.await.expect("no panic"), Some(7));
}

#[tokio::test(start_paused = true)]
async fn of_several_times_the_earliest_counts() {
    let (queue, begun) = (queue(), Instant::now());
    queue.add_after(1, millis(100));
    queue.add_after(1, millis(50));
    queue.add_after(1, millis(200));
    drop(queue.take().await.expect("a key"));
    assert_eq!(begun.elapsed(), millis(50));
    let late = tokio::time::timeout(Duration::from_secs(1), queue.take()).await;
    assert!(late.is_err(), "it comes once");
}

#[tokio::test(start_paused = true)]
async fn what_happens_now_does_not_undo_what_is_to_come_later() {
    let queue = queue();
    queue.add_after(1, millis(100));
    queue.add(1);
    assert_eq!(keys(&queue).await, [1]);
    let begun = Instant::now();
    drop(queue.take().await.expect("again"));
    assert_eq!(begun.elapsed(), millis(100));
}

#[tokio::test(start_paused = true)]
async fn the_clock_is_watched_even_when_whoever_watched_it_goes_away() {
    let queue = queue();
    queue.add_after(1, millis(100));
    let gone = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await.map(|work| *work.key()) }
    });
    tokio::task::yield_now().await;
    let stays = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await.map(|work| *work.key()) }
    });
    tokio::task::yield_now().await;
    gone.abort();
    let taken = tokio::time::timeout(Duration::from_secs(1), stays).await;
    assert_eq!(taken.expect("in time").expect("no panic"), Some(1));
}

#[tokio::test(start_paused = true)]
async fn failures_wait_twice_as_long_each_time_up_to_a_limit_until_they_are_forgotten() {
    let queue = queue();
    let mut waits = vec![];
    queue.add(1);
    for _ in 0..20 {
        let work = queue.take().await.expect("a key");
        let begun = Instant::now();
        queue.add_failed(1);
        drop(work);
        drop(queue.take().await.expect("again"));
        waits.push(begun.elapsed());
        queue.add(1);
    }
    assert_eq!(waits[..4], [millis(5), millis(10), millis(20), millis(40)]);
    assert_eq!(waits[17], Duration::from_millis(655_360), "the 18th");
    assert_eq!(waits[18..], [Duration::from_secs(1000); 2]);
    queue.forget(&1);
    assert_eq!(queue.failures(&1), 0);
    let begun = Instant::now();
    drop(queue.take().await);
    queue.add_failed(1);
    drop(queue.take().await);
    assert_eq!(begun.elapsed(), millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_failure_before_its_time_is_not_counted_again() {
    let queue = queue();
    queue.add_failed(1);
    queue.add_failed(1);
    queue.add_failed(1);
    assert_eq!(queue.failures(&1), 1, "nothing has been waited for in between");
    let begun = Instant::now();
    drop(queue.take().await.expect("a key"));
    assert_eq!(begun.elapsed(), millis(5));
    queue.add_failed(1);
    assert_eq!(queue.failures(&1), 2);
}

#[tokio::test(start_paused = true)]
async fn all_that_fail_share_a_bucket() {
    let limits = Limits { per_second: 10.0, burst: 3, ..Limits::default() };
    let queue = Queue::new(limits, QueueMetrics::default());
    let begun = Instant::now();
    for key in 0..6 {
        queue.add_failed(key);
    }
    let mut times = vec![];
    for _ in 0..6 {
        drop(queue.take().await.expect("a key"));
        times.push(begun.elapsed());
    }
    assert_eq!(times, [millis(5), millis(5), millis(5), millis(100), millis(200), millis(300)]);
}

#[tokio::test(start_paused = true)]
async fn who_is_more_important_comes_first_unless_others_have_waited_for_long() {
    let queue = queue();
    queue.add_with(1, Priority::BACKGROUND);
    queue.add_with(2, Priority::BACKGROUND);
    queue.add(3);
    queue.add_with(4, Priority(1));
    queue.add_with(2, Priority(1));
    assert_eq!(keys(&queue).await, [2, 4, 3, 1], "2 came before 4, and became as important");
    queue.add_with(1, Priority::BACKGROUND);
    tokio::time::advance(Duration::from_secs(11)).await;
    queue.add(2);
    assert_eq!(keys(&queue).await, [1, 2]);
}

/// Something important is always there, and what is not comes to its turn.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let queue = queue();
    queue.add_with(0, Priority::BACKGROUND);
    let begun = Instant::now();
    for key in 1.. {
        queue.add(key);
        let work = queue.take().await.expect("a key");
        if *work.key() == 0 {
            break;
        }
        tokio::time::advance(millis(100)).await;
        assert!(begun.elapsed() < Duration::from_secs(20), "it starves");
    }
    assert!(begun.elapsed() >= Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_shut_gives_what_it_has_and_takes_no_more() {
    let queue = queue();
    queue.add(1);
    queue.add_after(2, millis(10));
    queue.shut();
    queue.add(3);
    assert_eq!(keys(&queue).await, [1]);
    assert!(queue.take().await.is_none() && queue.take().await.is_none(), "everyone is told");
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_workers() {
    let queue = queue();
    queue.add(1);
    queue.add(2);
    let work = queue.take().await.expect("a key");
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    tokio::task::yield_now().await;
    assert!(!drained.is_finished());
    drop(work);
    tokio::task::yield_now().await;
    assert!(!drained.is_finished(), "there is another one");
    drop(queue.take().await.expect("it is still given out"));
    drained.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn what_is_due_stands_in_line_although_no_worker_looks() {
    let metrics = Metrics::default();
    let queue = Queue::new(Limits::default(), metrics.queue("q"));
    queue.add_after(1, millis(1000));
    tokio::time::advance(millis(2000)).await;
    assert_eq!(queue.len(), 1);
    queue.add_after(2, millis(1000));
    tokio::time::advance(millis(2000)).await;
    queue.add(3);
    let (mut registry, mut text) = (Registry::default(), String::new());
    metrics.register(&mut registry);
    encode(&mut text, &registry).expect("text");
    assert!(text.contains("workqueue_adds_total{name=\"q\",controller=\"q\"} 3"), "{text}");
    for key in [1, 2, 3] {
        assert_eq!(ready(&queue).await.map(|work| *work.key()), Some(key), "who was due first comes first");
    }
}

#[test]
fn who_is_due_has_waited_since_then_whenever_a_worker_looks() {
    let now = Instant::now();
    let mut state = State::new(Limits::default(), now);
    state.add_at(1, now + millis(1000), Priority::default(), now);
    assert_eq!(state.wake(now + millis(3000)), (1, None));
    assert_eq!(state.take(now + millis(3000)), Some((1, millis(2000))));
}

#[tokio::test(start_paused = true)]
async fn odd_limits_are_no_reason_to_panic() {
    for per_second in [f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 1e-300, 1e-12, -1.0] {
        for burst in [0, 1, u32::MAX] {
            let queue =
                Queue::new(Limits { per_second, burst, ..Limits::default() }, QueueMetrics::default());
            for _ in 0..5 {
                queue.add_failed(1);
            }
            assert_eq!(queue.failures(&1), 1);
        }
    }
}

/// What the queue should do, as simply as it can be said.
#[derive(Default)]
struct Model {
    /// Ready, the first one first.
    ready: Vec<u32>,
    in_hand: HashSet<u32>,
    again: BTreeSet<u32>,
    later: HashMap<u32, Instant>,
}

impl Model {
    fn add(&mut self, key: u32) {
        match self.in_hand.contains(&key) {
            true => drop(self.again.insert(key)),
            false if !self.ready.contains(&key) => self.ready.push(key),
            false => {}
        }
    }

    fn pass(&mut self, now: Instant) {
        let mut due: Vec<(Instant, u32)> =
            self.later.iter().filter(|(_, at)| **at <= now).map(|(key, at)| (*at, *key)).collect();
        due.sort_unstable();
        for (_, key) in due {
            self.later.remove(&key);
            self.add(key);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn random_steps_agree_with_the_model() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (queue, mut model, mut works) = (queue(), Model::default(), vec![]);
        for step in 0..400 {
            let (key, now) = (random.u32(..8), Instant::now());
            match random.u8(..10) {
                0..3 => {
                    model.pass(now);
                    queue.add(key);
                    model.add(key);
                }
                3..5 => {
                    // No two at one time: which comes first would be left to chance.
                    let delay = Duration::from_micros(random.u64(1..50) * 1000 + step + 1);
                    queue.add_after(key, delay);
                    let at = now + delay;
                    model.later.entry(key).and_modify(|known| *known = at.min(*known)).or_insert(at);
                }
                5..7 => tokio::time::advance(millis(random.u64(..10))).await,
                7..9 => {
                    model.pass(Instant::now());
                    let expected = if model.ready.is_empty() { None } else { Some(model.ready.remove(0)) };
                    let work = ready(&queue).await;
                    assert_eq!(work.as_ref().map(|work| *work.key()), expected, "seed {seed} step {step}");
                    model.in_hand.extend(expected);
                    works.extend(work);
                }
                _ if works.is_empty() => {}
                _ => {
                    model.pass(Instant::now());
                    let work = works.swap_remove(random.usize(..works.len()));
                    let key = *work.key();
                    drop(work);
                    model.in_hand.remove(&key);
                    if model.again.remove(&key) {
                        model.add(key);
                    }
                }
            }
            queue.0.state.lock().check();
        }
    }
}

/// What one of two workers, or whoever adds keys, does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u32),
    Take(usize),
    Done(usize),
}

/// Every operation holds the lock of the state from its beginning to its end, so any way in which threads can meet is an
/// order of steps. All orders of seven steps of two workers and two keys are tried.
#[test]
fn every_order_of_steps_keeps_the_rules() {
    const STEPS: [Step; 6] =
        [Step::Add(0), Step::Add(1), Step::Take(0), Step::Take(1), Step::Done(0), Step::Done(1)];
    let now = Instant::now();
    for order in 0..6_usize.pow(7) {
        let mut state = State::new(Limits::default(), now);
        let mut hands: [Option<u32>; 2] = [None, None];
        let mut owed: BTreeSet<u32> = BTreeSet::new();
        let mut rest = order;
        for _ in 0..7 {
            let step = STEPS[rest % 6];
            rest /= 6;
            match step {
                Step::Add(key) => {
                    state.add(key, Priority::default(), now);
                    owed.insert(key);
                }
                Step::Take(worker) if hands[worker].is_none() => {
                    if let Some((key, _)) = state.take(now) {
                        assert_ne!(hands[1 - worker], Some(key), "two workers have one key");
                        assert!(owed.remove(&key), "nobody has asked for it");
                        hands[worker] = Some(key);
                    } else {
                        assert!(owed.iter().all(|key| hands.contains(&Some(*key))), "it is lost");
                    }
                }
                Step::Done(worker) => {
                    if let Some(key) = hands[worker].take() {
                        state.done(&key, now);
                    }
                }
                Step::Take(_) => {}
            }
        }
        for key in hands.iter_mut().filter_map(Option::take) {
            state.done(&key, now);
        }
        while let Some((key, _)) = state.take(now) {
            assert!(owed.remove(&key), "nobody has asked for it");
            state.done(&key, now);
        }
        assert!(owed.is_empty() && state.is_drained(), "something was lost");
    }
}

/// Threads that meet as they like: no key is ever in two hands, and what was added last is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_that_meet_keep_the_rules() {
    const KEYS: u32 = 16;
    let queue = queue();
    let wanted: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let held: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (queue, wanted, seen, held) =
            (queue.clone(), Arc::clone(&wanted), Arc::clone(&seen), Arc::clone(&held));
        workers.spawn(async move {
            while let Some(work) = queue.take().await {
                let key = *work.key() as usize;
                assert_eq!(held[key].fetch_add(1, Ordering::SeqCst), 0, "two workers have it");
                let version = wanted[key].load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                seen[key].fetch_max(version, Ordering::SeqCst);
                held[key].fetch_sub(1, Ordering::SeqCst);
            }
        });
    }
    let mut adders = tokio::task::JoinSet::new();
    for seed in 0..4 {
        let (queue, wanted) = (queue.clone(), Arc::clone(&wanted));
        adders.spawn(async move {
            let mut random = fastrand::Rng::with_seed(seed);
            for step in 0..5000 {
                let key = random.u32(..KEYS);
                wanted[key as usize].fetch_add(1, Ordering::SeqCst);
                match step % 5 {
                    0 => queue.add_after(key, Duration::from_micros(random.u64(..200))),
                    _ => queue.add(key),
                }
                if step % 16 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    while adders.join_next().await.is_some_and(|done| done.is_ok()) {}
    for key in 0..KEYS {
        queue.add(key);
    }
    queue.drain().await;
    while let Some(done) = workers.join_next().await {
        done.expect("no worker panics");
    }
    for key in 0..KEYS as usize {
        assert_eq!(seen[key].load(Ordering::SeqCst), wanted[key].load(Ordering::SeqCst), "key {key}");
    }
}
