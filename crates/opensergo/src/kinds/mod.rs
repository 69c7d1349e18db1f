//! What can be subscribed to. A kind is one row of [`KINDS`] and one translation.

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use prost_types::Any;

/// A kind of rules.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The group of its objects.
    pub group: &'static str,
    /// Their version.
    pub version: &'static str,
    /// Their kind.
    pub kind: &'static str,
    /// What they are called in paths.
    pub plural: &'static str,
    /// Of several kinds of one app, those of a lower rank are sent first: what is named before who names it.
    pub rank: u8,
    /// Its definition.
    pub definition: fn() -> CustomResourceDefinition,
    /// Makes a message of an object.
    pub translate: fn(&DynamicObject) -> Result<Any, Untranslatable>,
    /// The objects of the same namespace and app that an object names.
    pub references: fn(&DynamicObject) -> Vec<Reference>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id())
    }
}

impl Kind {
    /// What clients call it.
    pub fn id(&self) -> String {
        format!("{}/{}/{}", self.group, self.version, self.kind)
    }
}

/// What an object names: another, of the same namespace and app.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    /// Its kind, without the group.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// Why no message can be made of an object: which fields are wrong, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Untranslatable(pub Vec<String>);

/// All kinds there are.
pub const KINDS: &[Kind] = &[];
