//! Controllers: what has changed becomes keys, and workers bring what a key names to what it should be.
//!
//! A [`Controller`] has sources, each of which turns changes into keys of the kind it looks after: that kind itself
//! ([`Controller::reconciles`]), what it owns ([`Controller::owns`]), and whatever else matters to it
//! ([`Controller::watches`]). Keys go through a [`Queue`], so that each is looked after by one worker at a time.
//!
//! A [`Reconciler`] that fails is tried again, later each time. One that panics or takes too long has failed, too, and
//! nobody else notices.
//!
//! Whoever is stopped takes no more changes, and has some time ([`Controller::grace`]) for what is waiting and under way.
//! What is left then is cut off: it comes again when the controller is built anew, because everything is looked at then.

mod acting;
#[cfg(test)]
mod tests;
mod worker;

use std::{
    borrow::Cow,
    error::Error as StdError,
    fmt,
    future::{Future, pending},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all, select_all},
};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::{JoinSet, consume_budget},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub use self::acting::may_act;
use self::worker::Worker;
pub(crate) use self::{acting::MayAct, worker::panic_text};
use crate::{
    Key,
    informer::{Change, Informer, Reach, Watched},
    metrics::{ControllerMetrics, Metrics},
    queue::{Limits, Priority, Queue},
};

/// Brings objects of one kind to what they should be.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Looks after one object. It may be gone.
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError>;
}

/// A function is a reconciler, too.
#[async_trait]
impl<F, Fut> Reconciler for F
where
    F: Fn(Key) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, ReconcileError>> + Send,
{
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        self(key.clone()).await
    }
}

/// What comes after a reconcile that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing until something changes.
    Done,
    /// Another one after this time, if nothing changes earlier.
    After(Duration),
}

/// Why a reconcile did not go well.
pub struct ReconcileError {
    source: Box<dyn StdError + Send + Sync>,
    is_final: bool,
}

impl ReconcileError {
    /// Trying again is of no use until something changes.
    pub fn is_final(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        ReconcileError { source: error.into(), is_final: true }
    }

    /// Whether the API server has refused to overwrite what someone else has written.
    fn is_conflict(&self) -> bool {
        matches!(self.source.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 409)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        ReconcileError { source: Box::new(error), is_final: false }
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&told(&*self.source))
    }
}

/// An error and its causes, for people. What the API server has said is enough; what kube makes of it has all of its
/// fields.
pub(crate) fn told(error: &(dyn StdError + 'static)) -> String {
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    let api = causes.find_map(|error| match error.downcast_ref() {
        Some(kube::Error::Api(status)) => Some(status.message.clone()),
        _ => None,
    });
    api.unwrap_or_else(|| {
        let mut text = error.to_string();
        for cause in std::iter::successors(error.source(), |error| (*error).source()) {
            let cause = cause.to_string();
            if !text.contains(&cause) {
                text = format!("{text}: {cause}");
            }
        }
        text
    })
}

/// Says of a change whether it is worth a look. Deletions always are.
type Predicate<K> = Arc<dyn Fn(&Change<K>) -> bool + Send + Sync>;

/// Says which keys an object matters to.
type Mapper<K> = Arc<dyn Fn(&K) -> Vec<Key> + Send + Sync>;

/// Which keys are seen at all.
type KeyFilter = Arc<dyn Fn(&Key) -> bool + Send + Sync>;

/// What has to be done before the first reconcile.
type Preparation = Arc<dyn Fn() -> BoxFuture<'static, Result<(), ReconcileError>> + Send + Sync>;

/// How long what is waiting and under way may take once a controller is stopped. It is out of the way within two
/// seconds.
const GRACE: Duration = Duration::from_millis(1500);

/// How long a reconcile that was cut off may take to notice. One that never waits for anything does not notice at all.
const CUT: Duration = Duration::from_millis(250);

/// How long to wait before something that failed is prepared again: at first and at most.
const PREPARE_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How far a controller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It does not run yet, or its caches have not seen everything.
    Waiting,
    /// What has to be done before the first reconcile is being done.
    Preparing,
    /// That failed, and is tried again.
    Unprepared(String),
    /// It looks after its objects.
    Working,
    /// It has ended.
    Stopped,
}

/// A reconcile that did not go well.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Of what.
    pub key: Key,
    /// Why.
    pub why: String,
    /// When.
    pub at: jiff::Timestamp,
}

/// Where keys come from.
#[async_trait]
trait Source: Send + Sync {
    /// Waits until everything that is there has been seen.
    async fn synced(&self);

    /// Waits until there is no such kind.
    async fn missing(&self);

    /// How much of its kind it sees.
    fn reach(&self) -> Reach;

    /// Turns changes into keys until there are no more.
    async fn feed(&self, queue: &Queue<Key>, filter: &KeyFilter);
}

/// Where keys come from that no informer of one kind has.
#[async_trait]
pub trait Feed: Send + Sync + 'static {
    /// Waits until everything that is there has been seen. [`Feed::feed`] runs meanwhile.
    async fn synced(&self);

    /// How much it sees.
    fn reach(&self) -> Reach {
        Reach::Synced
    }

    /// Adds keys until there are no more.
    async fn feed(&self, queue: &Queue<Key>);
}

struct Fed<F>(F);

#[async_trait]
impl<F: Feed> Source for Fed<F> {
    async fn synced(&self) {
        self.0.synced().await;
    }

    /// It is of no kind in particular.
    async fn missing(&self) {
        pending().await
    }

    fn reach(&self) -> Reach {
        self.0.reach()
    }

    async fn feed(&self, queue: &Queue<Key>, _: &KeyFilter) {
        self.0.feed(queue).await;
    }
}

struct Mapped<K> {
    informer: Informer<K>,
    keys_of: Mapper<K>,
    predicate: Predicate<K>,
}

#[async_trait]
impl<K: Watched> Source for Mapped<K> {
    async fn synced(&self) {
        self.informer.synced().await;
    }

    async fn missing(&self) {
        let mut reach = self.informer.watch_reach();
        // The sender is in the informer.
        let _ = reach.wait_for(|reach| *reach == Reach::Missing).await;
    }

    fn reach(&self) -> Reach {
        self.informer.reach()
    }

    async fn feed(&self, queue: &Queue<Key>, filter: &KeyFilter) {
        let mut changes = self.informer.subscribe();
        while let Some(change) = changes.next().await {
            // However much changes, others have their turn.
            consume_budget().await;
            if !matches!(change, Change::Deleted(_)) && !(self.predicate)(&change) {
                continue;
            }
            let priority = if change.is_background() { Priority::BACKGROUND } else { Priority::default() };
            let mut keys = (self.keys_of)(change.object());
            // Whatever it belonged to before has lost something.
            if let Change::Updated { old, .. } = &change {
                keys.extend((self.keys_of)(old));
                keys.sort_unstable();
                keys.dedup();
            }
            keys.into_iter().filter(|key| filter(key)).for_each(|key| queue.add_with(key, priority));
        }
    }
}

/// Predicates for [`Controller::reconciles_if`] and [`Controller::watches_if`].
pub mod predicates {
    use kube::{Resource, ResourceExt};

    use super::Change;

    /// What the user wants has changed, or the object is being deleted.
    pub fn generation<K: Resource>(change: &Change<K>) -> bool {
        let Change::Updated { old, new } = change else { return true };
        let of = |object: &K| (object.meta().generation, object.meta().deletion_timestamp.clone());
        of(old) != of(new) || new.meta().generation.is_none() || change.is_background()
    }

    /// Its labels have changed, or the object is being deleted.
    pub fn labels<K: Resource>(change: &Change<K>) -> bool {
        let Change::Updated { old, new } = change else { return true };
        let of = |object: &K| (object.labels().clone(), object.meta().deletion_timestamp.clone());
        of(old) != of(new) || change.is_background()
    }

    /// It is another than before, or is looked at again because somebody wants that
    /// ([`Informer::resync_every`](crate::Informer::resync_every)).
    pub fn changed<K: Resource>(change: &Change<K>) -> bool {
        let Change::Updated { old, new } = change else { return true };
        old.resource_version() != new.resource_version() || change.is_background()
    }
}

/// What owns an object, as its controller, and is of this kind.
fn owners<K: Watched>(object: &K, group: &str, kind: &str, namespace: &str) -> Vec<Key> {
    let all = object.meta().owner_references.iter().flatten();
    let own = all.filter(|owner| {
        let (owner_group, _) = owner.api_version.split_once('/').unwrap_or(("", ""));
        owner.controller == Some(true) && owner.kind == kind && owner_group == group
    });
    own.map(|owner| Key::new(namespace, &owner.name)).collect()
}

/// A controller that is being put together, and then run.
pub struct Controller {
    name: Cow<'static, str>,
    sources: Vec<Arc<dyn Source>>,
    queue: Queue<Key>,
    metrics: ControllerMetrics,
    n_workers: usize,
    timeout: Option<Duration>,
    grace: Duration,
    is_everywhere: bool,
    filter: KeyFilter,
    preparations: Vec<Preparation>,
    stage: watch::Sender<Stage>,
    last_failure: Arc<Mutex<Option<Failure>>>,
    reconciler: Arc<dyn Reconciler>,
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Controller {
    /// A controller without sources, with one worker.
    pub fn new(name: impl Into<Cow<'static, str>>, reconciler: impl Reconciler, metrics: &Metrics) -> Self {
        let name = name.into();
        Controller {
            queue: Queue::new(Limits::default(), metrics.queue(&name)),
            metrics: metrics.controller(&name),
            name,
            sources: vec![],
            n_workers: 1,
            timeout: None,
            grace: GRACE,
            is_everywhere: false,
            filter: Arc::new(|_| true),
            preparations: vec![],
            stage: watch::channel(Stage::Waiting).0,
            last_failure: Arc::default(),
            reconciler: Arc::new(reconciler),
        }
    }

    /// Looks after the objects of a kind.
    #[must_use]
    pub fn reconciles<K: Watched>(self, informer: &Informer<K>) -> Self {
        self.reconciles_if(informer, predicates::changed)
    }

    /// The same, but not at every change.
    #[must_use]
    pub fn reconciles_if<K: Watched>(
        self,
        informer: &Informer<K>,
        predicate: impl Fn(&Change<K>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.watches_if(informer, |object: &K| vec![Key::of(object)], predicate)
    }

    /// Looks after what owns an object, as its controller, whenever that object changes. `kind` and `group` are the
    /// owner's, which is in the object's namespace.
    #[must_use]
    pub fn owns<K: Watched>(self, informer: &Informer<K>, group: &'static str, kind: &'static str) -> Self {
        self.watches(informer, move |object: &K| {
            owners(object, group, kind, object.meta().namespace.as_deref().unwrap_or_default())
        })
    }

    /// The same, where owners are in no namespace, whatever the object is in.
    #[must_use]
    pub fn owns_from_cluster<K: Watched>(
        self,
        informer: &Informer<K>,
        group: &'static str,
        kind: &'static str,
    ) -> Self {
        self.watches(informer, move |object: &K| owners(object, group, kind, ""))
    }

    /// Looks after whatever an object matters to, whenever that object changes.
    #[must_use]
    pub fn watches<K: Watched>(
        self,
        informer: &Informer<K>,
        keys_of: impl Fn(&K) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.watches_if(informer, keys_of, predicates::changed)
    }

    /// The same, but not at every change.
    #[must_use]
    pub fn watches_if<K: Watched>(
        mut self,
        informer: &Informer<K>,
        keys_of: impl Fn(&K) -> Vec<Key> + Send + Sync + 'static,
        predicate: impl Fn(&Change<K>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (informer, keys_of) = (informer.clone(), Arc::new(keys_of) as _);
        self.sources.push(Arc::new(Mapped { informer, keys_of, predicate: Arc::new(predicate) }));
        self
    }

    /// Looks after keys that come from elsewhere. They are seen whatever [`Controller::only`] says.
    #[must_use]
    pub fn fed_by(mut self, feed: impl Feed) -> Self {
        self.sources.push(Arc::new(Fed(feed)));
        self
    }

    /// How many objects are looked after at once.
    #[must_use]
    pub fn workers(mut self, n_workers: usize) -> Self {
        self.n_workers = n_workers.max(1);
        self
    }

    /// How long one reconcile may take. Without, there is no limit: a reconcile that waits for ever keeps its worker, and
    /// people are told after a minute.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long what is waiting and under way may take once it is stopped: 1.5 s unless told.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Has it run beside others of its kind in other processes, whoever leads.
    #[must_use]
    pub fn everywhere(mut self) -> Self {
        self.is_everywhere = true;
        self
    }

    /// Does something before the first reconcile, when the caches have seen everything. While it fails, it is tried
    /// again, and the controller is not ready.
    #[must_use]
    pub fn after_sync<F, Fut>(mut self, prepare: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ReconcileError>> + Send + 'static,
    {
        self.preparations.push(Arc::new(move || prepare().boxed()));
        self
    }

    /// Which keys are seen at all.
    #[must_use]
    pub fn only(mut self, filter: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        let before = self.filter;
        self.filter = Arc::new(move |key| before(key) && filter(key));
        self
    }

    /// How keys wait.
    #[must_use]
    pub fn limits(mut self, limits: Limits, metrics: &Metrics) -> Self {
        self.queue = Queue::new(limits, metrics.queue(&self.name));
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its queue: for keys that come from elsewhere.
    pub fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    /// Waits until its caches have seen everything.
    pub async fn synced(&self) {
        join_all(self.sources.iter().map(|source| source.synced())).await;
    }

    /// What of its kinds it does not see, if anything.
    pub fn unreached(&self) -> Option<Reach> {
        self.sources.iter().map(|source| source.reach()).find(|reach| *reach != Reach::Synced)
    }

    /// Waits until one of its kinds does not exist.
    pub async fn missing(&self) {
        match self.sources.is_empty() {
            true => pending().await,
            false => drop(select_all(self.sources.iter().map(|source| source.missing())).await),
        }
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage.borrow().clone()
    }

    /// How far it is, and will be.
    pub fn watch_stage(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    /// How many objects it looks after at once.
    pub fn n_workers(&self) -> usize {
        self.n_workers
    }

    /// Whether it runs whoever leads.
    pub fn is_everywhere(&self) -> bool {
        self.is_everywhere
    }

    /// What went wrong last, unless it has gone well since.
    pub fn last_failure(&self) -> Option<Failure> {
        self.last_failure.lock().clone()
    }

    /// Looks after its objects until it is stopped, and then for some time until what is under way has ended. Workers
    /// begin once the caches have seen everything. It runs once.
    pub async fn run(&self, stop: CancellationToken) {
        self.run_while(stop, Arc::new(|| true)).await;
    }

    /// The same, of one that begins nothing when it may not act. Whether everything that was under way has ended.
    pub(crate) async fn run_while(&self, stop: CancellationToken, may_act: MayAct) -> bool {
        let feeds = async {
            join_all(self.sources.iter().map(|source| source.feed(&self.queue, &self.filter))).await;
            // Keys can come from elsewhere, too.
            pending::<()>().await;
        };
        let work = async {
            tokio::select! {
                biased;
                () = stop.cancelled() => true,
                () = self.prepare() => self.work(&stop, &may_act).await,
            }
        };
        let has_ended = tokio::select! {
            () = feeds => true,
            has_ended = work => has_ended,
        };
        self.queue.close();
        self.stage.send_replace(Stage::Stopped);
        has_ended
    }

    /// Waits for the caches, and does what is to be done before the first reconcile.
    async fn prepare(&self) {
        self.synced().await;
        self.stage.send_replace(Stage::Preparing);
        for prepare in &self.preparations {
            let mut pause = PREPARE_AGAIN.0;
            loop {
                let why = match AssertUnwindSafe(async { prepare().await }).catch_unwind().await {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => error.to_string(),
                    Err(panic) => panic_text(&*panic),
                };
                tracing::error!(controller = %self.name, error = why, "it is not ready, and is prepared again");
                self.stage.send_replace(Stage::Unprepared(why));
                sleep(pause).await;
                pause = pause.saturating_mul(2).min(PREPARE_AGAIN.1);
            }
        }
    }

    fn worker(&self, may_act: &MayAct) -> Worker {
        Worker {
            name: self.name.clone(),
            queue: self.queue.clone(),
            metrics: self.metrics.clone(),
            timeout: self.timeout,
            last_failure: Arc::clone(&self.last_failure),
            may_act: Arc::clone(may_act),
            reconciler: Arc::clone(&self.reconciler),
        }
    }

    /// Has workers work until it is stopped, and ends them; whether they have ended.
    async fn work(&self, stop: &CancellationToken, may_act: &MayAct) -> bool {
        self.stage.send_replace(Stage::Working);
        self.metrics.most.set(self.n_workers as i64);
        let mut workers = JoinSet::new();
        (0..self.n_workers).for_each(|_| drop(workers.spawn(self.worker(may_act).run())));
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = workers.join_next() => if let Err(error) = ended {
                    tracing::error!(controller = %self.name, %error, "a worker has died, and another takes its place");
                    workers.spawn(self.worker(may_act).run());
                },
            }
        }
        self.queue.shut();
        let mut has_ended = true;
        let all = async { while workers.join_next().await.is_some() {} };
        if timeout(self.grace, all).await.is_err() {
            tracing::warn!(controller = %self.name, grace = ?self.grace, "what is still under way is cut off");
            self.queue.clear();
            has_ended = timeout(CUT, workers.shutdown()).await.is_ok();
            if !has_ended {
                tracing::error!(controller = %self.name, "a reconcile blocks its thread and cannot be cut off");
            }
        }
        self.metrics.most.set(0);
        has_ended
    }
}
