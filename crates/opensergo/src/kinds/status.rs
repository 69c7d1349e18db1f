//! What becomes of a rule, as it is written into its status. All kinds have the same.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a rule is right, and who has it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleStatus {
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted says whether the rule can be sent, Delivered whether all subscribers have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What each process that serves subscribers says of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub replicas: Vec<ReplicaStatus>,
    /// While the rule cannot be translated: what subscribers are told instead, which is what it said last when it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

/// What one process says of its subscribers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// What the process calls itself.
    pub name: String,
    /// How many are subscribed.
    #[serde(default)]
    pub subscribers: i32,
    /// How many of them have what the rule says.
    #[serde(default)]
    pub delivered: i32,
    /// The version that was sent last.
    #[serde(default)]
    pub version: i64,
    /// Some of those that refused it, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub rejected_by: Vec<String>,
    /// When this was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<Time>,
}
