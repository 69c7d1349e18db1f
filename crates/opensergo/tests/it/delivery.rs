//! What clients are told when, and what their answers mean.

use std::time::Duration;

use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::Code;
use windlass_opensergo::{
    plane::Settings,
    proto::transport::v1::{
        SubscribeRequest,
        open_sergo_universal_transport_service_client::OpenSergoUniversalTransportServiceClient,
    },
    subscriber::Patience,
};

use crate::{
    sdk::{Sdk, answer, channel, id, request},
    world::{World, eventually, large, quick, rule},
};

const LIMIT: &str = "RateLimitStrategy";
const RULE: &str = "FaultToleranceRule";

/// A client that has been told that there is nothing.
async fn subscribed(address: std::net::SocketAddr) -> Sdk {
    let mut client = Sdk::connect(address).await;
    client.subscribe("shop", &[LIMIT]).await;
    assert_eq!(client.accept().await.len(), 0);
    client
}

#[tokio::test]
async fn the_generated_client_is_understood() {
    let world = World::start().await;
    let running = world.plane().await;
    let (tx, rx) = tokio::sync::mpsc::channel(1);
    let mut client = OpenSergoUniversalTransportServiceClient::new(channel(running.address).await);
    let mut told = client.subscribe_config(ReceiverStream::new(rx)).await.expect("a stream").into_inner();
    tx.send(request("default", "shop", &[LIMIT])).await.expect("sent");
    let first = told.next().await.expect("a message").expect("no error");
    assert_eq!((&*first.namespace, &*first.app, first.kind), ("default", "shop", id(LIMIT)));
    assert!(first.data_with_version.is_some_and(|data| data.data.is_empty() && data.version > 0));
}

#[tokio::test]
async fn while_a_push_is_not_answered_there_is_no_other_and_then_the_newest() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = subscribed(running.address).await;
    world.limit("a", "shop", 1).await;
    let first = client.push().await;
    assert!(first.is(&[("a", 1)]));
    for threshold in 2..6 {
        world.limit("a", "shop", threshold).await;
        client.hears_nothing().await;
    }
    // Of another topic it is told all the same.
    client.subscribe("shop", &["TrafficRouter"]).await;
    assert_eq!(client.accept().await.kind(), "TrafficRouter");
    client.ack(&first).await;
    assert!(client.accept().await.is(&[("a", 5)]), "and not of what was in between");
    client.hears_nothing().await;
}

#[tokio::test]
async fn what_is_so_again_when_the_answer_comes_is_not_told_again() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = subscribed(running.address).await;
    world.limit("a", "shop", 1).await;
    let first = client.push().await;
    world.limit("a", "shop", 2).await;
    client.hears_nothing().await;
    world.limit("a", "shop", 1).await;
    client.hears_nothing().await;
    client.ack(&first).await;
    client.hears_nothing().await;
}

#[tokio::test]
async fn what_was_rejected_is_told_again_only_when_it_has_changed() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = subscribed(running.address).await;
    let seen = || running.view().subscribers[0].subscriptions[0].clone();
    let answers = [
        ("ACK", 4007, "cannot decode", "code 4007: cannot decode"),
        // As Java says that a listener has failed.
        ("ACK", 1, "an exception", "code 1: an exception"),
        ("ACK", 0, "", "code 0"),
        ("NACK", 4000, "", "code 4000"),
        ("NACK", 1, "", "code 1"),
    ];
    for (round, (flag, code, message, expected)) in answers.into_iter().enumerate() {
        let threshold = round as i64 + 1;
        world.limit("a", "shop", threshold).await;
        let push = client.push().await;
        assert!(push.is(&[("a", threshold)]), "{push:?}");
        client.send(answer(flag, code, message, &push.response.response_id)).await;
        eventually("it says why", async || seen().last_error.as_deref() == Some(expected)).await;
        assert!(!seen().in_sync && !seen().awaiting_answer);
        client.hears_nothing().await;
    }
    world.limit("a", "shop", 100).await;
    assert!(client.accept().await.is(&[("a", 100)]));
    eventually("it is in sync", async || seen().in_sync && seen().last_error.is_none()).await;
}

#[tokio::test]
async fn whoever_knows_more_is_told_again_later() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = subscribed(running.address).await;
    world.limit("a", "shop", 1).await;
    let push = client.push().await;
    client.send(answer("ACK", 4010, "", &push.response.response_id)).await;
    client.hears_nothing().await;
    let again = client.accept().await;
    assert!(again.is(&[("a", 1)]) && again.version >= push.version, "{again:?}");
    client.hears_nothing().await;
}

#[tokio::test]
async fn an_answer_without_a_name_is_that_to_the_first() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("one", &[LIMIT]).await;
    let one = client.push().await;
    client.subscribe("two", &[LIMIT]).await;
    let two = client.push().await;
    assert_eq!((&*one.response.app, &*two.response.app), ("one", "two"));
    let errors = || -> Vec<bool> {
        let topics = running.view().subscribers[0].subscriptions.clone();
        topics.iter().map(|topic| topic.last_error.is_some()).collect()
    };
    client.reject_as_java().await;
    eventually("the first is rejected", async || errors() == [true, false]).await;
    client.reject_as_java().await;
    eventually("then the second", async || errors() == [true, true]).await;
    world.limit("a", "one", 1).await;
    world.limit("b", "two", 1).await;
    // Who is named is not the first, and then there is one left.
    let pushes = [client.push().await, client.push().await];
    let [first, second] = pushes;
    client.ack(&second).await;
    client.reject_as_java().await;
    let expected = [first.response.app == "one", first.response.app == "two"];
    eventually("the other is rejected", async || errors() == expected).await;
}

#[tokio::test]
async fn the_name_of_a_request_is_on_its_first_push() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = Sdk::connect(running.address).await;
    let request_id = "17".to_owned();
    client.send(SubscribeRequest { request_id, ..request("default", "shop", &[LIMIT]) }).await;
    assert_eq!(client.accept().await.response.response_id, "17");
    world.limit("a", "shop", 1).await;
    let later = client.accept().await.response.response_id;
    world.limit("a", "shop", 2).await;
    let latest = client.accept().await.response.response_id;
    assert!(later != "17" && latest != later, "{later}, {latest}");
    // Of several topics each has a name of its own, or nobody could tell which one is answered.
    let request_id = "18".to_owned();
    client.send(SubscribeRequest { request_id, ..request("default", "other", &[LIMIT, RULE]) }).await;
    let [one, other] = [client.accept().await, client.accept().await].map(|push| push.response.response_id);
    assert_ne!(one, other);
}

#[tokio::test]
async fn a_stream_may_have_many_targets() {
    let world = World::start().await;
    world.namespace("other").await;
    let running = world.plane().await;
    world.limit("a", "shop", 1).await;
    let mut client = Sdk::connect(running.address).await;
    for namespace in ["default", "other", "nowhere"] {
        for app in ["shop", "till"] {
            client.send(request(namespace, app, &[LIMIT, RULE])).await;
        }
    }
    let mut n_rules = vec![];
    for _ in 0..12 {
        let push = client.accept().await;
        n_rules.push((push.response.namespace.clone(), push.response.app.clone(), push.len()));
    }
    n_rules.sort();
    n_rules.dedup();
    let with = n_rules.iter().filter(|(_, _, n)| *n == 1);
    assert_eq!(with.collect::<Vec<_>>(), [&("default".to_owned(), "shop".to_owned(), 1)]);
    world.apply(RULE, "r", "till", rule(&[])).await;
    let push = client.accept().await;
    assert_eq!((&*push.response.namespace, &*push.response.app, push.kind()), ("default", "till", RULE));
    client.hears_nothing().await;
}

#[tokio::test]
async fn whoever_subscribes_again_is_told_again() {
    let world = World::start().await;
    let running = world.plane().await;
    world.limit("a", "shop", 1).await;
    let mut client = Sdk::connect(running.address).await;
    for _ in 0..3 {
        client.subscribe("shop", &[LIMIT]).await;
        assert!(client.accept().await.is(&[("a", 1)]));
        client.hears_nothing().await;
    }
    // Also what it rejected, and once the last has been answered.
    world.limit("a", "shop", 2).await;
    let push = client.push().await;
    client.subscribe("shop", &[LIMIT]).await;
    client.hears_nothing().await;
    client.reject_as_go(&push).await;
    assert!(client.accept().await.is(&[("a", 2)]));
    assert_eq!(running.view().subscribers[0].subscriptions.len(), 1);
}

#[tokio::test]
async fn whoever_never_answers_is_told_of_what_is_new_after_a_while() {
    let world = World::start().await;
    let patience = Patience { answer: Duration::from_millis(600), ..Patience::default() };
    let running = world.plane_with(Settings { patience, ..quick() }).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    let unanswered = client.push().await;
    world.limit("a", "shop", 1).await;
    client.hears_nothing().await;
    let next = client.push().await;
    assert!(next.is(&[("a", 1)]));
    // The answer to the first comes late, and is none to the second.
    client.ack(&unanswered).await;
    world.limit("a", "shop", 2).await;
    client.hears_nothing().await;
    assert!(client.accept().await.is(&[("a", 2)]));
}

#[tokio::test]
async fn there_are_no_more_streams_than_may_be() {
    let world = World::start().await;
    let running = world.plane_with(Settings { most_streams: 2, ..quick() }).await;
    let (one, _two) = (Sdk::connect(running.address).await, Sdk::connect(running.address).await);
    let refused = Sdk::on(channel(running.address).await, None).await.expect_err("one too many");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    drop(one);
    eventually("there is room", async || running.plane.streams().len() == 1).await;
    let _three = Sdk::connect(running.address).await;
}

#[tokio::test]
async fn a_request_that_is_too_large_ends_its_stream() {
    let world = World::start().await;
    let running = world.plane().await;
    let (mut bystander, mut client) = (subscribed(running.address).await, subscribed(running.address).await);
    let kind = "x".repeat(60 * 1024);
    let mut long = request("default", "shop", &[LIMIT]);
    long.target.as_mut().expect("a target").kinds = vec![kind];
    client.send(long).await;
    let (code, refusal) = client.refusal().await;
    assert_eq!((code, &*refusal.kind), (4002, ""));
    assert!(refusal.status.is_some_and(|status| status.message.len() < 2_000), "it is not said again");
    client.send_bytes(vec![0; 65 * 1024]).await;
    client.end().await.expect_err("that is too much");
    world.limit("a", "shop", 1).await;
    assert!(bystander.accept().await.is(&[("a", 1)]));
}

#[tokio::test]
async fn whoever_does_not_read_is_sent_away() {
    let world = World::start().await;
    let settings = Settings { send_timeout: Duration::from_millis(500), ..quick() };
    let running = world.plane_with(settings).await;
    let stuck = Sdk::connect(running.address).await;
    for idx in 0..8 {
        world.apply(RULE, &format!("large-{idx}"), &format!("app-{idx}"), large()).await;
        stuck.subscribe(&format!("app-{idx}"), &[RULE]).await;
    }
    let mut good = Sdk::connect(running.address).await;
    good.subscribe("app-0", &[RULE]).await;
    good.accept().await;
    eventually("it is gone", async || running.plane.streams().len() == 1).await;
    world.apply(RULE, "small", "app-0", rule(&[])).await;
    assert_eq!(good.accept().await.len(), 2);
}

#[tokio::test]
async fn whoever_reads_slowly_is_not_sent_away() {
    let world = World::start().await;
    let settings = Settings { send_timeout: Duration::from_secs(1), ..quick() };
    let running = world.plane_with(settings).await;
    let mut slow = Sdk::connect(running.address).await;
    for idx in 0..6 {
        world.apply(RULE, &format!("large-{idx}"), &format!("app-{idx}"), large()).await;
        slow.subscribe(&format!("app-{idx}"), &[RULE]).await;
    }
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(slow.accept().await.len(), 1);
    }
}

#[tokio::test]
async fn another_method_is_not_there() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut grpc = tonic::client::Grpc::new(channel(running.address).await);
    grpc.ready().await.expect("a connection");
    let path = "/io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService/Other";
    let path = http::uri::PathAndQuery::from_static(path);
    let codec = tonic_prost::ProstCodec::<SubscribeRequest, SubscribeRequest>::default();
    let refused = grpc.unary(tonic::Request::new(SubscribeRequest::default()), path, codec).await;
    assert_eq!(refused.expect_err("there is none").code(), Code::Unimplemented);
}

#[tokio::test]
async fn whoever_says_that_it_has_no_more_to_say_is_let_go() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = subscribed(running.address).await;
    client.half_close();
    client.end().await.expect("a clean end");
    eventually("it is gone", async || running.plane.streams().is_empty()).await;
    // Whoever asks and has nothing more to say, as people do from a command line, is answered first.
    world.limit("a", "shop", 1).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT, RULE]).await;
    client.half_close();
    assert!(client.push().await.is(&[("a", 1)]));
    assert_eq!(client.push().await.kind(), RULE);
    client.end().await.expect("a clean end");
    eventually("it is gone", async || running.plane.streams().is_empty()).await;
}

#[tokio::test]
async fn a_kind_that_is_named_twice_is_told_once() {
    let world = World::start().await;
    let running = world.plane().await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT; 64]).await;
    client.accept().await;
    client.hears_nothing().await;
    // Whoever wants no more of what it never wanted gets what it wants.
    client.unsubscribe("other", &[LIMIT, RULE]).await;
    client.hears_nothing().await;
}
