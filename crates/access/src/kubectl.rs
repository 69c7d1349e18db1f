//! Rules for people who use kubectl. They guide and do not protect: a client says itself what it is called.

use jiff::{SignedDuration, Timestamp};

use crate::authn::{Identity, Shown};

/// How kubectl may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KubectlRules {
    /// Not at all.
    pub disabled: bool,
    /// Only with tokens that expire within this time.
    pub ephemeral: Option<SignedDuration>,
}

impl KubectlRules {
    /// What is against it that a client comes at all.
    pub fn check(&self, shown: Shown<'_>) -> Result<(), &'static str> {
        match self.disabled && is_kubectl(&shown.agent()) {
            true => Err("kubectl disabled"),
            false => Ok(()),
        }
    }

    /// What is against it that a client comes with what it has shown.
    pub fn check_identity(
        &self,
        shown: Shown<'_>,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<(), &'static str> {
        let Some(most) = self.ephemeral.filter(|_| is_kubectl(&shown.agent())) else { return Ok(()) };
        match identity.expires {
            Some(expires) if shown.bearer().is_some() && expires.duration_since(now) <= most => Ok(()),
            Some(_) => Err("kubectl needs an ephemeral token, and this one expires too late"),
            None => Err("kubectl needs an ephemeral token"),
        }
    }
}

fn is_kubectl(agent: &str) -> bool {
    agent.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("kubectl"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderMap, HeaderValue, header};

    use super::*;
    use crate::{User, authn::Peer};

    fn headers(agent: &'static str, token: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let agent = HeaderValue::from_bytes(agent.as_bytes()).expect("a value");
        headers.insert(header::USER_AGENT, agent);
        if let Some(token) = token {
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(token));
        }
        headers
    }

    #[test]
    fn kubectl_is_kept_out_by_the_name_it_gives_itself() {
        let rules = KubectlRules { disabled: true, ephemeral: None };
        for (agent, outcome) in [
            ("kubectl/v1.32.4 (linux/amd64) kubernetes/59526cd", Err("kubectl disabled")),
            ("KubeCtl", Err("kubectl disabled")),
            ("kubectl/ü", Err("kubectl disabled")),
            ("kubect", Ok(())),
            ("my-kubectl/1", Ok(())),
            ("", Ok(())),
        ] {
            let shown = Shown { peer: &Peer::default(), headers: &headers(agent, None) };
            assert_eq!(rules.check(shown), outcome, "{agent}");
            assert_eq!(KubectlRules::default().check(shown), Ok(()));
        }
    }

    #[test]
    fn kubectl_comes_with_a_token_that_ends_soon() {
        let now = Timestamp::from_second(1000).expect("a time");
        let rules = KubectlRules { disabled: false, ephemeral: Some(SignedDuration::from_hours(1)) };
        let bearer = Some("Bearer x");
        for (agent, token, expires, is_welcome) in [
            ("kubectl/v1", bearer, Some(4600), true),
            ("kubectl/v1", bearer, Some(4601), false),
            ("kubectl/v1", bearer, None, false),
            ("kubectl/v1", None, Some(4600), false),
            ("kubectl/v1", None, None, false),
            ("helm/v3", bearer, None, true),
        ] {
            let expires = expires.map(|second| Timestamp::from_second(second).expect("a time"));
            let identity = Identity { user: Arc::new(User::default()), by: "test", expires };
            let shown = Shown { peer: &Peer::default(), headers: &headers(agent, token) };
            let outcome = rules.check_identity(shown, &identity, now);
            assert_eq!(outcome.is_ok(), is_welcome, "{agent} {expires:?}: {outcome:?}");
            assert_eq!(KubectlRules::default().check_identity(shown, &identity, now), Ok(()));
        }
    }
}
