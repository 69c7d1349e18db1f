//! Each rule of a machine, without any I/O.

use async_trait::async_trait;

use super::*;
use crate::phase::{Batch, Item, ItemOutcome, Once};

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

fn retry(text: &str) -> Answer {
    Err(StepError::retry(text))
}

fn fatal(text: &str) -> Answer {
    Err(StepError::fatal(text))
}

#[test]
fn a_machine_goes_to_its_end_and_rests_there() {
    let mut play = Play::of(run_phase().runs(work()));
    assert_eq!(play.next(), (texts(&["Run"]), None));
    assert_eq!(
        (play.status.phase.as_str(), play.conditions()),
        ("Run", ("-P-".to_owned(), "Run".to_owned()))
    );
    assert!(play.status.state["Pending"].done && play.state().start_time.is_some());
    play.pass(5);
    play.answer("Run", done());
    assert_eq!(play.next(), (vec![], None));
    assert_eq!(play.status.phase, "Succeeded");
    assert_eq!(play.conditions(), ("R--".to_owned(), "Succeeded".to_owned()));
    let (start, end) = (play.state().start_time.clone(), play.state().end_time.clone());
    assert_eq!(end.expect("it ended").0.duration_since(start.expect("it began").0).as_secs(), 5);

    let before = play.status.clone();
    play.pass(100);
    assert_eq!(play.next(), (vec![], None));
    assert_eq!(play.status, before, "nothing changes after the end");
}

#[test]
fn serial_steps_come_one_after_another_and_parallel_ones_at_once() {
    let both = Step::parallel([("x", work()), ("y", work())]);
    let mut play = Play::of(run_phase().runs(Step::serial([("a", work()), ("b", both), ("c", work())])));
    assert_eq!(play.next().0, texts(&["Run/a"]));
    play.answer("Run/a", done());
    assert_eq!(play.next().0, texts(&["Run/b/x", "Run/b/y"]));
    play.answer("Run/b/y", done());
    assert_eq!(play.next().0, texts(&["Run/b/x"]), "what is done does not come again");
    play.answer("Run/b/x", done());
    assert_eq!(play.next().0, texts(&["Run/c"]));
    assert!(play.state().at(["b"]).is_some_and(|state| state.done && state.end_time.is_some()));
    play.answer("Run/c", done());
    play.next();
    assert_eq!(play.status.phase, "Succeeded");
}

#[test]
fn steps_that_are_not_done_come_again() {
    let mut play = Play::of(run_phase().runs(work()));
    play.next();
    play.answer("Run", again(7));
    assert_eq!(play.next(), (vec![], Some(7)));
    // Whatever wakes the machine earlier wakes the step.
    let naps = std::mem::take(&mut play.naps);
    assert_eq!(play.next().0, texts(&["Run"]));
    play.naps = naps;
    play.pass(7);
    assert_eq!(play.next().0, texts(&["Run"]));
    // One that neither waits nor gets on does not spin.
    play.answer("Run", again(0));
    assert_eq!(play.next(), (vec![], Some(1)));
    play.pass(1);
    play.answer("Run", Ok(Reply::Report(Report::again(Duration::ZERO).progress(1, 2).warning("slow"))));
    assert_eq!(play.next().0, texts(&["Run"]), "one that gets on goes on");
    assert_eq!(
        (play.state().progress.map(|own| own.done), play.state().warning.as_deref()),
        (Some(1), Some("slow"))
    );
}

#[test]
fn errors_are_retried_later_each_time_until_the_limit() {
    let back_off = (Duration::from_secs(2), Duration::from_secs(5));
    let mut play = Play::of(run_phase().runs(work()).retries(3).back_off(back_off.0, back_off.1));
    play.next();
    for seconds in [2, 4, 5] {
        play.answer("Run", retry("no luck"));
        assert_eq!(play.next(), (vec![], Some(seconds)));
        assert!(play.state().failed && !play.state().fatal);
        // The wait is on record: neither a crash nor a change shortens it.
        play.naps.clear();
        assert_eq!(play.next(), (vec![], Some(seconds)));
        play.pass(seconds as u64);
        assert_eq!(play.next().0, texts(&["Run"]));
    }
    play.answer("Run", retry("no luck"));
    assert_eq!(play.next(), (vec![], None));
    assert_eq!((play.status.phase.as_str(), play.status.failed_in.as_deref()), ("Failed", Some("Run")));
    assert_eq!(play.conditions(), ("--S".to_owned(), "Failed".to_owned()));
    assert_eq!(play.status.conditions[2].message, "Run: no luck");
}

#[test]
fn success_forgives_failures() {
    let mut play = Play::of(run_phase().runs(work()).retries(1));
    for _ in 0..5 {
        play.next();
        play.answer("Run", retry("no luck"));
        play.pass(1);
        play.next();
        play.answer(
            "Run",
            Ok(Reply::Report(Report::again(Duration::ZERO).data(play.now.as_second().into()))),
        );
        assert_eq!((play.state().attempts, play.state().error.as_deref()), (0, None));
    }
    assert_eq!(play.status.phase, "Run");
}

#[test]
fn a_fatal_error_ends_the_phase_and_its_other_steps() {
    let mut play = Play::of(run_phase().runs(Step::parallel([("a", work()), ("b", work())])));
    play.next();
    play.answer("Run/a", fatal("broken"));
    assert_eq!(play.next(), (vec![], None));
    assert_eq!(play.status.phase, "Failed");
    assert_eq!(play.state().error.as_deref(), Some("a: broken"));
    // The other one answers too late.
    let before = play.status.clone();
    play.answer("Run/b", done());
    assert_eq!(play.status, before);
}

#[test]
fn a_phase_that_takes_too_long_fails_but_not_for_being_paused() {
    let mut play = Play::of(run_phase().runs(work()).timeout(Duration::from_secs(60)));
    assert_eq!(play.next(), (texts(&["Run"]), Some(60)));
    play.pass(50);
    play.given.paused = true;
    assert_eq!(play.next(), (vec![], None));
    assert_eq!(play.conditions(), ("---".to_owned(), "Paused".to_owned()));
    play.pass(3600);
    play.next();
    play.given.paused = false;
    assert_eq!(play.next(), (texts(&["Run"]), Some(10)));
    assert_eq!(play.status.paused_at, None);
    play.answer("Run", again(3600));
    assert_eq!(play.next(), (vec![], Some(10)), "it looks again when the time is up");
    play.pass(10);
    play.next();
    assert_eq!((play.status.phase.as_str(), play.status.failed_in.as_deref()), ("Failed", Some("Run")));
    assert_eq!(play.state().error.as_deref(), Some("it took longer than 60s"));
}

#[test]
fn barriers_stop_before_and_after_a_phase() {
    let mut play = Play::of(run_phase().runs(work()).timeout(Duration::from_secs(60)));
    play.given.barriers = texts(&["before:Run"]);
    assert_eq!(play.next(), (vec![], None));
    assert_eq!((play.status.phase.as_str(), play.conditions().1.as_str()), ("Run", "Barrier"));
    play.pass(3600);
    play.given.barriers = texts(&["after:Run"]);
    assert_eq!(play.next(), (texts(&["Run"]), Some(60)), "its time begins with it");
    play.answer("Run", done());
    assert_eq!(play.next(), (vec![], None));
    assert!(play.status.phase == "Run" && play.state().done);
    play.given.barriers = texts(&["befor:Run"]);
    play.next();
    assert_eq!(play.status.phase, "Run", "what cannot be read stops, too");
    play.given.barriers.clear();
    play.next();
    assert_eq!(play.status.phase, "Succeeded");
}

#[test]
fn a_reset_goes_on_where_it_failed_and_repeats_nothing() {
    let steps = Step::serial([("a", work()), ("b", Step::once(Unasked))]);
    let mut play = Play::of(run_phase().runs(steps).timeout(Duration::from_secs(60)));
    play.given.reset = Some("0".to_owned());
    play.next();
    play.answer("Run/a", done());
    play.next();
    play.answer("Run/b", fatal("broken"));
    play.next();
    assert_eq!(play.status.phase, "Failed", "a reset of what has not failed does nothing");
    play.pass(3600);
    play.given.reset = Some("1".to_owned());
    assert_eq!(play.next(), (texts(&["Run/b?"]), Some(60)), "it may have happened all the same");
    assert_eq!((play.status.failed_in.as_deref(), play.status.last_reset.as_deref()), (None, Some("1")));
    play.answer("Run/b", fatal("broken again"));
    play.next();
    assert_eq!(play.next(), (vec![], None), "one reset is one try");
    assert_eq!((play.status.phase.as_str(), play.status.failed_in.as_deref()), ("Failed", Some("Run")));
}

#[test]
fn a_step_that_must_not_run_twice_is_on_record_before() {
    let mut play = Play::of(run_phase().runs(Step::once(Unasked)));
    assert_eq!(play.next().0, texts(&["Run"]));
    assert_eq!(play.state().intent.as_ref().map(|intent| intent.token.as_str()), Some("u/e8d4a51000/Run/1"));
    // The process dies here, or the call fails: nobody knows.
    assert_eq!(play.next().0, texts(&["Run?"]));
    play.answer("Run", retry("no answer"));
    play.pass(1);
    assert_eq!(play.next().0, texts(&["Run?"]));
    play.answer("Run", Ok(Reply::NotHappened));
    assert_eq!(play.next().0, texts(&["Run"]));
    assert_eq!(play.state().intent.as_ref().map(|intent| intent.token.as_str()), Some("u/e8d4a51000/Run/2"));
    assert_eq!(play.next().0, texts(&["Run?"]));
    play.answer("Run", done());
    play.next();
    assert_eq!((play.status.phase.as_str(), play.state().intent.as_ref()), ("Succeeded", None));
}

#[test]
fn jumps_go_where_the_phase_allows() {
    let jump = |to: &str| Ok(Reply::Report(Report::jump(to)));
    let mut play = Play::of(run_phase().runs(work()).may_jump("Pending").may_jump("Failed"));
    play.next();
    play.answer("Run", jump("Pending"));
    assert_eq!(play.next().0, texts(&["Run"]), "round once more");
    assert_eq!(play.state().jump, None);
    play.answer("Run", jump("Failed"));
    play.next();
    assert_eq!((play.status.phase.as_str(), play.status.failed_in.as_deref()), ("Failed", Some("Run")));
    play.given.reset = Some("1".to_owned());
    assert_eq!(play.next().0, texts(&["Run"]));
    play.answer("Run", jump("Succeeded"));
    play.next();
    assert_eq!(play.status.phase, "Failed");
    assert!(
        play.state().error.as_deref().is_some_and(|text| text.contains("Succeeded")),
        "{:?}",
        play.state()
    );
}

#[test]
fn objects_come_in_batches_and_groups_and_never_again() {
    let mut play = Play::of(run_phase().runs(Step::batch(Unasked, 2)).retries(1));
    assert_eq!(play.next().0, texts(&["Run*"]));
    let items = ["a", "b", "c"].map(Item::new).into_iter();
    let items: Vec<Item> = items.chain(["x", "y", "z"].map(|id| Item::new(id).group("g"))).collect();
    play.answer("Run", Ok(Reply::Listed(items)));
    assert_eq!(play.next().0, texts(&["Run[a,b]"]));
    let handled = |all: Vec<(&str, ItemOutcome)>| {
        Ok(Reply::Handled(all.into_iter().map(|(id, outcome)| (id.to_owned(), outcome)).collect()))
    };
    let failed = |text: &str| ItemOutcome::Failed(StepError::retry(text));
    play.answer("Run", handled(vec![("a", ItemOutcome::Done), ("b", failed("shy"))]));
    assert_eq!(play.next().0, texts(&["Run[c]"]), "groups are not mixed with others");
    play.answer("Run", handled(vec![("c", ItemOutcome::Warned("odd".to_owned()))]));
    assert_eq!(play.next().0, texts(&["Run[x,y,z]"]), "a group is one batch");
    play.answer("Run", handled(vec![("x", ItemOutcome::Done), ("y", ItemOutcome::Again(Duration::ZERO))]));
    assert_eq!(play.next().0, texts(&["Run[y,z]"]));
    play.answer("Run", handled(vec![("y", ItemOutcome::Done), ("z", ItemOutcome::Done)]));
    assert_eq!(play.next(), (vec![], Some(1)), "it waits for the one that failed");
    play.pass(1);
    assert_eq!(play.next().0, texts(&["Run[b]"]));
    play.answer("Run", handled(vec![("b", failed("shy"))]));
    play.next();
    assert_eq!(play.status.phase, "Failed");
    let error = play.state().error.clone();
    assert_eq!(error.as_deref(), Some("1 of 6 objects failed, the first of them b: shy"));
    play.given.reset = Some("1".to_owned());
    assert_eq!(play.next().0, texts(&["Run[b]"]), "only what failed comes again");
    play.answer("Run", handled(vec![("b", ItemOutcome::Done)]));
    play.next();
    assert_eq!(play.status.phase, "Succeeded");
}

#[test]
fn lists_that_cannot_be_kept_are_refused() {
    for items in [vec![Item::new("a"); 2], (0..5000).map(|n| Item::new(n.to_string())).collect()] {
        let mut play = Play::of(run_phase().runs(Step::batch(Unasked, 2)));
        play.next();
        play.answer("Run", Ok(Reply::Listed(items)));
        play.next();
        assert_eq!(play.status.phase, "Failed");
    }
    let mut play = Play::of(run_phase().runs(Step::batch(Unasked, 2)));
    play.next();
    play.answer("Run", Ok(Reply::Listed(vec![])));
    play.next();
    assert_eq!(play.status.phase, "Succeeded", "no objects are soon done");
}

#[test]
fn deletion_comes_before_everything_and_is_tried_until_it_succeeds() {
    let builder = Machine::builder("test")
        .initial("Run")
        .phase(run_phase().runs(work()).then("Succeeded").or("Failed"))
        .succeeds("Succeeded")
        .fails("Failed")
        .deletes("windlass.dev/test", Phase::new("Deleting").runs(work()).retries(0));
    let mut play = Play::new(builder.build().expect("a machine"));
    assert_eq!(play.next_raw(), Next::Guard);
    assert_eq!(play.status, PhaseStatus::default(), "nothing begins without the finalizer");
    play.given.guarded = true;
    assert_eq!(play.next().0, texts(&["Run"]));
    play.given.deleting = true;
    assert_eq!(play.next().0, texts(&["Deleting"]));
    play.answer("Run", done());
    play.answer("Deleting", fatal("stuck"));
    assert_eq!(play.next(), (vec![], Some(1)));
    assert_eq!(
        (play.status.phase.as_str(), play.status.conditions[1].message.as_str()),
        ("Deleting", "stuck")
    );
    play.pass(1);
    assert_eq!(play.next().0, texts(&["Deleting"]));
    play.answer("Deleting", done());
    assert_eq!(play.next_raw(), Next::Release);
    assert_eq!(play.next_raw(), Next::Release, "until it is gone");
    play.given.guarded = false;
    assert_eq!(play.next(), (vec![], None));
}

#[test]
fn a_phase_that_does_not_exist_stalls() {
    let mut play = Play::of(run_phase().runs(work()));
    play.status.phase = "Elsewhere".to_owned();
    assert_eq!(play.next(), (vec![], None));
    assert_eq!(play.conditions(), ("--S".to_owned(), "UnknownPhase".to_owned()));
}

#[test]
fn conditions_say_since_when() {
    let mut play = Play::of(run_phase().runs(work()));
    play.next();
    let since = |play: &Play| {
        play.status.conditions.iter().map(|own| own.last_transition_time.0.as_second()).collect::<Vec<_>>()
    };
    assert_eq!(since(&play), [1_000_000; 3]);
    play.pass(10);
    play.answer("Run", retry("no luck"));
    play.next();
    assert_eq!((since(&play), play.status.conditions[1].message.as_str()), (vec![1_000_000; 3], "no luck"));
    play.pass(10);
    play.next();
    play.answer("Run", done());
    play.next();
    assert_eq!(since(&play), [1_000_020, 1_000_020, 1_000_000]);
}

#[test]
fn a_step_that_must_not_run_twice_is_retried_later_each_time_until_the_limit() {
    let phase = run_phase().runs(Step::once(Unasked)).retries(2);
    let mut play = Play::of(phase.back_off(Duration::from_secs(2), Duration::from_secs(60)));
    for seconds in [2, 4] {
        assert_eq!(play.next().0, texts(&["Run"]));
        play.answer("Run", retry("no luck"));
        assert_eq!(play.next(), (vec![], Some(seconds)));
        play.pass(seconds as u64);
        assert_eq!(play.next().0, texts(&["Run?"]));
        play.answer("Run", Ok(Reply::NotHappened));
    }
    assert_eq!(play.next().0, texts(&["Run"]));
    play.answer("Run", retry("no luck"));
    play.next();
    assert_eq!(play.status.phase, "Failed");
}

#[test]
fn what_happens_when_a_phase_is_entered_again_has_another_name() {
    let mut play = Play::of(run_phase().runs(Step::once(Unasked)).may_jump("Pending"));
    let mut tokens = vec![];
    for _ in 0..3 {
        play.next();
        tokens.extend(play.state().intent.clone().map(|intent| intent.token));
        play.pass(1);
        play.answer("Run", Ok(Reply::Report(Report::jump("Pending"))));
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 3, "{tokens:?}");
}

#[test]
fn a_deletion_takes_as_long_as_it_takes() {
    let deletion = Phase::new("Deleting").runs(work()).timeout(Duration::from_secs(5));
    let machine = Machine::builder("test")
        .initial("Run")
        .phase(run_phase().runs(work()).then("Succeeded").or("Failed"))
        .succeeds("Succeeded")
        .fails("Failed")
        .deletes("windlass.dev/test", deletion)
        .build()
        .expect("a machine");
    let mut play = Play::new(machine);
    (play.given.deleting, play.given.guarded) = (true, true);
    assert_eq!(play.next(), (texts(&["Deleting"]), None));
    play.pass(60);
    assert_eq!(play.next(), (texts(&["Deleting"]), None), "nothing is looked at without end");
    play.answer("Deleting", retry("no luck"));
    assert_eq!(play.next(), (vec![], Some(1)));
    play.pass(1);
    play.answer("Deleting", done());
    assert_eq!(play.next_raw(), Next::Release);
}

#[test]
fn a_batch_fits_into_a_status_whatever_goes_wrong() {
    let item = |n: usize, name: &str| Item { id: format!("{n:04}"), name: name.to_owned(), group: None };
    let mut play = Play::of(run_phase().runs(Step::batch(Unasked, 2000)));
    play.next();
    play.answer("Run", Ok(Reply::Listed((0..2000).map(|n| item(n, &"n".repeat(100))).collect())));
    play.next();
    let failed = |n: usize| (format!("{n:04}"), ItemOutcome::Failed(StepError::fatal("x".repeat(10_000))));
    play.answer("Run", Ok(Reply::Handled((0..2000).map(failed).collect())));
    play.next();
    assert_eq!(play.status.phase, "Failed");
    let size = serde_json::to_string(&play.status).expect("JSON").len();
    assert!(size < 1_000_000, "{size} bytes");

    let mut play = Play::of(run_phase().runs(Step::batch(Unasked, 10)));
    play.next();
    play.answer("Run", Ok(Reply::Listed((0..2000).map(|n| item(n, &"n".repeat(1000))).collect())));
    play.next();
    assert_eq!(play.status.phase, "Failed");
    assert!(play.state().error.as_deref().is_some_and(|error| error.contains("do not fit")));
}
