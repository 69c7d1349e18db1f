//! Scale, binding, eviction, and kinds that are served in several versions or groups.

use serde_json::{Value, json};

use super::client::{Client, PODS, deployment, names, pod};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn with_pods(names: &[&str]) -> Client {
    let client = Client::new().await;
    client
        .post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}))
        .await
        .created();
    for name in names {
        client.post(PODS, pod(name)).await.created();
    }
    client
}

#[tokio::test]
async fn a_scale_shows_and_sets_the_number_of_replicas() {
    let client = Client::new().await;
    client.post(DEPLOYMENTS, deployment("d")).await.created();
    let path = format!("{DEPLOYMENTS}/d/scale");
    let scale = client.get(&path).await.ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(1), &json!("app=d")));
    let mut wanted = scale.clone();
    wanted["spec"]["replicas"] = 3.into();
    assert_eq!(client.put(&path, wanted.clone()).await.ok()["spec"]["replicas"], 3);
    client.put(&path, wanted).await.refused(409, "Conflict");
    assert_eq!(
        client.patch("merge", &path, json!({"spec": {"replicas": 0}})).await.ok()["spec"],
        json!({}),
        "none at all are left out, as Kubernetes has it"
    );
    let jump = json!([{"op": "add", "path": "/spec/replicas", "value": 7}]);
    assert_eq!(client.patch("json", &path, jump).await.ok()["spec"]["replicas"], 7);
    assert_eq!(client.get(&format!("{DEPLOYMENTS}/d")).await.ok()["spec"]["replicas"], 7);
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let client = with_pods(&["p"]).await;
    let binding = json!({"metadata": {"name": "p", "annotations": {"by": "me"}}, "target": {"kind": "Node", "name": "n"}});
    let path = format!("{PODS}/p/binding");
    assert_eq!(client.post(&path, binding.clone()).await.created()["status"], "Success");
    let bound = client.get(&format!("{PODS}/p")).await.ok();
    assert_eq!(
        (&bound["spec"]["nodeName"], &bound["metadata"]["annotations"]["by"]),
        (&json!("n"), &json!("me"))
    );
    let scheduled = bound["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(scheduled.iter().any(|one| one["type"] == "PodScheduled" && one["status"] == "True"), "{bound}");
    let status = client.post(&path, binding).await.refused(409, "Conflict");
    assert!(
        status["message"].as_str().is_some_and(|text| text.contains("is already assigned to node \"n\"")),
        "{status}"
    );
}

#[tokio::test]
async fn an_eviction_spends_the_budget_and_is_refused_when_it_is_spent() {
    let client = with_pods(&["a", "b"]).await;
    for name in ["a", "b"] {
        let labels = json!({"metadata": {"labels": {"app": "web"}}});
        client.patch("merge", &format!("{PODS}/{name}"), labels).await.ok();
        let running =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        client.patch("merge", &format!("{PODS}/{name}/status"), running).await.ok();
    }
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let selector = json!({"matchLabels": {"app": "web"}});
    let budget = json!({"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": selector}});
    client.post(budgets, budget).await.created();
    let evict = async |name: &str| {
        client.post(&format!("{PODS}/{name}/eviction"), json!({"metadata": {"name": name}})).await
    };
    let pending = evict("a").await.refused(429, "TooManyRequests");
    assert_eq!(pending["details"]["causes"][0]["reason"], "DisruptionBudget");
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    }});
    client.patch("merge", &format!("{budgets}/web/status"), status).await.ok();
    evict("a").await.created();
    client.get(&format!("{PODS}/a")).await.refused(404, "NotFound");
    let spent = client.get(&format!("{budgets}/web")).await.ok();
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["a"].is_string());
    let refused = evict("b").await.refused(429, "TooManyRequests");
    assert_eq!(refused["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    client.get(&format!("{PODS}/b")).await.ok();
}

#[tokio::test]
async fn both_groups_of_events_are_one_store() {
    let client = Client::new().await;
    let old = "/api/v1/namespaces/default/events";
    let new = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started", "message": "it runs", "type": "Normal", "source": {"component": "me"},
    });
    client.post(old, event).await.created();
    let seen = client.get(&format!("{new}/e")).await.ok();
    assert_eq!((&seen["apiVersion"], &seen["regarding"]["name"]), (&json!("events.k8s.io/v1"), &json!("p")));
    assert_eq!((&seen["note"], &seen["deprecatedSource"]["component"]), (&json!("it runs"), &json!("me")));
    let event = json!({
        "metadata": {"name": "f"}, "regarding": {"kind": "Pod", "name": "q", "namespace": "default"},
        "reason": "Started", "note": "it ran", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/me", "reportingInstance": "me-1", "action": "Starting",
    });
    client.post(new, event).await.created();
    let seen = client.get(&format!("{old}/f")).await.ok();
    assert_eq!((&seen["involvedObject"]["name"], &seen["message"]), (&json!("q"), &json!("it ran")));
    for (path, field) in [(old, "involvedObject.name"), (new, "regarding.name")] {
        assert_eq!(names(&client.get(&format!("{path}?fieldSelector={field}%3Dq")).await.ok()), ["f"]);
        assert_eq!(names(&client.get(path).await.ok()), ["e", "f"]);
    }
}

#[tokio::test]
async fn an_autoscaler_is_the_same_in_both_versions() {
    let client = Client::new().await;
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let old = json!({"metadata": {"name": "h"}, "spec": {
        "scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5, "targetCPUUtilizationPercentage": 70,
    }});
    client.post(&path("v1"), old).await.created();
    let new = client.get(&format!("{}/h", path("v2"))).await.ok();
    let metric = &new["spec"]["metrics"][0];
    assert_eq!((&metric["type"], &metric["resource"]["name"]), (&json!("Resource"), &json!("cpu")));
    assert_eq!(metric["resource"]["target"], json!({"type": "Utilization", "averageUtilization": 70}));
    let patch = json!({"spec": {"targetCPUUtilizationPercentage": 50}});
    client.patch("merge", &format!("{}/h", path("v1")), patch).await.ok();
    let new = client.get(&format!("{}/h", path("v2"))).await.ok();
    assert_eq!(new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    assert_eq!(new["spec"]["minReplicas"], 2);
    let list: Value = client.get(&path("v1")).await.ok();
    assert_eq!((&list["apiVersion"], names(&list)), (&json!("autoscaling/v1"), vec!["h".to_owned()]));
}
