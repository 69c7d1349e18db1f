//! Tokens of service accounts: made, shown, reviewed, expired, tampered with, and of keys that come and go.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use windlass_access::{jwt::SigningKey, user_tokens::Revoked};
use windlass_apiserver::{AccountIssuer, Authentication};

use super::*;

#[tokio::test]
async fn a_token_shows_who_the_account_is() {
    let client = Client::new().await;
    let account = account(&client, "till").await;
    let uid = account["metadata"]["uid"].as_str().expect("a uid");
    let token = token(&client, "till", json!({})).await;
    is_known(&asks(&client, &token).await);
    let status = review(&client, &token, &[]).await;
    assert_eq!(status["authenticated"], true, "{status}");
    let user = &status["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:till");
    assert_eq!(user["uid"], uid);
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(user["groups"], json!(groups));
    let id = format!("JTI={}", claims(&token)["jti"].as_str().expect("an id"));
    assert_eq!(user["extra"], json!({"authentication.kubernetes.io/credential-id": [id]}));
    assert_eq!(status["audiences"], json!([AccountIssuer::DEFAULT_NAME]));
    let refused = asks(&client, &token).await.status();
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("system:serviceaccount:default:till"), "{message}");
}

#[tokio::test]
async fn a_token_is_made_as_it_was_asked_for() {
    let client = Client::new().await;
    account(&client, "till").await;
    let made =
        request(&client, "till", json!({"audiences": ["vault"], "expirationSeconds": 7200})).await.created();
    assert_eq!(
        (&made["kind"], &made["apiVersion"]),
        (&json!("TokenRequest"), &json!("authentication.k8s.io/v1"))
    );
    assert_eq!(made["metadata"]["name"], "till");
    assert_eq!(
        made["spec"],
        json!({"audiences": ["vault"], "expirationSeconds": 7200, "boundObjectRef": null})
    );
    let said = claims(made["status"]["token"].as_str().expect("a token"));
    let second = |name: &str| said[name].as_i64().expect("a time");
    assert_eq!((second("exp") - second("iat"), second("nbf")), (7200, second("iat")));
    assert_eq!(said["aud"], json!(["vault"]));
    let expires = made["status"]["expirationTimestamp"].as_str().expect("a time").parse::<Timestamp>();
    assert_eq!(expires.expect("a time").as_second(), second("exp"));
    let usual = request(&client, "till", json!({"audiences": null})).await.created();
    assert_eq!(
        usual["spec"],
        json!({"audiences": [AccountIssuer::DEFAULT_NAME], "expirationSeconds": 3600, "boundObjectRef": null})
    );
}

#[tokio::test]
async fn requests_that_ask_for_too_much_are_refused() {
    let client = Client::new().await;
    account(&client, "till").await;
    for (spec, why) in [
        (json!({"expirationSeconds": 599}), "may not specify a duration less than 10 minutes"),
        (json!({"expirationSeconds": -1}), "may not specify a duration less than 10 minutes"),
        (json!({"expirationSeconds": 4294967297u64}), "may not specify a duration larger than 2^32 seconds"),
        (json!({"audiences": vec!["a"; 65]}), "must have at most 64 items"),
        (json!({"audiences": ["a".repeat(513)]}), "Too long"),
    ] {
        let status = request(&client, "till", spec).await.refused(422, "Invalid");
        assert!(status["message"].as_str().is_some_and(|text| text.contains(why)), "{status}");
    }
    request(&client, "nobody", json!({})).await.refused(404, "NotFound");
    let other = json!({"metadata": {"name": "safe"}, "spec": {}});
    client.post(&format!("{ACCOUNTS}/till/token"), other).await.refused(400, "BadRequest");
    client.get(&format!("{ACCOUNTS}/till/token")).await.refused(405, "MethodNotAllowed");
}

#[tokio::test]
async fn a_token_lasts_no_longer_than_the_server_wants() {
    let issuer = AccountIssuer { most_seconds: Some(3600), ..AccountIssuer::new(key(), vec![]) };
    let client = Client::with(with_issuer(issuer)).await;
    account(&client, "till").await;
    let answer = request(&client, "till", json!({"expirationSeconds": 86400})).await;
    assert_eq!(answer.warnings(), ["requested expiration of 86400 seconds shortened to 3600 seconds"]);
    assert_eq!(answer.created()["spec"]["expirationSeconds"], 3600);
}

#[tokio::test]
async fn a_token_is_good_for_those_it_is_meant_for() {
    let client = Client::new().await;
    account(&client, "till").await;
    let token = token(&client, "till", json!({"audiences": ["vault", "bank"]})).await;
    is_unknown(&asks(&client, &token).await);
    assert_eq!(review(&client, &token, &[]).await["authenticated"], Value::Null);
    assert_eq!(review(&client, &token, &["shop"]).await["authenticated"], Value::Null);
    let status = review(&client, &token, &["shop", "bank"]).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["bank"])));
}

/// Signs the claims of a good token after something has been done to them.
fn changed(signing: &SigningKey, good: &str, change: impl FnOnce(&mut Map<String, Value>)) -> String {
    let mut claims = claims(good);
    change(&mut claims);
    signing.sign(&claims).expect("randomness")
}

#[tokio::test]
async fn only_what_the_key_has_signed_is_believed_and_only_in_its_time() {
    let (own, signing) = twin_keys();
    let client = Client::with(with_issuer(AccountIssuer::new(own, vec![]))).await;
    account(&client, "till").await;
    let good = token(&client, "till", json!({})).await;
    is_known(&asks(&client, &good).await);
    let set = |name: &'static str, value: Value| {
        changed(&signing, &good, |claims| drop(claims.insert(name.to_owned(), value)))
    };
    is_known(&asks(&client, &set("exp", in_seconds(30))).await);
    let parts: Vec<&str> = good.split('.').collect();
    let header = |header: Value| URL_SAFE_NO_PAD.encode(header.to_string());
    let none = header(json!({"alg": "none"}));
    let hs = header(json!({"alg": "HS256", "kid": signing.public().id()}));
    let mut swapped = claims(&good);
    swapped.insert("sub".to_owned(), json!("system:serviceaccount:kube-system:root"));
    let swapped = URL_SAFE_NO_PAD.encode(Value::Object(swapped).to_string());
    for (what, token) in [
        ("expired", set("exp", in_seconds(-30))),
        ("without an end", changed(&signing, &good, |claims| drop(claims.remove("exp")))),
        ("of the future", set("nbf", in_seconds(300))),
        ("issued in the future", set("iat", in_seconds(300))),
        ("of another issuer", set("iss", json!("https://elsewhere.example"))),
        ("of the issuer of users", set("iss", json!("windlass"))),
        ("for nobody", set("aud", json!([]))),
        ("of another account", set("sub", json!("system:serviceaccount:default:safe"))),
        ("without claims of ours", changed(&signing, &good, |claims| drop(claims.remove("kubernetes.io")))),
        ("signed by a stranger", changed(&key(), &good, |_| {})),
        ("without a signature", format!("{}.{}.", parts[0], parts[1])),
        ("with other claims", format!("{}.{swapped}.{}", parts[0], parts[2])),
        ("of no algorithm", format!("{none}.{}.", parts[1])),
        ("of no algorithm, signed", format!("{none}.{}.{}", parts[1], parts[2])),
        ("of a shared secret", format!("{hs}.{}.{}", parts[1], parts[2])),
        ("cut", good[..good.len() - 10].to_owned()),
        ("too long", format!("{good}{}", "A".repeat(40_000))),
        ("no token", "opaque".to_owned()),
    ] {
        let answer = asks(&client, &token).await;
        assert_eq!(answer.code, 401, "a token {what} is taken");
        is_unknown(&answer);
        let status = review(&client, &token, &[]).await;
        assert_eq!(status["authenticated"], Value::Null, "a token {what} is taken: {status}");
        assert!(status["error"].as_str().is_some_and(|why| !why.contains(&token)), "{what}: {status}");
    }
    is_known(&asks(&client, &good).await);
}

#[tokio::test]
async fn a_token_ends_with_its_account_and_is_not_the_next_ones() {
    let client = Client::new().await;
    account(&client, "till").await;
    let old = token(&client, "till", json!({})).await;
    is_known(&asks(&client, &old).await);
    client.delete(&format!("{ACCOUNTS}/till"), Value::Null).await.ok();
    is_unknown(&asks(&client, &old).await);
    account(&client, "till").await;
    is_unknown(&asks(&client, &old).await);
    let new = token(&client, "till", json!({})).await;
    is_known(&asks(&client, &new).await);
}

#[tokio::test]
async fn keys_are_exchanged_one_after_the_other() {
    let (first, old_public) = (key(), |key: &SigningKey| key.public().clone());
    let old = old_public(&first);
    let client = Client::with(with_issuer(AccountIssuer::new(first, vec![]))).await;
    account(&client, "till").await;
    let before = token(&client, "till", json!({})).await;

    let (second, again) = twin_keys();
    let both = client.beside_with(with_issuer(AccountIssuer::new(second, vec![old]))).await;
    let after = token(&both, "till", json!({})).await;
    is_known(&asks(&both, &before).await);
    is_known(&asks(&both, &after).await);
    is_unknown(&asks(&client, &after).await);

    let last = client.beside_with(with_issuer(AccountIssuer::new(again, vec![]))).await;
    is_unknown(&asks(&last, &before).await);
    is_known(&asks(&last, &after).await);
}

#[tokio::test]
async fn an_issuer_can_have_had_another_name() {
    let (own, again) = twin_keys();
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let issuer = |own, all: &[&str]| AccountIssuer { issuers: names(all), ..AccountIssuer::new(own, vec![]) };
    let client = Client::with(with_issuer(issuer(own, &["https://old.example"]))).await;
    account(&client, "till").await;
    let old = token(&client, "till", json!({})).await;
    let renamed =
        client.beside_with(with_issuer(issuer(again, &["https://new.example", "https://old.example"]))).await;
    is_known(&asks(&renamed, &old).await);
    let new = token(&renamed, "till", json!({})).await;
    assert_eq!(claims(&new)["iss"], "https://new.example");
    is_unknown(&asks(&client, &new).await);
}

#[tokio::test]
async fn a_token_that_is_revoked_is_no_good() {
    let authentication = Authentication::default();
    let client = Client::with(with(authentication.clone())).await;
    account(&client, "till").await;
    let (one, other) = (token(&client, "till", json!({})).await, token(&client, "till", json!({})).await);
    let id = claims(&one)["jti"].as_str().expect("an id").to_owned();
    authentication.revoked.store(Arc::new(Revoked::parse(&id).expect("a list")));
    is_unknown(&asks(&client, &one).await);
    is_known(&asks(&client, &other).await);
    assert_eq!(review(&client, &one, &[]).await["error"], "it has been revoked");
}
