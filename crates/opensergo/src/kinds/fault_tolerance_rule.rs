//! Which resources are protected, by which strategies.

use kube::{CustomResource, api::DynamicObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Reference, Rule, RuleStatus, read::Subject};
use crate::proto::fault_tolerance::v1::{
    self as wire,
    fault_tolerance_rule::{FaultToleranceRuleTargetRef, FaultToleranceStrategyRef},
};

/// The longest name of a resource.
const LONGEST: usize = 1024;

/// Every kind of strategy, as it is named in a rule.
const STRATEGIES: &[(&str, &str)] = &[
    ("RateLimitStrategy", "RateLimitStrategy"),
    ("ThrottlingStrategy", "ThrottlingStrategy"),
    ("ConcurrencyLimitStrategy", "ConcurrencyLimitStrategy"),
    ("CircuitBreakerStrategy", "CircuitBreakerStrategy"),
];

/// What is protected, and how.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "fault-tolerance.opensergo.io",
    version = "v1alpha1",
    kind = "FaultToleranceRule",
    plural = "faulttolerancerules",
    namespaced,
    status = "RuleStatus",
    doc = "Says which resources of an app are protected, by which strategies.",
    printcolumn = r#"{"name":"App", "type":"string", "jsonPath":".metadata.labels.app"}"#,
    printcolumn = r#"{"name":"Targets", "type":"string", "jsonPath":".spec.targets[*].targetResourceName"}"#,
    printcolumn = r#"{"name":"Strategies", "type":"string", "jsonPath":".spec.strategies[*].name"}"#,
    printcolumn = r#"{"name":"Accepted", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Accepted\")].status"}"#,
    printcolumn = r#"{"name":"Delivered", "type":"string", "jsonPath":".status.conditions[?(@.type==\"Delivered\")].status"}"#,
    printcolumn = r#"{"name":"Age", "type":"date", "jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct FaultToleranceRuleSpec {
    /// What is protected.
    pub targets: Vec<Target>,
    /// How. Strategies are of the same namespace and app.
    pub strategies: Vec<StrategyRef>,
    /// What the specification shows here. It has no effect: the label app says whom a rule is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// What the specification shows here. It has no effect: there are no actions that could be told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub fallback_action: Option<Value>,
}

/// A resource that is protected.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// What the subscriber calls it, such as `GET:/orders`.
    #[schemars(length(min = 1, max = LONGEST))]
    pub target_resource_name: String,
}

/// A strategy of the same namespace and app.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct StrategyRef {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its kind.
    pub kind: StrategyKind,
}

/// The kinds of strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum StrategyKind {
    /// So many requests in so many seconds.
    #[serde(rename = "RateLimitStrategy")]
    RateLimit,
    /// One request after the other.
    #[serde(rename = "ThrottlingStrategy")]
    Throttling,
    /// So many requests at once.
    #[serde(rename = "ConcurrencyLimitStrategy")]
    ConcurrencyLimit,
    /// No requests for a while when too many fail.
    #[serde(rename = "CircuitBreakerStrategy")]
    CircuitBreaker,
}

/// Whom a rule is for, as the specification has it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Selector {
    /// An app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "description": "It has no effect: there are no actions that could be told of.",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

impl Rule for FaultToleranceRule {
    type Message = wire::FaultToleranceRule;

    fn message(subject: &Subject<'_>) -> Self::Message {
        let spec = subject.spec();
        // It is not on the wire, but an object without one is not right either.
        subject.name();
        for name in ["targets", "strategies"] {
            let list = spec.field(name);
            if !list.is_there() {
                list.refuse("a list");
            }
        }
        let selected = spec.field("selector").field("app");
        if selected.optional_text().is_some_and(|app| Some(app) != subject.app()) {
            selected.warn("it has no effect, the label app says whom the rule is for");
        }
        let action = spec.field("fallbackAction");
        if action.is_there() {
            action.warn("it has no effect, there are no actions that could be told of");
        }
        let target = |name: &str| (1..=LONGEST).contains(&name.chars().count()).then(|| name.to_owned());
        let targets = spec.field("targets").objects();
        let strategies = spec.field("strategies").objects();
        wire::FaultToleranceRule {
            targets: Vec::from_iter(targets.iter().map(|one| FaultToleranceRuleTargetRef {
                target_resource_name:
                    one.field("targetResourceName").parsed("a text of 1 to 1024 letters", target),
            })),
            strategies: Vec::from_iter(strategies.iter().map(|one| FaultToleranceStrategyRef {
                name: one.field("name").text().to_owned(),
                kind: one.field("kind").choice(STRATEGIES).to_owned(),
            })),
            action: None,
        }
    }

    fn references(object: &DynamicObject) -> Vec<Reference> {
        let subject = Subject::new(object);
        let strategies = Self::message(&subject).strategies;
        let named = strategies.into_iter().filter(|one| !one.name.is_empty() && !one.kind.is_empty());
        named.map(|one| Reference { kind: one.kind, name: one.name }).collect()
    }
}
