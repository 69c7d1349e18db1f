//! Watches: where they begin, what they tell, and how they end.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Client, Lines, revision_of};

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

async fn steps(lines: &mut Lines, count: usize) -> Vec<String> {
    let mut seen = vec![];
    for _ in 0..count {
        let (kind, name) = lines.step().await;
        seen.push(format!("{kind} {name}"));
    }
    seen
}

#[tokio::test]
async fn a_watch_from_a_revision_tells_what_happened_since() {
    let client = Client::new().await;
    let first = client.config_map("a", json!({})).await;
    client.config_map("b", json!({})).await;
    client.patch("merge", &format!("{CONFIG_MAPS}/b"), json!({"data": {"k": "v"}})).await.ok();
    client.delete(&format!("{CONFIG_MAPS}/a"), json!(null)).await.ok();
    let mut lines =
        client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision_of(&first)), &[]).await;
    assert_eq!(steps(&mut lines, 3).await, ["ADDED b", "MODIFIED b", "DELETED a"]);
    client.config_map("c", json!({})).await;
    assert_eq!(steps(&mut lines, 1).await, ["ADDED c"]);
}

#[tokio::test]
async fn without_a_revision_or_from_zero_the_state_comes_first() {
    let client = Client::new().await;
    client.config_map("a", json!({})).await;
    client.config_map("b", json!({})).await;
    for query in ["watch=true", "watch=1&resourceVersion=0"] {
        let mut lines = client.watch(&format!("{CONFIG_MAPS}?{query}"), &[]).await;
        assert_eq!(steps(&mut lines, 2).await, ["ADDED a", "ADDED b"], "{query}");
    }
    let mut old_form = client.watch("/api/v1/watch/namespaces/default/configmaps/b", &[]).await;
    assert_eq!(steps(&mut old_form, 1).await, ["ADDED b"]);
}

#[tokio::test]
async fn a_deletion_carries_the_revision_it_happened_at() {
    let client = Client::new().await;
    let made = client.config_map("a", json!({"k": "v"})).await;
    let mut lines =
        client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision_of(&made)), &[]).await;
    client.delete(&format!("{CONFIG_MAPS}/a"), json!(null)).await.ok();
    let event = lines.next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["data"]), (&json!("DELETED"), &json!({"k": "v"})));
    assert_eq!(revision_of(&event["object"]), client.revision().await);
}

#[tokio::test]
async fn objects_enter_and_leave_a_selection() {
    let client = Client::new().await;
    let label = |value: Value| json!({"metadata": {"labels": {"x": value}}});
    let made = client.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let query = format!("{CONFIG_MAPS}?watch=1&labelSelector=x%3Dy&resourceVersion={}", revision_of(&made));
    let mut lines = client.watch(&query, &[]).await;
    client.patch("merge", &path, label(json!("y"))).await.ok();
    client.patch("merge", &path, json!({"data": {"k": "v"}})).await.ok();
    let left = client.patch("merge", &path, label(json!("z"))).await.ok();
    client.patch("merge", &path, json!({"data": {"k": "w"}})).await.ok();
    client.patch("merge", &path, label(json!("y"))).await.ok();
    client.delete(&path, json!(null)).await.ok();
    assert_eq!(steps(&mut lines, 2).await, ["ADDED a", "MODIFIED a"]);
    let event = lines.next().await.expect("an event");
    assert_eq!((&event["type"], revision_of(&event["object"])), (&json!("DELETED"), revision_of(&left)));
    assert_eq!(
        event["object"]["metadata"]["labels"]["x"], "y",
        "it is told as it was when it was last selected"
    );
    assert_eq!(steps(&mut lines, 2).await, ["ADDED a", "DELETED a"]);
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let client = Client::new().await;
    client.config_map("a", json!({})).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut lines = client.watch(&format!("{CONFIG_MAPS}?{query}"), &[]).await;
    assert_eq!(steps(&mut lines, 1).await, ["ADDED a"]);
    let mark = lines.next().await.expect("a bookmark");
    assert_eq!((&mark["type"], &mark["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(revision_of(&mark["object"]), client.revision().await);
    client.config_map("b", json!({})).await;
    assert_eq!(steps(&mut lines, 1).await, ["ADDED b"]);
    let query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut lines = client.watch(&format!("{CONFIG_MAPS}?{query}"), &[]).await;
    client.config_map("c", json!({})).await;
    assert_eq!(steps(&mut lines, 1).await, ["ADDED c"], "without initial events only what is new is told");
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_up() {
    let client = Client::new().await;
    client.config_map("a", json!({})).await;
    let mut lines = client.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1"), &[]).await;
    assert_eq!(steps(&mut lines, 1).await, ["ADDED a"]);
    let begun = std::time::Instant::now();
    assert_eq!(lines.next().await, None);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let with_bookmarks = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=1");
    let mut lines = client.watch(&with_bookmarks, &[]).await;
    assert_eq!(steps(&mut lines, 2).await, ["ADDED a", "BOOKMARK "]);
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn a_watch_ends_when_the_server_stops() {
    let client = Client::new().await;
    let mut lines = client.watch(&format!("{CONFIG_MAPS}?watch=1"), &[]).await;
    client.server.begin_drain();
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn a_revision_that_is_gone_is_told_in_the_stream() {
    use windlass_store::{Revision, Store};
    let client = Client::new().await;
    let first = client.config_map("a", json!({})).await;
    client.config_map("b", json!({})).await;
    client.config_map("c", json!({})).await;
    client.store.compact(Revision::new(client.revision().await)).await.expect("compaction");
    let query = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision_of(&first));
    let mut lines = client.watch(&query, &[]).await;
    let event = lines.next().await.expect("an event");
    assert_eq!(event["type"], "ERROR");
    let status = &event["object"];
    assert_eq!(
        (&status["kind"], &status["reason"], &status["code"]),
        (&json!("Status"), &json!("Expired"), &json!(410))
    );
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn tables_and_metadata_can_be_watched() {
    let client = Client::new().await;
    client.config_map("a", json!({"k": "v"})).await;
    client.config_map("b", json!({})).await;
    let mut tables = client.watch(&format!("{CONFIG_MAPS}?watch=1"), &[("accept", TABLE)]).await;
    let first = tables.next().await.expect("an event");
    assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("Table")));
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    let second = tables.next().await.expect("an event");
    assert!(second["object"].get("columnDefinitions").is_none_or(Value::is_null), "columns are told once");
    assert_eq!(second["object"]["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let mut metadata = client.watch(&format!("{CONFIG_MAPS}?watch=1"), &[("accept", METADATA)]).await;
    let event = metadata.next().await.expect("an event");
    let object = &event["object"];
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("a"))
    );
    assert!(object.get("data").is_none());
}

#[tokio::test]
async fn a_watch_for_less_than_no_time_ends_at_once() {
    let client = Client::new().await;
    let answer = tokio::time::timeout(
        crate::client::DEADLINE,
        client.get(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=-5")),
    )
    .await;
    assert_eq!(answer.expect("it ends").code, 200);
}
