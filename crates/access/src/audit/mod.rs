//! Audit: what is written down about requests.
//!
//! A [`Policy`] says how much of a request is written down ([`Level`]) and when ([`Stage`]); an [`Event`] is what is
//! written, as Kubernetes writes it. Nothing here writes anything, and nothing knows the time.

mod event;
mod policy;

pub use self::{
    event::{Account, Event, ObjectRef, ResponseStatus},
    policy::{Asked, Decision, Policy, PolicyError},
};

use serde::Serialize;

/// How much of a request is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// Who, what, when and how it ended.
    Metadata,
    /// That and what was sent.
    Request,
    /// All that and what was answered.
    RequestResponse,
}

impl Level {
    /// All of them, by their names in policies.
    pub const ALL: [(&'static str, Level); 4] = [
        ("None", Level::None),
        ("Metadata", Level::Metadata),
        ("Request", Level::Request),
        ("RequestResponse", Level::RequestResponse),
    ];

    /// Its name in policies and events.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, level)| *level == self).map_or("None", |(name, _)| name)
    }
}

/// When something is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// Once it is known who asks.
    RequestReceived,
    /// Once the head of an answer is sent whose body takes its time, such as that of a watch.
    ResponseStarted,
    /// Once the answer is complete.
    ResponseComplete,
    /// When something broke that should not have.
    Panic,
}

impl Stage {
    /// All of them, by their names in policies.
    pub const ALL: [(&'static str, Stage); 4] = [
        ("RequestReceived", Stage::RequestReceived),
        ("ResponseStarted", Stage::ResponseStarted),
        ("ResponseComplete", Stage::ResponseComplete),
        ("Panic", Stage::Panic),
    ];
}

/// A few stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// None of them.
    pub const NONE: Stages = Stages(0);

    /// These and one more.
    #[must_use]
    pub fn with(self, stage: Stage) -> Self {
        Stages(self.0 | 1 << stage as u8)
    }

    /// All that are in one or the other.
    #[must_use]
    pub fn or(self, others: Stages) -> Self {
        Stages(self.0 | others.0)
    }

    /// Whether it is among them.
    pub fn has(self, stage: Stage) -> bool {
        self.0 & (1 << stage as u8) != 0
    }
}
