//! What is told when, in virtual time, with a source that does as it is told.

use async_trait::async_trait;
use serde_json::json;
use tokio::task::JoinHandle;

use super::*;
use crate::subscriber::{Push, Verdict};

/// A source that has seen everything up to a revision, or takes its time.
struct Told {
    plane: Arc<Plane>,
    /// What there is to see; nothing as long as nobody answers.
    revision: watch::Sender<Option<i64>>,
}

#[async_trait]
impl Source for Told {
    async fn catch_up(&self, kind: KindId) -> i64 {
        let mut revision = self.revision.subscribe();
        let seen = *revision.wait_for(Option::is_some).await.expect("a sender");
        self.plane.heard(kind, vec![], seen);
        seen.expect("it was waited for")
    }

    fn is_missing(&self, _: KindId) -> bool {
        false
    }

    fn trouble(&self, _: KindId) -> Option<String> {
        None
    }
}

struct World {
    plane: Arc<Plane>,
    source: Arc<Told>,
    running: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.running.abort();
    }
}

fn limits() -> KindId {
    KindId::all().find(|id| id.kind().kind == "RateLimitStrategy").expect("a kind")
}

fn topic(app: &str) -> Topic {
    Topic { app: App::new("default", app), kind: limits() }
}

fn limit(name: &str, app: &str, threshold: i64) -> Heard {
    let object = json!({
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {
            "metricType": "RequestAmount", "limitMode": "Local", "threshold": threshold, "statDurationSeconds": 1,
        },
    });
    Heard::Is(Arc::new(serde_json::from_value(object).expect("an object")))
}

fn world() -> World {
    let plane = Plane::new(Settings::default(), Metrics::default());
    let source = Arc::new(Told { plane: Arc::clone(&plane), revision: watch::channel(Some(1)).0 });
    let running = tokio::spawn(Arc::clone(&plane).run(Arc::clone(&source) as _));
    World { plane, source, running }
}

impl World {
    /// A stream that has subscribed.
    fn subscribed(&self, app: &str) -> Arc<Stream> {
        let stream = self.plane.connect(None, None).expect("there is room");
        self.plane.subscribe(&stream, &topic(app), "");
        stream
    }
}

/// What a stream is told within a time, and the version; it accepts.
async fn next(world: &World, stream: &Stream, within: Duration) -> Option<(Push, i64)> {
    let deadline = Instant::now() + within;
    loop {
        let now = Instant::now();
        let push = stream.state.lock().next(now);
        if let Some(push) = push {
            let version = world.plane.version(push.topic.kind);
            let mut state = stream.state.lock();
            state.sent(&push, version, now);
            state.answered(&push.response_id, Verdict::Accepted, now);
            return Some((push, version));
        }
        tokio::select! {
            () = stream.changed.notified() => {}
            () = sleep_until(deadline) => return None,
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn nobody_is_told_of_a_part() {
    let world = world();
    let stream = world.subscribed("shop");
    world.plane.heard(limits(), vec![limit("a", "shop", 1)], None);
    assert!(next(&world, &stream, SECOND * 3600).await.is_none(), "not before a list is over");
    assert!(!world.plane.is_synced(limits()));
    world.plane.heard(limits(), vec![limit("b", "shop", 2)], Some(7));
    let (push, version) = next(&world, &stream, SECOND).await.expect("it is told");
    assert_eq!((push.content.n_rules, version), (2, 7));
    assert!(next(&world, &stream, SECOND * 60).await.is_none(), "once");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_is_told_of_what_was_there_before_it_came() {
    let world = world();
    world.plane.heard(limits(), vec![limit("a", "shop", 1)], Some(5));
    // Elsewhere something newer has been seen already; here it comes a second later.
    world.source.revision.send_replace(None);
    let stream = world.subscribed("shop");
    assert!(next(&world, &stream, SECOND).await.is_none(), "it may have been told of more elsewhere");
    world.plane.heard(limits(), vec![limit("a", "shop", 2)], Some(6));
    world.source.revision.send_replace(Some(6));
    let (push, version) = next(&world, &stream, SECOND).await.expect("it is told");
    assert_eq!(version, 6);
    assert_eq!(push.content.hash, world.plane.rules().content(&topic("shop")).hash);
    assert!(next(&world, &stream, SECOND * 60).await.is_none(), "and not again after the debounce");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_answer_is_not_waited_for_for_ever() {
    let world = world();
    world.plane.heard(limits(), vec![limit("a", "shop", 1)], Some(5));
    world.source.revision.send_replace(None);
    let stream = world.subscribed("shop");
    let begun = Instant::now();
    let (push, _) = next(&world, &stream, SECOND * 10).await.expect("what was seen last");
    assert_eq!((push.content.n_rules, begun.elapsed().as_secs()), (1, CATCH_UP.as_secs()));
}

#[tokio::test(start_paused = true)]
async fn changes_wait_until_it_is_quiet_but_not_too_long() {
    let world = world();
    world.plane.heard(limits(), vec![], Some(1));
    let stream = world.subscribed("shop");
    assert!(next(&world, &stream, SECOND).await.is_some());
    let pace = world.plane.settings.pace;
    let begun = Instant::now();
    world.plane.heard(limits(), vec![limit("a", "shop", 1)], Some(2));
    assert!(next(&world, &stream, SECOND).await.is_some());
    assert!(begun.elapsed() >= pace.quiet && begun.elapsed() < pace.quiet * 2, "{:?}", begun.elapsed());
    // Something changes all the time.
    let begun = Instant::now();
    let mut revision = 3;
    while next(&world, &stream, pace.quiet / 2).await.is_none() {
        assert!(begun.elapsed() < pace.most * 2, "it is never told");
        world.plane.heard(limits(), vec![limit("a", "shop", revision)], Some(revision));
        revision += 1;
    }
    assert!(begun.elapsed() >= pace.most - pace.quiet, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn versions_never_go_back() {
    let world = world();
    world.plane.heard(limits(), vec![], Some(9));
    for (heard, expected) in [(Some(8), 9), (None, 9), (Some(10), 10)] {
        world.plane.heard(limits(), vec![], heard);
        assert_eq!(world.plane.version(limits()), expected);
    }
    assert!(world.plane.is_synced(limits()));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_is_not_told_and_what_was_before_stays() {
    let world = world();
    world.plane.heard(limits(), vec![limit("a", "shop", 1)], Some(1));
    let stream = world.subscribed("shop");
    assert!(next(&world, &stream, SECOND).await.is_some());
    let long = |idx: usize| limit(&format!("{idx:0>250}"), "shop", 1);
    world.plane.heard(limits(), (0..20_000).map(long).collect(), Some(2));
    assert!(next(&world, &stream, SECOND * 60).await.is_none());
    assert!(world.plane.withheld.lock().contains_key(&topic("shop")), "it is told of once");
    let gone = |idx: usize| Heard::Gone(Key::new("default", &format!("{idx:0>250}")));
    world.plane.heard(limits(), (0..19_999).map(gone).collect(), Some(3));
    let (push, _) = next(&world, &stream, SECOND).await.expect("it fits");
    assert_eq!((push.content.n_rules, world.plane.withheld.lock().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_gone_is_forgotten() {
    let world = world();
    world.plane.heard(limits(), vec![], Some(1));
    let stream = world.subscribed("shop");
    assert_eq!(world.plane.listeners(&topic("shop")).len(), 1);
    world.plane.unsubscribe(&stream, &topic("shop"));
    world.plane.unsubscribe(&stream, &topic("shop"));
    assert!(world.plane.listeners(&topic("shop")).is_empty());
    assert!(next(&world, &stream, SECOND * 60).await.is_none(), "also of the first content");
    world.plane.subscribe(&stream, &topic("other"), "");
    world.plane.disconnect(&stream);
    assert!(world.plane.streams().is_empty() && world.plane.audience.lock().topics.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_while_it_is_too_large_is_told_once_it_fits() {
    let world = world();
    let long = |idx: usize| limit(&format!("{idx:0>250}"), "shop", 1);
    world.plane.heard(limits(), (0..20_000).map(long).collect(), Some(2));
    let stream = world.subscribed("shop");
    assert!(next(&world, &stream, SECOND * 60).await.is_none());
    let gone = |idx: usize| Heard::Gone(Key::new("default", &format!("{idx:0>250}")));
    world.plane.heard(limits(), (0..19_999).map(gone).collect(), Some(3));
    let (push, _) = next(&world, &stream, SECOND).await.expect("it fits");
    assert_eq!(push.content.n_rules, 1);
}

/// Something changes while many are being told their first content: those who are not yet told are told of it, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_while_something_changes_misses_nothing() {
    let pace = Pace { quiet: Duration::from_micros(10), most: Duration::from_millis(1) };
    let plane = Plane::new(Settings { pace, ..Settings::default() }, Metrics::default());
    let source = Arc::new(Told { plane: Arc::clone(&plane), revision: watch::channel(Some(1)).0 });
    let running = tokio::spawn(Arc::clone(&plane).run(Arc::clone(&source) as _));
    let world = World { plane, source, running };
    let streams: Vec<_> = (0..10_000).map(|_| world.subscribed("shop")).collect();
    world.plane.heard(limits(), vec![limit("a", "shop", 1)], Some(1));
    streams[0].changed.notified().await;
    world.plane.heard(limits(), vec![limit("a", "shop", 2)], Some(2));
    let hash = world.plane.rules().content(&topic("shop")).hash;
    let deadline = Instant::now() + SECOND * 20;
    for (idx, stream) in streams.iter().enumerate() {
        let is_told = || {
            let state = stream.state.lock();
            state.topics().values().all(|one| one.sent.as_ref().is_some_and(|told| told.hash == hash))
        };
        while !is_told() {
            assert!(Instant::now() < deadline, "stream {idx} has missed something");
            next(&world, stream, Duration::from_millis(50)).await;
        }
    }
}
