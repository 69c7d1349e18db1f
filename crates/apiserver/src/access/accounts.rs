//! Service accounts: making their tokens, and knowing them by these.
//!
//! A token is good as long as the account it was made for is there, and what it is bound to: the same by uid, not
//! another of the same name. That is looked up for every request. Start at [`Accounts::identify`] and
//! [`Accounts::issue`].

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windlass_access::{
    accounts::{AccountToken, Bound, LEGACY_ISSUER, Named},
    authn::{Authenticator, Identity, Refusal, Shown},
    jwt::{Claims, Expected, TokenError},
    tokens::is_same_secret,
    user_tokens::Revoked,
};
use windlass_machinery::{
    object::{self, Object, str_at},
    time,
};
use windlass_store::{Read, Store};

use super::{AccountIssuer, Authentication};
use crate::{Config, admission::View, resources::Catalog, server::StartError};

const NAME: &str = "service-account";

/// How far clocks of servers that share a store may differ.
pub(super) const SKEW: SignedDuration = SignedDuration::from_secs(5);

/// How long something may be deleted and its tokens still be good: requests on their way, clocks that differ.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// Service accounts, as users.
pub(crate) struct Accounts {
    issuer: Arc<AccountIssuer>,
    revoked: Arc<ArcSwap<Revoked>>,
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
}

/// A token that is good, and for whom of those it was asked about.
pub(super) struct Recognised {
    pub(super) identity: Identity,
    pub(super) audiences: Vec<String>,
}

impl Accounts {
    pub(super) fn new(
        config: &Authentication,
        store: &Arc<dyn Store>,
        catalog: &Arc<Catalog>,
    ) -> Result<Self, StartError> {
        let issuer = match &config.accounts {
            Some(issuer) => Arc::clone(issuer),
            None => {
                let made = AccountIssuer::with_new_key().map_err(|error| StartError::Bootstrap {
                    what: "a key for service accounts".to_owned(),
                    why: error.to_string(),
                })?;
                Arc::new(made)
            }
        };
        let (store, catalog) = (Arc::clone(store), Arc::clone(catalog));
        Ok(Accounts { issuer, revoked: Arc::clone(&config.revoked), store, catalog })
    }

    /// What the API server is called in tokens that are meant for it.
    pub(crate) fn audiences(&self) -> &[String] {
        &self.issuer.audiences
    }

    /// How long a token lasts at most, in seconds.
    pub(crate) fn most_seconds(&self) -> Option<i64> {
        self.issuer.most_seconds
    }

    /// A token that claims this.
    pub(crate) fn issue(
        &self,
        token: &AccountToken,
        audiences: &[String],
        now: Timestamp,
        expires: Timestamp,
    ) -> Option<String> {
        let name = self.issuer.issuers.first()?;
        self.issuer.signing.sign(&token.claims(name, audiences, now, expires))
    }

    /// The document that says who issues tokens.
    pub(crate) fn configuration(&self, config: &Config) -> String {
        let AccountIssuer { issuers, keys, keys_url, .. } = &*self.issuer;
        let keys_url = match keys_url {
            Some(url) => url.clone(),
            None => format!("https://{}/openid/v1/jwks", config.advertise),
        };
        let mut algorithms: Vec<_> = keys.keys().iter().map(|key| key.usual_algorithm().name()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        json!({
            "issuer": issuers.first(),
            "jwks_uri": keys_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
        .to_string()
    }

    /// The keys that tokens are verified with.
    pub(crate) fn key_set(&self) -> String {
        let keys: Vec<_> = self.issuer.keys.keys().iter().map(|key| key.to_jwk()).collect();
        json!({ "keys": keys }).to_string()
    }

    /// Whose token this is, for one of these audiences; `None` if it is not of a service account.
    pub(super) async fn identify(
        &self,
        text: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Option<Recognised>, Refusal> {
        let issuers = &self.issuer.issuers;
        let is_issuer = |name: &str| name == LEGACY_ISSUER || issuers.iter().any(|own| own == name);
        let Some(claims) = self.issuer.keys.verify(text, is_issuer) else { return Ok(None) };
        let claims = claims.map_err(refusal)?;
        let (expires, audiences) = self.check(&claims, audiences, now).map_err(refusal)?;
        let token = AccountToken::read(&claims).ok_or_else(|| refusal("its claims are incomplete"))?;
        if self.revoked.load().has(&token.id) {
            return Err(refusal("it has been revoked"));
        }
        self.is_there(&token, text, now).await?;
        let identity = Identity { user: Arc::new(token.user()), by: NAME, expires };
        Ok(Some(Recognised { identity, audiences }))
    }

    /// When the token ends to be good, and for whom of these it is.
    fn check(
        &self,
        claims: &Claims,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<(Option<Timestamp>, Vec<String>), TokenError> {
        if claims.text("iss") == LEGACY_ISSUER {
            // Such a token is for the API server, and says neither that nor when it ends.
            let common: Vec<_> =
                audiences.iter().filter(|name| self.issuer.audiences.contains(name)).cloned().collect();
            let expires = claims.check_times(SKEW, false, now)?;
            return if common.is_empty() { Err(TokenError::Audience) } else { Ok((expires, common)) };
        }
        let issuers = &self.issuer.issuers;
        let expires = claims.check(&Expected { issuers, audiences, skew: SKEW, must_expire: true }, now)?;
        let own = claims.audiences();
        let common = audiences.iter().filter(|name| own.contains(&name.as_str())).cloned().collect();
        Ok((expires, common))
    }

    /// Whether the account is there, and what the token is bound to.
    async fn is_there(&self, token: &AccountToken, text: &str, now: Timestamp) -> Result<(), Refusal> {
        let mut outcome = Ok(());
        // What has been seen so far costs nothing; whoever was made just now may not be in it yet.
        for read in [Read::Seen, Read::Latest] {
            let snapshot = self.store.snapshot(read).await;
            let snapshot = snapshot.map_err(|_| refusal("its account cannot be looked up"))?;
            let view = View { snapshot, catalog: Arc::clone(&self.catalog) };
            outcome = stands(&view, token, text, now);
            if outcome.is_ok() {
                break;
            }
        }
        outcome.map_err(refusal)
    }
}

#[async_trait]
impl Authenticator for Accounts {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn authenticate(&self, shown: Shown<'_>) -> Result<Option<Identity>, Refusal> {
        let Some(text) = shown.bearer() else { return Ok(None) };
        let recognised = self.identify(text, &self.issuer.audiences, Timestamp::now()).await?;
        Ok(recognised.map(|recognised| recognised.identity))
    }
}

fn refusal(why: impl ToString) -> Refusal {
    Refusal { by: NAME, why: why.to_string() }
}

/// What is against the token in this view.
fn stands(view: &View, token: &AccountToken, text: &str, now: Timestamp) -> Result<(), &'static str> {
    let namespace = &token.namespace;
    if !is_same(view, "serviceaccounts", namespace, &token.account, now) {
        return Err("its service account is not there any more");
    }
    let is_there = match &token.bound {
        None => true,
        Some(Bound::Pod(pod, _)) => is_same(view, "pods", namespace, pod, now),
        Some(Bound::Secret(secret)) => is_same(view, "secrets", namespace, secret, now),
        Some(Bound::Node(node)) => is_same(view, "nodes", "", node, now),
        Some(Bound::Kept(secret)) => is_kept(view, namespace, secret, &token.account, text),
    };
    if is_there { Ok(()) } else { Err("what it is bound to is not there any more") }
}

/// Whether the very object is there, and not gone for longer than may be.
fn is_same(view: &View, plural: &str, namespace: &str, named: &Named, now: Timestamp) -> bool {
    let Some((object, _)) = view.get("", plural, namespace, &named.name) else { return false };
    let deleted = str_at(&object, &["metadata", "deletionTimestamp"]).map(time::parse);
    let is_gone = deleted.is_some_and(|at| at.is_none_or(|at| now.duration_since(at) > GRACE));
    object::uid(&object) == named.uid && !is_gone
}

/// Whether the token is the one that the account has in this secret.
fn is_kept(view: &View, namespace: &str, secret: &str, account: &Named, text: &str) -> bool {
    let Some((secret, _)) = view.get("", "secrets", namespace, secret) else { return false };
    let annotation = |name: &str| str_at(&secret, &["metadata", "annotations", name]).unwrap_or_default();
    let is_of_account = str_at(&secret, &["type"]) == Some("kubernetes.io/service-account-token")
        && annotation("kubernetes.io/service-account.name") == account.name
        && annotation("kubernetes.io/service-account.uid") == account.uid;
    let is_going = object::metadata(&secret).contains_key("deletionTimestamp");
    let kept = secret_value(&secret, "token").unwrap_or_default();
    is_of_account && !is_going && is_same_secret(&kept, text.as_bytes())
}

/// A value of a secret.
pub(super) fn secret_value(secret: &Object, key: &str) -> Option<Vec<u8>> {
    STANDARD.decode(str_at(secret, &["data", key])?).ok()
}
