//! Webhooks that fail: the policy of the webhook decides, and the message names it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::client::CONFIG_MAPS;

/// A webhook that gives this reply.
async fn replying(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Hooks {
    let work = Arc::new(move |_: &str, body: &[u8]| {
        let review: Value = serde_json::from_slice(body).expect("a review is JSON");
        reply(&review)
    });
    Hooks::start(&["127.0.0.1"], work).await
}

/// A webhook that gives this response, whose uid is right unless it says so.
async fn responding(response: Value) -> Hooks {
    replying(move |review| {
        let mut response = response.clone();
        if response.get("uid").is_none() {
            response["uid"] = review["request"]["uid"].clone();
        }
        let answer =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        Reply::ok(answer.to_string())
    })
    .await
}

/// Both kinds of webhooks, and both policies: requests fail with words that name the webhook, or go on.
async fn decides(hooks: &Hooks, kinds: &[&str], words: &str, change: Value) {
    for kind in kinds {
        let client = Client::new().await;
        let mut ignored = change.clone();
        ignored["failurePolicy"] = "Ignore".into();
        client.configure(kind, "ignored", vec![webhook(hooks, "ignored.example.com", ignored)]).await;
        client.post(CONFIG_MAPS, config("a")).await.created();
        client.configure(kind, "needed", vec![webhook(hooks, "needed.example.com", change.clone())]).await;
        let status = client.post(CONFIG_MAPS, config("b")).await.refused(500, "InternalError");
        let told = message(&status);
        assert!(
            told.starts_with("Internal error occurred: failed calling webhook \"needed.example.com\": "),
            "{told}"
        );
        assert!(told.contains(words), "{told}");
        client.get(&format!("{CONFIG_MAPS}/b")).await.refused(404, "NotFound");
    }
}

const BOTH: &[&str] = &[MUTATING, VALIDATING];

#[tokio::test]
async fn one_that_is_down() {
    let hooks = responding(json!({"allowed": true})).await;
    let address = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("an address")
    };
    let away = json!({"clientConfig": {"url": format!("https://{address}/x"), "caBundle": hooks.bundle()}});
    decides(
        &hooks,
        BOTH,
        &format!("failed to call webhook: Post \"https://{address}/x?timeout=10s\": dial tcp"),
        away,
    )
    .await;
}

#[tokio::test]
async fn one_that_is_slow() {
    let hooks = replying(|_| Reply { after: Duration::from_secs(60), ..Reply::ok("{}") }).await;
    decides(&hooks, BOTH, "context deadline exceeded", json!({"timeoutSeconds": 1})).await;
}

#[tokio::test]
async fn one_that_nobody_trusts() {
    let (hooks, other) =
        (responding(json!({"allowed": true})).await, responding(json!({"allowed": true})).await);
    let client = json!({"url": format!("https://{}/x", hooks.address), "caBundle": other.bundle()});
    decides(&hooks, BOTH, "certificate", json!({"clientConfig": client})).await;
}

#[tokio::test]
async fn one_that_answers_with_an_error() {
    let hooks = replying(|_| Reply { code: 503, ..Reply::ok("out to lunch") }).await;
    decides(&hooks, BOTH, "503: \"out to lunch\"", json!({})).await;
}

#[tokio::test]
async fn one_that_sends_elsewhere() {
    let away = Some("https://127.0.0.1:1/".to_owned());
    let hooks = replying(move |_| Reply { code: 302, location: away.clone(), ..Reply::ok("") }).await;
    decides(
        &hooks,
        BOTH,
        "302, a redirect to \"https://127.0.0.1:1/\", and redirects are not followed",
        json!({}),
    )
    .await;
}

#[tokio::test]
async fn one_whose_answer_is_huge() {
    let hooks = replying(|_| Reply::ok(vec![b' '; 9 << 20])).await;
    decides(&hooks, BOTH, "the answer has more than", json!({})).await;
}

#[tokio::test]
async fn one_whose_answer_is_no_json() {
    let hooks = replying(|_| Reply::ok("<html>hello</html>")).await;
    decides(&hooks, BOTH, "received invalid webhook response: the answer is no JSON", json!({})).await;
}

#[tokio::test]
async fn one_that_answers_somebody_elses_question() {
    let hooks = responding(json!({"allowed": true, "uid": "another"})).await;
    decides(&hooks, BOTH, ", got \"another\"", json!({})).await;
}

#[tokio::test]
async fn one_that_answers_with_another_kind() {
    let hooks = replying(|review| {
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        Reply::ok(
            json!({"apiVersion": "admission.k8s.io/v2", "kind": "AdmissionReview", "response": response})
                .to_string(),
        )
    })
    .await;
    decides(
        &hooks,
        BOTH,
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview",
        json!({}),
    )
    .await;
}

#[tokio::test]
async fn one_without_a_response_or_a_verdict() {
    let hooks =
        replying(|_| Reply::ok(r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#)).await;
    decides(&hooks, BOTH, "webhook response was absent", json!({})).await;
    let hooks = responding(json!({"allowed": "yes"})).await;
    decides(&hooks, BOTH, "response.allowed", json!({})).await;
}

#[tokio::test]
async fn one_whose_patch_does_not_say_what_it_is() {
    let hooks = responding(json!({"allowed": true, "patch": STANDARD.encode("[]")})).await;
    decides(&hooks, BOTH, "response.patch but not response.patchType", json!({})).await;
    let hooks =
        responding(json!({"allowed": true, "patch": STANDARD.encode("[]"), "patchType": "Merge"})).await;
    decides(&hooks, BOTH, "invalid response.patchType of \"Merge\"", json!({})).await;
    let hooks = responding(json!({"allowed": true, "patch": "%%%", "patchType": "JSONPatch"})).await;
    decides(&hooks, BOTH, "response.patch is no base64", json!({})).await;
}

#[tokio::test]
async fn one_whose_patch_does_not_fit() {
    for (operations, words) in [
        (json!([{"op": "remove", "path": "/not/there"}]), "the patch cannot be applied"),
        (json!([{"op": "test", "path": "/data/a", "value": "2"}]), "the patch cannot be applied"),
        (json!({"op": "add"}), "the patch cannot be applied"),
        (json!([{"op": "replace", "path": "/data", "value": [1, 2]}]), "the changed object is no ConfigMap"),
        (json!([{"op": "replace", "path": "/kind", "value": "Secret"}]), "kind was changed"),
        (json!([{"op": "replace", "path": "/metadata/name", "value": "other"}]), "metadata.name was changed"),
    ] {
        let hooks = responding(patched(operations)).await;
        decides(&hooks, &[MUTATING], words, json!({})).await;
    }
}

#[tokio::test]
async fn a_slow_one_holds_up_its_own_request_and_that_no_longer_than_it_has() {
    let client = Client::new().await;
    let hooks = replying(|_| Reply { after: Duration::from_secs(60), ..Reply::ok("{}") }).await;
    let slow = json!({"timeoutSeconds": 30, "rules": [rule("", &["secrets"], &["*"])]});
    client.configure(VALIDATING, "v", vec![webhook(&hooks, "slow.example.com", slow)]).await;
    let begun = Instant::now();
    let other = client.clone();
    let held = tokio::spawn(async move {
        other.post("/api/v1/namespaces/default/secrets?timeout=2s", json!({"metadata": {"name": "s"}})).await
    });
    while hooks.requests() == 0 {
        tokio::task::yield_now().await;
    }
    client.post(CONFIG_MAPS, config("x")).await.created();
    assert!(begun.elapsed() < Duration::from_secs(2), "another request was held up");
    held.await.expect("no panic").refused(504, "Timeout");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn the_server_starts_and_works_whatever_webhooks_say() {
    let client = Client::new().await;
    let hooks = responding(json!({"allowed": false})).await;
    let all = json!({"rules": [rule("*", &["*/*"], &["*"])]});
    client.configure(VALIDATING, "v", vec![webhook(&hooks, "all.example.com", all)]).await;
    let txn = windlass_store::Txn::new().delete("namespaces/kube-public", windlass_store::Expect::Any);
    windlass_store::Store::commit(&*client.store, txn).await.expect("a commit");
    let config = windlass_apiserver::Config::default();
    let again = windlass_apiserver::ApiServer::start(config, Arc::clone(&client.store) as _).await;
    assert!(again.is_ok(), "{again:?}");
    client.get("/api/v1/namespaces/kube-public").await.ok();
    assert_eq!(hooks.requests(), 0);
}
