//! Steps: what a phase runs, and what a step answers.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::status::{Progress, StepState};

/// Where a step is: the phase, and the names of the steps down to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<String>);

impl Path {
    pub(super) fn root(phase: &str) -> Self {
        Path(vec![phase.to_owned()])
    }

    pub(super) fn child(&self, name: &str) -> Self {
        let mut names = self.0.clone();
        names.push(name.to_owned());
        Path(names)
    }

    /// The phase.
    pub fn phase(&self) -> &str {
        &self.0[0]
    }

    /// The names below the phase.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.0[1..].iter().map(String::as_str)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

/// What a step is given.
#[derive(Debug)]
pub struct Ctx<K> {
    /// The object, as it was when the step was called.
    pub object: Arc<K>,
    /// Which step it is.
    pub path: Path,
    /// What is remembered of it.
    pub state: StepState,
}

impl<K> Ctx<K> {
    /// The name of this attempt, for a step that must not happen twice.
    pub fn token(&self) -> &str {
        self.state.intent.as_ref().map(|intent| intent.token.as_str()).unwrap_or_default()
    }
}

/// A step that may be repeated as long as it has not been done.
#[async_trait]
pub trait Handler<K>: Send + Sync + 'static {
    /// Gets on with it.
    async fn handle(&self, ctx: Ctx<K>) -> Result<Report, StepError>;
}

#[async_trait]
impl<K, F, Fut> Handler<K> for F
where
    K: Send + Sync + 'static,
    F: Fn(Ctx<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Report, StepError>> + Send + 'static,
{
    async fn handle(&self, ctx: Ctx<K>) -> Result<Report, StepError> {
        self(ctx).await
    }
}

/// A step that must not happen twice.
#[async_trait]
pub trait Once<K>: Send + Sync + 'static {
    /// Makes it happen. That it is about to is on record.
    async fn perform(&self, ctx: Ctx<K>) -> Result<Report, StepError>;

    /// It may have happened: nobody knows. `None` if it has not, and then it is made to happen.
    async fn happened(&self, ctx: Ctx<K>) -> Result<Option<Report>, StepError>;
}

/// A step over many objects. They are kept in the status, so there should be hundreds of them, not millions.
#[async_trait]
pub trait Batch<K>: Send + Sync + 'static {
    /// The objects there are. It is asked once.
    async fn list(&self, ctx: Ctx<K>) -> Result<Vec<Item>, StepError>;

    /// Gets on with some of them. One that is not in the answer comes again.
    async fn handle(&self, ctx: Ctx<K>, ids: Vec<String>) -> Result<Vec<(String, ItemOutcome)>, StepError>;
}

/// An object among many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// What it is told apart by.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Objects of one group are always in one batch.
    pub group: Option<String>,
}

impl Item {
    /// An object that is in no group.
    pub fn new(id: impl Into<String>) -> Self {
        Item { id: id.into(), ..Item::default() }
    }

    /// One of a group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }
}

/// How one object among many ended.
#[derive(Clone, Debug)]
pub enum ItemOutcome {
    /// It is finished.
    Done,
    /// It is finished, but people should know something.
    Warned(String),
    /// It is not finished, and comes again after this time.
    Again(Duration),
    /// It failed.
    Failed(StepError),
}

/// Whether a step is finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is.
    Done,
    /// It is not, and wants to be called again after this time, or earlier when something changes.
    Again(Duration),
    /// The machine goes to another phase at once. The phase must have named it.
    Jump(String),
}

/// What a step answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub(super) outcome: Outcome,
    pub(super) progress: Option<Progress>,
    pub(super) data: Option<Value>,
    pub(super) warning: Option<String>,
    pub(super) fields: Map<String, Value>,
}

impl Report {
    fn new(outcome: Outcome) -> Self {
        Report { outcome, progress: None, data: None, warning: None, fields: Map::new() }
    }

    /// It is finished.
    pub fn done() -> Self {
        Report::new(Outcome::Done)
    }

    /// It is not, and wants to be called again after this time. With none and something new to remember, it is called at
    /// once.
    pub fn again(after: Duration) -> Self {
        Report::new(Outcome::Again(after))
    }

    /// The machine goes to another phase.
    pub fn jump(phase: impl Into<String>) -> Self {
        Report::new(Outcome::Jump(phase.into()))
    }

    /// How far it is.
    #[must_use]
    pub fn progress(mut self, done: u64, total: u64) -> Self {
        self.progress = Some(Progress { done, total });
        self
    }

    /// What it wants to find in its state when it is called again.
    #[must_use]
    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// What people should know.
    #[must_use]
    pub fn warning(mut self, text: impl Into<String>) -> Self {
        self.warning = Some(text.into());
        self
    }

    /// A field of the object's status that is this step's own. The machine's fields are not.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }
}

/// What a call answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A step has got on.
    Report(Report),
    /// It has not happened.
    NotHappened,
    /// The objects there are.
    Listed(Vec<Item>),
    /// What became of some objects.
    Handled(Vec<(String, ItemOutcome)>),
}

/// Why a step failed. Other errors become ones that are worth another try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    pub(super) message: String,
    pub(super) is_fatal: bool,
}

impl StepError {
    /// It is worth another try.
    pub fn retry(message: impl fmt::Display) -> Self {
        StepError { message: message.to_string(), is_fatal: false }
    }

    /// It is of no use to try again.
    pub fn fatal(message: impl fmt::Display) -> Self {
        StepError { message: message.to_string(), is_fatal: true }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: StdError> From<E> for StepError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        StepError::retry(message)
    }
}

/// What a phase runs.
pub struct Step<K>(pub(super) Node<K>);

pub(super) enum Node<K> {
    Work(Arc<dyn Handler<K>>),
    Once(Arc<dyn Once<K>>),
    Batch { batch: Arc<dyn Batch<K>>, size: usize },
    Serial(Vec<(String, Step<K>)>),
    Parallel(Vec<(String, Step<K>)>),
}

impl<K> fmt::Debug for Step<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Node::Work(_) => f.write_str("Work"),
            Node::Once(_) => f.write_str("Once"),
            Node::Batch { size, .. } => write!(f, "Batch({size})"),
            Node::Serial(steps) => f.debug_tuple("Serial").field(steps).finish(),
            Node::Parallel(steps) => f.debug_tuple("Parallel").field(steps).finish(),
        }
    }
}

impl<K> Step<K> {
    /// One that may be repeated as long as it has not been done.
    pub fn new(handler: impl Handler<K>) -> Self {
        Step(Node::Work(Arc::new(handler)))
    }

    /// One that must not happen twice.
    pub fn once(handler: impl Once<K>) -> Self {
        Step(Node::Once(Arc::new(handler)))
    }

    /// One over many objects, at most so many at a time. A group is one batch, however large.
    pub fn batch(batch: impl Batch<K>, size: usize) -> Self {
        Step(Node::Batch { batch: Arc::new(batch), size: size.max(1) })
    }

    /// One after another. The first that is not done holds up those after it.
    pub fn serial<N: Into<String>>(steps: impl IntoIterator<Item = (N, Step<K>)>) -> Self {
        Step(Node::Serial(steps.into_iter().map(|(name, step)| (name.into(), step)).collect()))
    }

    /// All at once. One that fails for good ends the others.
    pub fn parallel<N: Into<String>>(steps: impl IntoIterator<Item = (N, Step<K>)>) -> Self {
        Step(Node::Parallel(steps.into_iter().map(|(name, step)| (name.into(), step)).collect()))
    }

    /// Nothing: it is done at once.
    pub fn nothing() -> Self {
        Step(Node::Serial(vec![]))
    }

    /// Whether there is nothing in it to call.
    pub(super) fn is_nothing(&self) -> bool {
        let steps = match &self.0 {
            Node::Serial(steps) | Node::Parallel(steps) => steps,
            _ => return false,
        };
        steps.iter().all(|(_, step)| step.is_nothing())
    }

    pub(super) fn children(&self) -> &[(String, Step<K>)] {
        match &self.0 {
            Node::Serial(steps) | Node::Parallel(steps) => steps,
            _ => &[],
        }
    }

    /// The step within.
    pub(super) fn at<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&Step<K>> {
        path.into_iter().try_fold(self, |step, name| {
            step.children().iter().find(|(own, _)| own == name).map(|(_, step)| step)
        })
    }
}
