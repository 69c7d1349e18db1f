//! Deleting objects: finalizers, grace, propagation, preconditions, collections, namespaces.

use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Client, PODS, deployment, names, pod, revision_of};

async fn with_pod(name: &str) -> Client {
    let client = Client::new().await;
    client
        .post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}))
        .await
        .created();
    client.post(PODS, pod(name)).await.created();
    client
}

#[tokio::test]
async fn a_plain_object_is_gone_at_once() {
    let client = Client::new().await;
    let made = client.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let status = client.delete(&path, json!(null)).await.ok();
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}));
    client.get(&path).await.refused(404, "NotFound");
    client.delete(&path, json!(null)).await.refused(404, "NotFound");
}

#[tokio::test]
async fn finalizers_keep_an_object_until_the_last_is_removed() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let object = json!({"metadata": {"name": "a", "finalizers": ["example.com/x", "example.com/y"]}});
    client.post(CONFIG_MAPS, object).await.created();
    let marked = client.delete(&path, json!(null)).await.ok();
    assert_eq!(marked["kind"], "ConfigMap");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = client.delete(&path, json!(null)).await.ok();
    assert_eq!(revision_of(&again), revision_of(&marked), "a second deletion changes nothing");
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/z"]}});
    let status = client.patch("merge", &path, more).await.refused(422, "Invalid");
    assert!(
        status["message"].as_str().is_some_and(|text| text.contains("no new finalizers can be added")),
        "{status}"
    );
    let one = json!({"metadata": {"finalizers": ["example.com/y"]}});
    client.patch("merge", &path, one).await.ok();
    client.get(&path).await.ok();
    client.patch("merge", &path, json!({"metadata": {"finalizers": null}})).await.ok();
    client.get(&path).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_bound_pod_waits_for_its_node_and_can_be_hurried() {
    let client = with_pod("p").await;
    let path = format!("{PODS}/p");
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    client.post(&format!("{path}/binding"), binding).await.created();
    let marked = client.delete(&path, json!({"gracePeriodSeconds": 60})).await.ok();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 60);
    let kept = client.delete(&path, json!({"gracePeriodSeconds": 90})).await.ok();
    assert_eq!(kept["metadata"]["deletionGracePeriodSeconds"], 60, "the wait is never made longer");
    let hurried = client.delete(&path, json!({"gracePeriodSeconds": 5})).await.ok();
    assert_eq!(hurried["metadata"]["deletionGracePeriodSeconds"], 5);
    assert!(
        hurried["metadata"]["deletionTimestamp"].as_str() < marked["metadata"]["deletionTimestamp"].as_str()
    );
    client.delete(&path, json!({"gracePeriodSeconds": 0})).await.ok();
    client.get(&path).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_pod_without_a_node_does_not_wait() {
    let client = with_pod("p").await;
    client.delete(&format!("{PODS}/p"), json!(null)).await.ok();
    client.get(&format!("{PODS}/p")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn propagation_policies_leave_their_finalizers() {
    let client = Client::new().await;
    let all = "/apis/apps/v1/namespaces/default/deployments";
    for (policy, finalizer) in
        [("Orphan", Some("orphan")), ("Foreground", Some("foregroundDeletion")), ("Background", None)]
    {
        client.post(all, deployment("d")).await.created();
        let path = format!("{all}/d");
        let done = client.delete(&format!("{path}?propagationPolicy={policy}"), json!(null)).await.ok();
        match finalizer {
            Some(finalizer) => {
                assert_eq!(done["metadata"]["finalizers"], json!([finalizer]));
                assert!(done["metadata"]["deletionTimestamp"].is_string());
                client.patch("merge", &path, json!({"metadata": {"finalizers": []}})).await.ok();
            }
            None => assert_eq!(done["status"], "Success"),
        }
        client.get(&path).await.refused(404, "NotFound");
    }
    client.post(all, deployment("d")).await.created();
    let done = client.delete(&format!("{all}/d"), json!({"orphanDependents": true})).await.ok();
    assert_eq!(done["metadata"]["finalizers"], json!(["orphan"]));
}

#[tokio::test]
async fn preconditions_must_hold() {
    let client = Client::new().await;
    let made = client.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    for wrong in [json!({"uid": "x"}), json!({"resourceVersion": "1"})] {
        client.delete(&path, json!({"preconditions": wrong})).await.refused(409, "Conflict");
    }
    let right =
        json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]});
    client.delete(&path, json!({"preconditions": right})).await.ok();
    client.get(&path).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_collection_is_deleted_as_far_as_it_is_selected() {
    let client = Client::new().await;
    for (name, tier) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")] {
        client
            .post(CONFIG_MAPS, json!({"metadata": {"name": name, "labels": {"tier": tier}}}))
            .await
            .created();
    }
    client.namespace("other").await;
    client.post("/api/v1/namespaces/other/configmaps", json!({"metadata": {"name": "a"}})).await.created();
    client.delete(&format!("{CONFIG_MAPS}?labelSelector=tier%3Dx"), json!(null)).await.ok();
    assert_eq!(names(&client.get(CONFIG_MAPS).await.ok()), ["c", "d"]);
    client.delete(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dc"), json!(null)).await.ok();
    assert_eq!(names(&client.get(CONFIG_MAPS).await.ok()), ["d"]);
    client.delete(CONFIG_MAPS, json!(null)).await.ok();
    assert!(names(&client.get(CONFIG_MAPS).await.ok()).is_empty());
    assert_eq!(names(&client.get("/api/v1/configmaps").await.ok()), ["a"]);
}

#[tokio::test]
async fn a_namespace_ends_when_it_is_finalized() {
    let client = Client::new().await;
    let made = client.namespace("n").await;
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(made["status"]["phase"], "Active");
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    let inside = "/api/v1/namespaces/n/configmaps";
    client.post(inside, json!({"metadata": {"name": "a"}})).await.created();
    let marked = client.delete("/api/v1/namespaces/n", json!(null)).await.ok();
    assert_eq!(marked["status"]["phase"], "Terminating");
    let status = client.post(inside, json!({"metadata": {"name": "b"}})).await.refused(403, "Forbidden");
    assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");
    client.delete(&format!("{inside}/a"), json!(null)).await.ok();
    let mut emptied: Value = marked;
    emptied["spec"]["finalizers"] = json!([]);
    client.put("/api/v1/namespaces/n/finalize", emptied).await.ok();
    client.get("/api/v1/namespaces/n").await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_negative_grace_is_taken_for_a_second() {
    let client = with_pod("p").await;
    let path = format!("{PODS}/p");
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    client.post(&format!("{path}/binding"), binding).await.created();
    let marked = client.delete(&path, json!({"gracePeriodSeconds": -7})).await.ok();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 1);
}
