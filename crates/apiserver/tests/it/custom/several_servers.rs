//! Several servers on one store: what one defines, all serve.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    super::client::names, DEFINITIONS, WIDGETS, condition, definition, eventually, redefine, serving, widget,
    widgets,
};
use crate::client::Client;

#[tokio::test]
async fn a_kind_that_one_server_defines_is_served_by_all() {
    let one = Client::new().await;
    let other = one.beside().await;
    one.post(DEFINITIONS, widgets()).await.created();
    eventually("the other server serves it", async || other.get(WIDGETS).await.code == 200).await;
    other.post(WIDGETS, widget("a", 1)).await.created();
    assert_eq!(names(&one.get(WIDGETS).await.ok()), ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_never_give_out_the_same_name() {
    let one = Client::new().await;
    let other = one.beside().await;
    for round in 0..20 {
        let plurals: Vec<String> = (0..8).map(|n| format!("kind{round}x{n}s")).collect();
        let mut asking = tokio::task::JoinSet::new();
        for (n, plural) in plurals.iter().enumerate() {
            let client = if n % 2 == 0 { one.clone() } else { other.clone() };
            let made = definition(plural, &format!("Kind{round}"), json!({"type": "object"}));
            asking.spawn(async move { client.post(DEFINITIONS, made).await.created() });
        }
        asking.join_all().await;
        let mut accepted = vec![];
        for plural in &plurals {
            let path = format!("{DEFINITIONS}/{plural}.example.com");
            // Who was established once stays so, even if it loses a name.
            let decided = condition(&one.get(&path).await.ok(), "Established").map(|found| found.0);
            accepted.push(decided.expect("it is decided"));
        }
        assert_eq!(
            accepted.iter().filter(|status| *status == "True").count(),
            1,
            "round {round}: {accepted:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_has_not_heard_of_new_rules_waits_for_them() {
    let one = serving(widgets()).await;
    let (deaf, hears) = one.deaf().await;
    deaf.post(WIDGETS, widget("before", 1)).await.created();
    redefine(&one, "widgets.example.com", |spec| {
        spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["minimum"] =
            100.into();
    })
    .await
    .ok();
    let mut late = {
        let deaf = deaf.clone();
        tokio::spawn(async move { deaf.post(WIDGETS, widget("small", 1)).await })
    };
    // It would be done by now, by the old rules.
    tokio::time::timeout(Duration::from_millis(200), &mut late).await.expect_err("it waits");
    hears.send_replace(true);
    late.await.expect("an answer").refused(422, "Invalid");
    assert_eq!(names(&deaf.get(WIDGETS).await.ok()), ["before"]);
}

#[tokio::test]
async fn a_server_that_has_not_heard_of_a_deletion_creates_nothing() {
    let one = serving(widgets()).await;
    let (deaf, hears) = one.deaf().await;
    one.delete(&format!("{DEFINITIONS}/widgets.example.com"), Value::Null).await.ok();
    eventually("the kind goes", async || one.get(WIDGETS).await.code == 404).await;
    let mut late = {
        let deaf = deaf.clone();
        tokio::spawn(async move { deaf.post(WIDGETS, widget("late", 1)).await })
    };
    tokio::time::timeout(Duration::from_millis(200), &mut late).await.expect_err("it waits");
    hears.send_replace(true);
    late.await.expect("an answer").refused(404, "NotFound");
    one.post(DEFINITIONS, widgets()).await.created();
    assert_eq!(names(&one.get(WIDGETS).await.ok()), [""; 0]);
}

#[tokio::test]
async fn a_deletion_by_one_server_stops_creations_by_the_other() {
    let one = serving(widgets()).await;
    let other = one.beside().await;
    let mut held = widget("held", 1);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    one.post(WIDGETS, held).await.created();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    one.delete(&path, Value::Null).await.ok();
    other.post(WIDGETS, widget("late", 1)).await.refused(405, "MethodNotAllowed");
    other.patch("merge", &format!("{WIDGETS}/held"), json!({"metadata": {"finalizers": null}})).await.ok();
    eventually("the definition goes", async || one.get(&path).await.code == 404).await;
    eventually("nobody serves it", async || other.get(WIDGETS).await.code == 404).await;
}
