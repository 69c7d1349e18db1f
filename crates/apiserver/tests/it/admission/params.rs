//! The parameters of policies.

use serde_json::{Value, json};

use super::*;
use crate::client::CONFIG_MAPS;

/// A policy that takes a config map as its parameter: `data.a` must not be more than `data.most` of it.
fn limited() -> Value {
    json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "not-itself", "expression": "!has(object.data.most)"}],
        "validations": [{"expression": "int(object.data.a) <= int(params.data.most)", "messageExpression": "'at most ' + params.data.most"}],
    })
}

fn with_a(name: &str, a: u32) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": a.to_string()}})
}

fn limit(name: &str, most: u32) -> Value {
    json!({"metadata": {"name": name, "labels": {"limit": "yes"}}, "data": {"most": most.to_string()}})
}

#[tokio::test]
async fn a_parameter_is_found_by_name_in_the_namespace_of_the_request() {
    let client = Client::new().await;
    client.namespace("other").await;
    client.post(CONFIG_MAPS, limit("limit", 5)).await.created();
    client.post("/api/v1/namespaces/other/configmaps", limit("limit", 7)).await.created();
    let reference = json!({"paramRef": {"name": "limit", "parameterNotFoundAction": "Deny"}});
    client.bound("p", limited(), reference).await;
    client.post(CONFIG_MAPS, with_a("x", 5)).await.created();
    let status = client.post(CONFIG_MAPS, with_a("y", 6)).await.refused(422, "Invalid");
    assert!(message(&status).ends_with("denied request: at most 5"), "{status}");
    client.post("/api/v1/namespaces/other/configmaps", with_a("y", 7)).await.created();
    // A changed parameter holds at once.
    client.patch("merge", &format!("{CONFIG_MAPS}/limit"), json!({"data": {"most": "6"}})).await.ok();
    client.post(CONFIG_MAPS, with_a("y", 6)).await.created();
}

#[tokio::test]
async fn a_parameter_can_be_in_a_namespace_of_its_own() {
    let client = Client::new().await;
    client.post("/api/v1/namespaces/kube-system/configmaps", limit("limit", 5)).await.created();
    let reference =
        json!({"paramRef": {"name": "limit", "namespace": "kube-system", "parameterNotFoundAction": "Deny"}});
    client.bound("p", limited(), reference).await;
    client.post(CONFIG_MAPS, with_a("y", 6)).await.refused(422, "Invalid");
}

#[tokio::test]
async fn all_selected_parameters_must_be_met() {
    let client = Client::new().await;
    for (name, most) in [("one", 9), ("two", 5)] {
        client.post(CONFIG_MAPS, limit(name, most)).await.created();
    }
    let selector = json!({"matchLabels": {"limit": "yes"}});
    client
        .bound("p", limited(), json!({"paramRef": {"selector": selector, "parameterNotFoundAction": "Deny"}}))
        .await;
    client.post(CONFIG_MAPS, with_a("x", 5)).await.created();
    let status = client.post(CONFIG_MAPS, with_a("y", 7)).await.refused(422, "Invalid");
    assert!(message(&status).ends_with("at most 5"), "{status}");
}

#[tokio::test]
async fn a_binding_says_what_happens_without_its_parameter() {
    let client = Client::new().await;
    let reference = |action: &str| json!({"paramRef": {"name": "gone", "parameterNotFoundAction": action}});
    client.bound("allowed", limited(), reference("Allow")).await;
    client.post(CONFIG_MAPS, with_a("x", 99)).await.created();
    client.bound("denied", limited(), reference("Deny")).await;
    let status = client.post(CONFIG_MAPS, with_a("y", 1)).await.refused(422, "Invalid");
    let why = "denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(message(&status).ends_with(why), "{status}");
}

#[tokio::test]
async fn a_parameter_of_an_unknown_kind_is_a_failure() {
    let client = Client::new().await;
    let mut spec = limited();
    spec["paramKind"] = json!({"apiVersion": "example.com/v1", "kind": "Limit"});
    let reference = json!({"paramRef": {"name": "limit", "parameterNotFoundAction": "Allow"}});
    client.bound("p", spec.clone(), reference.clone()).await;
    let status = client.post(CONFIG_MAPS, with_a("y", 1)).await.refused(422, "Invalid");
    assert!(message(&status).contains("paramKind kind `example.com/v1, Kind=Limit` not known"), "{status}");
    for plural in ["validatingadmissionpolicies", "validatingadmissionpolicybindings"] {
        client.delete(&format!("{}/p", path(plural)), Value::Null).await.ok();
    }
    spec["failurePolicy"] = "Ignore".into();
    client.bound("q", spec, reference).await;
    client.post(CONFIG_MAPS, with_a("y", 1)).await.created();
}

#[tokio::test]
async fn a_mutation_can_take_what_it_sets_from_a_parameter() {
    let client = Client::new().await;
    client
        .post(CONFIG_MAPS, json!({"metadata": {"name": "team"}, "data": {"label": "blue"}}))
        .await
        .created();
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "mutations": [{
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'team': params.data.label}}}"},
        }],
    });
    client.bound("p", spec, json!({"paramRef": {"name": "team", "parameterNotFoundAction": "Deny"}})).await;
    let made = client.post(CONFIG_MAPS, config("x")).await.created();
    assert_eq!(made["metadata"]["labels"]["team"], "blue");
}
