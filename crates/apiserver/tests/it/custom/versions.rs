//! Several versions without a webhook: only the name changes, and each has its own schema.

use serde_json::{Value, json};

use super::{
    super::client::names, DEFINITIONS, WIDGETS, condition, definition, redefine, serving, widget, widgets,
    with,
};

const OLD: &str = "/apis/example.com/v1beta1/namespaces/default/widgets";

fn schema(fields: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
}

/// Widgets in two versions, stored in the newer one.
fn two() -> Value {
    with(definition("widgets", "Widget", Value::Null), |spec| {
        spec["versions"] = json!([
            {
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema(json!({
                    "size": {"type": "integer"}, "colour": {"type": "string", "default": "red"},
                }))},
                "selectableFields": [{"jsonPath": ".spec.colour"}],
                "additionalPrinterColumns": [{"name": "Colour", "type": "string", "jsonPath": ".spec.colour"}],
            },
            {
                "name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                "schema": {"openAPIV3Schema": schema(json!({
                    "size": {"type": "integer"}, "shade": {"type": "string", "default": "dark"},
                }))},
            },
        ]);
    })
}

fn old(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn an_object_is_shown_in_every_version() {
    let client = serving(two()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let new = client.get(&format!("{WIDGETS}/a")).await.ok();
    assert_eq!(
        (&new["apiVersion"], &new["spec"]),
        (&json!("example.com/v1"), &json!({"size": 1, "colour": "red"}))
    );
    let shown = client.get(&format!("{OLD}/a")).await.ok();
    assert_eq!((&shown["apiVersion"], &shown["spec"]), (&json!("example.com/v1beta1"), &json!({"size": 1})));
    assert_eq!(shown["metadata"]["uid"], new["metadata"]["uid"]);
    let list = client.get(OLD).await.ok();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("example.com/v1beta1"), &json!("WidgetList")));
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1beta1");
}

#[tokio::test]
async fn what_the_stored_version_does_not_have_is_lost() {
    let client = serving(two()).await;
    let created = client.post(OLD, old("a", json!({"size": 2, "shade": "light"}))).await.created();
    assert_eq!(created["apiVersion"], "example.com/v1beta1");
    assert_eq!(created["spec"], json!({"size": 2}), "the stored version knows no shades");
    assert_eq!(client.get(&format!("{WIDGETS}/a")).await.ok()["spec"], json!({"size": 2, "colour": "red"}));
}

#[tokio::test]
async fn a_request_is_held_to_the_schema_of_its_version() {
    let client = serving(two()).await;
    let mut odd = old("a", json!({"size": 1, "colour": "blue"}));
    let answer = client.post(OLD, odd.clone()).await;
    answer.created();
    assert!(
        answer.warnings().contains(&"unknown field \"spec.colour\"".to_owned()),
        "{:?}",
        answer.warnings()
    );
    odd["spec"]["size"] = "big".into();
    client.post(OLD, odd).await.refused(422, "Invalid");
}

#[tokio::test]
async fn an_update_in_one_version_is_seen_in_the_other() {
    let client = serving(two()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let mut shown = client.get(&format!("{OLD}/a")).await.ok();
    shown["spec"]["size"] = 5.into();
    let updated = client.put(&format!("{OLD}/a"), shown).await.ok();
    assert_eq!(updated["metadata"]["generation"], 2);
    let mut watch = client.watch(&format!("{OLD}?watch=true"), &[]).await;
    let first = watch.next().await.expect("the state");
    assert_eq!(
        (&first["object"]["apiVersion"], &first["object"]["spec"]["size"]),
        (&json!("example.com/v1beta1"), &json!(5))
    );
    client.patch("merge", &format!("{WIDGETS}/a"), json!({"spec": {"size": 6}})).await.ok();
    let next = watch.next().await.expect("a change");
    assert_eq!(
        (&next["type"], &next["object"]["apiVersion"]),
        (&json!("MODIFIED"), &json!("example.com/v1beta1"))
    );
    assert_eq!(next["object"]["spec"]["size"], 6);
    client.delete(&format!("{WIDGETS}/a"), Value::Null).await.ok();
    let last = watch.next().await.expect("a change");
    assert_eq!(
        (&last["type"], &last["object"]["apiVersion"]),
        (&json!("DELETED"), &json!("example.com/v1beta1"))
    );
}

#[tokio::test]
async fn whoever_uses_a_deprecated_version_is_told() {
    let client = serving(two()).await;
    let answer = client.get(OLD).await;
    assert_eq!(answer.warnings(), ["example.com/v1beta1 Widget is deprecated"]);
    assert_eq!(client.get(WIDGETS).await.warnings(), [""; 0]);
    redefine(&client, "widgets.example.com", |spec| {
        spec["versions"][1]["deprecationWarning"] = "use v1".into();
    })
    .await
    .ok();
    assert_eq!(client.post(OLD, old("a", json!({}))).await.warnings(), ["use v1"]);
}

#[tokio::test]
async fn the_version_that_is_stored_can_change() {
    let client = serving(two()).await;
    client.post(WIDGETS, widget("before", 1)).await.created();
    redefine(&client, "widgets.example.com", |spec| {
        spec["versions"][0]["storage"] = false.into();
        spec["versions"][1]["storage"] = true.into();
    })
    .await
    .ok();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    assert_eq!(client.get(&path).await.ok()["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    client.post(OLD, old("after", json!({"size": 2, "shade": "light"}))).await.created();
    for (place, version) in [(WIDGETS, "example.com/v1"), (OLD, "example.com/v1beta1")] {
        let list = client.get(place).await.ok();
        assert_eq!(names(&list), ["after", "before"]);
        let items = list["items"].as_array().expect("items");
        assert!(items.iter().all(|item| item["apiVersion"] == version), "{list}");
    }
    assert_eq!(client.get(&format!("{OLD}/after")).await.ok()["spec"], json!({"size": 2, "shade": "light"}));
    // A version that objects are stored in cannot be dropped.
    redefine(&client, "widgets.example.com", |spec| {
        spec["versions"].as_array_mut().map(|versions| versions.remove(0));
    })
    .await
    .refused(422, "Invalid");
    // Once nothing is stored in it, it can.
    let before = client.get(&format!("{OLD}/before")).await.ok();
    client.put(&format!("{OLD}/before"), before).await.ok();
    client
        .patch("merge", &format!("{path}/status"), json!({"status": {"storedVersions": ["v1beta1"]}}))
        .await
        .ok();
    redefine(&client, "widgets.example.com", |spec| {
        spec["versions"].as_array_mut().map(|versions| versions.remove(0));
    })
    .await
    .ok();
    client.get(WIDGETS).await.refused(404, "NotFound");
    assert_eq!(names(&client.get(OLD).await.ok()), ["after", "before"]);
}

#[tokio::test]
async fn objects_stored_in_several_versions_go_with_their_definition() {
    let client = serving(two()).await;
    client.post(WIDGETS, widget("before", 1)).await.created();
    redefine(&client, "widgets.example.com", |spec| {
        spec["versions"][0]["storage"] = false.into();
        spec["versions"][0]["served"] = false.into();
        spec["versions"][1]["storage"] = true.into();
    })
    .await
    .ok();
    client.post(OLD, old("after", json!({}))).await.created();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    client.delete(&path, Value::Null).await.ok();
    super::eventually("the definition goes", async || client.get(&path).await.code == 404).await;
}

#[tokio::test]
async fn fields_are_selected_by_where_a_version_says_so() {
    let client = serving(two()).await;
    for (name, colour) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut made = widget(name, 1);
        made["spec"]["colour"] = colour.into();
        client.post(WIDGETS, made).await.created();
    }
    let select = |selector: &str| format!("{WIDGETS}?fieldSelector={selector}");
    assert_eq!(names(&client.get(&select("spec.colour=red")).await.ok()), ["a", "c"]);
    assert_eq!(names(&client.get(&select("spec.colour!=red")).await.ok()), ["b"]);
    assert_eq!(names(&client.get(&select("metadata.name=b,spec.colour=blue")).await.ok()), ["b"]);
    let status = client.get(&select("spec.size=1")).await.refused(400, "BadRequest");
    assert_eq!(status["message"], "field label not supported: spec.size");
    client.get(&format!("{OLD}?fieldSelector=spec.colour=red")).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn a_watch_by_field_sees_objects_enter_and_leave() {
    let client = serving(two()).await;
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true&fieldSelector=spec.colour=blue"), &[]).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let path = format!("{WIDGETS}/a");
    client.patch("merge", &path, json!({"spec": {"colour": "blue"}})).await.ok();
    assert_eq!(watch.step().await, ("ADDED".into(), "a".into()));
    client.patch("merge", &path, json!({"spec": {"colour": "red"}})).await.ok();
    assert_eq!(watch.step().await, ("DELETED".into(), "a".into()));
}

#[tokio::test]
async fn tables_have_the_columns_of_their_version() {
    let client = serving(two()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let shown = client.send("GET", WIDGETS, &table, "").await.ok();
    let columns = |table: &Value| -> Vec<String> {
        let columns = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
        columns.iter().map(|column| column["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(columns(&shown), ["Name", "Colour"]);
    assert_eq!(shown["rows"][0]["cells"], json!(["a", "red"]));
    let shown = client.send("GET", OLD, &table, "").await.ok();
    assert_eq!(columns(&shown), ["Name", "Age"]);
}

#[tokio::test]
async fn the_preferred_version_is_the_most_mature() {
    let client = serving(with(widgets(), |spec| {
        let first = spec["versions"][0].clone();
        let version = |name: &str| {
            let mut version = first.clone();
            version["name"] = name.into();
            version["storage"] = (name == "v1alpha1").into();
            version
        };
        spec["versions"] = json!([version("v1alpha1"), version("v1"), version("v2beta1"), version("v2")]);
    }))
    .await;
    let group = client.get("/apis/example.com").await.ok();
    assert_eq!(group["preferredVersion"]["version"], "v2");
    let versions: Vec<&str> = group["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|version| version["version"].as_str())
        .collect();
    assert_eq!(versions, ["v2", "v1", "v2beta1", "v1alpha1"]);
    let stored = client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.ok();
    assert_eq!(condition(&stored, "Established").map(|found| found.0), Some("True".into()));
}
