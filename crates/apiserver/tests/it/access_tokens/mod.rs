//! Who is known by a token, and for how long.

mod accounts;
mod bound;
mod files;
mod issuer;
mod kubectl;

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass_access::jwt::SigningKey;
use windlass_apiserver::{AccountIssuer, Authentication, Config};

use crate::client::{Answer, Client};

/// Where service accounts of `default` are.
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// Where reviews of tokens are.
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// What may be done only by those who are known, and by nobody who has not been given anything.
const ASKED: &str = "/api/v1/namespaces/default/secrets";

/// A new key.
fn key() -> SigningKey {
    SigningKey::from_pem(SigningKey::generate_pem().expect("randomness").as_bytes()).expect("a key")
}

/// The same key, twice: for the server and for the test.
fn twin_keys() -> (SigningKey, SigningKey) {
    let pem = SigningKey::generate_pem().expect("randomness");
    let read = || SigningKey::from_pem(pem.as_bytes()).expect("a key");
    (read(), read())
}

fn with(authentication: Authentication) -> Config {
    Config { authentication, ..Config::default() }
}

fn with_issuer(issuer: AccountIssuer) -> Config {
    with(Authentication { accounts: Some(Arc::new(issuer)), ..Authentication::default() })
}

/// A request with nothing to show but a token.
async fn asks(client: &Client, token: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    client.anonymous().send("GET", ASKED, &[("authorization", &bearer)], "").await
}

/// Whoever shows this token is known, and has no rights.
#[track_caller]
fn is_known(answer: &Answer) {
    answer.refused(403, "Forbidden");
}

/// Whoever shows this token is refused, and not told more than that.
#[track_caller]
fn is_unknown(answer: &Answer) {
    let status = answer.refused(401, "Unauthorized");
    assert_eq!(status["message"], "Unauthorized");
}

/// What a review says about a token.
async fn review(client: &Client, token: &str, audiences: &[&str]) -> Value {
    let review = json!({"spec": {"token": token, "audiences": audiences}});
    client.post(REVIEWS, review).await.created()["status"].clone()
}

/// Creates a service account in `default`.
async fn account(client: &Client, name: &str) -> Value {
    client.post(ACCOUNTS, json!({"metadata": {"name": name}})).await.created()
}

/// Asks for a token of an account in `default`.
async fn request(client: &Client, account: &str, spec: Value) -> Answer {
    client.post(&format!("{ACCOUNTS}/{account}/token"), json!({ "spec": spec })).await
}

/// A token of an account in `default`.
async fn token(client: &Client, account: &str, spec: Value) -> String {
    let made = request(client, account, spec).await.created();
    made["status"]["token"].as_str().expect("a token").to_owned()
}

/// What a token says.
fn claims(token: &str) -> Map<String, Value> {
    let claims = token.split('.').nth(1).expect("three parts");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).expect("base64")).expect("JSON")
}

/// The time now and so many seconds, as tokens write it.
fn in_seconds(seconds: i64) -> Value {
    (Timestamp::now().as_second() + seconds).into()
}
