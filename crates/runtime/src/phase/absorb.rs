//! What an answer of a step changes.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    advance::{Naps, fold},
    definition::{Machine, Phase},
    status::{ObjectState, PhaseStatus, StepState, later, micros},
    step::{Item, ItemOutcome, Outcome, Path, Reply, Report, StepError},
};

/// How many objects a step may go over: more do not fit into a status.
const MOST_OBJECTS: usize = 2000;

/// How many bytes their names may have, all together, for the same reason.
const MOST_NAMES: usize = 256 * 1024;

/// How much of an error is kept: of a step, and of one object among many.
const MOST_TEXT: usize = 1024;
const MOST_OBJECT_TEXT: usize = 100;

/// When a step is asked again that neither waits nor gets on.
const IDLE: Duration = Duration::from_secs(1);

impl<K> Machine<K> {
    /// The status after an answer. One that comes from another phase than the machine is in is too late, and changes
    /// nothing.
    pub fn absorb(
        &self,
        status: &PhaseStatus,
        naps: &mut Naps,
        path: &Path,
        answer: Result<Reply, StepError>,
        now: Timestamp,
    ) -> PhaseStatus {
        let mut new = status.clone();
        let Some(phase) = self.phase(path.phase()).filter(|_| status.phase == path.phase()) else {
            return new;
        };
        let Some(state) = new.state.get_mut(path.phase()) else { return new };
        naps.remove(path);
        let Some(leaf) = leaf_of(state, path) else { return new };
        let took = Taking { machine: self, phase, now }.take(leaf, answer);
        if let Some(jump) = took.jump {
            state.jump = Some(jump);
            state.end_time = Some(micros(now));
        }
        if let Some(step) = &phase.step {
            fold(step, state, now);
        }
        new.fields.extend(took.fields);
        if let Some(nap) = took.nap {
            let nap = if nap.is_zero() && new == *status { IDLE } else { nap };
            naps.insert(path.clone(), later(now, nap));
        }
        new
    }
}

fn leaf_of<'a>(state: &'a mut StepState, path: &Path) -> Option<&'a mut StepState> {
    path.steps().try_fold(state, |state, name| state.children.get_mut(name))
}

/// What an answer changes beyond its step.
#[derive(Default)]
struct Took {
    jump: Option<String>,
    nap: Option<Duration>,
    fields: serde_json::Map<String, serde_json::Value>,
}

struct Taking<'a, K> {
    machine: &'a Machine<K>,
    phase: &'a Phase<K>,
    now: Timestamp,
}

impl<K> Taking<'_, K> {
    fn take(&self, leaf: &mut StepState, answer: Result<Reply, StepError>) -> Took {
        match answer {
            Err(error) => self.fail(leaf, &error),
            Ok(Reply::Report(report)) => return self.report(leaf, report),
            // It may be tried, and not for the first time: how often it has failed still counts.
            Ok(Reply::NotHappened) => (leaf.intent, leaf.not_before) = (None, None),
            Ok(Reply::Listed(items)) => self.list(leaf, items),
            Ok(Reply::Handled(outcomes)) => return self.handled(leaf, outcomes),
        }
        Took::default()
    }

    fn report(&self, leaf: &mut StepState, report: Report) -> Took {
        let mut took = Took { fields: report.fields, ..Took::default() };
        if let Outcome::Jump(to) = &report.outcome
            && !self.phase.jumps.contains(to)
        {
            let text = format!("it wants to jump to {to:?}, which its phase does not name");
            self.fail(leaf, &StepError::fatal(text));
            return took;
        }
        well(leaf);
        leaf.progress = report.progress.or(leaf.progress);
        leaf.data = report.data.or(leaf.data.take());
        leaf.warning = report.warning.map(|text| cut(text, MOST_TEXT)).or(leaf.warning.take());
        match report.outcome {
            Outcome::Done => {
                (leaf.done, leaf.intent) = (true, None);
                leaf.end_time = Some(micros(self.now));
            }
            Outcome::Again(after) => took.nap = Some(after),
            // The step stays open, so that a reset finds it.
            Outcome::Jump(to) => took.jump = Some(to),
        }
        took
    }

    fn list(&self, leaf: &mut StepState, items: Vec<Item>) {
        if items.len() > MOST_OBJECTS {
            let text = format!("{} objects do not fit into a status, {MOST_OBJECTS} do", items.len());
            return self.fail(leaf, &StepError::fatal(text));
        }
        let of = |item: &Item| item.id.len() + item.name.len() + item.group.as_ref().map_or(0, String::len);
        let n_bytes: usize = items.iter().map(of).sum();
        if n_bytes > MOST_NAMES {
            let text = format!("names of {n_bytes} bytes do not fit into a status, {MOST_NAMES} do");
            return self.fail(leaf, &StepError::fatal(text));
        }
        let mut ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
        ids.sort_unstable();
        if let Some(twins) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            let text = format!("there are two objects {:?}", twins[0]);
            return self.fail(leaf, &StepError::fatal(text));
        }
        well(leaf);
        let state_of = |Item { id, name, group }| ObjectState { id, name, group, ..ObjectState::default() };
        leaf.objects = Some(items.into_iter().map(state_of).collect());
    }

    fn handled(&self, leaf: &mut StepState, outcomes: Vec<(String, ItemOutcome)>) -> Took {
        well(leaf);
        let now = micros(self.now);
        let mut n_new = 0;
        for (id, outcome) in outcomes {
            let objects = leaf.objects.iter_mut().flatten();
            let Some(object) = objects.into_iter().find(|object| object.id == id && object.is_open()) else {
                continue;
            };
            n_new += 1;
            (object.error, object.not_before) = (None, None);
            match outcome {
                ItemOutcome::Done => (object.done, object.end_time) = (true, Some(now.clone())),
                ItemOutcome::Warned(text) => {
                    (object.done, object.end_time) = (true, Some(now.clone()));
                    object.warning = Some(cut(text, MOST_OBJECT_TEXT));
                }
                ItemOutcome::Again(after) => {
                    object.attempts = 0;
                    object.not_before = Some(micros(later(self.now, after.max(IDLE))));
                }
                ItemOutcome::Failed(error) => self.fail_object(object, &error),
            }
        }
        // A batch that answers nothing would be asked the same at once.
        Took { nap: (n_new == 0).then_some(IDLE), ..Took::default() }
    }

    fn fail(&self, leaf: &mut StepState, error: &StepError) {
        leaf.attempts += 1;
        leaf.failed = true;
        leaf.error = Some(cut(error.message.clone(), MOST_TEXT));
        match self.gives_up(leaf.attempts, error) {
            true => (leaf.fatal, leaf.end_time) = (true, Some(micros(self.now))),
            false => leaf.not_before = Some(self.again_after(leaf.attempts)),
        }
    }

    fn fail_object(&self, object: &mut ObjectState, error: &StepError) {
        object.attempts += 1;
        object.error = Some(cut(error.message.clone(), MOST_OBJECT_TEXT));
        match self.gives_up(object.attempts, error) {
            true => (object.failed, object.end_time) = (true, Some(micros(self.now))),
            false => object.not_before = Some(self.again_after(object.attempts)),
        }
    }

    fn gives_up(&self, attempts: u32, error: &StepError) -> bool {
        let is_last = error.is_fatal || self.phase.retries.is_some_and(|most| attempts > most);
        is_last && !self.machine.is_deletion(&self.phase.name)
    }

    fn again_after(&self, attempts: u32) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime {
        micros(later(self.now, self.phase.wait_after(attempts)))
    }
}

/// The last try did not fail.
fn well(leaf: &mut StepState) {
    (leaf.failed, leaf.attempts) = (false, 0);
    (leaf.error, leaf.not_before) = (None, None);
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}
