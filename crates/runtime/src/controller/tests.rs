//! Controllers on informers that a test feeds, in virtual time.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::{task::JoinHandle, time::Instant};

use super::*;
use crate::testing::{Feed, eventually, key, map, within};

/// What a reconciler was asked to look after.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, text: impl ToString) {
        self.0.lock().push(text.to_string());
    }

    /// Everything since the last time this was asked, in order of the alphabet.
    fn take(&self) -> Vec<String> {
        let mut all = std::mem::take(&mut *self.0.lock());
        all.sort();
        all
    }

    /// The same, when nothing more comes.
    async fn settled(&self) -> Vec<String> {
        sleep(Duration::from_millis(50)).await;
        self.take()
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// Writes down what it is asked for.
fn writes(log: &Log) -> impl Reconciler {
    let log = log.clone();
    move |key: Key| {
        log.push(key);
        async { Ok(Action::Done) }
    }
}

/// A controller that runs, until it is stopped.
struct Running {
    controller: Arc<Controller>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn run(controller: Controller) -> Running {
    let (controller, stop) = (Arc::new(controller), CancellationToken::new());
    let task = tokio::spawn({
        let (controller, stop) = (Arc::clone(&controller), stop.clone());
        async move { controller.run(stop).await }
    });
    Running { controller, stop, task }
}

fn controller(reconciler: impl Reconciler) -> Controller {
    Controller::new("test", reconciler, &Metrics::default())
}

fn owned(name: &str, revision: u64, owner: &str) -> ConfigMap {
    let mut object = map(name, revision);
    object.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "Owner".to_owned(),
        name: owner.to_owned(),
        uid: owner.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    object
}

fn labelled(name: &str, revision: u64, label: &str) -> ConfigMap {
    let mut object = map(name, revision);
    object.metadata.labels = Some(BTreeMap::from([("for".to_owned(), label.to_owned())]));
    object
}

#[derive(Debug, thiserror::Error)]
#[error("it does not work")]
struct Broken;

fn shown(metrics: &Metrics) -> String {
    let (mut registry, mut text) = (Registry::default(), String::new());
    metrics.register(&mut registry);
    encode(&mut text, &registry).expect("text");
    text
}

#[tokio::test(start_paused = true)]
async fn keys_come_from_objects_their_owners_and_mappers() {
    let ((own, own_feed), (children, child_feed), (others, other_feed)) =
        (Feed::new(), Feed::new(), Feed::new());
    let log = Log::default();
    let running = run(controller(writes(&log))
        .reconciles(&own)
        .owns(&children, "apps", "Owner")
        .watches(&others, |object: &ConfigMap| vec![key(&format!("for-{}", Key::of(object).name()))]));
    own_feed.list([map("a", 1), map("b", 2)]);
    child_feed.list([]);
    assert!(log.settled().await.is_empty(), "not before every cache has seen everything");
    other_feed.list([]);
    assert_eq!(log.settled().await, ["default/a", "default/b"]);
    child_feed.apply(owned("child", 3, "a"));
    other_feed.apply(map("c", 4));
    child_feed.apply(map("of-nobody", 5));
    let mut of_another_kind = owned("other", 6, "b");
    of_another_kind.metadata.owner_references.iter_mut().flatten().for_each(|owner| owner.kind.push('s'));
    child_feed.apply(of_another_kind);
    let mut not_its_controller = owned("other", 7, "b");
    not_its_controller
        .metadata
        .owner_references
        .iter_mut()
        .flatten()
        .for_each(|owner| owner.controller = None);
    child_feed.apply(not_its_controller);
    assert_eq!(log.settled().await, ["default/a", "default/for-c"]);
    running.controller.queue().add(key("from-elsewhere"));
    assert_eq!(log.settled().await, ["default/from-elsewhere"]);
}

#[tokio::test(start_paused = true)]
async fn who_loses_an_object_to_another_is_looked_after_too() {
    let ((children, feed), log) = (Feed::new(), Log::default());
    let _running = run(controller(writes(&log)).owns(&children, "apps", "Owner"));
    feed.list([owned("child", 1, "first")]);
    assert_eq!(log.settled().await, ["default/first"]);
    feed.apply(owned("child", 2, "second"));
    assert_eq!(log.settled().await, ["default/first", "default/second"]);
    feed.delete(owned("child", 3, "second"));
    assert_eq!(log.settled().await, ["default/second"]);
}

#[tokio::test(start_paused = true)]
async fn predicates_say_what_is_worth_a_look_and_never_swallow_a_deletion() {
    let (own, feed) = Feed::new();
    let logs = [Log::default(), Log::default(), Log::default()];
    let predicates: [fn(&Change<ConfigMap>) -> bool; 3] =
        [|_| false, predicates::generation, predicates::labels];
    let _running: Vec<Running> = (logs.iter().zip(predicates))
        .map(|(log, predicate)| run(controller(writes(log)).reconciles_if(&own, predicate)))
        .collect();
    let generation = |object: ConfigMap, n: i64| {
        let mut object = object;
        object.metadata.generation = Some(n);
        object
    };
    feed.list([generation(labelled("a", 1, "x"), 1)]);
    let told = async || {
        sleep(Duration::from_millis(50)).await;
        logs.each_ref().map(|log| log.take().len())
    };
    assert_eq!(told().await, [0, 1, 1], "it is there");
    feed.apply(generation(labelled("a", 2, "x"), 1));
    assert_eq!(told().await, [0, 0, 0], "its status has changed");
    feed.apply(generation(labelled("a", 3, "x"), 2));
    assert_eq!(told().await, [0, 1, 0], "what is wanted has changed");
    feed.apply(generation(labelled("a", 4, "y"), 2));
    assert_eq!(told().await, [0, 0, 1], "its labels have changed");
    let mut going = generation(labelled("a", 5, "y"), 2);
    going.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    feed.apply(going);
    assert_eq!(told().await, [0, 1, 1], "it is to go");
    feed.delete(generation(labelled("a", 5, "y"), 2));
    assert_eq!(told().await, [1, 1, 1], "it is gone");
    feed.list([generation(labelled("b", 6, "y"), 2)]);
    told().await;
    feed.list([]);
    assert_eq!(told().await, [1, 1, 1], "a list no longer has it");
}

/// How many are looked after at once, of ten that take a second each.
async fn most_at_once(n_workers: Option<usize>) -> usize {
    let (own, feed) = Feed::new();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let log = Log::default();
    let slow = {
        let (now, most, log) = (Arc::clone(&now), Arc::clone(&most), log.clone());
        move |key: Key| {
            let (now, most, log) = (Arc::clone(&now), Arc::clone(&most), log.clone());
            async move {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, SeqCst);
                log.push(key);
                Ok(Action::Done)
            }
        }
    };
    let mut made = controller(slow).reconciles(&own);
    if let Some(n_workers) = n_workers {
        made = made.workers(n_workers);
    }
    let _running = run(made);
    feed.list((0..10).map(|n| map(&n.to_string(), n)));
    eventually("all are looked after", || log.len() == 10).await;
    most.load(SeqCst)
}

#[tokio::test(start_paused = true)]
async fn there_is_one_worker_or_as_many_as_are_asked_for() {
    assert_eq!(most_at_once(None).await, 1);
    assert_eq!(most_at_once(Some(4)).await, 4);
    assert_eq!(most_at_once(Some(0)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_one_that_panics_and_one_that_blocks_leave_others_alone_and_are_counted() {
    let ((own, feed), log, metrics) = (Feed::new(), Log::default(), Metrics::default());
    let bad = {
        let log = log.clone();
        move |key: Key| {
            let log = log.clone();
            async move {
                match key.name() {
                    "fails" => return Err(Broken.into()),
                    "panics" => panic!("on purpose"),
                    "blocks" => pending().await,
                    _ => log.push(key),
                }
                Ok(Action::Done)
            }
        }
    };
    let made = Controller::new("bad", bad, &metrics);
    let running = run(made.reconciles(&own).workers(2).timeout(Duration::from_secs(5)));
    feed.list([map("fails", 1), map("panics", 2), map("blocks", 3)]);
    sleep(Duration::from_secs(1)).await;
    for n in 10..30 {
        feed.apply(map("good", n));
        within(Duration::from_millis(100), "others are looked after", || log.len() == n as usize - 9).await;
    }
    sleep(Duration::from_secs(60)).await;
    let text = shown(&metrics);
    let count = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{controller=\"bad\"")));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).expect(name)
    };
    assert!(count("controller_runtime_reconcile_panics_total") > 5, "{text}");
    assert!(count("controller_runtime_reconcile_timeouts_total") > 5, "{text}");
    assert!(count("controller_runtime_reconcile_errors_total") > 20, "{text}");
    assert_eq!(running.controller.queue().n_failing(), 3);
    let last = running.controller.last_failure().expect("something failed");
    assert!(["fails", "panics", "blocks"].contains(&last.key.name()), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_has_passed_is_forgotten() {
    let ((own, feed), fails) = (Feed::new(), Arc::new(Mutex::new(3)));
    let flaky = {
        let fails = Arc::clone(&fails);
        move |_: Key| {
            let mut left = fails.lock();
            *left -= 1;
            let is_broken = *left >= 0;
            async move { if is_broken { Err(Broken.into()) } else { Ok(Action::Done) } }
        }
    };
    let running = run(controller(flaky).reconciles(&own));
    feed.list([map("a", 1)]);
    eventually("it has failed", || running.controller.last_failure().is_some()).await;
    assert_eq!(running.controller.last_failure().expect("a failure").why, "it does not work");
    eventually("it has gone well", || *fails.lock() < 0).await;
    eventually("that is forgotten", || running.controller.last_failure().is_none()).await;
    assert_eq!(running.controller.queue().n_failing(), 0);
}

#[tokio::test(start_paused = true)]
async fn another_look_comes_after_the_time_that_was_asked_for_or_earlier_if_something_changes() {
    let ((own, feed), times) = (Feed::new(), Arc::new(Mutex::new(vec![])));
    let begun = Instant::now();
    let again = {
        let times = Arc::clone(&times);
        move |_: Key| {
            times.lock().push(begun.elapsed().as_secs());
            async { Ok(Action::After(Duration::from_secs(10))) }
        }
    };
    let _running = run(controller(again).reconciles(&own));
    feed.list([map("a", 1)]);
    sleep(Duration::from_secs(15)).await;
    assert_eq!(*times.lock(), [0, 10]);
    feed.apply(map("a", 2));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(*times.lock(), [0, 10, 15, 20], "the earliest time counts");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_go_well_is_not_tried_again_until_something_changes() {
    let ((own, feed), log) = (Feed::new(), Log::default());
    let hopeless = {
        let log = log.clone();
        move |key: Key| {
            log.push(key);
            async { Err(ReconcileError::is_final("never")) }
        }
    };
    let _running = run(controller(hopeless).reconciles(&own));
    feed.list([map("a", 1)]);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(log.take().len(), 1);
    feed.apply(map("a", 2));
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(log.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_what_is_under_way() {
    let ((own, feed), log) = (Feed::new(), Log::default());
    let slow = {
        let log = log.clone();
        move |key: Key| {
            let log = log.clone();
            async move {
                sleep(Duration::from_secs(1)).await;
                log.push(key);
                Ok(Action::Done)
            }
        }
    };
    let running = run(controller(slow).reconciles(&own));
    feed.list([map("a", 1)]);
    sleep(Duration::from_millis(500)).await;
    running.stop.cancel();
    feed.apply(map("b", 2));
    let begun = Instant::now();
    running.task.await.expect("no panic");
    assert_eq!((log.take(), begun.elapsed().as_millis()), (vec!["default/a".to_owned()], 500));
    assert_eq!(running.controller.stage(), Stage::Stopped);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_cut_off() {
    let ((own, feed), metrics) = (Feed::new(), Metrics::default());
    let blocks = |_: Key| pending::<Result<Action, ReconcileError>>();
    let running = run(Controller::new("stuck", blocks, &metrics).reconciles(&own).workers(2));
    feed.list((0..100).map(|n| map(&n.to_string(), n)));
    eventually("it blocks", || running.controller.queue().in_hand() == 2).await;
    sleep(Duration::from_secs(5)).await;
    running.controller.queue().measure();
    running.stop.cancel();
    let begun = Instant::now();
    running.task.await.expect("no panic");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!((running.controller.queue().len(), running.controller.queue().in_hand()), (0, 0));
    let text = shown(&metrics);
    for gauge in ["depth", "unfinished_work_seconds", "longest_running_processor_seconds"] {
        let line = format!("workqueue_{gauge}{{name=\"stuck\",controller=\"stuck\"}} 0");
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert!(text.contains("controller_runtime_active_workers{controller=\"stuck\"} 0"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_its_caches_can_be_stopped() {
    let ((own, _feed), log) = (Feed::new(), Log::default());
    let running = run(controller(writes(&log)).reconciles(&own));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(running.controller.unreached(), Some(Reach::Starting));
    running.stop.cancel();
    timeout(Duration::from_millis(10), running.task).await.expect("at once").expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn only_keys_that_pass_every_filter_are_seen() {
    let ((own, feed), log) = (Feed::new(), Log::default());
    let made = controller(writes(&log)).reconciles(&own);
    let _running = run(made.only(|key| key.name() != "a").only(|key| key.name() != "b"));
    feed.list([map("a", 1), map("b", 2), map("c", 3)]);
    assert_eq!(log.settled().await, ["default/c"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_it_is_prepared() {
    let ((own, feed), log, tries) = (Feed::new(), Log::default(), Log::default());
    let prepare = {
        let tries = tries.clone();
        move || {
            tries.push("try");
            let n = tries.len();
            assert_ne!(n, 3, "before there is anything to wait for");
            async move {
                match n {
                    1 => Err(Broken.into()),
                    2 => panic!("on purpose"),
                    _ => Ok(()),
                }
            }
        }
    };
    let running = run(controller(writes(&log)).reconciles(&own).after_sync(prepare));
    sleep(Duration::from_secs(5)).await;
    assert_eq!((tries.len(), running.controller.stage()), (0, Stage::Waiting));
    feed.list([map("a", 1)]);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(running.controller.stage(), Stage::Unprepared("it does not work".to_owned()));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(running.controller.stage(), Stage::Unprepared("on purpose".to_owned()));
    sleep(Duration::from_secs(2)).await;
    let stage = running.controller.stage();
    assert!(matches!(&stage, Stage::Unprepared(why) if why.contains("anything to wait for")), "{stage:?}");
    assert_eq!(log.len(), 0);
    sleep(Duration::from_secs(4)).await;
    assert_eq!((running.controller.stage(), log.take()), (Stage::Working, vec!["default/a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn one_can_wait_for_a_kind_to_go_away() {
    let ((own, feed), log) = (Feed::new(), Log::default());
    let made = controller(writes(&log)).reconciles(&own);
    feed.list([]);
    made.synced().await;
    assert!(timeout(Duration::from_secs(60), made.missing()).await.is_err());
    feed.fail(404);
    made.missing().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_looked_at_again_reaches_a_controller_that_says_nothing_else() {
    let ((own, feed), log) = (Feed::new(), Log::default());
    own.resync_every(Duration::from_secs(30));
    let _running = run(controller(writes(&log)).reconciles(&own));
    feed.list([map("a", 1)]);
    assert_eq!(log.settled().await, ["default/a"]);
    sleep(Duration::from_secs(95)).await;
    assert_eq!(log.take().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_that_never_waits_leaves_others_their_turn() {
    let ((own, feed), log) = (Feed::new(), Log::default());
    let spins = |_: Key| async { Ok(Action::After(Duration::ZERO)) };
    let _spins = run(controller(spins).reconciles(&own));
    let _running = run(controller(writes(&log)).reconciles(&own));
    feed.list([map("a", 1)]);
    // Time stands still while something spins.
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(log.take(), ["default/a"]);
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "it went off");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_panics_when_it_is_cut_off_takes_no_worker_with_it() {
    let ((own, feed), log) = (Feed::new(), Log::default());
    let explodes = {
        let log = log.clone();
        move |key: Key| {
            let log = log.clone();
            async move {
                if key.name() == "bad" {
                    let _bomb = Bomb;
                    pending::<()>().await;
                }
                log.push(key);
                Ok(Action::Done)
            }
        }
    };
    let running = run(controller(explodes).reconciles(&own).timeout(Duration::from_secs(1)));
    feed.list([map("bad", 1)]);
    let went_off =
        || running.controller.last_failure().is_some_and(|failure| failure.why.contains("it went off"));
    eventually("it goes off", went_off).await;
    feed.apply(map("good", 2));
    within(Duration::from_secs(5), "others are looked after", || log.len() == 1).await;
    assert!(running.controller.queue().failures(&key("bad")) > 0, "it is tried again");
}

#[tokio::test(start_paused = true)]
async fn how_reconciles_end_is_counted() {
    let ((own, feed), metrics) = (Feed::new(), Metrics::default());
    let n_again = Arc::new(AtomicUsize::new(0));
    let ends = move |key: Key| {
        let n_again = Arc::clone(&n_again);
        async move {
            match key.name() {
                "never" => Err(ReconcileError::is_final("it is wrong")),
                "again" if n_again.fetch_add(1, SeqCst) == 0 => Ok(Action::After(Duration::ZERO)),
                "later" => Ok(Action::After(Duration::from_secs(3600))),
                _ => Ok(Action::Done),
            }
        }
    };
    let _running = run(Controller::new("test", ends, &metrics).reconciles(&own));
    feed.list(["never", "again", "later"].map(|name| map(name, 1)));
    sleep(Duration::from_secs(60)).await;
    let text = shown(&metrics);
    for line in [
        "terminal_reconcile_errors_total{controller=\"test\"} 1",
        "reconcile_total{controller=\"test\",result=\"error\"} 1",
        "reconcile_total{controller=\"test\",result=\"requeue\"} 1",
        "reconcile_total{controller=\"test\",result=\"requeue_after\"} 1",
        "reconcile_total{controller=\"test\",result=\"success\"} 1",
    ] {
        assert!(text.contains(&format!("controller_runtime_{line}")), "{line}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn owners_of_objects_in_namespaces_may_be_in_none() {
    let ((own, feed), log) = (Feed::new(), Log::default());
    let _running = run(controller(writes(&log)).owns_from_cluster(&own, "apps", "Owner"));
    feed.list([owned("child", 1, "first")]);
    assert_eq!(log.settled().await, ["first"]);
}
