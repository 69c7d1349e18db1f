//! What a CustomResourceDefinition says, apart from its schemas: the fields that the server looks at.
//!
//! Read from the stored form without the schemas, which are most of it and are looked at when they are needed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use xxhash_rust::xxh3::xxh3_128;

/// The finalizer that lets the objects of a definition go before it.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A definition as it is stored.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Wire {
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
    #[serde(default)]
    pub(crate) status: State,
    /// What changes whenever the specification does, schemas and all.
    #[serde(skip)]
    pub(crate) hash: u128,
}

/// The specification as it was written.
#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    spec: &'a RawValue,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub(crate) group: String,
    pub(crate) names: Names,
    pub(crate) scope: String,
    pub(crate) versions: Vec<VersionSpec>,
    pub(crate) conversion: ConversionSpec,
}

/// What a kind is called.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Names {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) categories: Vec<String>,
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) short_names: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) singular: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VersionSpec {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    pub(crate) deprecated: bool,
    pub(crate) deprecation_warning: Option<String>,
    pub(crate) subresources: Subresources,
    pub(crate) additional_printer_columns: Vec<Value>,
    pub(crate) selectable_fields: Vec<SelectableField>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Subresources {
    pub(crate) status: Option<Value>,
    pub(crate) scale: Option<ScaleSpec>,
}

/// Where a scale finds its numbers: simple JSON paths such as `.spec.replicas`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ScaleSpec {
    pub(crate) spec_replicas_path: String,
    pub(crate) status_replicas_path: String,
    pub(crate) label_selector_path: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SelectableField {
    pub(crate) json_path: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConversionSpec {
    pub(crate) strategy: String,
    pub(crate) webhook: Option<WebhookSpec>,
}

/// Who converts, and which forms of the question it understands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WebhookSpec {
    pub(crate) client_config: Value,
    pub(crate) conversion_review_versions: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct State {
    /// None yet in a new definition.
    pub(crate) conditions: Option<Vec<Condition>>,
    pub(crate) accepted_names: Names,
}

/// One condition of a definition.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Wire {
    /// Reads the stored form.
    pub(crate) fn read(value: &[u8]) -> Result<Self, serde_json::Error> {
        let raw: Raw<'_> = serde_json::from_slice(value)?;
        let mut wire: Wire = serde_json::from_slice(value)?;
        wire.hash = xxh3_128(raw.spec.get().as_bytes());
        Ok(wire)
    }

    /// The condition of this type.
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().flatten().find(|condition| condition.kind == kind)
    }

    /// Whether the condition of this type holds.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == "True")
    }

    /// The names of the versions that are served.
    pub(crate) fn served_versions(&self) -> impl Iterator<Item = &str> {
        self.spec.versions.iter().filter(|version| version.served).map(|version| version.name.as_str())
    }

    /// Whether its objects are served.
    pub(crate) fn is_served(&self) -> bool {
        self.is("NamesAccepted") || self.is("Established")
    }

    /// Whether it is being deleted once its objects are.
    pub(crate) fn waits_for_objects(&self) -> bool {
        let is_ours = |finalizer: &String| finalizer == FINALIZER;
        self.metadata.deletion_timestamp.is_some() && self.metadata.finalizers.iter().any(is_ours)
    }

    /// Whether it is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() || self.is("Terminating")
    }
}
