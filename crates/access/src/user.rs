//! Who asks.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

/// The name of whoever shows nothing.
pub const ANONYMOUS: &str = "system:anonymous";

/// The group of whoever shows nothing.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The group of everyone who is known.
pub const AUTHENTICATED: &str = "system:authenticated";

/// Members of this group may do everything.
pub const MASTERS: &str = "system:masters";

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The id, where there is one: it tells users apart that have had the same name.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known, such as the pod that a token was made for.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user of whom the name and the groups are known.
    pub fn new(name: impl Into<String>, groups: Vec<String>) -> Self {
        User { name: name.into(), groups, ..User::default() }
    }

    /// Whoever shows nothing.
    pub fn anonymous() -> Arc<Self> {
        static NOBODY: LazyLock<Arc<User>> =
            LazyLock::new(|| Arc::new(User::new(ANONYMOUS, vec![UNAUTHENTICATED.to_owned()])));
        Arc::clone(&NOBODY)
    }

    /// The same with the group that everyone has who is known.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) && self.name != ANONYMOUS {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Whether the user is in this group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Whether nobody knows who it is.
    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }
}
