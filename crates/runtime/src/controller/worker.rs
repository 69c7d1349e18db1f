//! One of the workers of a controller: takes keys, has them looked after, and settles what comes of it.

use std::{any::Any, borrow::Cow, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::{Action, Failure, ReconcileError, Reconciler};
use crate::{Key, metrics::ControllerMetrics, queue::Queue};

pub(super) struct Worker {
    pub(super) name: Cow<'static, str>,
    pub(super) queue: Queue<Key>,
    pub(super) metrics: ControllerMetrics,
    pub(super) timeout: Option<Duration>,
    pub(super) last_failure: Arc<Mutex<Option<Failure>>>,
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
            let key = work.key().clone();
            let begun = Instant::now();
            self.metrics.active.inc();
            let active = Active(self.metrics.active.clone());
            let ended = self.reconcile(&key).await;
            drop(active);
            self.metrics.times.observe(begun.elapsed().as_secs_f64());
            self.settle(key, ended);
            drop(work);
        }
    }

    async fn reconcile(&self, key: &Key) -> Ended {
        // The call itself may panic, too, before there is a future.
        let once = AssertUnwindSafe(async { self.reconciler.reconcile(key).await }).catch_unwind();
        let caught = match self.timeout {
            None => once.await,
            Some(most) => match tokio::time::timeout(most, once).await {
                Ok(caught) => caught,
                Err(_) => return Ended::Late(most),
            },
        };
        match caught {
            Ok(Ok(action)) => Ended::Well(action),
            Ok(Err(error)) => Ended::Badly(error),
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
                    tracing::error!(controller = %self.name, %key, %error, "it failed, and is not tried again until something changes");
                } else {
                    tracing::warn!(controller = %self.name, %key, %error, "it failed, and is tried again");
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
                self.metrics.delays.inc();
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
