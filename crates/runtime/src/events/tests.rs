//! Events on a server that is a map, in virtual time.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::SeqCst};

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::Value;

use super::*;
use crate::testing::{
    map,
    server::{Forecast, Server, Weather},
};

const LONG: Duration = Duration::from_secs(600);

fn start(server: &Server) -> (Events, Recorder) {
    let events = Events::start(server.client(), &Metrics::default());
    let recorder = events.recorder("test-controller");
    (events, recorder)
}

/// All events there are, as count and message.
fn told(server: &Server) -> Vec<(u64, String)> {
    let text = |event: &Value| event["message"].as_str().expect("a message").to_owned();
    server.all().iter().map(|event| (event["count"].as_u64().expect("a count"), text(event))).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_is_written_as_people_expect_it() {
    let server = Server::default();
    let (events, recorder) = start(&server);
    recorder.normal(&map("a", 7), "Synced", "all is well");
    assert!(events.flush(LONG).await);
    let [event] = &server.all()[..] else { panic!("one event") };
    let about = &event["involvedObject"];
    let fields = [&about["kind"], &about["apiVersion"], &about["namespace"], &about["name"], &about["uid"]];
    assert_eq!(fields, ["ConfigMap", "v1", "default", "a", "uid-a"]);
    let fields = [&event["type"], &event["reason"], &event["message"], &event["metadata"]["namespace"]];
    assert_eq!(fields, ["Normal", "Synced", "all is well", "default"]);
    assert_eq!(event["source"]["component"], "test-controller");
    assert_eq!(event["reportingComponent"], "test-controller");
    assert_eq!((&event["count"], &event["firstTimestamp"]), (&Value::from(1), &event["lastTimestamp"]));
    assert!(event["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("a.")), "{event}");
    let mut cluster = Namespace::default();
    cluster.metadata.name = Some("n".to_owned());
    recorder.warning(&cluster, "Odd", "something is wrong");
    assert!(events.flush(LONG).await);
    let last = &server.taken()[1];
    assert_eq!(last.path, "/api/v1/namespaces/default/events");
    assert_eq!(last.body["type"], "Warning");
}

#[tokio::test(start_paused = true)]
async fn the_same_again_is_counted_up() {
    let server = Server::default();
    let (events, recorder) = start(&server);
    for _ in 0..3 {
        recorder.normal(&map("a", 7), "Synced", "all is well");
    }
    recorder.normal(&map("b", 7), "Synced", "all is well");
    assert!(events.flush(LONG).await);
    let all = told(&server);
    assert_eq!(all, [(3, "all is well".to_owned()), (1, "all is well".to_owned())]);
    let methods: Vec<Method> = server.taken().into_iter().map(|taken| taken.method).collect();
    assert_eq!(methods, [Method::POST, Method::PATCH, Method::PATCH, Method::POST]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_written_anew() {
    let server = Server::default();
    let (events, recorder) = start(&server);
    recorder.normal(&map("a", 7), "Synced", "all is well");
    assert!(events.flush(LONG).await);
    server.clear();
    recorder.normal(&map("a", 7), "Synced", "all is well");
    assert!(events.flush(LONG).await);
    assert_eq!(told(&server), [(2, "all is well".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn ten_similar_ones_within_ten_minutes_become_one() {
    let server = Server::default();
    let (events, recorder) = start(&server);
    for n in 0..13 {
        recorder.normal(&map("a", 7), "Tried", format!("try {n}"));
        recorder.normal(&map("a", 7), "Other", "something else");
    }
    assert!(events.flush(LONG).await);
    let mut all = told(&server);
    all.sort();
    assert_eq!(all.len(), 11, "{all:?}");
    assert!(all.contains(&(1, "try 8".to_owned())), "{all:?}");
    let combined: Vec<_> = all.iter().filter(|(_, message)| message.starts_with("(combined")).collect();
    assert_eq!(combined, [&(4, "(combined from similar events): try 12".to_owned())]);
    sleep(Duration::from_secs(601)).await;
    recorder.normal(&map("a", 7), "Tried", "try 100");
    assert!(events.flush(LONG).await);
    assert!(told(&server).contains(&(1, "try 100".to_owned())), "they are forgotten after a while");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_told_of_too_often_is_left_out_for_a_while() {
    let server = Server::default();
    let (events, recorder) = start(&server);
    let written = async |n: usize| {
        for _ in 0..n {
            recorder.normal(&map("a", 7), "Synced", "again");
        }
        assert!(events.flush(LONG).await);
        server.taken().len()
    };
    assert_eq!(written(100).await, 25);
    assert_eq!(written(10).await, 0);
    recorder.normal(&map("b", 7), "Synced", "another");
    events.recorder("other-controller").normal(&map("a", 7), "Synced", "another");
    assert!(events.flush(LONG).await);
    assert_eq!(server.taken().len(), 2, "others are told of");
    sleep(Duration::from_secs(299)).await;
    assert_eq!(written(1).await, 0);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(written(10).await, 1);
    assert!(told(&server).contains(&(112, "again".to_owned())), "{:?}", told(&server));
    assert_eq!(events.metrics.filtered.get(), 75 + 10 + 1 + 9);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_server_that_does_not_answer_and_what_is_too_much_is_dropped() {
    let server = Server::default();
    let forecast: Forecast = Arc::new(|_, _| Weather { delays: (LONG, LONG), ..Weather::default() });
    let events = Events::start(server.client_in(forecast), &Metrics::default());
    let recorder = events.recorder("test");
    recorder.normal(&map("first", 1), "Synced", "x");
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    for n in 0..1500 {
        recorder.normal(&map(&n.to_string(), 1), "Synced", "x");
    }
    assert_eq!((begun.elapsed(), events.n_dropped()), (Duration::ZERO, 500));
    assert!(!events.flush(Duration::from_secs(5)).await);
}

/// A server that refuses so many requests with a code, or loses them without.
fn refusing(server: &Server, n: usize, code: u16) -> (Events, Arc<AtomicUsize>) {
    let (asked, code) = (Arc::new(AtomicUsize::new(0)), AtomicU16::new(code));
    let forecast: Forecast = {
        let asked = Arc::clone(&asked);
        Arc::new(move |_, _| {
            let is_bad = asked.fetch_add(1, SeqCst) < n;
            let code = code.load(SeqCst);
            Weather {
                is_lost: is_bad && code == 0,
                refused: (is_bad && code > 0).then_some(code),
                ..Weather::default()
            }
        })
    };
    (Events::start(server.client_in(forecast), &Metrics::default()), asked)
}

#[tokio::test(start_paused = true)]
async fn an_event_is_sent_twelve_times_and_then_given_up() {
    let server = Server::default();
    for code in [0, 503, 429] {
        let (events, asked) = refusing(&server, 12, code);
        let begun = Instant::now();
        events.recorder("test").normal(&map("lost", 1), "Synced", "x");
        assert!(events.flush(LONG).await);
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(100) && took <= Duration::from_secs(111), "{took:?}");
        assert_eq!((asked.load(SeqCst), events.metrics.failed.get()), (12, 1));
        events.recorder("test").normal(&map(&code.to_string(), 1), "Synced", "x");
        assert!(events.flush(LONG).await);
        assert_eq!(events.metrics.written.get(), 1, "the next one comes through");
    }
    let (events, _) = refusing(&server, 11, 0);
    events.recorder("test").normal(&map("saved", 1), "Synced", "x");
    assert!(events.flush(LONG).await);
    assert_eq!(events.metrics.written.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_not_sent_again() {
    let server = Server::default();
    let (events, asked) = refusing(&server, 1, 403);
    events.recorder("test").normal(&map("a", 1), "Synced", "x");
    assert!(events.flush(LONG).await);
    assert_eq!((asked.load(SeqCst), events.metrics.failed.get()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_bounded() {
    let server = Server::default();
    let (_events, recorder) = start(&server);
    let mut correlator = Correlator::default();
    let now = Instant::now();
    let event = |name: &str| {
        recorder.event(map(name, 1).object_ref(&()), EventType::Normal, "Synced", "x".to_owned())
    };
    correlator.take(event("first"), now);
    for n in 0..5000 {
        let verdict = correlator.take(event(&n.to_string()), now);
        assert!(matches!(verdict, Verdict::Write { is_known: false, .. }));
    }
    assert_eq!(correlator.lens(), [4096; 3]);
    assert!(matches!(correlator.take(event("4999"), now), Verdict::Write { is_known: true, .. }));
    assert!(matches!(correlator.take(event("first"), now), Verdict::Write { is_known: false, .. }));
}

#[tokio::test(start_paused = true)]
async fn no_two_events_have_one_name() {
    let server = Server::default();
    let (events, recorder) = start(&server);
    for n in 0..20 {
        recorder.normal(&map("a", 1), &format!("Reason{n}"), "x");
    }
    let other: Recorder = recorder.clone();
    other.normal::<ConfigMap>(&map("a", 1), "Last", "x");
    assert!(events.flush(LONG).await);
    assert_eq!(server.all().len(), 21);
}

#[tokio::test(start_paused = true)]
async fn long_names_and_messages_fit_and_nobody_is_waited_for_without_end() {
    let server = Server::default();
    let n_asked = Arc::new(AtomicUsize::new(0));
    let forecast: Forecast = {
        let n_asked = Arc::clone(&n_asked);
        // The first request is never answered.
        Arc::new(move |_, _| {
            let hours = if n_asked.fetch_add(1, SeqCst) == 0 { 1 } else { 0 };
            Weather { delays: (Duration::from_secs(3600 * hours), Duration::ZERO), ..Weather::default() }
        })
    };
    let events = Events::start(server.client_in(forecast), &Metrics::default());
    let recorder = events.recorder("test");
    for name in ["x".repeat(253), String::new()] {
        recorder.normal(&map(&name, 1), "Said", "ü".repeat(4000));
    }
    assert!(events.flush(LONG).await);
    let all = server.all();
    assert_eq!(all.len(), 2);
    for event in all {
        let name = event["metadata"]["name"].as_str().expect("a name");
        assert!(name.len() <= 253 && !name.starts_with('.'), "{name}");
        assert!(event["message"].as_str().is_some_and(|message| message.len() <= 1024));
    }
}
