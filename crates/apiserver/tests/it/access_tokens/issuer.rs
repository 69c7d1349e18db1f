//! What others need to verify tokens of service accounts by themselves.

use serde_json::{Value, json};
use windlass_access::jwt::{Algorithm, Expected, PublicKey, Token};
use windlass_apiserver::AccountIssuer;

use super::*;

#[tokio::test]
async fn the_issuer_is_described_and_its_keys_verify_its_tokens() {
    let old = key().public().clone();
    let client = Client::with(with_issuer(AccountIssuer::new(key(), vec![old]))).await;
    let about = client.get("/.well-known/openid-configuration").await.ok();
    assert_eq!(about["issuer"], AccountIssuer::DEFAULT_NAME);
    assert_eq!(about["jwks_uri"], "https://127.0.0.1:6443/openid/v1/jwks");
    assert_eq!(about["id_token_signing_alg_values_supported"], json!(["ES256"]));
    assert_eq!(about["response_types_supported"], json!(["id_token"]));
    assert_eq!(about["subject_types_supported"], json!(["public"]));
    let answer = client.get("/openid/v1/jwks").await;
    assert_eq!(answer.header("content-type"), "application/jwk-set+json");
    let set: Value = answer.ok();
    assert_eq!(set["keys"].as_array().map(Vec::len), Some(2), "{set}");
    assert!(set["keys"].as_array().into_iter().flatten().all(|key| key.get("d").is_none()), "{set}");
    let keys = PublicKey::from_jwks(set.to_string().as_bytes()).expect("a set of keys");
    account(&client, "till").await;
    let text = token(&client, "till", json!({"audiences": ["vault"]})).await;
    let said = Token::parse(&text).expect("a token").verify(&keys, &Algorithm::ALL).expect("a good token");
    let expected = Expected {
        issuers: &[AccountIssuer::DEFAULT_NAME.to_owned()],
        audiences: &["vault".to_owned()],
        skew: jiff::SignedDuration::ZERO,
        must_expire: true,
    };
    said.check(&expected, Timestamp::now()).expect("a good token");
}

#[tokio::test]
async fn the_keys_can_be_said_to_be_elsewhere() {
    let keys_url = Some("https://keys.example/jwks".to_owned());
    let client =
        Client::with(with_issuer(AccountIssuer { keys_url, ..AccountIssuer::new(key(), vec![]) })).await;
    assert_eq!(
        client.get("/.well-known/openid-configuration").await.ok()["jwks_uri"],
        "https://keys.example/jwks"
    );
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
        assert_eq!(client.post(path, json!({})).await.code, 405, "{path}");
        client.anonymous().get(path).await.refused(403, "Forbidden");
        let paths = client.get("/").await.ok();
        assert!(paths["paths"].as_array().expect("paths").contains(&json!(path)), "{paths}");
    }
}
