//! The number of a leader, by which the writes of former ones are known.

use std::fmt;

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// The annotation that says who wrote an object last: `NAMESPACE/NAME:NUMBER` of the lease.
pub const FENCE: &str = "windlass.dev/fence";

/// The number of a leader: the revision at which it took its lease. A later leader has a greater one, even if the lease
/// was deleted meanwhile.
///
/// A writer that reads an object, asks [`Fence::allows`], leaves its fence on it with [`Fence::mark`], and writes it with
/// the `resourceVersion` it has read never overwrites what a later leader has written: either it sees the mark, or its
/// write is a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    lease: String,
    number: u64,
}

impl Fence {
    pub(super) fn new(namespace: &str, name: &str, lease: &Lease) -> Self {
        let revision = lease.metadata.resource_version.as_deref().and_then(|revision| revision.parse().ok());
        // Where revisions are not numbers, how often the lease has changed hands has to do.
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
        let number = revision.unwrap_or_else(|| u64::try_from(transitions).unwrap_or(0));
        Fence { lease: format!("{namespace}/{name}"), number }
    }

    /// The number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Leaves it on an object.
    pub fn mark(&self, meta: &mut ObjectMeta) {
        meta.annotations.get_or_insert_default().insert(FENCE.to_owned(), self.to_string());
    }

    /// Whether no later leader of the same lease has written an object.
    pub fn allows(&self, meta: &ObjectMeta) -> bool {
        let mark = meta.annotations.as_ref().and_then(|annotations| annotations.get(FENCE));
        let theirs = mark.and_then(|mark| mark.rsplit_once(':'));
        match theirs {
            Some((lease, number)) if lease == self.lease => {
                number.parse::<u64>().is_ok_and(|number| number <= self.number)
            }
            _ => true,
        }
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.lease, self.number)
    }
}
