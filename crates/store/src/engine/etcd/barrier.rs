//! Barriers: making sure that the tables hold everything acknowledged before a reader asked.
//!
//! A reader needs to know how far etcd has come, and then that the tables have come as far. The first takes a
//! request to etcd; readers that ask while one is under way wait for the next and share it, so any number of
//! readers costs one request at a time. The second is mostly true already. When it is not, because writes
//! outside our prefix have moved etcd on, the feed asks its watch for progress; where an etcd is too old to be
//! believed about progress, a hidden key is written, and its change arriving proves it. Start at
//! [`Shared::confirm`].

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{Shared, feed::went_back, keyspace::revision_from, load::newest_revision, wire::PutRequest};
use crate::{ReadError, Revision};

/// How long to wait for an ordinary change to make a write of the hidden key unnecessary.
const MARKER_GRACE: Duration = Duration::from_millis(10);

/// Pause before asking again after a failure: reading is harmless to repeat.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Where a reader is told how far etcd has come.
pub(super) type Asker = oneshot::Sender<Result<Revision, Arc<str>>>;

impl Shared {
    /// Waits until the tables hold everything that anyone was told of before this was called.
    pub(super) async fn confirm(&self) -> Result<(), ReadError> {
        let deadline = Instant::now() + self.request_timeout;
        let (answer_tx, answer_rx) = oneshot::channel();
        // Nobody receives once the store has stopped; that is what is reported then.
        let _ = self.askers_tx.send(answer_tx);
        let asked = tokio::select! {
            reason = self.hub.stopped() => return Err(ReadError::Stopped(reason)),
            asked = timeout_at(deadline, answer_rx) => asked,
        };
        match asked {
            Ok(Ok(Ok(revision))) => self.catch_up(revision, deadline).await,
            Ok(Ok(Err(reason))) => Err(ReadError::Unavailable(reason)),
            Ok(Err(_)) => Err(ReadError::Stopped(self.hub.stopped().await)),
            Err(_) => Err(ReadError::Unavailable("no answer from etcd in time".into())),
        }
    }

    /// Waits until the tables have reached `revision`, which need not be one of our changes.
    pub(super) async fn catch_up(&self, revision: Revision, deadline: Instant) -> Result<(), ReadError> {
        if self.tables.window().head >= revision {
            return Ok(());
        }
        self.wanted_tx.send_if_modified(|wanted| {
            let further = revision > *wanted;
            *wanted = revision.max(*wanted);
            further
        });
        self.reached(revision, deadline).await
    }

    /// Waits until the tables have reached `revision`, which is one of our changes and will come.
    pub(super) async fn reached(&self, revision: Revision, deadline: Instant) -> Result<(), ReadError> {
        tokio::select! {
            reason = self.hub.stopped() => Err(ReadError::Stopped(reason)),
            reached = timeout_at(deadline, self.tables.reached(revision)) => reached.map_err(|_| {
                let head = self.tables.window().head;
                ReadError::Unavailable(format!("etcd is at revision {revision}, seen up to {head}").into())
            }),
        }
    }
}

/// Answers askers, all that wait with one request, until the store stops.
pub(super) async fn run_rounds(shared: Arc<Shared>, mut askers_rx: mpsc::UnboundedReceiver<Asker>) {
    let mut askers = Vec::new();
    while askers_rx.recv_many(&mut askers, usize::MAX).await > 0 {
        let answer = ask(&shared).await;
        for asker in askers.drain(..) {
            // Those that are gone have run out of time.
            let _ = asker.send(answer.clone());
        }
    }
}

/// Learns how far etcd has come.
async fn ask(shared: &Shared) -> Result<Revision, Arc<str>> {
    let deadline = Instant::now() + shared.request_timeout;
    loop {
        let seen = shared.tables.window().head;
        let failure = match newest_revision(&shared.client, &shared.keys).await {
            Ok(revision) if revision < seen => {
                let reason = went_back(seen, Some(revision));
                shared.hub.stop(&reason);
                return Err(reason.into());
            }
            Ok(revision) => return Ok(revision),
            Err(failure) => failure,
        };
        shared.look_at(&failure);
        if failure.had_no_effect() || Instant::now() + RETRY_PAUSE > deadline {
            return Err(failure.to_string().into());
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Writes the hidden key when the feed needs proof that it has caught up, until the store stops.
pub(super) async fn run_marker(shared: Arc<Shared>) {
    let mut wanted_rx = shared.wanted_tx.subscribe();
    let mut progress_rx = shared.progress.subscribe();
    loop {
        let wanted = *wanted_rx.borrow_and_update();
        let trusted = *progress_rx.borrow_and_update();
        let head = shared.tables.window().head;
        if trusted || wanted <= head || timeout(MARKER_GRACE, shared.tables.reached(wanted)).await.is_ok() {
            tokio::select! {
                // The senders are in `shared`.
                _ = wanted_rx.changed() => {}
                _ = progress_rx.changed() => {}
            }
            continue;
        }
        match shared.client.call(PutRequest { key: shared.keys.marker(), value: Bytes::new() }).await {
            Ok(answer) => {
                let written = revision_from(answer.header.unwrap_or_default().revision);
                // Should the watch have broken meanwhile, the next one brings it, or another is written.
                let _ = timeout(shared.request_timeout, shared.tables.reached(written)).await;
            }
            Err(failure) => {
                shared.look_at(&failure);
                tracing::warn!(%failure, "cannot write the barrier key");
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}
