//! Machines: their phases, and how they are put together.

use std::{fmt, time::Duration};

use super::{graph::GraphErrors, step::Step};

/// How long to wait after failures, when a phase does not say: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// A phase in which something is done.
#[derive(Debug)]
pub struct Phase<K> {
    pub(super) name: String,
    pub(super) step: Option<Step<K>>,
    pub(super) then: Option<String>,
    pub(super) or: Option<String>,
    pub(super) jumps: Vec<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) retries: Option<u32>,
    pub(super) back_off: (Duration, Duration),
}

impl<K> Phase<K> {
    /// A phase. Its name becomes a reason of conditions, so it is written like one: `Precheck`.
    pub fn new(name: impl Into<String>) -> Self {
        Phase {
            name: name.into(),
            step: None,
            then: None,
            or: None,
            jumps: vec![],
            timeout: None,
            retries: None,
            back_off: BACK_OFF,
        }
    }

    /// What it runs.
    #[must_use]
    pub fn runs(mut self, step: Step<K>) -> Self {
        self.step = Some(step);
        self
    }

    /// The phase that follows.
    #[must_use]
    pub fn then(mut self, phase: impl Into<String>) -> Self {
        self.then = Some(phase.into());
        self
    }

    /// The phase that follows when it fails.
    #[must_use]
    pub fn or(mut self, phase: impl Into<String>) -> Self {
        self.or = Some(phase.into());
        self
    }

    /// A phase that its steps may jump to.
    #[must_use]
    pub fn may_jump(mut self, phase: impl Into<String>) -> Self {
        self.jumps.push(phase.into());
        self
    }

    /// How long it may take, without the time it is paused. A deletion takes as long as it takes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How often each of its steps is tried again after a failure. Without, there is no limit.
    #[must_use]
    pub fn retries(mut self, most: u32) -> Self {
        self.retries = Some(most);
        self
    }

    /// How long to wait after a failure, at first and at most. It doubles in between.
    #[must_use]
    pub fn back_off(mut self, first: Duration, most: Duration) -> Self {
        self.back_off = (first, most.max(first));
        self
    }

    /// How long to wait after so many failures in a row.
    pub(super) fn wait_after(&self, attempts: u32) -> Duration {
        let (first, most) = self.back_off;
        first.saturating_mul(1 << attempts.saturating_sub(1).min(30)).min(most)
    }
}

/// A phase that is an end.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) name: String,
    pub(super) is_failure: bool,
}

/// What is done when an object is deleted.
#[derive(Debug)]
pub(super) struct Deletion<K> {
    pub(super) finalizer: String,
    pub(super) phase: Phase<K>,
}

/// A machine whose phases fit together.
pub struct Machine<K> {
    pub(super) name: String,
    pub(super) initial: String,
    pub(super) phases: Vec<Phase<K>>,
    pub(super) ends: Vec<End>,
    pub(super) deletion: Option<Deletion<K>>,
}

impl<K> fmt::Debug for Machine<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<K> Machine<K> {
    /// Begins with a machine of this name.
    pub fn builder(name: impl Into<String>) -> Builder<K> {
        Builder(Machine {
            name: name.into(),
            initial: String::new(),
            phases: vec![],
            ends: vec![],
            deletion: None,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What holds objects until their deletion is dealt with.
    pub fn finalizer(&self) -> Option<&str> {
        self.deletion.as_ref().map(|deletion| deletion.finalizer.as_str())
    }

    /// Whether a phase is an end, and then whether it is a bad one.
    pub fn is_end(&self, phase: &str) -> Option<bool> {
        self.ends.iter().find(|end| end.name == phase).map(|end| end.is_failure)
    }

    pub(super) fn phase(&self, name: &str) -> Option<&Phase<K>> {
        let deletion = self.deletion.iter().map(|deletion| &deletion.phase);
        self.phases.iter().chain(deletion).find(|phase| phase.name == name)
    }

    pub(super) fn is_deletion(&self, name: &str) -> bool {
        self.deletion.as_ref().is_some_and(|deletion| deletion.phase.name == name)
    }
}

/// A machine that is being put together.
#[derive(Debug)]
pub struct Builder<K>(pub(super) Machine<K>);

impl<K> Builder<K> {
    /// The first phase.
    #[must_use]
    pub fn initial(mut self, phase: impl Into<String>) -> Self {
        self.0.initial = phase.into();
        self
    }

    /// A phase.
    #[must_use]
    pub fn phase(mut self, phase: Phase<K>) -> Self {
        self.0.phases.push(phase);
        self
    }

    /// A phase that is a good end.
    #[must_use]
    pub fn succeeds(mut self, phase: impl Into<String>) -> Self {
        self.0.ends.push(End { name: phase.into(), is_failure: false });
        self
    }

    /// A phase that is a bad end.
    #[must_use]
    pub fn fails(mut self, phase: impl Into<String>) -> Self {
        self.0.ends.push(End { name: phase.into(), is_failure: true });
        self
    }

    /// What is done before an object goes, whatever phase it is in, and the finalizer that holds it until then. It is
    /// tried until it succeeds: transitions and limits of this phase do not matter.
    #[must_use]
    pub fn deletes(mut self, finalizer: impl Into<String>, phase: Phase<K>) -> Self {
        self.0.deletion = Some(Deletion { finalizer: finalizer.into(), phase });
        self
    }

    /// The machine, if its phases fit together.
    pub fn build(self) -> Result<Machine<K>, GraphErrors> {
        self.0.check()?;
        Ok(self.0)
    }
}
