//! Machines on objects of an API server.

use std::{collections::BTreeSet, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use jiff::Timestamp;
use kube::{Api, Client, Resource, api::DynamicObject, core::ApiResource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{
    advance::{Call, Deed, Given, Naps, Next},
    definition::Machine,
    live::{Live, LiveError},
    status::PhaseStatus,
    step::{Ctx, Node, Path, Reply, StepError},
};
use crate::{
    Change, Key, NotLeading,
    controller::{Action, ReconcileError, Reconciler, may_act, panic_text},
};

/// How long an object that always gets on keeps its worker. Then others have their turn.
const TURN: Duration = Duration::from_secs(10);

/// Tells the time.
type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Runs a machine for each object of a kind. The kind must have the status subresource.
pub struct PhaseReconciler<K> {
    machine: Arc<Machine<K>>,
    client: Client,
    resource: ApiResource,
    clock: Clock,
}

impl<K> fmt::Debug for PhaseReconciler<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhaseReconciler").field("machine", &self.machine).finish_non_exhaustive()
    }
}

/// Whether a change asks something of a machine, for [`Controller::reconciles_if`](crate::Controller::reconciles_if): not
/// if only the status is another, which is mostly the machine's own doing.
pub fn asked<K: Resource>(change: &Change<K>) -> bool {
    let Change::Updated { old, new } = change else { return true };
    let of = |object: &K| {
        let meta = object.meta().clone();
        (meta.generation, meta.deletion_timestamp, meta.annotations, meta.labels, meta.finalizers)
    };
    of(old) != of(new) || new.meta().generation.is_none() || change.is_background()
}

impl<K: Resource<DynamicType = ()>> PhaseReconciler<K> {
    /// Runs a machine for a kind that has a type.
    pub fn new(machine: Machine<K>, client: Client) -> Self {
        Self::with_resource(machine, client, ApiResource::erase::<K>(&()))
    }
}

impl<K> PhaseReconciler<K> {
    /// Runs a machine for a kind that is known by name alone.
    pub fn with_resource(machine: Machine<K>, client: Client, resource: ApiResource) -> Self {
        PhaseReconciler { machine: Arc::new(machine), client, resource, clock: Arc::new(Timestamp::now) }
    }

    /// Has it take the time from elsewhere.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The machine.
    pub fn machine(&self) -> &Machine<K> {
        &self.machine
    }

    fn api_of(&self, key: &Key) -> Api<DynamicObject> {
        match key.namespace() {
            "" => Api::all_with(self.client.clone(), &self.resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &self.resource),
        }
    }
}

#[async_trait]
impl<K: DeserializeOwned + Send + Sync + 'static> Reconciler for PhaseReconciler<K> {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let ended = async {
            let live = Live::read(self.api_of(key), key.name()).await?;
            Drive::new(self, live).run().await
        };
        match ended.await {
            Ok(action) => Ok(action),
            Err(LiveError::Gone) => Ok(Action::Done),
            Err(LiveError::Overtaken) => Ok(Action::After(Duration::ZERO)),
            Err(error @ (LiveError::Unreadable(_) | LiveError::Forgetful(_))) => {
                Err(ReconcileError::is_final(error))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// One turn of an object.
struct Drive<'a, K> {
    machine: &'a Arc<Machine<K>>,
    clock: &'a Clock,
    live: Live,
    naps: Naps,
    running: FuturesUnordered<BoxFuture<'a, (Path, Result<Reply, StepError>)>>,
    under_way: BTreeSet<Path>,
}

impl<'a, K: DeserializeOwned + Send + Sync + 'static> Drive<'a, K> {
    fn new(owner: &'a PhaseReconciler<K>, live: Live) -> Self {
        Drive {
            machine: &owner.machine,
            clock: &owner.clock,
            live,
            naps: Naps::new(),
            running: FuturesUnordered::new(),
            under_way: BTreeSet::new(),
        }
    }

    async fn run(mut self) -> Result<Action, LiveError> {
        let begun = Instant::now();
        let finalizer = self.machine.finalizer().unwrap_or_default().to_owned();
        let mut status = self.live.status.clone();
        loop {
            let given = Given::of(&self.live.object, self.machine.finalizer());
            let (new, next) = self.machine.advance(&status, &given, &self.naps, (self.clock)());
            if new != self.live.status {
                let is_meant = |object: &DynamicObject| Given::of(object, self.machine.finalizer()) == given;
                // What was decided is of no use once something else is asked for. What steps have answered is.
                if !self.live.save(&new, is_meant).await? {
                    continue;
                }
            }
            if new.phase != status.phase {
                // Whatever still runs belongs to a phase that is over.
                self.running.clear();
                self.under_way.clear();
            }
            status = self.live.status.clone();
            if Given::of(&self.live.object, self.machine.finalizer()) != given {
                continue;
            }
            let until = match next {
                Next::Guard => {
                    self.live.guard(&finalizer, true).await?;
                    continue;
                }
                Next::Release => {
                    self.live.guard(&finalizer, false).await?;
                    return Ok(Action::Done);
                }
                Next::Work { calls, until } => {
                    if !may_act() {
                        return Err(NotLeading.into());
                    }
                    let is_over = begun.elapsed() >= TURN;
                    if is_over && !calls.is_empty() && self.running.is_empty() {
                        return Ok(Action::After(Duration::ZERO));
                    }
                    if !is_over {
                        calls.into_iter().for_each(|call| self.begin(call, &status));
                    }
                    until
                }
            };
            let wait = until.map(|until| until.duration_since((self.clock)()).try_into().unwrap_or_default());
            if self.running.is_empty() {
                return Ok(wait.map_or(Action::Done, Action::After));
            }
            if let Some((path, answer)) = self.answered(wait).await {
                self.under_way.remove(&path);
                let now = (self.clock)();
                status = self.machine.absorb(&status, &mut self.naps, &path, answer, now);
            }
        }
    }

    /// The next answer, if there is one in time.
    async fn answered(&mut self, most: Option<Duration>) -> Option<(Path, Result<Reply, StepError>)> {
        match most {
            None => self.running.next().await,
            Some(most) => tokio::time::timeout(most, self.running.next()).await.ok().flatten(),
        }
    }

    fn begin(&mut self, call: Call, status: &PhaseStatus) {
        if !self.under_way.insert(call.path.clone()) {
            return;
        }
        let state = status.state.get(call.path.phase()).and_then(|state| state.at(call.path.steps()));
        let state = state.cloned().unwrap_or_default();
        // Both are JSON, and one has been the other before.
        let object = serde_json::to_value(&self.live.object).and_then(serde_json::from_value);
        let machine = Arc::clone(self.machine);
        self.running.push(Box::pin(async move {
            let path = call.path.clone();
            let answer = match object {
                Ok(object) => {
                    let ctx = Ctx { object: Arc::new(object), path: path.clone(), state };
                    let called = AssertUnwindSafe(make(&machine, call.deed, ctx)).catch_unwind();
                    called.await.unwrap_or_else(|panic| {
                        Err(StepError::retry(format!("it panicked: {}", panic_text(&*panic))))
                    })
                }
                Err(error) => Err(StepError::fatal(format!("the object cannot be read: {error}"))),
            };
            (path, answer)
        }));
    }
}

/// Calls a step.
async fn make<K: Send + Sync + 'static>(
    machine: &Machine<K>,
    deed: Deed,
    ctx: Ctx<K>,
) -> Result<Reply, StepError> {
    let phase = machine.phase(ctx.path.phase());
    let step = phase.and_then(|phase| phase.step.as_ref()).and_then(|step| step.at(ctx.path.steps()));
    match (step.map(|step| &step.0), deed) {
        (Some(Node::Work(handler)), Deed::Do) => handler.handle(ctx).await.map(Reply::Report),
        (Some(Node::Once(once)), Deed::Do) => once.perform(ctx).await.map(Reply::Report),
        (Some(Node::Once(once)), Deed::Ask) => {
            let happened = once.happened(ctx).await?;
            Ok(happened.map_or(Reply::NotHappened, Reply::Report))
        }
        (Some(Node::Batch { batch, .. }), Deed::List) => batch.list(ctx).await.map(Reply::Listed),
        (Some(Node::Batch { batch, .. }), Deed::Objects(ids)) => {
            batch.handle(ctx, ids).await.map(Reply::Handled)
        }
        _ => Err(StepError::fatal("there is no such step")),
    }
}
