//! Roles and bindings, as they are read from their objects.

use std::sync::Arc;

use serde_json::Value;
use windlass_machinery::{
    names,
    object::{self, Object, list_at, str_at},
};

use super::Rule;

/// What stands before the namespace and the name of a service account that is a user.
const ACCOUNT: &str = "system:serviceaccount:";

/// A role. One without a namespace is a cluster role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// The namespace; empty for a cluster role.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// What it allows.
    pub rules: Vec<Rule>,
}

impl Role {
    /// From a `Role` or a `ClusterRole`.
    pub fn from_object(role: &Object) -> Self {
        Role {
            namespace: object::namespace(role).to_owned(),
            name: object::name(role).to_owned(),
            rules: list_at(role, &["rules"]).iter().map(Rule::from_json).collect(),
        }
    }
}

/// The role that a binding gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleRef {
    /// Whether it is a cluster role.
    pub is_cluster: bool,
    /// Its name.
    pub name: String,
}

impl RoleRef {
    /// `Role` or `ClusterRole`.
    pub fn kind(&self) -> &'static str {
        if self.is_cluster { "ClusterRole" } else { "Role" }
    }

    /// `roles` or `clusterroles`.
    pub fn plural(&self) -> &'static str {
        if self.is_cluster { "clusterroles" } else { "roles" }
    }
}

/// What kind of subject a role is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// A user by name.
    User,
    /// Everyone in a group.
    Group,
    /// A service account.
    ServiceAccount,
}

/// To whom a role is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// What it is.
    pub kind: SubjectKind,
    /// The name of the user or the group, as they come with a request.
    pub known_as: Arc<str>,
    /// As messages call it.
    pub shown: String,
}

impl Subject {
    fn from_json(subject: &Value, binding_namespace: &str) -> Option<Self> {
        let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
        let name = text("name");
        let (kind, known_as, shown) = match text("kind") {
            "User" => (SubjectKind::User, name.to_owned(), name.to_owned()),
            "Group" => (SubjectKind::Group, name.to_owned(), name.to_owned()),
            "ServiceAccount" => {
                let namespace =
                    if text("namespace").is_empty() { binding_namespace } else { text("namespace") };
                if namespace.is_empty() {
                    return None;
                }
                let known_as = format!("{ACCOUNT}{namespace}:{name}");
                (SubjectKind::ServiceAccount, known_as, format!("{name}/{namespace}"))
            }
            _ => return None,
        };
        (!name.is_empty()).then(|| Subject { kind, known_as: known_as.into(), shown })
    }
}

/// A binding: a role, and to whom it is given. One without a namespace is a cluster role binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// The namespace; empty for a cluster role binding.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The role.
    pub role: RoleRef,
    /// To whom.
    pub subjects: Vec<Subject>,
}

impl Binding {
    /// From a `RoleBinding` or a `ClusterRoleBinding`.
    pub fn from_object(binding: &Object) -> Self {
        let namespace = object::namespace(binding);
        let subjects = list_at(binding, &["subjects"]).iter();
        Binding {
            namespace: namespace.to_owned(),
            name: object::name(binding).to_owned(),
            role: RoleRef {
                is_cluster: str_at(binding, &["roleRef", "kind"]) == Some("ClusterRole"),
                name: str_at(binding, &["roleRef", "name"]).unwrap_or_default().to_owned(),
            },
            subjects: subjects.filter_map(|subject| Subject::from_json(subject, namespace)).collect(),
        }
    }
}

/// The namespace and the name of the service account that a user is, if it is one.
pub fn service_account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
    (names::label(namespace, false).is_none() && names::subdomain(name, false).is_none())
        .then_some((namespace, name))
}

/// The groups of the service accounts of a namespace.
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_an_account_can_have_are_those_of_accounts() {
        assert_eq!(service_account_of("system:serviceaccount:a:robot.v1"), Some(("a", "robot.v1")));
        for other in ["a/b:robot", "a:", ":robot", "a:b:c", "a:Robot", "a b:robot"] {
            assert_eq!(service_account_of(&format!("{ACCOUNT}{other}")), None, "{other}");
        }
    }
}
