//! FlowSchemas and PriorityLevelConfigurations as they are written, after defaults.

use serde::Deserialize;

/// The `spec` of a FlowSchema.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowSchemaSpec {
    /// The level that its requests belong to.
    pub priority_level_configuration: LevelReference,
    /// Schemas with lower numbers are asked first.
    pub matching_precedence: i32,
    /// What tells its flows apart; without one they are all the same flow.
    pub distinguisher_method: Option<Distinguisher>,
    /// A request belongs to the schema if one of these says so.
    pub rules: Vec<Rule>,
}

/// A level, by its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LevelReference {
    /// The name.
    pub name: String,
}

/// What tells the flows of a schema apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum Distinguisher {
    /// Who asks.
    ByUser,
    /// The namespace of what is asked for.
    ByNamespace,
}

/// Requests of some subjects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// Who asks: one of these.
    pub subjects: Vec<Subject>,
    /// For objects: one of these.
    pub resource_rules: Vec<ResourceRule>,
    /// Or for a path: one of these.
    pub non_resource_rules: Vec<NonResourceRule>,
}

/// Somebody.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// What kind of somebody.
    pub kind: SubjectKind,
    /// A user.
    #[serde(default)]
    pub user: SubjectName,
    /// Everyone in a group.
    #[serde(default)]
    pub group: SubjectName,
    /// A service account.
    #[serde(default)]
    pub service_account: SubjectName,
}

/// What kind of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum SubjectKind {
    /// A user, by name.
    User,
    /// Everyone in a group.
    Group,
    /// A service account, or all of a namespace.
    ServiceAccount,
}

/// The name of somebody.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SubjectName {
    /// The namespace of a service account.
    pub namespace: String,
    /// The name, or `*`.
    pub name: String,
}

/// Requests for objects. `*` stands for everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRule {
    /// What is done.
    pub verbs: Vec<String>,
    /// To objects of which groups.
    pub api_groups: Vec<String>,
    /// Of which resources; subresources are `resource/subresource`.
    pub resources: Vec<String>,
    /// Whether requests that are about no namespace belong to it.
    pub cluster_scope: bool,
    /// About which namespaces.
    pub namespaces: Vec<String>,
}

/// Requests for paths. `*` stands for everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NonResourceRule {
    /// The methods, in small letters.
    pub verbs: Vec<String>,
    /// The paths; one that ends with `/*` stands for everything below it.
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

/// The `spec` of a PriorityLevelConfiguration.
#[derive(Clone, Debug, Deserialize)]
pub struct LevelSpec {
    /// Whether it is limited at all.
    #[serde(rename = "type")]
    pub kind: LevelKind,
    /// How.
    #[serde(default)]
    pub limited: Option<Limited>,
}

/// Whether a level is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum LevelKind {
    /// Its requests never wait.
    Exempt,
    /// Its requests share seats.
    Limited,
}

/// How a level is limited.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limited {
    /// Its part of all seats, in relation to the other levels.
    pub nominal_concurrency_shares: Option<u32>,
    /// How much of that others may use while it does not.
    pub lendable_percent: Option<u32>,
    /// How much more it may use while others do not; unlimited if absent.
    pub borrowing_limit_percent: Option<u32>,
    /// What is done with requests for which there are no seats.
    pub limit_response: LimitResponse,
}

/// What is done with requests for which there are no seats.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LimitResponse {
    /// Whether they may wait.
    #[serde(rename = "type")]
    pub kind: LimitKind,
    /// How.
    pub queuing: Option<Queuing>,
}

/// Whether requests may wait for seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum LimitKind {
    /// They are sent away.
    #[default]
    Reject,
    /// They wait.
    Queue,
}

/// How requests wait for seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Queuing {
    /// How many queues there are.
    pub queues: u32,
    /// How many of them one flow has to choose from.
    pub hand_size: u32,
    /// How many requests may wait in one of them.
    pub queue_length_limit: u32,
}

impl Default for Queuing {
    fn default() -> Self {
        Queuing { queues: 64, hand_size: 8, queue_length_limit: 50 }
    }
}
