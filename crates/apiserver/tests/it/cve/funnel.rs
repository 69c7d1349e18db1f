//! Ways to write that someone has forgotten to guard.

use serde_json::{Value, json};

use crate::{
    admission::{Reviewer, VALIDATING, path, rule},
    client::{CONFIG_MAPS, Client, PODS, deployment, pod},
    custom::{DEFINITIONS, widgets},
};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A server with one of everything, whose every write is refused by a webhook from now on.
async fn refusing() -> (Client, Reviewer) {
    let client = Client::new().await;
    let mut definition = widgets();
    definition["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}});
    client.post(DEFINITIONS, definition).await.created();
    client.post(PODS, pod("p")).await.created();
    client.post(DEPLOYMENTS, deployment("d")).await.created();
    client.config_map("c", json!({"k": "v"})).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}});
    client.post(WIDGETS, widget).await.created();
    let reviewer = Reviewer::start(
        |_| json!({"allowed": false, "status": {"message": "nothing is let through", "code": 403}}),
    )
    .await;
    let all = json!({"rules": [rule("*", &["*", "*/*"], &["*"])], "failurePolicy": "Fail"});
    client.configure(VALIDATING, "all", vec![reviewer.webhook("all.example.com", all)]).await;
    (client, reviewer)
}

#[tokio::test]
async fn cve_2023_2727_every_way_to_write_goes_through_admission() {
    let (client, reviewer) = refusing().await;
    let ephemeral = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}});
    let widget = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 2}});
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": "w"}});
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let live = |path: String| {
        let client = client.clone();
        async move { client.get(&path).await.ok() }
    };
    let config_map = live(format!("{CONFIG_MAPS}/c")).await;
    let deployment = live(format!("{DEPLOYMENTS}/d")).await;
    let mut changed = config_map.clone();
    changed["data"]["k"] = "changed".into();
    let revision = client.revision().await;
    let merge = "application/merge-patch+json";
    let json_ = "application/json";
    let ways: Vec<(&str, String, &str, Value)> = vec![
        ("POST", CONFIG_MAPS.into(), json_, json!({"metadata": {"name": "new"}})),
        ("POST", CONFIG_MAPS.into(), json_, json!({"metadata": {"generateName": "new-"}})),
        ("PUT", format!("{CONFIG_MAPS}/c"), json_, changed),
        ("PATCH", format!("{CONFIG_MAPS}/c"), merge, json!({"data": {"k": "w"}})),
        (
            "PATCH",
            format!("{CONFIG_MAPS}/c"),
            "application/strategic-merge-patch+json",
            json!({"data": {"k": "w"}}),
        ),
        (
            "PATCH",
            format!("{CONFIG_MAPS}/c"),
            "application/json-patch+json",
            json!([{"op": "remove", "path": "/data/k"}]),
        ),
        ("PATCH", format!("{CONFIG_MAPS}/x?fieldManager=m"), "application/apply-patch+yaml", applied.clone()),
        (
            "PATCH",
            format!("{CONFIG_MAPS}/c?fieldManager=m&force=true"),
            "application/apply-patch+yaml",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "w"}}),
        ),
        ("DELETE", format!("{CONFIG_MAPS}/c"), json_, json!({})),
        ("DELETE", format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dc"), json_, json!({})),
        (
            "PATCH",
            format!("{PODS}/p/ephemeralcontainers"),
            "application/strategic-merge-patch+json",
            ephemeral,
        ),
        ("PATCH", format!("{PODS}/p/status"), merge, json!({"status": {"phase": "Running"}})),
        ("PATCH", format!("{PODS}/p/resize"), merge, json!({"metadata": {"labels": {"a": "b"}}})),
        ("POST", format!("{PODS}/p/binding"), json_, binding.clone()),
        ("POST", format!("{PODS}/p/eviction"), json_, eviction),
        ("POST", format!("{PODS}/p/exec?command=sh"), json_, json!({})),
        ("DELETE", format!("{PODS}/p"), json_, json!({"gracePeriodSeconds": 0})),
        ("PATCH", format!("{DEPLOYMENTS}/d/scale"), merge, json!({"spec": {"replicas": 5}})),
        ("PUT", format!("{DEPLOYMENTS}/d/status"), json_, deployment),
        (
            "PATCH",
            format!("{DEPLOYMENTS}/d"),
            merge,
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        ),
        ("POST", WIDGETS.into(), json_, widget("new")),
        ("PATCH", format!("{WIDGETS}/w"), merge, json!({"spec": {"size": 3}})),
        ("PATCH", format!("{WIDGETS}/w/status"), merge, json!({"status": {"phase": "a"}})),
        ("PATCH", format!("{WIDGETS}/w/scale"), merge, json!({"spec": {"replicas": 3}})),
        ("DELETE", format!("{WIDGETS}/w"), json_, json!({})),
        ("POST", "/api/v1/namespaces".into(), json_, json!({"metadata": {"name": "n"}})),
        ("POST", "/api/v1/namespaces/default/secrets".into(), json_, json!({"metadata": {"name": "s"}})),
        ("DELETE", format!("{DEFINITIONS}/widgets.example.com"), json_, json!({})),
    ];
    for (method, path, media, body) in ways {
        reviewer.asked();
        let answer = client.send(method, &path, &[("content-type", media)], body.to_string()).await;
        assert_eq!(answer.code, 403, "{method} {path} {media}: {}", answer.text());
        assert!(answer.text().contains("nothing is let through"), "{method} {path}: {}", answer.text());
        assert_eq!(reviewer.asked().len(), 1, "{method} {path}: asked once");
    }
    let after = client.revision().await;
    assert_eq!(after, revision, "nothing was written");
    // What decides about admission is not admitted, or nobody could take it away.
    client.delete(&format!("{}/all", path(VALIDATING)), Value::Null).await.ok();
}

#[tokio::test]
async fn cve_2021_25735_admission_sees_the_object_as_it_is_and_as_it_shall_be() {
    let client = Client::new().await;
    let node = json!({"metadata": {"name": "n", "labels": {"zone": "a"}}, "spec": {"unschedulable": true}});
    client.post("/api/v1/nodes", node).await.created();
    let reviewer = Reviewer::agreeable().await;
    let nodes = json!({"rules": [rule("", &["nodes", "nodes/*"], &["*"])]});
    client.configure(VALIDATING, "nodes", vec![reviewer.webhook("nodes.example.com", nodes)]).await;
    let one = "/api/v1/nodes/n";
    let mut whole = client.get(one).await.ok();
    whole["metadata"]["labels"]["zone"] = "b".into();
    whole["spec"]["unschedulable"] = json!(null);
    // What the client says about the past is not what it was.
    whole["metadata"]["uid"] = json!(null);
    client.put(one, whole).await.ok();
    let asked = reviewer.asked();
    assert_eq!(asked.len(), 1);
    let (old, new) = (&asked[0]["oldObject"], &asked[0]["object"]);
    assert_eq!(
        (&old["metadata"]["labels"]["zone"], &new["metadata"]["labels"]["zone"]),
        (&json!("a"), &json!("b"))
    );
    assert_eq!((&old["spec"]["unschedulable"], new["spec"].get("unschedulable")), (&json!(true), None));
    assert_eq!(old["metadata"]["uid"], new["metadata"]["uid"]);
    for (kind, path, patch) in [
        ("merge", one.to_owned(), json!({"metadata": {"labels": {"zone": "c"}}})),
        ("strategic", one.to_owned(), json!({"metadata": {"labels": {"zone": "d"}}})),
        ("json", one.to_owned(), json!([{"op": "replace", "path": "/metadata/labels/zone", "value": "e"}])),
    ] {
        let before = client.get(one).await.ok();
        let after = client.patch(kind, &path, patch).await.ok();
        let asked = reviewer.asked();
        assert_eq!(asked[0]["oldObject"]["metadata"]["labels"], before["metadata"]["labels"], "{kind}");
        assert_eq!(asked[0]["object"]["metadata"]["labels"], after["metadata"]["labels"], "{kind}");
    }
    client.delete(one, Value::Null).await.ok();
    let asked = reviewer.asked();
    assert_eq!(
        (&asked[0]["oldObject"]["metadata"]["labels"]["zone"], &asked[0]["object"]),
        (&json!("e"), &Value::Null)
    );
}

#[tokio::test]
async fn cve_2025_4563_what_is_checked_on_change_is_checked_on_creation() {
    let client = Client::new().await;
    let strict =
        json!({"metadata": {"name": "strict", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    client.post("/api/v1/namespaces", strict).await.created();
    let account = json!({"metadata": {"name": "default"}});
    client.post("/api/v1/namespaces/strict/serviceaccounts", account).await;
    let pods = "/api/v1/namespaces/strict/pods";
    let privileged = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": true}}]}});
    client.post(pods, privileged("a")).await.refused(403, "Forbidden");
    client.post(&format!("{pods}?dryRun=All"), privileged("a")).await.refused(403, "Forbidden");
    let mut whole = privileged("b");
    whole["apiVersion"] = "v1".into();
    whole["kind"] = "Pod".into();
    client.patch("apply", &format!("{pods}/b?fieldManager=m"), whole).await.refused(403, "Forbidden");
    // And through the part that adds containers to what runs already.
    client.post(pods, pod("c")).await.created();
    let container = json!({"name": "e", "image": "i", "securityContext": {"privileged": true}});
    let patch = json!({"spec": {"ephemeralContainers": [container]}});
    for kind in ["strategic", "merge"] {
        client
            .patch(kind, &format!("{pods}/c/ephemeralcontainers"), patch.clone())
            .await
            .refused(403, "Forbidden");
    }
    let left = client.get(pods).await.ok();
    assert_eq!(crate::client::names(&left), ["c"]);
}
