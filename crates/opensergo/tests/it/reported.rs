//! What stands in the status of rules.

use std::time::Duration;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Event};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass_opensergo::{
    access::Access, plane::Settings, proto::transport::v1::SubscribeRequest, subscriber::Patience,
};

use crate::{
    line::Line,
    sdk::{DEADLINE, Sdk, request},
    world::{Running, World, eventually, quick, rule},
};

const LIMIT: &str = "RateLimitStrategy";
const RULE: &str = "FaultToleranceRule";

/// The status of an object.
async fn status(world: &World, kind: &str, name: &str) -> Value {
    world.api(kind).get(name).await.expect("an object").data["status"].clone()
}

/// A condition: its status, its reason, its message.
fn condition(status: &Value, kind: &str) -> (String, String, String) {
    let found = status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind);
    let text = |name: &str| found.and_then(|one| one[name].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

/// Waits until a condition is so: it begins with the status and the reason, and has the text in its message.
async fn becomes(world: &World, (kind, name): (&str, &str), of: &str, expected: (&str, &str, &str)) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let status = status(world, kind, name).await;
        let (is, reason, message) = condition(&status, of);
        if (&*is, &*reason) == (expected.0, expected.1) && message.contains(expected.2) {
            return;
        }
        assert!(Instant::now() < deadline, "{of} of {name} is to become {expected:?}: {status:#}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_status_says_who_has_a_rule() {
    let world = World::start().await;
    let running = world.reporting("one").await;
    world.limit("a", "shop", 1).await;
    let a = (LIMIT, "a");
    becomes(&world, a, "Accepted", ("True", "Translated", "")).await;
    becomes(&world, a, "Delivered", ("Unknown", "NoSubscribers", "0/0")).await;
    becomes(&world, a, "RejectedBy", ("False", "Nobody", "")).await;
    let mut one = Sdk::connect(running.address).await;
    one.subscribe("shop", &[LIMIT]).await;
    let push = one.push().await;
    becomes(&world, a, "Delivered", ("False", "Pending", "0/1")).await;
    one.ack(&push).await;
    becomes(&world, a, "Delivered", ("True", "Delivered", "1/1")).await;
    let mut two = Sdk::connect(running.address).await;
    let identifier = "till-7".to_owned();
    two.send(SubscribeRequest { identifier, ..request("default", "shop", &[LIMIT]) }).await;
    let push = two.push().await;
    two.reject_as_go(&push).await;
    becomes(&world, a, "Delivered", ("False", "Pending", "1/2")).await;
    becomes(&world, a, "RejectedBy", ("True", "Rejected", "till-7: code 4007: cannot decode")).await;
    // What has changed nobody has, and then everybody.
    world.limit("a", "shop", 2).await;
    let (first, second) = (one.push().await, two.push().await);
    becomes(&world, a, "Delivered", ("False", "Pending", "0/2")).await;
    one.ack(&first).await;
    two.ack(&second).await;
    becomes(&world, a, "Delivered", ("True", "Delivered", "2/2")).await;
    becomes(&world, a, "RejectedBy", ("False", "Nobody", "")).await;
    let entry = status(&world, LIMIT, "a").await["replicas"][0].clone();
    let said = (&entry["name"], &entry["subscribers"], &entry["delivered"], &entry["version"]);
    assert_eq!(said, (&json!("one"), &json!(2), &json!(2), &json!(second.version.max(first.version))));
    drop(two);
    becomes(&world, a, "Delivered", ("True", "Delivered", "1/1")).await;
    one.unsubscribe("shop", &[LIMIT]).await;
    becomes(&world, a, "Delivered", ("Unknown", "NoSubscribers", "0/0")).await;
    assert_eq!(status(&world, LIMIT, "a").await["replicas"], json!([]));
}

#[tokio::test]
async fn a_status_says_who_does_not_answer() {
    let world = World::start().await;
    let patience = Patience { answer: Duration::from_millis(300), ..Patience::default() };
    let settings = Settings { patience, ..quick() };
    let running = Running::start(world.client.clone(), settings, Access::open(), true).await;
    world.limit("a", "shop", 1).await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    let push = client.push().await;
    becomes(&world, (LIMIT, "a"), "RejectedBy", ("True", "Rejected", "it did not answer")).await;
    client.ack(&push).await;
    becomes(&world, (LIMIT, "a"), "RejectedBy", ("False", "Nobody", "")).await;
    becomes(&world, (LIMIT, "a"), "Delivered", ("True", "Delivered", "1/1")).await;
}

#[tokio::test]
async fn a_status_says_what_is_wrong_with_a_rule() {
    let world = World::loose().await;
    let running = world.reporting("one").await;
    let mut client = Sdk::connect(running.address).await;
    client.subscribe("shop", &[LIMIT, RULE]).await;
    client.accept().await;
    client.accept().await;
    world.apply(RULE, "r", "shop", rule(&["a", "b"])).await;
    world.limit("a", "shop", 1).await;
    let r = (RULE, "r");
    becomes(&world, r, "ResolvedRefs", ("False", "DanglingReference", "RateLimitStrategy b")).await;
    world.limit("b", "other", 1).await;
    becomes(&world, (LIMIT, "b"), "Accepted", ("True", "Translated", "")).await;
    becomes(&world, r, "ResolvedRefs", ("False", "DanglingReference", "RateLimitStrategy b")).await;
    world.limit("b", "shop", 1).await;
    becomes(&world, r, "ResolvedRefs", ("True", "Resolved", "")).await;
    world.delete(LIMIT, "a").await;
    becomes(&world, r, "ResolvedRefs", ("False", "DanglingReference", "RateLimitStrategy a")).await;
    world.apply(LIMIT, "b", "shop", json!({"threshold": "many"})).await;
    becomes(&world, (LIMIT, "b"), "Accepted", ("False", "Untranslatable", "spec.threshold")).await;
    let events: Api<Event> = Api::namespaced(world.client.clone(), "default");
    eventually("people are told", async || {
        let events = events.list(&ListParams::default()).await.expect("a list");
        events.iter().any(|event| {
            event.reason.as_deref() == Some("Untranslatable")
                && event.involved_object.name.as_deref() == Some("b")
                && event.type_.as_deref() == Some("Warning")
        })
    })
    .await;
    let unlabelled = json!({"metadata": {"labels": {"app": null}}});
    world.limit("b", "shop", 2).await;
    world.api(LIMIT).patch("b", &PatchParams::default(), &Patch::Merge(&unlabelled)).await.expect("changed");
    becomes(&world, (LIMIT, "b"), "Accepted", ("False", "NoApp", "metadata.labels.app")).await;
}

/// The rules of an app are told as they were as long as one of them was spoiled while nobody looked: clients would take it
/// for deleted.
#[tokio::test]
async fn a_rule_spoiled_while_nobody_looked_is_not_taken_for_deleted() {
    let world = World::loose().await;
    let one = world.reporting("one").await;
    world.limit("a", "shop", 1).await;
    world.limit("b", "shop", 1).await;
    let mut client = Sdk::connect(one.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    client.accept_until(|push| push.len() == 2).await;
    becomes(&world, (LIMIT, "a"), "Accepted", ("True", "Translated", "")).await;
    one.stop().await;
    world.apply(LIMIT, "a", "shop", json!({"threshold": "many"})).await;
    let two = world.reporting("one").await;
    client.move_to(two.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    becomes(&world, (LIMIT, "a"), "Accepted", ("False", "LastGoodUnknown", "spec.threshold")).await;
    becomes(&world, (LIMIT, "b"), "Delivered", ("False", "Pending", "0/1")).await;
    client.hears_nothing().await;
    two.stop().await;
    // Whoever comes next knows no more.
    let three = world.reporting("one").await;
    client.move_to(three.address).await;
    client.subscribe("shop", &[LIMIT]).await;
    eventually("it is there", async || three.view().kinds.iter().all(|kind| kind.synced)).await;
    client.hears_nothing().await;
    world.limit("a", "shop", 2).await;
    assert!(client.accept().await.is(&[("a", 2), ("b", 1)]));
    becomes(&world, (LIMIT, "a"), "Accepted", ("True", "Translated", "")).await;
    becomes(&world, (LIMIT, "b"), "Delivered", ("True", "Delivered", "1/1")).await;
}

/// Waits until the newest of all objects is not written any more; fails if that takes too long.
async fn settles(world: &World) {
    let newest = async || {
        let mut newest = vec![];
        for kind in [LIMIT, RULE] {
            let objects = world.api(kind).list(&ListParams::default()).await.expect("a list");
            newest.extend(objects.iter().map(|object| (object.name_any(), object.resource_version())));
        }
        newest
    };
    let deadline = Instant::now() + DEADLINE;
    loop {
        let before = newest().await;
        // More than what passes between two reports.
        sleep(Duration::from_millis(2_500)).await;
        if before == newest().await {
            return;
        }
        assert!(Instant::now() < deadline, "something is written again and again");
    }
}

/// Or a client that comes and goes would have every rule of its app written as often as it does.
#[tokio::test]
async fn a_status_is_written_less_often_than_clients_come_and_go() {
    let world = World::start().await;
    let running = world.reporting("one").await;
    world.limit("a", "shop", 1).await;
    becomes(&world, (LIMIT, "a"), "Delivered", ("Unknown", "NoSubscribers", "0/0")).await;
    let written = async || world.api(LIMIT).get("a").await.expect("it is there").resource_version();
    let client = Sdk::connect(running.address).await;
    let (mut before, mut n_written, mut last) = (written().await, 0, Instant::now());
    for round in 0.. {
        match round % 2 {
            0 => client.subscribe("shop", &[LIMIT]).await,
            _ => client.unsubscribe("shop", &[LIMIT]).await,
        }
        // More than what passes between two reports.
        sleep(Duration::from_millis(1_200)).await;
        let now = written().await;
        if now != before {
            (before, n_written, last) = (now, n_written + 1, Instant::now());
        }
        if last.elapsed() > Duration::from_secs(5) {
            break;
        }
        assert!(n_written < 15, "it is written each time");
    }
    // Whoever writes a rule is told at once all the same.
    world.limit("a", "shop", 2).await;
    eventually("it is told", async || status(&world, LIMIT, "a").await["observedGeneration"] == 2).await;
}

#[tokio::test]
async fn replicas_add_up_and_then_write_nothing() {
    let world = World::start().await;
    let one = world.reporting("one").await;
    // They need not live in the same namespace to know of each other.
    world.namespace("elsewhere").await;
    let settings = Settings { identity: "two".to_owned(), ..quick() };
    let line = Line::new(true);
    let elsewhere = line.client_in("elsewhere", &world.client);
    let two = Running::start(elsewhere, settings, Access::open(), true).await;
    world.limit("a", "shop", 1).await;
    world.apply(RULE, "r", "shop", rule(&["a", "missing"])).await;
    let mut clients = vec![];
    for address in [one.address, two.address, two.address] {
        let mut client = Sdk::connect(address).await;
        client.subscribe("shop", &[LIMIT, RULE]).await;
        client.accept().await;
        client.accept().await;
        clients.push(client);
    }
    let (a, r) = ((LIMIT, "a"), (RULE, "r"));
    becomes(&world, a, "Delivered", ("True", "Delivered", "3/3")).await;
    becomes(&world, r, "Delivered", ("True", "Delivered", "3/3")).await;
    settles(&world).await;
    becomes(&world, a, "Delivered", ("True", "Delivered", "3/3")).await;
    let names = |status: &Value| -> Vec<String> {
        let entries = status["replicas"].as_array().into_iter().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry["name"].as_str().unwrap_or_default().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&status(&world, LIMIT, "a").await), ["one", "two"]);
    // One ends without a word, and somebody takes its lease away.
    drop(two);
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "elsewhere");
    leases.delete("windlass-opensergo-two", &DeleteParams::default()).await.expect("it had one");
    becomes(&world, a, "Delivered", ("True", "Delivered", "1/1")).await;
    assert_eq!(names(&status(&world, LIMIT, "a").await), ["one"]);
    becomes(&world, r, "ResolvedRefs", ("False", "DanglingReference", "missing")).await;
    settles(&world).await;
}
