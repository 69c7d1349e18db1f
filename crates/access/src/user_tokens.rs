//! Tokens for named users, as `windlass token create` makes them: signed, with an end, and nothing to look up.
//!
//! They come from [`ISSUER`] and nobody else's token can: their key signs nothing else. Start at
//! [`UserToken::claims`] and [`UserToken::read`].

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    User,
    accounts::{CREDENTIAL_ID, credential_id},
    jwt::Claims,
};

/// Who issues such tokens, and whom they are meant for.
pub const ISSUER: &str = "windlass";

/// Most bytes of a list of revoked tokens: some two million ids.
pub const MOST_REVOKED: usize = 64 * 1024 * 1024;

/// What a token of a user claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserToken {
    /// The user's name.
    pub name: String,
    /// The user's groups, apart from those that everyone has.
    pub groups: Vec<String>,
    /// Tells it from other tokens.
    pub id: String,
}

impl UserToken {
    /// What the token says that is made now.
    pub fn claims(&self, now: Timestamp, expires: Timestamp) -> Map<String, Value> {
        let claims = json!({
            "aud": [ISSUER],
            "exp": expires.as_second(),
            "groups": self.groups,
            "iat": now.as_second(),
            "iss": ISSUER,
            "jti": self.id,
            "nbf": now.as_second(),
            "sub": self.name,
        });
        claims.as_object().cloned().unwrap_or_default()
    }

    /// Reads what a token says; `None` if it names nobody.
    pub fn read(claims: &Claims) -> Option<Self> {
        let (name, id) = (claims.text("sub"), claims.text("jti"));
        let groups = claims.all().get("groups").and_then(Value::as_array)?;
        let groups = groups.iter().map(|group| group.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        let is_whole = !name.is_empty() && !id.is_empty();
        is_whole.then(|| UserToken { name: name.to_owned(), groups, id: id.to_owned() })
    }

    /// The user.
    pub fn user(&self) -> User {
        let mut user = User::new(self.name.as_str(), self.groups.clone());
        user.extra.insert(CREDENTIAL_ID.to_owned(), vec![credential_id(&self.id)]);
        user.authenticated()
    }
}

/// Tokens that are no good although they are signed and have not expired, by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked(HashSet<String>);

impl Revoked {
    /// Reads a list: one id a line; what begins with `#` is for people. `None` if it is too long to be one.
    pub fn parse(text: &str) -> Option<Self> {
        let ids = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        (text.len() <= MOST_REVOKED).then(|| Revoked(ids.map(str::to_owned).collect()))
    }

    /// Whether the token of this id is revoked.
    pub fn has(&self, id: &str) -> bool {
        self.0.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jwt::{Algorithm, SigningKey, Token};

    fn read(claims: &Map<String, Value>) -> Option<UserToken> {
        let key =
            SigningKey::from_pem(SigningKey::generate_pem().expect("randomness").as_bytes()).expect("a key");
        let text = key.sign(claims).expect("randomness");
        let token = Token::parse(&text).expect("a token");
        UserToken::read(&token.verify([key.public()], &Algorithm::ALL).expect("signed"))
    }

    #[test]
    fn what_is_written_is_read() {
        let token =
            UserToken { name: "jane".to_owned(), groups: vec!["devs".to_owned()], id: "an-id".to_owned() };
        let claims = token.claims(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        assert_eq!(read(&claims).as_ref(), Some(&token));
        let user = token.user();
        assert_eq!(
            (user.name.as_str(), user.groups),
            ("jane", vec!["devs".to_owned(), "system:authenticated".to_owned()])
        );
        assert_eq!(user.extra[CREDENTIAL_ID], ["JTI=an-id"]);
        for (claim, value) in [
            ("sub", json!("")),
            ("sub", json!(7)),
            ("jti", json!("")),
            ("groups", json!("devs")),
            ("groups", json!([1])),
            ("groups", json!(null)),
        ] {
            let mut claims = claims.clone();
            claims.insert(claim.to_owned(), value.clone());
            assert_eq!(read(&claims), None, "{claim} = {value}");
        }
    }

    #[test]
    fn a_list_of_revoked_tokens_has_one_a_line() {
        let revoked = Revoked::parse("# jane left\n one \n\ntwo\r\n").expect("a list");
        assert!(revoked.has("one") && revoked.has("two"));
        assert!(!revoked.has("") && !revoked.has("# jane left") && !revoked.has("jane"));
        assert_eq!(Revoked::parse(&"x\n".repeat(MOST_REVOKED / 2 + 1)), None);
    }
}
