//! LimitRanges on pods and claims.

use serde_json::json;

use super::*;
use crate::admission::rehearsal::{World, object};

fn range(name: &str, limits: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": name, "namespace": "ns"}, "spec": {"limits": limits},
    })
}

fn pod(containers: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": containers},
    })
}

async fn refusal(limits: Value, plural: &str, object: Value) -> Option<String> {
    let world = World::new();
    world.put("limitranges", &range("r", limits)).await;
    world.create(&LimitRanger, plural, object).await.err()
}

#[tokio::test]
async fn what_containers_do_not_say_is_filled_in_and_noted() {
    let world = World::new();
    let defaults = json!([{
        "type": "Container",
        "default": {"cpu": "500m", "memory": "1Gi"}, "defaultRequest": {"memory": "1Gi", "cpu": "100m"},
    }]);
    world.put("limitranges", &range("r", defaults)).await;
    let mut sent = pod(json!([
        {"name": "x"},
        {"name": "y", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "2Gi"}}},
    ]));
    sent["spec"]["initContainers"] = json!([{"name": "i"}]);
    let created = world.create(&LimitRanger, "pods", sent).await.expect("it is allowed");
    let resources =
        |at: &str| created.pointer(&format!("/spec/{at}/resources")).expect("they are there").clone();
    let filled =
        json!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "500m", "memory": "1Gi"}});
    assert_eq!(resources("containers/0"), filled);
    assert_eq!(resources("initContainers/0"), filled);
    let kept = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}});
    assert_eq!(resources("containers/1"), kept);
    assert_eq!(
        created["metadata"]["annotations"][ANNOTATION],
        "LimitRanger plugin set: cpu, memory request for container x; cpu, memory limit for container x; \
         memory request for container y; cpu, memory request for init container i; \
         cpu, memory limit for init container i"
    );
}

#[tokio::test]
async fn a_pod_that_says_everything_is_left_alone() {
    let world = World::new();
    world.put("limitranges", &range("r", json!([{"type": "Container", "default": {"cpu": "1"}}]))).await;
    let sent = pod(json!([{"name": "x", "resources": {"limits": {"cpu": "2"}}}]));
    assert_eq!(world.create(&LimitRanger, "pods", sent.clone()).await, Ok(sent));
}

#[tokio::test]
async fn bounds_are_kept_by_containers_pods_and_claims() {
    let asks = |request: &str, limit: &str| json!([{"name": "c", "resources": {"requests": {"cpu": request}, "limits": {"cpu": limit}}}]);
    let bare = json!([{"name": "c"}]);
    let two = json!([
        {"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b", "resources": {"limits": {"cpu": "1"}}},
    ]);
    for (limit, containers, why) in [
        (
            json!({"type": "Container", "max": {"cpu": "500m"}}),
            asks("100m", "1"),
            Some("maximum cpu usage per Container is 500m, but limit is 1"),
        ),
        (json!({"type": "Container", "max": {"cpu": "500m"}}), asks("100m", "0.5"), None),
        (
            json!({"type": "Container", "max": {"cpu": "500m"}}),
            asks("600m", "500m"),
            Some("maximum cpu usage per Container is 500m, but request is 600m"),
        ),
        (
            json!({"type": "Container", "max": {"cpu": "500m"}}),
            bare.clone(),
            Some("maximum cpu usage per Container is 500m.  No limit is specified"),
        ),
        (
            json!({"type": "Container", "min": {"cpu": "500m"}}),
            asks("100m", "1"),
            Some("minimum cpu usage per Container is 500m, but request is 100m"),
        ),
        (
            json!({"type": "Container", "min": {"cpu": "500m"}}),
            bare.clone(),
            Some("minimum cpu usage per Container is 500m.  No request is specified"),
        ),
        (
            json!({"type": "Container", "min": {"memory": "1Gi"}, "max": {"cpu": "500m"}}),
            asks("1", "1"),
            Some(
                "[minimum memory usage per Container is 1Gi.  No request is specified, \
                  maximum cpu usage per Container is 500m, but limit is 1]",
            ),
        ),
        (
            json!({"type": "Pod", "max": {"cpu": "1500m"}}),
            two,
            Some("maximum cpu usage per Pod is 1500m, but limit is 2"),
        ),
        (json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}), asks("500m", "1"), None),
        (
            json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
            asks("400m", "1"),
            Some("cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000"),
        ),
        (
            json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
            bare,
            Some(
                "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
            ),
        ),
    ] {
        let why = why.map(|why| format!("pods \"p\" is forbidden: {why}"));
        assert_eq!(refusal(json!([limit]), "pods", pod(containers)).await, why, "{limit}");
    }
    let claim = |storage: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "d", "namespace": "ns"},
            "spec": {"resources": {"requests": {"storage": storage}}},
        })
    };
    let limits =
        json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}]);
    for (storage, why) in [
        ("1Gi", None),
        ("2Gi", None),
        ("1Mi", Some("minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi")),
        ("3Gi", Some("maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi")),
    ] {
        let why = why.map(|why| format!("persistentvolumeclaims \"d\" is forbidden: {why}"));
        assert_eq!(refusal(limits.clone(), "persistentvolumeclaims", claim(storage)).await, why);
    }
}

#[tokio::test]
async fn updates_of_pods_and_other_namespaces_are_not_looked_at() {
    let world = World::new();
    world.put("limitranges", &range("r", json!([{"type": "Container", "max": {"cpu": "1"}}]))).await;
    let sent = pod(json!([{"name": "x"}]));
    world.put("pods", &sent).await;
    assert_eq!(world.update(&LimitRanger, "pods", None, sent.clone()).await, Ok(sent.clone()));
    let mut elsewhere = sent;
    elsewhere["metadata"]["namespace"] = "other".into();
    assert_eq!(world.create(&LimitRanger, "pods", elsewhere.clone()).await, Ok(elsewhere.clone()));
    assert!(object(&elsewhere).contains_key("spec"));
}
