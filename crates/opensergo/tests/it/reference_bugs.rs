//! What the reference control plane does wrong, by the numbers of the list that the project keeps of it. Each test would
//! fail on it. A client cannot see these:
//!
//! | bug | why |
//! |---|---|
//! | B16 | two threads send on one stream at once: a data race, which shows as anything or nothing |
//! | B22 | a list is changed while somebody reads it: the same |
//! | B26 | kinds are known to the program only; that every one is served is seen in `b26` |
//! | B27, B28 | code that nobody calls, and entries that nobody reads |
//! | B29 | lines in a log |
//! | B31 | rights in a manifest; that those to read are enough is seen in `b31` |
//! | B34 | no tests, which these are; that objects have a status is seen in `reported` |

use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    time::Instant,
};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use windlass_opensergo::{
    access::Access,
    debounce::Pace,
    kinds::KINDS,
    plane::Settings,
    proto::{
        envoy::config::route::v3::RouteConfiguration,
        fault_tolerance::v1::{
            CircuitBreakerStrategy, FaultToleranceRule, RateLimitStrategy, ThrottlingStrategy,
        },
        transport::v1::{SubscribeRequest, SubscribeRequestTarget},
    },
    subscriber::Patience,
    topic::{App, KindId, Topic},
};

use crate::{
    line::Line,
    sdk::{Push, Sdk, answer, channel, request},
    world::{Running, World, eventually, kind, large, limit, quick, rule},
};

const LIMIT: &str = "RateLimitStrategy";
const RULE: &str = "FaultToleranceRule";

/// Settings with time enough to make several changes that are told together.
fn patient() -> Settings {
    Settings { pace: Pace { quiet: Duration::from_millis(500), most: Duration::from_secs(10) }, ..quick() }
}

#[tokio::test]
async fn b01_a_client_that_is_gone_keeps_nothing_from_others() {
    let (world, mut clients) = (World::start().await, vec![]);
    let running = world.plane().await;
    world.limit("a", "shop", 1).await;
    for _ in 0..6 {
        let mut client = Sdk::connect(running.address).await;
        client.subscribe("shop", &[LIMIT]).await;
        assert!(client.accept().await.is(&[("a", 1)]));
        clients.push(client);
    }
    // Whichever is told first: others are told as well.
    let mut left: Vec<Sdk> =
        clients.into_iter().enumerate().filter_map(|(idx, one)| (idx % 2 == 1).then_some(one)).collect();
    world.limit("a", "shop", 2).await;
    for client in &mut left {
        assert!(client.accept().await.is(&[("a", 2)]));
    }
}

#[tokio::test]
async fn b02_clients_of_the_same_name_are_all_told() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut clients = vec![];
    for identifier in ["", "", "host-1-2", "host-1-2"] {
        let mut client = Sdk::connect(running.address).await;
        let identifier = identifier.to_owned();
        client.send(SubscribeRequest { identifier, ..request("default", "shop", &[LIMIT]) }).await;
        assert_eq!(client.accept().await.len(), 0);
        clients.push(client);
    }
    world.limit("a", "shop", 1).await;
    for client in &mut clients {
        assert!(client.accept().await.is(&[("a", 1)]));
    }
}

#[tokio::test]
async fn b03_unsubscribe_is_not_a_subscribe() {
    let world = World::start().await;
    let running = world.plane().await;
    world.limit("a", "shop", 1).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT, RULE]).await;
    client.accept().await;
    client.accept().await;
    client.unsubscribe("shop", &[LIMIT]).await;
    client.hears_nothing().await;
    world.limit("a", "shop", 2).await;
    world.apply(RULE, "r", "shop", rule(&[])).await;
    assert_eq!(client.accept().await.kind(), RULE, "of the other it is not told any more");
    client.hears_nothing().await;
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 2)]), "until it asks again");
}

#[tokio::test]
async fn b04_the_end_of_one_stream_ends_no_other() {
    let world = World::start().await;
    let running = world.plane().await;
    let (mut stays, mut goes) = (Sdk::connect(running.address).await, Sdk::connect(running.address).await);
    for client in [&mut stays, &mut goes] {
        client.subscribe("shop", &[LIMIT]).await;
        client.accept().await;
    }
    drop(goes);
    eventually("the stream is gone", async || running.plane.streams().len() == 1).await;
    world.limit("a", "shop", 1).await;
    assert!(stays.accept().await.is(&[("a", 1)]));
}

#[tokio::test]
async fn b05_nothing_that_a_client_sends_ends_the_process() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = Sdk::connect(running.address).await;
    // Answers to what nobody asked.
    for flag in ["ACK", "NACK"] {
        client.send(SubscribeRequest { response_ack: flag.to_owned(), ..SubscribeRequest::default() }).await;
        client.send(answer(flag, i32::MIN, "", "never sent")).await;
    }
    client.hears_nothing().await;
    client.subscribe("shop", &[LIMIT]).await;
    let push = client.push().await;
    // An answer without a status.
    let request_id = push.response.response_id;
    let response_ack = "NACK".to_owned();
    client.send(SubscribeRequest { response_ack, request_id, ..SubscribeRequest::default() }).await;
    let without = |change: fn(&mut SubscribeRequestTarget)| {
        let mut request = request("default", "shop", &[LIMIT]);
        change(request.target.as_mut().expect("a target"));
        request
    };
    let long = "x".repeat(64);
    let senseless = [
        SubscribeRequest::default(),
        without(|target| target.namespace.clear()),
        without(|target| target.app.clear()),
        without(|target| target.kinds.clear()),
        request(&long, "shop", &[LIMIT]),
        request("default", &long, &[LIMIT]),
        request("default", "shop", &[LIMIT; 65]),
        SubscribeRequest { op_type: 7, ..request("default", "shop", &[LIMIT]) },
        SubscribeRequest { op_type: -1, ..request("default", "shop", &[LIMIT]) },
        SubscribeRequest { request_id: "x".repeat(254), ..request("default", "shop", &[LIMIT]) },
    ];
    for request in senseless {
        client.send(request.clone()).await;
        let (code, refusal) = client.refusal().await;
        assert_eq!(code, 4002, "{request:?}");
        assert!(refusal.response_id.len() < 254, "what is too long is not said again");
    }
    let mut rng = fastrand::Rng::with_seed(5);
    for n_bytes in 1..100 {
        // A tag of a group that nothing opens, and then anything.
        let bytes = std::iter::once(0x0c).chain((0..n_bytes).map(|_| rng.u8(..))).collect();
        client.send_bytes(bytes).await;
        assert_eq!(client.refusal().await.0, 4002);
    }
    world.limit("a", "shop", 1).await;
    assert!(client.accept().await.is(&[("a", 1)]), "the stream goes on");
}

#[tokio::test]
async fn b06_a_second_app_is_told_what_is_there() {
    let world = World::start().await;
    world.limit("a", "one", 1).await;
    world.limit("b", "two", 2).await;
    let running = world.plane().await;
    for (app, name, threshold) in [("one", "a", 1), ("two", "b", 2)] {
        let mut client = Sdk::connect(running.address).await;
        client.subscribe(app, &[LIMIT]).await;
        assert!(client.accept().await.is(&[(name, threshold)]));
    }
}

#[tokio::test]
async fn b07_whoever_comes_back_is_told_that_there_is_nothing() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert_eq!(client.accept().await.len(), 0, "also who has never been told of anything");
    world.limit("a", "shop", 1).await;
    assert!(client.accept().await.is(&[("a", 1)]));
    let versions = std::mem::take(&mut client.versions);
    drop(client);
    world.delete(LIMIT, "a").await;
    let mut client = Sdk::connect(running.address).await.knowing(versions);
    client.subscribe("shop", &[LIMIT]).await;
    assert_eq!(client.accept().await.len(), 0);
}

#[tokio::test]
async fn b08_versions_go_on_after_a_restart() {
    let world = World::start().await;
    let mut running = world.plane().await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    client.accept().await;
    for round in 1..5 {
        world.limit("a", "shop", round).await;
        client.accept_until(|push| push.is(&[("a", round)])).await;
        // What is deleted in between has no revision of its own any more.
        world.limit("b", "shop", round).await;
        client.accept_until(|push| push.len() == 2).await;
        world.delete(LIMIT, "b").await;
        let before = client.accept_until(|push| push.is(&[("a", round)])).await;
        running.stop().await;
        running = world.plane().await;
        client.move_to(running.address).await;
        client.subscribe("shop", &[LIMIT]).await;
        let after = client.accept().await;
        assert!(after.is(&[("a", round)]), "{after:?}");
        assert!(after.version >= before.version, "{} after {}", after.version, before.version);
    }
}

#[tokio::test]
async fn b09_nobody_is_told_of_a_part() {
    let world = World::start().await;
    join_all((0..100).map(|idx| {
        let (world, name) = (&world, format!("limit-{idx}"));
        async move { world.limit(&name, "shop", idx).await }
    }))
    .await;
    for _ in 0..5 {
        let running = world.plane().await;
        let mut client = Sdk::connect(running.address).await;
        client.subscribe("shop", &[LIMIT]).await;
        assert_eq!(client.accept().await.len(), 100);
        client.hears_nothing().await;
    }
}

#[tokio::test]
async fn b10_a_rule_that_changes_hands_leaves_its_app() {
    let world = World::start().await;
    let running = world.plane().await;
    world.limit("a", "one", 1).await;
    let (mut one, mut two) = (Sdk::connect(running.address).await, Sdk::connect(running.address).await);
    one.subscribe("one", &[LIMIT]).await;
    two.subscribe("two", &[LIMIT]).await;
    assert!(one.accept().await.is(&[("a", 1)]));
    assert_eq!(two.accept().await.len(), 0);
    world.limit("a", "two", 1).await;
    assert_eq!(one.accept().await.len(), 0);
    assert!(two.accept().await.is(&[("a", 1)]));
    let unlabelled = json!({"metadata": {"labels": {"app": null}}});
    world.api(LIMIT).patch("a", &PatchParams::default(), &Patch::Merge(&unlabelled)).await.expect("changed");
    assert_eq!(two.accept().await.len(), 0, "without a label it is nobody's");
}

#[tokio::test]
async fn b11_a_rule_may_go_where_nobody_listens() {
    let world = World::start().await;
    let running = world.plane().await;
    world.limit("a", "one", 1).await;
    let mut one = Sdk::connect(running.address).await;
    one.subscribe("one", &[LIMIT]).await;
    one.accept().await;
    world.limit("a", "unheard", 1).await;
    assert_eq!(one.accept().await.len(), 0);
    world.limit("a", "unheard", 2).await;
    let mut late = Sdk::connect(running.address).await;
    late.subscribe("unheard", &[LIMIT]).await;
    assert!(late.accept().await.is(&[("a", 2)]));
    late.unsubscribe("unheard", &[LIMIT]).await;
    world.limit("a", "elsewhere", 3).await;
    world.delete(LIMIT, "a").await;
    world.limit("b", "one", 4).await;
    assert!(one.accept().await.is(&[("b", 4)]), "the process is still there");
    late.hears_nothing().await;
}

#[tokio::test]
async fn b12_what_is_deleted_is_gone_for_clients_too() {
    let world = World::start().await;
    let running = world.plane().await;
    world.limit("a", "shop", 1).await;
    world.limit("b", "shop", 2).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    let both = client.accept().await;
    assert!(both.is(&[("a", 1), ("b", 2)]));
    world.delete(LIMIT, "a").await;
    let one = client.accept().await;
    assert!(one.is(&[("b", 2)]) && one.version > both.version, "{one:?}");
    world.delete(LIMIT, "b").await;
    let none = client.accept().await;
    assert!(none.len() == 0 && none.version > one.version, "{none:?}");
}

#[tokio::test]
async fn b13_a_server_that_is_away_for_a_while_loses_nothing() {
    let (world, line) = (World::start().await, Line::new(true));
    let running = Running::start(line.client(&world.client), quick(), Access::open(), false).await;
    world.limit("a", "shop", 1).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 1)]));
    line.cut();
    world.limit("b", "shop", 2).await;
    world.delete(LIMIT, "a").await;
    client.hears_nothing().await;
    line.mend();
    client.accept_until(|push| push.is(&[("b", 2)])).await;
}

#[tokio::test]
async fn b14_a_kind_that_is_missing_stops_no_other_and_may_come_back() {
    let world = World::tidy().await;
    for id in KindId::all().filter(|id| *id != kind(LIMIT)) {
        world.define(id, false).await;
    }
    let patience = Patience { order: Duration::from_millis(500), ..Patience::default() };
    let running = world.plane_with(Settings { patience, ..quick() }).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT, RULE]).await;
    assert_eq!(client.accept().await.kind(), RULE, "though not at once");
    world.define(kind(LIMIT), false).await;
    world.limit("a", "shop", 1).await;
    client.accept_until(|push| push.kind() == LIMIT && push.len() == 1).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let name = format!("ratelimitstrategies.{}", kind(LIMIT).kind().group);
    definitions.delete(&name, &DeleteParams::default()).await.expect("deleted");
    client.accept_until(|push| push.kind() == LIMIT && push.len() == 0).await;
    world.apply(RULE, "r", "shop", rule(&[])).await;
    client.accept_until(|push| push.kind() == RULE && push.len() == 1).await;
    eventually("it is gone", async || definitions.get_opt(&name).await.expect("an answer").is_none()).await;
    world.define(kind(LIMIT), false).await;
    world.limit("b", "shop", 2).await;
    client.accept_until(|push| push.kind() == LIMIT && push.is(&[("b", 2)])).await;
}

#[tokio::test]
async fn b15_what_cannot_be_translated_takes_nothing_with_it() {
    let world = World::loose().await;
    let running = world.plane().await;
    world.limit("a", "shop", 1).await;
    world.limit("b", "shop", 2).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 1), ("b", 2)]));
    let wrong = json!({"threshold": "many"});
    world.apply(LIMIT, "a", "shop", wrong.clone()).await;
    client.hears_nothing().await;
    world.apply(LIMIT, "0-never-right", "shop", wrong).await;
    world.limit("b", "shop", 3).await;
    assert!(client.accept().await.is(&[("a", 1), ("b", 3)]), "the last that was right stays");
    world.limit("a", "shop", 4).await;
    assert!(client.accept().await.is(&[("a", 4), ("b", 3)]));
}

#[tokio::test]
async fn b17_a_client_that_does_not_read_delays_nobody() {
    let world = World::start().await;
    let running = world.plane().await;
    let stuck = Sdk::connect(running.address).await;
    for idx in 0..8 {
        world.apply(RULE, &format!("large-{idx}"), &format!("app-{idx}"), large()).await;
        stuck.subscribe(&format!("app-{idx}"), &[RULE]).await;
    }
    let mut good = Sdk::connect(running.address).await;
    good.subscribe("app-0", &[RULE]).await;
    assert_eq!(good.accept().await.len(), 1);
    for n_rules in 2..10 {
        world.apply(RULE, &format!("small-{n_rules}"), "app-0", rule(&[])).await;
        let begun = Instant::now();
        assert_eq!(good.accept().await.len(), n_rules);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn b18_a_peer_that_is_gone_without_a_word_is_noticed() {
    let world = World::start().await;
    let running = world.plane().await;
    let (listener, address) = (TcpListener::bind("127.0.0.1:0").await.expect("a port"), running.address);
    let between = listener.local_addr().expect("an address");
    let passing = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.expect("a client");
        let mut server = TcpStream::connect(address).await.expect("a server");
        // Whoever holds both ends, and passes nothing on, is what a broken network is.
        let until = tokio::time::sleep(Duration::from_secs(1));
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => {}
            () = until => {}
        }
        (client, server)
    });
    let mut client = Sdk::connect(between).await;
    client.subscribe("shop", &[LIMIT]).await;
    client.accept().await;
    let (_client, _server) = passing.await.expect("both ends");
    assert_eq!(running.plane.streams().len(), 1, "nobody has said anything");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !running.plane.streams().is_empty() {
        assert!(Instant::now() < deadline, "it is still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn b19_answers_are_taken_note_of() {
    let world = World::start().await;
    let running = world.plane().await;
    world.limit("a", "shop", 1).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    let push = client.accept().await;
    let seen = || running.view().subscribers[0].subscriptions[0].clone();
    eventually("it is in sync", async || seen().in_sync).await;
    assert_eq!(seen().acknowledged.map(|sent| sent.version), Some(push.version));
    world.limit("a", "shop", 2).await;
    let push = client.push().await;
    client.reject_as_go(&push).await;
    eventually("it says why", async || seen().last_error.is_some_and(|why| why.contains("4007"))).await;
    assert!(!seen().in_sync && seen().sent.is_some_and(|sent| sent.version == push.version));
    client.hears_nothing().await;
}

#[tokio::test]
async fn b20_clients_need_not_say_who_they_are_and_may_say_so_later() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    client.accept().await;
    assert_eq!(running.view().subscribers[0].identifier, "");
    let identifier = "host-1-2".to_owned();
    client.send(SubscribeRequest { identifier, ..request("default", "shop", &[RULE]) }).await;
    client.accept().await;
    assert_eq!(running.view().subscribers[0].identifier, "host-1-2");
}

#[tokio::test]
async fn b21_errors_are_not_taken_for_rules() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = Sdk::connect(running.address).await;
    let mut unknown = request("default", "shop", &[LIMIT]);
    unknown.request_id = "7".to_owned();
    unknown.target.as_mut().expect("a target").kinds.insert(0, "a.b/v1/Unknown".to_owned());
    client.send(unknown).await;
    let (code, refusal) = client.refusal().await;
    let said = (code, &*refusal.response_id, &*refusal.kind, &*refusal.app);
    assert_eq!(said, (4002, "7", "a.b/v1/Unknown", "shop"));
    assert_eq!(client.accept().await.kind(), LIMIT, "the other kind of the request is known");
    // That its code is the same now as at first is seen wherever something is pushed.
    world.limit("a", "shop", 1).await;
    client.accept().await;
}

#[tokio::test]
async fn b23_numbers_have_the_units_that_they_say() {
    let world = World::start().await;
    let running = world.plane().await;
    world.apply(LIMIT, "a", "shop", limit(10)).await;
    let pace = json!({"minIntervalOfRequests": "2s", "queueTimeout": "1d"});
    world.apply("ThrottlingStrategy", "b", "shop", pace).await;
    let fuse = json!({
        "strategy": "SlowRequestRatio", "triggerRatio": "60%", "statDuration": "1m", "recoveryTimeout": "5s",
        "minRequestAmount": 5, "slowConditions": {"maxAllowedRt": "500ms"},
    });
    world.apply("CircuitBreakerStrategy", "c", "shop", fuse).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    let limit = client.accept().await.rules::<RateLimitStrategy>().remove(0);
    let numbers = (limit.metric_type, limit.limit_mode, limit.stat_duration, limit.stat_duration_time_unit);
    assert_eq!(numbers, (1, 1, 1, 2));
    client.subscribe("shop", &["ThrottlingStrategy"]).await;
    let pace = client.accept().await.rules::<ThrottlingStrategy>().remove(0);
    assert_eq!((pace.min_interval_millis_of_requests, pace.queue_timeout_millis), (2_000, 86_400_000));
    client.subscribe("shop", &["CircuitBreakerStrategy"]).await;
    let fuse = client.accept().await.rules::<CircuitBreakerStrategy>().remove(0);
    assert_eq!((fuse.trigger_ratio, fuse.stat_duration, fuse.stat_duration_time_unit), (0.6, 60_000, 1));
    assert_eq!((fuse.recovery_timeout, fuse.recovery_timeout_time_unit), (5_000, 1));
    assert_eq!(fuse.slow_condition.map(|slow| slow.max_allowed_rt_millis), Some(500));
    assert_eq!(fuse.error_condition, None);
}

#[tokio::test]
async fn b24_rules_may_name_every_kind_of_strategy() {
    let world = World::start().await;
    let running = world.plane().await;
    let kinds = [LIMIT, "ThrottlingStrategy", "ConcurrencyLimitStrategy", "CircuitBreakerStrategy"];
    let named: Vec<_> = kinds.iter().map(|kind| json!({"name": "a", "kind": kind})).collect();
    let spec = json!({"targets": [{"targetResourceName": "/a"}], "strategies": named});
    world.apply(RULE, "r", "shop", spec).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[RULE]).await;
    let rules = client.accept().await.rules::<FaultToleranceRule>();
    let named: Vec<_> = rules[0].strategies.iter().map(|one| one.kind.clone()).collect();
    assert_eq!(named, kinds);
}

#[tokio::test]
async fn b25_a_route_that_goes_nowhere_takes_nothing_with_it() {
    let world = World::loose().await;
    let running = world.plane().await;
    let good = json!({"hosts": ["orders"], "http": [
        {"route": [{"destination": {"host": "orders"}}], "timeout": "5s"},
    ]});
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &["TrafficRouter"]).await;
    client.accept().await;
    for (idx, wrong) in
        [json!([{}]), json!([null]), json!([{"destination": null}]), json!("x")].iter().enumerate()
    {
        let wrong = json!({"hosts": ["orders"], "http": [{"route": wrong}]});
        world.apply("TrafficRouter", &format!("a-{idx}"), "shop", wrong).await;
    }
    world.apply("TrafficRouter", "good", "shop", good).await;
    let is_there =
        |push: &Push| push.rules::<RouteConfiguration>().iter().any(|routes| routes.name == "good");
    client.accept_until(is_there).await;
}

#[tokio::test]
async fn b26_every_kind_there_is_can_be_subscribed_to() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = Sdk::connect(running.address).await;
    let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.kind).collect();
    client.subscribe("shop", &kinds).await;
    let mut told = vec![];
    for _ in &kinds {
        told.push(client.accept().await.kind().to_owned());
    }
    told.sort();
    let mut kinds = kinds;
    kinds.sort_unstable();
    assert_eq!(told, kinds);
}

#[tokio::test]
async fn b30_what_nobody_wants_any_more_is_forgotten_and_nobody_may_want_too_much() {
    let world = World::start().await;
    let running = world.plane_with(Settings { most_topics: 3, ..quick() }).await;
    let topic = |app: &str| Topic { app: App::new("default", app), kind: kind(LIMIT) };
    let mut client = Sdk::connect(running.address).await;
    for app in ["a", "b", "c"] {
        client.subscribe(app, &[LIMIT]).await;
        client.accept().await;
    }
    client.subscribe("d", &[LIMIT]).await;
    assert_eq!(client.refusal().await.0, 4004);
    client.subscribe("c", &[LIMIT]).await;
    assert_eq!(client.accept().await.response.app, "c", "which it has already");
    client.unsubscribe("a", &[LIMIT]).await;
    client.subscribe("d", &[LIMIT]).await;
    assert_eq!(client.accept().await.response.app, "d");
    assert!(running.plane.listeners(&topic("a")).is_empty());
    drop(client);
    eventually("nobody listens", async || {
        running.plane.streams().is_empty() && running.plane.listeners(&topic("d")).is_empty()
    })
    .await;
}

#[tokio::test]
async fn b31_rights_to_read_are_all_it_needs() {
    let world = World::start().await;
    let running = Running::start(world.reader().await, quick(), Access::open(), true).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert_eq!(client.accept().await.len(), 0);
    // It would like to write reports, and goes on without.
    world.limit("a", "shop", 1).await;
    assert!(client.accept().await.is(&[("a", 1)]));
    world.delete(LIMIT, "a").await;
    assert_eq!(client.accept().await.len(), 0);
}

#[tokio::test]
async fn b32_it_says_whether_it_is_ready_and_goes_in_good_order() {
    let (world, line) = (World::start().await, Line::new(false));
    world.limit("a", "shop", 1).await;
    let running = Running::start(line.client(&world.client), quick(), Access::open(), false).await;
    let service = "io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService".to_owned();
    let health = HealthClient::new(channel(running.address).await);
    let is = |wanted: ServingStatus| {
        let (mut health, service) = (health.clone(), service.clone());
        async move {
            let said = health.check(HealthCheckRequest { service }).await.expect("an answer").into_inner();
            said.status() == wanted
        }
    };
    assert!(is(ServingStatus::NotServing).await);
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    client.hears_nothing().await;
    line.mend();
    assert!(client.accept().await.is(&[("a", 1)]), "and not first that there is nothing");
    eventually("it serves", async || is(ServingStatus::Serving).await).await;
    running.stop().await;
    let end = client.end().await.expect_err("why it ends");
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
}

#[tokio::test]
async fn b33_many_changes_are_one_push_and_none_is_none() {
    let world = World::start().await;
    let running = world.plane_with(patient()).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    client.accept().await;
    join_all((0..20).map(|idx| {
        let (world, name) = (&world, format!("limit-{idx}"));
        async move { world.limit(&name, "shop", idx).await }
    }))
    .await;
    assert_eq!(client.accept().await.len(), 20, "all at once");
    let annotated = json!({"metadata": {"annotations": {"a": "b"}, "labels": {"other": "label"}}});
    let params = PatchParams::default();
    world.api(LIMIT).patch("limit-0", &params, &Patch::Merge(&annotated)).await.expect("changed");
    world.limit("limit-1", "shop", 100).await;
    world.limit("limit-1", "shop", 1).await;
    tokio::time::sleep(patient().pace.quiet).await;
    client.hears_nothing().await;
}

#[tokio::test]
async fn b35_strategies_are_told_before_rules_that_name_them() {
    let world = World::start().await;
    let running = world.plane_with(patient()).await;
    world.apply(RULE, "r", "shop", rule(&["a"])).await;
    world.limit("a", "shop", 1).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[RULE, LIMIT]).await;
    for round in 2..5 {
        let told = [client.accept().await, client.accept().await];
        assert_eq!(told.each_ref().map(|push| push.kind()), [LIMIT, RULE]);
        let named = &told[1].rules::<FaultToleranceRule>()[0].strategies;
        let limits = told[0].limits();
        for one in named {
            assert!(limits.iter().any(|(name, _)| *name == one.name), "{named:?} in {limits:?}");
        }
        // The rule first, and then what it names.
        let name = format!("limit-{round}");
        world.apply(RULE, "r", "shop", rule(&["a", &name])).await;
        world.limit(&name, "shop", round).await;
    }
}
