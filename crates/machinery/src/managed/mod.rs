//! Managed fields: who last set which field of an object.
//!
//! [`FieldSet`] is a set of fields, [`Entry`] one line of `metadata.managedFields`, [`Managers`] all of them.
//! [`track()`] is called on every write but an apply, which is [`apply`](crate::apply)'s. It decides nothing: a
//! write always takes what it changes.

pub(crate) mod delta;
pub(crate) mod fields;
mod fit;
pub(crate) mod place;
pub(crate) mod set;
mod track;
pub(crate) mod versions;

#[cfg(test)]
pub(crate) mod tests;

use serde_json::Value;

pub use fields::ListError;
pub use set::{FieldSet, FieldSetError};
pub use track::{keep_times, track};
pub use versions::Versions;

use crate::object::Object;

/// The field of the metadata that holds the entries.
pub(crate) const FIELD: &str = "managedFields";

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    /// As it is written in an entry.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// A write, as far as managed fields have to do with it.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Who writes; without a name it is `unknown`.
    pub manager: &'a str,
    /// How.
    pub operation: Operation,
    /// In which version of the kind.
    pub api_version: &'a str,
    /// Through which subresource, empty for the object itself.
    pub subresource: &'a str,
    /// When, as in `2026-01-31T12:00:00Z`.
    pub time: &'a str,
    /// Fields that are not written this way, such as the status: nobody comes to own them by it.
    pub unowned: Option<&'a FieldSet>,
}

impl<'a> Write<'a> {
    /// The name of the manager.
    pub fn manager(&self) -> &'a str {
        if self.manager.is_empty() { "unknown" } else { self.manager }
    }
}

/// What one manager owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name of the manager.
    pub manager: String,
    /// How it came to own the fields.
    pub operation: Operation,
    /// The version of the kind that the fields are of.
    pub api_version: String,
    /// The subresource it wrote through, empty for the object itself.
    pub subresource: String,
    /// When it last took a field, empty if that is not known.
    pub time: String,
    /// What it owns.
    pub fields: FieldSet,
}

impl Entry {
    /// An entry for what a write has taken.
    pub fn of(write: &Write<'_>, fields: FieldSet) -> Self {
        Entry {
            manager: write.manager().to_owned(),
            operation: write.operation,
            api_version: write.api_version.to_owned(),
            subresource: write.subresource.to_owned(),
            time: write.time.to_owned(),
            fields,
        }
    }

    /// Whether a write is by this manager, in the same way. An applier stays the same in all versions.
    pub fn is_by(&self, write: &Write<'_>) -> bool {
        self.manager == write.manager()
            && self.operation == write.operation
            && self.subresource == write.subresource
            && (self.operation == Operation::Apply || self.api_version == write.api_version)
    }

    fn order(&self) -> (Operation, &str, &str, &str, &str) {
        (self.operation, &self.time, &self.manager, &self.api_version, &self.subresource)
    }

    fn decode(entry: &mut Value, trusted: bool) -> Result<Self, EntryError> {
        let entry = entry.as_object_mut().ok_or(EntryError::NotAMap)?;
        let operation = match entry.get("operation").and_then(Value::as_str) {
            Some("Apply") => Operation::Apply,
            Some("Update") => Operation::Update,
            _ => return Err(EntryError::Operation),
        };
        if entry.get("fieldsType").and_then(Value::as_str) != Some("FieldsV1") {
            return Err(EntryError::FieldsType);
        }
        let fields = match entry.remove("fieldsV1") {
            Some(fields) if trusted => FieldSet::trusted(fields),
            Some(fields) => FieldSet::from_json(fields)?,
            None => FieldSet::default(),
        };
        let mut text = |field: &str, most: usize| match entry.remove(field) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) if text.len() <= most => Ok(text),
            _ => Err(EntryError::Text(field.to_owned())),
        };
        let entry = Entry {
            manager: text("manager", 128)?,
            operation,
            api_version: text("apiVersion", 512)?,
            subresource: text("subresource", 256)?,
            time: text("time", 64)?,
            fields,
        };
        match entry.api_version.is_empty() {
            true => Err(EntryError::Text("apiVersion".to_owned())),
            false => Ok(entry),
        }
    }

    fn encode(self) -> Value {
        let mut entry = Object::new();
        let mut text = |field: &str, value: String| {
            if !value.is_empty() {
                entry.insert(field.to_owned(), Value::String(value));
            }
        };
        text("apiVersion", self.api_version);
        text("fieldsType", "FieldsV1".to_owned());
        text("manager", self.manager);
        text("operation", self.operation.as_str().to_owned());
        text("subresource", self.subresource);
        text("time", self.time);
        entry.insert("fieldsV1".to_owned(), self.fields.into_json());
        Value::Object(entry)
    }
}

/// Why `metadata.managedFields` cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It is no list.
    #[error("managed fields are not a list")]
    NotAList,
    /// An entry is no map.
    #[error("managed fields entry is not a map")]
    NotAMap,
    /// The operation is unknown.
    #[error("operation must be \"Apply\" or \"Update\"")]
    Operation,
    /// The fields are in a form that is not known.
    #[error("fieldsType must be \"FieldsV1\"")]
    FieldsType,
    /// A field that must be a short string is not.
    #[error("invalid {0} in managed fields entry")]
    Text(String),
    /// The fields are malformed.
    #[error(transparent)]
    Fields(#[from] FieldSetError),
}

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Managers(pub Vec<Entry>);

impl Managers {
    /// Takes `metadata.managedFields` as a client sent it.
    pub fn decode(list: Value) -> Result<Self, EntryError> {
        let Value::Array(mut list) = list else { return Err(EntryError::NotAList) };
        let entries: Result<_, _> = list.iter_mut().map(|entry| Entry::decode(entry, false)).collect();
        Ok(Managers(entries?))
    }

    /// Takes `metadata.managedFields` as it was written here before. What is damaged is left out.
    pub fn trusted(list: Value) -> Self {
        let Value::Array(mut list) = list else { return Managers::default() };
        Managers(list.iter_mut().filter_map(|entry| Entry::decode(entry, true).ok()).collect())
    }

    /// As it is put into `metadata.managedFields`, in the order that Kubernetes keeps; `None` if there is
    /// nothing to put there.
    pub fn encode(mut self) -> Option<Value> {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.sort();
        (!self.0.is_empty()).then(|| Value::Array(self.0.into_iter().map(Entry::encode).collect()))
    }

    fn sort(&mut self) {
        self.0.sort_by(|one, other| one.order().cmp(&other.order()));
    }
}
