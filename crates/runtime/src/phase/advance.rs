//! What a machine does next, by what its object says, what is remembered, and the time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{Resource, api::DynamicObject};

use super::{
    BARRIER, PAUSED, RESET,
    conditions::Stand,
    definition::{Machine, Phase},
    status::{Intent, ObjectState, PhaseStatus, StepState, later, micros},
    step::{Node, Path, Step},
};

/// What an object says about its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Its UID.
    pub uid: String,
    /// Its generation.
    pub generation: Option<i64>,
    /// Nothing begins.
    pub paused: bool,
    /// Where to stop: `before:PHASE` or `after:PHASE`.
    pub barriers: Vec<String>,
    /// The reset that is wanted.
    pub reset: Option<String>,
    /// It is being deleted.
    pub deleting: bool,
    /// It has the machine's finalizer.
    pub guarded: bool,
}

impl Given {
    /// What an object says to a machine with this finalizer.
    pub fn of(object: &DynamicObject, finalizer: Option<&str>) -> Self {
        let meta = object.meta();
        let annotation = |name| meta.annotations.as_ref().and_then(|all| all.get(name));
        let barriers = annotation(BARRIER).map(String::as_str).unwrap_or_default().split(',');
        Given {
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation,
            paused: annotation(PAUSED).is_some_and(|value| value == "true")
                || object.data.pointer("/spec/paused").is_some_and(|value| *value == true),
            barriers: barriers.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect(),
            reset: annotation(RESET).cloned().filter(|value| !value.is_empty()),
            deleting: meta.deletion_timestamp.is_some(),
            guarded: meta.finalizers.iter().flatten().any(|own| Some(own.as_str()) == finalizer),
        }
    }

    /// The barrier there is at this place. One that names no place is everywhere: it was meant to stop something.
    fn barrier(&self, at: &str, phase: &str) -> Option<&String> {
        self.barriers.iter().find(|barrier| match barrier.split_once(':') {
            Some((own @ ("before" | "after"), name)) => own == at && name == phase,
            _ => true,
        })
    }
}

/// Steps that want to be left alone until a time. It is not kept: whatever wakes the machine wakes them.
pub type Naps = BTreeMap<Path, Timestamp>;

/// A call of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which step.
    pub path: Path,
    /// What is asked of it.
    pub deed: Deed,
}

/// What is asked of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// To get on with it.
    Do,
    /// Whether it has happened.
    Ask,
    /// Which objects there are.
    List,
    /// To get on with these objects.
    Objects(Vec<String>),
}

/// What to do once the status is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Add the finalizer to the object.
    Guard,
    /// Take the finalizer from the object.
    Release,
    /// Make these calls, unless they are under way, and look again at the time, or when one answers. Without calls it
    /// rests, and without a time until something changes.
    Work {
        /// The calls.
        calls: Vec<Call>,
        /// The time.
        until: Option<Timestamp>,
    },
}

impl Next {
    fn rest() -> Self {
        Next::Work { calls: vec![], until: None }
    }
}

impl<K> Machine<K> {
    /// What comes next, and the status that must be written before.
    pub fn advance(
        &self,
        status: &PhaseStatus,
        given: &Given,
        naps: &Naps,
        now: Timestamp,
    ) -> (PhaseStatus, Next) {
        let deletes = self.deletion.is_some();
        if deletes && !given.deleting && !given.guarded {
            return (status.clone(), Next::Guard);
        }
        if given.deleting && !(deletes && given.guarded) {
            return (status.clone(), Next::rest());
        }
        let mut status = status.clone();
        let (stand, next) = self.go(&mut status, given, naps, now);
        status.observed_generation = given.generation;
        self.conclude(&mut status, &stand, now);
        (status, next)
    }

    fn go(&self, status: &mut PhaseStatus, given: &Given, naps: &Naps, now: Timestamp) -> (Stand, Next) {
        let deletion = self.deletion.as_ref().map(|deletion| deletion.phase.name.as_str());
        match deletion.filter(|_| given.deleting) {
            Some(name) if status.phase != name => enter(status, name),
            None if status.phase.is_empty() => enter(status, &self.initial),
            _ => {}
        }
        if given.reset.is_some() && given.reset != status.last_reset {
            status.last_reset.clone_from(&given.reset);
            self.reset(status);
        }
        if given.paused {
            status.paused_at.get_or_insert(micros(now));
            return (Stand::Stopped("Paused", "it is paused".to_owned()), Next::rest());
        }
        if let Some(since) = status.paused_at.take() {
            lengthen(status, since.0, now);
        }
        // Every phase may be left once: whoever goes round longer does so with writes in between.
        for _ in 0..=self.phases.len() {
            match self.stay(status, given, naps, now) {
                Some(stays) => return stays,
                None => continue,
            }
        }
        (Stand::Working, Next::Work { calls: vec![], until: Some(now) })
    }

    /// What there is to do in the phase; `None` if it was left.
    fn stay(
        &self,
        status: &mut PhaseStatus,
        given: &Given,
        naps: &Naps,
        now: Timestamp,
    ) -> Option<(Stand, Next)> {
        let name = status.phase.clone();
        if let Some(is_failure) = self.is_end(&name) {
            if !is_failure {
                status.failed_in = None;
            }
            return Some((Stand::Ended { is_failure }, Next::rest()));
        }
        let Some((phase, step)) =
            self.phase(&name).and_then(|phase| phase.step.as_ref().map(|step| (phase, step)))
        else {
            return Some((Stand::Lost, Next::rest()));
        };
        let stopped = |barrier: &String| {
            Some((Stand::Stopped("Barrier", format!("it stops at the barrier {barrier}")), Next::rest()))
        };
        let state = status.state.entry(name.clone()).or_default();
        if state.start_time.is_none() {
            if let Some(barrier) = given.barrier("before", &name) {
                return stopped(barrier);
            }
            state.start_time = Some(micros(now));
            state.deadline = phase.timeout.map(|timeout| micros(later(now, timeout)));
        }
        if self.is_deletion(&name) {
            state.deadline = None;
        }
        expire(phase, state, now);
        fold(step, state, now);
        if state.done || state.fatal || state.jump.is_some() {
            if let Some(barrier) = given.barrier("after", &name) {
                return stopped(barrier);
            }
            return self.leave(status, phase);
        }
        let deadline = state.deadline.as_ref().map(|deadline| deadline.0);
        let begun = state.start_time.as_ref().map_or(0, |begun| begun.0.as_microsecond());
        let mut plan = Plan { uid: &given.uid, begun, naps, now, calls: vec![], until: deadline };
        plan.add(step, state, &Path::root(&name));
        Some((Stand::Working, Next::Work { calls: plan.calls, until: plan.until }))
    }

    /// Goes to the phase that follows. A deletion that is done has none.
    fn leave(&self, status: &mut PhaseStatus, phase: &Phase<K>) -> Option<(Stand, Next)> {
        if self.is_deletion(&phase.name) {
            return Some((Stand::Working, Next::Release));
        }
        let state = status.state.get(&phase.name)?;
        let (fatal, jump) = (state.fatal, state.jump.clone());
        let to = if fatal { phase.or.clone() } else { jump.or_else(|| phase.then.clone()) };
        // A machine without this way is not built.
        let to = to.or_else(|| phase.or.clone())?;
        let ends_badly = self.is_end(&to) == Some(true);
        if fatal || (ends_badly && status.failed_in.is_none()) {
            status.failed_in = Some(phase.name.clone());
        }
        enter(status, &to);
        None
    }

    /// Has a failed machine go on in the phase that failed. What is done there stays done; what failed is tried again.
    /// Whether it has failed at all.
    pub fn reset(&self, status: &mut PhaseStatus) -> bool {
        let Some(phase) = status.failed_in.clone().filter(|_| self.is_end(&status.phase) == Some(true))
        else {
            return false;
        };
        if self.phase(&phase).is_none() {
            return false;
        }
        if let Some(state) = status.state.get_mut(&phase) {
            state.clear_failed();
        }
        (status.phase, status.failed_in) = (phase, None);
        true
    }
}

/// A phase that takes too long has failed.
fn expire<K>(phase: &Phase<K>, state: &mut StepState, now: Timestamp) {
    let is_late = state.deadline.as_ref().is_some_and(|deadline| deadline.0 <= now);
    if is_late && !state.done && !state.fatal && state.jump.is_none() {
        let last = state.error.as_ref().map(|error| format!("; it last failed: {error}"));
        let timeout = phase.timeout.unwrap_or_default();
        (state.failed, state.fatal) = (true, true);
        state.error = Some(format!("it took longer than {timeout:?}{}", last.unwrap_or_default()));
        state.end_time = Some(micros(now));
    }
}

/// Begins a phase from its beginning.
fn enter(status: &mut PhaseStatus, phase: &str) {
    phase.clone_into(&mut status.phase);
    status.state.remove(phase);
}

/// Gives a phase the time it was paused.
fn lengthen(status: &mut PhaseStatus, since: Timestamp, now: Timestamp) {
    let state = status.state.get_mut(&status.phase);
    if let Some(deadline) = state.and_then(|state| state.deadline.as_mut()) {
        let paused = now.duration_since(since).unsigned_abs();
        *deadline = micros(later(deadline.0, paused));
    }
}

/// Brings what is known of steps to those around them.
pub(super) fn fold<K>(step: &Step<K>, state: &mut StepState, now: Timestamp) {
    if state.done || state.fatal {
        return;
    }
    match &step.0 {
        Node::Work(_) | Node::Once(_) => {}
        Node::Batch { .. } => fold_objects(state, now),
        Node::Serial(steps) | Node::Parallel(steps) => {
            for (name, child) in steps {
                if let Some(state) = state.children.get_mut(name) {
                    fold(child, state, now);
                }
            }
            let of = |name: &String| state.children.get(name);
            let is_done = |child: &Step<K>, name| match of(name) {
                Some(state) => state.done,
                None => child.is_nothing(),
            };
            let done = steps.iter().all(|(name, child)| is_done(child, name));
            let worst = steps.iter().filter_map(|(name, _)| of(name).map(|state| (name, state)));
            let worst = worst.filter(|(_, state)| state.failed).max_by_key(|(_, state)| state.fatal);
            let (fatal, error) = match worst {
                Some((name, state)) => {
                    (state.fatal, Some(format!("{name}: {}", state.error.as_deref().unwrap_or_default())))
                }
                None => (false, None),
            };
            (state.done, state.fatal, state.failed, state.error) = (done, fatal, error.is_some(), error);
            if state.done || state.fatal {
                state.end_time = Some(micros(now));
            }
        }
    }
}

fn fold_objects(state: &mut StepState, now: Timestamp) {
    let Some(objects) = &state.objects else { return };
    if objects.iter().any(ObjectState::is_open) {
        return;
    }
    let failed: Vec<&ObjectState> = objects.iter().filter(|object| object.failed).collect();
    let error = failed.first().map(|first| {
        let (n_failed, n_objects) = (failed.len(), objects.len());
        let why = first.error.as_deref().unwrap_or_default();
        format!("{n_failed} of {n_objects} objects failed, the first of them {}: {why}", first.id)
    });
    (state.failed, state.fatal, state.done) = (error.is_some(), error.is_some(), error.is_none());
    (state.error, state.end_time) = (error, Some(micros(now)));
}

/// The calls to make.
struct Plan<'a> {
    uid: &'a str,
    /// When the phase was entered, in microseconds. It may be entered again, and what happens then is something else.
    begun: i64,
    naps: &'a Naps,
    now: Timestamp,
    calls: Vec<Call>,
    until: Option<Timestamp>,
}

impl Plan<'_> {
    /// Adds what is to be done of a step that is not done.
    fn add<K>(&mut self, step: &Step<K>, state: &mut StepState, path: &Path) {
        if state.done || state.fatal {
            return;
        }
        match &step.0 {
            Node::Serial(steps) => {
                for (name, child) in steps {
                    if child.is_nothing() {
                        continue;
                    }
                    let child_state = state.children.entry(name.clone()).or_default();
                    if !child_state.done {
                        return self.add_child(child, child_state, &path.child(name));
                    }
                }
            }
            Node::Parallel(steps) => {
                for (name, child) in steps.iter().filter(|(_, child)| !child.is_nothing()) {
                    let child_state = state.children.entry(name.clone()).or_default();
                    self.add_child(child, child_state, &path.child(name));
                }
            }
            _ => self.add_leaf(step, state, path),
        }
    }

    fn add_child<K>(&mut self, step: &Step<K>, state: &mut StepState, path: &Path) {
        if !state.done {
            state.start_time.get_or_insert(micros(self.now));
        }
        self.add(step, state, path);
    }

    fn add_leaf<K>(&mut self, step: &Step<K>, state: &mut StepState, path: &Path) {
        let gate = state.not_before.as_ref().map(|time| time.0).max(self.naps.get(path).copied());
        if self.waits(gate) {
            return;
        }
        let deed = match &step.0 {
            Node::Once(_) if state.intent.is_some() => Deed::Ask,
            Node::Once(_) => {
                state.n_intents += 1;
                let token = format!("{}/{:x}/{path}/{}", self.uid, self.begun, state.n_intents);
                state.intent = Some(Intent { token, time: micros(self.now) });
                Deed::Do
            }
            Node::Batch { size, .. } => match &mut state.objects {
                None => Deed::List,
                Some(objects) => match self.next_objects(objects, *size) {
                    Some(ids) => Deed::Objects(ids),
                    None => return,
                },
            },
            _ => Deed::Do,
        };
        self.calls.push(Call { path: path.clone(), deed });
    }

    /// The objects that come next: those that failed least.
    fn next_objects(&mut self, objects: &mut [ObjectState], size: usize) -> Option<Vec<String>> {
        let now = self.now;
        let may_come = |object: &ObjectState| {
            object.is_open() && object.not_before.as_ref().is_none_or(|time| time.0 <= now)
        };
        let first = objects.iter().filter(|object| may_come(object)).min_by_key(|object| object.attempts);
        let Some((group, attempts)) = first.map(|first| (first.group.clone(), first.attempts)) else {
            let open = objects.iter().filter(|object| object.is_open());
            let gate = open.filter_map(|object| object.not_before.as_ref()).map(|time| time.0).min();
            self.waits(gate);
            return None;
        };
        // A group comes as a whole, as far as it is not done.
        let together = |object: &ObjectState| match &group {
            Some(_) => object.is_open() && object.group == group,
            None => may_come(object) && object.group.is_none() && object.attempts == attempts,
        };
        let most = if group.is_some() { usize::MAX } else { size };
        let batch = objects.iter_mut().filter(|object| together(object)).take(most);
        let ids = batch.map(|object| {
            object.start_time.get_or_insert(micros(now));
            object.id.clone()
        });
        Some(ids.collect())
    }

    /// Whether a time is still to come. Then it is waited for.
    fn waits(&mut self, gate: Option<Timestamp>) -> bool {
        let Some(gate) = gate.filter(|gate| *gate > self.now) else { return false };
        self.until = Some(self.until.map_or(gate, |until| until.min(gate)));
        true
    }
}
