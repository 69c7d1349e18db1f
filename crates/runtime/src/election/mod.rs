//! Leader election: of several who could, one acts. Who it is stands in a Lease.
//!
//! Whoever leads renews the lease. Who does not watches it, looks at it now and then where that fails, and takes it over
//! when it has not changed for as long as its holder has promised to renew it within. That time is measured by the
//! looker's own clock from when it saw the last change; times that stand in the lease are for people, and no two clocks
//! are ever compared. Every write is bound to the revision that was read, so of two who take over at once one fails. A
//! lease that somebody deletes is made anew, but as nobody's, which has to run out: whoever held it does not know yet.
//!
//! A [`Leadership`] ends by itself, [`Durations::renew_deadline`] after the last renewal was *sent*: before anyone else
//! could have waited for long enough. So there are never two leaders, unless one is put to sleep between looking at its
//! leadership and a write. For that there is the [`Fence`]: a number that grows with every leader, which can be left on
//! what one writes, and by which the writes of a former leader are known.

mod candidate;
mod fence;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use self::candidate::{Candidate, Outcome};
pub use self::fence::{FENCE, Fence};

/// How long things take in an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durations {
    /// For how long a lease that is not renewed stays its holder's. 15 s unless told.
    pub lease: Duration,
    /// For how long a leader goes on without having renewed. 10 s unless told.
    pub renew_deadline: Duration,
    /// How often the lease is looked at or renewed. 2 s unless told.
    pub retry: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        Durations {
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// How long to wait at most between two looks, in retry periods: so that not all look at once.
const JITTER: f64 = 1.2;

/// How long to wait before a lease is given back again.
const RELEASE_AGAIN: Duration = Duration::from_millis(100);

impl Durations {
    /// Says what is wrong with them, if anything.
    fn check(&self) -> Result<(), ElectionError> {
        let Durations { lease, renew_deadline, retry } = *self;
        if lease < Duration::from_secs(1) || lease > Duration::from_secs(i32::MAX as u64) {
            return Err(ElectionError::Lease(lease));
        }
        if renew_deadline >= lease {
            return Err(ElectionError::RenewDeadline { renew_deadline, lease });
        }
        if retry.is_zero() || retry.mul_f64(JITTER) >= renew_deadline {
            return Err(ElectionError::Retry { retry, renew_deadline });
        }
        Ok(())
    }
}

/// Why there cannot be an election.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// A lease is counted in seconds.
    #[error("a lease lasts for a second or more, not {0:?}")]
    Lease(Duration),
    /// Otherwise another could lead before this one stops.
    #[error("the renew deadline, {renew_deadline:?}, must be shorter than the lease, {lease:?}")]
    RenewDeadline {
        /// What was asked for.
        renew_deadline: Duration,
        /// The lease.
        lease: Duration,
    },
    /// Otherwise there is no second try.
    #[error(
        "the retry period, {retry:?}, must be more than nothing, and 1.2 of it shorter than {renew_deadline:?}"
    )]
    Retry {
        /// What was asked for.
        retry: Duration,
        /// The renew deadline.
        renew_deadline: Duration,
    },
}

/// One's right to act. It ends when the lease could not be renewed in time; clones are the same.
#[derive(Clone)]
pub struct Leadership {
    term: Arc<Term>,
}

struct Term {
    fence: Fence,
    /// Until when nobody else can lead.
    until: Mutex<Instant>,
    over: CancellationToken,
    /// How long it takes after the end until another could lead.
    margin: Duration,
    /// Something acts that could not be stopped.
    must_run_out: AtomicBool,
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("fence", &self.term.fence).finish_non_exhaustive()
    }
}

impl Leadership {
    fn new(fence: Fence, until: Instant, margin: Duration) -> Self {
        let over = CancellationToken::new();
        let must_run_out = AtomicBool::new(false);
        Leadership { term: Arc::new(Term { fence, until: Mutex::new(until), over, margin, must_run_out }) }
    }

    /// Whether one may act. It looks at the clock, so it is right even after the whole process has been asleep.
    pub fn is_valid(&self) -> bool {
        !self.term.over.is_cancelled() && Instant::now() < *self.term.until.lock()
    }

    /// Cancelled when it is over: what is done on its behalf has to end then.
    pub fn over(&self) -> &CancellationToken {
        &self.term.over
    }

    /// The number of this leader, to be left on what it writes.
    pub fn fence(&self) -> &Fence {
        &self.term.fence
    }

    /// How long it takes after the end until another could lead: what is under way has to end within that time.
    pub fn margin(&self) -> Duration {
        self.term.margin
    }

    /// When whatever is under way is cut off, once it is over. It is a time and not a while: whoever was asleep has none.
    pub(crate) fn cut_at(&self) -> Instant {
        self.until() + self.term.margin / 2
    }

    /// Says that something acts that could not be stopped: the lease is not given back.
    pub(crate) fn let_run_out(&self) {
        self.term.must_run_out.store(true, Relaxed);
    }

    fn must_run_out(&self) -> bool {
        self.term.must_run_out.load(Relaxed)
    }

    fn extend(&self, until: Instant) {
        *self.term.until.lock() = until;
    }

    fn until(&self) -> Instant {
        *self.term.until.lock()
    }

    fn end(&self) {
        let mut until = self.term.until.lock();
        *until = Instant::now().min(*until);
        drop(until);
        self.term.over.cancel();
    }
}

/// However an election ends, nobody acts on it any more.
struct EndOnDrop(Leadership);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// One who could lead.
pub struct Election {
    leases: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    durations: Durations,
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Election { namespace, name, identity, .. } = self;
        write!(f, "Election({identity} for {namespace}/{name})")
    }
}

impl Election {
    /// Runs for the lease of this name. `who` is for people to read: what tells candidates apart is added.
    pub fn new(
        client: Client,
        namespace: impl Into<String>,
        name: impl Into<String>,
        who: &str,
        durations: Durations,
    ) -> Result<Self, ElectionError> {
        durations.check()?;
        let namespace = namespace.into();
        Ok(Election {
            leases: Api::namespaced(client, &namespace),
            namespace,
            name: name.into(),
            identity: format!("{who}_{:032x}", fastrand::u128(..)),
            durations,
        })
    }

    /// What stands in the lease while this one leads.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The name of the lease.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long things take.
    pub fn durations(&self) -> Durations {
        self.durations
    }

    /// Runs until it is stopped, and calls `lead` whenever it leads. `lead` has to end when the leadership is over or
    /// `stop` is cancelled; the lease is renewed meanwhile, and given back when it has ended before its time.
    pub async fn run<F, Fut>(self, stop: CancellationToken, mut lead: F)
    where
        F: FnMut(Leadership) -> Fut,
        Fut: Future<Output = ()>,
    {
        let mut candidate = Candidate::new(&self);
        while let Some(leadership) = self.campaign(&mut candidate, &stop).await {
            tracing::info!(lease = self.name, fence = %leadership.fence(), "this one leads");
            let end = EndOnDrop(leadership.clone());
            let has_ended = {
                let mut acting = std::pin::pin!(lead(leadership.clone()));
                let has_ended = tokio::select! {
                    () = &mut acting => true,
                    () = self.keep(&mut candidate, &leadership) => false,
                };
                if !has_ended {
                    tracing::warn!(lease = self.name, fence = %leadership.fence(), "this one no longer leads");
                    leadership.end();
                    acting.await;
                }
                has_ended
            };
            drop(end);
            if leadership.must_run_out() {
                tracing::warn!(lease = self.name, "something could not be stopped: the lease has to run out");
                if stop.is_cancelled() {
                    return;
                }
            } else if has_ended {
                self.release(&mut candidate).await;
            }
        }
    }

    /// Tries until it leads, or is stopped.
    async fn campaign(&self, candidate: &mut Candidate, stop: &CancellationToken) -> Option<Leadership> {
        loop {
            let sent = Instant::now();
            let deadline = sent + self.durations.renew_deadline;
            let outcome = tokio::select! {
                () = stop.cancelled() => {
                    self.undo(candidate).await;
                    return None;
                }
                outcome = timeout_at(deadline, candidate.acquire()) => outcome,
            };
            // An answer that comes too late is of no use: it is asked again.
            if let Ok(Outcome::Holds(fence)) = outcome
                && Instant::now() < deadline
            {
                let margin = self.durations.lease.saturating_sub(self.durations.renew_deadline);
                return Some(Leadership::new(fence, deadline, margin));
            }
            let pause = self.durations.retry.mul_f64(1.0 + (JITTER - 1.0) * fastrand::f64());
            let (now, next) = (Instant::now(), Instant::now() + pause);
            // Nobody waits for longer than the lease lasts.
            let next = candidate.free_at().filter(|at| *at > now).map_or(next, |at| at.min(next));
            tokio::select! {
                () = stop.cancelled() => {
                    self.undo(candidate).await;
                    return None;
                }
                () = candidate.wait(next) => {}
            }
        }
    }

    /// Renews until it is too late.
    async fn keep(&self, candidate: &mut Candidate, leadership: &Leadership) {
        loop {
            // The pause is cut short by the deadline, too.
            tokio::select! {
                () = sleep_until(leadership.until()) => return,
                () = sleep(self.durations.retry) => {}
            }
            let sent = Instant::now();
            match timeout_at(leadership.until(), candidate.renew()).await {
                Ok(Outcome::Holds(_)) if leadership.is_valid() => {
                    leadership.extend(sent + self.durations.renew_deadline);
                }
                Ok(Outcome::IsOthers) => return,
                Ok(Outcome::Holds(_) | Outcome::Overtaken | Outcome::Unknown) | Err(_) => {}
            }
        }
    }

    /// Gives the lease back, so that nobody has to wait. If that fails for a while, it has to run out.
    async fn release(&self, candidate: &mut Candidate) {
        let release = async {
            while let Outcome::Overtaken | Outcome::Unknown = candidate.release().await {
                sleep(RELEASE_AGAIN).await;
            }
        };
        match timeout(self.durations.retry, release).await {
            Ok(()) => tracing::info!(lease = self.name, "the lease was given back"),
            Err(_) => {
                tracing::warn!(lease = self.name, "the lease could not be given back, and has to run out")
            }
        }
    }

    /// A lease that was asked for when it came to stop may have been given.
    async fn undo(&self, candidate: &mut Candidate) {
        if candidate.may_hold() {
            self.release(candidate).await;
        }
    }
}
