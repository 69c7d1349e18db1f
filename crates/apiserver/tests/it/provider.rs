//! An issuer for tests: an HTTPS server with an authority of its own that publishes keys and signs tokens.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_access::jwt::SigningKey;

use super::hooks::{Hooks, Reply};

/// Whom tokens are meant for.
pub(crate) const AUDIENCE: &str = "windlass";

/// A running issuer.
pub(crate) struct Provider {
    hooks: Hooks,
    /// What it is called.
    pub(crate) url: String,
    published: Arc<Mutex<Published>>,
}

#[derive(Default)]
struct Published {
    url: String,
    keys: Vec<Value>,
    /// What is said instead, by path.
    instead: Vec<(&'static str, Reply)>,
    asked: Vec<String>,
}

impl Published {
    fn answer(&mut self, path: &str) -> Reply {
        self.asked.push(path.to_owned());
        if let Some((_, reply)) = self.instead.iter().find(|(own, _)| *own == path) {
            return reply.clone();
        }
        match path {
            "/.well-known/openid-configuration" => {
                Reply::ok(json!({"issuer": self.url, "jwks_uri": format!("{}/keys", self.url)}).to_string())
            }
            "/keys" => Reply::ok(json!({"keys": self.keys}).to_string()),
            _ => Reply { code: 404, ..Reply::ok("") },
        }
    }
}

impl Provider {
    /// Starts one that has no keys.
    pub(crate) async fn start() -> Self {
        let published = Arc::new(Mutex::new(Published::default()));
        let answering = Arc::clone(&published);
        let work = Arc::new(move |path: &str, _: &[u8]| answering.lock().answer(path));
        let hooks = Hooks::start(&["127.0.0.1"], work).await;
        let url = format!("https://{}", hooks.address);
        published.lock().url.clone_from(&url);
        Provider { hooks, url, published }
    }

    /// Publishes these keys and no others.
    pub(crate) fn publish(&self, keys: &[&SigningKey]) {
        self.published.lock().keys = keys.iter().map(|key| key.public().to_jwk()).collect();
    }

    /// Says something else at a path.
    pub(crate) fn say(&self, path: &'static str, reply: Reply) {
        let mut published = self.published.lock();
        published.instead.retain(|(own, _)| *own != path);
        published.instead.push((path, reply));
    }

    /// Is as before.
    pub(crate) fn recover(&self) {
        self.published.lock().instead.clear();
    }

    /// What was asked for so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.published.lock().asked.clone()
    }

    /// What a token of it says, for an hour.
    pub(crate) fn claims(&self) -> Value {
        json!({"iss": self.url, "aud": AUDIENCE, "sub": "ann", "groups": ["devs"], "exp": now() + 3600})
    }

    /// One of the issuers of a configuration: names are prefixed, groups are not.
    pub(crate) fn trusted(&self) -> Value {
        json!({
            "issuer": {"url": self.url, "audiences": [AUDIENCE], "certificateAuthority": self.hooks.authority},
            "claimMappings": {
                "username": {"claim": "sub", "prefix": "oidc:"},
                "groups": {"claim": "groups", "prefix": ""},
            },
        })
    }
}

/// A configuration of these issuers.
pub(crate) fn configuration(issuers: &[Value]) -> Value {
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": issuers})
}

/// A reply that takes too long for anyone.
pub(crate) fn slow() -> Reply {
    Reply { after: Duration::from_secs(600), ..Reply::ok("{}") }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs()
}

/// A new key of P-256.
pub(crate) fn key() -> SigningKey {
    SigningKey::from_pem(SigningKey::generate_pem().expect("a key").as_bytes()).expect("a key")
}

/// A token.
pub(crate) fn sign(key: &SigningKey, claims: &Value) -> String {
    key.sign(claims.as_object().expect("claims")).expect("a token")
}
