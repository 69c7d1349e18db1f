//! Turning stored bytes into what a client asked for: the object, a table row, or its metadata.
//!
//! Built-in kinds are converted here. What custom kinds show has been put into its version before
//! ([`super::versions`]).

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    object::{self, Object},
    stored::{self, Stored},
    table,
};

use crate::{
    http::Form,
    resources::{Conversion, Resource},
    status::{Outcome, Status},
};

/// Turns an object into the form of an `apiVersion`. What cannot be turned is told.
pub(crate) fn convert(resource: &Resource, object: &mut Object, api_version: &str) -> Errors {
    let mut errors = Errors::new();
    if let Conversion::With(convert) = resource.conversion {
        convert(object, api_version, &mut errors);
    }
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), resource.kind.as_str().into());
    resource.canonicalize_as(object, api_version);
    errors
}

/// Turns an object of this `apiVersion` into the form in which it is handled.
pub(crate) fn to_handled(resource: &Resource, object: &mut Object, api_version: &str) -> Outcome<()> {
    if resource.handled_as == api_version {
        return Ok(());
    }
    let errors = convert(resource, object, &resource.handled_as);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(&resource.group, &resource.kind, object::name(object), &errors)),
    }
}

/// The stored form in another version, if it is to be shown in one.
pub(crate) fn to_version(resource: &Resource, value: &Bytes, api_version: &str) -> Bytes {
    if resource.handled_as == api_version {
        return value.clone();
    }
    match serde_json::from_slice(value) {
        Ok(mut object) => {
            convert(resource, &mut object, api_version);
            stored::encode(&object).into()
        }
        Err(_) => value.clone(),
    }
}

/// What a table holds of each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// How objects are shown to one client.
#[derive(Clone, Debug)]
pub(crate) struct Rendering {
    pub(crate) resource: Arc<Resource>,
    pub(crate) api_version: String,
    pub(crate) form: Form,
    pub(crate) include: Include,
    pub(crate) now: Timestamp,
}

impl Rendering {
    /// Whether the stored bytes only need their revision.
    pub(crate) fn is_verbatim(&self) -> bool {
        self.form == Form::Plain && self.resource.handled_as == self.api_version
    }

    /// Appends one object of a list.
    pub(crate) fn item(&self, value: &Bytes, revision: u64, out: &mut Vec<u8>) {
        match self.form {
            Form::Plain => self.object(value, revision, out, self.resource.custom().is_none()),
            Form::Metadata => metadata(value, revision, out),
            Form::Table => self.row(value, revision, out),
        }
    }

    /// Appends one object on its own, as in a get or a watch event.
    pub(crate) fn single(&self, value: &Bytes, revision: u64, with_columns: bool, out: &mut Vec<u8>) {
        match self.form {
            Form::Plain => return self.object(value, revision, out, false),
            Form::Metadata => return metadata(value, revision, out),
            Form::Table => {}
        }
        self.table_head(&format!("{{\"resourceVersion\":\"{revision}\"}}"), with_columns, out);
        self.row(value, revision, out);
        out.extend_from_slice(b"]}");
    }

    /// Appends what comes before the items of a list. `metadata` is JSON.
    pub(crate) fn list_head(&self, metadata: &str, out: &mut Vec<u8>) {
        let (kind, api_version) = match self.form {
            Form::Table => return self.table_head(metadata, true, out),
            Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
            Form::Plain => (self.resource.list_kind.as_str(), self.api_version.as_str()),
        };
        let head = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
        );
        out.extend_from_slice(head.as_bytes());
    }

    fn table_head(&self, metadata: &str, with_columns: bool, out: &mut Vec<u8>) {
        let columns = match with_columns {
            true => Value::Array(table::definitions(&self.resource.columns)).to_string(),
            false => "null".to_owned(),
        };
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"columnDefinitions\":{columns},\"rows\":["
        );
        out.extend_from_slice(head.as_bytes());
    }

    fn object(&self, value: &Bytes, revision: u64, out: &mut Vec<u8>, is_item: bool) {
        let converted;
        let shown = match self.resource.handled_as == self.api_version {
            // Not even the count of those who hold it is touched: in a list it is in nobody's cache.
            true => value,
            false => {
                converted = to_version(&self.resource, value, &self.api_version);
                &converted
            }
        };
        match Stored::new(shown) {
            Some(stored) if is_item => stored.write_item(revision, out),
            Some(stored) => stored.write(revision, out),
            None => {}
        }
    }

    fn row(&self, value: &Bytes, revision: u64, out: &mut Vec<u8>) {
        let object: Object = serde_json::from_slice(value).unwrap_or_default();
        let cells = table::cells(&self.resource.columns, &object, self.now);
        out.extend_from_slice(b"{\"cells\":");
        out.extend_from_slice(Value::Array(cells).to_string().as_bytes());
        match self.include {
            Include::Nothing => {}
            Include::Metadata => {
                out.extend_from_slice(b",\"object\":");
                metadata(value, revision, out);
            }
            Include::Object => {
                out.extend_from_slice(b",\"object\":");
                self.object(value, revision, out, false);
            }
        }
        out.push(b'}');
    }
}

fn metadata(value: &Bytes, revision: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{",
    );
    if let Some(stored) = Stored::new(value) {
        stored.write_revision(revision, out);
        out.extend_from_slice(stored.metadata());
    }
    out.extend_from_slice(b"}}");
}
