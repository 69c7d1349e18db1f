//! Impersonation: whoever may, asks in the name of another.
//!
//! Every part of whom they want to be (the name, each group, the uid, each extra value) is a right of its own, with the
//! verb `impersonate`.

use std::{collections::BTreeMap, sync::Arc};

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use windlass_access::{
    ANONYMOUS, AUTHENTICATED, Attributes, UNAUTHENTICATED, User, Wanted,
    rbac::{service_account_groups, service_account_of},
};

use super::{Rights, forbidden};
use crate::status::{Outcome, Status};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The user that the headers name, if they name one and `user` may be that one.
pub(super) fn impersonated(rights: &Rights, user: &User, headers: &HeaderMap) -> Outcome<Option<Arc<User>>> {
    let Some(wanted) = Asked::of(headers)? else { return Ok(None) };
    let check = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let wanted = Wanted::Resource { group, version: "v1", resource, subresource, namespace, name };
        let attributes = Attributes { verb: "impersonate", wanted };
        match rights.allow(user, &attributes) {
            true => Ok(()),
            false => Err(forbidden(&user.name, &attributes)),
        }
    };
    match service_account_of(&wanted.name) {
        Some((namespace, name)) => check("", "serviceaccounts", "", namespace, name)?,
        None => check("", "users", "", "", &wanted.name)?,
    }
    for group in &wanted.groups {
        check("", "groups", "", "", group)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            check("authentication.k8s.io", "userextras", key, "", value)?;
        }
    }
    if !wanted.uid.is_empty() {
        check("authentication.k8s.io", "uids", "", "", &wanted.uid)?;
    }
    Ok(Some(Arc::new(wanted.into_user())))
}

/// Whom the headers name.
#[derive(Default)]
struct Asked {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Asked {
    fn of(headers: &HeaderMap) -> Outcome<Option<Self>> {
        let mut asked = Asked::default();
        // Most requests have none.
        let own = headers.iter().filter(|(name, _)| name.as_str().starts_with("impersonate-"));
        for (name, value) in own {
            let value = std::str::from_utf8(value.as_bytes())
                .map_err(|_| Status::bad_request(format!("the header {name} is not in UTF-8")))?;
            match name.as_str() {
                USER if asked.name.is_empty() => asked.name = value.to_owned(),
                UID if asked.uid.is_empty() => asked.uid = value.to_owned(),
                USER | UID => return Err(Status::bad_request(format!("the header {name} is there twice"))),
                GROUP => asked.groups.push(value.to_owned()),
                other => {
                    let Some(key) = other.strip_prefix(EXTRA) else { continue };
                    let key = percent_decode_str(key).decode_utf8_lossy().to_lowercase();
                    asked.extra.entry(key).or_default().push(value.to_owned());
                }
            }
        }
        let is_more = !asked.uid.is_empty() || !asked.groups.is_empty() || !asked.extra.is_empty();
        match (asked.name.is_empty(), is_more) {
            (false, _) => Ok(Some(asked)),
            (true, false) => Ok(None),
            (true, true) => {
                let why = "requested a group, a uid or extra fields without impersonating a user";
                Err(Status::bad_request(why))
            }
        }
    }

    /// The user with the groups that everyone of its kind has.
    fn into_user(self) -> User {
        let Asked { name, uid, mut groups, extra } = self;
        if groups.is_empty()
            && let Some((namespace, _)) = service_account_of(&name)
        {
            groups = service_account_groups(namespace);
        }
        let says = groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
        if !says {
            groups.push(if name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED }.to_owned());
        }
        User { name, uid, groups, extra }
    }
}
