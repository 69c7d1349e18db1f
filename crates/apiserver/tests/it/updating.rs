//! Changing objects: conflicts, generations, who manages what, and what each part may change.

use std::sync::Arc;

use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Client, PODS, deployment, pod, revision_of};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

#[tokio::test]
async fn an_update_of_an_older_revision_is_a_conflict() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let first = client.config_map("a", json!({"k": "1"})).await;
    let mut second = first.clone();
    second["data"]["k"] = "2".into();
    let second = client.put(&path, second).await.ok();
    assert!(revision_of(&second) > revision_of(&first));
    let mut stale = first.clone();
    stale["data"]["k"] = "3".into();
    let status = client.put(&path, stale).await.refused(409, "Conflict");
    assert_eq!(
        status["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; \
         please apply your changes to the latest version and try again"
    );
    assert_eq!(client.get(&path).await.ok()["data"]["k"], "2");
}

#[tokio::test]
async fn what_does_not_fit_with_its_managers_is_refused() {
    let client = Client::new().await;
    client.config_map("a", json!({"k": "1"})).await;
    let keys = (0..64_000).map(|index| (format!("k{index:05}"), Value::from("")));
    let data = Value::Object(keys.collect());
    let large = json!({"metadata": {"name": "b"}, "data": data});
    client.post(CONFIG_MAPS, large.clone()).await.refused(413, "RequestEntityTooLarge");
    let path = format!("{CONFIG_MAPS}/a");
    let patch = json!({"data": large["data"]});
    client.patch("merge", &path, patch).await.refused(413, "RequestEntityTooLarge");
    let kept = client.get(&path).await.ok();
    assert_eq!(kept["data"], json!({"k": "1"}));
    assert!(kept["metadata"]["managedFields"][0]["manager"].is_string());
}

#[tokio::test]
async fn an_update_without_a_revision_overwrites() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let made = client.config_map("a", json!({"k": "1"})).await;
    let done = client.put(&path, json!({"metadata": {"name": "a"}, "data": {"k": "2"}})).await.ok();
    assert_eq!(done["data"], json!({"k": "2"}));
    assert_eq!(done["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(done["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
}

#[tokio::test]
async fn an_update_that_changes_nothing_changes_no_revision() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let made = client.config_map("a", json!({"k": "1"})).await;
    let before = client.revision().await;
    assert_eq!(client.put(&path, made.clone()).await.ok(), made);
    assert_eq!(client.patch("merge", &path, json!({"data": {"k": "1"}})).await.ok(), made);
    assert_eq!(client.patch("strategic", &path, json!({})).await.ok(), made);
    assert_eq!(client.patch("json", &path, json!([])).await.ok(), made);
    let deployed = client.post(DEPLOYMENTS, deployment("d")).await.created();
    let after = client.revision().await;
    assert_eq!(after, before + 1);
    let again = client.put(&format!("{DEPLOYMENTS}/d"), deployed.clone()).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], deployed["metadata"]["resourceVersion"]);
    assert_eq!(client.revision().await, after);
}

#[tokio::test]
async fn every_manager_keeps_the_fields_it_wrote() {
    let client = Client::new().await;
    let managers = |object: &Value| -> Vec<(String, Value)> {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        entries
            .iter()
            .map(|one| (one["manager"].as_str().unwrap_or_default().to_owned(), one["fieldsV1"].clone()))
            .collect()
    };
    let body = json!({"metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}});
    let made = client.post(&format!("{CONFIG_MAPS}?fieldManager=one"), body).await.created();
    let both = json!({"f:data": {".": {}, "f:x": {}, "f:y": {}}});
    assert_eq!(managers(&made), [("one".to_owned(), both)]);
    let path = format!("{CONFIG_MAPS}/a?fieldManager=two");
    let done = client.patch("merge", &path, json!({"data": {"y": "2", "z": "2"}})).await.ok();
    assert_eq!(
        managers(&done),
        [
            ("one".to_owned(), json!({"f:data": {".": {}, "f:x": {}}})),
            ("two".to_owned(), json!({"f:data": {"f:y": {}, "f:z": {}}})),
        ]
    );
    let agent = [("content-type", "application/merge-patch+json"), ("user-agent", "kubectl/v1.37 (linux)")];
    let done = client.send("PATCH", &format!("{CONFIG_MAPS}/a"), &agent, r#"{"data":{"w":"3"}}"#).await.ok();
    assert!(managers(&done).iter().any(|(name, _)| name == "kubectl"), "{done}");
    let status = client.post(DEPLOYMENTS, deployment("d")).await.created();
    assert_eq!(status["metadata"]["managedFields"][0]["apiVersion"], "apps/v1");
    let path = format!("{DEPLOYMENTS}/d/status?fieldManager=three");
    let done = client.patch("merge", &path, json!({"status": {"replicas": 1}})).await.ok();
    let entries = done["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let entry = entries.iter().find(|entry| entry["manager"] == "three").expect("an entry");
    assert_eq!(entry["subresource"], "status");
}

#[tokio::test]
async fn generation_counts_changes_of_the_spec_alone() {
    let client = Client::new().await;
    let path = format!("{DEPLOYMENTS}/d");
    client.post(DEPLOYMENTS, deployment("d")).await.created();
    let generation = |object: &Value| object["metadata"]["generation"].as_i64();
    let labelled = client.patch("merge", &path, json!({"metadata": {"labels": {"x": "y"}}})).await.ok();
    assert_eq!(generation(&labelled), Some(1));
    let patch = json!({"status": {"observedGeneration": 1, "replicas": 1}});
    assert_eq!(generation(&client.patch("merge", &format!("{path}/status"), patch).await.ok()), Some(1));
    let scaled = client.patch("merge", &path, json!({"spec": {"replicas": 3}})).await.ok();
    assert_eq!(generation(&scaled), Some(2));
    let scale = json!({"metadata": {"name": "d"}, "spec": {"replicas": 4}});
    client.put(&format!("{path}/scale"), scale).await.ok();
    assert_eq!(generation(&client.get(&path).await.ok()), Some(3));
    let forced = client.patch("merge", &path, json!({"metadata": {"generation": 9}})).await.ok();
    assert_eq!(generation(&forced), Some(3));
}

#[tokio::test]
async fn status_and_the_rest_are_written_apart() {
    let client = Client::new().await;
    let path = format!("{DEPLOYMENTS}/d");
    client.post(DEPLOYMENTS, deployment("d")).await.created();
    let both = json!({"spec": {"replicas": 5}, "status": {"replicas": 5}});
    let done = client.patch("merge", &path, both.clone()).await.ok();
    assert_eq!((&done["spec"]["replicas"], done["status"].get("replicas")), (&json!(5), None));
    let mut both = both;
    both["spec"]["replicas"] = 6.into();
    let done = client.patch("merge", &format!("{path}/status"), both).await.ok();
    assert_eq!((&done["spec"]["replicas"], &done["status"]["replicas"]), (&json!(5), &json!(5)));
    let read = client.get(&format!("{path}/status")).await.ok();
    assert_eq!(read, client.get(&path).await.ok());
}

#[tokio::test]
async fn the_three_patches_do_what_their_types_say() {
    let client = Client::new().await;
    let path = format!("{DEPLOYMENTS}/d");
    client.post(DEPLOYMENTS, deployment("d")).await.created();
    let sidecar = json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}});
    let containers = |object: &Value| -> Vec<String> {
        let list = object["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
        list.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let done = client.patch("strategic", &path, sidecar.clone()).await.ok();
    assert_eq!(containers(&done), ["side", "c"]);
    let gone = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}}}});
    assert_eq!(containers(&client.patch("strategic", &path, gone).await.ok()), ["side"]);
    let operations = json!([
        {"op": "test", "path": "/spec/template/spec/containers/0/name", "value": "side"},
        {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "c", "image": "i"}},
    ]);
    assert_eq!(containers(&client.patch("json", &path, operations).await.ok()), ["side", "c"]);
    assert_eq!(containers(&client.patch("merge", &path, sidecar).await.ok()), ["side"]);
    let done = client.patch("merge", &path, json!({"spec": {"revisionHistoryLimit": null}})).await.ok();
    assert_eq!(done["spec"]["revisionHistoryLimit"], 10, "what is removed is defaulted anew");
}

#[tokio::test]
async fn concurrent_patches_are_all_kept() {
    let client = Client::new().await;
    client.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let writers = (0..16).map(|number| {
        let (client, path) = (client.clone(), path.clone());
        tokio::spawn(async move {
            client.patch("merge", &path, json!({"data": {format!("k{number}"): "v"}})).await.ok();
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("the patch is taken");
    }
    assert_eq!(client.get(&path).await.ok()["data"].as_object().map(serde_json::Map::len), Some(16));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn applies_at_once_of_what_is_not_there_yet_are_all_kept() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let appliers = (0..50).map(|number| {
        let (client, path) = (client.clone(), format!("{path}?fieldManager=m{number}"));
        tokio::spawn(async move {
            let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
                "data": {format!("k{number}"): "v"}});
            client.patch("apply", &path, config).await.code
        })
    });
    let mut created = 0;
    for applier in appliers.collect::<Vec<_>>() {
        created += usize::from(applier.await.expect("an answer") == 201);
    }
    assert_eq!(created, 1, "one creates it, the others change it");
    let object = client.get(&path).await.ok();
    assert_eq!(object["data"].as_object().map(serde_json::Map::len), Some(50), "{object}");
    assert_eq!(object["metadata"]["managedFields"].as_array().map(Vec::len), Some(50));
}

#[tokio::test]
async fn a_put_creates_where_the_kind_allows_it() {
    let client = Client::new().await;
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "h"}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    client.put(path, lease).await.created();
    client.put(&format!("{PODS}/p"), pod("p")).await.refused(404, "NotFound");
    client
        .put(&format!("{CONFIG_MAPS}/c"), json!({"metadata": {"name": "c"}}))
        .await
        .refused(404, "NotFound");
}

#[tokio::test]
async fn numbers_stay_as_they_were_sent_through_any_change() {
    let client = Client::new().await;
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let numbers = r#""data":{"a":9.999998999999999e+19,"b":0.1,"c":9007199254740993,"d":-1.5e-300}"#;
    let body = format!(r#"{{"metadata":{{"name":"r"}},"revision":1,{numbers}}}"#);
    let made = client.send("POST", path, &[("content-type", "application/json")], body).await;
    assert_eq!(made.code, 201);
    assert!(made.text().contains(numbers), "{}", made.text());
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    let changed = client.patch("merge", &format!("{path}/r"), labels).await;
    assert!(changed.text().contains(numbers), "{}", changed.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patches_of_one_object_at_once_all_succeed_and_none_is_lost() {
    let client = Arc::new(Client::new().await);
    client.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let patches = (0..200).map(|idx| {
        let (client, path) = (Arc::clone(&client), path.clone());
        tokio::spawn(async move {
            let key = format!("k{idx}");
            client.patch("merge", &path, json!({"data": {key: "v"}})).await.ok();
        })
    });
    for patch in patches.collect::<Vec<_>>() {
        patch.await.expect("no patch is refused");
    }
    let data = client.get(&path).await.ok()["data"].clone();
    assert_eq!(data.as_object().map(serde_json::Map::len), Some(200), "{data}");
}

#[tokio::test]
async fn deleting_a_collection_gives_a_quota_back_all_it_counted() {
    let client = Client::new().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "100"}}});
    client.post("/api/v1/namespaces/default/resourcequotas", quota).await.created();
    for idx in 0..60 {
        client.config_map(&format!("m{idx}"), json!({})).await;
    }
    client.delete(CONFIG_MAPS, json!(null)).await.ok();
    let quota = client.get("/api/v1/namespaces/default/resourcequotas/q").await.ok();
    assert_eq!(quota["status"]["used"], json!({"configmaps": "0"}));
}

#[tokio::test]
async fn what_a_service_had_is_free_again_however_its_end_was_reached() {
    let client = Client::new().await;
    let services = "/api/v1/namespaces/default/services";
    let service = json!({
        "metadata": {"name": "s", "finalizers": ["example.com/wait"]},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    });
    let made = client.post(services, service).await.created();
    let address = made["spec"]["clusterIP"].as_str().expect("an address").to_owned();
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    client.delete(&format!("{addresses}/{address}"), json!(null)).await.refused(403, "Forbidden");
    client.delete(&format!("{services}/s"), json!(null)).await.ok();
    let last =
        json!({"metadata": {"name": "s"}, "spec": {"type": "ExternalName", "externalName": "a.example"}});
    client.put(&format!("{services}/s"), last).await.ok();
    client.get(&format!("{services}/s")).await.refused(404, "NotFound");
    client.get(&format!("{addresses}/{address}")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_revision_of_zero_is_no_revision() {
    let client = Client::new().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    client.post(leases, json!({"metadata": {"name": "l"}})).await.created();
    let unversioned = json!({"metadata": {"name": "l", "resourceVersion": "0"}});
    client.put(&format!("{leases}/l"), unversioned).await.refused(422, "Invalid");
}

#[tokio::test]
async fn a_scale_is_recorded_as_written_through_scale() {
    let client = Client::new().await;
    client.post(DEPLOYMENTS, deployment("d")).await.created();
    let path = format!("{DEPLOYMENTS}/d");
    client.patch("merge", &format!("{path}/scale"), json!({"spec": {"replicas": 7}})).await.ok();
    let managed = client.get(&path).await.ok()["metadata"]["managedFields"].clone();
    let through: Vec<&str> = managed
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|entry| entry["subresource"].as_str())
        .collect();
    assert_eq!(through, ["scale"]);
}

#[tokio::test]
async fn what_the_server_sets_on_deletion_is_not_changed_by_clients() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let made = client.config_map("a", json!({"k": "1"})).await;
    for (field, value) in
        [("deletionTimestamp", json!("2001-01-01T00:00:00Z")), ("deletionGracePeriodSeconds", json!(0))]
    {
        let mut changed = made.clone();
        changed["metadata"][field] = value.clone();
        let refused = client.put(&path, changed).await.refused(422, "Invalid");
        assert_eq!(
            refused["details"]["causes"][0],
            json!({"reason": "FieldValueInvalid", "field": format!("metadata.{field}"),
                "message": format!("Invalid value: {value}: field is immutable")})
        );
        client.patch("merge", &path, json!({"metadata": {field: value}})).await.refused(422, "Invalid");
    }
    client.patch("merge", &path, json!({"metadata": {"uid": "x"}})).await.refused(422, "Invalid");
    client.patch("merge", &path, json!({"metadata": {"namespace": ""}})).await.ok();
    assert_eq!(client.get(&path).await.ok(), made);
}

#[tokio::test]
async fn finalizers_without_a_domain_are_refused_for_built_in_kinds() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    client.config_map("a", json!({"k": "1"})).await;
    for (finalizers, code) in
        [(json!(["x"]), 422), (json!(["a.b/c"]), 200), (json!(["orphan", "kubernetes"]), 200)]
    {
        let answer = client.patch("merge", &path, json!({"metadata": {"finalizers": finalizers}})).await;
        assert_eq!(answer.code, code, "{finalizers}");
    }
    // Kinds that were born outside the core take any.
    let lease = json!({"metadata": {"name": "l", "finalizers": ["x"]}});
    client.post("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease).await.created();
}

#[tokio::test]
async fn a_json_patch_may_replace_what_is_not_there_yet() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    client.config_map("a", json!({"k": "1"})).await;
    let patch = json!([{"op": "replace", "path": "/data/new", "value": "2"}]);
    assert_eq!(client.patch("json", &path, patch).await.ok()["data"], json!({"k": "1", "new": "2"}));
}

#[tokio::test]
async fn finalize_is_only_put() {
    let client = Client::new().await;
    let path = "/api/v1/namespaces/default/finalize";
    for (method, body) in [("GET", ""), ("PATCH", "{}")] {
        let headers = [("content-type", "application/merge-patch+json")];
        assert_eq!(client.send(method, path, &headers, body).await.code, 405, "{method}");
    }
}
