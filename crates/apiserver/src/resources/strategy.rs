//! What a kind does differently: tables and small functions, all of them optional.

use windlass_machinery::{field::Errors, object::Object};

/// How objects of one resource are defaulted, validated and changed.
///
/// All of it works on the version that is stored. `default` runs on everything a client sends; then come
/// mutating admission, `default` once more, `prepare_*`, `validate*`, and validating admission.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// Fills in what the client left out.
    pub default: fn(&mut Object),
    /// Sets what only the server may set on a new object (an initial phase, a QoS class).
    pub prepare_create: fn(&mut Object),
    /// Carries over what this update may not change. `part` is the subresource it came through.
    pub prepare_update: fn(new: &mut Object, old: &Object, part: Option<&str>),
    /// Finds faults in the object as it stands, on create and on update of the object itself.
    pub validate: fn(&Object, &mut Errors),
    /// Finds faults in the change. `part` is the subresource it came through.
    pub validate_update: fn(new: &Object, old: &Object, part: Option<&str>, &mut Errors),
    /// What is wrong with a name, in a few words; the flag says that it is the beginning of a generated one.
    pub name: fn(&str, bool) -> Option<String>,
    /// Adds advice for the client, such as a deprecation.
    pub warn: fn(&Object, &mut Vec<String>),
    /// Whether `metadata.generation` counts changes outside metadata and reserved parts.
    pub generation: bool,
    /// Whether a PUT may leave out `resourceVersion`.
    pub unconditional_update: bool,
    /// Whether a PUT to an absent name creates it.
    pub create_on_update: bool,
    /// How long a deletion waits for the node.
    pub grace: Grace,
    /// Whether dependents are orphaned when the client does not say.
    pub orphans: bool,
    /// Notes on the object that it is being deleted.
    pub deleting: fn(&mut Object),
    /// Whether something besides the finalizers keeps a deleted object.
    pub holds: fn(&Object) -> bool,
    /// Whether a new object keeps the status that the client sent.
    pub status_on_create: bool,
    /// Whether the answer to a deletion is the object instead of a `Status`.
    pub returns_deleted: bool,
}

/// How long a deletion waits before the object is removed: seconds, from the object and what the client asked
/// for. `None`: it does not wait.
pub type Grace = Option<fn(&Object, Option<i64>) -> i64>;

impl Strategy {
    /// A kind without any rules of its own.
    pub const PLAIN: Strategy = Strategy {
        default: |_| {},
        prepare_create: |_| {},
        prepare_update: |_, _, _| {},
        validate: |_, _| {},
        validate_update: |_, _, _, _| {},
        name: |name, generate| windlass_machinery::names::subdomain(name, generate),
        warn: |_, _| {},
        generation: false,
        unconditional_update: true,
        create_on_update: false,
        grace: None,
        orphans: false,
        deleting: |_| {},
        holds: |_| false,
        status_on_create: false,
        returns_deleted: false,
    };
}
