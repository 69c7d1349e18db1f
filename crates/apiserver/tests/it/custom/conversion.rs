//! Several versions with a webhook that turns one into the other.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    super::{
        client::names,
        hooks::{Hooks, Reply, Work},
    },
    WIDGETS, definition, eventually, redefine, serving, widget, with,
};
use crate::client::Client;

/// The version with one field `size`; v1 has `width` and `height`.
const OLD: &str = "/apis/example.com/v1beta1/namespaces/default/widgets";

fn schema(fields: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
}

/// Widgets that are converted at `url`.
fn converted(hooks: &Hooks, review: &str) -> Value {
    with(definition("widgets", "Widget", Value::Null), |spec| {
        spec["versions"] = json!([
            {
                "name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.width"}],
                "schema": {"openAPIV3Schema": schema(json!({
                    "width": {"type": "integer"}, "height": {"type": "integer", "default": 1},
                }))},
            },
            {
                "name": "v1beta1", "served": true, "storage": false, "selectableFields": [{"jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": schema(json!({"size": {"type": "string"}}))},
                "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}],
            },
        ]);
        spec["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": format!("https://{}/convert", hooks.address), "caBundle": hooks.bundle()},
                "conversionReviewVersions": [review],
            },
        });
    })
}

/// Turns `size: 2x3` into `width: 2, height: 3` and back.
fn convert(object: &mut Value, to: &str) {
    match to {
        "example.com/v1" => {
            let size = object["spec"]["size"].as_str().unwrap_or("0x0").to_owned();
            let (width, height) = size.split_once('x').unwrap_or(("0", "0"));
            let number = |text: &str| text.parse::<i64>().unwrap_or(0);
            object["spec"] = json!({"width": number(width), "height": number(height)});
        }
        _ => {
            let size = format!("{}x{}", object["spec"]["width"], object["spec"]["height"]);
            object["spec"] = json!({"size": size});
        }
    }
    object["apiVersion"] = to.into();
}

/// Answers a review; `change` may spoil the answer.
fn answer(body: &[u8], change: impl Fn(&mut Value)) -> Reply {
    let review: Value = serde_json::from_slice(body).expect("a review");
    let to = review["request"]["desiredAPIVersion"].as_str().expect("a version").to_owned();
    let mut objects = review["request"]["objects"].as_array().cloned().expect("objects");
    objects.iter_mut().for_each(|object| convert(object, &to));
    let mut answer = json!({
        "apiVersion": review["apiVersion"],
        "kind": "ConversionReview",
        "response": {
            "uid": review["request"]["uid"], "convertedObjects": objects, "result": {"status": "Success"},
        },
    });
    change(&mut answer);
    Reply::ok(answer.to_string())
}

fn faithful() -> Work {
    Arc::new(|_, body| answer(body, |_| {}))
}

async fn start() -> (Client, Hooks) {
    let hooks = Hooks::start(&["127.0.0.1"], faithful()).await;
    let client = serving(converted(&hooks, "v1")).await;
    (client, hooks)
}

fn old(name: &str, size: &str) -> Value {
    json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}})
}

fn new(name: &str, width: i64) -> Value {
    let mut made = widget(name, 1);
    made["spec"] = json!({"width": width, "height": 2});
    made
}

#[tokio::test]
async fn objects_are_written_and_read_through_the_webhook() {
    let (client, hooks) = start().await;
    let created = client.post(OLD, old("a", "2x3")).await.created();
    assert_eq!(created["spec"], json!({"size": "2x3"}));
    assert_eq!(client.get(&format!("{WIDGETS}/a")).await.ok()["spec"], json!({"width": 2, "height": 3}));
    assert_eq!(client.get(&format!("{OLD}/a")).await.ok()["spec"], json!({"size": "2x3"}));
    let before = hooks.requests();
    client.get(&format!("{WIDGETS}/a")).await.ok();
    assert_eq!(hooks.requests(), before, "what is stored in the wanted version is not converted");
    assert_eq!(hooks.connections(), 1);
    let patched = client.patch("merge", &format!("{OLD}/a"), json!({"spec": {"size": "4x5"}})).await.ok();
    assert_eq!(patched["spec"], json!({"size": "4x5"}));
    assert_eq!(client.get(&format!("{WIDGETS}/a")).await.ok()["spec"], json!({"width": 4, "height": 5}));
}

#[tokio::test]
async fn a_webhook_of_old_is_asked_in_its_own_words() {
    let hooks = Hooks::start_self_signed(&["127.0.0.1"], faithful()).await;
    let client = serving(converted(&hooks, "v1beta1")).await;
    client.post(OLD, old("a", "2x3")).await.created();
    assert_eq!(client.get(&format!("{WIDGETS}/a")).await.ok()["spec"]["width"], 2);
}

#[tokio::test]
async fn a_list_is_converted_in_batches() {
    let (client, hooks) = start().await;
    for n in 0..300 {
        client.post(WIDGETS, new(&format!("w{n:03}"), n)).await.created();
    }
    let before = hooks.requests();
    let list = client.get(OLD).await.ok();
    let items = list["items"].as_array().expect("items");
    assert_eq!(items.len(), 300);
    assert!(items.iter().enumerate().all(|(n, item)| item["spec"]["size"] == format!("{n}x2")));
    assert_eq!(hooks.requests() - before, 2);
    let before = hooks.requests();
    let page = client.get(&format!("{OLD}?limit=10")).await.ok();
    assert_eq!((names(&page).len(), page["metadata"]["remainingItemCount"].as_u64()), (10, Some(290)));
    assert_eq!(hooks.requests() - before, 1);
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let page = client.get(&format!("{OLD}?limit=10&continue={token}")).await.ok();
    assert_eq!(names(&page)[0], "w010");
}

#[tokio::test]
async fn tables_and_selectors_look_at_the_version_asked_for() {
    let (client, _hooks) = start().await;
    for n in 1..=3 {
        client.post(WIDGETS, new(&format!("w{n}"), n)).await.created();
    }
    assert_eq!(names(&client.get(&format!("{OLD}?fieldSelector=spec.size=2x2")).await.ok()), ["w2"]);
    assert_eq!(names(&client.get(&format!("{WIDGETS}?fieldSelector=spec.width=3")).await.ok()), ["w3"]);
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let shown = client.send("GET", OLD, &table, "").await.ok();
    assert_eq!(shown["rows"][0]["cells"], json!(["w1", "1x2"]));
}

#[tokio::test]
async fn watchers_of_one_version_share_a_conversion() {
    let (client, hooks) = start().await;
    let mut watches = vec![];
    for _ in 0..5 {
        watches.push(client.watch(&format!("{OLD}?watch=true"), &[]).await);
    }
    let before = hooks.requests();
    client.post(WIDGETS, new("a", 7)).await.created();
    for watch in &mut watches {
        let event = watch.next().await.expect("an event");
        assert_eq!((&event["type"], &event["object"]["spec"]), (&json!("ADDED"), &json!({"size": "7x2"})));
    }
    assert_eq!(hooks.requests() - before, 1);
    client.delete(&format!("{WIDGETS}/a"), Value::Null).await.ok();
    for watch in &mut watches {
        let event = watch.next().await.expect("an event");
        assert_eq!(
            (&event["type"], &event["object"]["apiVersion"]),
            (&json!("DELETED"), &json!("example.com/v1beta1"))
        );
    }
}

#[tokio::test]
async fn a_webhook_that_fails_is_named_and_nothing_is_written() {
    let failing = Arc::new(Mutex::new(String::new()));
    let how = Arc::clone(&failing);
    let work: Work = Arc::new(move |_, body| match how.lock().expect("a lock").as_str() {
        "" => answer(body, |_| {}),
        "status" => answer(body, |answer| {
            answer["response"]["result"] = json!({"status": "Failure", "message": "not today"});
        }),
        "uid" => answer(body, |answer| answer["response"]["uid"] = "other".into()),
        "count" => answer(body, |answer| answer["response"]["convertedObjects"] = json!([])),
        "version" => answer(body, |answer| {
            answer["response"]["convertedObjects"][0]["apiVersion"] = "example.com/v3".into()
        }),
        "name" => {
            answer(body, |answer| answer["response"]["convertedObjects"][0]["metadata"]["name"] = "b".into())
        }
        "labels" => answer(body, |answer| {
            answer["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({"a": 5})
        }),
        "kind" => answer(body, |answer| answer["kind"] = "Something".into()),
        "nonsense" => Reply::ok("nonsense"),
        _ => Reply { code: 500, ..Reply::ok("broken") },
    });
    let hooks = Hooks::start(&["127.0.0.1"], work).await;
    let client = serving(converted(&hooks, "v1")).await;
    client.post(WIDGETS, new("a", 1)).await.created();
    let prefix = "conversion webhook for example.com/v1, Kind=Widget ";
    for (how, said) in [
        ("status", "failed: not today"),
        ("uid", "failed: expected response.uid="),
        ("count", "returned 0 objects, expected 1"),
        (
            "version",
            "returned invalid converted object at index 0: invalid groupVersion (expected example.com/v1beta1, received example.com/v3)",
        ),
        ("name", "returned invalid converted object at index 0: must have the same name: a != b"),
        (
            "labels",
            "returned invalid converted object at index 0: metadata.labels[a] must be a string in converted object",
        ),
        (
            "kind",
            "failed: expected apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=Something",
        ),
        ("nonsense", "failed: the answer is no JSON object"),
        ("broken", "failed: Post \"https://127.0.0.1:"),
    ] {
        *failing.lock().expect("a lock") = how.to_owned();
        for path in [format!("{OLD}/a"), OLD.to_owned()] {
            let answer = client.get(&path).await;
            let message = answer.status()["message"].as_str().unwrap_or_default().to_owned();
            assert_eq!(answer.code, 500, "{how}: {message}");
            assert!(message.starts_with(&format!("{prefix}{said}")), "{how}: {message}");
        }
    }
    let refused = client.post(OLD, old("b", "1x1")).await;
    assert_eq!(refused.code, 500);
    *failing.lock().expect("a lock") = String::new();
    assert_eq!(names(&client.get(WIDGETS).await.ok()), ["a"]);
    client.get(&format!("{OLD}/a")).await.ok();
}

#[tokio::test]
async fn a_watch_whose_conversion_fails_ends_with_the_reason() {
    let broken = Arc::new(AtomicUsize::new(0));
    let is_broken = Arc::clone(&broken);
    let work: Work = Arc::new(move |_, body| match is_broken.load(Ordering::SeqCst) {
        0 => answer(body, |_| {}),
        _ => Reply { code: 503, ..Reply::ok("gone") },
    });
    let hooks = Hooks::start(&["127.0.0.1"], work).await;
    let client = serving(converted(&hooks, "v1")).await;
    let mut watch = client.watch(&format!("{OLD}?watch=true"), &[]).await;
    broken.store(1, Ordering::SeqCst);
    client.post(WIDGETS, new("a", 1)).await.created();
    let event = watch.next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(500)));
    assert!(
        event["object"]["message"].as_str().is_some_and(|text| text.contains("conversion webhook for")),
        "{event}"
    );
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_webhook_may_change_labels_but_nothing_else_of_the_metadata() {
    let work: Work = Arc::new(|_, body| {
        answer(body, |answer| {
            for object in answer["response"]["convertedObjects"].as_array_mut().into_iter().flatten() {
                object["metadata"]["labels"] = json!({"converted": "yes"});
                object["metadata"]["creationTimestamp"] = "1999-01-01T00:00:00Z".into();
                object["metadata"]["finalizers"] = json!(["example.com/x"]);
            }
        })
    });
    let hooks = Hooks::start(&["127.0.0.1"], work).await;
    let client = serving(converted(&hooks, "v1")).await;
    let created = client.post(WIDGETS, new("a", 1)).await.created();
    let shown = client.get(&format!("{OLD}/a")).await.ok();
    assert_eq!(shown["metadata"]["labels"], json!({"converted": "yes"}));
    assert_eq!(shown["metadata"]["creationTimestamp"], created["metadata"]["creationTimestamp"]);
    assert_eq!(shown["metadata"]["finalizers"], Value::Null);
}

#[tokio::test]
async fn a_new_webhook_takes_over_at_once() {
    let (client, _hooks) = start().await;
    client.post(WIDGETS, new("a", 1)).await.created();
    let work: Work = Arc::new(|_, body| {
        answer(body, |answer| answer["response"]["convertedObjects"][0]["spec"] = json!({"size": "other"}))
    });
    let other = Hooks::start(&["127.0.0.1"], work).await;
    redefine(&client, "widgets.example.com", |spec| {
        spec["conversion"]["webhook"]["clientConfig"] =
            json!({"url": format!("https://{}/convert", other.address), "caBundle": other.bundle()});
    })
    .await
    .ok();
    assert_eq!(client.get(&format!("{OLD}/a")).await.ok()["spec"]["size"], "other");
}

#[tokio::test]
async fn deletions_and_clean_up_need_no_webhook_that_works() {
    let hooks = Hooks::start(&["127.0.0.1"], Arc::new(|_, _| Reply { code: 500, ..Reply::ok("") })).await;
    let client = serving(converted(&hooks, "v1")).await;
    client.post(WIDGETS, new("a", 1)).await.created();
    client.post(WIDGETS, new("b", 1)).await.created();
    client.delete(&format!("{WIDGETS}/a"), Value::Null).await.ok();
    let path = format!("{}/widgets.example.com", super::DEFINITIONS);
    client.delete(&path, Value::Null).await.ok();
    eventually("the definition goes", async || client.get(&path).await.code == 404).await;
}

#[tokio::test]
async fn a_slow_webhook_does_not_hold_up_others() {
    let work: Work = Arc::new(|_, body| Reply { after: Duration::from_secs(20), ..answer(body, |_| {}) });
    let hooks = Hooks::start(&["127.0.0.1"], work).await;
    let client = serving(converted(&hooks, "v1")).await;
    client.post(WIDGETS, new("a", 1)).await.created();
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.get(&format!("{OLD}/a?timeout=1s")).await })
    };
    client.get(&format!("{WIDGETS}/a")).await.ok();
    client.post(WIDGETS, new("b", 1)).await.created();
    waiting.await.expect("an answer").refused(504, "Timeout");
}

#[tokio::test]
async fn the_path_of_a_webhook_is_cleaned_and_redirects_are_not_followed() {
    let away: Work = Arc::new(|path, _| Reply {
        code: 307,
        location: Some("/elsewhere".to_owned()),
        ..Reply::ok(path.to_owned())
    });
    let hooks = Hooks::start(&["127.0.0.1"], away).await;
    let client = serving(with(converted(&hooks, "v1"), |spec| {
        let url = format!("https://{}//convert/", hooks.address);
        spec["conversion"]["webhook"]["clientConfig"]["url"] = url.into();
    }))
    .await;
    let object = json!({"metadata": {"name": "a"}, "spec": {"size": "1x2"}});
    let status = client.post(OLD, object).await.refused(500, "");
    let said = status["message"].as_str().unwrap_or_default();
    assert!(said.contains(&format!("Post \"https://{}/convert?timeout=30s\": ", hooks.address)), "{said}");
    assert!(said.ends_with("a redirect to \"/elsewhere\", and redirects are not followed"), "{said}");
}
