//! What follows the kinds: one watch for each, for as long as discovery knows of it.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream::BoxStream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::ObjectMeta, core::PartialObjectMeta, runtime::watcher};
use parking_lot::Mutex;
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, sleep_until},
};
use windlass_runtime::{Feed, Key, Queue, informer::Reach};

use super::{
    KindId, Pending, World,
    graph::{Graph, Place, State, Uid},
};
use crate::{
    code,
    kinds::{Kind, Kinds, Metadata},
    text,
};

/// How often kinds are looked for when nothing is heard of definitions.
const REDISCOVER: Duration = Duration::from_secs(30);

/// How soon after a definition has changed: at once, and again for servers that hear of it late.
const AFTER_CHANGE: [Duration; 3] =
    [Duration::from_millis(5), Duration::from_millis(200), Duration::from_secs(2)];

/// How soon after discovery has failed, or a watch has panicked for the first time.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How long a watch that failed waits: at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(15));

/// How long anything waits for a kind that does not let itself be seen.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked whether the patience with such a kind is over.
pub(super) const UNSETTLED: Duration = Duration::from_secs(1);

/// Objects that are too many, too short-lived, and own nothing.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// The objects of a kind that were seen.
type Seen = Arc<Mutex<HashSet<Uid>>>;

/// Feeds the collector's queue.
pub(super) struct Monitors(pub(super) Arc<World>);

impl Pending {
    /// Kinds that fail for long do not keep everything else from going.
    fn is_settled(&self) -> bool {
        self.kinds.values().all(|since| since.elapsed() > PATIENCE)
    }
}

impl World {
    /// Whether all kinds have been seen: who depends on an object is not known before.
    fn is_settled(&self) -> bool {
        self.pending.lock().is_settled()
    }

    /// The same. If they have not, an object is looked at as soon as they have.
    pub(super) fn is_settled_for(&self, uid: &Uid) -> bool {
        let mut pending = self.pending.lock();
        let is_settled = pending.is_settled();
        if !is_settled {
            pending.waiting.insert(Arc::clone(uid));
        }
        is_settled
    }

    /// A kind has been seen, or is not there to be seen.
    fn is_seen(&self, id: &KindId) {
        let mut pending = self.pending.lock();
        pending.kinds.remove(id);
        if !pending.is_settled() {
            return;
        }
        let waiting = std::mem::take(&mut pending.waiting);
        drop(pending);
        self.enqueue(&waiting);
        self.settled.notify_waiters();
    }
}

#[async_trait]
impl Feed for Monitors {
    async fn synced(&self) {
        let mut is_ready = self.0.is_ready.subscribe();
        // The sender is in the world.
        let _ = is_ready.wait_for(|is_ready| *is_ready).await;
        loop {
            let settled = self.0.settled.notified();
            if self.0.is_settled() {
                return;
            }
            tokio::select! {
                () = settled => {}
                () = sleep(UNSETTLED) => {}
            }
        }
    }

    fn reach(&self) -> Reach {
        if let Some(why) = &*self.0.trouble.lock() {
            return Reach::Failing(why.clone());
        }
        match *self.0.is_ready.borrow() && self.0.is_settled() {
            true => Reach::Synced,
            false => Reach::Starting,
        }
    }

    async fn feed(&self, queue: &Queue<Key>) {
        let world = &self.0;
        *world.queue.lock() = Some(queue.clone());
        *world.graph.lock() = Graph::default();
        *world.pending.lock() = Pending::default();
        world.is_ready.send_replace(false);
        let mut monitors: HashMap<KindId, Monitor> = HashMap::new();
        let mut changes = self.definitions();
        let mut due = BTreeSet::from([Instant::now()]);
        loop {
            let next = due.first().copied().unwrap_or_else(|| Instant::now() + REDISCOVER);
            tokio::select! {
                change = changes.next() => match change {
                    // Definitions that change again and again are looked at no more often than once in a while.
                    Some(Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_))) if due.len() <= AFTER_CHANGE.len() => {
                        due.extend(AFTER_CHANGE.map(|after| Instant::now() + after));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) => sleep(PAUSE.0).await,
                    None => changes = self.definitions(),
                },
                () = sleep_until(next) => {
                    due.pop_first();
                    let again = match Kinds::discover(&world.client).await {
                        Ok(kinds) => {
                            *world.trouble.lock() = None;
                            self.follow(kinds, &mut monitors);
                            REDISCOVER
                        }
                        Err(error) => {
                            let error = text(&error);
                            tracing::warn!(error, "kinds could not be discovered");
                            *world.trouble.lock() = Some(error);
                            AFTER_FAILURE
                        }
                    };
                    if due.is_empty() {
                        due.insert(Instant::now() + again);
                    }
                }
            }
        }
    }
}

type Definition = PartialObjectMeta<CustomResourceDefinition>;

impl Monitors {
    /// What becomes of the definitions of kinds.
    fn definitions(&self) -> BoxStream<'static, watcher::Result<watcher::Event<Definition>>> {
        let definitions: Api<Definition> = Api::all(self.0.client.clone());
        watcher(definitions, watcher::Config::default()).boxed()
    }

    /// Follows exactly these kinds from now on.
    fn follow(&self, kinds: Kinds, monitors: &mut HashMap<KindId, Monitor>) {
        let world = &self.0;
        let wanted = kinds.preferred.iter().filter(|kind| is_followed(kind)).cloned();
        let wanted: HashMap<KindId, Arc<Kind>> = wanted.map(|kind| (id(&kind), kind)).collect();
        let is_complete = kinds.unknown.is_empty();
        *world.kinds.write() = Arc::new(kinds);
        let unserved = std::mem::take(&mut *world.unserved.lock());
        world.enqueue(&unserved);
        let gone: Vec<KindId> = monitors.keys().filter(|id| !wanted.contains_key(*id)).cloned().collect();
        // What could not be asked about may still be there.
        for id in gone.into_iter().filter(|_| is_complete) {
            if let Some(monitor) = monitors.remove(&id) {
                monitor.end(world, &id);
            }
        }
        for (id, kind) in wanted {
            let known = monitors.remove(&id);
            let monitor = match known {
                Some(known) if known.kind.resource == kind.resource => known,
                // Another version of it: what was seen before is compared with what is seen now.
                Some(known) => Monitor::start(world, kind, Arc::clone(&known.seen)),
                None => Monitor::start(world, kind, Seen::default()),
            };
            monitors.insert(id, monitor);
        }
        world.is_ready.send_replace(true);
    }
}

fn id(kind: &Kind) -> KindId {
    (kind.resource.group.clone(), kind.resource.plural.clone())
}

fn is_followed(kind: &Kind) -> bool {
    let resource = &kind.resource;
    kind.can(&["delete", "list", "watch"]) && !IGNORED.contains(&(&resource.group, &resource.plural))
}

/// What follows one kind.
struct Monitor {
    kind: Arc<Kind>,
    seen: Seen,
    task: AbortHandle,
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Monitor {
    fn start(world: &Arc<World>, kind: Arc<Kind>, seen: Seen) -> Self {
        world.pending.lock().kinds.insert(id(&kind), Instant::now());
        let following = Following {
            world: Arc::clone(world),
            api_version: kind.resource.api_version.as_str().into(),
            kind_name: kind.resource.kind.as_str().into(),
            kind: Arc::clone(&kind),
            seen: Arc::clone(&seen),
        };
        Monitor { kind, seen, task: tokio::spawn(following.go_on()).abort_handle() }
    }

    /// There is no such kind any more.
    fn end(self, world: &World, id: &KindId) {
        self.task.abort();
        let seen = std::mem::take(&mut *self.seen.lock());
        world.change(|graph| seen.iter().for_each(|uid| graph.lose(uid)));
        world.is_seen(id);
    }
}

struct Following {
    world: Arc<World>,
    kind: Arc<Kind>,
    api_version: Arc<str>,
    kind_name: Arc<str>,
    seen: Seen,
}

impl Following {
    /// Begins again whenever it has panicked: others do not notice.
    async fn go_on(self) {
        let mut pause = AFTER_FAILURE;
        loop {
            let ended = AssertUnwindSafe(self.run()).catch_unwind().await;
            let kind = &self.kind.resource;
            let has_panicked = ended.is_err();
            tracing::error!(
                version = kind.api_version,
                kind = kind.kind,
                has_panicked,
                "a watch begins again"
            );
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE.1);
        }
    }

    async fn run(&self) {
        let api = self.kind.everywhere(&self.world.client);
        let mut events = watcher(api, watcher::Config::default()).boxed();
        let mut listed = HashSet::new();
        let mut pause = PAUSE.0;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    self.hear(event, &mut listed);
                    pause = PAUSE.0;
                }
                Err(error) => {
                    let is_missing =
                        matches!(&error, watcher::Error::InitialListFailed(error) if code(error) == 404);
                    if !is_missing {
                        let kind = &self.kind.resource;
                        tracing::debug!(version = kind.api_version, kind = kind.kind, %error, "a watch failed and is tried again");
                    }
                    sleep(pause).await;
                    pause = pause.saturating_mul(2).min(PAUSE.1);
                }
            }
        }
    }

    fn hear(&self, event: watcher::Event<Metadata>, listed: &mut HashSet<Uid>) {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => {
                listed.extend(self.observe(object.metadata));
            }
            watcher::Event::Apply(object) => drop(self.observe(object.metadata)),
            watcher::Event::Delete(object) => {
                let uid = object.metadata.uid.unwrap_or_default();
                self.seen.lock().remove(uid.as_str());
                self.world.change(|graph| graph.remove(&uid));
            }
            watcher::Event::InitDone => {
                let mut seen = self.seen.lock();
                let gone: Vec<Uid> = seen.iter().filter(|uid| !listed.contains(*uid)).cloned().collect();
                seen.retain(|uid| listed.contains(uid));
                drop(seen);
                *listed = HashSet::new();
                self.world.change(|graph| {
                    gone.iter().for_each(|uid| graph.lose_as(uid, &self.api_version, &self.kind_name));
                });
                self.world.is_seen(&id(&self.kind));
            }
        }
    }

    fn observe(&self, metadata: ObjectMeta) -> Option<Uid> {
        let uid: Uid = metadata.uid.as_deref()?.into();
        self.seen.lock().insert(Arc::clone(&uid));
        let place = Place {
            api_version: Arc::clone(&self.api_version),
            kind: Arc::clone(&self.kind_name),
            namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
            name: metadata.name.as_deref().unwrap_or_default().into(),
        };
        let state = State::of(metadata);
        self.world.change(|graph| graph.observe(&uid, place, state));
        Some(uid)
    }
}
