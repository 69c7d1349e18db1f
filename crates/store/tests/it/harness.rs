//! Where the suites get the stores of each engine from.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use tempfile::TempDir;
use windlass_store::{
    Directory, Disk, DiskFile, Embedded, Etcd, EtcdConfig, Memory, Retention, Seal, Store,
    conformance::{Harness, ManualClock},
};

use crate::etcd_server::EtcdServer;

/// Stores in memory.
#[derive(Default)]
pub(crate) struct Memories {
    pub(crate) retention: Retention,
    pub(crate) clock: ManualClock,
}

#[async_trait]
impl Harness for Memories {
    async fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(Memory::with(self.retention, self.clock.clone()).expect("a thread can be spawned"))
    }

    fn retention(&self) -> Retention {
        self.retention
    }

    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.clock)
    }
}

/// Stores in temporary directories.
#[derive(Default)]
pub(crate) struct Directories {
    pub(crate) retention: Retention,
    pub(crate) clock: ManualClock,
    /// Does not wait for the disk: for tests in which nothing crashes and much is written.
    pub(crate) without_sync: bool,
    /// How values are sealed on disk.
    pub(crate) seal: Option<Arc<dyn Seal>>,
    /// Where each store is, by the address of the store.
    pub(crate) homes: Mutex<HashMap<usize, TempDir>>,
}

impl Directories {
    fn open(&self, home: TempDir) -> Arc<dyn Store> {
        let disk: Arc<dyn Disk> = match self.without_sync {
            true => Arc::new(Unsynced(directory(home.path()))),
            false => Arc::new(directory(home.path())),
        };
        let clock = Arc::new(self.clock.clone());
        let store = Embedded::open_sealed_on(disk, clock, self.retention, self.seal.clone());
        let store: Arc<dyn Store> = Arc::new(store.expect("the store opens"));
        self.homes.lock().expect("nobody panicked").insert(address(&store), home);
        store
    }
}

fn directory(path: &Path) -> Directory {
    Directory::open(path).expect("a temporary directory")
}

fn address(store: &Arc<dyn Store>) -> usize {
    Arc::as_ptr(store).cast::<()>() as usize
}

#[async_trait]
impl Harness for Directories {
    async fn fresh(&self) -> Arc<dyn Store> {
        self.open(tempfile::tempdir().expect("a temporary directory"))
    }

    fn reopens(&self) -> bool {
        true
    }

    async fn reopen(&self, closed: Arc<dyn Store>) -> Arc<dyn Store> {
        let home = self.homes.lock().expect("nobody panicked").remove(&address(&closed));
        drop(closed);
        self.open(home.expect("it was opened here"))
    }

    fn retention(&self) -> Retention {
        self.retention
    }

    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.clock)
    }
}

/// Stores on one etcd, each behind a prefix of its own.
pub(crate) struct Etcds {
    server: EtcdServer,
    n_stores: AtomicU64,
    prefixes: Mutex<HashMap<usize, String>>,
    /// How values are sealed in etcd.
    pub(crate) seal: Option<Arc<dyn Seal>>,
}

impl Etcds {
    /// `None` where there is no etcd; that has been said then.
    pub(crate) async fn spawn() -> Option<Self> {
        let server = EtcdServer::spawn().await?;
        Some(Etcds { server, n_stores: AtomicU64::new(0), prefixes: Mutex::default(), seal: None })
    }

    async fn open(&self, prefix: String) -> Arc<dyn Store> {
        let config = EtcdConfig { prefix: prefix.clone(), seal: self.seal.clone(), ..self.server.config() };
        let store: Arc<dyn Store> = Arc::new(Etcd::connect(config).await.expect("etcd is up"));
        self.prefixes.lock().expect("nobody panicked").insert(address(&store), prefix);
        store
    }
}

#[async_trait]
impl Harness for Etcds {
    async fn fresh(&self) -> Arc<dyn Store> {
        self.open(format!("/store-{}/", self.n_stores.fetch_add(1, Ordering::Relaxed))).await
    }

    fn reopens(&self) -> bool {
        true
    }

    async fn reopen(&self, closed: Arc<dyn Store>) -> Arc<dyn Store> {
        let prefix = self.prefixes.lock().expect("nobody panicked").remove(&address(&closed));
        drop(closed);
        self.open(prefix.expect("it was opened here")).await
    }
}

/// A directory whose syncs do nothing.
struct Unsynced(Directory);

impl Disk for Unsynced {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(UnsyncedFile(self.0.create(name)?)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(UnsyncedFile(self.0.open(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }
}

struct UnsyncedFile(Box<dyn DiskFile>);

impl DiskFile for UnsyncedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
