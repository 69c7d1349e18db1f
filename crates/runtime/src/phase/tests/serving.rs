//! Machines on a real API server.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Duration, Machine, Phase,
    server::{client, client_with, create, jobs, resource},
};
use crate::{
    Action, Controller, Informers, Key, Reconciler, Scope,
    metrics::Metrics,
    phase::{self, Ctx, Once, PhaseReconciler, Report, Step, StepError},
};

type Job = DynamicObject;
type Answer = Result<Report, StepError>;

/// Waits for a state.
pub(super) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub(super) fn reconciler(client: &Client, phase: Phase<Job>) -> PhaseReconciler<Job> {
    let machine = Machine::builder("test").initial("Run").phase(phase.then("Succeeded").or("Failed"));
    let machine = machine.succeeds("Succeeded").fails("Failed").build().expect("a machine");
    PhaseReconciler::with_resource(machine, client.clone(), resource())
}

pub(super) fn run(step: Step<Job>) -> Phase<Job> {
    Phase::new("Run").runs(step)
}

pub(super) async fn status(client: &Client) -> Value {
    jobs(client).get("job").await.expect("it is there").data["status"].clone()
}

pub(super) async fn patch(client: &Client, patch: Value) {
    jobs(client).patch("job", &PatchParams::default(), &Patch::Merge(patch)).await.expect("it is patched");
}

async fn patch_status(api: &Api<Job>, patch: Value) {
    api.patch_status("job", &PatchParams::default(), &Patch::Merge(patch)).await.expect("it is patched");
}

pub(super) fn key() -> Key {
    Key::new("default", "job")
}

#[tokio::test]
async fn the_status_of_others_stays_although_they_write_meanwhile() {
    let client = client().await;
    create(&client, "job", json!({})).await;
    let api = jobs(&client);
    let other = json!({"type": "Other", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    patch_status(&api, json!({"status": {"theirs": 0, "conditions": [other]}})).await;
    let own = api.clone();
    let step = Step::new(move |ctx: Ctx<Job>| {
        let api = own.clone();
        async move {
            assert_eq!(ctx.object.name_any(), "job");
            // Somebody writes between our read and our write.
            patch_status(&api, json!({"status": {"theirs": 1}})).await;
            Answer::Ok(Report::done().field("ours", 2))
        }
    });
    let action = reconciler(&client, run(step)).reconcile(&key()).await.expect("it goes well");
    assert_eq!(action, Action::Done);
    let status = status(&client).await;
    assert_eq!(
        (&status["phase"], &status["theirs"], &status["ours"]),
        (&json!("Succeeded"), &json!(1), &json!(2))
    );
    let kinds: Vec<&str> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|own| own["type"].as_str())
        .collect();
    assert_eq!(kinds, ["Other", "Ready", "Progressing", "Stalled"]);
}

#[tokio::test]
async fn whoever_takes_over_the_machine_is_not_overwritten() {
    let client = client().await;
    create(&client, "job", json!({})).await;
    let api = jobs(&client);
    let step = Step::new(move |_: Ctx<Job>| {
        let api = api.clone();
        async move {
            patch_status(&api, json!({"status": {"phase": "Succeeded"}})).await;
            Answer::Err(StepError::fatal("too late"))
        }
    });
    let reconciler = reconciler(&client, run(step));
    assert_eq!(reconciler.reconcile(&key()).await.expect("it goes well"), Action::After(Duration::ZERO));
    assert_eq!(status(&client).await["phase"], "Succeeded");
    assert_eq!(reconciler.reconcile(&key()).await.expect("it goes well"), Action::Done);
}

#[tokio::test]
async fn a_kind_that_forgets_is_refused_before_anything_is_done() {
    let forgets = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    let keeps = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for (subresources, schema, why) in
        [(json!({"status": {}}), forgets, "schema"), (json!({}), keeps, "subresource")]
    {
        let client = client_with(subresources, schema).await;
        create(&client, "job", json!({})).await;
        let step = Step::new(|_: Ctx<Job>| async { Answer::Err(StepError::fatal("it was called")) });
        let error = reconciler(&client, run(step)).reconcile(&key()).await.expect_err("it is refused");
        assert!(error.to_string().contains(why), "{error}");
        let status = status(&client).await;
        assert_ne!(status["phase"], "Failed", "{status}");
    }
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changes() {
    let client = client().await;
    create(&client, "job", json!({})).await;
    let step =
        Step::new(|_: Ctx<Job>| async { Answer::Ok(Report::again(Duration::from_secs(60)).field("n", 1)) });
    let reconciler = reconciler(&client, run(step));
    let mut revisions = vec![];
    for _ in 0..3 {
        let action = reconciler.reconcile(&key()).await.expect("it goes well");
        assert!(matches!(action, Action::After(wait) if wait > Duration::from_secs(59)), "{action:?}");
        revisions.push(jobs(&client).get("job").await.expect("it is there").resource_version());
    }
    assert_eq!(revisions[1], revisions[2]);
    assert_eq!(revisions[0], revisions[1]);
}

#[tokio::test]
async fn a_pause_in_the_middle_holds_before_the_next_step() {
    let client = client().await;
    create(&client, "job", json!({})).await;
    let (admin, n_second) = (client.clone(), Arc::new(AtomicUsize::new(0)));
    let first = Step::new(move |_: Ctx<Job>| {
        let client = admin.clone();
        async move {
            patch(&client, json!({"metadata": {"annotations": {phase::PAUSED: "true"}}})).await;
            Answer::Ok(Report::done())
        }
    });
    let count = Arc::clone(&n_second);
    let second = Step::new(move |_: Ctx<Job>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Answer::Ok(Report::done()) }
    });
    let reconciler = reconciler(&client, run(Step::serial([("first", first), ("second", second)])));
    assert_eq!(reconciler.reconcile(&key()).await.expect("it goes well"), Action::Done);
    assert_eq!((n_second.load(Ordering::SeqCst), &status(&client).await["phase"]), (0, &json!("Run")));
    patch(&client, json!({"metadata": {"annotations": {phase::PAUSED: null}}})).await;
    reconciler.reconcile(&key()).await.expect("it goes well");
    assert_eq!((n_second.load(Ordering::SeqCst), &status(&client).await["phase"]), (1, &json!("Succeeded")));
}

#[tokio::test]
async fn panics_count_as_failures_and_hanging_steps_are_cut_off() {
    let client = client().await;
    create(&client, "job", json!({})).await;
    let hangs = Step::new(|_: Ctx<Job>| std::future::pending::<Answer>());
    let panics = Step::new(|ctx: Ctx<Job>| async move {
        assert_eq!(ctx.state.attempts, 0, "oh no");
        if ctx.state.attempts == 0 {
            panic!("oh no");
        }
        Answer::Ok(Report::done())
    });
    let phase =
        run(Step::parallel([("hangs", hangs), ("panics", panics)])).timeout(Duration::from_millis(300));
    let action = reconciler(&client, phase).reconcile(&key()).await.expect("it goes well");
    assert_eq!(action, Action::Done);
    let status = status(&client).await;
    assert_eq!((&status["phase"], &status["failedIn"]), (&json!("Failed"), &json!("Run")));
    let state = &status["state"]["Run"];
    assert_eq!(state["children"]["panics"]["error"], "it panicked: oh no");
    assert_eq!(state["error"], "it took longer than 300ms; it last failed: panics: it panicked: oh no");
}

/// Something that happens and then gives no answer.
struct Mute {
    client: Client,
    n_performed: Arc<AtomicUsize>,
}

#[async_trait]
impl Once<Job> for Mute {
    async fn perform(&self, ctx: Ctx<Job>) -> Answer {
        let status = status(&self.client).await;
        assert_eq!(status["state"]["Run"]["intent"]["token"], ctx.token(), "it is on record");
        assert!(ctx.token().ends_with("/Run/1"), "{}", ctx.token());
        self.n_performed.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }

    async fn happened(&self, ctx: Ctx<Job>) -> Result<Option<Report>, StepError> {
        assert!(ctx.token().ends_with("/Run/1"), "{}", ctx.token());
        Ok((self.n_performed.load(Ordering::SeqCst) > 0).then(Report::done))
    }
}

#[tokio::test]
async fn what_must_not_happen_twice_is_on_record_when_it_happens() {
    let client = client().await;
    create(&client, "job", json!({})).await;
    let n_performed = Arc::new(AtomicUsize::new(0));
    let process = || {
        let once = Mute { client: client.clone(), n_performed: Arc::clone(&n_performed) };
        reconciler(&client, run(Step::once(once)))
    };
    let first = tokio::spawn({
        let reconciler = process();
        async move { reconciler.reconcile(&key()).await.map(drop) }
    });
    eventually("it happens", || async { n_performed.load(Ordering::SeqCst) == 1 }).await;
    first.abort();
    process().reconcile(&key()).await.expect("it goes well");
    assert_eq!(status(&client).await["phase"], "Succeeded");
    assert_eq!(n_performed.load(Ordering::SeqCst), 1, "it happened once");
}

#[tokio::test]
async fn a_controller_runs_resets_and_deletes_objects() {
    let client = client().await;
    let (works_tx, works_rx) = watch::channel(false);
    let (deletes, held) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let step = Step::new(move |_: Ctx<Job>| {
        let works = *works_rx.borrow();
        async move { if works { Ok(Report::done()) } else { Err(StepError::fatal("not yet")) } }
    });
    let (may_go, n_held) = (Arc::clone(&deletes), Arc::clone(&held));
    let deletion = Step::new(move |_: Ctx<Job>| {
        let may_go = Arc::clone(&may_go);
        n_held.fetch_add(1, Ordering::SeqCst);
        async move {
            may_go.notified().await;
            Answer::Ok(Report::done())
        }
    });
    let machine = Machine::builder("test")
        .initial("Run")
        .phase(run(step).then("Succeeded").or("Failed"))
        .succeeds("Succeeded")
        .fails("Failed")
        .deletes("windlass.dev/test", Phase::new("Deleting").runs(deletion))
        .build()
        .expect("a machine");
    let reconciler = PhaseReconciler::with_resource(machine, client.clone(), resource());
    let informer = Informers::new(client.clone()).of_resource(&resource(), &Scope::all());
    let controller =
        Controller::new("test", reconciler, &Metrics::default()).reconciles_if(&informer, phase::asked);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });

    create(&client, "job", json!({})).await;
    let is_in = |phase: &'static str| {
        let client = client.clone();
        move || {
            let client = client.clone();
            async move { status(&client).await["phase"] == phase }
        }
    };
    eventually("it fails", is_in("Failed")).await;
    works_tx.send(true).expect("someone listens");
    patch(&client, json!({"metadata": {"annotations": {phase::RESET: "1"}}})).await;
    eventually("it succeeds", is_in("Succeeded")).await;
    jobs(&client).delete("job", &DeleteParams::default()).await.expect("it is deleted");
    eventually("it is being deleted", is_in("Deleting")).await;
    eventually("it is asked", || async { held.load(Ordering::SeqCst) > 0 }).await;
    deletes.notify_one();
    eventually("it is gone", || async { jobs(&client).get_opt("job").await.expect("an answer").is_none() })
        .await;
    stop.cancel();
    running.await.expect("it ends");
}
