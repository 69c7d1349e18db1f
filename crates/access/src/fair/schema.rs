//! Which flow a request belongs to.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::spec::{Distinguisher, FlowSchemaSpec, NonResourceRule, ResourceRule, Rule, Subject, SubjectKind};
use crate::{Attributes, User, Wanted};

/// What stands for everything.
const ALL: &str = "*";

/// How the names of service accounts begin.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Requests that are alike, as a FlowSchema says.
#[derive(Clone, Debug)]
pub struct Schema {
    /// The name of the object.
    pub name: String,
    spec: FlowSchemaSpec,
}

impl Schema {
    /// A schema as the object of this name says.
    pub fn new(name: impl Into<String>, spec: FlowSchemaSpec) -> Self {
        Schema { name: name.into(), spec }
    }

    /// The name of the level that its requests belong to.
    pub fn level(&self) -> &str {
        &self.spec.priority_level_configuration.name
    }

    /// Whether this request belongs to it.
    pub fn matches(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        self.spec.rules.iter().any(|rule| rule.matches(user, attributes))
    }

    /// The flow that a request belongs to, as a number. `seed` keeps others from choosing names that meet.
    pub fn flow(&self, user: &User, attributes: &Attributes<'_>, seed: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        self.name.hash(&mut hasher);
        match (self.spec.distinguisher_method, attributes.wanted) {
            (Some(Distinguisher::ByUser), _) => user.name.hash(&mut hasher),
            (Some(Distinguisher::ByNamespace), Wanted::Resource { namespace, .. }) => {
                namespace.hash(&mut hasher);
            }
            (Some(Distinguisher::ByNamespace) | None, _) => {}
        }
        hasher.finish()
    }
}

impl Rule {
    fn matches(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        let is_wanted = match attributes.wanted {
            Wanted::Resource { .. } => self.resource_rules.iter().any(|rule| rule.matches(attributes)),
            Wanted::Path(path) => {
                self.non_resource_rules.iter().any(|rule| rule.matches(attributes.verb, path))
            }
        };
        is_wanted && self.subjects.iter().any(|subject| subject.matches(user))
    }
}

impl Subject {
    fn matches(&self, user: &User) -> bool {
        match self.kind {
            SubjectKind::User => self.user.name == ALL || self.user.name == user.name,
            SubjectKind::Group => self.group.name == ALL || user.is_in(&self.group.name),
            SubjectKind::ServiceAccount => {
                let account = user.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
                account.is_some_and(|(namespace, name)| {
                    self.service_account.namespace == namespace
                        && (self.service_account.name == ALL || self.service_account.name == name)
                })
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, attributes: &Attributes<'_>) -> bool {
        let Wanted::Resource { group, resource, subresource, namespace, .. } = attributes.wanted else {
            return false;
        };
        let is_named = |named: &String| {
            named == ALL
                || match named.split_once('/') {
                    Some((of, sub)) => of == resource && sub == subresource,
                    None => named == resource && subresource.is_empty(),
                }
        };
        has(&self.verbs, attributes.verb)
            && has(&self.api_groups, group)
            && self.resources.iter().any(is_named)
            && match namespace {
                "" => self.cluster_scope,
                namespace => has(&self.namespaces, namespace),
            }
    }
}

impl NonResourceRule {
    fn matches(&self, verb: &str, path: &str) -> bool {
        let is_named = |named: &String| {
            // What is below a path is named with it, with or without a star.
            let above = named.strip_suffix(ALL).unwrap_or(named);
            let above = above.strip_suffix('/').unwrap_or(above);
            let is_below = || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
            named == ALL || named == path || is_below()
        };
        has(&self.verbs, verb) && self.non_resource_urls.iter().any(is_named)
    }
}

fn has(list: &[String], one: &str) -> bool {
    list.iter().any(|named| named == ALL || named == one)
}

/// All schemas, in the order in which they are asked. Each carries what its owner wants to know of it.
#[derive(Debug)]
pub struct Classifier<T>(Vec<(Schema, T)>);

impl<T> Classifier<T> {
    /// A classifier by these schemas.
    pub fn new(mut schemas: Vec<(Schema, T)>) -> Self {
        schemas.sort_by(|(left, _), (right, _)| {
            let rank = |schema: &Schema| schema.spec.matching_precedence;
            rank(left).cmp(&rank(right)).then_with(|| left.name.cmp(&right.name))
        });
        Classifier(schemas)
    }

    /// The first schema that the request belongs to.
    pub fn classify(&self, user: &User, attributes: &Attributes<'_>) -> Option<&(Schema, T)> {
        self.0.iter().find(|(schema, _)| schema.matches(user, attributes))
    }

    /// All schemas.
    pub fn iter(&self) -> impl Iterator<Item = &(Schema, T)> {
        self.0.iter()
    }
}
