//! What others own and an apply would change.

use std::fmt;

use crate::managed::{Entry, FieldSet, Managers, Operation, versions::Change};

/// Most conflicts that are listed one by one.
const LISTED: usize = 1_000;

/// Most bytes of the fields that are listed; their names can be long, and repeat those above them.
const BYTES: usize = 128 * 1024;

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager as messages name it, such as `"kubectl-edit" using apps/v1`.
    pub manager: String,
    /// The field, such as `.spec.replicas`.
    pub field: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conflict with {}", self.manager)
    }
}

/// The fields that others own, those of one manager together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// As many of them as a message can tell.
    pub listed: Vec<Conflict>,
    /// How many there are.
    pub count: usize,
}

impl std::error::Error for Conflicts {}

/// In the words that clients of Kubernetes know.
impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ([only], 1) = (&self.listed[..], self.count) {
            return write!(f, "Apply failed with 1 conflict: {only}: {}", only.field);
        }
        write!(f, "Apply failed with {} conflicts: ", self.count)?;
        for (place, group) in self.listed.chunk_by(|one, other| one.manager == other.manager).enumerate() {
            let separator = if place == 0 { "" } else { "\n" };
            write!(f, "{separator}conflicts with {}:", group[0].manager)?;
            for conflict in group {
                write!(f, "\n- {}", conflict.field)?;
            }
        }
        match self.count - self.listed.len() {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// What managers own of what changes, by the names of the managers.
pub(super) type Owned = Vec<(String, FieldSet)>;

/// What managers own of what changes.
pub(super) fn find(managers: &Managers, change: &mut Change<'_>) -> Owned {
    let owned = managers.0.iter().filter_map(|entry| {
        let common = entry.fields.intersection(&change.of(&entry.api_version)?.changed);
        (!common.is_empty()).then(|| (shown(entry), common))
    });
    let mut owned: Owned = owned.collect();
    owned.sort_by(|one, other| one.0.cmp(&other.0));
    owned
}

impl Conflicts {
    pub(super) fn of(owned: &Owned) -> Self {
        let mut conflicts = Conflicts::default();
        let mut room = BYTES;
        for (manager, fields) in owned {
            conflicts.count += fields.len();
            fields.visit(&mut |field| {
                let takes = manager.len() + field.len();
                if conflicts.listed.len() == LISTED || takes > room {
                    return false;
                }
                room -= takes;
                conflicts.listed.push(Conflict { manager: manager.clone(), field: field.to_owned() });
                true
            });
        }
        conflicts
    }
}

/// A manager as messages name it. Appliers are the same in all versions.
fn shown(entry: &Entry) -> String {
    let mut text = format!("{:?}", entry.manager);
    if !entry.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", entry.subresource));
    }
    if entry.operation == Operation::Update {
        text.push_str(&format!(" using {}", entry.api_version));
    }
    text
}
