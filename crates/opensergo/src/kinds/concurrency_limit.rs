//! So many requests at once.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Rule, RuleStatus, rate_limit::LimitMode, read::Subject};
use crate::proto::fault_tolerance::v1::{self as wire, concurrency_limit_strategy::LimitMode as SentMode};

/// What is let in.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "fault-tolerance.opensergo.io",
    version = "v1alpha1",
    kind = "ConcurrencyLimitStrategy",
    plural = "concurrencylimitstrategies",
    namespaced,
    status = "RuleStatus",
    doc = "Lets so many requests be under way at once.",
    printcolumn = r#"{"name":"App", "type":"string", "jsonPath":".metadata.labels.app"}"#,
    printcolumn = r#"{"name":"Max", "type":"integer", "jsonPath":".spec.maxConcurrency"}"#,
    printcolumn = r#"{"name":"Mode", "type":"string", "jsonPath":".spec.limitMode"}"#,
    printcolumn = r#"{"name":"Accepted", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Accepted\")].status"}"#,
    printcolumn = r#"{"name":"Delivered", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Delivered\")].status"}"#,
    printcolumn = r#"{"name":"Age", "type":"date", "jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ConcurrencyLimitStrategySpec {
    /// How many may be under way at once.
    #[schemars(range(min = 0))]
    pub max_concurrency: i64,
    /// Where they are counted.
    pub limit_mode: LimitMode,
}

impl Rule for ConcurrencyLimitStrategy {
    type Message = wire::ConcurrencyLimitStrategy;

    fn message(subject: &Subject<'_>) -> Self::Message {
        let spec = subject.spec();
        let mode = spec
            .field("limitMode")
            .choice(&[("Local", SentMode::ModeLocal), ("Global", SentMode::ModeGlobal)]);
        wire::ConcurrencyLimitStrategy {
            name: subject.name(),
            limit_mode: mode.into(),
            max_concurrency: spec.field("maxConcurrency").whole(0..=i64::MAX),
        }
    }
}
