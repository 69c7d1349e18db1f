//! Servers that want kubectl to be used in a certain way, or not at all.

use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::SignedDuration;
use serde_json::json;
use windlass_access::{KubectlRules, tokens::TokenFile};
use windlass_apiserver::Authentication;

use super::*;

const KUBECTL: (&str, &str) = ("user-agent", "kubectl/v1.37.0 (linux/amd64) kubernetes/abcdef");

#[tokio::test]
async fn kubectl_can_be_kept_out() {
    let kubectl = KubectlRules { disabled: true, ephemeral: None };
    let client = Client::with(with(Authentication { kubectl, ..Authentication::default() })).await;
    let status = client.send("GET", ASKED, &[KUBECTL], "").await.refused(401, "Unauthorized");
    assert_eq!(status["message"], "kubectl disabled");
    client.send("GET", ASKED, &[("user-agent", "helm/v3")], "").await.ok();
}

#[tokio::test]
async fn kubectl_can_be_made_to_come_with_tokens_that_end_soon() {
    let kubectl = KubectlRules { disabled: false, ephemeral: Some(SignedDuration::from_mins(20)) };
    let (file, _) = TokenFile::parse("t", b"static,jane,1,system:masters").expect("a token file");
    let token_file = Some(Arc::new(ArcSwap::from_pointee(file)));
    let client =
        Client::with(with(Authentication { kubectl, token_file, ..Authentication::default() })).await;
    account(&client, "till").await;
    let short = token(&client, "till", json!({"expirationSeconds": 900})).await;
    let long = token(&client, "till", json!({"expirationSeconds": 1800})).await;
    let nobody = client.anonymous();
    let by = async |token: &str, agent: &(&str, &str)| {
        nobody.send("GET", ASKED, &[("authorization", &format!("Bearer {token}")), *agent], "").await
    };
    is_known(&by(&short, &KUBECTL).await);
    for token in [long.as_str(), "static"] {
        let status = by(token, &KUBECTL).await.refused(401, "Unauthorized");
        assert!(status["message"].as_str().is_some_and(|text| text.contains("ephemeral token")), "{status}");
        assert_ne!(by(token, &("user-agent", "helm/v3")).await.code, 401);
    }
    client.send("GET", ASKED, &[KUBECTL], "").await.refused(401, "Unauthorized");
    client.send("GET", ASKED, &[], "").await.ok();
}
