//! The audit log: lines on their way to a file.
//!
//! One thread writes, so that nobody who serves requests waits for a disk by accident; lines that have gathered
//! meanwhile are one write. What waits is bounded in lines and bytes. See [`Mode`] for what happens at the bound.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    sync::Arc,
    thread,
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;

use super::rotate::{Files, Rotating};

/// Where the lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file that is put aside when it has become large.
    Files(Files),
    /// The standard output.
    Stdout,
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A request goes on once its line is written, or could not be.
    #[default]
    Blocking,
    /// Requests never wait. Lines for which there is no room are lost, and counted.
    Batch,
    /// As blocking; a request whose line cannot be written is refused, and what has been done already is written
    /// down before anything else is let in.
    Strict,
}

/// Most lines that wait to be written.
const MOST_LINES: usize = 10_000;

/// Most bytes that wait to be written; a line is let in while there are less.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// How long to wait before what could not be written is tried anew, when nobody asks.
const RETRY: Duration = Duration::from_secs(1);

/// How often it is tried once the log is being closed.
const LAST_TRIES: usize = 3;

/// A line on its way.
struct Entry {
    line: Vec<u8>,
    /// It is about something that has been done: where nothing may be lost, it is kept until it is written.
    is_fact: bool,
    /// Told whether it was written.
    written_tx: Option<oneshot::Sender<bool>>,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    n_bytes: usize,
    /// Facts that could not be written so far.
    is_behind: bool,
    is_closed: bool,
    closed_tx: Vec<oneshot::Sender<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    some: Condvar,
    mode: Mode,
    /// Lines that were lost.
    lost: Counter,
}

/// The audit log.
pub(super) struct Log {
    shared: Arc<Shared>,
}

impl Log {
    /// Opens the destination and starts to write to it.
    pub(super) fn open(destination: Destination, mode: Mode, lost: Counter) -> io::Result<Self> {
        let out: Box<dyn Out> = match destination {
            // The handle of the process may be held by whoever prints to it.
            Destination::Stdout => Box::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            Destination::Files(files) => Box::new(Rotating::open(files, Timestamp::now())?),
        };
        Self::over(out, mode, lost)
    }

    fn over(out: Box<dyn Out>, mode: Mode, lost: Counter) -> io::Result<Self> {
        let shared = Arc::new(Shared { queue: Mutex::default(), some: Condvar::new(), mode, lost });
        let writer = Arc::clone(&shared);
        thread::Builder::new().name("audit".to_owned()).spawn(move || write(&writer, out))?;
        Ok(Log { shared })
    }

    pub(super) fn mode(&self) -> Mode {
        self.shared.mode
    }

    /// Writes a line about something that may still be refused. False when it could not be written.
    pub(super) async fn announce(&self, line: Vec<u8>) -> bool {
        self.put(line, false).await
    }

    /// Writes a line about something that has been done.
    pub(super) async fn record(&self, line: Vec<u8>) -> bool {
        self.put(line, true).await
    }

    /// The same, where nobody can wait.
    pub(super) fn record_later(&self, line: Vec<u8>) {
        self.push(Entry { line, is_fact: true, written_tx: None });
    }

    /// Whether facts wait that could not be written, and still cannot be.
    pub(super) async fn is_behind(&self) -> bool {
        self.shared.queue.lock().is_behind && !self.put(vec![], false).await
    }

    async fn put(&self, line: Vec<u8>, is_fact: bool) -> bool {
        if self.shared.mode == Mode::Batch {
            return self.push(Entry { line, is_fact, written_tx: None });
        }
        let (written_tx, written_rx) = oneshot::channel();
        self.push(Entry { line, is_fact, written_tx: Some(written_tx) }) && written_rx.await.unwrap_or(false)
    }

    fn push(&self, entry: Entry) -> bool {
        let Shared { queue, some, mode, lost } = &*self.shared;
        let mut queue = queue.lock();
        let is_full = queue.entries.len() >= MOST_LINES || queue.n_bytes >= MOST_BYTES;
        // In strict mode, what is done is bounded by what was let in.
        let is_owed = *mode == Mode::Strict && entry.is_fact;
        if queue.is_closed || (is_full && !is_owed) {
            drop(queue);
            lost.inc();
            return false;
        }
        queue.n_bytes += entry.line.len();
        queue.entries.push_back(entry);
        drop(queue);
        some.notify_one();
        true
    }

    /// Writes what is left and ends. Returns once that is done.
    pub(super) async fn close(&self) {
        let (closed_tx, closed_rx) = oneshot::channel();
        {
            let mut queue = self.shared.queue.lock();
            queue.is_closed = true;
            queue.closed_tx.push(closed_tx);
        }
        self.shared.some.notify_one();
        // The other end is dropped when the writer has ended before.
        let _ = closed_rx.await;
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.queue.lock().is_closed = true;
        self.shared.some.notify_one();
    }
}

/// What lines are written to.
trait Out: Send {
    /// Writes whole lines, or nothing of them.
    fn put(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Sees to it that they last.
    fn settle(&mut self) -> io::Result<()>;
}

impl Out for Rotating {
    fn put(&mut self, lines: &[u8]) -> io::Result<()> {
        self.write(lines, Timestamp::now())
    }

    fn settle(&mut self) -> io::Result<()> {
        self.sync()
    }
}

impl Out for File {
    fn put(&mut self, lines: &[u8]) -> io::Result<()> {
        self.write_all(lines)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.flush()
    }
}

/// Writes until the log is closed and everything is written.
fn write(shared: &Shared, mut out: Box<dyn Out>) {
    let mut was_failing = false;
    let mut last_tries = 0;
    loop {
        let (entries, is_closed) = shared.next();
        let lines: Vec<u8> = entries.iter().flat_map(|entry| &entry.line).copied().collect();
        let outcome = if lines.is_empty() { Ok(()) } else { out.put(&lines) };
        match &outcome {
            Err(error) if !was_failing => tracing::error!(%error, "the audit log cannot be written"),
            Ok(()) if was_failing && !lines.is_empty() => {
                tracing::warn!("the audit log can be written again")
            }
            _ => {}
        }
        was_failing = outcome.is_err();
        last_tries += usize::from(is_closed);
        shared.settle(entries, outcome.is_ok(), last_tries >= LAST_TRIES);
        let mut queue = shared.queue.lock();
        if is_closed && queue.entries.is_empty() {
            let waiting = std::mem::take(&mut queue.closed_tx);
            drop(queue);
            if let Err(error) = out.settle() {
                tracing::error!(%error, "the end of the audit log may be lost");
            }
            for closed_tx in waiting {
                let _ = closed_tx.send(());
            }
            return;
        }
    }
}

impl Shared {
    /// What is to be written next.
    fn next(&self) -> (Vec<Entry>, bool) {
        let mut queue = self.queue.lock();
        if queue.is_behind && !queue.is_closed && queue.entries.iter().all(|entry| entry.written_tx.is_none())
        {
            // Whoever comes to ask wakes us.
            self.some.wait_for(&mut queue, RETRY);
        }
        while queue.entries.is_empty() && !queue.is_closed {
            self.some.wait(&mut queue);
        }
        queue.n_bytes = 0;
        (queue.entries.drain(..).collect(), queue.is_closed)
    }

    /// Tells those who wait, and keeps what must not be lost.
    fn settle(&self, entries: Vec<Entry>, is_written: bool, gives_up: bool) {
        let (mut kept, mut waiting) = (vec![], vec![]);
        for mut entry in entries {
            waiting.extend(entry.written_tx.take());
            if is_written || entry.line.is_empty() {
                continue;
            }
            match self.mode == Mode::Strict && entry.is_fact && !gives_up {
                true => kept.push(entry),
                false => drop(self.lost.inc()),
            }
        }
        let mut queue = self.queue.lock();
        queue.is_behind = !kept.is_empty();
        for entry in kept.into_iter().rev() {
            queue.n_bytes += entry.line.len();
            queue.entries.push_front(entry);
        }
        drop(queue);
        // Whoever hears of it may ask at once whether the log is behind.
        for written_tx in waiting {
            let _ = written_tx.send(is_written);
        }
    }
}

#[cfg(test)]
mod tests;
