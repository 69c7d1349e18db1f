//! Creating objects.

use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Client, PODS, deployment, pod, revision_of};

#[tokio::test]
async fn a_created_object_gets_what_only_the_server_gives() {
    let client = Client::new().await;
    let made = client.config_map("a", json!({"k": "v"})).await;
    let metadata = &made["metadata"];
    assert_eq!((&made["apiVersion"], &made["kind"]), (&json!("v1"), &json!("ConfigMap")));
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["uid"].as_str().map(str::len), Some(36));
    assert!(metadata["creationTimestamp"].as_str().is_some_and(|time| time.ends_with('Z')));
    assert_eq!(metadata["managedFields"][0]["operation"], "Update");
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/a")).await.ok(), made);
}

#[tokio::test]
async fn fields_that_only_the_server_sets_are_not_taken_from_the_client() {
    let client = Client::new().await;
    let object = json!({"metadata": {
        "name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x",
        "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
    }});
    let made = client.post(CONFIG_MAPS, object).await.created();
    let metadata = &made["metadata"];
    assert_ne!(metadata["uid"], "mine");
    assert_ne!(metadata["creationTimestamp"], "2001-01-01T00:00:00Z");
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        assert!(metadata.get(field).is_none(), "{field}");
    }
}

#[tokio::test]
async fn a_second_object_of_the_same_name_is_refused() {
    let client = Client::new().await;
    client.config_map("a", json!({})).await;
    let status =
        client.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await.refused(409, "AlreadyExists");
    assert_eq!(status["message"], "configmaps \"a\" already exists");
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    client.namespace("other").await;
    client.post("/api/v1/namespaces/other/configmaps", json!({"metadata": {"name": "a"}})).await.created();
}

#[tokio::test]
async fn generated_names_begin_as_asked_and_differ() {
    let client = Client::new().await;
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let made = client.post(CONFIG_MAPS, json!({"metadata": {"generateName": "web-"}})).await.created();
        let name = made["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        assert_eq!((name.starts_with("web-"), name.len()), (true, 9), "{name}");
        assert_eq!(made["metadata"]["generateName"], "web-");
        names.insert(name);
    }
    assert_eq!(names.len(), 50);
    let long = "x".repeat(70);
    let made = client.post(CONFIG_MAPS, json!({"metadata": {"generateName": long}})).await.created();
    assert_eq!(made["metadata"]["name"].as_str().map(str::len), Some(63));
    let both = json!({"metadata": {"name": "given", "generateName": "web-"}});
    assert_eq!(client.post(CONFIG_MAPS, both).await.created()["metadata"]["name"], "given");
}

#[tokio::test]
async fn status_is_not_taken_on_creation_and_generation_begins_at_one() {
    let client = Client::new().await;
    let mut object = deployment("d");
    object["status"] = json!({"replicas": 7});
    let made = client.post("/apis/apps/v1/namespaces/default/deployments", object).await.created();
    assert_ne!(made["status"]["replicas"], 7);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["spec"]["replicas"], 1);
    assert_eq!(made["spec"]["template"]["spec"]["restartPolicy"], "Always");
}

#[tokio::test]
async fn a_dry_run_of_any_verb_leaves_nothing_behind() {
    let client = Client::new().await;
    client
        .post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}))
        .await
        .created();
    let made = client.config_map("a", json!({"k": "v"})).await;
    client.post(PODS, pod("p")).await.created();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    client.post(deployments, deployment("d")).await.created();
    let before = client.revision().await;
    let one = format!("{CONFIG_MAPS}/a?dryRun=All");

    let new =
        client.post(&format!("{CONFIG_MAPS}?dryRun=All"), json!({"metadata": {"name": "b"}})).await.created();
    assert!(new["metadata"]["uid"].is_string() && new["metadata"].get("resourceVersion").is_none());
    let changed = json!({"metadata": {"name": "a"}, "data": {"k": "w"}});
    assert_eq!(client.put(&one, changed).await.ok()["data"]["k"], "w");
    for (kind, patch) in [
        ("merge", json!({"data": {"k": "w"}})),
        ("strategic", json!({"data": {"k": "w"}})),
        ("json", json!([{"op": "replace", "path": "/data/k", "value": "w"}])),
    ] {
        assert_eq!(client.patch(kind, &one, patch).await.ok()["data"]["k"], "w");
    }
    client.delete(&one, json!(null)).await.ok();
    client.delete(&format!("{CONFIG_MAPS}/a"), json!({"dryRun": ["All"]})).await.ok();
    client.delete(&format!("{CONFIG_MAPS}?dryRun=All"), json!(null)).await.ok();
    let scale = json!({"metadata": {"name": "d"}, "spec": {"replicas": 5}});
    assert_eq!(
        client.put(&format!("{deployments}/d/scale?dryRun=All"), scale).await.ok()["spec"]["replicas"],
        5
    );
    client
        .patch("merge", &format!("{deployments}/d/status?dryRun=All"), json!({"status": {"replicas": 2}}))
        .await
        .ok();
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    client.post(&format!("{PODS}/p/binding?dryRun=All"), binding).await.created();
    client.post(&format!("{PODS}/p/eviction?dryRun=All"), json!({"metadata": {"name": "p"}})).await.created();
    client.delete(&format!("{PODS}/p?dryRun=All"), json!(null)).await.ok();

    assert_eq!(client.revision().await, before);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/a")).await.ok(), made);
    client.get(&format!("{CONFIG_MAPS}/b")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_dropped_warned_of_or_refused() {
    let client = Client::new().await;
    let send = async |name: &str, query: &str| {
        let body = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":"1","k":"2"}},"dataa":{{}}}}"#);
        client
            .send("POST", &format!("{CONFIG_MAPS}{query}"), &[("content-type", "application/json")], body)
            .await
    };
    let found = ["unknown field \"dataa\"", "duplicate field \"data.k\""];
    for (name, query) in [("a", ""), ("b", "?fieldValidation=Warn")] {
        let warned = send(name, query).await;
        assert_eq!(warned.warnings(), found);
        let made = warned.created();
        assert_eq!(made["data"]["k"], "2", "the last one counts");
        assert!(made.get("dataa").is_none());
    }
    let ignored = send("c", "?fieldValidation=Ignore").await;
    assert!(ignored.warnings().is_empty());
    assert!(ignored.created().get("dataa").is_none());
    let status = send("d", "?fieldValidation=Strict").await.refused(400, "BadRequest");
    for text in found {
        assert!(status["message"].as_str().is_some_and(|message| message.contains(text)), "{status}");
    }
    client.get(&format!("{CONFIG_MAPS}/d")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn yaml_is_taken_as_json_is() {
    let client = Client::new().await;
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata:\n  a: |\n    one\n    two\n  b: \"yes\"\n";
    let made =
        client.send("POST", CONFIG_MAPS, &[("content-type", "application/yaml")], body).await.created();
    assert_eq!(made["data"], json!({"a": "one\ntwo\n", "b": "yes"}));
    assert!(revision_of(&made) > 0);
}

/// A few of each sort: with and without a strategy of their own, with parts, with definitions.
fn without_namespace() -> Vec<(&'static str, Value)> {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []});
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1});
    let storage =
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/x"});
    vec![
        ("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace"})),
        ("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node"})),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", role),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", class),
        ("/apis/storage.k8s.io/v1/storageclasses", storage),
        ("/apis/example.com/v1/gears", json!({"apiVersion": "example.com/v1", "kind": "Gear"})),
    ]
}

#[tokio::test]
async fn the_namespace_of_what_has_none_is_cleared() {
    let client = Client::new().await;
    let definition = json!({
        "metadata": {"name": "gears.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "gears", "kind": "Gear"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    client.post(super::custom::DEFINITIONS, definition).await.created();
    for (path, mut object) in without_namespace() {
        object["metadata"] = json!({"name": "a", "namespace": "elsewhere"});
        let created = client.post(path, object.clone()).await.created();
        let mut changed = created.clone();
        changed["metadata"]["namespace"] = "elsewhere".into();
        changed["metadata"]["labels"] = json!({"a": "b"});
        let one = format!("{path}/a");
        let updated = client.put(&one, changed).await.ok();
        let patched = client.patch(
            "merge",
            &one,
            json!({"metadata": {"namespace": "elsewhere", "labels": {"c": "d"}}}),
        );
        let patched = patched.await.ok();
        let applied =
            client.patch("apply", &format!("{one}?fieldManager=m&force=true"), object.clone()).await.ok();
        object["metadata"]["name"] = "b".into();
        let made = client.patch("apply", &format!("{path}/b?fieldManager=m"), object).await.created();
        for object in [created, updated, patched, applied, made] {
            assert_eq!(object["metadata"].get("namespace"), None, "{path}: {object}");
        }
    }
}
