//! What webhooks answer: refusals, patches, warnings.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::*;
use crate::client::{CONFIG_MAPS, PODS, pod};

#[tokio::test]
async fn a_webhook_refuses_in_its_own_words() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|request| match request["object"]["data"]["a"].as_str() {
        Some("1") => json!({"allowed": false, "status": {"message": "a must not be 1"}}),
        _ => json!({"allowed": true}),
    })
    .await;
    client.configure(VALIDATING, "v", vec![reviewer.webhook("no.example.com", json!({}))]).await;
    let refused = client.post(CONFIG_MAPS, config("x")).await;
    let status = refused.refused(400, "");
    assert_eq!(message(&status), "admission webhook \"no.example.com\" denied the request: a must not be 1");
    client.get(&format!("{CONFIG_MAPS}/x")).await.refused(404, "NotFound");
    client.config_map("y", json!({"a": "2"})).await;
}

#[tokio::test]
async fn the_code_the_reason_and_the_details_of_a_refusal_are_passed_on() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|_| {
        let causes = json!([{"field": "data.a", "message": "no"}]);
        let status =
            json!({"code": 409, "reason": "Conflict", "message": "busy", "details": {"causes": causes}});
        json!({"allowed": false, "status": status})
    })
    .await;
    client.configure(MUTATING, "m", vec![reviewer.webhook("no.example.com", json!({}))]).await;
    let status = client.post(CONFIG_MAPS, config("x")).await.refused(409, "Conflict");
    assert_eq!(message(&status), "admission webhook \"no.example.com\" denied the request: busy");
    assert_eq!(status["details"]["causes"][0]["field"], "data.a");
}

#[tokio::test]
async fn a_refusal_is_one_even_if_it_calls_itself_a_success() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|request| match request["name"].as_str() {
        Some("bare") => json!({"allowed": false}),
        _ => json!({"allowed": false, "status": {"code": 200, "reason": "Because"}}),
    })
    .await;
    client.configure(VALIDATING, "v", vec![reviewer.webhook("no.example.com", json!({}))]).await;
    let status = client.post(CONFIG_MAPS, config("bare")).await.refused(400, "");
    assert_eq!(
        message(&status),
        "admission webhook \"no.example.com\" denied the request without explanation"
    );
    let status = client.post(CONFIG_MAPS, config("x")).await.refused(400, "");
    assert_eq!(message(&status), "admission webhook \"no.example.com\" denied the request: Because");
}

#[tokio::test]
async fn a_patch_is_applied_and_what_it_adds_is_defaulted() {
    let client = Client::new().await;
    let sidecar = json!({"name": "sidecar", "image": "side"});
    let patch = json!([
        {"op": "add", "path": "/spec/containers/-", "value": sidecar},
        {"op": "add", "path": "/metadata/labels/injected", "value": "yes"},
    ]);
    let reviewer = Reviewer::start(move |_| patched(patch.clone())).await;
    let rules = json!({"rules": [rule("", &["pods"], &["CREATE"])]});
    client.configure(MUTATING, "m", vec![reviewer.webhook("side.example.com", rules)]).await;
    let made = client.post(PODS, pod("p")).await.created();
    assert_eq!(made["metadata"]["labels"]["injected"], "yes");
    let side = &made["spec"]["containers"][1];
    assert_eq!((&side["name"], &side["imagePullPolicy"]), (&json!("sidecar"), &json!("Always")));
    assert_eq!(client.get(&format!("{PODS}/p")).await.ok()["spec"]["containers"][1]["name"], "sidecar");
}

#[tokio::test]
async fn plugins_of_the_server_look_again_at_what_a_webhook_has_added() {
    let client = Client::new().await;
    let limits = json!({"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}});
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [limits]}});
    client.post("/api/v1/namespaces/default/limitranges", range).await.created();
    let patch = json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "i"}}]);
    let reviewer = Reviewer::start(move |_| patched(patch.clone())).await;
    let rules = json!({"rules": [rule("", &["pods"], &["CREATE"])]});
    client.configure(MUTATING, "m", vec![reviewer.webhook("side.example.com", rules)]).await;
    let made = client.post(PODS, pod("p")).await.created();
    assert_eq!(made["spec"]["containers"][1]["resources"]["requests"]["cpu"], "1");
}

#[tokio::test]
async fn a_patched_object_is_validated_like_any_other() {
    let client = Client::new().await;
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "not a label!"}}]);
    let reviewer = Reviewer::start(move |_| patched(patch.clone())).await;
    client.configure(MUTATING, "m", vec![reviewer.webhook("bad.example.com", json!({}))]).await;
    let status = client.post(CONFIG_MAPS, config("x")).await.refused(422, "Invalid");
    assert!(message(&status).contains("metadata.labels: Invalid value: \"not a label!\""), "{status}");
}

#[tokio::test]
async fn what_the_server_alone_sets_is_not_a_webhooks_to_change() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|request| match request["operation"].as_str() {
        Some("CREATE") => patched(json!([
            {"op": "replace", "path": "/metadata/uid", "value": "mine"},
            {"op": "add", "path": "/metadata/generation", "value": 77},
            {"op": "add", "path": "/status", "value": {"phase": "Failed"}},
        ])),
        _ => patched(json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}])),
    })
    .await;
    let rules = json!({"rules": [rule("", &["pods", "pods/status"], &["*"])]});
    client.configure(MUTATING, "m", vec![reviewer.webhook("set.example.com", rules)]).await;
    let made = client.post(PODS, pod("p")).await.created();
    assert!(made["metadata"]["uid"] != "mine" && made["status"]["phase"] == "Pending", "{made}");
    let change = json!({"status": {"phase": "Running"}});
    let changed = client.patch("merge", &format!("{PODS}/p/status"), change).await.ok();
    assert_eq!(
        (&changed["status"]["phase"], &changed["spec"]["containers"][0]["image"]),
        (&json!("Running"), &json!("i"))
    );
}

#[tokio::test]
async fn warnings_come_through_with_an_answer_and_with_a_refusal() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|request| {
        json!({"allowed": request["name"] != "bad", "warnings": ["mind the gap", "mind the gap", "and the \"step\""]})
    })
    .await;
    client.configure(VALIDATING, "v", vec![reviewer.webhook("warn.example.com", json!({}))]).await;
    for (name, code) in [("good", 201), ("bad", 400)] {
        let answer = client.post(CONFIG_MAPS, config(name)).await;
        assert_eq!(
            (answer.code, answer.warnings()),
            (code, vec!["mind the gap".to_owned(), "and the \"step\"".to_owned()])
        );
    }
}

#[tokio::test]
async fn webhooks_see_what_those_before_them_have_done() {
    let client = Client::new().await;
    let reviewer = Reviewer::start_at(&["127.0.0.1"], |path, request| {
        let so_far = request["object"]["data"]["trail"].as_str().unwrap_or_default();
        let trail = format!("{so_far}{}", &path[1..2]);
        patched(json!([{"op": "add", "path": "/data/trail", "value": trail}]))
    })
    .await;
    let hook = |name: &str| reviewer.webhook(name, json!({}));
    client.configure(MUTATING, "second", vec![hook("c.example.com"), hook("a.example.com")]).await;
    client.configure(MUTATING, "first", vec![hook("z.example.com")]).await;
    let made = client.post(CONFIG_MAPS, config("x")).await.created();
    assert_eq!(made["data"]["trail"], "zca");
}

#[tokio::test]
async fn a_webhook_is_asked_again_if_it_wants_to_when_others_change_the_object_after_it() {
    let client = Client::new().await;
    let reviewer = Reviewer::start_at(&["127.0.0.1"], |path, request| {
        let count = |name: &str| request["object"]["data"][name].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        let name = if path.starts_with("/late") { "late" } else if path.starts_with("/eager") { "eager" } else { "once" };
        // Whoever sees what is there already leaves it alone.
        match (name, count("late")) {
            ("late", 1..) => json!({"allowed": true}),
            _ => patched(json!([{"op": "add", "path": format!("/data/{name}"), "value": (count(name) + 1).to_string()}])),
        }
    })
    .await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let hooks = vec![
        reviewer.webhook("eager.example.com", again.clone()),
        reviewer.webhook("once.example.com", json!({})),
        reviewer.webhook("late.example.com", again),
    ];
    client.configure(MUTATING, "m", hooks).await;
    let made = client.post(CONFIG_MAPS, config("x")).await.created();
    assert_eq!(made["data"], json!({"a": "1", "eager": "2", "once": "1", "late": "1"}));
    let calls = reviewer.paths().iter().filter(|path| path.starts_with("/once")).count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_webhook_that_changes_nothing_is_asked_once() {
    let client = Client::new().await;
    let reviewer = Reviewer::agreeable().await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let hooks =
        vec![reviewer.webhook("a.example.com", again.clone()), reviewer.webhook("b.example.com", again)];
    client.configure(MUTATING, "m", hooks).await;
    client.post(CONFIG_MAPS, config("x")).await.created();
    assert_eq!(reviewer.paths(), ["/a.example.com", "/b.example.com"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn webhooks_that_can_only_refuse_are_asked_all_at_once() {
    let client = Client::new().await;
    let (met, waiting) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (inner, all) = (Arc::clone(&met), Arc::clone(&waiting));
    let reviewer = Reviewer::start(move |_| {
        all.fetch_add(1, Ordering::SeqCst);
        let begun = Instant::now();
        // Whatever else this thread has to do is done by another meanwhile.
        tokio::task::block_in_place(|| {
            while all.load(Ordering::SeqCst) < 2 && begun.elapsed() < Duration::from_secs(5) {
                std::thread::yield_now();
            }
        });
        inner.fetch_add(usize::from(all.load(Ordering::SeqCst) == 2), Ordering::SeqCst);
        json!({"allowed": true})
    })
    .await;
    let hooks =
        vec![reviewer.webhook("a.example.com", json!({})), reviewer.webhook("b.example.com", json!({}))];
    client.configure(VALIDATING, "v", hooks).await;
    client.post(CONFIG_MAPS, config("x")).await.created();
    assert_eq!(met.load(Ordering::SeqCst), 2, "one was asked after the other");
}

#[tokio::test]
async fn of_several_refusals_the_first_in_order_is_told() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|_| json!({"allowed": false})).await;
    let hooks = ["b.example.com", "a.example.com"].map(|name| reviewer.webhook(name, json!({})));
    client.configure(VALIDATING, "v", hooks.into()).await;
    let status = client.post(CONFIG_MAPS, config("x")).await.refused(400, "");
    assert!(message(&status).contains("\"b.example.com\""), "{status}");
    assert_eq!(reviewer.asked().len(), 2);
}

#[tokio::test]
async fn a_webhook_of_old_reviews_is_asked_in_them() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|_| json!({"allowed": true, "uid": ""})).await;
    let old = json!({"admissionReviewVersions": ["v2", "v1beta1", "v1"]});
    client.configure(VALIDATING, "v", vec![reviewer.webhook("old.example.com", old)]).await;
    client.post(CONFIG_MAPS, config("x")).await.created();
    assert_eq!(reviewer.reviews()[0]["apiVersion"], "admission.k8s.io/v1beta1");
}

#[tokio::test]
async fn a_deletion_can_be_refused_but_not_changed() {
    let client = Client::new().await;
    let reviewer = Reviewer::start(|request| match request["name"].as_str() {
        Some("kept") => json!({"allowed": false, "status": {"message": "it stays"}}),
        _ => patched(json!([{"op": "add", "path": "/data", "value": {}}])),
    })
    .await;
    for name in ["kept", "x"] {
        client.config_map(name, json!({})).await;
    }
    let rules = json!({"rules": [rule("", &["configmaps"], &["DELETE"])]});
    client.configure(MUTATING, "m", vec![reviewer.webhook("del.example.com", rules)]).await;
    let status = client.delete(&format!("{CONFIG_MAPS}/kept"), Value::Null).await.refused(400, "");
    assert!(message(&status).ends_with("it stays"));
    let status = client.delete(&format!("{CONFIG_MAPS}/x"), Value::Null).await.refused(500, "InternalError");
    assert!(message(&status).contains("\"del.example.com\": attempted to modify the object"), "{status}");
    client.get(&format!("{CONFIG_MAPS}/x")).await.ok();
}
