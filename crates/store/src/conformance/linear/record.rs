//! Concurrent clients, and a note of everything they asked and were told.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use fastrand::Rng;

use crate::{
    CommitError, Expect, Read, Revision, Store,
    conformance::{
        follow::Follower,
        plan::{self, Contents, Effect, Plan, Refusals, Version},
        probe::{latest, within},
    },
};

/// How much is to happen. The same load makes the same plans, though not in the same order.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Clients at a time.
    pub n_clients: usize,
    /// Calls of each client.
    pub n_calls: usize,
    /// Keys they share. Few, so that they get in each other's way.
    pub n_keys: usize,
    /// Where their choices come from.
    pub seed: u64,
}

impl Default for Load {
    fn default() -> Self {
        Load { n_clients: 12, n_calls: 500, n_keys: 10, seed: 0 }
    }
}

/// What was called and what it returned. Times are ticks of one counter: of two calls, the one that was
/// answered at a lower tick than the other was made came before it.
#[derive(Clone, Debug)]
pub struct Call {
    /// When it was made.
    pub called: u64,
    /// When it was answered.
    pub returned: u64,
    /// What was asked and answered.
    pub what: What,
}

/// A question and its answer.
#[derive(Clone, Debug)]
pub enum What {
    /// A transaction.
    Commit {
        /// What was to be done.
        plan: Plan,
        /// What came of it.
        outcome: Outcome,
    },
    /// One key, in the newest state.
    Get {
        /// The key.
        key: Vec<u8>,
        /// The revision of the snapshot.
        revision: Revision,
        /// What was found.
        found: Option<Version>,
    },
    /// All keys.
    Range {
        /// Whether the newest state was asked for, or only a true one.
        newest: bool,
        /// The revision of the snapshot.
        revision: Revision,
        /// What was found.
        found: Contents,
    },
}

/// What came of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened at this revision (or, when it changes nothing, held at it).
    Done(Revision),
    /// Checks failed: these, by key, with what was expected and what was found.
    Refused(BTreeMap<Vec<u8>, (Expect, Option<Version>)>),
    /// It may have happened, at any time since it was called.
    Unknown,
    /// It did not happen, and nothing can be said about why.
    Failed,
}

/// Everything that is known about a run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Where the store stood, empty, before the first call.
    pub start: Revision,
    /// All calls, in any order.
    pub calls: Vec<Call>,
    /// What the store says has happened since, by revision and in key order.
    pub(super) history: BTreeMap<Revision, Vec<Effect>>,
}

/// Lets clients loose on an empty store and records what they see.
pub async fn record(store: Arc<dyn Store>, load: Load) -> Recording {
    let start = latest(&*store).await;
    assert_eq!(start.count(b""), 0, "recordings begin with an empty store");
    let start = start.revision();
    let ticks = Arc::new(AtomicU64::new(0));
    let mut seeds = Rng::with_seed(load.seed);
    let clients: Vec<_> = (0..load.n_clients)
        .map(|id| {
            let rng = Rng::with_seed(seeds.u64(..));
            let known = BTreeMap::new();
            let client = Client { store: store.clone(), ticks: ticks.clone(), load, id, rng, known };
            tokio::spawn(client.run())
        })
        .collect();
    let mut calls = Vec::new();
    for client in clients {
        calls.extend(within("the end of the clients", client).await.expect("clients do not panic"));
    }
    let mut follower = Follower::start(&*store, b"", start).await;
    latest(&*store).await;
    follower.through(store.window().head).await;
    let mut history: BTreeMap<Revision, Vec<Effect>> = BTreeMap::new();
    for change in &follower.seen {
        history.entry(change.revision).or_default().push(plan::effect(change));
    }
    for effects in history.values_mut() {
        effects.sort_by(|a, b| a.key.cmp(&b.key));
    }
    Recording { start, calls, history }
}

struct Client {
    store: Arc<dyn Store>,
    ticks: Arc<AtomicU64>,
    load: Load,
    id: usize,
    rng: Rng,
    /// What this client believes is there; it expects that when it writes, and is often wrong.
    known: BTreeMap<Vec<u8>, Revision>,
}

impl Client {
    async fn run(mut self) -> Vec<Call> {
        let mut calls = Vec::with_capacity(self.load.n_calls);
        for idx in 0..self.load.n_calls {
            let plan = self.plan(idx);
            let dice = self.rng.u8(..20);
            let called = self.tick();
            let what = match dice {
                0..12 => self.commit(plan).await,
                12..15 => self.get().await,
                15..19 => self.range(Read::Latest).await,
                _ => self.range(Read::Seen).await,
            };
            let returned = self.tick();
            calls.extend(what.map(|what| Call { called, returned, what }));
            tokio::task::yield_now().await;
        }
        calls
    }

    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key-{}", self.rng.usize(..self.load.n_keys)).into_bytes()
    }

    /// A transaction that surely changes something if it happens, or surely nothing: deletions are conditional
    /// or go with a put. And no two put the same value, so that what is seen says who wrote it.
    fn plan(&mut self, idx: usize) -> Plan {
        let mut plan = Plan::default();
        let key = self.key();
        match (self.rng.u8(..10), self.known.get(&key)) {
            (0, _) => {}
            (1 | 2, Some(revision)) => {
                plan.checks.insert(key.clone(), Expect::At(*revision));
                plan.changes.push((key, None));
            }
            _ => plan.changes.push((key, Some(self.value(idx, 0)))),
        }
        let n_more = if self.rng.u8(..3) == 0 { self.rng.usize(..4) } else { 0 };
        for part in 0..n_more {
            let key = self.key();
            if plan.changes.is_empty() || plan.changes.iter().any(|(other, _)| *other == key) {
                continue;
            }
            let has_put = plan.changes.iter().any(|(_, value)| value.is_some());
            let value = (!has_put || self.rng.bool()).then(|| self.value(idx, part + 1));
            plan.changes.push((key, value));
        }
        for _ in 0..self.rng.usize(..3) {
            let key = self.key();
            let expect = self.known.get(&key).map_or(Expect::Absent, |revision| Expect::At(*revision));
            plan.checks.entry(key).or_insert(expect);
        }
        plan
    }

    fn value(&self, idx: usize, part: usize) -> Bytes {
        format!("{}/{idx}/{part}", self.id).into()
    }

    async fn commit(&mut self, plan: Plan) -> Option<What> {
        let outcome = match within("a commit", self.store.commit(plan.txn())).await {
            Ok(revision) => {
                for (key, value) in &plan.changes {
                    self.learn(key, value.as_ref().map(|_| revision));
                }
                Outcome::Done(revision)
            }
            Err(CommitError::Refused(mismatches)) => {
                let refusals: Refusals = plan::refusals(&mismatches);
                for (key, (_, actual)) in &refusals {
                    self.learn(key, actual.as_ref().map(|(revision, _)| *revision));
                }
                Outcome::Refused(refusals)
            }
            Err(CommitError::Unknown(_)) => Outcome::Unknown,
            Err(_) => Outcome::Failed,
        };
        Some(What::Commit { plan, outcome })
    }

    async fn get(&mut self) -> Option<What> {
        let key = self.key();
        let snapshot = within("a snapshot", self.store.snapshot(Read::Latest)).await.ok()?;
        let found = snapshot.get(&key).map(|entry| plan::version(entry));
        self.learn(&key, found.as_ref().map(|(revision, _)| *revision));
        Some(What::Get { key, revision: snapshot.revision(), found })
    }

    async fn range(&mut self, read: Read) -> Option<What> {
        let snapshot = within("a snapshot", self.store.snapshot(read)).await.ok()?;
        let page = snapshot.range(b"", None, 0);
        let found: Contents =
            page.entries.iter().map(|entry| (entry.key.to_vec(), plan::version(entry))).collect();
        self.known = found.iter().map(|(key, (revision, _))| (key.clone(), *revision)).collect();
        Some(What::Range { newest: read == Read::Latest, revision: snapshot.revision(), found })
    }

    fn learn(&mut self, key: &[u8], revision: Option<Revision>) {
        match revision {
            Some(revision) => self.known.insert(key.to_vec(), revision),
            None => self.known.remove(key),
        };
    }
}
