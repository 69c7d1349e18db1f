//! Server-side apply of custom objects: their schemas say how lists and maps are merged.

use serde_json::{Value, json};

use super::{DEFINITIONS, WIDGETS, definition, serving, widgets, with};
use crate::client::{Answer, Client};

fn merged() -> Value {
    with(
        definition(
            "widgets",
            "Widget",
            json!({
                "type": "object",
                "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer"},
                        "colour": {"type": "string", "default": "red"},
                        "note": {"type": "string", "nullable": true},
                        "parts": {
                            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object", "required": ["name"], "properties": {
                                "name": {"type": "string"}, "weight": {"type": "integer"}, "shape": {"type": "string"},
                            }},
                        },
                        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    }},
                    "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                },
            }),
        ),
        |spec| spec["versions"][0]["subresources"] = json!({"status": {}}),
    )
}

async fn apply(client: &Client, manager: &str, path: &str, spec: Value) -> Answer {
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    client.patch("apply", &format!("{path}?fieldManager={manager}"), object).await
}

#[tokio::test]
async fn an_apply_creates_and_does_nothing_the_second_time() {
    let client = serving(merged()).await;
    let path = format!("{WIDGETS}/a");
    let created = apply(&client, "one", &path, json!({"size": 1})).await.created();
    assert_eq!(created["spec"], json!({"size": 1, "colour": "red"}));
    let owned = &created["metadata"]["managedFields"][0];
    assert_eq!(
        (&owned["operation"], &owned["fieldsV1"]),
        (&json!("Apply"), &json!({"f:spec": {"f:size": {}}}))
    );
    let again = apply(&client, "one", &path, json!({"size": 1})).await.ok();
    assert_eq!(again, created);
}

#[tokio::test]
async fn fields_have_owners_and_conflicts() {
    let client = serving(merged()).await;
    let path = format!("{WIDGETS}/a");
    apply(&client, "one", &path, json!({"size": 1, "parts": [{"name": "p", "weight": 1}], "tags": ["x"]}))
        .await
        .created();
    let both = apply(
        &client,
        "two",
        &path,
        json!({"parts": [{"name": "p", "shape": "round"}, {"name": "q"}], "tags": ["y"]}),
    );
    let both = both.await.ok();
    assert_eq!(both["spec"]["parts"], json!([{"name": "p", "weight": 1, "shape": "round"}, {"name": "q"}]));
    assert_eq!(both["spec"]["tags"], json!(["x", "y"]));
    let status = apply(&client, "two", &path, json!({"parts": [{"name": "p", "weight": 2}]}))
        .await
        .refused(409, "Conflict");
    assert_eq!(status["details"]["causes"][0]["field"], ".spec.parts[name=\"p\"].weight");
    // What a manager no longer wants goes, if nobody else wants it.
    let fewer = apply(&client, "two", &path, json!({"tags": ["y"]})).await.ok();
    assert_eq!(fewer["spec"]["parts"], json!([{"name": "p", "weight": 1}]));
    assert_eq!(fewer["spec"]["tags"], json!(["x", "y"]));
}

#[tokio::test]
async fn atomic_maps_have_one_owner_and_free_ones_many() {
    let client = serving(merged()).await;
    let path = format!("{WIDGETS}/a");
    apply(&client, "one", &path, json!({"whole": {"a": "1"}, "free": {"a": {"x": 1}}})).await.created();
    apply(&client, "two", &path, json!({"whole": {"b": "2"}})).await.refused(409, "Conflict");
    let both = apply(&client, "two", &path, json!({"free": {"b": {"y": 2}}})).await.ok();
    assert_eq!(both["spec"]["free"], json!({"a": {"x": 1}, "b": {"y": 2}}));
}

#[tokio::test]
async fn unknown_fields_and_wrong_types_are_refused() {
    let client = serving(merged()).await;
    let path = format!("{WIDGETS}/a");
    let status = apply(&client, "one", &path, json!({"bogus": 1})).await.refused(500, "");
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| text.contains(".spec.bogus: field not declared in schema")),
        "{status}"
    );
    apply(&client, "one", &path, json!({"size": "big"})).await.refused(500, "");
    client.get(&path).await.refused(404, "NotFound");
}

#[tokio::test]
async fn what_may_hold_anything_can_be_applied() {
    let open = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "size": {"type": "integer"},
        }}},
    });
    let client = serving(definition("widgets", "Widget", open)).await;
    let path = format!("{WIDGETS}/a");
    let created = apply(&client, "one", &path, json!({"size": 1, "more": {"x": [1]}})).await.created();
    assert_eq!(created["spec"], json!({"size": 1, "more": {"x": [1]}}));
    let both = apply(&client, "two", &path, json!({"more": {"y": 2}})).await.ok();
    assert_eq!(both["spec"], json!({"size": 1, "more": {"x": [1], "y": 2}}));
    apply(&client, "two", &path, json!({"more": {"x": [2]}})).await.refused(409, "Conflict");
    apply(&client, "two", &path, json!({"size": "big"})).await.refused(500, "");
    let less = apply(&client, "one", &path, json!({"size": 1})).await.ok();
    assert_eq!(less["spec"], json!({"size": 1, "more": {"y": 2}}));
}

#[tokio::test]
async fn a_null_that_is_allowed_is_kept() {
    let client = serving(merged()).await;
    let path = format!("{WIDGETS}/a");
    let created = apply(&client, "one", &path, json!({"note": null, "size": 1})).await.created();
    assert_eq!(created["spec"], json!({"note": null, "size": 1, "colour": "red"}));
    let again = apply(&client, "one", &path, json!({"note": null, "size": 1})).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn the_status_is_applied_apart() {
    let client = serving(merged()).await;
    let path = format!("{WIDGETS}/a");
    apply(&client, "one", &path, json!({"size": 1})).await.created();
    let status = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"no": "no"}},
        "status": {"phase": "on"}, "spec": {"size": 9},
    });
    let applied = client.patch("apply", &format!("{path}/status?fieldManager=controller"), status).await.ok();
    assert_eq!((&applied["status"]["phase"], &applied["spec"]["size"]), (&json!("on"), &json!(1)));
    assert_eq!(applied["metadata"]["labels"], Value::Null);
    assert_eq!(applied["metadata"]["generation"], 1);
}

#[tokio::test]
async fn a_manager_stays_the_same_in_all_versions() {
    let client = serving(with(merged(), |spec| {
        let mut second = spec["versions"][0].clone();
        second["name"] = "v2".into();
        second["storage"] = false.into();
        spec["versions"].as_array_mut().expect("versions").push(second);
    }))
    .await;
    let path = format!("{WIDGETS}/a");
    apply(&client, "one", &path, json!({"size": 1, "tags": ["x"]})).await.created();
    let newer = json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"tags": ["x"]}});
    let other = "/apis/example.com/v2/namespaces/default/widgets/a?fieldManager=one";
    let applied = client.patch("apply", other, newer).await.ok();
    assert_eq!(applied["spec"], json!({"tags": ["x"], "colour": "red"}), "what it gave up is gone");
    let managers = applied["metadata"]["managedFields"].as_array().expect("managers");
    assert_eq!((managers.len(), &managers[0]["apiVersion"]), (1, &json!("example.com/v2")));
}

#[tokio::test]
async fn definitions_are_applied_too() {
    let client = Client::new().await;
    let path = format!("{DEFINITIONS}/widgets.example.com?fieldManager=kubectl");
    client.patch("apply", &path, widgets()).await.created();
    assert_eq!(client.get(WIDGETS).await.code, 200);
    let before = client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.ok();
    let again = client.patch("apply", &path, widgets()).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    let renamed = with(widgets(), |spec| spec["names"]["shortNames"] = json!(["wd"]));
    client.patch("apply", &path, renamed).await.ok();
    assert_eq!(client.get("/apis/example.com/v1").await.ok()["resources"][0]["shortNames"], json!(["wd"]));
}
