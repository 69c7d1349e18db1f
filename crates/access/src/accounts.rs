//! Tokens of service accounts: what they claim, as Kubernetes writes it.
//!
//! A token is for one account and may be bound to a pod, a secret or a node; whether these are still there is for
//! whoever has the objects to say. Start at [`AccountToken::claims`] and [`AccountToken::read`].

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{User, jwt::Claims};

/// Who issued tokens that were kept in secrets.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// Tells one token from another.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// The claim that holds everything that is Kubernetes' own.
const PRIVATE: &str = "kubernetes.io";

/// What stands before the names of claims of tokens that were kept in secrets.
const LEGACY_PREFIX: &str = "kubernetes.io/serviceaccount/";

/// An object that a token names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The uid: another object of the same name is another.
    pub uid: String,
}

/// What a token is bound to. It is good while that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A pod, and the node that it was on when the token was made.
    Pod(Named, Option<Named>),
    /// A secret.
    Secret(Named),
    /// A node.
    Node(Named),
    /// A secret that the token is kept in.
    Kept(String),
}

/// What a token of a service account claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountToken {
    /// The account's namespace.
    pub namespace: String,
    /// The account.
    pub account: Named,
    /// What it is bound to.
    pub bound: Option<Bound>,
    /// Tells it from other tokens; empty for those that were kept in secrets.
    pub id: String,
}

impl AccountToken {
    /// What the token says that is made now.
    pub fn claims(
        &self,
        issuer: &str,
        audiences: &[String],
        now: Timestamp,
        expires: Timestamp,
    ) -> Map<String, Value> {
        let named = |object: &Named| match object.uid.is_empty() {
            true => json!({"name": object.name}),
            false => json!({"name": object.name, "uid": object.uid}),
        };
        let mut private = json!({"namespace": self.namespace, "serviceaccount": named(&self.account)});
        match &self.bound {
            None | Some(Bound::Kept(_)) => {}
            Some(Bound::Pod(pod, node)) => {
                private["pod"] = named(pod);
                if let Some(node) = node {
                    private["node"] = named(node);
                }
            }
            Some(Bound::Secret(secret)) => private["secret"] = named(secret),
            Some(Bound::Node(node)) => private["node"] = named(node),
        }
        let claims = json!({
            "aud": audiences,
            "exp": expires.as_second(),
            "iat": now.as_second(),
            "iss": issuer,
            "jti": self.id,
            PRIVATE: private,
            "nbf": now.as_second(),
            "sub": self.user_name(),
        });
        claims.as_object().cloned().unwrap_or_default()
    }

    /// Reads what a token says; `None` if it is not of a service account.
    pub fn read(claims: &Claims) -> Option<Self> {
        let token = match claims.text("iss") {
            LEGACY_ISSUER => Self::read_kept(claims)?,
            _ => Self::read_private(claims)?,
        };
        let is_whole = [&token.namespace, &token.account.name, &token.account.uid];
        let is_whole = is_whole.iter().all(|text| !text.is_empty());
        (is_whole && claims.text("sub") == token.user_name()).then_some(token)
    }

    fn read_private(claims: &Claims) -> Option<Self> {
        let private = claims.all().get(PRIVATE)?;
        let text = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let named = |field: &str| {
            private.get(field).map(|object| Named { name: text(object, "name"), uid: text(object, "uid") })
        };
        let bound = match (named("pod"), named("secret"), named("node")) {
            (Some(pod), None, node) => Some(Bound::Pod(pod, node)),
            (None, Some(secret), None) => Some(Bound::Secret(secret)),
            (None, None, Some(node)) => Some(Bound::Node(node)),
            (None, None, None) => None,
            _ => return None,
        };
        Some(AccountToken {
            namespace: text(private, "namespace"),
            account: named("serviceaccount")?,
            bound,
            id: claims.text("jti").to_owned(),
        })
    }

    fn read_kept(claims: &Claims) -> Option<Self> {
        let text = |name: &str| claims.text(&format!("{LEGACY_PREFIX}{name}")).to_owned();
        let secret = text("secret.name");
        let account = Named { name: text("service-account.name"), uid: text("service-account.uid") };
        (!secret.is_empty()).then(|| AccountToken {
            namespace: text("namespace"),
            account,
            bound: Some(Bound::Kept(secret)),
            id: String::new(),
        })
    }

    /// The user that the account is.
    pub fn user(&self) -> User {
        let groups =
            vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{}", self.namespace)];
        let mut user = User { uid: self.account.uid.clone(), ..User::new(self.user_name(), groups) };
        let mut know = |what: &str, value: &str| {
            if !value.is_empty() {
                user.extra.insert(what.to_owned(), vec![value.to_owned()]);
            }
        };
        if !self.id.is_empty() {
            know(CREDENTIAL_ID, &credential_id(&self.id));
        }
        let (pod, node) = match &self.bound {
            Some(Bound::Pod(pod, node)) => (Some(pod), node.as_ref()),
            Some(Bound::Node(node)) => (None, Some(node)),
            _ => (None, None),
        };
        for (object, name, uid) in [(pod, POD_NAME, POD_UID), (node, NODE_NAME, NODE_UID)] {
            if let Some(object) = object {
                know(name, &object.name);
                know(uid, &object.uid);
            }
        }
        user.authenticated()
    }

    fn user_name(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.account.name)
    }
}

/// How a user's extra names the token it came with.
pub(crate) fn credential_id(id: &str) -> String {
    format!("JTI={id}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jwt::{Algorithm, SigningKey, Token};

    fn named(name: &str) -> Named {
        Named { name: name.to_owned(), uid: format!("uid-of-{name}") }
    }

    fn token(bound: Option<Bound>) -> AccountToken {
        AccountToken { namespace: "shop".to_owned(), account: named("till"), bound, id: "an-id".to_owned() }
    }

    fn said(claims: &Map<String, Value>) -> Claims {
        let key =
            SigningKey::from_pem(SigningKey::generate_pem().expect("randomness").as_bytes()).expect("a key");
        let text = key.sign(claims).expect("randomness");
        let token = Token::parse(&text).expect("a token");
        token.verify([key.public()], &Algorithm::ALL).expect("signed")
    }

    #[test]
    fn claims_are_written_as_kubernetes_writes_them() {
        let now = Timestamp::from_second(1000).expect("a time");
        let expires = Timestamp::from_second(4600).expect("a time");
        let bound = Bound::Pod(named("p"), Some(Named { name: "n".to_owned(), uid: String::new() }));
        let claims = token(Some(bound)).claims("https://issuer", &["a".to_owned()], now, expires);
        let expected = json!({
            "aud": ["a"], "exp": 4600, "iat": 1000, "nbf": 1000, "iss": "https://issuer", "jti": "an-id",
            "kubernetes.io": {
                "namespace": "shop",
                "serviceaccount": {"name": "till", "uid": "uid-of-till"},
                "pod": {"name": "p", "uid": "uid-of-p"},
                "node": {"name": "n"},
            },
            "sub": "system:serviceaccount:shop:till",
        });
        assert_eq!(Value::Object(claims), expected);
    }

    #[test]
    fn what_is_written_is_read() {
        let now = Timestamp::UNIX_EPOCH;
        for bound in [
            None,
            Some(Bound::Pod(named("p"), None)),
            Some(Bound::Pod(named("p"), Some(named("n")))),
            Some(Bound::Secret(named("s"))),
            Some(Bound::Node(named("n"))),
        ] {
            let token = token(bound);
            let claims = said(&token.claims("https://issuer", &[], now, now));
            assert_eq!(AccountToken::read(&claims), Some(token));
        }
        let kept = json!({
            "iss": LEGACY_ISSUER, "sub": "system:serviceaccount:shop:till",
            "kubernetes.io/serviceaccount/namespace": "shop",
            "kubernetes.io/serviceaccount/secret.name": "drawer",
            "kubernetes.io/serviceaccount/service-account.name": "till",
            "kubernetes.io/serviceaccount/service-account.uid": "uid-of-till",
        });
        let read = AccountToken::read(&said(kept.as_object().expect("claims"))).expect("a token");
        assert_eq!(read, AccountToken { id: String::new(), ..token(Some(Bound::Kept("drawer".to_owned()))) });
    }

    #[test]
    fn claims_that_do_not_fit_together_are_refused() {
        let good = token(None).claims("https://issuer", &[], Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        for (pointer, value) in [
            ("/sub", json!("system:serviceaccount:shop:safe")),
            ("/sub", json!("system:admin")),
            ("/kubernetes.io", json!("shop")),
            ("/kubernetes.io/namespace", json!("")),
            ("/kubernetes.io/namespace", json!("bank")),
            ("/kubernetes.io/serviceaccount", json!({"name": "till"})),
        ] {
            let mut claims = Value::Object(good.clone());
            *claims.pointer_mut(pointer).expect(pointer) = value.clone();
            let read = AccountToken::read(&said(claims.as_object().expect("claims")));
            assert_eq!(read, None, "{pointer} = {value}");
        }
        let mut claims = Value::Object(good);
        claims["kubernetes.io"]["pod"] = json!({"name": "p", "uid": "u"});
        claims["kubernetes.io"]["secret"] = json!({"name": "s", "uid": "u"});
        assert_eq!(AccountToken::read(&said(claims.as_object().expect("claims"))), None);
    }

    #[test]
    fn an_account_is_a_user_with_its_groups() {
        let user = token(Some(Bound::Pod(named("p"), Some(named("n"))))).user();
        assert_eq!(user.name, "system:serviceaccount:shop:till");
        assert_eq!(user.uid, "uid-of-till");
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]
        );
        let extra: Vec<_> = user.extra.iter().map(|(key, value)| (key.as_str(), value[0].as_str())).collect();
        assert_eq!(
            extra,
            [
                (CREDENTIAL_ID, "JTI=an-id"),
                (NODE_NAME, "n"),
                (NODE_UID, "uid-of-n"),
                (POD_NAME, "p"),
                (POD_UID, "uid-of-p"),
            ]
        );
    }
}
