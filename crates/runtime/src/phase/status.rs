//! What a machine remembers of an object, in that object's status.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The part of a status that belongs to a machine. A kind with a status of its own flattens it into that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseStatus {
    /// The phase it is in. Empty before the first one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// What has been done in each phase.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "any_states")]
    pub state: BTreeMap<String, StepState>,
    /// The phase in which it failed: where a reset goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_in: Option<String>,
    /// The reset that was done last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reset: Option<String>,
    /// Since when it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<MicroTime>,
    /// The generation that was looked at last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Progressing and Stalled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What steps want to have in the status, beside all this.
    #[serde(skip)]
    pub fields: Map<String, Value>,
}

/// States are within states, which the schema of a kind cannot say.
fn any_states(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}

/// What has been done of a phase or a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StepState {
    /// It is finished, and never runs again.
    #[serde(skip_serializing_if = "is_false")]
    pub done: bool,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// When it ended, well or badly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<MicroTime>,
    /// When a phase must have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<MicroTime>,
    /// The last try failed.
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
    /// It is not tried again.
    #[serde(skip_serializing_if = "is_false")]
    pub fatal: bool,
    /// How often it has failed in a row.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// When it is tried again at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<MicroTime>,
    /// What people should know although it went well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What the step itself remembers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// It is about to happen, or has happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// How often it was about to happen.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_intents: u32,
    /// Where the phase goes instead of to the one that follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jump: Option<String>,
    /// The steps within.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<String, StepState>,
    /// The objects it goes over, once they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<Vec<ObjectState>>,
}

/// How far something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// So many are done …
    pub done: u64,
    /// … of so many.
    pub total: u64,
}

/// A step that must not happen twice is about to happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The name of this very attempt. The outside world may know it by that.
    pub token: String,
    /// When that was written down.
    pub time: MicroTime,
}

/// What has been done of one object among many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectState {
    /// What it is told apart by.
    pub id: String,
    /// What people call it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Objects of one group are always in one batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// It is finished, and never comes again.
    #[serde(skip_serializing_if = "is_false")]
    pub done: bool,
    /// It has failed, and does not come again.
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
    /// When it first came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// When it ended, well or badly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<MicroTime>,
    /// When it comes again at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<MicroTime>,
    /// How often it has failed in a row.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// What people should know although it went well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ObjectState {
    pub(super) fn is_open(&self) -> bool {
        !self.done && !self.failed
    }
}

impl StepState {
    /// Forgets what failed, and nothing that is done or that may have happened.
    pub(super) fn clear_failed(&mut self) {
        self.jump = None;
        if self.done {
            return;
        }
        (self.failed, self.fatal, self.attempts) = (false, false, 0);
        (self.error, self.not_before) = (None, None);
        (self.start_time, self.end_time, self.deadline) = (None, None, None);
        self.children.values_mut().for_each(StepState::clear_failed);
        for object in self.objects.iter_mut().flatten().filter(|object| !object.done) {
            (object.failed, object.attempts) = (false, 0);
            (object.error, object.not_before, object.end_time) = (None, None, None);
        }
    }

    /// The state of a step within.
    pub fn at<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&StepState> {
        path.into_iter().try_fold(self, |state, name| state.children.get(name))
    }
}

/// What a status can hold of a time.
pub(super) fn micros(time: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time))
}

/// A time after another, or as late as there is.
pub(super) fn later(time: Timestamp, by: std::time::Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}
