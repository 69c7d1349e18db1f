//! Structural schemas: what a custom resource definition says about its objects.
//!
//! [`Schema::compile`] takes `openAPIV3Schema` as it was written, tells what Kubernetes would refuse in it, and
//! makes a compact form. That form [prunes](Schema::prune), [fills in defaults](Schema::default) and
//! [validates](Schema::validate) objects; every step it takes is bounded, whatever the schema and the object.
//! Rules in CEL are kept for whoever evaluates them ([`Shape::rules`]).

mod compact;
mod compile;
mod defaults;
mod embedded;
mod formats;
mod node;
mod openapi;
mod pattern;
mod place;
mod prune;
mod shape;
mod source;
mod structure;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod uri;
mod validate;

use serde_json::Value;

pub(crate) use self::uri::Uri;
pub use self::{
    embedded::coerce_metadata,
    formats::Format,
    shape::{Kind, ListType, Rule, Shape, field_path},
};

use self::{
    compact::Tables,
    defaults::Filling,
    prune::Pruning,
    validate::{Budget, Walk},
};
use crate::{field::Errors, object::Object, schema};

/// How deep schemas may be nested in each other. Those of the largest operators have some thirty levels.
const DEPTH_MOST: usize = 100;
/// How many steps the validation of one object may take: a part of a schema that is held against a value, or a
/// byte that is held against a pattern. It is some tenths of a second; large objects need a tenth of it.
const STEPS_MOST: u64 = 10_000_000;
/// How many bytes of defaults one object may be given. More than a request can have, so that it is only reached by
/// large defaults in the entries of long lists.
const DEFAULTS_MOST: usize = 8 << 20;
/// How much of a value is shown in a message.
const SHOWN_MOST: usize = 1 << 10;

/// A structural schema in its compact form.
#[derive(Debug)]
pub struct Schema(Tables);

/// An object would have become too large by its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the defaults of the schema would make the object too large")]
pub struct Overgrown;

impl Schema {
    /// Compiles what is under `openAPIV3Schema`. `None` if it cannot be used; `errors` say why, as seen from where
    /// they stand.
    pub fn compile(schema: &Value, errors: &mut Errors) -> Option<Schema> {
        compile::compile(schema, errors)
    }

    /// What the schema says about the object itself.
    pub fn root(&self) -> Shape<'_> {
        Shape { tables: &self.0, id: self.0.root }
    }

    /// Drops the fields that are not specified, and returns where they were, such as `spec.list[0].name`, the
    /// first hundred of them.
    ///
    /// `apiVersion`, `kind` and `metadata` of the object are left alone. Those of embedded resources are brought
    /// into form: what is malformed there is told to `errors`, or dropped if there are none.
    pub fn prune(&self, object: &mut Object, errors: Option<&mut Errors>) -> Vec<String> {
        let mut pruning = Pruning::new(errors);
        pruning.map(self.root(), object, true, false, &place::Place::ROOT);
        pruning.finish()
    }

    /// Drops `null` where it is not allowed and there is no default for it.
    pub fn drop_nulls(&self, object: &mut Object) {
        defaults::drop_nulls(self.root(), object);
    }

    /// Fills in defaults, also in place of `null` where that is not allowed.
    pub fn default(&self, object: &mut Object) -> Result<(), Overgrown> {
        Filling { room: DEFAULTS_MOST }.map(self.root(), object)
    }

    /// Tells what is wrong with an object. With the state it had before, faults below values that did not change
    /// are not told.
    pub fn validate(&self, object: &Object, old: Option<&Object>, errors: &mut Errors) {
        let mut budget = Budget::new(STEPS_MOST);
        let mut walk = Walk::new(&mut budget);
        walk.object(self.root(), object, old);
        walk.finish(errors);
    }

    /// The form of the schema that managed fields and server-side apply use.
    ///
    /// It has no place for how the values of free maps and the entries of lists are merged, so that lists there are
    /// owned as a whole, whatever the schema says. Nor does it say which unknown fields are kept: hold objects
    /// against the schema by [`Schema::prune`], not by [`schema::check`].
    pub fn node(&self) -> schema::Node {
        node::node(self.root())
    }

    /// About how many bytes of memory the schema takes.
    pub fn size(&self) -> usize {
        self.0.size()
    }
}

/// The beginning of a text that is shown in a message.
pub(crate) fn clipped(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
