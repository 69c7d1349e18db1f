//! The versions in which the objects of a resource are served, for their managed fields.

use windlass_machinery::{managed::Versions, object::Object, schema::Node};

use crate::resources::{Catalog, Resource};

/// The versions of a resource, also those of its twin in another group.
#[derive(Clone, Copy)]
pub(crate) struct Served<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) catalog: &'a Catalog,
}

impl<'a> Served<'a> {
    /// The row of a group.
    fn row(&self, group: &str) -> Option<&'a Resource> {
        if group == self.resource.group {
            return Some(self.resource);
        }
        let twin = self.catalog.get(group, &self.resource.plural)?;
        (twin.prefix == self.resource.prefix).then_some(twin)
    }
}

impl Versions for Served<'_> {
    fn schema(&self, api_version: &str) -> Option<&Node> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some(self.row(group)?.version(version)?.schema())
    }

    fn convert(&self, object: &Object, api_version: &str) -> Option<Object> {
        let (group, _) = api_version.split_once('/').unwrap_or(("", api_version));
        let row = self.row(group)?;
        let mut object = object.clone();
        if let Some(convert) = row.convert.or(self.resource.convert) {
            convert(&mut object, api_version);
        }
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), row.kind.as_str().into());
        Some(object)
    }
}
