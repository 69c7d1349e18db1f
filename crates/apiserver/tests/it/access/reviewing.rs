//! Reviews: what one may, what others may, and who one is.

use serde_json::{Value, json};

use super::{binding, rule};
use crate::client::Client;

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

async fn reviewed(client: &Client, path: &str, spec: Value) -> Value {
    client.post(path, json!({"spec": spec})).await.created()["status"].clone()
}

#[tokio::test]
async fn access_is_reviewed_with_a_reason() {
    let admin = Client::new().await;
    let ann = admin.with_rules_in("default", "ann", json!([rule("get", "", "pods")])).await;
    let own = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let pods = |verb: &str, namespace: &str| json!({"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": namespace, "version": "v1"}});
    let reason = "RBAC: allowed by RoleBinding \"ann/default\" of Role \"ann\" to User \"ann\"";
    assert_eq!(
        reviewed(&ann, &own, pods("get", "default")).await,
        json!({"allowed": true, "reason": reason})
    );
    assert_eq!(reviewed(&ann, &own, pods("get", "other")).await, json!({"allowed": false}));
    assert_eq!(reviewed(&ann, &own, pods("list", "default")).await, json!({"allowed": false}));
    assert_eq!(reviewed(&admin, &own, pods("*", "")).await, json!({"allowed": true}));
    let path = json!({"nonResourceAttributes": {"verb": "get", "path": "/version"}});
    assert_eq!(reviewed(&ann, &own, path).await["allowed"], true);
    let with_selector = json!({"resourceAttributes": {
        "verb": "get", "resource": "pods", "namespace": "default",
        "fieldSelector": {"rawSelector": "metadata.name=x"},
        "labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
    }});
    assert_eq!(reviewed(&ann, &own, with_selector).await["allowed"], true);
    for bad in [
        json!({}),
        json!({"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/"}}),
        json!({"resourceAttributes": {"verb": "get", "fieldSelector": {}}}),
        json!({"resourceAttributes": {"verb": "get", "labelSelector": {
            "rawSelector": "a", "requirements": [{"key": "a", "operator": "Exists"}]}}}),
    ] {
        ann.post(&own, json!({"spec": bad})).await.refused(422, "Invalid");
    }
}

#[tokio::test]
async fn others_are_reviewed_by_those_who_may() {
    let admin = Client::new().await;
    admin.with_rules_in("default", "ann", json!([rule("get", "", "pods")])).await;
    let mut to_group = binding("staff", "ClusterRole", "view", "ignored");
    to_group["subjects"] =
        json!([{"kind": "Group", "name": "staff", "apiGroup": "rbac.authorization.k8s.io"}]);
    admin.post(&format!("{}/clusterrolebindings", super::RBAC), to_group).await.created();
    let (all, local) = (
        format!("{AUTHORIZATION}/subjectaccessreviews"),
        format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"),
    );
    let pods = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let about = |user: &str, groups: Value| {
        json!({
        "user": user, "groups": groups, "uid": "7", "extra": {"Key": ["v"]}, "resourceAttributes": pods})
    };
    assert_eq!(reviewed(&admin, &all, about("ann", json!([]))).await["allowed"], true);
    assert_eq!(reviewed(&admin, &all, about("bob", json!([]))).await, json!({"allowed": false}));
    assert_eq!(
        reviewed(&admin, &all, about("", json!(["staff"]))).await["reason"],
        "RBAC: allowed by ClusterRoleBinding \"staff\" of ClusterRole \"view\" to Group \"staff\""
    );
    assert_eq!(reviewed(&admin, &local, about("ann", json!([]))).await["allowed"], true);
    admin.post(&all, json!({"spec": about("", json!([]))})).await.refused(422, "Invalid");
    let elsewhere = format!("{AUTHORIZATION}/namespaces/kube-system/localsubjectaccessreviews");
    let refused =
        admin.post(&elsewhere, json!({"spec": about("ann", json!([]))})).await.refused(400, "BadRequest");
    assert_eq!(refused["message"], "spec.resourceAttributes.namespace must match namespace: kube-system");
    let path = json!({"user": "ann", "nonResourceAttributes": {"verb": "get", "path": "/"}});
    admin.post(&local, json!({"spec": path})).await.refused(422, "Invalid");
    let nobody = admin.as_user("nobody", &[]);
    for path in [&all, &local] {
        nobody.post(path, json!({"spec": about("ann", json!([]))})).await.refused(403, "Forbidden");
    }
}

#[tokio::test]
async fn everyone_sees_their_rules_and_themselves() {
    let admin = Client::new().await;
    let ann = admin.with_rules_in("default", "ann", json!([rule("get list", "apps", "deployments")])).await;
    let rules = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let seen = reviewed(&ann, &rules, json!({"namespace": "default"})).await;
    assert_eq!(seen["incomplete"], false);
    let own = rule("get list", "apps", "deployments");
    assert!(seen["resourceRules"].as_array().is_some_and(|rules| rules.contains(&own)), "{seen}");
    assert!(seen["nonResourceRules"].to_string().contains("/openapi/*"), "{seen}");
    let elsewhere = reviewed(&ann, &rules, json!({"namespace": "other"})).await;
    assert!(!elsewhere["resourceRules"].as_array().is_some_and(|rules| rules.contains(&own)), "{elsewhere}");
    let all = reviewed(&admin, &rules, json!({"namespace": "default"})).await;
    assert_eq!(all["resourceRules"][0], json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    ann.post(&rules, json!({"spec": {}})).await.refused(400, "BadRequest");
    let me = ann.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.created();
    assert_eq!(me["status"]["userInfo"], json!({"username": "ann", "groups": ["system:authenticated"]}));
    admin.anonymous().post(&rules, json!({"spec": {"namespace": "default"}})).await.refused(403, "Forbidden");
}
