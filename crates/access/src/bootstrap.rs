//! Bootstrap tokens: short secrets by which a new machine is known until it has credentials of its own.
//!
//! A token is `ID.SECRET`; what it is good for stands in a Secret of the type [`TYPE`]. Start at
//! [`BootstrapToken::parse`].

use jiff::{Timestamp, fmt::temporal::Pieces};

use crate::{User, tokens::is_same_secret};

/// The type of secrets that hold them.
pub const TYPE: &str = "bootstrap.kubernetes.io/token";

/// The namespace of such secrets.
pub const NAMESPACE: &str = "kube-system";

/// The group of everyone who comes with one; further groups begin like it.
const GROUP: &str = "system:bootstrappers";

/// A token as it was shown.
#[derive(Clone, Copy)]
pub struct BootstrapToken<'a> {
    id: &'a str,
    secret: &'a str,
}

impl<'a> BootstrapToken<'a> {
    /// Reads a token; `None` if it is of another kind.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let is_plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
        let is_token = id.len() == 6 && secret.len() == 16 && is_plain(id) && is_plain(secret);
        is_token.then_some(BootstrapToken { id, secret })
    }

    /// The name of the secret that it should be in.
    pub fn secret_name(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }

    /// Whoever shows it, if the values of its secret say that it is good, and when it ends to be.
    pub fn user(
        &self,
        value: impl Fn(&str) -> Option<String>,
        now: Timestamp,
    ) -> Result<(User, Option<Timestamp>), &'static str> {
        let is_same = |name: &str, shown: &str| {
            value(name).is_some_and(|kept| is_same_secret(kept.as_bytes(), shown.as_bytes()))
        };
        if !is_same("token-id", self.id) || !is_same("token-secret", self.secret) {
            return Err("it is not the one in its secret");
        }
        let expires = match value("expiration").filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => expiration(&text).ok_or("its expiration is not a time")?,
        };
        if expires.is_some_and(|expires| expires <= now) {
            return Err("it has expired");
        }
        if value("usage-bootstrap-authentication").as_deref() != Some("true") {
            return Err("it is not for authentication");
        }
        let mut groups = vec![GROUP.to_owned()];
        let more = value("auth-extra-groups").unwrap_or_default();
        for group in more.split(',').map(str::trim).filter(|group| !group.is_empty()) {
            if !is_group(group) {
                return Err("a group of it is not one of bootstrappers");
            }
            groups.push(group.to_owned());
        }
        Ok((User::new(format!("system:bootstrap:{}", self.id), groups).authenticated(), expires))
    }
}

/// When that is, if ever; `None` if it is no time. People who mean never write times that are later than a timestamp can
/// be, such as the last second of the year 9999.
fn expiration(text: &str) -> Option<Option<Timestamp>> {
    if let Ok(at) = text.parse() {
        return Some(Some(at));
    }
    let pieces = Pieces::parse(text).ok()?;
    let is_time = pieces.time().is_some() && pieces.offset().is_some();
    (is_time && pieces.date().year() > 0).then_some(None)
}

/// Whether it is `system:bootstrappers:SOMETHING`.
fn is_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')) else { return false };
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    (1..=256).contains(&rest.len())
        && rest.bytes().all(|byte| is_plain(byte) || byte == b':' || byte == b'-')
        && rest.bytes().last().is_some_and(is_plain)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_six_and_sixteen_letters_are_one() {
        assert!(BootstrapToken::parse("abcdef.0123456789abcdef").is_some());
        for text in [
            "",
            ".",
            "abcdef.0123456789abcde",
            "Abcdef.0123456789abcdef",
            "abcdef.0123456789abcdef.",
            "abc/ef.0123456789abcdef",
        ] {
            assert!(BootstrapToken::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_token_is_as_good_as_its_secret_says() {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let good = BTreeMap::from([
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
            ("auth-extra-groups", "system:bootstrappers:a:b-c, system:bootstrappers:d"),
            ("expiration", "2027-06-01T00:00:00Z"),
        ]);
        let token = BootstrapToken::parse("abcdef.0123456789abcdef").expect("a token");
        let judge = |changes: &[(&'static str, Option<&'static str>)]| {
            let mut values = good.clone();
            for (name, value) in changes {
                match value {
                    Some(value) => drop(values.insert(name, value)),
                    None => drop(values.remove(name)),
                }
            }
            token.user(|name| values.get(name).map(ToString::to_string), now)
        };
        let (user, expires) = judge(&[]).expect("a good token");
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert_eq!(
            user.groups,
            [
                "system:bootstrappers",
                "system:bootstrappers:a:b-c",
                "system:bootstrappers:d",
                "system:authenticated"
            ]
        );
        assert_eq!(expires.map(|at| at.to_string()).as_deref(), Some("2027-06-01T00:00:00Z"));
        assert!(judge(&[("expiration", None), ("auth-extra-groups", None)]).is_ok());
        for never in ["", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-07:00"] {
            let (_, expires) = judge(&[("expiration", Some(never))]).expect("a good token");
            assert_eq!(expires, None, "{never}");
        }
        for change in [
            ("token-secret", Some("0123456789abcdeg")),
            ("token-secret", Some("")),
            ("token-secret", None),
            ("token-id", Some("abcdeg")),
            ("expiration", Some("2027-01-01T00:00:00Z")),
            ("expiration", Some("soon")),
            ("expiration", Some("9999-12-32T23:59:59Z")),
            ("expiration", Some("9999-12-31")),
            ("usage-bootstrap-authentication", Some("yes")),
            ("usage-bootstrap-authentication", None),
            ("auth-extra-groups", Some("system:masters")),
            ("auth-extra-groups", Some("system:bootstrappers:")),
            ("auth-extra-groups", Some("system:bootstrappers:a-")),
        ] {
            assert!(judge(&[change]).is_err(), "{change:?}");
        }
    }
}
