//! So many requests in so many seconds.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Rule, RuleStatus, read::Subject};
use crate::proto::{
    common::v1::TimeUnit,
    fault_tolerance::v1::{
        self as wire,
        rate_limit_strategy::{LimitMode as SentMode, MetricType as SentMetric},
    },
};

/// What is let through.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "fault-tolerance.opensergo.io",
    version = "v1alpha1",
    kind = "RateLimitStrategy",
    plural = "ratelimitstrategies",
    namespaced,
    status = "RuleStatus",
    doc = "Lets so many requests through in so many seconds.",
    printcolumn = r#"{"name":"App", "type":"string", "jsonPath":".metadata.labels.app"}"#,
    printcolumn = r#"{"name":"Threshold", "type":"integer", "jsonPath":".spec.threshold"}"#,
    printcolumn = r#"{"name":"Seconds", "type":"integer", "jsonPath":".spec.statDurationSeconds"}"#,
    printcolumn = r#"{"name":"Mode", "type":"string", "jsonPath":".spec.limitMode"}"#,
    printcolumn = r#"{"name":"Accepted", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Accepted\")].status"}"#,
    printcolumn = r#"{"name":"Delivered", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Delivered\")].status"}"#,
    printcolumn = r#"{"name":"Age", "type":"date", "jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitStrategySpec {
    /// What is counted.
    pub metric_type: MetricType,
    /// Where it is counted.
    pub limit_mode: LimitMode,
    /// How many are let through in that time.
    #[schemars(range(min = 0))]
    pub threshold: i64,
    /// How long that time is, in seconds.
    #[schemars(range(min = 1))]
    pub stat_duration_seconds: i32,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum MetricType {
    /// Requests.
    RequestAmount,
}

/// Where it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum LimitMode {
    /// In each instance.
    Local,
    /// Over all instances.
    Global,
}

impl Rule for RateLimitStrategy {
    type Message = wire::RateLimitStrategy;

    fn message(subject: &Subject<'_>) -> Self::Message {
        let spec = subject.spec();
        let metric = spec.field("metricType").choice(&[("RequestAmount", SentMetric::TypeRequestAmount)]);
        let mode = spec
            .field("limitMode")
            .choice(&[("Local", SentMode::ModeLocal), ("Global", SentMode::ModeGlobal)]);
        wire::RateLimitStrategy {
            name: subject.name(),
            metric_type: metric.into(),
            limit_mode: mode.into(),
            threshold: spec.field("threshold").whole(0..=i64::MAX),
            stat_duration: spec.field("statDurationSeconds").whole(1..=i64::from(i32::MAX)),
            stat_duration_time_unit: TimeUnit::Second.into(),
        }
    }
}
