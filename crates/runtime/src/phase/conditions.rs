//! Conditions: what a phase means to those who do not know the machine.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{definition::Machine, status::PhaseStatus};

/// The conditions that are a machine's own. Others in the status are left alone.
pub(super) const TYPES: [&str; 3] = ["Ready", "Progressing", "Stalled"];

/// How a machine stands.
pub(super) enum Stand {
    /// It gets on, or waits to.
    Working,
    /// Somebody wants it to stand still: the reason and the text.
    Stopped(&'static str, String),
    /// It has come to an end.
    Ended {
        /// A bad one.
        is_failure: bool,
    },
    /// It is in a phase that does not exist.
    Lost,
}

impl<K> Machine<K> {
    /// Writes the conditions.
    pub(super) fn conclude(&self, status: &mut PhaseStatus, stand: &Stand, now: Timestamp) {
        let phase = status.phase.clone();
        let error = status.state.get(&phase).and_then(|state| state.error.clone());
        let (ready, progressing, stalled, reason, message) = match stand {
            Stand::Working => (false, true, false, phase, error.unwrap_or_default()),
            Stand::Stopped(reason, text) => (false, false, false, (*reason).to_owned(), text.clone()),
            Stand::Ended { is_failure: false } => (true, false, false, phase, String::new()),
            Stand::Ended { is_failure: true } => {
                let failed_in = status.failed_in.as_ref();
                let state = failed_in.and_then(|failed_in| status.state.get(failed_in));
                let why = state.and_then(|state| state.error.clone().or_else(|| state.warning.clone()));
                let text = match (failed_in, why) {
                    (Some(failed_in), Some(why)) => format!("{failed_in}: {why}"),
                    (Some(failed_in), None) => format!("it failed in {failed_in}"),
                    (None, _) => String::new(),
                };
                (false, false, true, phase, text)
            }
            Stand::Lost => {
                let text = format!("there is no phase {phase:?} in the machine {:?}", self.name);
                (false, false, true, "UnknownPhase".to_owned(), text)
            }
        };
        let generation = status.observed_generation;
        for (kind, holds) in TYPES.into_iter().zip([ready, progressing, stalled]) {
            let value = if holds { "True" } else { "False" };
            set(&mut status.conditions, kind, value, &reason, &message, generation, now);
        }
    }
}

fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) {
    let old = conditions.iter_mut().find(|condition| condition.type_ == kind);
    // A status keeps these in whole seconds.
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let since = old.as_ref().filter(|old| old.status == value).map(|old| old.last_transition_time.clone());
    let new = Condition {
        last_transition_time: since.unwrap_or(now),
        message: message.to_owned(),
        observed_generation: generation,
        reason: reason.to_owned(),
        status: value.to_owned(),
        type_: kind.to_owned(),
    };
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}
