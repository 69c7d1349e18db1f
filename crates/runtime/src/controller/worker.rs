//! One of the workers of a controller: takes keys, has them looked after, and settles what comes of it.

use std::{any::Any, borrow::Cow, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::{task::consume_budget, time::Instant};

use super::{
    Action, Failure, ReconcileError, Reconciler,
    acting::{MayAct, acting},
};
use crate::{Key, metrics::ControllerMetrics, queue::Queue};

pub(super) struct Worker {
    pub(super) name: Cow<'static, str>,
    pub(super) queue: Queue<Key>,
    pub(super) metrics: ControllerMetrics,
    pub(super) timeout: Option<Duration>,
    pub(super) last_failure: Arc<Mutex<Option<Failure>>>,
    pub(super) may_act: MayAct,
    pub(super) reconciler: Arc<dyn Reconciler>,
}

/// How a reconcile ended.
enum Ended {
    Well(Action),
    Badly(ReconcileError),
    Panicked(String),
    Late(Duration),
}

/// Counts a worker as active while it is there, however it ends.
struct Active(Gauge);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What a panic has said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

impl Worker {
    pub(super) async fn run(self) {
        while let Some(work) = self.queue.take().await {
            // Where reconciles never wait, others have their turn all the same.
            consume_budget().await;
            // The time may have passed while the whole process was asleep: then what waits here is another's.
            if !(self.may_act)() {
                self.queue.close();
                return;
            }
            let key = work.key().clone();
            let begun = Instant::now();
            self.metrics.active.inc();
            let active = Active(self.metrics.active.clone());
            let ended = acting(&self.may_act, self.reconcile(&key)).await;
            drop(active);
            self.metrics.times.observe(begun.elapsed().as_secs_f64());
            self.settle(key, ended);
            drop(work);
        }
    }

    async fn reconcile(&self, key: &Key) -> Ended {
        // The call itself may panic, too, before there is a future, and that, when it is cut off.
        let once = AssertUnwindSafe(async {
            let once = self.reconciler.reconcile(key);
            match self.timeout {
                None => Ok(once.await),
                Some(most) => tokio::time::timeout(most, once).await.map_err(|_| most),
            }
        });
        match once.catch_unwind().await {
            Ok(Ok(Ok(action))) => Ended::Well(action),
            Ok(Ok(Err(error))) => Ended::Badly(error),
            Ok(Err(most)) => Ended::Late(most),
            Err(panic) => Ended::Panicked(panic_text(&*panic)),
        }
    }

    fn settle(&self, key: Key, ended: Ended) {
        match ended {
            Ended::Well(action) => self.went_well(key, action),
            Ended::Badly(error) => {
                self.failed(&key, &error.to_string());
                if error.is_final {
                    self.queue.forget(&key);
                    self.metrics.terminal.inc();
                    tracing::error!(controller = %self.name, %key, %error, "it failed, and is not tried again until something changes");
                } else {
                    match error.is_conflict() {
                        // Someone else was faster, and the cache has not heard of it yet.
                        true => tracing::debug!(controller = %self.name, %key, %error, "it is tried again"),
                        false => {
                            tracing::warn!(controller = %self.name, %key, %error, "it failed, and is tried again")
                        }
                    }
                    self.queue.add_failed(key);
                }
            }
            Ended::Panicked(text) => {
                self.failed(&key, &format!("panic: {text}"));
                self.metrics.panics.inc();
                tracing::error!(controller = %self.name, %key, panic = text, "it panicked, and is tried again");
                self.queue.add_failed(key);
            }
            Ended::Late(most) => {
                self.failed(&key, &format!("it took longer than {most:?}"));
                self.metrics.timeouts.inc();
                tracing::error!(controller = %self.name, %key, ?most, "it took too long, and is tried again");
                self.queue.add_failed(key);
            }
        }
    }

    fn went_well(&self, key: Key, action: Action) {
        self.queue.forget(&key);
        let mut last = self.last_failure.lock();
        if last.as_ref().is_some_and(|failure| failure.key == key) {
            *last = None;
        }
        drop(last);
        match action {
            Action::Done => drop(self.metrics.successes.inc()),
            Action::After(delay) => {
                let count = if delay.is_zero() { &self.metrics.requeues } else { &self.metrics.delays };
                count.inc();
                self.queue.add_after(key, delay);
            }
        }
    }

    fn failed(&self, key: &Key, why: &str) {
        self.metrics.failures.inc();
        self.metrics.errors.inc();
        let failure = Failure { key: key.clone(), why: why.to_owned(), at: jiff::Timestamp::now() };
        *self.last_failure.lock() = Some(failure);
    }
}
