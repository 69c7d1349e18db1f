//! Holds a recording against the order that the store claims.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Call, Outcome, Recording, What};
use crate::{
    Revision,
    conformance::{
        model::oracle::Oracle,
        plan::{Plan, Refusals},
    },
};

/// Why a recording is not linearizable in the order of its revisions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The history contradicts itself: a change does not say what was there before it.
    #[error("revision {0} of the history does not follow from those before it")]
    History(Revision),
    /// An acknowledged transaction is not in the history, or not as it was asked for, or its checks failed.
    #[error("the transaction acknowledged at {0} is not what the history has there")]
    Lost(Revision),
    /// Two transactions were acknowledged at one revision.
    #[error("revision {0} was given out twice")]
    Twice(Revision),
    /// A revision of the history was asked for by nobody.
    #[error("nobody asked for revision {0}")]
    Invented(Revision),
    /// A call was answered from before something that had been answered already.
    #[error("revision {found} was given to a call made after {known} had been answered")]
    Stale {
        /// What the call was given.
        found: Revision,
        /// What anyone had been given before it was made.
        known: Revision,
    },
    /// A read found what was never there at its revision.
    #[error("what was read at {0} was never the state")]
    Untrue(Revision),
    /// No state between call and answer explains the refusal.
    #[error("the refusal is true at no revision from {from} to {through}")]
    Unexplained {
        /// The earliest that would do.
        from: Revision,
        /// The latest that would do.
        through: Revision,
    },
}

/// Checks that the order of revisions explains every call and agrees with real time.
pub fn check(recording: &Recording) -> Result<(), Violation> {
    let oracle = replay(recording)?;
    check_writes(recording, &oracle)?;
    for call in &recording.calls {
        match &call.what {
            What::Get { key, revision, found } if oracle.get(key, *revision) != *found => {
                return Err(Violation::Untrue(*revision));
            }
            What::Range { revision, found, .. } if oracle.contents(*revision) != *found => {
                return Err(Violation::Untrue(*revision));
            }
            _ => {}
        }
    }
    check_order(recording)?;
    check_refusals(recording, &oracle)
}

/// The history, one revision after the other.
fn replay(recording: &Recording) -> Result<Oracle, Violation> {
    let mut oracle = Oracle::new(recording.start);
    for (revision, effects) in &recording.history {
        let follows = *revision > oracle.head()
            && effects.iter().all(|effect| oracle.get(&effect.key, oracle.head()) == effect.previous);
        if !follows {
            return Err(Violation::History(*revision));
        }
        oracle.apply(*revision, effects.clone());
    }
    Ok(oracle)
}

/// Whether the history has at `revision` what `plan` does there.
fn happened(plan: &Plan, revision: Revision, recording: &Recording, oracle: &Oracle) -> bool {
    let before = Revision::new(revision.get() - 1);
    let get = |key: &[u8]| oracle.get(key, before);
    plan.refusals(get).is_empty() && recording.history.get(&revision) == Some(&plan.effects(get))
}

/// Every acknowledged transaction is in the history, and the history has no others.
fn check_writes(recording: &Recording, oracle: &Oracle) -> Result<(), Violation> {
    let mut unclaimed: BTreeSet<Revision> = recording.history.keys().copied().collect();
    let mut unknown: Vec<(&Call, &Plan)> = Vec::new();
    for call in &recording.calls {
        let What::Commit { plan, outcome } = &call.what else { continue };
        match outcome {
            Outcome::Done(revision) if plan.changes.is_empty() => {
                if !plan.refusals(|key| oracle.get(key, *revision)).is_empty() {
                    return Err(Violation::Lost(*revision));
                }
            }
            Outcome::Done(revision) => {
                if !happened(plan, *revision, recording, oracle) {
                    return Err(Violation::Lost(*revision));
                }
                if !unclaimed.remove(revision) {
                    return Err(Violation::Twice(*revision));
                }
            }
            Outcome::Unknown => unknown.push((call, plan)),
            Outcome::Refused(_) | Outcome::Failed => {}
        }
    }
    for revision in unclaimed {
        let known_before = |call: &Call| known_at(&recording.calls, call.called);
        let author = unknown.iter().position(|(call, plan)| {
            happened(plan, revision, recording, oracle)
                && known_before(call).is_none_or(|known| revision > known)
        });
        unknown.swap_remove(author.ok_or(Violation::Invented(revision))?);
    }
    Ok(())
}

/// The highest revision anyone had been given by `tick`.
fn known_at(calls: &[Call], tick: u64) -> Option<Revision> {
    calls.iter().filter(|call| call.returned < tick).filter_map(|call| point(call).map(|(at, _)| at)).max()
}

/// Where a call stands in the order, and whether it made that revision; `None` when it does not say.
fn point(call: &Call) -> Option<(Revision, bool)> {
    match &call.what {
        What::Commit { plan, outcome: Outcome::Done(revision) } => {
            Some((*revision, !plan.changes.is_empty()))
        }
        What::Get { revision, .. } | What::Range { newest: true, revision, .. } => Some((*revision, false)),
        What::Commit { .. } | What::Range { .. } => None,
    }
}

/// No call may be given less than what anyone had been given when it was made.
fn check_order(recording: &Recording) -> Result<(), Violation> {
    let mut known = Known::default();
    for call in by_call(recording) {
        let known_then = known.at(call.called).max(recording.start);
        if let Some((found, made)) = point(call) {
            if found < known_then || (made && found == known_then) {
                return Err(Violation::Stale { found, known: known_then });
            }
            known.answer(call.returned, found);
        }
    }
    Ok(())
}

/// Every refusal must have a place between what had been given out when it was made and what was given to calls
/// made after it was answered.
fn check_refusals(recording: &Recording, oracle: &Oracle) -> Result<(), Violation> {
    let least_after = least_after(recording, oracle);
    let mut known = Known::default();
    for call in by_call(recording) {
        let from = known.at(call.called).max(recording.start);
        if let Some((found, _)) = point(call) {
            known.answer(call.returned, found);
        }
        if let What::Commit { plan, outcome: Outcome::Refused(refusals) } = &call.what {
            let later = least_after.range(call.returned..).next();
            let through = later.map_or(oracle.head(), |(_, least)| *least);
            // The earliest place leaves most room for refusals that come after.
            known.answer(call.returned, explain(plan, refusals, from, through, recording, oracle)?);
        }
    }
    Ok(())
}

fn by_call(recording: &Recording) -> Vec<&Call> {
    let mut calls: Vec<&Call> = recording.calls.iter().collect();
    calls.sort_by_key(|call| call.called);
    calls
}

/// For each tick at which a call was made: the last revision that may have gone before that call and all later
/// ones.
fn least_after(recording: &Recording, oracle: &Oracle) -> BTreeMap<u64, Revision> {
    let mut least = oracle.head();
    let mut found = BTreeMap::new();
    for call in by_call(recording).into_iter().rev() {
        if let Some((at, made)) = point(call) {
            least = least.min(Revision::new(at.get() - u64::from(made)));
        }
        found.insert(call.called, least);
    }
    found
}

/// The highest revision given out so far, in a sweep over time.
#[derive(Default)]
struct Known {
    highest: Revision,
    /// Answers that are still to come, with their ticks.
    pending: Vec<(u64, Revision)>,
}

impl Known {
    fn answer(&mut self, tick: u64, revision: Revision) {
        self.pending.push((tick, revision));
    }

    /// What had been given out before `tick`, which must not go back.
    fn at(&mut self, tick: u64) -> Revision {
        let highest = &mut self.highest;
        self.pending.retain(|(answered, revision)| {
            let before = *answered < tick;
            if before {
                *highest = (*highest).max(*revision);
            }
            !before
        });
        self.highest
    }
}

/// The first revision in a span at which exactly these checks of the plan fail.
fn explain(
    plan: &Plan,
    refusals: &Refusals,
    from: Revision,
    through: Revision,
    recording: &Recording,
    oracle: &Oracle,
) -> Result<Revision, Violation> {
    let unexplained = Violation::Unexplained { from, through };
    if refusals.is_empty() || through < from {
        return Err(unexplained);
    }
    let mut places = std::iter::once(from).chain(recording.history.range(from..=through).map(|(at, _)| *at));
    places.find(|at| plan.refusals(|key| oracle.get(key, *at)) == *refusals).ok_or(unexplained)
}
