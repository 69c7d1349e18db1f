//! Garbage collection: what belonged to something that is gone goes, too.
//!
//! [`monitors`] follows every kind that discovery finds, as metadata only, and keeps the [`graph`] of who owns whom. What
//! is worth a look goes through the controller's queue by its UID, and `Collector` decides what to do, as Kubernetes does:
//!
//! - An object all of whose owners are gone is deleted. That an owner is gone is never believed of the graph alone unless
//!   the deletion was seen: the API server is asked. That a list does not have it any more is not enough.
//! - An owner that is deleted in the foreground waits for those dependents that block it.
//! - An owner that is deleted as an orphan maker goes after its dependents were told to forget it.
//!
//! Deciding costs no request in the common cases, and every deletion holds only for the very revision that it was
//! decided on. So a hundred thousand dependents cost a hundred thousand requests, and not three times as many.

mod act;
mod graph;
mod monitors;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use kube::Client;
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use windlass_runtime::{Context, Controller, Key, Limits, Queue};

use self::{
    act::Collector,
    graph::{Graph, Uid},
    monitors::Monitors,
};
use crate::{Options, kinds::Kinds};

/// The name that it has in Kubernetes.
pub(crate) const NAME: &str = "garbage-collector-controller";

/// Group and plural: what stays the same when another version is preferred.
type KindId = (String, String);

/// What has not been seen.
#[derive(Default)]
struct Pending {
    /// The kinds that have not been seen completely, and since when.
    kinds: HashMap<KindId, Instant>,
    /// What is to be looked at when all have been seen.
    waiting: HashSet<Uid>,
}

/// What the collector knows.
struct World {
    client: Client,
    graph: Mutex<Graph>,
    kinds: RwLock<Arc<Kinds>>,
    pending: Mutex<Pending>,
    /// Told when the last of the pending kinds has been seen.
    settled: Notify,
    /// Whether the kinds have been found.
    is_ready: watch::Sender<bool>,
    /// Why they could not be found when they were last looked for.
    trouble: Mutex<Option<String>>,
    /// What is to be looked at again when other kinds are served.
    unserved: Mutex<HashSet<Uid>>,
    /// Where to put what is worth a look.
    queue: Mutex<Option<Queue<Key>>>,
}

impl World {
    fn new(client: Client) -> Self {
        World {
            client,
            graph: Mutex::default(),
            kinds: RwLock::default(),
            pending: Mutex::default(),
            settled: Notify::new(),
            is_ready: watch::channel(false).0,
            trouble: Mutex::default(),
            unserved: Mutex::default(),
            queue: Mutex::default(),
        }
    }

    /// Changes the graph, and has what that matters to looked after.
    fn change<T>(&self, change: impl FnOnce(&mut Graph) -> T) -> T {
        let mut graph = self.graph.lock();
        let outcome = change(&mut graph);
        let look = graph.take_look();
        drop(graph);
        self.enqueue(&look);
        outcome
    }

    fn enqueue<'a>(&self, look: impl IntoIterator<Item = &'a Uid>) {
        if let Some(queue) = &*self.queue.lock() {
            look.into_iter().for_each(|uid| queue.add(Key::new("", uid)));
        }
    }

    fn kinds(&self) -> Arc<Kinds> {
        Arc::clone(&self.kinds.read())
    }
}

/// The garbage collector.
pub(crate) fn controller(context: &Context, options: &Options) -> Controller {
    let world = Arc::new(World::new(context.client.clone()));
    // Each object fails on its own account: they share no bucket.
    let limits = Limits { per_second: 0.0, ..Limits::default() };
    context
        .controller(Collector::new(Arc::clone(&world)))
        .limits(limits, &context.metrics)
        .fed_by(Monitors(world))
        .workers(options.collector_workers)
}
