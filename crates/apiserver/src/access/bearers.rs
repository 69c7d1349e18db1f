//! Who is known by a token that is not of a service account: from the token file, of a named user, or of a new
//! machine.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use jiff::Timestamp;
use windlass_access::{
    authn::{Authenticator, Identity, Refusal, Shown},
    bootstrap::{self, BootstrapToken},
    jwt::{Expected, KeySet},
    tokens::TokenFile,
    user_tokens::{ISSUER, Revoked, UserToken},
};
use windlass_machinery::object::{self, str_at};
use windlass_store::{Read, Store};

use super::{
    Authentication,
    accounts::{SKEW, secret_value},
};
use crate::{admission::View, resources::Catalog};

/// Those whose tokens are good because of files that the server has.
pub(super) fn of_files(config: &Authentication) -> Vec<Arc<dyn Authenticator>> {
    let mut found: Vec<Arc<dyn Authenticator>> = vec![];
    if let Some(file) = &config.token_file {
        found.push(Arc::new(StaticTokens(Arc::clone(file))));
    }
    let (keys, revoked) = (Arc::clone(&config.user_keys), Arc::clone(&config.revoked));
    found.push(Arc::new(UserTokens { keys, revoked, issuers: [ISSUER.to_owned()] }));
    found
}

/// Those whose tokens are good because of objects.
pub(super) fn of_secrets(
    config: &Authentication,
    store: &Arc<dyn Store>,
    catalog: &Arc<Catalog>,
) -> Option<Arc<dyn Authenticator>> {
    let (store, catalog) = (Arc::clone(store), Arc::clone(catalog));
    config.bootstrap_tokens.then(|| Arc::new(BootstrapTokens { store, catalog }) as _)
}

/// The token file.
struct StaticTokens(Arc<ArcSwap<TokenFile>>);

#[async_trait]
impl Authenticator for StaticTokens {
    fn name(&self) -> &'static str {
        "token-file"
    }

    async fn authenticate(&self, shown: Shown<'_>) -> Result<Option<Identity>, Refusal> {
        let file = self.0.load();
        let user = shown.bearer().and_then(|token| file.find(token));
        Ok(user.map(|user| Identity { user: Arc::clone(user), by: self.name(), expires: None }))
    }
}

/// Tokens for named users.
struct UserTokens {
    keys: Arc<ArcSwap<KeySet>>,
    revoked: Arc<ArcSwap<Revoked>>,
    issuers: [String; 1],
}

impl UserTokens {
    fn identify(&self, token: &str, now: Timestamp) -> Option<Result<Identity, String>> {
        let claims = self.keys.load().verify(token, |issuer| issuer == ISSUER)?;
        let identity = claims.and_then(|claims| {
            let (issuers, audiences) = (&self.issuers, &self.issuers);
            let expires =
                claims.check(&Expected { issuers, audiences, skew: SKEW, must_expire: true }, now)?;
            Ok((UserToken::read(&claims), expires))
        });
        Some(match identity {
            Err(error) => Err(error.to_string()),
            Ok((None, _)) => Err("its claims are incomplete".to_owned()),
            Ok((Some(token), _)) if self.revoked.load().has(&token.id) => {
                Err("it has been revoked".to_owned())
            }
            Ok((Some(token), expires)) => {
                Ok(Identity { user: Arc::new(token.user()), by: self.name(), expires })
            }
        })
    }
}

#[async_trait]
impl Authenticator for UserTokens {
    fn name(&self) -> &'static str {
        "windlass-token"
    }

    async fn authenticate(&self, shown: Shown<'_>) -> Result<Option<Identity>, Refusal> {
        let identity = shown.bearer().and_then(|token| self.identify(token, Timestamp::now()));
        identity.transpose().map_err(|why| Refusal { by: self.name(), why })
    }
}

/// Tokens of new machines.
struct BootstrapTokens {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
}

#[async_trait]
impl Authenticator for BootstrapTokens {
    fn name(&self) -> &'static str {
        "bootstrap-token"
    }

    async fn authenticate(&self, shown: Shown<'_>) -> Result<Option<Identity>, Refusal> {
        let Some(token) = shown.bearer().and_then(BootstrapToken::parse) else { return Ok(None) };
        let refusal = |why: &str| Refusal { by: self.name(), why: why.to_owned() };
        let snapshot = self.store.snapshot(Read::Latest).await;
        let snapshot = snapshot.map_err(|_| refusal("its secret cannot be looked up"))?;
        let view = View { snapshot, catalog: Arc::clone(&self.catalog) };
        let secret = view.get("", "secrets", bootstrap::NAMESPACE, &token.secret_name());
        let secret = secret.map(|(secret, _)| secret).filter(|secret| {
            let is_going = object::metadata(secret).contains_key("deletionTimestamp");
            str_at(secret, &["type"]) == Some(bootstrap::TYPE) && !is_going
        });
        let secret = secret.ok_or_else(|| refusal("there is no secret for it"))?;
        let value = |key: &str| String::from_utf8(secret_value(&secret, key)?).ok();
        let (user, expires) = token.user(value, Timestamp::now()).map_err(refusal)?;
        Ok(Some(Identity { user: Arc::new(user), by: self.name(), expires }))
    }
}
