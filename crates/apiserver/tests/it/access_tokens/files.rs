//! Tokens that are good because of files or secrets: static ones, those of named users, those of new machines.

use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_access::{
    jwt::KeySet,
    tokens::TokenFile,
    user_tokens::{Revoked, UserToken},
};

use super::*;

fn token_file(text: &str) -> Arc<ArcSwap<TokenFile>> {
    let (file, _) = TokenFile::parse("tokens.csv", text.as_bytes()).expect("a token file");
    Arc::new(ArcSwap::from_pointee(file))
}

#[tokio::test]
async fn a_static_token_is_its_users_until_the_file_is_another() {
    let file = token_file("canary1,jane,7,\"system:masters,devs\"\ncanary2,joe,8\n");
    let authentication = Authentication { token_file: Some(Arc::clone(&file)), ..Authentication::default() };
    let client = Client::with(with(authentication)).await;
    asks(&client, "canary1").await.ok();
    is_known(&asks(&client, "canary2").await);
    is_unknown(&asks(&client, "canary3").await);
    let status = review(&client, "canary1", &[]).await;
    let user =
        json!({"username": "jane", "uid": "7", "groups": ["system:masters", "devs", "system:authenticated"]});
    assert_eq!((&status["authenticated"], &status["user"]), (&json!(true), &user));
    assert_eq!(review(&client, "canary1", &["vault"]).await["authenticated"], Value::Null);
    file.store(token_file("canary3,jim,9").load_full());
    is_unknown(&asks(&client, "canary1").await);
    is_known(&asks(&client, "canary3").await);
    let metrics = client.get("/metrics").await.text();
    for line in [
        "authentication_attempts_total{result=\"success\",by=\"token-file\"} 3",
        "authentication_attempts_total{result=\"failure\",by=\"none\"} 2",
        "authenticated_user_requests_total{username=\"other\"} 3",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(!metrics.contains("canary"));
}

#[tokio::test]
async fn a_certificate_goes_before_a_token() {
    let client = Client::new().await;
    let bearer = [("authorization", "Bearer nonsense")];
    client.send("GET", ASKED, &bearer, "").await.ok();
    is_unknown(&client.anonymous().send("GET", ASKED, &bearer, "").await);
    for (scheme, code) in [("bearer nonsense", 401), ("Basic YTpi", 401), ("Bearer", 401), ("Bearer ", 401)] {
        let answer = client.anonymous().send("GET", "/healthz", &[("authorization", scheme)], "").await;
        assert_eq!(answer.code, code, "{scheme}");
    }
}

#[tokio::test]
async fn a_token_of_a_named_user_is_good_until_it_ends_or_is_revoked() {
    let (authentication, signing) = (Authentication::default(), key());
    let client = Client::with(with(authentication.clone())).await;
    let now = Timestamp::now();
    let made = |name: &str, seconds: i64| {
        let groups = vec!["devs".to_owned()];
        let token = UserToken { name: name.to_owned(), groups, id: format!("id-of-{name}") };
        let expires = Timestamp::from_second(now.as_second() + seconds).expect("a time");
        signing.sign(&token.claims(now, expires)).expect("randomness")
    };
    let jane = made("jane", 60);
    is_unknown(&asks(&client, &jane).await);
    authentication.user_keys.store(Arc::new(KeySet::new(vec![signing.public().clone()])));
    is_known(&asks(&client, &jane).await);
    let status = review(&client, &jane, &[]).await;
    assert_eq!(status["user"]["username"], "jane");
    assert_eq!(status["user"]["groups"], json!(["devs", "system:authenticated"]));
    is_unknown(&asks(&client, &made("joe", -30)).await);
    authentication.revoked.store(Arc::new(Revoked::parse("id-of-jane").expect("a list")));
    is_unknown(&asks(&client, &jane).await);
    is_known(&asks(&client, &made("jim", 60)).await);
    authentication.user_keys.store(Arc::new(KeySet::new(vec![key().public().clone()])));
    is_unknown(&asks(&client, &made("jim", 60)).await);
}

#[tokio::test]
async fn the_key_of_service_accounts_does_not_name_users() {
    let (own, signing) = twin_keys();
    let client = Client::with(with_issuer(AccountIssuer::new(own, vec![]))).await;
    let token =
        UserToken { name: "root".to_owned(), groups: vec!["system:masters".to_owned()], id: "i".to_owned() };
    let expires = Timestamp::from_second(Timestamp::now().as_second() + 60).expect("a time");
    let mut said = token.claims(Timestamp::now(), expires);
    is_unknown(&asks(&client, &signing.sign(&said).expect("randomness")).await);
    said.insert("iss".to_owned(), json!(AccountIssuer::DEFAULT_NAME));
    said.insert("aud".to_owned(), json!(AccountIssuer::DEFAULT_NAME));
    is_unknown(&asks(&client, &signing.sign(&said).expect("randomness")).await);
}

#[tokio::test]
async fn a_new_machine_comes_in_with_a_bootstrap_token_where_that_is_wanted() {
    const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
    let wanted = Authentication { bootstrap_tokens: true, ..Authentication::default() };
    let client = Client::with(with(wanted)).await;
    let secret = |sort: &str, name: &str| {
        json!({
            "metadata": {"name": format!("bootstrap-token-{name}")},
            "type": sort,
            "stringData": {
                "token-id": name, "token-secret": "0123456789abcdef",
                "usage-bootstrap-authentication": "true", "auth-extra-groups": "system:bootstrappers:rack",
            },
        })
    };
    client.post(SECRETS, secret("bootstrap.kubernetes.io/token", "abcdef")).await.created();
    client.post(SECRETS, secret("Opaque", "ghijkl")).await.created();
    let good = "abcdef.0123456789abcdef";
    is_known(&asks(&client, good).await);
    let user = review(&client, good, &[]).await["user"].clone();
    assert_eq!(user["username"], "system:bootstrap:abcdef");
    assert_eq!(
        user["groups"],
        json!(["system:bootstrappers", "system:bootstrappers:rack", "system:authenticated"])
    );
    for bad in ["abcdef.0123456789abcdee", "ghijkl.0123456789abcdef", "mnopqr.0123456789abcdef"] {
        is_unknown(&asks(&client, bad).await);
    }
    is_unknown(&asks(&client.beside().await, good).await);
    client.delete(&format!("{SECRETS}/bootstrap-token-abcdef"), Value::Null).await.ok();
    is_unknown(&asks(&client, good).await);
}
