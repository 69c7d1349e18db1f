//! What roles allow, from the next request on.

use serde_json::json;

use super::{RBAC, rule};
use crate::client::{CONFIG_MAPS, Client};

#[tokio::test]
async fn a_role_holds_where_it_is_given_and_for_what_it_names() {
    let admin = Client::new().await;
    admin.namespace("other").await;
    let rules = json!([rule("get list", "", "configmaps"), rule("update", "apps", "deployments/scale")]);
    let ann = admin.with_rules_in("default", "ann", rules).await;
    admin.config_map("c", json!({"a": "b"})).await;
    ann.get(&format!("{CONFIG_MAPS}/c")).await.ok();
    ann.get(CONFIG_MAPS).await.ok();
    let refused = ann.post(CONFIG_MAPS, json!({"metadata": {"name": "d"}})).await.refused(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "configmaps is forbidden: User \"ann\" cannot create resource \"configmaps\" in API group \"\" in the namespace \
         \"default\""
    );
    for path in
        ["/api/v1/configmaps", "/api/v1/namespaces/other/configmaps", "/api/v1/namespaces/default/secrets"]
    {
        ann.get(path).await.refused(403, "Forbidden");
    }
    let scale = "/apis/apps/v1/namespaces/default/deployments/d/scale";
    ann.put(scale, json!({})).await.refused(400, "BadRequest");
    let refused = ann.get(scale).await.refused(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "deployments.apps \"d\" is forbidden: User \"ann\" cannot get resource \"deployments/scale\" in API group \
         \"apps\" in the namespace \"default\""
    );
    assert_eq!(refused["details"], json!({"name": "d", "group": "apps", "kind": "deployments"}));
}

#[tokio::test]
async fn a_write_to_a_role_holds_for_the_next_request() {
    let admin = Client::new().await;
    let other = admin.beside().await;
    let ann = admin.with_rules("ann", json!([])).await;
    let elsewhere = other.as_user("ann", &[]);
    let role = format!("{RBAC}/clusterroles/ann");
    for round in 0..20 {
        let may = round % 2 == 0;
        let rules = if may { json!([rule("list", "", "configmaps")]) } else { json!([]) };
        admin.patch("merge", &role, json!({"rules": rules})).await.ok();
        for client in [&ann, &elsewhere] {
            assert_eq!(client.get(CONFIG_MAPS).await.code == 200, may, "round {round}");
        }
    }
    admin.patch("merge", &role, json!({"rules": [rule("list", "", "configmaps")]})).await.ok();
    admin.delete(&format!("{RBAC}/clusterrolebindings/ann"), json!(null)).await.ok();
    ann.get(CONFIG_MAPS).await.refused(403, "Forbidden");
    elsewhere.get(CONFIG_MAPS).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn some_objects_are_reached_by_name_alone() {
    let admin = Client::new().await;
    for name in ["mine", "yours"] {
        admin.config_map(name, json!({})).await;
    }
    let mut one = rule("get list watch update delete deletecollection", "", "configmaps");
    one["resourceNames"] = json!(["mine"]);
    let ann = admin.with_rules_in("default", "ann", json!([one])).await;
    ann.get(&format!("{CONFIG_MAPS}/mine")).await.ok();
    ann.get(&format!("{CONFIG_MAPS}/yours")).await.refused(403, "Forbidden");
    ann.get(CONFIG_MAPS).await.refused(403, "Forbidden");
    let list = ann.get(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dmine")).await.ok();
    assert_eq!(crate::client::names(&list), ["mine"]);
    for selector in
        ["metadata.name%3Dyours", "metadata.name!%3Dmine", "metadata.namespace%3Ddefault", "metadata.name%3D"]
    {
        ann.get(&format!("{CONFIG_MAPS}?fieldSelector={selector}")).await.refused(403, "Forbidden");
    }
    // Of two selectors the first is meant, and by whoever lists as well.
    let two = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dmine&fieldSelector=metadata.name%3Dyours");
    assert_eq!(crate::client::names(&ann.get(&two).await.ok()), ["mine"]);
    let both = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dmine,metadata.name%3Dyours");
    assert_eq!(crate::client::names(&ann.get(&both).await.ok()), Vec::<String>::new());
    // As in Kubernetes, only lists and watches are of one object when they select one.
    let selected = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dmine");
    ann.delete(&selected, json!(null)).await.refused(403, "Forbidden");
    ann.delete(&format!("{CONFIG_MAPS}/mine"), json!(null)).await.ok();
    assert_eq!(admin.get(&format!("{CONFIG_MAPS}/mine")).await.code, 404);
    assert_eq!(admin.get(&format!("{CONFIG_MAPS}/yours")).await.code, 200);
}

#[tokio::test]
async fn paths_are_for_cluster_roles() {
    let admin = Client::new().await;
    let rules = json!([{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/debug/*"]}]);
    let ann = admin.with_rules("ann", rules).await;
    assert_eq!(ann.get("/metrics").await.code, 200);
    assert_eq!(ann.get("/debug/x").await.code, 404);
    let refused = ann.get("/debug").await.refused(403, "Forbidden");
    assert_eq!(refused["message"], "forbidden: User \"ann\" cannot get path \"/debug\"");
    // A binding in a namespace reaches no paths.
    admin.bind("default", "bob", "ClusterRole", "ann").await;
    admin.as_user("bob", &[]).get("/metrics").await.refused(403, "Forbidden");
    for path in ["/%6detrics", "/livez/../metrics", "//metrics", "/livez%2F..%2Fmetrics", "/metrics/"] {
        let code = admin.as_user("bob", &[]).get(path).await.code;
        assert!(matches!(code, 403 | 404), "{path} is answered with {code}");
    }
}

#[tokio::test]
async fn expressions_ask_the_same_rules() {
    let admin = Client::new().await;
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
            ]},
            "validations": [
                {"expression": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
                 "message": "needs secrets"},
                {"expression": "authorizer.serviceAccount('default', 'robot').path('/version').check('get').allowed() \
                                && !authorizer.serviceAccount('default', 'robot').path('/metrics').check('get').allowed()",
                 "message": "robots"},
            ],
        },
    });
    let base = "/apis/admissionregistration.k8s.io/v1";
    admin.post(&format!("{base}/validatingadmissionpolicies"), policy).await.created();
    let bound =
        json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    admin.post(&format!("{base}/validatingadmissionpolicybindings"), bound).await.created();
    let ann = admin.with_rules("ann", json!([rule("create", "", "configmaps")])).await;
    let bob =
        admin.with_rules("bob", json!([rule("create", "", "configmaps"), rule("get", "", "secrets")])).await;
    let refused = ann.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await.status();
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("needs secrets")), "{refused}");
    bob.post(CONFIG_MAPS, json!({"metadata": {"name": "b"}})).await.created();
}

#[tokio::test]
async fn who_may_only_change_does_not_create_by_changing() {
    let admin = Client::new().await;
    let ann = admin
        .with_rules(
            "ann",
            json!([rule("update patch", "", "configmaps"), rule("update", "coordination.k8s.io", "leases")]),
        )
        .await;
    let bob = admin
        .with_rules(
            "bob",
            json!([
                rule("create patch", "", "configmaps"),
                rule("create update", "coordination.k8s.io", "leases")
            ]),
        )
        .await;
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}});
    let path = format!("{CONFIG_MAPS}/c?fieldManager=t");
    let refused = ann.patch("apply", &path, applied.clone()).await.refused(403, "Forbidden");
    assert!(
        refused["message"].as_str().is_some_and(|text| text.contains("cannot create resource")),
        "{refused}"
    );
    bob.patch("apply", &path, applied.clone()).await.created();
    ann.patch("apply", &path, applied).await.ok();
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let made = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}});
    ann.put(lease, made.clone()).await.refused(403, "Forbidden");
    bob.put(lease, made).await.created();
}
