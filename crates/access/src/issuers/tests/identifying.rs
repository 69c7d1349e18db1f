//! From a request to an identity, with keys that a test hands out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    super::{Fetch, Issuers, Keys},
    ISSUER, read, short, with,
};
use crate::{
    authn::{Authenticator, Identity, Peer, Refusal, Shown},
    jwt::SigningKey,
};

/// Now, in all of these tests.
const NOW: i64 = 1_800_000_000;

/// An issuer that answers what it is told to.
#[derive(Default)]
struct Published {
    documents: Mutex<Vec<(String, Result<String, String>)>>,
    n_fetches: AtomicUsize,
}

impl Published {
    fn put(&self, path: &str, answer: Result<String, String>) {
        let mut documents = self.documents.lock();
        documents.retain(|(own, _)| own != path);
        documents.push((path.to_owned(), answer));
    }

    fn keys(&self, keys: &[&SigningKey]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.public().to_jwk()).collect();
        self.put("/keys", Ok(json!({"keys": keys}).to_string()));
    }
}

#[async_trait]
impl Fetch for Published {
    async fn fetch(&self, url: &str, authorities: &str) -> Result<Bytes, String> {
        assert_eq!(authorities, "", "none were given");
        self.n_fetches.fetch_add(1, Ordering::SeqCst);
        let path = url.strip_prefix(ISSUER).expect("an address of the issuer");
        let documents = self.documents.lock();
        let found = documents.iter().find(|(own, _)| own == path);
        found.map_or(Err("404".to_owned()), |(_, answer)| answer.clone()).map(Bytes::from)
    }
}

struct Setting {
    published: Arc<Published>,
    issuers: Arc<Issuers>,
    keys: Arc<Keys>,
    key: SigningKey,
}

fn signing_key() -> SigningKey {
    SigningKey::from_pem(SigningKey::generate_pem().expect("a key").as_bytes()).expect("a key")
}

/// An issuer with one key, whose keys have not been loaded.
fn setting() -> Setting {
    let (published, key) = (Arc::new(Published::default()), signing_key());
    let discovery = json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys")});
    published.put("/.well-known/openid-configuration", Ok(discovery.to_string()));
    published.keys(&[&key]);
    let issuers = Arc::new(Issuers::new(|| Timestamp::from_second(NOW).expect("a time")));
    let fetch: Arc<dyn Fetch> = published.clone();
    let fresh = issuers.replace(&read(&short()).expect("a configuration"), &fetch);
    Setting { published, issuers, keys: Arc::clone(&fresh[0]), key }
}

fn said() -> Value {
    json!({"iss": ISSUER, "aud": "windlass", "sub": "ann", "exp": NOW + 60})
}

fn sign(key: &SigningKey, claims: &Value) -> String {
    key.sign(claims.as_object().expect("claims")).expect("a token")
}

impl Setting {
    async fn show(&self, token: &str) -> Result<Option<Identity>, Refusal> {
        show(&self.issuers, token).await
    }

    async fn why(&self, token: &str) -> String {
        self.show(token).await.expect_err("it is refused").to_string()
    }
}

async fn show(issuers: &Issuers, token: &str) -> Result<Option<Identity>, Refusal> {
    let mut headers = HeaderMap::new();
    headers
        .insert(header::AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).expect("a header"));
    issuers.authenticate(Shown { peer: &Peer::default(), headers: &headers }).await
}

#[tokio::test]
async fn a_token_of_the_issuer_is_a_user_until_it_expires() {
    let setting = setting();
    assert_eq!(setting.keys.load().await.expect("keys"), 1);
    let identity = setting.show(&sign(&setting.key, &said())).await.expect("good").expect("known");
    assert_eq!((identity.user.name.as_str(), identity.by), ("ann", "issuer"));
    assert_eq!(identity.expires.map(|at| at.as_second()), Some(NOW + 60));
}

#[tokio::test]
async fn no_issuer_makes_masters() {
    let setting = setting();
    let mut configuration = short();
    configuration["jwt"][0]["claimMappings"]["groups"] = json!({"claim": "groups", "prefix": ""});
    let fetch: Arc<dyn Fetch> = setting.published.clone();
    setting.keys.load().await.expect("keys");
    setting.issuers.replace(&read(&configuration).expect("a configuration"), &fetch);
    let token = |groups: Value| sign(&setting.key, &with(said(), "groups", groups));
    setting.show(&token(json!(["devs"]))).await.expect("good").expect("known");
    let why = setting.why(&token(json!(["devs", "system:masters"]))).await;
    assert!(why.contains("an issuer has no say in who is in system:masters"), "{why}");
}

#[tokio::test]
async fn what_is_not_of_the_issuer_is_for_others_to_say() {
    let setting = setting();
    setting.keys.load().await.expect("keys");
    let other = with(said(), "iss", json!("https://issuer.example.com/"));
    for token in ["secret", "a.b.c", &sign(&setting.key, &other), &sign(&setting.key, &json!({}))] {
        assert_eq!(setting.show(token).await, Ok(None));
    }
    let headers = HeaderMap::new();
    let nothing = Shown { peer: &Peer::default(), headers: &headers };
    assert_eq!(setting.issuers.authenticate(nothing).await, Ok(None));
}

#[tokio::test]
async fn a_token_that_is_not_good_is_refused_and_not_repeated() {
    let setting = setting();
    setting.keys.load().await.expect("keys");
    for (place, value, says) in [
        ("aud", json!("others"), "meant for another audience"),
        ("aud", json!(["others", "windlas"]), "meant for another audience"),
        ("aud", Value::Null, "meant for another audience"),
        ("exp", json!(NOW), "it has expired"),
        ("exp", json!(NOW - 1), "it has expired"),
        ("exp", json!("tomorrow"), "a time in it is not a number"),
        ("exp", json!({}), "a time in it is not a number"),
        ("nbf", json!(NOW + 301), "it is not valid yet"),
        ("sub", json!(5), "username: claim \"sub\" is no string"),
    ] {
        let token = sign(&setting.key, &with(said(), place, value));
        let why = setting.why(&token).await;
        assert!(why.starts_with("issuer: https://issuer.example.com: ") && why.contains(says), "{why}");
        assert!(token.split('.').all(|part| !why.contains(part)), "{why}");
    }
    let mut immortal = said();
    immortal.as_object_mut().expect("claims").remove("exp");
    assert!(setting.why(&sign(&setting.key, &immortal)).await.contains("does not say when it expires"));
    let soon = with(said(), "nbf", json!(NOW + 299));
    setting.show(&sign(&setting.key, &soon)).await.expect("clocks differ a little");
    assert!(setting.why(&sign(&signing_key(), &said())).await.contains("no key is known"));
    // What needs no key, and what takes a public key for a secret.
    for algorithm in ["none", "HS256"] {
        let parts = [json!({"alg": algorithm}).to_string(), said().to_string(), "signature".to_owned()];
        let token = parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        assert!(setting.why(&token).await.contains("algorithm is not allowed"));
    }
}

#[tokio::test]
async fn several_audiences_are_as_good_as_one() {
    let setting = setting();
    setting.keys.load().await.expect("keys");
    let token = sign(&setting.key, &with(said(), "aud", json!(["others", "windlass"])));
    setting.show(&token).await.expect("one of them").expect("known");
}

#[tokio::test]
async fn a_token_that_comes_before_the_keys_waits_for_them() {
    let setting = setting();
    let token = sign(&setting.key, &said());
    let issuers = Arc::clone(&setting.issuers);
    let early = tokio::spawn(async move { show(&issuers, &token).await });
    setting.keys.wanted().await;
    setting.keys.load().await.expect("keys");
    early.await.expect("no panic").expect("good").expect("known");
}

#[tokio::test]
async fn a_new_key_is_asked_for_once_however_many_tokens_come() {
    let setting = setting();
    setting.keys.load().await.expect("keys");
    let new = signing_key();
    setting.published.keys(&[&setting.key, &new]);
    assert!(setting.why(&sign(&new, &said())).await.contains("a moment ago"), "keys rest after a load");
    assert_eq!(setting.published.n_fetches.load(Ordering::SeqCst), 2);
    setting.keys.end_rest();
    let flood: Vec<_> = (0..100)
        .map(|_| {
            let (issuers, token) = (Arc::clone(&setting.issuers), sign(&new, &said()));
            tokio::spawn(async move { show(&issuers, &token).await })
        })
        .collect();
    setting.keys.wanted().await;
    setting.keys.load().await.expect("keys");
    for one in flood {
        one.await.expect("no panic").expect("good").expect("known");
    }
    assert_eq!(setting.published.n_fetches.load(Ordering::SeqCst), 4);
    let again = tokio::time::timeout(Duration::from_millis(20), setting.keys.wanted()).await;
    again.expect_err("one load was enough for all of them");
    setting.show(&sign(&setting.key, &said())).await.expect("the old key is good too").expect("known");
}

#[tokio::test]
async fn more_than_can_wait_are_refused() {
    let setting = setting();
    let waiting: Vec<_> = (0..300)
        .map(|_| {
            let (issuers, token) = (Arc::clone(&setting.issuers), sign(&setting.key, &said()));
            tokio::spawn(async move { show(&issuers, &token).await })
        })
        .collect();
    setting.keys.wanted().await;
    while waiting.iter().filter(|one| one.is_finished()).count() < 44 {
        tokio::task::yield_now().await;
    }
    setting.keys.load().await.expect("keys");
    let mut n_good = 0;
    for one in waiting {
        n_good += usize::from(one.await.expect("no panic").is_ok());
    }
    assert_eq!(n_good, 256);
}

#[tokio::test]
async fn keys_are_good_while_the_issuer_is_away_and_until_it_takes_them_back() {
    let setting = setting();
    setting.keys.load().await.expect("keys");
    let token = sign(&setting.key, &said());
    for (answer, says) in [
        (Err("connection refused".to_owned()), "connection refused"),
        (Ok("<html>".to_owned()), "cannot be read"),
        (Ok("{}".to_owned()), "cannot be read"),
    ] {
        setting.published.put("/keys", answer);
        let error = setting.keys.load().await.expect_err("no keys").to_string();
        assert!(error.contains(says), "{error}");
        setting.show(&token).await.expect("the keys are kept").expect("known");
    }
    setting.published.keys(&[&signing_key()]);
    setting.keys.load().await.expect("other keys");
    assert!(setting.why(&token).await.contains("no key is known"));
}

#[tokio::test]
async fn a_discovery_document_must_be_of_the_issuer() {
    let setting = setting();
    let keys = format!("{ISSUER}/keys");
    for (document, says) in [
        (json!({"issuer": "https://other.example.com", "jwks_uri": keys}), "is of another issuer"),
        (json!({"issuer": format!("{ISSUER}/"), "jwks_uri": keys}), "is of another issuer"),
        (json!({"jwks_uri": keys}), "is of another issuer"),
        (json!({"issuer": ISSUER}), "has no jwks_uri that is an https address"),
        (json!({"issuer": ISSUER, "jwks_uri": "http://issuer.example.com/keys"}), "has no jwks_uri"),
        (json!([]), "is of another issuer"),
    ] {
        setting.published.put("/.well-known/openid-configuration", Ok(document.to_string()));
        let error = setting.keys.load().await.expect_err("no discovery document").to_string();
        assert!(error.contains(says), "{error}");
    }
    setting.published.put("/.well-known/openid-configuration", Ok("garbage".to_owned()));
    assert!(setting.keys.load().await.expect_err("garbage").to_string().contains("is not JSON"));
}

#[tokio::test]
async fn keys_outlast_a_change_of_rules_but_not_of_places() {
    let setting = setting();
    setting.keys.load().await.expect("keys");
    let fetch: Arc<dyn Fetch> = setting.published.clone();
    let named = with(short(), "jwt.0.claimMappings.username.prefix", json!("oidc:"));
    let fresh = setting.issuers.replace(&read(&named).expect("a configuration"), &fetch);
    assert!(fresh.is_empty(), "the issuer is where it was");
    let identity = setting.show(&sign(&setting.key, &said())).await.expect("good").expect("known");
    assert_eq!(identity.user.name, "oidc:ann");
    let moved = with(short(), "jwt.0.issuer.discoveryURL", json!(format!("{ISSUER}/elsewhere")));
    assert_eq!(setting.issuers.replace(&read(&moved).expect("a configuration"), &fetch).len(), 1);
    let nobody = read(&with(short(), "jwt", json!([]))).expect("a configuration");
    setting.issuers.replace(&nobody, &fetch);
    assert_eq!(setting.show(&sign(&setting.key, &said())).await, Ok(None));
}

#[test]
fn who_shows_nothing_is_let_in_where_the_configuration_says() {
    let issuers = Issuers::new(|| Timestamp::UNIX_EPOCH);
    let fetch: Arc<dyn Fetch> = Arc::new(Published::default());
    let admits = |anonymous: Value| {
        let configuration = read(&with(short(), "anonymous", anonymous)).expect("a configuration");
        issuers.replace(&configuration, &fetch);
        ["/livez", "/livez/ping", "/api"].map(|path| issuers.admits_anonymous(path))
    };
    assert_eq!(admits(Value::Null), [true, true, true]);
    assert_eq!(admits(json!({"enabled": true})), [true, true, true]);
    assert_eq!(admits(json!({"enabled": false})), [false, false, false]);
    assert_eq!(admits(json!({})), [false, false, false]);
    assert_eq!(admits(json!({"enabled": true, "conditions": [{"path": "/livez"}]})), [true, false, false]);
}
