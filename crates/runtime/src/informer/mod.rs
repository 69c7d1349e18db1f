//! Shared informers: one watch for everyone who wants to know about a kind.
//!
//! An [`Informer`] keeps the objects of a kind in a [`Cache`], as the API server tells of them through kube's `watcher`, and
//! tells its [`Subscription`]s what has changed, each at its own pace. Subscriptions and indexes come and go at any time;
//! one that comes late first hears of everything that is there. [`Informers`] gives out informers, so that all who want
//! the same kind in the same scope share one watch; it ends when nobody wants it any more.
//!
//! A kind that does not exist is waited for: see [`Reach`]. What was seen of one that goes away stays as it was until it is
//! back. Its objects may still be there, only not served for a while, and nobody must take that for their deletion.

mod cache;
mod subscription;
#[cfg(test)]
mod tests;
mod watching;

use std::{
    any::{Any, TypeId},
    collections::{HashMap, HashSet},
    fmt,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{Stream, StreamExt};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::{
    Api, Client, Resource,
    api::DynamicObject,
    core::{ApiResource, DynamicResourceScope, PartialObjectMeta},
    runtime::watcher,
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::AbortHandle, time::Instant};

use self::{
    cache::Applied,
    subscription::{Listeners, Unread},
    watching::{Renewal, is_expired, is_missing, telling, watching},
};
pub use self::{
    cache::{Cache, NotSeen},
    subscription::{Change, Subscription},
};
use crate::{
    Key,
    controller::{panic_text, told},
};

/// What an informer can be about.
pub trait Watched:
    Resource<DynamicType: Watchable> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType: Watchable> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static
{
}

/// What a kind can be told apart by.
pub trait Watchable: Clone + Eq + Hash + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Watchable for T {}

/// Which objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Those of this namespace; all of them without.
    pub namespace: Option<String>,
    /// Those that a label selector takes.
    pub labels: Option<String>,
    /// Those that a field selector takes.
    pub fields: Option<String>,
}

impl Scope {
    /// All objects.
    pub fn all() -> Self {
        Scope::default()
    }

    /// Those of a namespace.
    pub fn namespace(name: impl Into<String>) -> Self {
        Scope { namespace: Some(name.into()), ..Scope::default() }
    }

    fn config(&self) -> watcher::Config {
        let mut config = watcher::Config::default().timeout(watching::WATCH);
        config.label_selector.clone_from(&self.labels);
        config.field_selector.clone_from(&self.fields);
        config
    }
}

/// How much of a kind an informer sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Not all of it yet.
    Starting,
    /// All of it.
    Synced,
    /// There is no such kind. What was seen last stays.
    Missing,
    /// The API server does not answer, or refuses. What was seen last stays.
    Failing(String),
}

/// How long to wait before the API server is asked again: at first, at most, and for a kind that does not exist.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));
const AGAIN_MISSING: Duration = Duration::from_millis(500);

/// After how long without errors a wait is as short as at first. Answers in between do not count: a list may be taken,
/// and the watch that follows it refused, for ever.
const CALM: Duration = Duration::from_secs(60);

/// Shrinks an object before it is kept.
type Transform<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

/// An informer. Clones are the same informer, which goes on while there is one, or a subscription.
pub struct Informer<K>(Arc<Shared<K>>);

struct Shared<K> {
    cache: Cache<K>,
    listeners: Mutex<Listeners<K>>,
    reach: watch::Sender<Reach>,
    renewal: Arc<Renewal>,
    task: Mutex<Option<AbortHandle>>,
    /// How often everyone looks at everything again, and who sees to it.
    resync: Mutex<Option<(Duration, AbortHandle)>>,
}

impl<K> Drop for Shared<K> {
    fn drop(&mut self) {
        let resync = self.resync.lock().take().map(|(_, task)| task);
        self.task.lock().take().into_iter().chain(resync).for_each(|task| task.abort());
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Informer(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("reach", &*self.0.reach.borrow()).finish_non_exhaustive()
    }
}

impl<K: Watched> Informer<K> {
    /// Follows what an [`Api`] has.
    pub fn start(
        client: &Client,
        api_of: impl FnOnce(Client) -> Api<K>,
        scope: &Scope,
        transform: Option<Transform<K>>,
    ) -> Self {
        let shared = Shared::new(Renewal::default());
        let weak = Arc::downgrade(&shared);
        let client = telling(client, move |from| {
            if let Some(shared) = weak.upgrade() {
                shared.is_well();
                // Whatever was before has been heard: the watcher begins to watch when it is asked for more.
                shared.cache.saw(from);
                shared.renewal.is_taken();
            }
        });
        let watching = watching(api_of(client), scope.config(), Arc::clone(&shared.renewal));
        Self::begin(shared, watching, transform)
    }

    /// Follows a stream of what a watcher would say, which goes on after errors.
    pub fn follow(
        stream: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
        transform: Option<Transform<K>>,
    ) -> Self {
        Self::begin(Shared::new(Renewal::needless()), stream, transform)
    }

    fn begin(
        shared: Arc<Shared<K>>,
        stream: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
        transform: Option<Transform<K>>,
    ) -> Self {
        let weak = Arc::downgrade(&shared);
        let task = tokio::spawn(async move {
            let mut pause = Pause::default();
            let mut stream = Box::pin(stream);
            let mut hearing = Hearing::default();
            while let Some(event) = stream.next().await {
                let Some(shared) = weak.upgrade() else { return };
                match event {
                    Ok(event) => {
                        // Transforms are others' code, and one that panics must not stop everyone's watch.
                        let hear = || shared.hear(event, &mut hearing, transform.as_ref());
                        if let Err(panic) = catch_unwind(AssertUnwindSafe(hear)) {
                            let (kind, panic) = (std::any::type_name::<K>(), panic_text(&*panic));
                            tracing::error!(kind, panic, "a transform panicked: a change is lost");
                        }
                    }
                    Err(error) => {
                        shared.fail(&error);
                        drop(shared);
                        let wait = if is_missing(&error) { AGAIN_MISSING } else { pause.next() };
                        tokio::time::sleep(wait.mul_f64(0.75 + 0.5 * fastrand::f64())).await;
                    }
                }
            }
        });
        *shared.task.lock() = Some(task.abort_handle());
        Informer(shared)
    }

    /// The objects.
    pub fn cache(&self) -> &Cache<K> {
        &self.0.cache
    }

    /// Listens from now on: first to what is there.
    pub fn subscribe(&self) -> Subscription<K> {
        let unread = Unread::new();
        // Nothing is told meanwhile, so nothing is missed or told twice.
        let mut listeners = self.0.listeners.lock();
        for object in self.0.cache.all() {
            unread.push(&Key::of(&*object), Change::Added { object, initial: true });
        }
        listeners.add(&unread);
        drop(listeners);
        Subscription { unread, _informer: Arc::clone(&self.0) as _ }
    }

    /// Has everyone look at everything again.
    pub fn resync(&self) {
        let mut listeners = self.0.listeners.lock();
        for object in self.0.cache.all() {
            let (key, old) = (Key::of(&*object), Arc::clone(&object));
            listeners.tell(&key, &Change::Updated { old, new: object });
        }
    }

    /// The same again and again, for as long as there is the informer. Of several periods the shortest counts.
    pub fn resync_every(&self, period: Duration) {
        let mut resync = self.0.resync.lock();
        if period.is_zero() || resync.as_ref().is_some_and(|(shortest, _)| *shortest <= period) {
            return;
        }
        let weak = Arc::downgrade(&self.0);
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
            loop {
                ticks.tick().await;
                let Some(shared) = weak.upgrade() else { return };
                Informer(shared).resync();
            }
        });
        if let Some((_, longer)) = resync.replace((period, task.abort_handle())) {
            longer.abort();
        }
    }

    /// How much of the kind it sees.
    pub fn reach(&self) -> Reach {
        self.0.reach.borrow().clone()
    }

    /// How much of the kind it sees, and will.
    pub fn watch_reach(&self) -> watch::Receiver<Reach> {
        self.0.reach.subscribe()
    }

    /// Waits until it has seen everything.
    pub async fn synced(&self) {
        let mut reach = self.0.reach.subscribe();
        // The sender is in this very informer.
        let _ = reach.wait_for(|reach| *reach == Reach::Synced).await;
    }

    /// Waits until it has seen everything that was there when this was called, whoever has written it: all of it is
    /// listed once more. What is read in the cache afterwards is not older, and neither is its revision.
    pub async fn catch_up(&self) {
        self.0.renewal.renewed().await;
    }
}

/// What is remembered between one event and the next.
#[derive(Default)]
struct Hearing {
    /// What the list that is being heard has.
    listed: HashSet<Key>,
    /// The newest revision in it. Lists are in no order of revisions, so it is seen once all of it is.
    newest: u64,
    /// Whether there was a whole list before.
    knows_all: bool,
}

/// How long to wait after an error: longer each time, until there has been none for a while.
struct Pause {
    next: Duration,
    last: Option<Instant>,
}

impl Default for Pause {
    fn default() -> Self {
        Pause { next: AGAIN.0, last: None }
    }
}

impl Pause {
    fn next(&mut self) -> Duration {
        let now = Instant::now();
        let is_calm = self.last.is_some_and(|last| now.saturating_duration_since(last) >= CALM);
        let next = if is_calm { AGAIN.0 } else { self.next };
        *self = Pause { next: next.saturating_mul(2).min(AGAIN.1), last: Some(now) };
        next
    }
}

impl<K: Watched> Shared<K> {
    fn new(renewal: Renewal) -> Arc<Self> {
        Arc::new(Shared {
            renewal: Arc::new(renewal),
            cache: Cache::default(),
            listeners: Mutex::default(),
            reach: watch::channel(Reach::Starting).0,
            task: Mutex::default(),
            resync: Mutex::default(),
        })
    }

    fn hear(&self, event: watcher::Event<K>, hearing: &mut Hearing, transform: Option<&Transform<K>>) {
        match event {
            watcher::Event::Init => {
                *hearing = Hearing { knows_all: hearing.knows_all, ..Hearing::default() };
            }
            watcher::Event::InitApply(object) => {
                // First of all, it is there: whatever comes of the rest.
                hearing.listed.insert(Key::of(&object));
                hearing.newest = hearing.newest.max(cache::revision(&object));
                self.apply(object, !hearing.knows_all, transform);
            }
            watcher::Event::Apply(object) => {
                self.is_well();
                let revision = cache::revision(&object);
                self.apply(object, false, transform);
                self.cache.saw(revision);
            }
            watcher::Event::Delete(object) => {
                self.is_well();
                self.remove(&Key::of(&object));
                self.cache.saw(cache::revision(&object));
            }
            watcher::Event::InitDone => {
                let Hearing { listed, newest, .. } =
                    std::mem::replace(hearing, Hearing { knows_all: true, ..Hearing::default() });
                // Whatever went while nobody was looking.
                let gone = self.cache.keys().into_iter().filter(|key| !listed.contains(key));
                gone.for_each(|key| self.remove(&key));
                self.cache.saw(newest);
                self.reach.send_replace(Reach::Synced);
            }
        }
    }

    fn apply(&self, mut object: K, initial: bool, transform: Option<&Transform<K>>) {
        let key = Key::of(&object);
        if let Some(transform) = transform {
            transform(&mut object);
        }
        let object = Arc::new(object);
        let mut listeners = self.listeners.lock();
        match self.cache.apply(&key, &object) {
            Applied::Nothing => {}
            Applied::New => listeners.tell(&key, &Change::Added { object, initial }),
            Applied::Instead(old) if old.meta().uid == object.meta().uid => {
                listeners.tell(&key, &Change::Updated { old, new: object });
            }
            Applied::Instead(old) => {
                listeners.tell(&key, &Change::Deleted(old));
                listeners.tell(&key, &Change::Added { object, initial: false });
            }
        }
    }

    fn remove(&self, key: &Key) {
        let mut listeners = self.listeners.lock();
        if let Some(old) = self.cache.remove(key) {
            listeners.tell(key, &Change::Deleted(old));
        }
    }

    /// Takes note of an error.
    fn fail(&self, error: &watcher::Error) {
        if is_missing(error) {
            self.reach.send_replace(Reach::Missing);
            return;
        }
        // A watch that ends because its history is gone begins anew, and nothing is wrong.
        if !is_expired(error) {
            let why = told(error);
            if *self.reach.borrow() != Reach::Failing(why.clone()) {
                tracing::warn!(
                    kind = std::any::type_name::<K>(),
                    error = why,
                    "a watch failed and is tried again"
                );
            }
            self.reach.send_replace(Reach::Failing(why));
        }
    }

    /// There is a watch, so everything has been listed, and whatever failed fails no longer.
    fn is_well(&self) {
        self.reach.send_if_modified(|reach| {
            let was_failing = matches!(reach, Reach::Failing(_));
            if was_failing {
                *reach = Reach::Synced;
            }
            was_failing
        });
    }
}

/// What tells informers apart.
#[derive(Clone, PartialEq, Eq, Hash)]
struct InformerId {
    kind: TypeId,
    resource: Option<ApiResource>,
    scope: Scope,
}

/// Gives out informers.
#[derive(Clone)]
pub struct Informers {
    client: Client,
    known: Arc<Mutex<HashMap<InformerId, Weak<dyn Any + Send + Sync>>>>,
}

impl fmt::Debug for Informers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informers").finish_non_exhaustive()
    }
}

impl Informers {
    /// Informers of what a client sees.
    pub fn new(client: Client) -> Self {
        Informers { client, known: Arc::default() }
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The informer of a kind that has namespaces: the one that is there, or a new one.
    pub fn of<K>(&self, scope: &Scope) -> Informer<K>
    where
        K: Watched + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.find(TypeId::of::<K>(), None, scope, |client| match &scope.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        })
    }

    /// The informer of a kind that has none.
    pub fn of_cluster<K>(&self, scope: &Scope) -> Informer<K>
    where
        K: Watched + Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        self.find(TypeId::of::<K>(), None, scope, Api::all)
    }

    /// The informer of a kind that is known by name alone.
    pub fn of_resource(&self, resource: &ApiResource, scope: &Scope) -> Informer<DynamicObject> {
        let kind = TypeId::of::<DynamicObject>();
        self.find(kind, Some(resource), scope, |client| api_of(client, resource, scope))
    }

    /// The same, of its metadata only.
    pub fn of_metadata(
        &self,
        resource: &ApiResource,
        scope: &Scope,
    ) -> Informer<PartialObjectMeta<DynamicObject>> {
        let kind = TypeId::of::<PartialObjectMeta<DynamicObject>>();
        self.find(kind, Some(resource), scope, |client| api_of(client, resource, scope))
    }

    fn find<K: Watched>(
        &self,
        kind: TypeId,
        resource: Option<&ApiResource>,
        scope: &Scope,
        api_of: impl FnOnce(Client) -> Api<K>,
    ) -> Informer<K> {
        let id = InformerId { kind, resource: resource.cloned(), scope: scope.clone() };
        self.find_or(id, || Informer::start(&self.client, api_of, scope, None))
    }

    fn find_or<K: Watched>(&self, id: InformerId, make: impl FnOnce() -> Informer<K>) -> Informer<K> {
        let mut known = self.known.lock();
        let shared =
            known.get(&id).and_then(Weak::upgrade).and_then(|shared| shared.downcast::<Shared<K>>().ok());
        if let Some(shared) = shared {
            return Informer(shared);
        }
        known.retain(|_, informer| informer.strong_count() > 0);
        let informer = make();
        let shared: Arc<dyn Any + Send + Sync> = Arc::clone(&informer.0) as _;
        known.insert(id, Arc::downgrade(&shared));
        informer
    }

    /// How many watches there are.
    pub fn len(&self) -> usize {
        self.known.lock().values().filter(|informer| informer.strong_count() > 0).count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn api_of<K>(client: Client, resource: &ApiResource, scope: &Scope) -> Api<K>
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}
