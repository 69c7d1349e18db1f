//! The queue before the writer, and the loops of the threads behind it.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    checkpoint::Checkpointer,
    is_no_space,
    writer::{GROUP_BYTES, Writer},
};
use crate::{CommitError, ReadError, Revision, Txn, watch::Hub};

/// After this much quiet the last frame is vouched for. Longer would leave it in doubt for longer; shorter
/// would pay a second sync for every lone write.
const IDLE: Duration = Duration::from_millis(50);

/// How often the checkpointer looks whether something is due.
const TEND: Duration = Duration::from_millis(20);

/// How long it waits when the disk is full.
const FULL: Duration = Duration::from_secs(1);

/// Requests on their way to the writer.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    closed: Condvar,
}

#[derive(Default)]
struct Waiting {
    txns: Vec<Txn>,
    replies: Vec<oneshot::Sender<Result<Revision, CommitError>>>,
    compactions: Vec<(Revision, oneshot::Sender<Result<(), ReadError>>)>,
    is_closing: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.txns.is_empty() && self.compactions.is_empty()
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no one panics while holding the queue")
    }

    pub(crate) async fn commit(&self, txn: Txn) -> Result<Revision, CommitError> {
        let (reply_tx, reply_rx) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.is_closing {
                return Err(CommitError::Stopped("closed".into()));
            }
            waiting.txns.push(txn);
            waiting.replies.push(reply_tx);
            // The writer only sleeps on an empty queue.
            if waiting.txns.len() == 1 {
                self.arrived.notify_one();
            }
        }
        reply_rx.await.unwrap_or_else(|_| Err(CommitError::Unknown("the writer is gone".into())))
    }

    pub(crate) async fn compact(&self, revision: Revision) -> Result<(), ReadError> {
        let (reply_tx, reply_rx) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.is_closing {
                return Err(ReadError::Stopped("closed".into()));
            }
            waiting.compactions.push((revision, reply_tx));
            self.arrived.notify_one();
        }
        reply_rx.await.unwrap_or_else(|_| Err(ReadError::Stopped("the writer is gone".into())))
    }

    /// Accepts nothing more; what has been accepted is still done.
    pub(crate) fn close(&self) {
        self.waiting().is_closing = true;
        self.arrived.notify_one();
        self.closed.notify_all();
    }

    /// Accepts nothing more and drops what has been accepted: there is nobody to do it.
    pub(crate) fn abandon(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = Waiting { is_closing: true, ..Waiting::default() };
        drop(waiting);
        self.closed.notify_all();
        self.arrived.notify_all();
    }

    /// The writer's thread: serves the queue until it is closed and empty, and then closes the store with the
    /// checkpointer, which its thread hands over.
    pub(crate) fn serve(&self, mut writer: Writer, checkpointer_rx: &mpsc::Receiver<Checkpointer>) {
        let mut taken = Waiting::default();
        loop {
            let is_closing = self.take(&mut writer, &mut taken);
            if taken.is_empty() && is_closing {
                // A checkpointer that does not come has failed, and then the store has stopped already.
                return match checkpointer_rx.recv() {
                    Ok(mut checkpointer) => writer.close(&mut checkpointer),
                    Err(_) => writer.hub.stop("closed"),
                };
            }
            let Waiting { txns, replies, compactions, .. } = &mut taken;
            let mut replies = replies.drain(..);
            while !txns.is_empty() {
                let n_txns = group_len(txns);
                writer.commit(txns.drain(..n_txns), |outcome| {
                    // Whoever no longer waits does not want to know.
                    let _ = replies.next().expect("a reply for each transaction").send(outcome);
                });
            }
            drop(replies);
            for (floor, reply_tx) in compactions.drain(..) {
                let _ = reply_tx.send(writer.compact(floor));
            }
        }
    }

    /// Takes what has gathered, waiting for it if need be; true when nothing more will come.
    fn take(&self, writer: &mut Writer, taken: &mut Waiting) -> bool {
        let mut waiting = self.waiting();
        if waiting.is_empty() && !waiting.is_closing {
            drop(waiting);
            self.rest(writer);
            waiting = self.waiting();
        }
        // Swapped, not taken, so that both keep their buffers.
        std::mem::swap(&mut waiting.txns, &mut taken.txns);
        std::mem::swap(&mut waiting.replies, &mut taken.replies);
        std::mem::swap(&mut waiting.compactions, &mut taken.compactions);
        waiting.is_closing
    }

    /// Waits for work, and vouches for the last frame if there is none for a while.
    fn rest(&self, writer: &mut Writer) {
        let nothing = |waiting: &mut Waiting| waiting.is_empty() && !waiting.is_closing;
        let slept = self.arrived.wait_timeout_while(self.waiting(), IDLE, nothing);
        let (waiting, timeout) = slept.expect("no one panics while holding the queue");
        drop(waiting);
        if timeout.timed_out() {
            writer.idle();
            drop(
                self.arrived
                    .wait_while(self.waiting(), nothing)
                    .expect("no one panics while holding the queue"),
            );
        }
    }

    /// The checkpointer's thread: rewrites what is due until the queue is closed.
    pub(crate) fn tend(
        &self,
        mut checkpointer: Checkpointer,
        done_tx: &mpsc::Sender<Checkpointer>,
        hub: &Arc<Hub>,
    ) {
        let mut pause = TEND;
        loop {
            let waited = self.closed.wait_timeout_while(self.waiting(), pause, |waiting| !waiting.is_closing);
            let is_closing = waited.expect("no one panics while holding the queue").0.is_closing;
            if is_closing || hub.stop_reason().is_some() {
                let _ = done_tx.send(checkpointer);
                return;
            }
            checkpointer.tables.sweep();
            pause = match checkpointer.step_if_due() {
                Ok(true) => checkpointer.rest(),
                Ok(false) => TEND,
                Err(error) if is_no_space(&error) => {
                    tracing::warn!(%error, "the disk is full: the log cannot be cut");
                    FULL
                }
                Err(error) => return hub.stop(&format!("writing a checkpoint failed: {error}")),
            };
        }
    }
}

/// How many transactions from the front make up a group of bounded size.
fn group_len(txns: &[Txn]) -> usize {
    let mut n_bytes = 0;
    let fits = |txn: &&Txn| {
        n_bytes += txn.bytes();
        n_bytes <= GROUP_BYTES
    };
    txns.iter().take_while(fits).count().max(1)
}
