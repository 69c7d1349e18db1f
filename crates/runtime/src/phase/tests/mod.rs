//! Tests of machines: each rule without any I/O, crashes at random, and a real API server.

mod crashes;
mod deciding;
mod graphs;
mod losing;
mod server;
mod serving;

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Ctx, Deed, Given, Machine, Naps, Next, Path, Phase, PhaseStatus, Reply, Report, Step, StepError,
    StepState,
};

type Answer = Result<Reply, StepError>;

/// A step that nobody calls: these tests answer for it.
fn work() -> Step<()> {
    Step::new(|_: Ctx<()>| async { Ok(Report::done()) })
}

fn done() -> Answer {
    Ok(Reply::Report(Report::done()))
}

fn again(seconds: u64) -> Answer {
    Ok(Reply::Report(Report::again(Duration::from_secs(seconds))))
}

/// A machine with one phase of interest.
fn machine(phase: Phase<()>) -> Machine<()> {
    let builder = Machine::builder("test")
        .initial("Pending")
        .phase(Phase::new("Pending").runs(Step::nothing()).then("Run").or("Failed"))
        .phase(phase.then("Succeeded").or("Failed"));
    builder.succeeds("Succeeded").fails("Failed").build().expect("a machine")
}

fn run_phase() -> Phase<()> {
    Phase::new("Run")
}

/// A machine, the status that is written, and the time.
struct Play {
    machine: Machine<()>,
    given: Given,
    status: PhaseStatus,
    naps: Naps,
    now: Timestamp,
}

impl Play {
    fn new(machine: Machine<()>) -> Self {
        let given = Given { uid: "u".to_owned(), generation: Some(1), ..Given::default() };
        let now = Timestamp::from_second(1_000_000).expect("a time");
        Play { machine, given, status: PhaseStatus::default(), naps: Naps::new(), now }
    }

    fn of(phase: Phase<()>) -> Self {
        Play::new(machine(phase))
    }

    /// What comes next, as calls and seconds to wait.
    #[track_caller]
    fn next(&mut self) -> (Vec<String>, Option<i64>) {
        match self.next_raw() {
            Next::Work { calls, until } => {
                let show = |call: super::Call| match call.deed {
                    Deed::Do => call.path.to_string(),
                    Deed::Ask => format!("{}?", call.path),
                    Deed::List => format!("{}*", call.path),
                    Deed::Objects(ids) => format!("{}[{}]", call.path, ids.join(",")),
                };
                let until = until.map(|until| until.duration_since(self.now).as_secs());
                (calls.into_iter().map(show).collect(), until)
            }
            other => panic!("no work: {other:?}"),
        }
    }

    fn next_raw(&mut self) -> Next {
        let (status, next) = self.machine.advance(&self.status, &self.given, &self.naps, self.now);
        // What was written is all that is known the next time.
        let text = serde_json::to_string(&status).expect("JSON");
        self.status = serde_json::from_str(&text).expect("a status");
        let written = PhaseStatus { fields: self.status.fields.clone(), ..status };
        assert_eq!(written, self.status, "what is written is what is meant");
        next
    }

    fn answer(&mut self, path: &str, answer: Answer) {
        let mut names = path.split('/');
        let path = names
            .clone()
            .skip(1)
            .fold(Path::root(names.next().unwrap_or_default()), |path, name| path.child(name));
        self.status = self.machine.absorb(&self.status, &mut self.naps, &path, answer, self.now);
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn state(&self) -> &StepState {
        &self.status.state["Run"]
    }

    /// Ready, Progressing and Stalled, and the reason.
    fn conditions(&self) -> (String, String) {
        let all = &self.status.conditions;
        let letters = all
            .iter()
            .map(|own| if own.status == "True" { own.type_[..1].to_owned() } else { "-".to_owned() });
        (letters.collect(), all.first().map(|own| own.reason.clone()).unwrap_or_default())
    }
}

fn texts(items: &[&str]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}
