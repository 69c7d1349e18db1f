//! No requests for a while when too many are slow or fail.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Rule, RuleStatus, duration,
    read::{Node, Subject},
};
use crate::proto::{
    common::v1::TimeUnit,
    fault_tolerance::v1::{
        self as wire,
        circuit_breaker_strategy::{
            CircuitBreakerErrorCondition, CircuitBreakerSlowCondition, Strategy as Sent,
        },
    },
};

/// What is slow has to be said.
const SLOW_HAS_CONDITIONS: &str = "self.strategy != 'SlowRequestRatio' || has(self.slowConditions)";

/// The most that fits the wire.
const LONGEST_RT: i64 = i32::MAX as i64;

/// When it opens, and when it closes again.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "fault-tolerance.opensergo.io",
    version = "v1alpha1",
    kind = "CircuitBreakerStrategy",
    plural = "circuitbreakerstrategies",
    namespaced,
    status = "RuleStatus",
    doc = "Lets no requests through for a while when too many are slow or fail.",
    printcolumn = r#"{"name":"App", "type":"string", "jsonPath":".metadata.labels.app"}"#,
    printcolumn = r#"{"name":"Strategy", "type":"string", "jsonPath":".spec.strategy"}"#,
    printcolumn = r#"{"name":"Ratio", "type":"string", "jsonPath":".spec.triggerRatio"}"#,
    printcolumn = r#"{"name":"Recovery", "type":"string", "jsonPath":".spec.recoveryTimeout"}"#,
    printcolumn = r#"{"name":"Accepted", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Accepted\")].status"}"#,
    printcolumn = r#"{"name":"Delivered", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Delivered\")].status"}"#,
    printcolumn = r#"{"name":"Age", "type":"date", "jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": SLOW_HAS_CONDITIONS, "message": "SlowRequestRatio wants slowConditions.maxAllowedRt",
     "fieldPath": ".slowConditions", "reason": "FieldValueRequired"}
]))]
pub struct CircuitBreakerStrategySpec {
    /// Which requests are counted.
    pub strategy: Strategy,
    /// The share of them at which it opens, in whole percent.
    #[schemars(regex(pattern = r"^([1-9]\d?|100|0)%$"))]
    pub trigger_ratio: String,
    /// How long requests are counted.
    #[schemars(regex(pattern = duration::POSITIVE))]
    pub stat_duration: String,
    /// How long it stays open.
    #[schemars(regex(pattern = duration::POSITIVE))]
    pub recovery_timeout: String,
    /// With fewer requests than this it does not open.
    #[schemars(range(min = 1))]
    pub min_request_amount: i32,
    /// Which requests are slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_conditions: Option<SlowConditions>,
    /// Which requests have failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_conditions: Option<ErrorConditions>,
}

/// Which requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Strategy {
    /// The slow ones.
    SlowRequestRatio,
    /// Those that failed.
    ErrorRequestRatio,
}

/// Which requests are slow.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlowConditions {
    /// Those that take longer.
    #[schemars(regex(pattern = duration::POSITIVE))]
    pub max_allowed_rt: String,
}

/// Which requests have failed. Subscribers decide that by themselves: there is no place for it in what they are sent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorConditions {
    /// What an error is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub representation: Option<String>,
    /// The same under its other name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
}

impl Rule for CircuitBreakerStrategy {
    type Message = wire::CircuitBreakerStrategy;

    fn message(subject: &Subject<'_>) -> Self::Message {
        let spec = subject.spec();
        let strategies =
            [("SlowRequestRatio", Sent::SlowRequestRatio), ("ErrorRequestRatio", Sent::ErrorRequestRatio)];
        let strategy = spec.field("strategy").choice(&strategies);
        let recovery = spec.field("recoveryTimeout");
        let timeout = |text: &str| duration::in_32_bits(duration::positive_millis(text)?);
        let (timeout, unit) = recovery
            .parsed(duration::EXPECTED_POSITIVE, |text| timeout(text).map(Some))
            .unwrap_or((0, TimeUnit::Unknown));
        wire::CircuitBreakerStrategy {
            name: subject.name(),
            strategy: strategy.into(),
            trigger_ratio: spec.field("triggerRatio").parsed("whole percents from 0% to 100%", ratio),
            stat_duration: spec
                .field("statDuration")
                .parsed(duration::EXPECTED_POSITIVE, duration::positive_millis),
            stat_duration_time_unit: TimeUnit::Millisecond.into(),
            recovery_timeout: timeout,
            recovery_timeout_time_unit: unit.into(),
            min_request_amount: spec.field("minRequestAmount").whole(1..=i64::from(i32::MAX)),
            slow_condition: slow_condition(&spec, strategy),
            error_condition: error_condition(&spec, strategy),
        }
    }
}

/// Reads whole percents, as a share of one.
fn ratio(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%')?;
    let is_plain = number == "0" || !number.starts_with(['0', '+']);
    let percents: u8 = number.parse().ok()?;
    (is_plain && percents <= 100).then(|| f64::from(percents) / 100.0)
}

fn slow_condition(spec: &Node<'_>, strategy: Sent) -> Option<CircuitBreakerSlowCondition> {
    let conditions = spec.field("slowConditions");
    if strategy != Sent::SlowRequestRatio {
        if conditions.is_there() {
            conditions.warn("only SlowRequestRatio has a use for it");
        }
        return None;
    }
    let longest = conditions.field("maxAllowedRt");
    let millis: i64 = longest.parsed(duration::EXPECTED_POSITIVE, duration::positive_millis);
    if millis > LONGEST_RT {
        longest.refuse(format_args!("at most {LONGEST_RT}ms"));
    }
    Some(CircuitBreakerSlowCondition { max_allowed_rt_millis: i32::try_from(millis).unwrap_or_default() })
}

fn error_condition(spec: &Node<'_>, strategy: Sent) -> Option<CircuitBreakerErrorCondition> {
    let conditions = spec.field("errorConditions");
    if conditions.is_there() {
        conditions.warn("subscribers decide by themselves what an error is, and are not told of this");
    }
    (strategy == Sent::ErrorRequestRatio).then_some(CircuitBreakerErrorCondition {})
}
