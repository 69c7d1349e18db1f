//! Objects as they are, whether or not they are what their type says.
//!
//! A list with one object that does not fit a type cannot be read at all, and then nobody looks after the others. The API
//! server checks objects against the schema of their kind, but only as they are written: those that are older than the
//! schema stay. So whoever watches a kind that people define watches [`Readable`] objects of it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error};
use windlass_runtime::Recorder;

/// An object that may not be what its type says.
#[derive(Clone, Debug)]
pub enum Readable<K> {
    /// It is.
    Yes(Box<K>),
    /// It is not.
    No {
        /// What it has in common with all objects.
        meta: Box<ObjectMeta>,
        /// What is wrong with it.
        why: String,
    },
}

impl<K: Resource<DynamicType = ()>> Readable<K> {
    /// The object. People are told of one that cannot be read: it would not help to try again, they have to change it.
    pub fn or_tell(&self, events: &Recorder) -> Option<&K> {
        match self {
            Readable::Yes(object) => Some(object),
            Readable::No { why, .. } => {
                events.warning(self, "Unreadable", format!("The object cannot be read: {why}"));
                None
            }
        }
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = serde_json::Value::deserialize(deserializer)?;
        K::deserialize(&object).map(|object| Readable::Yes(Box::new(object))).or_else(|error| {
            let meta = ObjectMeta::deserialize(&object["metadata"]).map_err(D::Error::custom)?;
            Ok(Readable::No { meta: Box::new(meta), why: error.to_string() })
        })
    }
}

impl<K: Resource> Resource for Readable<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Readable::Yes(object) => object.meta(),
            Readable::No { meta, .. } => meta,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Readable::Yes(object) => object.meta_mut(),
            Readable::No { meta, .. } => meta,
        }
    }
}
