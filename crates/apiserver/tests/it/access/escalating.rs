//! Nobody gives what they do not have, whatever way they write.

use serde_json::{Value, json};

use super::{RBAC, binding, rule};
use crate::client::{Answer, Client};

/// What may be written to roles and bindings by those in these tests.
fn writes() -> Value {
    rule(
        "get create update patch delete",
        "rbac.authorization.k8s.io",
        "roles clusterroles rolebindings clusterrolebindings",
    )
}

/// Every way to bring an object into the store, or to change it.
const WAYS: [&str; 8] = [
    "create",
    "create by put",
    "update",
    "json patch",
    "merge patch",
    "strategic patch",
    "apply new",
    "apply",
];

/// Writes `object` by one of them. `before` is put there first where the way needs one.
async fn write(
    client: &Client,
    admin: &Client,
    way: &str,
    collection: &str,
    before: &Value,
    object: &Value,
) -> Answer {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let path = format!("{collection}/{name}");
    if !matches!(way, "create" | "create by put" | "apply new") {
        admin.post(collection, before.clone()).await.created();
    }
    let field = if object["rules"].is_null() { "subjects" } else { "rules" };
    match way {
        "create" => client.post(collection, object.clone()).await,
        "create by put" => client.put(&path, object.clone()).await,
        "update" => client.put(&path, object.clone()).await,
        "json patch" => {
            let patch = json!([{"op": "add", "path": format!("/{field}"), "value": object[field]}]);
            client.patch("json", &path, patch).await
        }
        "merge patch" => client.patch("merge", &path, json!({field: object[field]})).await,
        "strategic patch" => client.patch("strategic", &path, json!({field: object[field]})).await,
        _ => {
            let kind = match collection.rsplit('/').next() {
                Some("roles") => "Role",
                Some("clusterroles") => "ClusterRole",
                Some("rolebindings") => "RoleBinding",
                _ => "ClusterRoleBinding",
            };
            let mut applied = object.clone();
            applied["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
            applied["kind"] = kind.into();
            client.patch("apply", &format!("{path}?fieldManager=t&force=true"), applied).await
        }
    }
}

#[tokio::test]
async fn no_way_to_write_escapes() {
    let admin = Client::new().await;
    let own = rule("get", "", "pods");
    let ann = admin.with_rules("ann", json!([writes(), own])).await;
    let secrets = json!([rule("get", "", "secrets")]);
    admin
        .post(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "strong"}, "rules": secrets}))
        .await
        .created();
    admin
        .post(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "weak"}, "rules": [own]}))
        .await
        .created();
    for collection in
        ["namespaces/default/roles", "clusterroles", "namespaces/default/rolebindings", "clusterrolebindings"]
    {
        let path = format!("{RBAC}/{collection}");
        let is_role = collection.ends_with("roles");
        for (n, way) in WAYS.iter().enumerate() {
            let make = |name: &str, strong: bool, is_before: bool| match (is_role, strong) {
                (true, true) => json!({"metadata": {"name": name}, "rules": secrets}),
                (true, false) => {
                    json!({"metadata": {"name": name}, "rules": if is_before { json!([]) } else { json!([own]) }})
                }
                (false, _) => {
                    let role = if strong { "strong" } else { "weak" };
                    let to = if is_before { "someone" } else { "ann" };
                    binding(name, "ClusterRole", role, to)
                }
            };
            let (bad, good) = (format!("bad-{n}"), format!("good-{n}"));
            let before = make(&bad, !is_role, true);
            let refused = write(&ann, &admin, way, &path, &before, &make(&bad, true, false)).await;
            let status = refused.refused(403, "Forbidden");
            let message = status["message"].as_str().unwrap_or_default();
            assert!(
                message.contains("user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions \
                                  not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"),
                "{way} {collection}: {message}"
            );
            let kept = admin.get(&format!("{path}/{bad}")).await;
            assert!(
                kept.code == 404 || kept.json()["metadata"]["resourceVersion"].is_string(),
                "{way} {collection}"
            );
            assert!(
                !kept.text().contains("\"secrets\"") && !kept.text().contains("\"ann\""),
                "{way}: {}",
                kept.text()
            );
            let done =
                write(&ann, &admin, way, &path, &make(&good, false, true), &make(&good, false, false)).await;
            assert!(matches!(done.code, 200 | 201), "{way} {collection}: {}", done.text());
        }
    }
    let dry = format!("{RBAC}/clusterroles?dryRun=All");
    ann.post(&dry, json!({"metadata": {"name": "dry"}, "rules": secrets})).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn rights_to_escalate_and_to_bind_are_rights() {
    let admin = Client::new().await;
    let all = json!([rule("*", "*", "*")]);
    let mut escalate = rule("escalate", "rbac.authorization.k8s.io", "clusterroles");
    escalate["resourceNames"] = json!(["this"]);
    let mut bind = rule("bind", "rbac.authorization.k8s.io", "clusterroles");
    bind["resourceNames"] = json!(["view"]);
    let ann = admin.with_rules("ann", json!([writes(), escalate])).await;
    let bob = admin.with_rules("bob", json!([writes(), bind])).await;
    let roles = format!("{RBAC}/clusterroles");
    ann.post(&roles, json!({"metadata": {"name": "this"}, "rules": all})).await.created();
    ann.post(&roles, json!({"metadata": {"name": "that"}, "rules": all})).await.refused(403, "Forbidden");
    let bindings = format!("{RBAC}/clusterrolebindings");
    bob.post(&bindings, binding("a", "ClusterRole", "view", "bob")).await.created();
    bob.post(&bindings, binding("b", "ClusterRole", "edit", "bob")).await.refused(403, "Forbidden");
    bob.post(&bindings, binding("c", "ClusterRole", "this", "bob")).await.refused(403, "Forbidden");
    let refused =
        bob.post(&bindings, binding("d", "ClusterRole", "absent", "bob")).await.refused(404, "NotFound");
    assert_eq!(refused["message"], "clusterroles.rbac.authorization.k8s.io \"absent\" not found");
    let local = format!("{RBAC}/namespaces/default/rolebindings");
    bob.post(&local, binding("e", "Role", "absent", "bob")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn who_holds_rights_in_a_namespace_gives_them_there() {
    let admin = Client::new().await;
    admin.namespace("other").await;
    admin.bind("default", "ann", "ClusterRole", "admin").await;
    let ann = admin.as_user("ann", &[]);
    let role = |verbs: &str| json!({"metadata": {"name": "r"}, "rules": [rule(verbs, "", "pods")]});
    ann.post(&format!("{RBAC}/namespaces/default/roles"), role("get list")).await.created();
    ann.post(&format!("{RBAC}/namespaces/default/rolebindings"), binding("b", "Role", "r", "bob"))
        .await
        .created();
    ann.post(&format!("{RBAC}/namespaces/default/rolebindings"), binding("e", "ClusterRole", "edit", "bob"))
        .await
        .created();
    let all = binding("x", "ClusterRole", "cluster-admin", "bob");
    ann.post(&format!("{RBAC}/namespaces/default/rolebindings"), all).await.refused(403, "Forbidden");
    for path in ["namespaces/other/roles", "clusterroles"] {
        ann.post(&format!("{RBAC}/{path}"), role("get")).await.refused(403, "Forbidden");
    }
    admin.as_user("bob", &[]).get("/api/v1/namespaces/default/pods").await.ok();
}

#[tokio::test]
async fn a_role_made_of_others_takes_all_rights() {
    let admin = Client::new().await;
    let most = rule("get list watch create update patch delete", "*", "*");
    let ann = admin.with_rules("ann", json!([writes(), most])).await;
    let whole = |name: &str| {
        json!({
            "metadata": {"name": name}, "rules": [],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
        })
    };
    let roles = format!("{RBAC}/clusterroles");
    let refused = ann.post(&roles, whole("w")).await.refused(403, "Forbidden");
    let words = "must have cluster-admin privileges to use the aggregationRule";
    assert!(refused["message"].as_str().is_some_and(|text| text.contains(words)), "{refused}");
    admin.post(&roles, whole("w")).await.created();
    let patch = json!({"aggregationRule": null});
    ann.patch("merge", &format!("{roles}/w"), patch).await.refused(403, "Forbidden");
    admin.bind("", "carl", "ClusterRole", "cluster-admin").await;
    admin.as_user("carl", &[]).post(&roles, whole("v")).await.created();
}

#[tokio::test]
async fn those_who_clean_up_need_not_hold_what_they_clean_up() {
    let admin = Client::new().await;
    let ann = admin.with_rules("ann", json!([writes()])).await;
    let roles = format!("{RBAC}/clusterroles");
    let strong = json!({
        "metadata": {"name": "strong", "finalizers": ["example.com/wait"]}, "rules": [rule("*", "*", "*")]});
    admin.post(&roles, strong).await.created();
    let path = format!("{roles}/strong");
    ann.patch("merge", &path, json!({"metadata": {"labels": {"a": "b"}}})).await.refused(403, "Forbidden");
    ann.patch("merge", &path, json!({"metadata": {"finalizers": null}})).await.ok();
    ann.delete(&path, json!(null)).await.ok();
}
