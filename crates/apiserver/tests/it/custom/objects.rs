//! Custom objects are objects: the verbs do with them what they do with all others.

use serde_json::{Value, json};

use super::{
    super::client::{Client, names, revision_of},
    DEFINITIONS, WIDGETS, definition, redefine, serving, widget, widgets, with,
};

#[tokio::test]
async fn an_object_is_created_with_its_defaults_and_counted() {
    let client = serving(widgets()).await;
    let created = client.post(WIDGETS, widget("a", 3)).await.created();
    assert_eq!(created["spec"], json!({"size": 3, "colour": "red"}));
    assert_eq!((&created["apiVersion"], &created["kind"]), (&json!("example.com/v1"), &json!("Widget")));
    let metadata = &created["metadata"];
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["namespace"], "default");
    assert!(metadata["uid"].is_string() && metadata["creationTimestamp"].is_string());
    assert_eq!(metadata["managedFields"][0]["apiVersion"], "example.com/v1");
    assert_eq!(client.get(&format!("{WIDGETS}/a")).await.ok(), created);
}

#[tokio::test]
async fn generation_counts_changes_of_anything_but_metadata() {
    let client = serving(widgets()).await;
    let path = format!("{WIDGETS}/a");
    client.post(WIDGETS, widget("a", 3)).await.created();
    let labelled = client.patch("merge", &path, json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    assert_eq!(labelled["metadata"]["generation"], 1);
    let resized = client.patch("merge", &path, json!({"spec": {"size": 4}})).await.ok();
    assert_eq!(resized["metadata"]["generation"], 2);
    // Without a subresource, the status is a field like any other.
    let status = client.patch("merge", &path, json!({"status": {"phase": "on"}})).await.ok();
    assert_eq!((&status["metadata"]["generation"], &status["status"]["phase"]), (&json!(3), &json!("on")));
}

#[tokio::test]
async fn an_update_needs_the_revision_it_replaces() {
    let client = serving(widgets()).await;
    let created = client.post(WIDGETS, widget("a", 3)).await.created();
    let path = format!("{WIDGETS}/a");
    let status = client.put(&path, widget("a", 4)).await.refused(422, "Invalid");
    assert!(
        status["message"].as_str().is_some_and(|text| text.contains("must be specified for an update")),
        "{status}"
    );
    let mut next = created.clone();
    next["spec"]["size"] = 4.into();
    let updated = client.put(&path, next.clone()).await.ok();
    assert!(revision_of(&updated) > revision_of(&created));
    client.put(&path, next).await.refused(409, "Conflict");
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let client = serving(widgets()).await;
    let created = client.post(WIDGETS, widget("a", 3)).await.created();
    let same = client.put(&format!("{WIDGETS}/a"), created.clone()).await.ok();
    assert_eq!(revision_of(&same), revision_of(&created));
}

#[tokio::test]
async fn json_and_merge_patches_are_applied_and_checked() {
    let client = serving(widgets()).await;
    client.post(WIDGETS, widget("a", 3)).await.created();
    let path = format!("{WIDGETS}/a");
    let patched =
        client.patch("json", &path, json!([{"op": "replace", "path": "/spec/size", "value": 5}])).await.ok();
    assert_eq!(patched["spec"]["size"], 5);
    let patched = client.patch("merge", &path, json!({"spec": {"colour": null, "size": 6}})).await.ok();
    assert_eq!(patched["spec"], json!({"size": 6, "colour": "red"}), "what is removed gets its default");
    client.patch("merge", &path, json!({"spec": {"size": 0}})).await.refused(422, "Invalid");
    client.patch("merge", &path, json!({"spec": {"size": null}})).await.refused(422, "Invalid");
}

#[tokio::test]
async fn strategic_merge_patches_are_refused() {
    let client = serving(widgets()).await;
    client.post(WIDGETS, widget("a", 3)).await.created();
    let refused = client.patch("strategic", &format!("{WIDGETS}/a"), json!({"spec": {"size": 5}})).await;
    let status = refused.refused(415, "UnsupportedMediaType");
    assert_eq!(
        status["message"],
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    );
}

#[tokio::test]
async fn bodies_come_in_json_and_yaml_but_not_in_protobuf() {
    let client = serving(widgets()).await;
    let yaml = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 2}}";
    client.send("POST", WIDGETS, &[("content-type", "application/yaml")], yaml).await.created();
    let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];
    client.send("POST", WIDGETS, &protobuf, "k8s\0").await.refused(415, "UnsupportedMediaType");
}

#[tokio::test]
async fn the_kind_and_version_in_the_body_must_be_those_of_the_path() {
    let client = serving(widgets()).await;
    let mut other = widget("a", 1);
    other["kind"] = "Gadget".into();
    client.post(WIDGETS, other).await.refused(400, "BadRequest");
    let mut other = widget("a", 1);
    other["apiVersion"] = "example.com/v2".into();
    client.post(WIDGETS, other).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn cluster_wide_kinds_have_no_namespace() {
    let client = serving(with(widgets(), |spec| spec["scope"] = "Cluster".into())).await;
    let created = client.post("/apis/example.com/v1/widgets", widget("a", 1)).await.created();
    assert_eq!(created["metadata"]["namespace"], Value::Null);
    client.get(WIDGETS).await.refused(404, "NotFound");
    assert_eq!(client.get("/apis/example.com/v1/widgets/a").await.code, 200);
}

#[tokio::test]
async fn objects_are_listed_in_pages_and_by_labels() {
    let client = serving(widgets()).await;
    for n in 0..7 {
        let mut made = widget(&format!("w{n}"), 1);
        made["metadata"]["labels"] = json!({"odd": (n % 2 == 1).to_string()});
        client.post(WIDGETS, made).await.created();
    }
    assert_eq!(
        names(&client.get(&format!("{WIDGETS}?labelSelector=odd=true")).await.ok()),
        ["w1", "w3", "w5"]
    );
    let first = client.get(&format!("{WIDGETS}?limit=3")).await.ok();
    assert_eq!(names(&first), ["w0", "w1", "w2"]);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let second = client.get(&format!("{WIDGETS}?limit=3&continue={token}")).await.ok();
    assert_eq!(names(&second), ["w3", "w4", "w5"]);
    let everywhere = client.get("/apis/example.com/v1/widgets").await.ok();
    assert_eq!(names(&everywhere).len(), 7);
}

#[tokio::test]
async fn a_collection_is_deleted_with_one_request() {
    let client = serving(widgets()).await;
    for n in 0..5 {
        client.post(WIDGETS, widget(&format!("w{n}"), 1)).await.created();
    }
    client.delete(WIDGETS, Value::Null).await.ok();
    assert_eq!(names(&client.get(WIDGETS).await.ok()), [""; 0]);
}

#[tokio::test]
async fn finalizers_keep_a_deleted_object() {
    let client = serving(widgets()).await;
    let mut held = widget("a", 1);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(WIDGETS, held).await.created();
    let path = format!("{WIDGETS}/a");
    let marked = client.delete(&path, Value::Null).await.ok();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["kind"], "Widget");
    client.patch("merge", &path, json!({"metadata": {"finalizers": null}})).await.ok();
    client.get(&path).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_watch_tells_of_changes_and_of_labels_that_no_longer_fit() {
    let client = serving(widgets()).await;
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true&labelSelector=in=yes"), &[]).await;
    let mut made = widget("a", 1);
    made["metadata"]["labels"] = json!({"in": "yes"});
    client.post(WIDGETS, made).await.created();
    assert_eq!(watch.step().await, ("ADDED".into(), "a".into()));
    let path = format!("{WIDGETS}/a");
    client.patch("merge", &path, json!({"spec": {"size": 2}})).await.ok();
    assert_eq!(watch.step().await, ("MODIFIED".into(), "a".into()));
    client.patch("merge", &path, json!({"metadata": {"labels": null}})).await.ok();
    assert_eq!(watch.step().await, ("DELETED".into(), "a".into()));
}

#[tokio::test]
async fn metadata_alone_can_be_asked_for() {
    let client = serving(widgets()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let partial = [("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")];
    let shown = client.send("GET", &format!("{WIDGETS}/a"), &partial, "").await.ok();
    assert_eq!((&shown["kind"], &shown["spec"]), (&json!("PartialObjectMetadata"), &Value::Null));
    assert_eq!(shown["metadata"]["name"], "a");
}

#[tokio::test]
async fn metadata_is_checked_as_that_of_every_object() {
    let client = serving(widgets()).await;
    let mut wrong = widget("a", 1);
    wrong["metadata"]["labels"] = json!({"a": 5});
    client.post(WIDGETS, wrong).await.refused(400, "BadRequest");
    let mut wrong = widget("a", 1);
    wrong["metadata"]["labels"] = json!({"a b": "c"});
    client.post(WIDGETS, wrong).await.refused(422, "Invalid");
    client.post(WIDGETS, widget("Not_A_Name", 1)).await.refused(422, "Invalid");
    let mut generated = widget("", 1);
    generated["metadata"] = json!({"generateName": "w-"});
    let made = client.post(WIDGETS, generated).await.created();
    assert!(made["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("w-") && name.len() == 7));
}

#[tokio::test]
async fn namespaces_and_quotas_hold_for_custom_kinds() {
    let client = serving(widgets()).await;
    client
        .post("/apis/example.com/v1/namespaces/nowhere/widgets", widget("a", 1))
        .await
        .refused(404, "NotFound");
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"count/widgets.example.com": "1"}}});
    client.post("/api/v1/namespaces/default/resourcequotas", quota).await.created();
    client.post(WIDGETS, widget("a", 1)).await.created();
    client.post(WIDGETS, widget("b", 1)).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn objects_stored_by_older_rules_are_shown_by_those_that_hold() {
    let client = serving(widgets()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true"), &[]).await;
    watch.step().await;
    redefine(&client, "widgets.example.com", |spec| {
        let properties =
            &mut spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        properties["weight"] = json!({"type": "integer", "default": 7});
        properties.as_object_mut().and_then(|properties| properties.remove("colour"));
    })
    .await
    .ok();
    let expected = json!({"size": 1, "weight": 7});
    let got = client.get(&format!("{WIDGETS}/a")).await.ok();
    assert_eq!(got["spec"], expected);
    assert_eq!(client.get(WIDGETS).await.ok()["items"][0]["spec"], expected);
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true"), &[]).await;
    assert_eq!(watch.next().await.expect("the state")["object"]["spec"], expected);
    // Whoever writes it back writes it as it is now.
    let written = client.put(&format!("{WIDGETS}/a"), got.clone()).await.ok();
    assert_eq!(written["spec"], expected);
    assert_eq!(client.get(&format!("{WIDGETS}/a")).await.ok(), written);
}

#[tokio::test]
async fn a_kind_without_rules_keeps_everything() {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let client = serving(definition("things", "Thing", open)).await;
    let path = "/apis/example.com/v1/namespaces/default/things";
    let thing = json!({"metadata": {"name": "a"}, "anything": {"goes": [1, "two", null, {"three": 3.5}]}});
    let made = client.post(&format!("{path}?fieldValidation=Strict"), thing.clone()).await.created();
    assert_eq!(made["anything"], thing["anything"]);
    assert_eq!(client.get(&format!("{path}/a")).await.ok()["anything"], thing["anything"]);
}

#[tokio::test]
async fn anonymous_users_see_nothing_of_custom_kinds() {
    let client = serving(widgets()).await;
    client.anonymous().get(WIDGETS).await.refused(403, "Forbidden");
    client.anonymous().get(DEFINITIONS).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn no_request_about_custom_kinds_panics() {
    let client = serving(widgets()).await;
    let odd: [(&str, String); 6] = [
        ("POST", "null".to_owned()),
        ("POST", "[]".to_owned()),
        ("POST", json!({"metadata": {"name": "a"}, "spec": []}).to_string()),
        (
            "POST",
            json!({"metadata": {"name": "a"}, "spec": {"size": 1e300, "parts": [null, 1, {"name": []}]}})
                .to_string(),
        ),
        ("POST", json!({"metadata": [], "status": 7}).to_string()),
        ("POST", format!("{{\"spec\":{}1{}}}", "[".repeat(120), "]".repeat(120))),
    ];
    for (method, body) in odd {
        let answer =
            client.send(method, WIDGETS, &[("content-type", "application/json")], body.clone()).await;
        assert!((400..500).contains(&answer.code), "{body}: {}", answer.code);
    }
    assert_eq!(Client::panics(&client).await, 0);
}
