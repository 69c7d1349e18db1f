//! Machines at random, whose process dies after any write and before any: nothing that is finished runs again, nothing
//! that must not happen twice does, and every machine ends.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use fastrand::Rng;

use super::*;
use crate::phase::{Batch, Call, Item, ItemOutcome, Once};

struct Unasked;

#[async_trait]
impl Once<()> for Unasked {
    async fn perform(&self, _: Ctx<()>) -> Result<Report, StepError> {
        Ok(Report::done())
    }

    async fn happened(&self, _: Ctx<()>) -> Result<Option<Report>, StepError> {
        Ok(None)
    }
}

#[async_trait]
impl Batch<()> for Unasked {
    async fn list(&self, _: Ctx<()>) -> Result<Vec<Item>, StepError> {
        Ok(vec![])
    }

    async fn handle(&self, _: Ctx<()>, _: Vec<String>) -> Result<Vec<(String, ItemOutcome)>, StepError> {
        Ok(vec![])
    }
}

fn random_step(rng: &mut Rng, depth: usize) -> Step<()> {
    let children = |rng: &mut Rng| -> Vec<(String, Step<()>)> {
        (0..rng.usize(0..4)).map(|idx| (format!("s{idx}"), random_step(rng, depth + 1))).collect()
    };
    match rng.u8(0..if depth > 2 { 3 } else { 6 }) {
        0 => work(),
        1 => Step::once(Unasked),
        2 => Step::batch(Unasked, rng.usize(1..4)),
        3 => Step::parallel(children(rng)),
        _ => Step::serial(children(rng)),
    }
}

fn random_machine(rng: &mut Rng) -> Machine<()> {
    let mut builder = Machine::builder("random").initial("P0");
    let n_phases = rng.usize(1..4);
    for idx in 0..n_phases {
        let then = if idx + 1 == n_phases { "Succeeded".to_owned() } else { format!("P{}", idx + 1) };
        let phase = Phase::new(format!("P{idx}")).runs(random_step(rng, 0)).retries(rng.u32(1..5));
        builder =
            builder.phase(phase.then(then).or("Failed").timeout(Duration::from_secs(rng.u64(100..10_000))));
    }
    builder.succeeds("Succeeded").fails("Failed").build().expect("a machine")
}

/// The world outside, which remembers what was done to it.
#[derive(Default)]
struct World {
    /// What has happened that must not happen twice.
    happened: BTreeSet<String>,
    /// What the machine has written down as finished.
    finished: BTreeSet<String>,
    n_calls: usize,
}

impl World {
    fn call(&mut self, rng: &mut Rng, call: &Call, is_once: bool) -> Answer {
        self.n_calls += 1;
        let path = call.path.to_string();
        assert!(!self.finished.contains(&path), "{path} is finished, and was called again");
        if rng.u8(0..20) == 0 && !is_once {
            return Err(StepError { message: "bad luck".to_owned(), is_fatal: rng.u8(0..10) == 0 });
        }
        match &call.deed {
            Deed::Do if is_once => {
                assert!(self.happened.insert(path.clone()), "{path} has happened twice");
                // It has happened, whatever the caller hears.
                if rng.bool() { done() } else { Err(StepError::retry("no answer")) }
            }
            Deed::Ask => match self.happened.contains(&path) {
                true => done(),
                false => Ok(Reply::NotHappened),
            },
            Deed::Do if rng.u8(0..3) == 0 => again(rng.u64(0..3)),
            Deed::Do => done(),
            Deed::List => {
                let items = (0..rng.usize(0..6)).map(|idx| Item::new(format!("{path}#{idx}")));
                Ok(Reply::Listed(items.collect()))
            }
            Deed::Objects(ids) => {
                Ok(Reply::Handled(ids.iter().map(|id| (id.clone(), self.object(rng, id))).collect()))
            }
        }
    }

    fn object(&self, rng: &mut Rng, id: &str) -> ItemOutcome {
        assert!(!self.finished.contains(id), "{id} is finished, and came again");
        match rng.u8(0..10) {
            0 => ItemOutcome::Failed(StepError::retry("bad luck")),
            1 => ItemOutcome::Again(Duration::ZERO),
            2 => ItemOutcome::Warned("odd".to_owned()),
            _ => ItemOutcome::Done,
        }
    }

    /// Takes note of what is written down as finished.
    fn wrote(&mut self, path: &str, state: &StepState) {
        if state.done {
            self.finished.insert(path.to_owned());
        }
        let objects = state.objects.iter().flatten().filter(|object| object.done);
        self.finished.extend(objects.map(|object| object.id.clone()));
        for (name, child) in &state.children {
            self.wrote(&format!("{path}/{name}"), child);
        }
    }
}

/// One life of a process: from what is written until it dies or rests. Whether it rests, and until when.
fn live(play: &mut Play, world: &mut World, rng: &mut Rng) -> Option<Option<Timestamp>> {
    let mut status = play.status.clone();
    let (mut naps, mut answers) = (Naps::new(), BTreeMap::new());
    loop {
        let (new, next) = play.machine.advance(&status, &play.given, &naps, play.now);
        if new.phase != status.phase {
            answers.clear();
        }
        if new != play.status {
            if rng.u8(0..8) == 0 {
                return None;
            }
            play.status =
                serde_json::from_value(serde_json::to_value(&new).expect("JSON")).expect("a status");
            new.state.iter().for_each(|(phase, state)| world.wrote(phase, state));
            if rng.u8(0..8) == 0 {
                return None;
            }
        }
        status = play.status.clone();
        let Next::Work { calls, until } = next else { panic!("nothing is deleted") };
        for call in calls {
            if answers.contains_key(&call.path) {
                continue;
            }
            let phase = play.machine.phase(call.path.phase()).and_then(|phase| phase.step.as_ref());
            let step = phase.and_then(|step| step.at(call.path.steps())).expect("a step that exists");
            let is_once = matches!(step.0, crate::phase::step::Node::Once(_));
            let answer = world.call(rng, &call, is_once);
            answers.insert(call.path, answer);
        }
        let paths: Vec<Path> = answers.keys().cloned().collect();
        let Some(path) = (!paths.is_empty()).then(|| paths[rng.usize(0..paths.len())].clone()) else {
            return Some(until);
        };
        play.now += Duration::from_millis(rng.u64(1..1000));
        let answer = answers.remove(&path).expect("an answer");
        status = play.machine.absorb(&status, &mut naps, &path, answer, play.now);
    }
}

#[test]
fn machines_survive_crashes_at_any_point() {
    let (mut n_calls, mut n_succeeded, mut n_crashes) = (0, 0, 0);
    for seed in 0..1000 {
        let mut rng = Rng::with_seed(seed);
        let (mut play, mut world) = (Play::new(random_machine(&mut rng)), World::default());
        let mut n_lives = 0;
        while play.machine.is_end(&play.status.phase).is_none() || n_lives == 0 {
            n_lives += 1;
            assert!(n_lives < 3000, "seed {seed} does not end: {:#?}", play.status);
            match live(&mut play, &mut world, &mut rng) {
                None => n_crashes += 1,
                Some(Some(until)) => play.now = play.now.max(until),
                Some(None) => {
                    assert!(
                        play.machine.is_end(&play.status.phase).is_some(),
                        "seed {seed} hangs: {:#?}",
                        play.status
                    );
                }
            }
            // Some that failed are reset, as people do.
            if play.machine.is_end(&play.status.phase) == Some(true) && rng.bool() {
                play.given.reset = Some(n_lives.to_string());
            }
        }
        n_calls += world.n_calls;
        n_succeeded += usize::from(play.status.phase == "Succeeded");
        let before = play.status.clone();
        play.given.reset.clone_from(&before.last_reset);
        assert_eq!(play.next(), (vec![], None), "seed {seed}");
        assert_eq!(play.status, before, "seed {seed}: nothing changes after the end");
    }
    // It would be easy to pass by doing nothing.
    assert!(n_calls > 3000 && n_crashes > 1000, "{n_calls} calls, {n_crashes} crashes");
    assert!((500..990).contains(&n_succeeded), "{n_succeeded} succeeded");
}
