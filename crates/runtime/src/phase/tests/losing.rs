//! What machines do when an answer is lost, something else is asked for meanwhile, or they may no longer act.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use http::{Method, Request, Response};
use kube::{Client, api::DynamicObject, client::Body};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    Duration,
    server::{client, create},
    serving::{eventually, key, patch, reconciler, run, status},
};
use crate::{
    Action, Controller, Reconciler,
    metrics::Metrics,
    phase::{self, Ctx, Report, Step, StepError},
};

type Answer = Result<Report, StepError>;

/// What becomes of a write.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// It does not arrive.
    Request,
    /// It does, and its answer does not.
    Answer,
    /// It is refused with this code.
    Refused(u16),
}

/// A client that loses writes of a status while it is told to: this many.
fn losing(client: &Client, loss: Loss, n_losses: &Arc<AtomicUsize>) -> Client {
    let (client, n_losses) = (client.clone(), Arc::clone(n_losses));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, n_losses) = (client.clone(), Arc::clone(&n_losses));
        async move {
            let is_status = request.method() == Method::PUT && request.uri().path().ends_with("/status");
            let is_lost =
                is_status && n_losses.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
            let lost = || kube::Error::Service(io::Error::other("lost").into());
            match loss {
                _ if !is_lost => client.send(request).await,
                Loss::Request => Err(lost()),
                Loss::Answer => client.send(request).await.and_then(|_| Err(lost())),
                Loss::Refused(code) => {
                    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                        "status": "Failure", "message": "not now", "reason": "No", "code": code});
                    let body = Body::from(status.to_string().into_bytes());
                    Ok(Response::builder().status(code).body(body).expect("an answer"))
                }
            }
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn what_a_step_has_answered_is_not_thrown_away_with_one_write() {
    for loss in [Loss::Request, Loss::Answer, Loss::Refused(503), Loss::Refused(429)] {
        let real = client().await;
        create(&real, "job", json!({})).await;
        let (n_losses, n_calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (losses, calls) = (Arc::clone(&n_losses), Arc::clone(&n_calls));
        let step = Step::new(move |_: Ctx<DynamicObject>| {
            calls.fetch_add(1, SeqCst);
            // The next writes are those that say so.
            losses.store(2, SeqCst);
            async { Answer::Ok(Report::done()) }
        });
        let reconciler = reconciler(&losing(&real, loss, &n_losses), run(step));
        assert_eq!(reconciler.reconcile(&key()).await.expect("it goes well"), Action::Done, "{loss:?}");
        assert_eq!(
            (n_calls.load(SeqCst), &status(&real).await["phase"]),
            (1, &json!("Succeeded")),
            "{loss:?}"
        );
    }
}

#[tokio::test]
async fn a_refusal_is_not_asked_for_again() {
    let real = client().await;
    create(&real, "job", json!({})).await;
    let n_losses = Arc::new(AtomicUsize::new(usize::MAX));
    let step = Step::new(|_: Ctx<DynamicObject>| async { Answer::Ok(Report::done()) });
    let reconciler = reconciler(&losing(&real, Loss::Refused(422), &n_losses), run(step));
    reconciler.reconcile(&key()).await.expect_err("it is refused");
    assert_eq!(n_losses.load(SeqCst), usize::MAX - 1);
}

#[tokio::test]
async fn a_barrier_that_is_set_while_a_step_is_under_way_holds_after_it() {
    for barrier in ["after:Run", "before:Succeeded,after:Run"] {
        let real = client().await;
        create(&real, "job", json!({})).await;
        let admin = real.clone();
        let step = Step::new(move |_: Ctx<DynamicObject>| {
            let client = admin.clone();
            async move {
                patch(&client, json!({"metadata": {"annotations": {phase::BARRIER: barrier}}})).await;
                Answer::Ok(Report::done())
            }
        });
        let reconciler = reconciler(&real, run(step));
        assert_eq!(reconciler.reconcile(&key()).await.expect("it goes well"), Action::Done);
        let held = status(&real).await;
        assert_eq!((&held["phase"], &held["state"]["Run"]["done"]), (&json!("Run"), &json!(true)), "{held}");
        patch(&real, json!({"metadata": {"annotations": {phase::BARRIER: null}}})).await;
        reconciler.reconcile(&key()).await.expect("it goes well");
        assert_eq!(status(&real).await["phase"], "Succeeded");
    }
}

#[tokio::test]
async fn who_may_no_longer_act_writes_nothing() {
    let real = client().await;
    create(&real, "job", json!({})).await;
    let (leads, n_calls) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (loses, calls) = (Arc::clone(&leads), Arc::clone(&n_calls));
    let step = Step::new(move |_: Ctx<DynamicObject>| {
        loses.store(false, SeqCst);
        calls.fetch_add(1, SeqCst);
        async { Answer::Ok(Report::done()) }
    });
    let controller = Controller::new("test", reconciler(&real, run(step)), &Metrics::default());
    controller.queue().add(key());
    let stop = CancellationToken::new();
    let may_act = { Arc::new(move || leads.load(SeqCst)) };
    let running = tokio::spawn({
        let stop = stop.clone();
        async move {
            controller.run_while(stop, may_act).await;
            controller.last_failure()
        }
    });
    eventually("it is called", || async { n_calls.load(SeqCst) == 1 }).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    stop.cancel();
    let failure = running.await.expect("it ends").expect("it failed");
    assert_eq!(failure.why, "this process does not lead");
    let status = status(&real).await;
    assert_eq!(
        (&status["phase"], &status["state"]["Run"]["done"]),
        (&json!("Run"), &json!(null)),
        "{status}"
    );
}
