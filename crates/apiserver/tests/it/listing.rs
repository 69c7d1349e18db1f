//! Lists: pages, revisions and selectors.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use windlass_apiserver::Config;

use super::client::{CONFIG_MAPS, Client, PODS, names, pod, revision_of};

async fn with_maps(count: usize) -> Client {
    let client = Client::new().await;
    for number in 0..count {
        client.config_map(&format!("m{number:03}"), json!({})).await;
    }
    client
}

fn token(list: &Value) -> String {
    list["metadata"]["continue"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn pages_are_of_one_revision_and_count_what_remains() {
    let client = with_maps(10).await;
    let first = client.get(&format!("{CONFIG_MAPS}?limit=4")).await.ok();
    assert_eq!(first["metadata"]["remainingItemCount"], 6);
    client.config_map("m000a", json!({})).await;
    client.delete(&format!("{CONFIG_MAPS}/m009"), json!(null)).await.ok();
    let second = client.get(&format!("{CONFIG_MAPS}?limit=4&continue={}", token(&first))).await.ok();
    assert_eq!(second["metadata"]["remainingItemCount"], 2);
    let third = client.get(&format!("{CONFIG_MAPS}?limit=4&continue={}", token(&second))).await.ok();
    assert_eq!((token(&third), third["metadata"].get("remainingItemCount")), (String::new(), None));
    let all: Vec<String> = [&first, &second, &third].into_iter().flat_map(names).collect();
    assert_eq!(all, (0..10).map(|number| format!("m{number:03}")).collect::<Vec<_>>());
    for page in [&second, &third] {
        assert_eq!(page["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    }
    let selected = client.get(&format!("{CONFIG_MAPS}?limit=4&labelSelector=!x")).await.ok();
    assert!(selected["metadata"].get("remainingItemCount").is_none() && !token(&selected).is_empty());
    let whole = client.get(&format!("{CONFIG_MAPS}?limit=500")).await.ok();
    assert_eq!((names(&whole).len(), token(&whole)), (10, String::new()));
}

/// The test and the server share one thread: while the server does not let go of it, nobody counts.
#[tokio::test]
async fn a_search_that_finds_nothing_lets_others_have_their_turn() {
    let client = with_maps(1500).await;
    // Lists are made on other threads, and may be done before this one has looked around; watches begin on this one.
    for (query, least) in [
        ("labelSelector=a%3Db", 2),
        ("labelSelector=a%3Db&limit=5", 2),
        (
            "labelSelector=a%3Db&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
            6,
        ),
    ] {
        let path = format!("{CONFIG_MAPS}?{query}");
        let mut turns = 0;
        let others = async {
            loop {
                turns += 1;
                tokio::task::yield_now().await;
            }
        };
        let answer = tokio::select! {
            biased;
            () = others => unreachable!(),
            answer = client.get(&path) => answer,
        };
        assert_eq!(answer.code, 200);
        assert!(turns >= least, "{query}: {turns} turns");
    }
}

#[tokio::test]
async fn a_token_whose_revision_is_gone_gives_a_fresh_one() {
    use windlass_store::{Revision, Store};
    let client = with_maps(6).await;
    let first = client.get(&format!("{CONFIG_MAPS}?limit=2")).await.ok();
    client.config_map("m002a", json!({})).await;
    client.store.compact(Revision::new(client.revision().await)).await.expect("compaction");
    let status = client
        .get(&format!("{CONFIG_MAPS}?limit=2&continue={}", token(&first)))
        .await
        .refused(410, "Expired");
    let fresh = token(&status);
    assert!(!fresh.is_empty());
    let rest = client.get(&format!("{CONFIG_MAPS}?continue={fresh}")).await.ok();
    assert_eq!(names(&rest), ["m002", "m002a", "m003", "m004", "m005"]);
    let old = revision_of(&first);
    let exact = format!("{CONFIG_MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
    client.get(&exact).await.refused(410, "Expired");
}

/// In Kubernetes the past is compacted every five minutes, and clients count on what comes of it.
#[tokio::test]
async fn a_token_expires_although_its_revision_is_known() {
    let client = with_maps(6).await;
    let first = client.get(&format!("{CONFIG_MAPS}?limit=2")).await.ok();
    client.config_map("m002a", json!({})).await;
    let path = format!("{CONFIG_MAPS}?limit=2&continue={}", token(&first));
    let second = client.restarted().await.get(&path).await.ok();
    assert_eq!(names(&second), ["m002", "m003"], "it outlives the server that gave it");
    let later = client.beside_with(Config { continue_ttl: Duration::ZERO, ..Config::default() }).await;
    for page in [&first, &second] {
        let path = format!("{CONFIG_MAPS}?limit=2&continue={}", token(page));
        let status = later.get(&path).await.refused(410, "Expired");
        let message = status["message"].as_str().expect("words");
        assert!(
            message.starts_with("The provided continue parameter is too old to display a consistent list")
        );
        let bytes = URL_SAFE_NO_PAD.decode(token(&status)).expect("a token");
        let told: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!((&told["v"], &told["rv"]), (&json!("meta.k8s.io/v1"), &json!(-1)));
    }
    let status = later.get(&path).await.refused(410, "Expired");
    let rest = later.get(&format!("{CONFIG_MAPS}?limit=2&continue={}", token(&status))).await.ok();
    assert_eq!(names(&rest), ["m002", "m002a"], "it goes on from the last key with what is there now");
    assert_eq!(rest["metadata"]["remainingItemCount"], 3);
    assert!(revision_of(&rest) > revision_of(&first));
    let rest = client.get(&format!("{CONFIG_MAPS}?continue={}", token(&rest))).await.ok();
    assert_eq!(names(&rest), ["m003", "m004", "m005"]);
}

#[tokio::test]
async fn a_revision_may_be_any_exact_or_not_older() {
    let client = with_maps(2).await;
    let old = revision_of(&client.get(CONFIG_MAPS).await.ok());
    client.config_map("z", json!({})).await;
    let list = async |query: &str| client.get(&format!("{CONFIG_MAPS}?{query}")).await.ok();
    assert_eq!(names(&list("resourceVersion=0").await).len(), 3);
    assert_eq!(names(&list(&format!("resourceVersion={old}")).await).len(), 3);
    assert_eq!(
        names(&list(&format!("resourceVersion={old}&resourceVersionMatch=NotOlderThan")).await).len(),
        3
    );
    let exact = list(&format!("resourceVersion={old}&resourceVersionMatch=Exact")).await;
    assert_eq!((names(&exact).len(), revision_of(&exact)), (2, old));
    assert_eq!(
        names(&list(&format!("resourceVersion={old}&limit=10")).await).len(),
        2,
        "a limit makes it exact"
    );
}

#[tokio::test]
async fn a_revision_from_the_future_times_out_with_its_cause() {
    let client = with_maps(1).await;
    let status = client.get(&format!("{CONFIG_MAPS}?resourceVersion=1000000")).await.refused(504, "Timeout");
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn all_operators_of_label_selectors_select() {
    let client = Client::new().await;
    for (name, labels) in [
        ("a", json!({"tier": "web", "n": "1"})),
        ("b", json!({"tier": "db", "n": "5"})),
        ("c", json!({"n": "word"})),
        ("d", json!({"tier": ""})),
    ] {
        client.post(CONFIG_MAPS, json!({"metadata": {"name": name, "labels": labels}})).await.created();
    }
    for (selector, selected) in [
        ("tier=web", vec!["a"]),
        ("tier==web", vec!["a"]),
        ("tier!=web", vec!["b", "c", "d"]),
        ("tier in (web,db)", vec!["a", "b"]),
        ("tier notin (web,db)", vec!["c", "d"]),
        ("tier", vec!["a", "b", "d"]),
        ("!tier", vec!["c"]),
        ("tier=", vec!["d"]),
        ("n>1", vec!["b"]),
        ("n<2", vec!["a"]),
        ("tier in (web,db),n>1", vec!["b"]),
        ("", vec!["a", "b", "c", "d"]),
    ] {
        let query: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let list = client.get(&format!("{CONFIG_MAPS}?labelSelector={query}")).await.ok();
        assert_eq!(names(&list), selected, "{selector}");
    }
}

#[tokio::test]
async fn fields_select_as_each_kind_has_them() {
    let client = Client::new().await;
    client
        .post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}))
        .await
        .created();
    for name in ["a", "b"] {
        client.post(PODS, pod(name)).await.created();
    }
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    client.post(&format!("{PODS}/a/binding"), binding).await.created();
    client.config_map("a", json!({})).await;
    for (path, selector, selected) in [
        (PODS, "spec.nodeName=n", vec!["a"]),
        (PODS, "spec.nodeName=", vec!["b"]),
        (PODS, "spec.nodeName!=n", vec!["b"]),
        (PODS, "status.phase=Pending", vec!["a", "b"]),
        (PODS, "status.phase=Pending,metadata.name=b", vec!["b"]),
        (PODS, "spec.restartPolicy=Never", vec![]),
        ("/api/v1/pods", "metadata.namespace=default,metadata.name!=a", vec!["b"]),
        ("/api/v1/pods", "metadata.namespace=other", vec![]),
        (CONFIG_MAPS, "metadata.name=a", vec!["a"]),
        ("/api/v1/namespaces", "status.phase=Active,metadata.name=default", vec!["default"]),
    ] {
        let query: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let list = client.get(&format!("{path}?fieldSelector={query}")).await.ok();
        assert_eq!(names(&list), selected, "{path} {selector}");
    }
}

#[tokio::test]
async fn a_list_says_what_it_is_a_list_of() {
    let client = with_maps(1).await;
    let list = client.get(CONFIG_MAPS).await.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    let empty = client.get("/apis/apps/v1/deployments").await.ok();
    assert_eq!((&empty["kind"], &empty["items"]), (&json!("DeploymentList"), &json!([])));
}

#[tokio::test]
async fn the_source_of_an_event_is_who_reported_it_where_it_has_none() {
    let client = Client::new().await;
    let events = "/api/v1/namespaces/default/events";
    for (name, fields) in [
        ("e1", json!({"source": {"component": "a"}})),
        ("e2", json!({"reportingComponent": "b", "reportingInstance": "i"})),
        ("e3", json!({"source": {"component": "a"}, "reportingComponent": "c", "reportingInstance": "i"})),
        ("e4", json!({})),
    ] {
        let mut event = json!({
            "metadata": {"name": name}, "reason": "r", "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        });
        event.as_object_mut().expect("an object").extend(fields.as_object().cloned().unwrap_or_default());
        client.post(events, event).await.created();
    }
    for (selector, found) in [
        ("source%3Da", &["e1", "e3"][..]),
        ("source%3Db", &["e2"]),
        ("source%3Dc", &[]),
        ("source%3D", &["e4"]),
        ("source!%3Da", &["e2", "e4"]),
        ("reportingComponent%3Dc", &["e3"]),
        ("reportingComponent%3D", &["e1", "e4"]),
    ] {
        let list = client.get(&format!("{events}?fieldSelector={selector}")).await.ok();
        assert_eq!(names(&list), found, "{selector}");
    }
}
