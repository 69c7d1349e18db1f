//! The engine on an etcd cluster: etcd decides and remembers, the tables answer.
//!
//! Every read and watch is served from memory, as with the other engines; etcd sees one watch, the commits,
//! and one small read at a time for all readers of the latest. Keys stand behind a prefix and values as they
//! are, revisions are etcd's own. Nothing is written besides commits, the shared round of [`compaction`] and,
//! on old versions, one hidden key. Start at [`Etcd::connect`]; [`feed`] is where changes come in.

mod barrier;
mod client;
mod commit;
mod compaction;
mod config;
mod failure;
mod feed;
mod keyspace;
mod load;
mod reseal;
mod wire;

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::{RwLock, mpsc, watch},
    task::JoinSet,
};

use self::{
    barrier::Asker,
    client::Client,
    failure::Failure,
    keyspace::Keyspace,
    load::{LoadError, Loaded},
    reseal::Stale,
};
use crate::{
    CommitError, Read, ReadError, Revision, Snapshot, Store, Txn, Watch, Window,
    seal::Sealer,
    tables::{Retainer, Tables},
    watch::Hub,
};

pub use self::config::{ConnectError, EtcdConfig, EtcdIdentity, EtcdTls, EtcdUser};

/// A store on an etcd cluster. Any number of processes may use one.
pub struct Etcd {
    shared: Arc<Shared>,
    /// Held by commits for as long as they take, and by [`Store::close`] to wait for them.
    gate: RwLock<()>,
    /// Ended by the store stopping; here to be waited for.
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

/// What the engine's tasks have in common.
struct Shared {
    client: Client,
    keys: Keyspace,
    tables: Arc<Tables>,
    hub: Arc<Hub>,
    /// Held while the tables are written, so that changes and compactions do not interleave.
    retainer: Mutex<Retainer>,
    /// The furthest revision that anyone waits for without knowing that it will come by itself.
    wanted_tx: watch::Sender<Revision>,
    /// Whether the feed's watch can be believed about progress.
    progress: watch::Sender<bool>,
    askers_tx: mpsc::UnboundedSender<Asker>,
    request_timeout: Duration,
    /// What is to be sealed anew.
    stale: Stale,
}

impl Shared {
    /// Stops the store if the failure shows that etcd is not the one it began with.
    fn look_at(&self, failure: &Failure) {
        if failure.is_other_cluster() {
            self.hub.stop(&failure.to_string());
        }
    }
}

impl Etcd {
    /// Connects and loads, and returns once everything that was there before can be read.
    pub async fn connect(config: EtcdConfig) -> Result<Self, ConnectError> {
        config.validate()?;
        let client = Client::new(&config)?;
        let EtcdConfig { endpoints, prefix, retention, request_timeout, compaction_interval, seal, .. } =
            config;
        let failed = |source| ConnectError::Load { endpoints: endpoints.join(","), source };
        let keys = Keyspace::new(&prefix, Sealer(seal));
        let loaded = load::oldest(&client, &keys, retention.min_changes).await;
        let Loaded { state, stale } = loaded.map_err(|error| match error {
            LoadError::Failed(failure) => failed(failure.into()),
            LoadError::Sealed(error) => ConnectError::Sealed(error),
        })?;
        let tables = Arc::new(Tables::new(state));
        let hub = Hub::new(tables.clone());
        hub.spawn_publisher().map_err(ConnectError::Thread)?;
        let (askers_tx, askers_rx) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            client,
            keys,
            tables,
            hub,
            retainer: Mutex::new(Retainer::new(retention)),
            wanted_tx: watch::channel(Revision::ZERO).0,
            progress: watch::channel(true).0,
            askers_tx,
            request_timeout,
            stale: Stale::new(stale),
        });
        let mut tasks = JoinSet::new();
        let mut spawn = |task| spawn_until_stopped(&mut tasks, &shared, task);
        spawn(Box::pin(feed::run(shared.clone())));
        spawn(Box::pin(barrier::run_rounds(shared.clone(), askers_rx)));
        spawn(Box::pin(barrier::run_marker(shared.clone())));
        if let Some(interval) = compaction_interval {
            spawn(Box::pin(compaction::run(shared.clone(), interval)));
        }
        let mut store = Etcd { shared, gate: RwLock::default(), tasks: tasks.into() };
        store.replay().await.map_err(|error| failed(error.into()))?;
        let resealing = Box::pin(reseal::run(store.shared.clone()));
        spawn_until_stopped(store.tasks.get_mut(), &store.shared, resealing);
        Ok(store)
    }

    /// Waits until the history since the load has come in, for as long as it keeps coming.
    async fn replay(&self) -> Result<(), ReadError> {
        loop {
            let before = self.window().head;
            match self.shared.confirm().await {
                Err(ReadError::Unavailable(_)) if self.window().head > before => {}
                confirmed => return confirmed,
            }
        }
    }

    /// Makes sure that a revision above the head is one that etcd does not have either.
    async fn look_ahead(&self, revision: Revision) -> Result<(), ReadError> {
        match revision > self.window().head {
            true => self.shared.confirm().await,
            false => Ok(()),
        }
    }
}

type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn spawn_until_stopped(tasks: &mut JoinSet<()>, shared: &Shared, task: Task) {
    let hub = shared.hub.clone();
    tasks.spawn(async move {
        tokio::select! {
            _ = hub.stopped() => {}
            () = task => {}
        }
    });
}

#[async_trait]
impl Store for Etcd {
    async fn commit(&self, txn: Txn) -> Result<Revision, CommitError> {
        txn.validate()?;
        self.shared.keys.check(&txn)?;
        let _open = self.gate.read().await;
        if let Some(reason) = self.shared.hub.stop_reason() {
            return Err(CommitError::Stopped(reason));
        }
        commit::commit(&self.shared, &txn).await
    }

    async fn snapshot(&self, read: Read) -> Result<Snapshot, ReadError> {
        match read {
            Read::Latest => self.shared.confirm().await?,
            Read::Seen => {}
            Read::At(revision) => self.look_ahead(revision).await?,
        }
        self.shared.tables.snapshot(match read {
            Read::Latest | Read::Seen => None,
            Read::At(revision) => Some(revision),
        })
    }

    async fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watch, ReadError> {
        self.look_ahead(after).await?;
        self.shared.hub.watch(prefix, after)
    }

    async fn compact(&self, revision: Revision) -> Result<(), ReadError> {
        self.look_ahead(revision).await?;
        self.window().check(revision)?;
        if let Err(failure) = compaction::compact(&self.shared.client, revision).await {
            self.shared.look_at(&failure);
            return Err(ReadError::Unavailable(failure.to_string().into()));
        }
        let mut retainer = self.shared.retainer.lock().expect("no one panics while applying");
        retainer.compact(&self.shared.tables, revision);
        Ok(())
    }

    fn window(&self) -> Window {
        self.shared.tables.window()
    }

    async fn stopped(&self) -> Arc<str> {
        self.shared.hub.stopped().await
    }

    fn to_reseal(&self) -> u64 {
        self.shared.stale.len()
    }

    async fn close(&self) {
        let _closed = self.gate.write().await;
        self.shared.hub.stop("closed");
        let mut tasks = self.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.shared.hub.stop("dropped");
    }
}
