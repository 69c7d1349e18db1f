//! How clients are known besides by their certificates: what whoever starts the server decides.
//!
//! What may change while it runs is behind a pointer that can be exchanged; who watches the files does that.

use std::sync::Arc;

use arc_swap::ArcSwap;
use windlass_access::{
    KubectlRules,
    jwt::{KeyError, KeySet, PublicKey, SigningKey},
    tokens::TokenFile,
    user_tokens::Revoked,
};

/// How clients are known, besides by their certificates.
#[derive(Clone, Debug, Default)]
pub struct Authentication {
    /// The static tokens.
    pub token_file: Option<Arc<ArcSwap<TokenFile>>>,
    /// Who issues tokens of service accounts. Without one, a key is made that is forgotten when the server ends.
    pub accounts: Option<Arc<AccountIssuer>>,
    /// The keys of tokens for named users.
    pub user_keys: Arc<ArcSwap<KeySet>>,
    /// Tokens of accounts and users that are no good any more.
    pub revoked: Arc<ArcSwap<Revoked>>,
    /// Whether bootstrap tokens are known.
    pub bootstrap_tokens: bool,
    /// How kubectl may be used.
    pub kubectl: KubectlRules,
}

/// Issues tokens of service accounts, and knows them again.
#[derive(Debug)]
pub struct AccountIssuer {
    /// Signs new tokens.
    pub signing: SigningKey,
    /// Verify tokens; the signing key's public half is among them.
    pub keys: KeySet,
    /// The name of the issuer, and names that tokens may still bear.
    pub issuers: Vec<String>,
    /// What the API server is called in tokens that are meant for it.
    pub audiences: Vec<String>,
    /// How long a token lasts at most, in seconds.
    pub most_seconds: Option<i64>,
    /// Where the keys are published, if not here.
    pub keys_url: Option<String>,
}

impl AccountIssuer {
    /// What the issuer is called where nobody has given it a name.
    pub const DEFAULT_NAME: &'static str = "https://kubernetes.default.svc.cluster.local";

    /// An issuer that signs with this key, and takes tokens of the others as well.
    pub fn new(signing: SigningKey, others: Vec<PublicKey>) -> Self {
        let mut keys = vec![signing.public().clone()];
        keys.extend(others.into_iter().filter(|key| key != signing.public()));
        AccountIssuer {
            signing,
            keys: KeySet::new(keys),
            issuers: vec![Self::DEFAULT_NAME.to_owned()],
            audiences: vec![Self::DEFAULT_NAME.to_owned()],
            most_seconds: None,
            keys_url: None,
        }
    }

    /// An issuer with a key that nobody has.
    pub fn with_new_key() -> Result<Self, KeyError> {
        Ok(Self::new(SigningKey::from_pem(SigningKey::generate_pem()?.as_bytes())?, vec![]))
    }
}
