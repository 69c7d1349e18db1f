//! The kind: what people write, and what they read.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_runtime::phase::PhaseStatus;

/// What must hold of a change.
const SAME_SERVERS: &str = "self.source == oldSelf.source && self.dest == oldSelf.dest && \
    has(self.db) == has(oldSelf.db) && (!has(self.db) || self.db == oldSelf.db)";

/// From where to where keys go. That stays as it is: half of the keys are elsewhere soon.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "database.cloud.tencent.com",
    version = "v1",
    kind = "RedisMigration",
    plural = "redismigrations",
    namespaced,
    status = "RedisMigrationStatus",
    doc = "Moves every key of one Redis server to another.",
    printcolumn = r#"{"name":"Phase", "type":"string", "jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Progress", "type":"string", "description":"Keys that have been moved, and all of them", "jsonPath":".status.progress"}"#,
    printcolumn = r#"{"name":"Source", "type":"string", "priority":1, "jsonPath":".spec.source"}"#,
    printcolumn = r#"{"name":"Dest", "type":"string", "priority":1, "jsonPath":".spec.dest"}"#,
    printcolumn = r#"{"name":"Age", "type":"date", "jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": SAME_SERVERS, "message": "source, dest and db cannot be changed"}
]))]
pub struct RedisMigrationSpec {
    /// The server that has the keys, as HOST:PORT.
    #[schemars(regex(pattern = r"^(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):[0-9]{1,5}$"))]
    pub source: String,
    /// The server that gets them, as HOST:PORT.
    #[schemars(regex(pattern = r"^(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):[0-9]{1,5}$"))]
    pub dest: String,
    /// The number of the database, on both. 0 without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub db: Option<u32>,
    /// How many keys are moved at a time, about. 100 without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub batch_size: Option<u32>,
    /// While it is true, nothing begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// How far a migration is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedisMigrationStatus {
    /// What the machine remembers.
    #[serde(flatten)]
    pub machine: PhaseStatus,
    /// How many keys have been moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<u64>,
    /// How many keys there are to move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Both, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
}

/// The definition of the kind.
pub fn definition() -> CustomResourceDefinition {
    RedisMigration::crd()
}
