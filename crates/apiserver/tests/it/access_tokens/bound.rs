//! Tokens that are bound to objects, and those that are kept in secrets.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use windlass_apiserver::AccountIssuer;

use super::*;
use crate::client::{PODS, pod};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const NODES: &str = "/api/v1/nodes";

fn to(kind: &str, name: &str) -> Value {
    json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}})
}

async fn pod_of(client: &Client, name: &str, account: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["serviceAccountName"] = account.into();
    client.post(PODS, pod).await.created()
}

#[tokio::test]
async fn a_token_of_a_pod_says_so_and_ends_with_it() {
    let client = Client::new().await;
    account(&client, "till").await;
    let node = client.post(NODES, json!({"metadata": {"name": "n"}})).await.created();
    let made = pod_of(&client, "p", "till").await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    client.post(&format!("{PODS}/p/binding"), binding).await.created();
    let token = token(&client, "till", to("Pod", "p")).await;
    let extra = review(&client, &token, &[]).await["user"]["extra"].clone();
    for (what, object) in [("pod", &made), ("node", &node)] {
        let key = |part: &str| format!("authentication.kubernetes.io/{what}-{part}");
        assert_eq!(extra[key("name")], json!([object["metadata"]["name"]]), "{extra}");
        assert_eq!(extra[key("uid")], json!([object["metadata"]["uid"]]), "{extra}");
    }
    // The node is only told, so the token does not end with it.
    client.delete(&format!("{NODES}/n"), Value::Null).await.ok();
    is_known(&asks(&client, &token).await);
    client.delete(&format!("{PODS}/p"), json!({"gracePeriodSeconds": 0})).await.ok();
    is_unknown(&asks(&client, &token).await);
    pod_of(&client, "p", "till").await;
    is_unknown(&asks(&client, &token).await);
}

#[tokio::test]
async fn tokens_of_secrets_and_nodes_end_with_them() {
    let client = Client::new().await;
    account(&client, "till").await;
    for (kind, path) in [("Secret", SECRETS), ("Node", NODES)] {
        client.post(path, json!({"metadata": {"name": "it"}})).await.created();
        let token = token(&client, "till", to(kind, "it")).await;
        is_known(&asks(&client, &token).await);
        client.delete(&format!("{path}/it"), Value::Null).await.ok();
        is_unknown(&asks(&client, &token).await);
        client.post(path, json!({"metadata": {"name": "it"}})).await.created();
        is_unknown(&asks(&client, &token).await);
    }
}

#[tokio::test]
async fn a_token_is_bound_only_to_what_is_there_and_fits() {
    let client = Client::new().await;
    for name in ["till", "safe"] {
        account(&client, name).await;
    }
    pod_of(&client, "p", "safe").await;
    client.post(SECRETS, json!({"metadata": {"name": "s"}})).await.created();
    let status = request(&client, "till", to("Pod", "p")).await.refused(400, "BadRequest");
    let why =
        "cannot bind token for serviceaccount \"till\" to pod running with different serviceaccount name.";
    assert_eq!(status["message"], why);
    for kind in ["Pod", "Secret", "Node"] {
        request(&client, "safe", to(kind, "gone")).await.refused(404, "NotFound");
    }
    request(&client, "till", to("ConfigMap", "c")).await.refused(400, "BadRequest");
    request(&client, "till", to("Pod", "")).await.refused(404, "NotFound");
    let mut other = to("Secret", "s");
    other["boundObjectRef"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let status = request(&client, "till", other).await.refused(409, "Conflict");
    assert!(
        status["message"].as_str().is_some_and(|text| text.contains("does not match the UID")),
        "{status}"
    );
}

#[tokio::test]
async fn a_token_that_is_kept_in_a_secret_is_good_while_it_is_there() {
    let (own, signing) = twin_keys();
    let client = Client::with(with_issuer(AccountIssuer::new(own, vec![]))).await;
    let uid = account(&client, "till").await["metadata"]["uid"].clone();
    let said = json!({
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:default:till",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "drawer",
        "kubernetes.io/serviceaccount/service-account.name": "till",
        "kubernetes.io/serviceaccount/service-account.uid": uid,
    });
    let token = signing.sign(said.as_object().expect("claims")).expect("randomness");
    is_unknown(&asks(&client, &token).await);
    let secret = |token: &str| {
        json!({
            "metadata": {"name": "drawer", "annotations": {
                "kubernetes.io/service-account.name": "till", "kubernetes.io/service-account.uid": uid,
            }},
            "type": "kubernetes.io/service-account-token",
            "data": {"token": STANDARD.encode(token)},
        })
    };
    client.post(SECRETS, secret("another")).await.created();
    is_unknown(&asks(&client, &token).await);
    client.put(&format!("{SECRETS}/drawer"), secret(&token)).await.ok();
    is_known(&asks(&client, &token).await);
    let status = review(&client, &token, &[]).await;
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:till");
    assert_eq!(review(&client, &token, &["vault"]).await["authenticated"], Value::Null);
    client.delete(&format!("{SECRETS}/drawer"), Value::Null).await.ok();
    is_unknown(&asks(&client, &token).await);
}
