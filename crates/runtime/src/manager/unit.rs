//! The life of one controller: enabled and disabled, put together, run, and put together anew.

use std::{future::pending, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{ControllerStatus, Shared};
use crate::{
    Context, Controller, Leadership, ReconcilerConfig,
    controller::{Stage, panic_text},
    informer::Reach,
    registry::BuildError,
};

/// How long to wait before a controller that could not be put together is, again: at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// After how long without trouble it is forgotten.
const FORGET: Duration = Duration::from_secs(300);

/// For how long a reconcile is under way before people are told.
const LONG: Duration = Duration::from_secs(60);

type Build = Box<dyn Fn(&Context) -> Result<Controller, BuildError> + Send + Sync>;

/// Where a controller is in its life.
#[derive(Clone, Debug)]
enum Life {
    /// The manager does not run.
    Idle,
    /// It is not to run.
    Disabled,
    /// It could not be put together, or has panicked.
    Broken(String),
    /// It is put together, and waits until this manager leads.
    Standby,
    /// It runs.
    Running,
    /// It is about to end.
    Stopping,
}

pub(super) struct Unit {
    name: Arc<str>,
    build: Build,
    config: watch::Sender<ReconcilerConfig>,
    now: Mutex<(Life, Option<Arc<Controller>>)>,
}

/// Says that someone acts on behalf of the leadership.
struct Leading<'a>(&'a watch::Sender<usize>);

impl<'a> Leading<'a> {
    fn new(n_leading: &'a watch::Sender<usize>) -> Self {
        n_leading.send_modify(|n_leading| *n_leading += 1);
        Leading(n_leading)
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n_leading| *n_leading -= 1);
    }
}

impl Unit {
    pub(super) fn new(name: Arc<str>, build: Build) -> Self {
        let config = watch::channel(ReconcilerConfig::default()).0;
        Unit { name, build, config, now: Mutex::new((Life::Idle, None)) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn config(&self) -> ReconcilerConfig {
        self.config.borrow().clone()
    }

    /// Has it run in this way from now on. The same again changes nothing.
    pub(super) fn configure(&self, config: ReconcilerConfig) {
        self.config.send_if_modified(|known| {
            let is_news = *known != config;
            *known = config;
            is_news
        });
    }

    /// Lives until the manager stops.
    pub(super) async fn live(&self, manager: &Shared, stop: &CancellationToken) {
        let (mut config, mut pause) = (self.config.subscribe(), AGAIN.0);
        while !stop.is_cancelled() {
            let wanted = config.borrow_and_update().clone();
            if !wanted.enabled {
                self.is(Life::Disabled);
                tracing::info!(controller = &*self.name, "it is disabled");
                tokio::select! {
                    () = stop.cancelled() => {}
                    _ = config.changed() => {}
                }
                continue;
            }
            let begun = Instant::now();
            let attended = AssertUnwindSafe(self.attend(manager, &wanted, &mut config, stop)).catch_unwind();
            let why = match attended.await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(panic) => format!("panic: {}", panic_text(&*panic)),
            };
            pause = if begun.elapsed() > FORGET { AGAIN.0 } else { pause };
            tracing::error!(controller = &*self.name, error = why, ?pause, "it is broken, and begins again");
            self.is(Life::Broken(why));
            tokio::select! {
                () = stop.cancelled() => {}
                _ = config.changed() => {}
                () = sleep(pause) => {}
            }
            pause = pause.saturating_mul(2).min(AGAIN.1);
        }
        self.is(Life::Idle);
    }

    /// Puts the controller together, and runs it until there is a reason not to.
    async fn attend(
        &self,
        manager: &Shared,
        wanted: &ReconcilerConfig,
        config: &mut watch::Receiver<ReconcilerConfig>,
        stop: &CancellationToken,
    ) -> Result<(), BuildError> {
        let controller = Arc::new(self.build(manager, wanted)?);
        *self.now.lock() = (Life::Standby, Some(Arc::clone(&controller)));
        let needs_leadership = manager.lease.get().is_some() && !controller.is_everywhere();
        let leadership = match needs_leadership {
            false => None,
            true => tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = config.changed() => return Ok(()),
                leadership = manager.leads() => Some(leadership),
            },
        };
        // Dropped last, when the controller and its informers are gone. It is looked at the leadership once more, because
        // nobody waits for who has not said yet that they act.
        let _leading = leadership.as_ref().map(|_| Leading::new(&manager.n_leading));
        if leadership.as_ref().is_none_or(Leadership::is_valid) {
            let has_ended = self.run(&controller, leadership.as_ref(), config, stop).await;
            if let Some(leadership) = leadership.filter(|_| !has_ended) {
                leadership.let_run_out();
            }
        }
        self.now.lock().1 = None;
        drop(controller);
        Ok(())
    }

    fn build(&self, manager: &Shared, wanted: &ReconcilerConfig) -> Result<Controller, BuildError> {
        let mut controller = (self.build)(&manager.context(&self.name, wanted))?;
        if let Some(n_workers) = wanted.workers {
            controller = controller.workers(n_workers);
        }
        if let Some(timeout) = wanted.timeout {
            controller = controller.timeout(timeout);
        }
        let filter = wanted.clone();
        Ok(controller.only(move |key| filter.sees(key)))
    }

    /// Runs the controller until there is a reason not to; whether everything that was under way has ended.
    async fn run(
        &self,
        controller: &Controller,
        leadership: Option<&Leadership>,
        config: &mut watch::Receiver<ReconcilerConfig>,
        stop: &CancellationToken,
    ) -> bool {
        self.is_now(Life::Running);
        let end = CancellationToken::new();
        let owned = leadership.cloned();
        let may_act = Arc::new(move || owned.as_ref().is_none_or(Leadership::is_valid));
        let mut run = Box::pin(controller.run_while(end.clone(), may_act));
        let over = async || match leadership {
            Some(leadership) => leadership.over().cancelled().await,
            None => pending().await,
        };
        let missing = async {
            controller.synced().await;
            controller.missing().await;
        };
        // What waits is dropped where others look after it from now on, or it could only be misunderstood.
        let (why, drops) = tokio::select! {
            biased;
            () = over() => ("this manager no longer leads", true),
            () = stop.cancelled() => ("the manager stops", false),
            _ = config.changed() => ("it is told something else", false),
            () = missing => ("a kind that it watches is gone", true),
            has_ended = &mut run => return has_ended,
        };
        tracing::info!(controller = &*self.name, why, "it stops");
        self.is_now(Life::Stopping);
        if drops {
            controller.queue().close();
        }
        end.cancel();
        // Who no longer leads has less time than others, even if it was about to stop: it is over before another begins.
        let cut = async {
            over().await;
            controller.queue().close();
            if let Some(leadership) = leadership {
                sleep_until(leadership.cut_at()).await;
            }
        };
        tokio::select! {
            biased;
            has_ended = &mut run => has_ended,
            () = cut => {
                tracing::warn!(controller = &*self.name, "what is still under way is cut off");
                controller.queue().close();
                false
            }
        }
    }

    /// Where it is in its life, without a controller.
    fn is(&self, life: Life) {
        *self.now.lock() = (life, None);
    }

    fn is_now(&self, life: Life) {
        self.now.lock().0 = life;
    }

    /// Tells the metrics what is measured only when someone looks.
    pub(super) fn measure(&self) {
        if let (_, Some(controller)) = &*self.now.lock() {
            controller.queue().measure();
        }
    }

    /// Why it is not ready, if it is not. One whose kind does not exist, or that has nothing to do, is.
    pub(super) fn check(&self) -> Result<(), String> {
        let (life, controller) = self.now.lock().clone();
        match (life, controller) {
            (Life::Disabled, _) => Ok(()),
            (Life::Idle, _) => Err("it does not run".to_owned()),
            (Life::Broken(why), _) => Err(why),
            (_, Some(controller)) => match (controller.stage(), controller.unreached()) {
                (Stage::Working, _) | (Stage::Waiting, None | Some(Reach::Missing)) => Ok(()),
                (Stage::Waiting, Some(Reach::Failing(why))) => Err(why),
                (Stage::Waiting, _) => Err("its caches have not seen everything".to_owned()),
                (Stage::Preparing, _) => Err("it is being prepared".to_owned()),
                (Stage::Unprepared(why), _) => Err(why),
                (Stage::Stopped, _) => Err("it begins again".to_owned()),
            },
            (_, None) => Err("it begins again".to_owned()),
        }
    }

    /// What people should know although it is ready.
    pub(super) fn warning(&self) -> Option<String> {
        let (_, controller) = self.now.lock().clone();
        let controller = controller?;
        match controller.unreached() {
            Some(Reach::Missing) => return Some("a kind that it watches does not exist".to_owned()),
            Some(Reach::Failing(why)) => return Some(format!("it does not see what changes: {why}")),
            _ => {}
        }
        let longest = controller.queue().longest_in_hand();
        if longest >= LONG {
            return Some(format!("a reconcile has been under way for {} s", longest.as_secs()));
        }
        let last = controller.last_failure()?;
        let n_failing = controller.queue().n_failing();
        Some(format!("{n_failing} failing, at last {}: {}", last.key, last.why))
    }

    pub(super) fn status(&self) -> ControllerStatus {
        let (life, controller) = self.now.lock().clone();
        let of = |get: fn(&Controller) -> usize| controller.as_deref().map_or(0, get);
        let is_running = controller.as_ref().is_some_and(|controller| controller.stage() == Stage::Working);
        let failure = controller.as_ref().and_then(|controller| controller.last_failure());
        let last_error = match &life {
            Life::Broken(why) => Some(why.clone()),
            _ => failure.map(|failure| format!("{}: {}", failure.key, failure.why)),
        };
        ControllerStatus {
            name: self.name.to_string(),
            enabled: self.config.borrow().enabled,
            running: is_running && matches!(life, Life::Running),
            synced: controller.as_ref().is_some_and(|controller| controller.unreached().is_none()),
            state: state(&life, controller.as_deref()),
            queue_length: of(|controller| controller.queue().len()),
            in_hand: of(|controller| controller.queue().in_hand()),
            failing: of(|controller| controller.queue().n_failing()),
            workers: of(Controller::n_workers),
            last_error,
        }
    }
}

/// What a controller does, or waits for, in words.
fn state(life: &Life, controller: Option<&Controller>) -> String {
    let text = match (life, controller) {
        (Life::Idle, _) => "idle",
        (Life::Disabled, _) => "disabled",
        (Life::Broken(_), _) => "broken",
        (Life::Standby, _) => "waiting to lead",
        (Life::Stopping, _) => "stopping",
        (Life::Running, None) => "beginning again",
        (Life::Running, Some(controller)) => match (controller.stage(), controller.unreached()) {
            (Stage::Working, Some(Reach::Failing(why))) => {
                return format!("working, but does not see what changes: {why}");
            }
            (Stage::Working, _) => "working",
            (Stage::Preparing, _) => "preparing",
            (Stage::Unprepared(why), _) => return format!("not prepared: {why}"),
            (Stage::Stopped, _) => "beginning again",
            (Stage::Waiting, Some(Reach::Missing)) => "waiting for a kind that does not exist",
            (Stage::Waiting, Some(Reach::Failing(why))) => {
                return format!("waiting for the API server: {why}");
            }
            (Stage::Waiting, _) => "waiting for its caches",
        },
    };
    text.to_owned()
}
