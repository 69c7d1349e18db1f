//! One request after the other, with a pause between them.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Rule, RuleStatus, duration, read::Subject};
use crate::proto::fault_tolerance::v1 as wire;

/// How long requests wait.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "fault-tolerance.opensergo.io",
    version = "v1alpha1",
    kind = "ThrottlingStrategy",
    plural = "throttlingstrategies",
    namespaced,
    status = "RuleStatus",
    doc = "Lets requests through one after the other, with a pause between them.",
    printcolumn = r#"{"name":"App", "type":"string", "jsonPath":".metadata.labels.app"}"#,
    printcolumn = r#"{"name":"Interval", "type":"string", "jsonPath":".spec.minIntervalOfRequests"}"#,
    printcolumn = r#"{"name":"Timeout", "type":"string", "jsonPath":".spec.queueTimeout"}"#,
    printcolumn = r#"{"name":"Accepted", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Accepted\")].status"}"#,
    printcolumn = r#"{"name":"Delivered", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Delivered\")].status"}"#,
    printcolumn = r#"{"name":"Age", "type":"date", "jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ThrottlingStrategySpec {
    /// The least time between two requests.
    #[schemars(regex(pattern = duration::PATTERN))]
    pub min_interval_of_requests: String,
    /// How long a request waits for its turn before it is refused.
    #[schemars(regex(pattern = duration::POSITIVE))]
    pub queue_timeout: String,
}

impl Rule for ThrottlingStrategy {
    type Message = wire::ThrottlingStrategy;

    fn message(subject: &Subject<'_>) -> Self::Message {
        let spec = subject.spec();
        let interval = spec.field("minIntervalOfRequests");
        let millis = interval.parsed(duration::EXPECTED, duration::millis);
        if interval.is_there() && millis == 0 {
            interval.warn("there are clients that divide by it, and fail where it is nothing");
        }
        let timeout = spec.field("queueTimeout");
        wire::ThrottlingStrategy {
            name: subject.name(),
            min_interval_millis_of_requests: millis,
            queue_timeout_millis: timeout.parsed(duration::EXPECTED_POSITIVE, duration::positive_millis),
        }
    }
}
