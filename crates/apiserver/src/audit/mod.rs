//! Audit: writing down who asked for what, and what came of it.
//!
//! An [`Audit`] is the policy and the log. Every request that the policy is about gets a `Trail` once it is known who
//! asks, which follows it to its end and writes a line at each stage, also when the client goes away or a handler
//! panics. Without a policy there is no trail, and a request is not even looked at.

mod log;
mod rotate;
mod trail;

use std::{io, sync::Arc};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use windlass_access::audit::Level;
pub use windlass_access::audit::{Policy, PolicyError};

use self::log::Log;
pub(crate) use self::trail::Trail;
pub use self::{
    log::{Destination, Mode},
    rotate::Files,
};

/// What is written down, and where.
pub struct Audit {
    policy: ArcSwap<Policy>,
    log: Log,
    counters: Counters,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LevelLabels {
    level: &'static str,
}

/// What is counted.
#[derive(Clone, Default)]
struct Counters {
    events: Counter,
    lost: Counter,
    refused: Counter,
    levels: Family<LevelLabels, Counter>,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Audit")
    }
}

impl Audit {
    /// Opens the log.
    pub fn open(policy: Policy, destination: Destination, mode: Mode) -> io::Result<Arc<Self>> {
        let counters = Counters::default();
        let log = Log::open(destination, mode, counters.lost.clone())?;
        Ok(Arc::new(Audit { policy: ArcSwap::from_pointee(policy), log, counters }))
    }

    /// Goes by another policy from now on.
    pub fn replace(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    /// Writes what is left; what comes later is lost.
    pub async fn close(&self) {
        self.log.close().await;
    }

    fn count(&self, level: Level) {
        self.counters.levels.get_or_create(&LevelLabels { level: level.name() }).inc();
    }
}

/// Adds what is counted of the audit to the metrics.
pub(crate) fn register(audit: Option<&Audit>, registry: &mut Registry) {
    let Counters { events, lost, refused, levels } =
        audit.map(|audit| audit.counters.clone()).unwrap_or_default();
    registry.register("apiserver_audit_event", "Audit events, by what became of them", events);
    registry.register("apiserver_audit_error", "Audit events that could not be written", lost);
    let help = "Requests refused because their audit event could not be written";
    registry.register("apiserver_audit_requests_rejected", help, refused);
    registry.register("apiserver_audit_level", "Requests, by the level of their audit", levels);
}

/// Most notes about one request.
const MOST_NOTES: usize = 256;

/// Most bytes of one note, as Kubernetes has it for those of policies.
const MOST_NOTE: usize = 10 * 1024;

/// What those say for the audit log who have a hand in a request.
#[derive(Debug, Default)]
pub struct Notes(Mutex<Vec<(String, String)>>);

impl Notes {
    /// Leaves a note. When a request begins anew, what is said last counts.
    pub(crate) fn leave(&self, key: impl Into<String>, text: impl Into<String>) {
        let (key, mut text) = (key.into(), text.into());
        let end = text.floor_char_boundary(MOST_NOTE);
        text.truncate(end);
        let mut notes = self.0.lock();
        match notes.iter().position(|(own, _)| *own == key) {
            Some(index) => notes[index].1 = text,
            None if notes.len() < MOST_NOTES => notes.push((key, text)),
            None => {}
        }
    }

    fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.0.lock())
    }
}
