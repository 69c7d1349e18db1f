//! What can be subscribed to. A kind is one row of [`KINDS`] and one translation.

mod circuit_breaker;
mod concurrency_limit;
mod duration;
mod fault_tolerance_rule;
mod rate_limit;
mod read;
mod status;
mod throttling;
mod traffic_router;
mod unknown;

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, api::DynamicObject};
use prost::Message;
use prost_types::Any;

use self::read::{Findings, Subject};
use crate::topic::{App, NAME_OF_APP};

pub use self::{
    circuit_breaker::{CircuitBreakerStrategy, CircuitBreakerStrategySpec},
    concurrency_limit::{ConcurrencyLimitStrategy, ConcurrencyLimitStrategySpec},
    fault_tolerance_rule::{FaultToleranceRule, FaultToleranceRuleSpec},
    rate_limit::{RateLimitStrategy, RateLimitStrategySpec},
    status::{ReplicaStatus, RuleStatus},
    throttling::{ThrottlingStrategy, ThrottlingStrategySpec},
    traffic_router::{TrafficRouter, TrafficRouterSpec},
};

/// Before the name of a message in an `Any`.
const DOMAIN: &str = "type.googleapis.com";

/// The group of rules and strategies.
const FAULT_TOLERANCE: &str = "fault-tolerance.opensergo.io";

/// The group of routes.
const TRAFFIC: &str = "traffic.opensergo.io";

/// A kind of rules.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The group of its objects.
    pub group: &'static str,
    /// Their version.
    pub version: &'static str,
    /// Their kind.
    pub kind: &'static str,
    /// What they are called in paths.
    pub plural: &'static str,
    /// Of several kinds of one app, those of a lower rank are sent first: what is named before who names it.
    pub rank: u8,
    /// Its definition.
    pub definition: fn() -> CustomResourceDefinition,
    /// The type of its messages, as it stands before them.
    pub type_url: fn() -> String,
    /// Makes a message of an object.
    pub translate: fn(&DynamicObject) -> Result<Any, Untranslatable>,
    /// What in an object has no effect, though nothing is wrong with it.
    pub warnings: fn(&DynamicObject) -> Vec<String>,
    /// The objects of the same namespace and app that an object names.
    pub references: fn(&DynamicObject) -> Vec<Reference>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id())
    }
}

impl Kind {
    /// What clients call it.
    pub fn id(&self) -> String {
        format!("{}/{}/{}", self.group, self.version, self.kind)
    }

    /// The one of this id.
    pub fn find(id: &str) -> Option<&'static Kind> {
        KINDS.iter().find(|kind| kind.id() == id)
    }

    const fn of<R: Rule>(group: &'static str, kind: &'static str, plural: &'static str, rank: u8) -> Self {
        Kind {
            group,
            version: "v1alpha1",
            kind,
            plural,
            rank,
            definition: R::crd,
            type_url: type_url::<R::Message>,
            translate: translate::<R>,
            warnings: warnings::<R>,
            references: R::references,
        }
    }
}

/// What an object names: another, of the same namespace and app.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    /// Its kind, without the group.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// Why no message can be made of an object: which fields are wrong, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Untranslatable(pub Vec<String>);

/// All kinds there are.
pub const KINDS: &[Kind] = &[
    Kind::of::<RateLimitStrategy>(FAULT_TOLERANCE, "RateLimitStrategy", "ratelimitstrategies", 0),
    Kind::of::<ThrottlingStrategy>(FAULT_TOLERANCE, "ThrottlingStrategy", "throttlingstrategies", 0),
    Kind::of::<ConcurrencyLimitStrategy>(
        FAULT_TOLERANCE,
        "ConcurrencyLimitStrategy",
        "concurrencylimitstrategies",
        0,
    ),
    Kind::of::<CircuitBreakerStrategy>(
        FAULT_TOLERANCE,
        "CircuitBreakerStrategy",
        "circuitbreakerstrategies",
        0,
    ),
    Kind::of::<FaultToleranceRule>(FAULT_TOLERANCE, "FaultToleranceRule", "faulttolerancerules", 1),
    Kind::of::<TrafficRouter>(TRAFFIC, "TrafficRouter", "trafficrouters", 0),
];

/// What a kind has to say for itself.
trait Rule: CustomResourceExt {
    /// What its objects become.
    type Message: prost::Name;

    /// Makes a message of an object. What is wrong with the object is noted in the subject; then the message does not
    /// count.
    fn message(subject: &Subject<'_>) -> Self::Message;

    /// What an object names.
    fn references(_: &DynamicObject) -> Vec<Reference> {
        vec![]
    }
}

fn translate<R: Rule>(object: &DynamicObject) -> Result<Any, Untranslatable> {
    let subject = Subject::new(object);
    let message = R::message(&subject);
    subject.may_have(message.encoded_len());
    let Findings { problems, .. } = subject.end();
    if problems.is_empty() { Ok(any_of(&message)) } else { Err(Untranslatable(problems)) }
}

fn warnings<R: Rule>(object: &DynamicObject) -> Vec<String> {
    let subject = Subject::new(object);
    R::message(&subject);
    let nobody = match subject.app() {
        None => Some("metadata.labels.app: without it, nobody is told of this".to_owned()),
        Some(app) if !App::is_name(app) => Some(format!(
            "metadata.labels.app: expected {NAME_OF_APP}: nobody can ask for {}",
            read::shown(app)
        )),
        Some(_) => None,
    };
    let unknown = unknown::fields(R::crd_name(), object);
    nobody.into_iter().chain(unknown).chain(subject.end().warnings).collect()
}

/// Packs a message as clients expect it.
fn any_of<M: prost::Name>(message: &M) -> Any {
    Any { type_url: type_url::<M>(), value: message.encode_to_vec() }
}

fn type_url<M: prost::Name>() -> String {
    format!("{DOMAIN}/{}", M::full_name())
}
