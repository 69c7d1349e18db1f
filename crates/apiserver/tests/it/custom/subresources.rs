//! status and scale of custom kinds.

use serde_json::{Value, json};

use super::{DEFINITIONS, WIDGETS, redefine, serving, widget, widget_schema, widgets, with};

fn with_parts() -> Value {
    with(widgets(), |spec| {
        let mut schema = widget_schema();
        schema["properties"]["spec"]["properties"]["replicas"] = json!({"type": "integer", "maximum": 10});
        spec["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        spec["versions"][0]["subresources"] = json!({
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        });
    })
}

#[tokio::test]
async fn the_status_is_written_apart() {
    let client = serving(with_parts()).await;
    let mut made = widget("a", 1);
    made["status"] = json!({"phase": "early"});
    let created = client.post(WIDGETS, made).await.created();
    assert_eq!(created["status"], Value::Null, "a new object has no status");
    let path = format!("{WIDGETS}/a");
    let untouched =
        client.patch("merge", &path, json!({"status": {"phase": "on"}, "spec": {"size": 2}})).await.ok();
    assert_eq!((&untouched["status"], &untouched["spec"]["size"]), (&Value::Null, &json!(2)));
    let status = format!("{path}/status");
    let change = json!({"status": {"phase": "on"}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}});
    let changed = client.patch("merge", &status, change).await.ok();
    assert_eq!((&changed["status"]["phase"], &changed["spec"]["size"]), (&json!("on"), &json!(2)));
    assert_eq!(changed["metadata"]["labels"], Value::Null, "the metadata is not written through the status");
    assert_eq!(client.get(&status).await.ok(), client.get(&path).await.ok());
}

#[tokio::test]
async fn only_what_is_wanted_counts_as_a_generation() {
    let client = serving(with_parts()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let path = format!("{WIDGETS}/a");
    let changed =
        client.patch("merge", &format!("{path}/status"), json!({"status": {"phase": "on"}})).await.ok();
    assert_eq!(changed["metadata"]["generation"], 1);
    let changed = client.patch("merge", &path, json!({"spec": {"size": 2}})).await.ok();
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[tokio::test]
async fn the_status_is_held_to_its_schema() {
    let client = serving(with_parts()).await;
    let created = client.post(WIDGETS, widget("a", 1)).await.created();
    let path = format!("{WIDGETS}/a/status");
    client.patch("merge", &path, json!({"status": {"phase": 5}})).await.refused(422, "Invalid");
    let mut next = created;
    next["status"] = json!({"phase": "on", "bogus": 1});
    let updated = client.put(&path, next).await.ok();
    assert_eq!(updated["status"], json!({"phase": "on"}));
    assert_eq!(updated["metadata"]["managedFields"][1]["subresource"], "status");
}

#[tokio::test]
async fn a_kind_without_subresources_has_no_such_paths() {
    let client = serving(widgets()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    for sub in ["status", "scale"] {
        client.get(&format!("{WIDGETS}/a/{sub}")).await.refused(404, "NotFound");
    }
    redefine(&client, "widgets.example.com", |spec| {
        spec["versions"][0]["subresources"] = json!({"status": {}});
    })
    .await
    .ok();
    client.get(&format!("{WIDGETS}/a/status")).await.ok();
}

#[tokio::test]
async fn a_custom_kind_is_scaled_like_any_other() {
    let client = serving(with_parts()).await;
    let mut made = widget("a", 1);
    made["spec"]["replicas"] = 3.into();
    client.post(WIDGETS, made).await.created();
    let path = format!("{WIDGETS}/a");
    let status = json!({"status": {"replicas": 2, "selector": "app=a"}});
    client.patch("merge", &format!("{path}/status"), status).await.ok();
    let scale = client.get(&format!("{path}/scale")).await.ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["spec"], json!({"replicas": 3}));
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "app=a"}));
    let mut next = scale.clone();
    next["spec"]["replicas"] = 5.into();
    assert_eq!(client.put(&format!("{path}/scale"), next).await.ok()["spec"]["replicas"], 5);
    let scaled = client.get(&path).await.ok();
    assert_eq!((&scaled["spec"]["replicas"], &scaled["metadata"]["generation"]), (&json!(5), &json!(2)));
    let patched =
        client.patch("merge", &format!("{path}/scale"), json!({"spec": {"replicas": 6}})).await.ok();
    assert_eq!(patched["spec"]["replicas"], 6);
}

#[tokio::test]
async fn a_scale_is_held_to_the_schema_of_the_object() {
    let client = serving(with_parts()).await;
    let mut made = widget("a", 1);
    made["spec"]["replicas"] = 3.into();
    client.post(WIDGETS, made).await.created();
    let path = format!("{WIDGETS}/a/scale");
    client.patch("merge", &path, json!({"spec": {"replicas": 11}})).await.refused(422, "Invalid");
    client.patch("merge", &path, json!({"spec": {"replicas": -1}})).await.refused(422, "Invalid");
}

#[tokio::test]
async fn an_object_without_replicas_has_no_scale_until_it_is_given_one() {
    let client = serving(with_parts()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let path = format!("{WIDGETS}/a/scale");
    let status = client.get(&path).await.refused(500, "InternalError");
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| text.contains("the spec replicas field \".spec.replicas\" does not exist")),
        "{status}"
    );
    let scale = json!({"metadata": {"name": "a"}, "spec": {"replicas": 4}});
    assert_eq!(client.put(&path, scale).await.ok()["spec"]["replicas"], 4);
    assert_eq!(client.get(&path).await.ok()["spec"]["replicas"], 4);
}

#[tokio::test]
async fn subresources_appear_where_they_are_defined_and_nowhere_else() {
    let client = serving(with(with_parts(), |spec| {
        let mut second = spec["versions"][0].clone();
        second["name"] = "v2".into();
        second["storage"] = false.into();
        second["subresources"] = Value::Null;
        spec["versions"].as_array_mut().expect("versions").push(second);
    }))
    .await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    client.get(&format!("{WIDGETS}/a/status")).await.ok();
    client.get("/apis/example.com/v2/namespaces/default/widgets/a/status").await.refused(404, "NotFound");
    assert!(client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.ok()["spec"]["versions"][1]["subresources"].is_null());
}
