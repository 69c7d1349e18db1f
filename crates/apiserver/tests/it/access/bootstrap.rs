//! The roles that every server has, and roles that are made of others.

use serde_json::{Value, json};

use super::{RBAC, rule};
use crate::client::{Client, DEADLINE};

#[tokio::test]
async fn a_fresh_server_has_the_roles_that_clients_expect() {
    let admin = Client::new().await;
    for name in
        ["cluster-admin", "admin", "edit", "view", "system:basic-user", "system:discovery", "system:node"]
    {
        let role = admin.get(&format!("{RBAC}/clusterroles/{name}")).await.ok();
        assert_eq!(role["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults", "{name}");
        let kept = &role["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"];
        assert_eq!(kept, "true", "{name}");
        assert!(role["rules"].as_array().is_some_and(|rules| !rules.is_empty()), "{name} has no rules");
    }
    let binding = admin.get(&format!("{RBAC}/clusterrolebindings/cluster-admin")).await.ok();
    assert_eq!(binding["subjects"][0]["name"], "system:masters");
    let role = format!("{RBAC}/namespaces/kube-system/roles/system::leader-locking-kube-scheduler");
    admin.get(&role).await.ok();
}

#[tokio::test]
async fn what_was_taken_from_them_is_there_again_after_a_restart() {
    let admin = Client::new().await;
    let (role, binding) =
        (format!("{RBAC}/clusterroles/system:discovery"), format!("{RBAC}/clusterrolebindings"));
    let own = json!({"verbs": ["get"], "nonResourceURLs": ["/own"]});
    admin.patch("merge", &role, json!({"rules": [own]})).await.ok();
    admin.patch("merge", &format!("{binding}/system:discovery"), json!({"subjects": null})).await.ok();
    admin.delete(&format!("{binding}/system:basic-user"), json!(null)).await.ok();
    // Those who want them otherwise say so.
    let kept = json!({"rbac.authorization.kubernetes.io/autoupdate": "false"});
    let other = json!({"metadata": {"annotations": kept}, "subjects": null});
    admin.patch("merge", &format!("{binding}/system:monitoring"), other).await.ok();
    // A binding to another role cannot be changed, so it is made anew.
    admin.delete(&format!("{binding}/system:kube-dns"), json!(null)).await.ok();
    admin.post(&binding, super::binding("system:kube-dns", "ClusterRole", "view", "eve")).await.created();
    let ann = admin.as_user("ann", &[]);
    ann.get("/api").await.refused(403, "Forbidden");
    let admin = admin.restarted().await;
    let ann = admin.as_user("ann", &[]);
    ann.get("/api").await.ok();
    ann.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.created();
    let rules = admin.get(&role).await.ok()["rules"].clone();
    assert!(rules.as_array().is_some_and(|rules| rules.contains(&own)), "{rules}");
    assert_eq!(admin.get(&format!("{binding}/system:monitoring")).await.ok()["subjects"], Value::Null);
    let dns = admin.get(&format!("{binding}/system:kube-dns")).await.ok();
    assert_eq!(
        (&dns["roleRef"]["name"], dns["subjects"].as_array().map(Vec::len)),
        (&json!("system:kube-dns"), Some(1))
    );
    let before = admin.revision().await;
    let admin = admin.restarted().await;
    assert_eq!(admin.revision().await, before, "nothing is written when nothing is missing");
}

/// Waits until a user may do something, or no longer.
async fn until(client: &Client, path: &str, code: u16) {
    let waits = async {
        while client.get(path).await.code != code {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, waits)
        .await
        .unwrap_or_else(|_| panic!("{path} is not answered with {code}"));
}

#[tokio::test]
async fn a_role_made_of_others_follows_them() {
    let admin = Client::new().await;
    let whole = json!({
        "metadata": {"name": "whole"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part-of": "whole"}}]}, "rules": [],
    });
    admin.post(&format!("{RBAC}/clusterroles"), whole).await.created();
    admin.bind("", "ann", "ClusterRole", "whole").await;
    let ann = admin.as_user("ann", &[]);
    let part = json!({
        "metadata": {"name": "part", "labels": {"part-of": "whole"}}, "rules": [rule("list", "", "secrets")]});
    admin.post(&format!("{RBAC}/clusterroles"), part).await.created();
    until(&ann, "/api/v1/secrets", 200).await;
    let part = format!("{RBAC}/clusterroles/part");
    admin.patch("merge", &part, json!({"rules": [rule("list", "", "pods")]})).await.ok();
    until(&ann, "/api/v1/secrets", 403).await;
    until(&ann, "/api/v1/pods", 200).await;
    // What is written into it by hand does not stay.
    let whole = format!("{RBAC}/clusterroles/whole");
    admin.patch("merge", &whole, json!({"rules": [rule("list", "", "nodes")]})).await.ok();
    until(&ann, "/api/v1/nodes", 403).await;
    admin.delete(&part, json!(null)).await.ok();
    until(&ann, "/api/v1/pods", 403).await;
    // The same way, what people add to `view` reaches `edit` and `admin`.
    let more = json!({
        "metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [rule("list", "example.com", "things")]});
    admin.post(&format!("{RBAC}/clusterroles"), more).await.created();
    for role in ["view", "edit", "admin"] {
        let waits = async {
            let path = format!("{RBAC}/clusterroles/{role}");
            while !admin.get(&path).await.text().contains("things") {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, waits).await.unwrap_or_else(|_| panic!("{role} does not have it"));
    }
}
