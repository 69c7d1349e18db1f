//! What one candidate knows of a lease, and the requests it makes.

use std::time::Duration;

use futures_util::{StreamExt, stream::BoxStream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api,
    api::{PostParams, WatchEvent, WatchParams},
};
use tokio::time::{Instant, sleep_until};

use super::{Election, Fence};

/// The holder of a lease that was deleted and made anew. It is nobody, and renews nothing.
const DELETED: &str = "nobody: the lease was deleted";

/// What came of a request.
pub(super) enum Outcome {
    /// This one is, or was until now, the holder.
    Holds(Fence),
    /// Another one is.
    IsOthers,
    /// Somebody has written or deleted the lease since it was read.
    Overtaken,
    /// Nobody can say.
    Unknown,
}

/// A lease as it was last seen to change.
struct Seen {
    spec: LeaseSpec,
    /// By one's own clock, and after it had changed.
    at: Instant,
    /// For how long it stays its holder's without being renewed.
    promised: Duration,
}

impl Seen {
    fn has_run_out(&self) -> bool {
        self.at.elapsed() >= self.promised
    }
}

/// What happens to a lease.
type Changes = BoxStream<'static, kube::Result<WatchEvent<Lease>>>;

pub(super) struct Candidate {
    leases: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    duration: Duration,
    seen: Option<Seen>,
    /// The revision that was read last, and what has happened since, if it can be watched.
    revision: String,
    changes: Option<Changes>,
    /// The lease as this one wrote it: while it leads, nobody else writes it.
    own: Option<Lease>,
    /// Whether a request to become the holder has no answer.
    has_asked: bool,
}

impl Candidate {
    pub(super) fn new(election: &Election) -> Self {
        Candidate {
            leases: election.leases.clone(),
            namespace: election.namespace.clone(),
            name: election.name.clone(),
            identity: election.identity.clone(),
            duration: election.durations.lease,
            seen: None,
            revision: String::new(),
            changes: None,
            own: None,
            has_asked: false,
        }
    }

    pub(super) fn may_hold(&self) -> bool {
        self.has_asked
    }

    /// Takes the lease if nobody has it.
    pub(super) async fn acquire(&mut self) -> Outcome {
        self.own = None;
        let lease = match self.leases.get_opt(&self.name).await {
            Ok(Some(lease)) => lease,
            Ok(None) if self.seen.is_none() => return self.create().await,
            Ok(None) => return self.create_anew().await,
            Err(error) => return self.unanswered("read", &error),
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if !self.is_free(&spec) {
            self.revision = lease.metadata.resource_version.unwrap_or_default();
            return Outcome::IsOthers;
        }
        self.changes = None;
        let transitions = spec.lease_transitions.unwrap_or(0).saturating_add(1);
        let taken = self.held(spec, transitions);
        self.ask(Lease { spec: Some(taken), ..lease }).await
    }

    /// Waits until some time, or until the lease is given back or deleted, and takes note of every change as it happens: whoever
    /// only looks now and then learns late of the last renewal, and has to wait for longer.
    pub(super) async fn wait(&mut self, until: Instant) {
        let changes = async {
            while let Some(spec) = self.next_change().await {
                let Some(spec) = spec else { return };
                let is_free = holder_of(&spec).is_empty();
                self.look(spec);
                if is_free {
                    return;
                }
            }
            // It cannot be watched, or no longer: looking now and then has to do.
            sleep_until(until).await;
        };
        tokio::select! {
            () = sleep_until(until) => {}
            () = changes => {}
        }
    }

    /// What stands in the lease after its next change, if it is there; `None` if that cannot be said.
    async fn next_change(&mut self) -> Option<Option<LeaseSpec>> {
        let changes = match self.changes.take() {
            Some(changes) => changes,
            None if self.revision.is_empty() => return None,
            None => {
                let only = WatchParams::default().fields(&format!("metadata.name={}", self.name));
                self.leases.watch(&only, &std::mem::take(&mut self.revision)).await.ok()?.boxed()
            }
        };
        // It is kept while one waits, and forgotten once it ends or fails.
        let changes = self.changes.insert(changes);
        loop {
            match changes.next().await {
                Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                    return Some(Some(lease.spec.unwrap_or_default()));
                }
                Some(Ok(WatchEvent::Deleted(_))) => return Some(None),
                Some(Ok(WatchEvent::Bookmark(_))) => {}
                Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => break,
            }
        }
        self.changes = None;
        None
    }

    /// Says that it is still there. Whatever has been written meanwhile, by whomever, is not overwritten: it is looked at
    /// whose the lease is then.
    pub(super) async fn renew(&mut self) -> Outcome {
        match self.try_renew().await {
            Outcome::Overtaken => self.try_renew().await,
            outcome => outcome,
        }
    }

    async fn try_renew(&mut self) -> Outcome {
        let own = match self.own().await {
            Ok(own) => own,
            Err(outcome) => return outcome,
        };
        let spec = own.spec.clone().unwrap_or_default();
        let (acquired, transitions) = (spec.acquire_time.clone(), spec.lease_transitions.unwrap_or(0));
        let kept = LeaseSpec { acquire_time: acquired, ..self.held(spec, transitions) };
        self.put(Lease { spec: Some(kept), ..own }).await
    }

    /// Lets others have it.
    pub(super) async fn release(&mut self) -> Outcome {
        let own = match self.own().await {
            Ok(own) => own,
            Err(outcome) => return outcome,
        };
        let spec = own.spec.clone().unwrap_or_default();
        let now = now_after(spec.renew_time.as_ref());
        let free = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(now.clone()),
            acquire_time: Some(now),
            ..spec
        };
        let outcome = self.put(Lease { spec: Some(free), ..own }).await;
        self.own = None;
        self.has_asked &= matches!(outcome, Outcome::Overtaken | Outcome::Unknown);
        outcome
    }

    /// The lease as this one wrote it, or, after a request that had no answer or met another's change, as it is if it is
    /// still this one's.
    async fn own(&mut self) -> Result<Lease, Outcome> {
        if let Some(own) = self.own.take() {
            return Ok(own);
        }
        match self.leases.get_opt(&self.name).await {
            Ok(Some(lease)) => {
                let spec = lease.spec.clone().unwrap_or_default();
                let is_own = holder_of(&spec) == self.identity;
                self.look(spec);
                if is_own { Ok(lease) } else { Err(Outcome::IsOthers) }
            }
            Ok(None) => Err(Outcome::IsOthers),
            Err(error) => Err(self.unanswered("read", &error)),
        }
    }

    async fn create(&mut self) -> Outcome {
        self.has_asked = true;
        let spec = self.held(LeaseSpec::default(), 0);
        let created = self.post(spec).await;
        self.settle(created)
    }

    /// Makes a lease anew that was deleted. Whoever held it may not know yet, and nobody can say who did: so the new one is
    /// nobody's, and has to run out first.
    async fn create_anew(&mut self) -> Outcome {
        let promised = self.seen.as_ref().map_or(self.duration, |seen| seen.promised.max(self.duration));
        let spec = LeaseSpec {
            holder_identity: Some(DELETED.to_owned()),
            lease_duration_seconds: Some(whole_seconds(promised)),
            ..self.held(LeaseSpec::default(), 0)
        };
        match self.post(spec).await {
            Ok(lease) => {
                self.look(lease.spec.unwrap_or_default());
                Outcome::IsOthers
            }
            Err(error) => self.unanswered("made anew", &error),
        }
    }

    async fn post(&mut self, spec: LeaseSpec) -> Result<Lease, kube::Error> {
        let mut lease = Lease { spec: Some(spec), ..Lease::default() };
        lease.metadata.name = Some(self.name.clone());
        lease.metadata.namespace = Some(self.namespace.clone());
        self.leases.create(&PostParams::default(), &lease).await
    }

    async fn ask(&mut self, lease: Lease) -> Outcome {
        self.has_asked = true;
        self.put(lease).await
    }

    /// Writes it, unless anyone has since it was read.
    async fn put(&mut self, lease: Lease) -> Outcome {
        let written = self.leases.replace(&self.name, &PostParams::default(), &lease).await;
        self.settle(written)
    }

    fn settle(&mut self, written: Result<Lease, kube::Error>) -> Outcome {
        match written {
            Ok(lease) => {
                self.look(lease.spec.clone().unwrap_or_default());
                let fence = Fence::new(&self.namespace, &self.name, &lease);
                self.own = Some(lease);
                Outcome::Holds(fence)
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Outcome::Overtaken,
            Err(error) => self.unanswered("written", &error),
        }
    }

    fn unanswered(&self, what: &str, error: &kube::Error) -> Outcome {
        tracing::debug!(lease = self.name, %error, "the lease could not be {what}");
        Outcome::Unknown
    }

    /// When it may be taken, if nothing changes.
    pub(super) fn free_at(&self) -> Option<Instant> {
        self.seen.as_ref().map(|seen| seen.at + seen.promised)
    }

    /// For how long a lease stays its holder's without being renewed: as long as the holder has said.
    fn promised(&self, spec: &LeaseSpec) -> Duration {
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.filter(|seconds| *seconds > 0).map_or(self.duration, Duration::from_secs)
    }

    /// Whether nobody has it: nobody does, or who does has let the time pass that it had promised to renew it within.
    /// One's own is free, too: it is of a term that has ended.
    fn is_free(&mut self, spec: &LeaseSpec) -> bool {
        let holder = holder_of(spec);
        let has_run_out = self.look(spec.clone()).has_run_out();
        holder.is_empty() || holder == self.identity || has_run_out
    }

    /// Takes note of what stands in the lease.
    fn look(&mut self, spec: LeaseSpec) -> &Seen {
        let seen = match self.seen.take() {
            Some(seen) if seen.spec == spec => seen,
            _ => Seen { promised: self.promised(&spec), spec, at: Instant::now() },
        };
        self.seen.insert(seen)
    }

    fn held(&self, spec: LeaseSpec, transitions: i32) -> LeaseSpec {
        let now = now_after(spec.renew_time.as_ref());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(whole_seconds(self.duration)),
            lease_transitions: Some(transitions),
            renew_time: Some(now.clone()),
            acquire_time: Some(now),
            ..spec
        }
    }
}

/// A lease is counted in seconds, and rather lasts too long than not long enough.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

fn holder_of(spec: &LeaseSpec) -> &str {
    spec.holder_identity.as_deref().unwrap_or_default()
}

/// The time, but later than another: a clock that stands still or goes back must not make a renewal look like none.
fn now_after(before: Option<&MicroTime>) -> MicroTime {
    let next = before.and_then(|before| before.0.checked_add(SignedDuration::from_micros(1)).ok());
    MicroTime(next.map_or_else(Timestamp::now, |next| next.max(Timestamp::now())))
}
