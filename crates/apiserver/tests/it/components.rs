//! Component statuses: read only, and worked out when they are asked for.

use serde_json::{Value, json};

use super::client::{Client, names};

const COMPONENTS: &str = "/api/v1/componentstatuses";

#[tokio::test]
async fn the_store_is_a_healthy_component() {
    let client = Client::new().await;
    let answer = client.get(COMPONENTS).await;
    let list = answer.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ComponentStatusList"), &json!("v1")));
    assert_eq!(names(&list), ["etcd-0"]);
    assert_eq!(answer.warnings(), ["v1 ComponentStatus is deprecated in v1.19+"]);
    let one = client.get(&format!("{COMPONENTS}/etcd-0")).await.ok();
    assert_eq!(one["kind"], "ComponentStatus");
    assert_eq!(one["metadata"], json!({"name": "etcd-0"}));
    assert_eq!(one["conditions"], json!([{"type": "Healthy", "status": "True", "message": "ok"}]));
    client.get(&format!("{COMPONENTS}/other")).await.refused(404, "NotFound");
    for selector in ["labelSelector=a%3Db", "fieldSelector=metadata.name%3Dother"] {
        assert_eq!(names(&client.get(&format!("{COMPONENTS}?{selector}")).await.ok()), [""; 0]);
    }
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let shown = client.send("GET", COMPONENTS, &table, "").await.ok();
    assert_eq!(shown["rows"][0]["cells"], json!(["etcd-0", "Healthy", "ok", ""]));
}

#[tokio::test]
async fn components_are_only_read() {
    let client = Client::new().await;
    for (method, path) in
        [("POST", ""), ("DELETE", ""), ("PUT", "/etcd-0"), ("PATCH", "/etcd-0"), ("DELETE", "/etcd-0")]
    {
        let path = format!("{COMPONENTS}{path}");
        let answer = client.send(method, &path, &[("content-type", "application/json")], "{}").await;
        answer.refused(405, "MethodNotAllowed");
    }
    client.get(&format!("{COMPONENTS}?watch=true")).await.refused(405, "MethodNotAllowed");
    let resources = client.get("/api/v1").await.ok();
    let own = resources["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|row| row["name"] == "componentstatuses");
    let own = own.cloned().unwrap_or(Value::Null);
    assert_eq!(
        (&own["verbs"], &own["shortNames"], &own["namespaced"]),
        (&json!(["get", "list"]), &json!(["cs"]), &json!(false))
    );
    let document = client.get("/openapi/v3/api/v1").await.ok();
    let operations = document["paths"][COMPONENTS].as_object().cloned().unwrap_or_default();
    assert!(operations.contains_key("get") && !operations.contains_key("post"), "{operations:?}");
}
