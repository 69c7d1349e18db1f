//! The embedded engine: the tables in memory, a log and a base on disk.
//!
//! Three threads serve it. The writer takes whatever transactions have gathered, appends them to the log as
//! one frame, syncs, applies, answers. A second one keeps the next segment of the log ready. A third one
//! sweeps up old history and rewrites the base, part by part, so that the log can be cut. Readers need none of
//! them.
//!
//! The files are described in `docs/store-format.md`. Start at [`Embedded::open`], then `writer.rs`.

mod checkpoint;
mod codec;
mod error;
mod frame;
mod header;
mod live;
mod log;
mod manifest;
mod planted;
mod queue;
mod recovery;
mod segment;
mod table_file;
pub mod tools;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::{Builder, JoinHandle},
};

use async_trait::async_trait;

use self::{
    checkpoint::{Checkpointer, Pace, Reseal, Sizes},
    error::Doing,
    header::StoreId,
    log::{Log, Segments, Spare, is_no_space},
    manifest::Manifest,
    queue::Queue,
    recovery::Recovered,
    writer::Writer,
};
pub use self::{
    error::{DamageError, OpenError},
    writer::Counters,
};
use crate::{
    Clock, CommitError, Directory, Disk, Read, ReadError, Retention, Revision, Seal, Snapshot, Store,
    SystemClock, Txn, Watch, Window,
    seal::Sealer,
    tables::{Retainer, Tables},
    watch::Hub,
};

/// A store on a directory of this machine.
pub struct Embedded {
    tables: Arc<Tables>,
    hub: Arc<Hub>,
    queue: Arc<Queue>,
    spare: Arc<Spare>,
    counters: Arc<Counters>,
    /// Parts that are not sealed with the current key.
    to_reseal: Arc<AtomicU64>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held until everything else is gone.
    _lock: Option<DirectoryLock>,
}

impl Embedded {
    /// Opens the store in `directory`, creating it if there is none, and takes it for this process alone.
    pub fn open(directory: &Path, retention: Retention) -> Result<Self, OpenError> {
        Self::open_sealed(directory, retention, None)
    }

    /// The same with values sealed on their way to disk. What is there and is not sealed as `seal` would do it is
    /// written anew in the background, and history from before the start is forgotten then.
    pub fn open_sealed(
        directory: &Path,
        retention: Retention,
        seal: Option<Arc<dyn Seal>>,
    ) -> Result<Self, OpenError> {
        let disk = Directory::open(directory).doing(|| format!("opening {}", directory.display()))?;
        let lock = lock(directory)?;
        if let Err(error) = name_holder(directory) {
            tracing::warn!(%error, "cannot say in {HOLDER} who has the directory");
        }
        let mut store = Self::open_sealed_on(Arc::new(disk), Arc::new(SystemClock), retention, seal)?;
        store._lock = Some(lock);
        Ok(store)
    }

    /// Opens the store on `disk`, creating it if there is none. That nobody else does so is up to the caller.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        retention: Retention,
    ) -> Result<Self, OpenError> {
        Self::open_sealed_on(disk, clock, retention, None)
    }

    /// The same with values sealed on their way to disk, as with [`Embedded::open_sealed`].
    pub fn open_sealed_on(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        retention: Retention,
        seal: Option<Arc<dyn Seal>>,
    ) -> Result<Self, OpenError> {
        let parts = Parts::open(disk, clock, retention, Sizes::default(), Sealer(seal))?;
        let Parts { writer, checkpointer, spare } = parts;
        let (tables, hub) = (writer.tables.clone(), writer.hub.clone());
        hub.spawn_publisher().doing(|| "starting the thread store-publish".into())?;
        let queue = Arc::new(Queue::default());
        let store = Embedded {
            tables,
            hub: hub.clone(),
            queue: queue.clone(),
            spare: spare.clone(),
            counters: writer.counters.clone(),
            to_reseal: checkpointer.reseal.left.clone(),
            threads: Mutex::default(),
            _lock: None,
        };
        let (done_tx, done_rx) = mpsc::channel();
        store.spawn("store-write", {
            let queue = queue.clone();
            move || queue.serve(writer, &done_rx)
        })?;
        store.spawn("store-prepare", {
            let hub = hub.clone();
            move || spare.tend(|error| hub.stop(&format!("preparing a segment failed: {error}")))
        })?;
        store.spawn("store-checkpoint", move || queue.tend(checkpointer, &done_tx, &hub))?;
        Ok(store)
    }

    fn spawn(&self, name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let guard = StopIfPanicking { name, hub: self.hub.clone(), queue: self.queue.clone() };
        let run = move || {
            let _guard = guard;
            run();
        };
        let thread =
            Builder::new().name(name.into()).spawn(run).doing(|| format!("starting the thread {name}"))?;
        self.threads.lock().expect("no one panics while holding the threads").push(thread);
        Ok(())
    }

    /// What the writer has done since the store was opened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Lets the threads finish what they have, and waits for them.
    fn join(&self) {
        self.queue.close();
        self.spare.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().expect("no one panics while holding the threads"));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// Stops the store when one of its threads dies of a bug, so that nobody waits for it.
struct StopIfPanicking {
    name: &'static str,
    hub: Arc<Hub>,
    queue: Arc<Queue>,
}

impl Drop for StopIfPanicking {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.hub.stop(&format!("the thread {} panicked", self.name));
            self.queue.abandon();
        }
    }
}

/// What the threads are made of, before there are threads. Tests drive it step by step.
struct Parts {
    writer: Writer,
    checkpointer: Checkpointer,
    spare: Arc<Spare>,
}

impl Parts {
    fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        retention: Retention,
        sizes: Sizes,
        sealer: Sealer,
    ) -> Result<Self, OpenError> {
        let manifest = find_or_create(&*disk)?;
        let mut recovered = Recovered::read(&*disk, manifest, false, &sealer)?;
        recovered.mend(&*disk)?;
        let next_segment = recovered.next_segment();
        let Recovered { mut manifest, state, ages, segments: found, chain, is_stale, .. } = recovered;
        let (head, live_bytes) = (state.head, state.live_bytes);
        let segments = Arc::new(Segments::default());
        segments.by_number().extend(found);
        let spare =
            Arc::new(Spare::new(disk.clone(), manifest.store, next_segment, sizes.segment(live_bytes)));
        let log = Log::start(spare.clone(), segments.clone(), chain, head, sealer.clone())
            .doing(|| "preparing a segment".into())?;
        manifest.known_segment = log.segment();
        manifest.closed_at = None;
        manifest.write(&*disk).doing(|| "writing the manifest".into())?;
        Recovered::clean(&*disk, &manifest, &segments)?;
        let tables = Arc::new(Tables::new(state));
        let hub = Hub::new(tables.clone());
        let retainer = Retainer { keep: retention, ages };
        let mut checkpointer = Checkpointer {
            disk,
            clock: clock.clone(),
            tables: tables.clone(),
            segments,
            spare: spare.clone(),
            manifest,
            sizes,
            pace: Pace::default(),
            sealer,
            reseal: Reseal::default(),
        };
        let mut writer = Writer::new(log, tables, hub, retainer, clock);
        writer.forget(writer.clock.now_millis());
        if is_stale {
            // The log holds what is sealed with other keys, or not at all, for as long as the past can be read.
            writer.retainer.ages.drop_through(head);
            writer.tables.raise_floor(head);
            checkpointer.reseal.until = Some((head, checkpointer.manifest.next_part));
            checkpointer.reseal.left.store(checkpointer.manifest.parts.len() as u64, Ordering::Relaxed);
            tracing::info!("sealing the store anew with the current key, in the background");
        }
        Ok(Parts { writer, checkpointer, spare })
    }
}

/// Reads the manifest, or writes the first one in a directory that has nothing of ours.
fn find_or_create(disk: &dyn Disk) -> Result<Manifest, OpenError> {
    if let Some(manifest) = Manifest::read(disk)? {
        return Ok(manifest);
    }
    let names = disk.list().doing(|| "listing the directory".into())?;
    if let Some(stray) = names.iter().find(|name| name.starts_with("log-") || name.starts_with("part-")) {
        return Err(DamageError::new("MANIFEST", 0, format!("it is missing, yet there is {stray}")).into());
    }
    let manifest = Manifest::empty(StoreId::random(), Revision::FIRST);
    manifest.write(disk).doing(|| "writing the manifest".into())?;
    Ok(manifest)
}

/// Takes the directory for whoever holds the handle. The directory itself is locked, so that no file needs to be
/// written for it, nor can be removed from under it.
fn lock(directory: &Path) -> Result<DirectoryLock, OpenError> {
    let doing = || format!("locking {}", directory.display());
    let handle = File::open(directory).doing(doing)?;
    match handle.try_lock() {
        Ok(()) => Ok(DirectoryLock(handle)),
        Err(std::fs::TryLockError::WouldBlock) => {
            let holder = std::fs::read_to_string(directory.join(HOLDER)).unwrap_or_default();
            Err(OpenError::InUse {
                directory: directory.display().to_string(),
                pid: holder.trim().parse().ok(),
            })
        }
        Err(std::fs::TryLockError::Error(error)) => Err(error).doing(doing),
    }
}

/// Says who has the directory, to people who may look into it.
fn name_holder(directory: &Path) -> std::io::Result<()> {
    let mut options = File::options();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(directory.join(HOLDER))?;
    write!(file, "{}", std::process::id())
}

/// A directory taken for this process.
struct DirectoryLock(File);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the handle would not do: a child that is being started holds a copy of it for a moment.
        let _ = self.0.unlock();
    }
}

/// Says which process has the directory, for people.
const HOLDER: &str = "LOCK";

#[async_trait]
impl Store for Embedded {
    async fn commit(&self, txn: Txn) -> Result<Revision, CommitError> {
        txn.validate()?;
        self.queue.commit(txn).await
    }

    async fn snapshot(&self, read: Read) -> Result<Snapshot, ReadError> {
        // Nobody is answered before the tables have it, so what they have is the latest.
        self.tables.snapshot(match read {
            Read::Latest | Read::Seen => None,
            Read::At(revision) => Some(revision),
        })
    }

    async fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watch, ReadError> {
        self.hub.watch(prefix, after)
    }

    async fn compact(&self, revision: Revision) -> Result<(), ReadError> {
        self.queue.compact(revision).await
    }

    fn window(&self) -> Window {
        self.tables.window()
    }

    async fn stopped(&self) -> Arc<str> {
        self.hub.stopped().await
    }

    fn to_reseal(&self) -> u64 {
        self.to_reseal.load(Ordering::Relaxed)
    }

    async fn close(&self) {
        self.queue.close();
        self.spare.close();
        // The writer says so when it has finished what was accepted.
        self.hub.stopped().await;
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.join();
    }
}
