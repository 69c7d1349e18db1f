//! What the server says of itself: discovery, OpenAPI, health, and who may see it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Client};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn aggregated_discovery_has_a_tag_and_is_not_sent_twice() {
    let client = Client::new().await;
    for path in ["/api", "/apis"] {
        let answer = client.send("GET", path, &[("accept", AGGREGATED)], "").await;
        assert_eq!(answer.header("content-type"), AGGREGATED);
        let tag = answer.header("etag").to_owned();
        assert_eq!(answer.ok()["kind"], "APIGroupDiscoveryList");
        let again = client.send("GET", path, &[("accept", AGGREGATED), ("if-none-match", &tag)], "").await;
        assert_eq!((again.code, again.body.len()), (304, 0));
    }
}

#[tokio::test]
async fn both_forms_of_discovery_name_the_same_resources() {
    let client = Client::new().await;
    let mut legacy = BTreeSet::new();
    let core = client.get("/api").await.ok();
    assert_eq!((&core["kind"], &core["versions"]), (&json!("APIVersions"), &json!(["v1"])));
    let mut versions = vec!["/api/v1".to_owned()];
    let groups = client.get("/apis").await.ok();
    for group in groups["groups"].as_array().into_iter().flatten() {
        let name = group["name"].as_str().unwrap_or_default();
        assert_eq!(client.get(&format!("/apis/{name}")).await.ok()["name"], name);
        let served = group["versions"].as_array().into_iter().flatten();
        versions
            .extend(served.map(|one| format!("/apis/{}", one["groupVersion"].as_str().unwrap_or_default())));
    }
    for path in &versions {
        let list = client.get(path).await.ok();
        let resources = list["resources"].as_array().cloned().unwrap_or_default();
        let names =
            resources.iter().filter_map(|one| one["name"].as_str()).filter(|name| !name.contains('/'));
        legacy.extend(names.map(|name| format!("{path}/{name}")));
    }
    let mut aggregated = BTreeSet::new();
    for root in ["/api", "/apis"] {
        let list = client.send("GET", root, &[("accept", AGGREGATED)], "").await.ok();
        for group in list["items"].as_array().into_iter().flatten() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            let base = if name.is_empty() { root.to_owned() } else { format!("{root}/{name}") };
            for version in group["versions"].as_array().into_iter().flatten() {
                let path = format!("{base}/{}", version["version"].as_str().unwrap_or_default());
                let resources = version["resources"].as_array().into_iter().flatten();
                aggregated.extend(
                    resources.map(|one| format!("{path}/{}", one["resource"].as_str().unwrap_or_default())),
                );
            }
        }
    }
    assert!(legacy.len() > 50, "{legacy:?}");
    assert_eq!(legacy, aggregated);
}

#[tokio::test]
async fn what_discovery_names_can_be_listed() {
    let client = Client::new().await;
    for root in ["/api", "/apis"] {
        let list = client.send("GET", root, &[("accept", AGGREGATED)], "").await.ok();
        for group in list["items"].as_array().into_iter().flatten() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            let base = if name.is_empty() { root.to_owned() } else { format!("{root}/{name}") };
            for version in group["versions"].as_array().into_iter().flatten() {
                for resource in version["resources"].as_array().into_iter().flatten() {
                    let can_list =
                        resource["verbs"].as_array().is_some_and(|verbs| verbs.contains(&json!("list")));
                    if !can_list {
                        continue;
                    }
                    let plural = resource["resource"].as_str().unwrap_or_default();
                    let path = format!("{base}/{}/{plural}", version["version"].as_str().unwrap_or_default());
                    let kind = resource["responseKind"]["kind"].as_str().unwrap_or_default();
                    assert_eq!(client.get(&path).await.ok()["kind"], format!("{kind}List"), "{path}");
                }
            }
        }
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => drop(found.insert(target.clone())),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_reference_in_every_openapi_document_resolves() {
    let client = Client::new().await;
    let index = client.get("/openapi/v3").await.ok();
    let paths = index["paths"].as_object().cloned().unwrap_or_default();
    assert!(paths.len() > 20, "{index}");
    for (path, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().unwrap_or_default();
        assert!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
        let document = client.get(url).await.ok();
        assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")), "{path}");
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for target in found {
            let pointer = target.strip_prefix('#').unwrap_or_else(|| panic!("{path}: {target}"));
            assert!(document.pointer(pointer).is_some(), "{path}: {target} leads nowhere");
        }
    }
    let document = client.get("/openapi/v2").await.ok();
    assert_eq!(document["swagger"], "2.0");
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for target in found {
        let pointer = target.strip_prefix('#').unwrap_or_else(|| panic!("{target}"));
        assert!(document.pointer(pointer).is_some(), "v2: {target} leads nowhere");
    }
}

#[tokio::test]
async fn health_is_told_to_everyone_and_in_detail_if_asked() {
    let client = Client::new().await.anonymous();
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(client.get(path).await.text(), "ok");
        let verbose = client.get(&format!("{path}?verbose")).await;
        assert_eq!(verbose.code, 200);
        assert!(
            verbose.text().contains("[+]ping ok") && verbose.text().ends_with("check passed\n"),
            "{}",
            verbose.text()
        );
        assert_eq!(client.get(&format!("{path}/ping")).await.text(), "ok");
        assert_eq!(client.get(&format!("{path}/nonsense")).await.code, 404);
    }
    client.server.begin_drain();
    assert_eq!(client.get("/livez").await.code, 200);
    let answer = client.get("/readyz").await;
    assert_eq!(answer.code, 500);
    assert!(answer.text().contains("[-]shutdown failed: reason withheld"), "{}", answer.text());
}

#[tokio::test]
async fn nobody_in_particular_sees_health_and_version_only() {
    let client = Client::new().await;
    client.config_map("a", json!({})).await;
    let nobody = client.anonymous();
    assert_eq!(nobody.get("/version").await.ok()["major"], "1");
    for path in ["/api", "/apis", "/api/v1", "/openapi/v2", "/openapi/v3", "/metrics", "/", "/nonsense"] {
        let status = nobody.get(path).await.refused(403, "Forbidden");
        let message = format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"");
        assert_eq!(status["message"], message);
    }
    let status = nobody.get(CONFIG_MAPS).await.refused(403, "Forbidden");
    assert_eq!(
        status["message"],
        "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" \
         in the namespace \"default\""
    );
    let status = nobody.delete(&format!("{CONFIG_MAPS}/a"), json!(null)).await.refused(403, "Forbidden");
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("configmaps \"a\" is forbidden: User")),
        "{status}"
    );
    let someone = client.as_user("jane", &["dev"]);
    let status = someone.get("/api/v1/nodes").await.refused(403, "Forbidden");
    assert_eq!(
        status["message"],
        "nodes is forbidden: User \"jane\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
    );
    client.get(&format!("{CONFIG_MAPS}/a")).await.ok();
}

#[tokio::test]
async fn requests_are_counted_by_verb_and_resource() {
    let client = Client::new().await;
    client.config_map("a", json!({})).await;
    client.get(&format!("{CONFIG_MAPS}/b")).await.refused(404, "NotFound");
    let metrics = client.get("/metrics").await.text();
    let line = |verb: &str, code: &str| {
        metrics.lines().any(|line| {
            line.starts_with("apiserver_request_total{")
                && line.contains(&format!("verb=\"{verb}\""))
                && line.contains("resource=\"configmaps\"")
                && line.contains(&format!("code=\"{code}\""))
        })
    };
    assert!(line("CREATE", "201") || line("POST", "201"), "{metrics}");
    assert!(line("GET", "404"), "{metrics}");
}

#[tokio::test]
async fn who_shows_a_bad_token_is_refused() {
    let client = Client::new().await;
    let bad = [("authorization", "Bearer bad")];
    client.anonymous().send("GET", "/version", &bad, "").await.refused(401, "Unauthorized");
}
