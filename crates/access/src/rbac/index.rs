//! Roles and bindings by whom they are for.

use std::{fmt, sync::Arc};

use imbl::{HashMap, OrdMap};

use super::{Binding, Role, Rule, Subject, SubjectKind};
use crate::{Attributes, MASTERS, User, Wanted};

/// By namespace (the empty one is the cluster) and name.
type Placed<T> = HashMap<String, OrdMap<String, T>>;

/// Roles and bindings by whom they are for. A copy is a few pointers.
#[derive(Clone, Debug, Default)]
pub struct Index {
    roles: Placed<Arc<Role>>,
    bindings: Placed<Arc<Binding>>,
    /// What users have by name; service accounts are users.
    users: HashMap<Arc<str>, Placed<Given>>,
    groups: HashMap<Arc<str>, Placed<Given>>,
}

/// A binding, and which of its subjects this is about.
#[derive(Clone, Debug)]
struct Given {
    binding: Arc<Binding>,
    subject: usize,
}

/// Why something is allowed. Shown as Kubernetes says it.
#[derive(Clone, Debug)]
pub enum Grant {
    /// Members of `system:masters` may do everything.
    Master,
    /// A role allows it.
    Role {
        /// The binding that gives the role.
        binding: Arc<Binding>,
        /// To which of its subjects.
        subject: usize,
    },
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Grant::Role { binding, subject } = self else { return Ok(()) };
        let Binding { namespace, name, role, subjects } = &**binding;
        match namespace.is_empty() {
            true => write!(f, "RBAC: allowed by ClusterRoleBinding {name:?}")?,
            false => write!(f, "RBAC: allowed by RoleBinding \"{name}/{namespace}\"")?,
        }
        write!(f, " of {} {:?}", role.kind(), role.name)?;
        let Some(Subject { kind, shown, .. }) = subjects.get(*subject) else { return Ok(()) };
        write!(f, " to {kind:?} {shown:?}")
    }
}

impl Index {
    /// Takes up a role, in place of the one it had.
    pub fn put_role(&mut self, role: Role) {
        put(&mut self.roles, role.namespace.clone(), role.name.clone(), Arc::new(role));
    }

    /// Forgets a role.
    pub fn remove_role(&mut self, namespace: &str, name: &str) {
        remove(&mut self.roles, namespace, name);
    }

    /// Takes up a binding, in place of the one it had.
    pub fn put_binding(&mut self, binding: Binding) {
        self.remove_binding(&binding.namespace, &binding.name);
        let binding = Arc::new(binding);
        for (subject, to) in binding.subjects.iter().enumerate() {
            let given = Given { binding: Arc::clone(&binding), subject };
            let placed = self.of_kind(to.kind).entry(Arc::clone(&to.known_as)).or_default();
            put(placed, binding.namespace.clone(), binding.name.clone(), given);
        }
        put(&mut self.bindings, binding.namespace.clone(), binding.name.clone(), binding);
    }

    /// Forgets a binding.
    pub fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(binding) = remove(&mut self.bindings, namespace, name) else { return };
        for subject in &binding.subjects {
            let all = self.of_kind(subject.kind);
            let Some(placed) = all.get_mut(&subject.known_as) else { continue };
            remove(placed, namespace, name);
            if placed.is_empty() {
                all.remove(&subject.known_as);
            }
        }
    }

    fn of_kind(&mut self, kind: SubjectKind) -> &mut HashMap<Arc<str>, Placed<Given>> {
        match kind {
            SubjectKind::Group => &mut self.groups,
            SubjectKind::User | SubjectKind::ServiceAccount => &mut self.users,
        }
    }

    /// A role; with an empty namespace, a cluster role.
    pub fn role(&self, namespace: &str, name: &str) -> Option<&Arc<Role>> {
        self.roles.get(namespace)?.get(name)
    }

    fn role_of(&self, binding: &Binding) -> Option<&Arc<Role>> {
        let namespace = if binding.role.is_cluster { "" } else { binding.namespace.as_str() };
        self.role(namespace, &binding.role.name)
    }

    /// What a user has been given, in one place.
    fn given<'i>(
        &'i self,
        user: &'i User,
        namespace: &'i str,
    ) -> impl Iterator<Item = (&'i Given, &'i Role)> {
        let by_name = self.users.get(user.name.as_str());
        let by_group = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        let placed = by_name.into_iter().chain(by_group).filter_map(move |placed| placed.get(namespace));
        placed
            .flat_map(|bindings| bindings.values())
            .filter_map(|given| Some((given, &**self.role_of(&given.binding)?)))
    }

    /// Whether a user may do this, and why.
    pub fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Option<Grant> {
        if user.is_in(MASTERS) {
            return Some(Grant::Master);
        }
        let namespace = match attributes.wanted {
            Wanted::Resource { namespace, .. } => namespace,
            Wanted::Path(_) => "",
        };
        let places = std::iter::once("").chain(Some(namespace).filter(|namespace| !namespace.is_empty()));
        let mut given = places.flat_map(|place| self.given(user, place));
        let (given, _) = given.find(|(_, role)| role.rules.iter().any(|rule| rule.allows(attributes)))?;
        Some(Grant::Role { binding: Arc::clone(&given.binding), subject: given.subject })
    }

    /// Everything a user may do in a namespace; in none, what holds everywhere.
    pub fn rules_for(&self, user: &User, namespace: &str) -> Vec<Rule> {
        if user.is_in(MASTERS) {
            return vec![Rule::all_resources(), Rule::all_paths()];
        }
        let mut rules: Vec<Rule> =
            self.given(user, "").flat_map(|(_, role)| role.rules.iter().cloned()).collect();
        if !namespace.is_empty() {
            let own = self.given(user, namespace).flat_map(|(_, role)| &role.rules);
            // Paths are in no namespace, so a role that is given in one does not reach them.
            rules.extend(own.filter(|rule| !rule.is_about_paths()).cloned());
        }
        rules
    }
}

fn put<T: Clone>(placed: &mut Placed<T>, namespace: String, name: String, value: T) {
    placed.entry(namespace).or_default().insert(name, value);
}

fn remove<T: Clone>(placed: &mut Placed<T>, namespace: &str, name: &str) -> Option<T> {
    let own = placed.get_mut(namespace)?;
    let removed = own.remove(name);
    if own.is_empty() {
        placed.remove(namespace);
    }
    removed
}
