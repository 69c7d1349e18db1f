//! Who somebody says they are.

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Client, PODS};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Gives a user a cluster role, everywhere.
async fn bind(client: &Client, user: &str, role: &str) {
    let binding = json!({
        "metadata": {"name": format!("{user}-{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    client.post(&format!("{RBAC}/clusterrolebindings"), binding).await.created();
}

#[tokio::test]
async fn cve_2021_29441_nothing_in_a_header_makes_a_user() {
    let client = Client::new().await;
    for headers in [
        &[("x-remote-user", "admin"), ("x-remote-group", "system:masters")][..],
        &[("X-Remote-User", "system:admin"), ("X-Remote-Extra-Scopes", "all")],
        &[("x-forwarded-for", "127.0.0.1")],
        &[("x-real-ip", "127.0.0.1"), ("forwarded", "for=127.0.0.1")],
        &[("user-agent", "Nacos-Server")],
        &[
            ("user-agent", "kube-controller-manager"),
            ("x-forwarded-client-cert", "CN=admin,O=system:masters"),
        ],
        &[("host", "localhost"), ("x-forwarded-host", "localhost")],
        &[("impersonate-user", "admin"), ("impersonate-group", "system:masters")],
        &[("x-auth-request-user", "admin"), ("x-webauth-user", "admin"), ("remote-user", "admin")],
        &[("cookie", "session=admin")],
    ] {
        let answer = client.anonymous().send("GET", PODS, headers, "").await;
        assert!(matches!(answer.code, 401 | 403), "{headers:?}: {}", answer.code);
        let told = client
            .anonymous()
            .send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", headers, "{}")
            .await;
        assert!(matches!(told.code, 401 | 403), "{headers:?}: {}", told.text());
    }
}

#[tokio::test]
async fn cve_2020_13945_no_credential_is_known_to_everyone() {
    let client = Client::new().await;
    for token in [
        "edd1c9f034335f136f87ad84b625c8f1",
        "admin",
        "nacos",
        "teleport",
        "SecretKey012345678901234567890123456789",
        "",
    ] {
        for value in [format!("Bearer {token}"), format!("Basic {token}"), token.to_owned()] {
            let answer = client.anonymous().send("GET", PODS, &[("authorization", &value)], "").await;
            assert!(matches!(answer.code, 401 | 403), "{value}: {}", answer.code);
        }
    }
    for login in ["YWRtaW46YWRtaW4=", "bmFjb3M6bmFjb3M=", "YWRtaW46dGVsZXBvcnQ="] {
        let answer =
            client.anonymous().send("GET", PODS, &[("authorization", &format!("Basic {login}"))], "").await;
        answer.refused(401, "Unauthorized");
    }
    // A credential that is no good is not the same as none.
    client
        .anonymous()
        .send("GET", "/healthz", &[("authorization", "Bearer wrong")], "")
        .await
        .refused(401, "Unauthorized");
}

#[tokio::test]
async fn cve_2021_25740_who_edits_a_namespace_cannot_send_its_traffic_elsewhere() {
    let client = Client::new().await;
    let endpoints = json!({
        "metadata": {"name": "a"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}],
    });
    let slice = json!({
        "metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}],
    });
    for (path, object) in [
        ("/api/v1/namespaces/default/endpoints", endpoints),
        ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice),
    ] {
        client.post(path, object.clone()).await.created();
        for role in ["edit", "admin"] {
            let user = client.as_user(role, &[]);
            if client.get(&format!("{RBAC}/clusterrolebindings/{role}-{role}")).await.code == 404 {
                bind(&client, role, role).await;
            }
            user.post(CONFIG_MAPS, json!({"metadata": {"generateName": "a-"}})).await.created();
            user.post(path, object.clone()).await.refused(403, "Forbidden");
            let one = format!("{path}/a");
            user.put(&one, object.clone()).await.refused(403, "Forbidden");
            user.patch("merge", &one, json!({"metadata": {"labels": {"a": "b"}}}))
                .await
                .refused(403, "Forbidden");
            user.delete(&one, Value::Null).await.refused(403, "Forbidden");
        }
    }
}

/// Whoever may change an object, but not delete it, could name an owner that is gone, and have it collected.
#[tokio::test]
async fn cve_2025_5187_a_node_cannot_have_itself_collected() {
    let client = Client::new().await;
    client.post("/api/v1/nodes", json!({"metadata": {"name": "edge-1"}})).await.created();
    let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "update", "patch"]}]);
    let role = json!({"metadata": {"name": "kubelet"}, "rules": rules});
    client.post(&format!("{RBAC}/clusterroles"), role).await.created();
    bind(&client, "node", "kubelet").await;
    let node = client.as_user("node", &["system:nodes"]);
    let path = "/api/v1/nodes/edge-1";
    node.patch("merge", path, json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "6f1a"});
    let owned = json!({"metadata": {"ownerReferences": [owner]}});
    node.patch("merge", path, owned.clone()).await.refused(403, "Forbidden");
    let mut whole = client.get(path).await.ok();
    whole["metadata"]["ownerReferences"] = owned["metadata"]["ownerReferences"].clone();
    node.put(path, whole).await.refused(403, "Forbidden");
    client.patch("merge", path, owned).await.ok();
}
