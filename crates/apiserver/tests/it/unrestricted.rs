//! `--unrestricted-update`: writes to an object itself may change what otherwise has a path of its own.

use serde_json::{Value, json};
use windlass_apiserver::Config;

use super::client::{Client, PODS, deployment, pod};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn unrestricted() -> Client {
    Client::with(Config { unrestricted_update: true, ..Config::default() }).await
}

fn ready(object: &Value) -> Value {
    object["status"]["readyReplicas"].clone()
}

#[tokio::test]
async fn a_put_may_change_the_status_and_the_generation_counts_the_spec_only() {
    let client = unrestricted().await;
    let path = format!("{DEPLOYMENTS}/d");
    let mut object = client.post(DEPLOYMENTS, deployment("d")).await.created();
    let generation = object["metadata"]["generation"].clone();
    object["status"]["readyReplicas"] = 3.into();
    let changed = client.put(&path, object.clone()).await.ok();
    assert_eq!(ready(&changed), 3);
    assert_eq!(changed["metadata"]["generation"], generation);
    assert_eq!(ready(&client.get(&path).await.ok()), 3);
    object = changed;
    object["spec"]["replicas"] = 7.into();
    object["status"]["readyReplicas"] = 4.into();
    let changed = client.put(&path, object).await.ok();
    assert_eq!((ready(&changed), &changed["spec"]["replicas"]), (4.into(), &7.into()));
    assert_eq!(changed["metadata"]["generation"], generation.as_u64().expect("a number") + 1);
}

#[tokio::test]
async fn every_kind_of_patch_may_change_the_status() {
    let client = unrestricted().await;
    let path = format!("{DEPLOYMENTS}/d");
    client.post(DEPLOYMENTS, deployment("d")).await.created();
    for (kind, number) in [("merge", 1), ("strategic", 2)] {
        let patch = json!({"status": {"readyReplicas": number}});
        assert_eq!(ready(&client.patch(kind, &path, patch).await.ok()), number, "{kind}");
    }
    let patch = json!([{"op": "replace", "path": "/status/readyReplicas", "value": 3}]);
    assert_eq!(ready(&client.patch("json", &path, patch).await.ok()), 3);
    let config = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"readyReplicas": 4},
    });
    let path = format!("{path}?fieldManager=debugger&force=true");
    assert_eq!(ready(&client.patch("apply", &path, config).await.ok()), 4);
}

#[tokio::test]
async fn whoever_writes_a_status_this_way_is_recorded_as_its_manager() {
    let client = unrestricted().await;
    let path = format!("{DEPLOYMENTS}/d?fieldManager=debugger");
    client.post(DEPLOYMENTS, deployment("d")).await.created();
    let changed = client.patch("merge", &path, json!({"status": {"readyReplicas": 1}})).await.ok();
    let managers = changed["metadata"]["managedFields"].as_array().expect("a list");
    let own = managers.iter().find(|entry| entry["manager"] == "debugger").expect("an entry");
    assert!(own["fieldsV1"]["f:status"]["f:readyReplicas"].is_object(), "{own}");
}

#[tokio::test]
async fn the_status_path_stays_restricted() {
    let client = unrestricted().await;
    let path = format!("{DEPLOYMENTS}/d");
    let before = client.post(DEPLOYMENTS, deployment("d")).await.created();
    let mut object = before.clone();
    object["spec"]["replicas"] = 9.into();
    object["status"] = json!({"replicas": 1, "readyReplicas": 1});
    let changed = client.put(&format!("{path}/status"), object).await.ok();
    assert_eq!(ready(&changed), 1);
    assert_eq!(changed["spec"], before["spec"]);
    let patch = json!({"spec": {"replicas": 9}});
    assert_eq!(client.patch("merge", &format!("{path}/status"), patch).await.ok()["spec"], before["spec"]);
}

#[tokio::test]
async fn a_new_object_still_begins_without_the_status_that_was_sent() {
    let client = unrestricted().await;
    let mut object = deployment("d");
    object["status"] = json!({"readyReplicas": 5});
    assert_eq!(ready(&client.post(DEPLOYMENTS, object).await.created()), Value::Null);
}

#[tokio::test]
async fn the_rules_of_a_kind_still_hold() {
    let client = unrestricted().await;
    client.post(PODS, pod("p")).await.created();
    let path = format!("{PODS}/p");
    let patch = json!({"status": {"phase": "Running"}});
    assert_eq!(client.patch("merge", &path, patch).await.ok()["status"]["phase"], "Running");
    let patch = json!({"spec": {"nodeName": "elsewhere", "restartPolicy": "Never"}});
    client.patch("merge", &path, patch).await.refused(422, "Invalid");
}

#[tokio::test]
async fn without_the_flag_nothing_but_the_status_path_changes_the_status() {
    let client = Client::new().await;
    let path = format!("{DEPLOYMENTS}/d");
    client.post(DEPLOYMENTS, deployment("d")).await.created();
    let patch = json!({"status": {"replicas": 1, "readyReplicas": 1}});
    assert_eq!(ready(&client.patch("merge", &path, patch.clone()).await.ok()), Value::Null);
    assert_eq!(ready(&client.patch("merge", &format!("{path}/status"), patch).await.ok()), 1);
}
