//! Paths that lead elsewhere.

use serde_json::json;

use crate::{
    client::{CONFIG_MAPS, Client, PODS, pod},
    custom::{DEFINITIONS, widgets},
};

/// Ways to write a step up, a step nowhere, or another path.
const WALKS: [&str; 16] = [
    "..",
    ".",
    "%2e%2e",
    "%2E%2E",
    "%2e",
    "..%2f..",
    "..%2Fsecrets",
    "%2e%2e%2fsecrets",
    "a%2fb",
    "default%2f..",
    "%00",
    "a%00b",
    "..%5c..",
    "%c0%ae%c0%ae",
    "%252e%252e",
    "%25",
];

/// Where a secret is that nobody may come across by walking.
async fn with_secret() -> Client {
    let client = Client::new().await;
    client.post(DEFINITIONS, widgets()).await.created();
    let secret = json!({"metadata": {"name": "hidden"}, "stringData": {"k": "canary-of-paths"}});
    client.post("/api/v1/namespaces/default/secrets", secret).await.created();
    client
}

#[tokio::test]
async fn cve_2022_3162_a_namespace_or_a_name_does_not_walk_through_the_store() {
    let client = with_secret().await;
    let revision = client.revision().await;
    for walk in WALKS {
        for path in [
            format!("/apis/example.com/v1/namespaces/{walk}/widgets"),
            format!("/apis/example.com/v1/namespaces/{walk}/widgets?watch=1&timeoutSeconds=1"),
            format!("/apis/example.com/v1/namespaces/default/widgets/{walk}"),
            format!("/apis/example.com/v1/namespaces/default/{walk}"),
            format!("/apis/example.com/v1/namespaces/default/widgets/{walk}/status"),
            format!("/apis/example.com/{walk}/namespaces/default/widgets"),
            format!("/apis/{walk}/v1/namespaces/default/widgets"),
            format!("/api/v1/namespaces/{walk}/configmaps"),
            format!("/api/v1/namespaces/{walk}"),
            format!("/api/v1/namespaces/default/configmaps/{walk}"),
            format!("/api/v1/nodes/{walk}"),
            format!("/api/{walk}/namespaces/default/configmaps"),
            format!("/openapi/v3/{walk}"),
        ] {
            for method in ["GET", "DELETE"] {
                // What is called by a percent sign is one that cannot be; what is not there is not found.
                match client.provoke(method, &path, &[], "").await {
                    Ok(answer) => {
                        assert!(matches!(answer.code, 400 | 404 | 405), "{method} {path}: {}", answer.code);
                        assert!(!answer.text().contains("canary-of-paths"), "{method} {path}");
                    }
                    Err(code) => {
                        let answer = client.send(method, &path, &[], "").await;
                        assert!(!answer.text().contains("canary-of-paths"), "{method} {path}: {code}");
                        assert!(!answer.text().contains("hidden"), "{method} {path}: {code}");
                    }
                }
            }
        }
    }
    client.get("/api/v1/namespaces/default/secrets/hidden").await.ok();
    assert_eq!(client.revision().await, revision, "nothing was written");
}

#[tokio::test]
async fn cve_2015_5305_no_part_of_an_object_chooses_its_key() {
    let client = with_secret().await;
    for name in ["..", ".", "a/b", "../secrets/default/x", "a%2fb", "", "a\u{0}b", "-", "A"] {
        let object = json!({"metadata": {"name": name}});
        let code = client.post(CONFIG_MAPS, object.clone()).await.code;
        assert!(matches!(code, 400 | 422), "a config map called {name:?}: {code}");
        let code = client.post("/api/v1/namespaces", object).await.code;
        assert!(matches!(code, 400 | 422), "a namespace called {name:?}: {code}");
        let placed = json!({"metadata": {"name": "a", "namespace": name}});
        let code = client.post(CONFIG_MAPS, placed).await.code;
        assert!(code == 400 || (name.is_empty() && code == 201), "a config map in {name:?}: {code}");
    }
    let generated = json!({"metadata": {"generateName": "../secrets/default/"}});
    client.post(CONFIG_MAPS, generated).await.refused(422, "Invalid");
    for (group, plural) in
        [("../../x", "widgets"), ("example.com", "../x"), ("example.com", "a/b"), ("", "x")]
    {
        let mut definition = widgets();
        definition["metadata"]["name"] = format!("{plural}.{group}").into();
        definition["spec"]["group"] = group.into();
        definition["spec"]["names"]["plural"] = plural.into();
        let code = client.post(DEFINITIONS, definition).await.code;
        assert_eq!(code, 422, "a definition of {plural:?} in {group:?}");
    }
}

#[tokio::test]
async fn cve_2019_11247_cluster_scoped_objects_through_a_namespaced_path() {
    let client = Client::new().await;
    let mut definition = widgets();
    definition["spec"]["scope"] = "Cluster".into();
    definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    client.post(DEFINITIONS, definition).await.created();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}});
    client.post("/apis/example.com/v1/widgets", widget.clone()).await.created();
    let wrong = "/apis/example.com/v1/namespaces/default/widgets";
    // Also for someone who may do nothing at all: that it is not there is found out first.
    let nobody = client.as_user("nobody", &[]);
    for (method, path, body) in [
        ("GET", wrong.to_owned(), String::new()),
        ("GET", format!("{wrong}?watch=1"), String::new()),
        ("GET", format!("{wrong}/w"), String::new()),
        ("GET", format!("{wrong}/w/status"), String::new()),
        ("POST", wrong.to_owned(), widget.to_string()),
        ("PUT", format!("{wrong}/w"), widget.to_string()),
        ("PUT", format!("{wrong}/w/status"), widget.to_string()),
        ("PATCH", format!("{wrong}/w"), "{}".to_owned()),
        ("DELETE", format!("{wrong}/w"), String::new()),
        ("DELETE", wrong.to_owned(), String::new()),
    ] {
        let headers = [(
            "content-type",
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" },
        )];
        let answer = client.send(method, &path, &headers, body.clone()).await;
        assert_eq!(answer.code, 404, "{method} {path}: {}", answer.text());
        let answer = nobody.send(method, &path, &headers, body).await;
        assert!(matches!(answer.code, 403 | 404), "{method} {path}: {}", answer.text());
    }
    for path in [
        "/api/v1/namespaces/default/nodes",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles",
    ] {
        client.get(path).await.refused(404, "NotFound");
    }
    // And the other way round.
    client.post(PODS, pod("p")).await.created();
    client.get("/api/v1/pods/p").await.refused(404, "NotFound");
    client.delete("/api/v1/pods/p", json!(null)).await.refused(404, "NotFound");
    client.get("/apis/example.com/v1/widgets/w").await.ok();
}

#[tokio::test]
async fn cve_2018_1002105_an_upgrade_is_refused_as_a_whole() {
    let client = Client::new().await;
    client.post(PODS, pod("p")).await.created();
    for (sub, protocol) in [
        ("exec?command=sh", "SPDY/3.1"),
        ("attach", "websocket"),
        ("portforward", "SPDY/3.1"),
        ("proxy", "h2c"),
        ("proxy/a/b", "websocket"),
    ] {
        for method in ["GET", "POST"] {
            let headers =
                [("connection", "Upgrade"), ("upgrade", protocol), ("content-type", "application/json")];
            let answer = client.send(method, &format!("{PODS}/p/{sub}"), &headers, "").await;
            assert!(answer.code >= 400, "{method} {sub}: {}", answer.code);
            assert_eq!(answer.header("upgrade"), "", "{method} {sub}");
        }
    }
}
