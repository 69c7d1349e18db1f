//! The versions in which the objects of a resource are served, for their managed fields.

use windlass_machinery::{field::Errors, managed::Versions, object::Object, schema::Node};

use crate::resources::{Catalog, Conversion, Resource};

/// The versions of a resource, also those of its twin in another group.
#[derive(Clone, Copy)]
pub(crate) struct Served<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) catalog: &'a Catalog,
}

impl<'a> Served<'a> {
    /// The row of an `apiVersion`: this one, that of another version of a custom kind, or the twin.
    fn row(&self, api_version: &str) -> Option<&'a Resource> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if group == self.resource.group && self.resource.version(version).is_some() {
            return Some(self.resource);
        }
        let other = self.catalog.at(group, version, &self.resource.plural)?;
        (other.prefix == self.resource.prefix).then_some(other)
    }
}

impl Versions for Served<'_> {
    fn schema(&self, api_version: &str) -> Option<&Node> {
        let version = api_version.rsplit('/').next().unwrap_or(api_version);
        Some(self.row(api_version)?.version(version)?.schema())
    }

    fn convert(&self, object: &Object, api_version: &str) -> Option<Object> {
        let row = self.row(api_version)?;
        let mut object = object.clone();
        match (&row.conversion, &self.resource.conversion) {
            (Conversion::Custom(kind), _) => kind.rename_if_that_is_all(&mut object)?,
            (Conversion::With(convert), _) | (_, Conversion::With(convert)) => {
                convert(&mut object, api_version, &mut Errors::new());
            }
            _ => {}
        }
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), row.kind.as_str().into());
        row.canonicalize_as(&mut object, api_version);
        Some(object)
    }
}
