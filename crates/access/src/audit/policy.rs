//! Which requests are written down, and how much of them: the `Policy` of audit.k8s.io/v1.
//!
//! Rules are tried in order and the first that matches decides, as in Kubernetes. One thing is stricter: what secrets
//! and tokens hold is written down only when a rule names their resource; a rule for everything, or for `*`, is taken
//! to mean [`Level::Metadata`] for them.

mod read;
#[cfg(test)]
mod tests;

use super::{Level, Stages};
use crate::{Attributes, User, Wanted};

/// Why a policy is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// It is neither YAML nor JSON.
    #[error("{0}")]
    Unreadable(String),
    /// Fields of it are wrong; each is named.
    #[error("{0}")]
    Invalid(String),
}

/// Which requests are written down, and how much of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    omit_stages: Stages,
    omit_managed_fields: bool,
}

/// One rule. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rule {
    level: Level,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    paths: Vec<String>,
    omit_stages: Stages,
    omit_managed_fields: Option<bool>,
}

/// Resources of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    names: Vec<String>,
}

/// A request, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Who asks; `None` when that could not be found out.
    pub user: Option<&'a User>,
    /// What they want to do.
    pub attributes: Attributes<'a>,
}

/// What is written down about a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// How much.
    pub level: Level,
    /// When it is not.
    pub omit_stages: Stages,
    /// Whether who owns which field of an object is left out.
    pub omit_managed_fields: bool,
    /// Whether nothing of what was sent or answered may be shown, because it is secret and no rule asks for it.
    pub is_withheld: bool,
}

/// Whose bodies are secrets: the group, the plural and the subresource.
const SECRET: [(&str, &str, &str); 3] =
    [("", "secrets", ""), ("", "serviceaccounts", "token"), ("authentication.k8s.io", "tokenreviews", "")];

impl Policy {
    /// Reads a policy from YAML or JSON.
    pub fn parse(text: &[u8]) -> Result<Self, PolicyError> {
        read::policy(text)
    }

    /// What is written down about this request.
    pub fn decide(&self, asked: &Asked<'_>) -> Decision {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(asked)) else {
            let (omit_stages, omit_managed_fields) = (self.omit_stages, self.omit_managed_fields);
            return Decision { omit_stages, omit_managed_fields, ..Decision::default() };
        };
        let asks = rule.level > Level::Metadata && rule.names(asked);
        let is_withheld = is_secret(asked) && !asks;
        Decision {
            level: if is_withheld { rule.level.min(Level::Metadata) } else { rule.level },
            omit_stages: self.omit_stages.or(rule.omit_stages),
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            is_withheld,
        }
    }
}

fn is_secret(asked: &Asked<'_>) -> bool {
    match asked.attributes.wanted {
        Wanted::Path(_) => false,
        Wanted::Resource { group, resource, subresource, .. } => {
            SECRET.iter().any(|(own_group, plural, sub)| {
                (*own_group, *plural) == (group, resource) && (sub.is_empty() || *sub == subresource)
            })
        }
    }
}

impl Rule {
    fn matches(&self, asked: &Asked<'_>) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == wanted);
        if !self.users.is_empty() && !asked.user.is_some_and(|user| has(&self.users, &user.name)) {
            return false;
        }
        let in_group = |user: &User| user.groups.iter().any(|group| has(&self.user_groups, group));
        if !self.user_groups.is_empty() && !asked.user.is_some_and(in_group) {
            return false;
        }
        if !self.verbs.is_empty() && !has(&self.verbs, asked.attributes.verb) {
            return false;
        }
        match asked.attributes.wanted {
            Wanted::Resource { namespace, .. } => {
                self.paths.is_empty()
                    && (self.namespaces.is_empty() || has(&self.namespaces, namespace))
                    && (self.resources.is_empty()
                        || self.resources.iter().any(|resources| resources.are_meant(asked)))
            }
            Wanted::Path(path) => {
                self.resources.is_empty()
                    && self.namespaces.is_empty()
                    && (self.paths.is_empty() || self.paths.iter().any(|own| path_matches(own, path)))
            }
        }
    }

    /// Whether the resource is written out in the rule.
    fn names(&self, asked: &Asked<'_>) -> bool {
        let Wanted::Resource { group, resource, subresource, .. } = asked.attributes.wanted else {
            return false;
        };
        let whole = qualified(resource, subresource);
        let own = self.resources.iter().filter(|own| own.group == group);
        own.flat_map(|own| &own.resources).any(|own| *own == whole)
    }
}

impl GroupResources {
    fn are_meant(&self, asked: &Asked<'_>) -> bool {
        let Wanted::Resource { group, resource, subresource, name, .. } = asked.attributes.wanted else {
            return false;
        };
        if self.group != group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.names.is_empty() && !self.names.iter().any(|own| own == name) {
            return false;
        }
        let whole = qualified(resource, subresource);
        self.resources.iter().any(|own| {
            *own == whole
                || own == "*"
                || own.strip_prefix("*/").is_some_and(|sub| !subresource.is_empty() && sub == subresource)
                || own.strip_suffix("/*").is_some_and(|plural| plural == resource)
        })
    }
}

/// The plural and the subresource, as rules write them.
fn qualified(resource: &str, subresource: &str) -> String {
    match subresource {
        "" => resource.to_owned(),
        subresource => format!("{resource}/{subresource}"),
    }
}

/// Whether a path is meant by what a rule says, which may end with `*`.
fn path_matches(own: &str, path: &str) -> bool {
    match own.strip_suffix('*') {
        Some(beginning) => path.starts_with(beginning),
        None => own == path,
    }
}
