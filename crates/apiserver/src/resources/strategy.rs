//! What a kind does differently: tables and small functions, all of them optional.

use windlass_machinery::{field::Errors, object::Object};

use crate::status::Outcome;

/// How objects of one resource are defaulted and validated.
///
/// For a built-in kind that is what its [`Strategy`] says; a custom kind brings rules with data, its schema.
/// All of it works on the version in which objects are handled ([`Resource::handled_as`]). `default` runs on
/// everything a client sends; then come mutating admission, `default_again`, the strategy's `prepare_*`,
/// `validate`, and validating admission.
///
/// [`Resource::handled_as`]: super::Resource::handled_as
pub trait Rules: Send + Sync {
    /// Fills in what the client left out. Refused when that would make the object too large.
    fn default(&self, object: &mut Object) -> Outcome<()>;

    /// The same once mutating admission is through. `changed` says whether webhooks or policies have changed the
    /// object, who may have put in what the kind does not have.
    fn default_again(&self, object: &mut Object, _changed: bool) -> Outcome<()> {
        self.default(object)
    }

    /// Finds faults in an object and, if there is an old one, in the change. `part` is the subresource it came
    /// through.
    fn validate(&self, new: &Object, old: Option<&Object>, part: Option<&str>, errors: &mut Errors);

    /// Adds advice for the client, such as a deprecation.
    fn warn(&self, _new: &Object, _old: Option<&Object>, _warnings: &mut Vec<String>) {}
}

impl Rules for Strategy {
    fn default(&self, object: &mut Object) -> Outcome<()> {
        (self.default)(object);
        Ok(())
    }

    fn validate(&self, new: &Object, old: Option<&Object>, part: Option<&str>, errors: &mut Errors) {
        if part.is_none() {
            (self.validate)(new, errors);
        }
        if let Some(old) = old {
            (self.validate_update)(new, old, part, errors);
        }
    }

    fn warn(&self, new: &Object, _: Option<&Object>, warnings: &mut Vec<String>) {
        (self.warn)(new, warnings);
    }
}

/// How objects of one kind are prepared, changed and deleted. Plain data: the rules of a built-in kind are
/// constants.
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
    /// What `metadata.generation` counts.
    pub generation: Generation,
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

/// What `metadata.generation` of a kind counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Nothing: objects have none.
    Absent,
    /// Changes outside metadata and reserved parts.
    Counted {
        /// What new objects have; 0 is none.
        first: i64,
        /// Fields of the metadata whose changes count as well.
        metadata: &'static [&'static str],
    },
}

impl Generation {
    /// As most kinds have it.
    pub const COUNTED: Generation = Generation::Counted { first: 1, metadata: &[] };
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
        generation: Generation::Absent,
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
