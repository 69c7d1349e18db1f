//! Resources as data: what is served, one row each.
//!
//! A [`Resource`] says what it is called, where it is stored, which parts of it are written separately, what
//! its table shows, and how it is defaulted and validated ([`Rules`]). Built-in rows are in [`builtin`]; those of
//! custom kinds are made from their definitions (`crd`) and come and go with them. The handlers know no kinds.

pub mod builtin;
mod catalog;
mod kinds;
mod strategy;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use windlass_machinery::{
    field::Errors,
    object::Object,
    schema::{Node, Report, canonicalize, canonicalize_stored, check, check_applied},
    table::Column,
};

pub use self::{
    catalog::{Catalog, Group},
    strategy::{Generation, Grace, Rules, Strategy},
};
use crate::crd;

/// One resource: everything the server knows about it.
pub struct Resource {
    /// The API group, empty for the core.
    pub group: String,
    /// The plural, as in URLs.
    pub plural: String,
    /// The singular, as typed.
    pub singular: String,
    /// The kind.
    pub kind: String,
    /// The kind of its lists.
    pub list_kind: String,
    /// Names for the impatient.
    pub short_names: Vec<String>,
    /// Groups of resources it belongs to, such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The versions it is served in, the preferred one first.
    pub versions: Vec<Version>,
    /// The `apiVersion` of its objects in the store.
    pub stored_as: String,
    /// The `apiVersion` in which its objects are defaulted, admitted and validated: for built-in kinds that of
    /// the store, for custom kinds that of the request.
    pub handled_as: String,
    /// The version of another group's twin in which its objects are handled, where that is none of its own.
    pub handled_in: Option<Version>,
    /// Whether many of its objects can be deleted with one request.
    pub deletes_collections: bool,
    /// Where its objects are in the store: the beginning of their keys, with a slash at the end. Empty for
    /// resources that are only ever created and answered, such as reviews.
    pub prefix: String,
    /// Parts that are written through a path of their own.
    pub parts: Vec<Part>,
    /// Where `scale` finds its numbers.
    pub scale: Option<Scale>,
    /// What else can be done to one object, by the name of the subresource.
    pub actions: Vec<(&'static str, Action)>,
    /// What is done with a created object that is not stored.
    pub review: Option<Review>,
    /// Whether its objects are worked out when they are asked for, and only read.
    pub computed: bool,
    /// The columns of its table.
    pub columns: Vec<Column>,
    /// Fields that can be selected by, besides the name and the namespace.
    pub fields: Vec<Cow<'static, str>>,
    /// How its objects are prepared, changed and deleted.
    pub strategy: Strategy,
    /// How its objects are defaulted and validated.
    pub rules: Arc<dyn Rules>,
    /// How its objects are turned into other versions.
    pub conversion: Conversion,
}

/// How objects are turned from one version into another.
#[derive(Clone)]
pub enum Conversion {
    /// The versions differ in nothing but their names.
    Rename,
    /// By a function.
    With(Convert),
    /// As the definition of a custom kind says: by its schemas, and by a webhook where it has one.
    Custom(Arc<crd::Kind>),
}

/// Turns an object into the form of an `apiVersion`, and tells what cannot be turned.
pub type Convert = fn(&mut Object, &str, &mut Errors);

/// One served version of a resource.
pub struct Version {
    /// Such as `v1`.
    pub name: String,
    /// The name of its type, such as `io.k8s.api.core.v1.Pod`.
    pub type_name: String,
    /// Where its schema comes from.
    pub source: Source,
    /// What clients are told who use it although they should not.
    pub warning: Option<String>,
    /// Its schema, compiled on first use.
    schema: OnceLock<Node>,
}

/// Where a schema comes from.
#[derive(Clone)]
pub enum Source {
    /// A Rust type: asks the generator for it and what it refers to.
    Type(fn(&mut schemars::SchemaGenerator) -> schemars::Schema),
    /// The definition of a custom kind.
    Custom(Arc<crd::Kind>),
}

impl Version {
    /// A version whose schema is yet to be compiled.
    pub(crate) fn new(name: &str, type_name: String, source: Source) -> Self {
        Version { name: name.to_owned(), type_name, source, warning: None, schema: OnceLock::new() }
    }

    /// The compiled schema.
    pub fn schema(&self) -> &Node {
        match &self.source {
            Source::Type(ask) => self.schema.get_or_init(|| crate::openapi::compile(&self.type_name, *ask)),
            Source::Custom(kind) => kind.node(),
        }
    }

    /// Holds what a client sent against the schema: drops what is not known, and tells of it and of wrong types.
    pub(crate) fn inspect(&self, object: &mut Object) -> Report {
        match &self.source {
            Source::Type(_) => check(self.schema(), object),
            Source::Custom(kind) => kind.inspect(object),
        }
    }

    /// The same for what a client applies, which may hold `null`s and has been held against the schema by which it is
    /// merged.
    pub(crate) fn inspect_applied(&self, object: &mut Object) -> Report {
        match &self.source {
            Source::Type(_) => check_applied(self.schema(), object),
            Source::Custom(kind) => kind.inspect_applied(object),
        }
    }

    /// The same for what has become of an object that was applied to. What a custom kind does not take for `null` is
    /// for its validation to say.
    pub(crate) fn inspect_merged(&self, object: &mut Object) {
        match &self.source {
            Source::Type(_) => drop(check(self.schema(), object)),
            Source::Custom(kind) => kind.inspect_merged(object),
        }
    }
}

/// A part of an object that is written through a path of its own, such as `status`.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The name of the subresource.
    pub name: &'static str,
    /// What a write through it may change: dotted paths. Everything else is kept as it was.
    pub writes: &'static [&'static str],
    /// Whether writes to the object itself leave those fields alone.
    pub reserved: bool,
    /// Whether labels, annotations and finalizers can be written through it as well.
    pub metadata: bool,
    /// Whether it can only be written, and only as a whole.
    pub put_only: bool,
}

impl Part {
    /// The status, as every built-in kind that has one has it.
    pub(crate) const STATUS: Part =
        Part { name: "status", writes: &["status"], reserved: true, metadata: true, put_only: false };

    /// Whether something of the specification is written through it, which has defaults.
    pub(crate) fn writes_spec(&self) -> bool {
        self.writes.iter().any(|path| path.starts_with("spec"))
    }
}

/// Where `scale` finds its numbers: dotted paths.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The number wanted.
    pub replicas: Cow<'static, str>,
    /// The number there is.
    pub status_replicas: Cow<'static, str>,
    /// The selector: an object, a map of labels, or a string. Empty: there is none.
    pub selector: Cow<'static, str>,
    /// Whether an object may leave out the number wanted.
    pub optional: bool,
}

/// What else can be done to one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Puts a pod on a node.
    Bind,
    /// Deletes a pod if its disruption budgets allow it.
    Evict,
    /// Issues a token for a service account.
    Token,
    /// Would need a kubelet.
    Kubelet,
}

/// What is done with a created object that is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// Whether a token is good, and whose.
    Token,
    /// Whether someone may do something.
    Access,
    /// Whether the caller may do something.
    SelfAccess,
    /// What the caller may do.
    SelfRules,
    /// Who the caller is.
    SelfSubject,
    /// Puts a pod on a node (the `bindings` resource).
    Bind,
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.qualified())
    }
}

impl Resource {
    /// `deployments.apps`, or `pods` in the core group: how messages call it.
    pub fn qualified(&self) -> String {
        match self.group.is_empty() {
            true => self.plural.clone(),
            false => format!("{}.{}", self.plural, self.group),
        }
    }

    /// The served version of this name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The schema of Kubernetes' own type for an `apiVersion` of its objects. Custom kinds have none.
    fn typed(&self, api_version: &str) -> Option<&Node> {
        if self.custom().is_some() {
            return None;
        }
        let twin = self.handled_in.as_ref().filter(|_| api_version == self.handled_as);
        let name = api_version.rsplit('/').next().unwrap_or_default();
        twin.or_else(|| self.version(name)).map(Version::schema)
    }

    /// Puts an object in the version in which it is handled into the form in which Kubernetes' types write it.
    pub(crate) fn canonicalize(&self, object: &mut Object) {
        self.canonicalize_as(object, &self.handled_as);
    }

    /// The same for an object of any `apiVersion`.
    pub(crate) fn canonicalize_as(&self, object: &mut Object, api_version: &str) {
        if let Some(schema) = self.typed(api_version) {
            canonicalize(schema, object);
        }
    }

    /// The same for an object that is ready to be stored.
    pub(crate) fn canonicalize_stored(&self, object: &mut Object) {
        if let Some(schema) = self.typed(&self.handled_as) {
            canonicalize_stored(schema, object);
        }
    }

    /// `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self, version: &str) -> String {
        match self.group.is_empty() {
            true => version.to_owned(),
            false => format!("{}/{version}", self.group),
        }
    }

    /// Whether its objects are stored.
    pub fn is_stored(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// What makes it a custom kind, if it is one.
    pub(crate) fn custom(&self) -> Option<&Arc<crd::Kind>> {
        match &self.conversion {
            Conversion::Custom(kind) => Some(kind),
            _ => None,
        }
    }

    /// The part of this name.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// The key of one object.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        match self.namespaced {
            true => format!("{}{namespace}/{name}", self.prefix),
            false => format!("{}{name}", self.prefix),
        }
    }

    /// The beginning of the keys of all objects, or of all in one namespace.
    pub fn range(&self, namespace: &str) -> String {
        match self.namespaced && !namespace.is_empty() {
            true => format!("{}{namespace}/", self.prefix),
            false => self.prefix.clone(),
        }
    }
}
