//! `TokenReview`: what others may know about a token that was shown to them.

use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_access::authn::{Peer, Refusal, Shown};
use windlass_machinery::object::{Object, list_at, str_at};

use super::{Access, accounts::Recognised};
use crate::verbs::reviews::user_info;

impl Access {
    /// The status of a review: whose token it is, and for whom of those who ask.
    pub(crate) async fn review(&self, review: &Object) -> Value {
        let token = str_at(review, &["spec", "token"]).unwrap_or_default();
        let asked: Vec<String> = list_at(review, &["spec", "audiences"])
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let audiences = if asked.is_empty() { self.accounts.audiences().to_vec() } else { asked };
        match self.recognise(token, &audiences).await {
            Err(refusal) => json!({"authenticated": false, "user": {}, "error": refusal.why}),
            Ok(Recognised { identity, audiences }) => {
                json!({"authenticated": true, "user": user_info(&identity.user), "audiences": audiences})
            }
        }
    }

    async fn recognise(&self, token: &str, audiences: &[String]) -> Result<Recognised, Refusal> {
        if let Some(recognised) = self.accounts.identify(token, audiences, Timestamp::now()).await? {
            return Ok(recognised);
        }
        let refusal = |why: &str| Refusal { by: "none", why: why.to_owned() };
        // All other tokens are for the API server, whatever they say.
        let is_ours = |name: &&String| self.accounts.audiences().contains(name);
        let audiences: Vec<String> = audiences.iter().filter(is_ours).cloned().collect();
        if audiences.is_empty() {
            return Err(refusal("it is meant for another audience"));
        }
        let shown = HeaderValue::from_str(&format!("Bearer {token}"));
        let shown = shown.map_err(|_| refusal("it is not a bearer token"))?;
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, shown)]);
        let shown = Shown { peer: &Peer::default(), headers: &headers };
        let identity = self.chain.authenticate(shown).await?;
        match identity.user.is_anonymous() {
            true => Err(refusal("it is not a bearer token")),
            false => Ok(Recognised { identity, audiences }),
        }
    }
}
