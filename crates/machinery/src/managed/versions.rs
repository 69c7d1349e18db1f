//! Kinds that are served in several versions: every entry names the fields of the version it was written in.

use serde_json::Value;

use super::{FieldSet, Write, delta::Delta};
use crate::{object::Object, schema::Node};

/// The versions of a kind.
pub trait Versions {
    /// What is known about the fields in this version; `None` when it is not served.
    fn schema(&self, api_version: &str) -> Option<&Node>;

    /// An object, which says its version, in the form of another; `None` when that cannot be had.
    fn convert(&self, object: &Object, api_version: &str) -> Option<Object>;
}

/// A kind whose versions all have the same fields.
impl Versions for Node {
    fn schema(&self, _api_version: &str) -> Option<&Node> {
        Some(self)
    }

    fn convert(&self, object: &Object, api_version: &str) -> Option<Object> {
        let mut object = object.clone();
        object.insert("apiVersion".to_owned(), api_version.into());
        Some(object)
    }
}

/// A change of an object, seen in any version.
pub(crate) struct Change<'a> {
    old: &'a Object,
    new: &'a Object,
    versions: &'a dyn Versions,
    unowned: Option<&'a FieldSet>,
    /// The version that both objects are in.
    form: &'a str,
    /// What has been worked out so far; `None` for versions that are not served.
    seen: Vec<(String, Option<Delta>)>,
}

impl<'a> Change<'a> {
    /// The change from `old` to `new`, which a write makes.
    pub(crate) fn new(
        old: &'a Object,
        new: &'a Object,
        versions: &'a dyn Versions,
        write: &Write<'a>,
    ) -> Self {
        let form = new.get("apiVersion").and_then(Value::as_str).unwrap_or(write.api_version);
        Change { old, new, versions, unowned: write.unowned, form, seen: vec![] }
    }

    /// What changes in this version; `None` when it is not served.
    pub(crate) fn of(&mut self, api_version: &str) -> Option<&Delta> {
        // Asked first, so that only the few versions that are served are remembered.
        self.versions.schema(api_version)?;
        let place = match self.seen.iter().position(|(seen, _)| seen == api_version) {
            Some(place) => place,
            None => {
                self.seen.push((api_version.to_owned(), self.work_out(api_version)));
                self.seen.len() - 1
            }
        };
        self.seen[place].1.as_ref()
    }

    /// What is new or has another value in this version; `None` when it is not served.
    pub(crate) fn into_changed(self, api_version: &str) -> Option<FieldSet> {
        self.work_out(api_version).map(|delta| delta.changed)
    }

    fn work_out(&self, api_version: &str) -> Option<Delta> {
        let schema = self.versions.schema(api_version)?;
        let delta = match self.form == api_version {
            true => Delta::between(self.old, self.new, schema),
            false => {
                let old = match self.old.is_empty() {
                    true => Object::new(),
                    false => self.versions.convert(self.old, api_version)?,
                };
                Delta::between(&old, &self.versions.convert(self.new, api_version)?, schema)
            }
        };
        Some(delta.without(self.unowned))
    }
}
