//! One store and its oracle: makes an operation on both and compares.

use std::{collections::BTreeMap, sync::Arc};

use fastrand::Rng;

use super::{draw, oracle::Oracle, retained::Retained};
use crate::{
    Clock, CommitError, Expect, Read, ReadError, Revision, Snapshot, Store, Txn, Window,
    conformance::{
        Harness,
        follow::Follower,
        plan::{self, Effect},
        probe::{latest, snapshot, within},
    },
};

/// Watchers at a time. They read at different paces, the last hardly ever.
const FOLLOWERS: usize = 8;

/// Snapshots held on to at a time, to be read again later.
const HELD: usize = 4;

/// The store, what it should contain, and those who read from it.
pub(super) struct Driver<'a> {
    harness: &'a dyn Harness,
    store: Arc<dyn Store>,
    oracle: Oracle,
    floor: Revision,
    retained: Retained,
    /// Each with the revision up to which it has been compared.
    followers: [Option<(Follower, Revision)>; FOLLOWERS],
    held: Vec<Snapshot>,
    max_value: usize,
}

impl<'a> Driver<'a> {
    pub(super) async fn start(harness: &'a dyn Harness) -> Self {
        let store = harness.fresh().await;
        let empty = latest(&*store).await;
        assert_eq!(empty.count(b""), 0, "the harness gave out a store that is not empty");
        let retention = harness.retention();
        // Where bytes decide what is kept, values must be large enough to matter.
        let max_value = if retention.max_bytes < 1 << 20 { 16 << 10 } else { 64 };
        Driver {
            harness,
            oracle: Oracle::new(empty.revision()),
            floor: store.window().floor,
            store,
            retained: Retained::new(retention, harness.clock().is_some()),
            followers: Default::default(),
            held: Vec::new(),
            max_value,
        }
    }

    /// Makes one random operation.
    pub(super) async fn step(&mut self, rng: &mut Rng) {
        match rng.u16(..1000) {
            0..400 => self.commit(rng).await,
            400..420 => {
                for _ in 0..rng.usize(..60) {
                    self.commit(rng).await;
                }
            }
            420..440 => self.malformed(rng).await,
            440..600 => self.read(rng).await,
            600..640 => self.reread(rng),
            640..650 => self.compact(rng).await,
            650..900 => self.follow(rng).await,
            900..997 => self.tick(rng),
            _ => self.reopen().await,
        }
        self.check_window();
    }

    /// Reads every watch to its end.
    pub(super) async fn finish(mut self) {
        for idx in 0..FOLLOWERS {
            self.catch_up(idx).await;
        }
        self.compare(&latest(&*self.store).await);
        within("the close", self.store.close()).await;
    }

    fn now_millis(&self) -> u64 {
        self.harness.clock().map_or(0, Clock::now_millis)
    }

    fn window(&self) -> Window {
        Window { floor: self.floor, head: self.oracle.head() }
    }

    async fn commit(&mut self, rng: &mut Rng) {
        let plan = draw::plan(rng, &self.oracle, self.max_value);
        let head = self.oracle.head();
        let refusals = plan.refusals(|key| self.oracle.get(key, head));
        let effects = plan.effects(|key| self.oracle.get(key, head));
        match within("a commit", self.store.commit(plan.txn())).await {
            Ok(revision) => {
                assert!(refusals.is_empty(), "{plan:?} was committed in spite of {refusals:?}");
                if effects.is_empty() {
                    self.oracle.advance(revision);
                } else {
                    self.retained.push(revision, &effects, self.now_millis());
                    self.oracle.apply(revision, effects);
                    self.forget();
                }
            }
            Err(CommitError::Refused(mismatches)) => {
                assert_eq!(plan::refusals(&mismatches), refusals, "{plan:?} was refused");
                assert!(!refusals.is_empty(), "{plan:?} was refused without a reason");
            }
            Err(err) => panic!("{plan:?} failed: {err}"),
        }
    }

    /// After a commit the store may have forgotten something on its own.
    fn forget(&mut self) {
        let floor = self.store.window().floor;
        assert!(floor >= self.floor && floor <= self.oracle.head(), "the floor moved to {floor}");
        self.retained.forget(floor, self.oracle.live_bytes(), self.now_millis());
        self.floor = floor;
    }

    async fn malformed(&mut self, rng: &mut Rng) {
        let key = draw::key(rng);
        let txn = match rng.u8(..3) {
            0 => Txn::new().put(key, "x", Expect::Any).delete(key, Expect::Any),
            1 => Txn::new().put("", "x", Expect::Any).put(key, "x", Expect::Any),
            _ => Txn::new().require("", Expect::Absent).put(key, "x", Expect::Any),
        };
        let outcome = within("a refusal", self.store.commit(txn)).await;
        let refused = matches!(outcome, Err(CommitError::DuplicateKey { .. } | CommitError::BadKey { .. }));
        assert!(refused, "a malformed transaction got {outcome:?}");
    }

    async fn read(&mut self, rng: &mut Rng) {
        let at = draw::revision(rng, self.floor, self.oracle.head());
        let read = match rng.u8(..8) {
            0 => Read::Latest,
            1 => Read::Seen,
            _ => Read::At(at),
        };
        let expected = self.expected_error(at).filter(|_| read == Read::At(at));
        match within("a snapshot", self.store.snapshot(read)).await {
            Ok(snapshot) => {
                assert_eq!(None, expected, "{at} was read");
                match read {
                    Read::At(at) => assert_eq!(snapshot.revision(), at),
                    _ => self.oracle.advance(snapshot.revision()),
                }
                self.compare_some(rng, &snapshot);
                if self.held.len() < HELD {
                    self.held.push(snapshot);
                }
            }
            Err(err) => assert_eq!(Some(err), expected, "{at} was not read"),
        }
    }

    /// What asking for `revision` must be answered if it lies outside the window.
    fn expected_error(&self, revision: Revision) -> Option<ReadError> {
        let Window { floor, head } = self.window();
        if revision < floor {
            return Some(ReadError::Compacted { requested: revision, floor });
        }
        (revision > head).then_some(ReadError::Future { requested: revision, head })
    }

    /// Reads a snapshot that has been held for a while, and lets go of it.
    fn reread(&mut self, rng: &mut Rng) {
        if !self.held.is_empty() {
            let snapshot = self.held.swap_remove(rng.usize(..self.held.len()));
            self.compare(&snapshot);
        }
    }

    fn compare(&self, snapshot: &Snapshot) {
        let at = snapshot.revision();
        assert_eq!(plan::contents(snapshot), self.oracle.contents(at), "at {at}");
    }

    /// Compares one way of reading or another.
    fn compare_some(&self, rng: &mut Rng, snapshot: &Snapshot) {
        let at = snapshot.revision();
        if rng.bool() {
            let key = draw::key(rng);
            let found = snapshot.get(key).map(|entry| plan::version(entry));
            return assert_eq!(found, self.oracle.get(key, at), "{} at {at}", key.escape_ascii());
        }
        let prefix = draw::prefix(rng);
        let start = rng.bool().then(|| draw::key(rng));
        let limit = rng.usize(..6);
        let page = snapshot.range(prefix, start, limit);
        let mut expected = self.oracle.contents(at);
        expected.retain(|key, _| key.starts_with(prefix));
        assert_eq!(snapshot.count(prefix), expected.len(), "{} at {at}", prefix.escape_ascii());
        if prefix.ends_with(b"/") {
            let is_in = |key: &&Vec<u8>| !key[prefix.len()..].contains(&b'/');
            let n_in = expected.keys().filter(is_in).count();
            assert_eq!(snapshot.count_in(prefix), n_in, "{} at {at}", prefix.escape_ascii());
        }
        expected.retain(|key, _| start.is_none_or(|start| key.as_slice() >= start));
        let n_matching = expected.len();
        let n_expected = if limit == 0 { n_matching } else { n_matching.min(limit) };
        let expected: Vec<_> = expected.into_iter().take(n_expected).collect();
        let found: Vec<_> =
            page.entries.iter().map(|entry| (entry.key.to_vec(), plan::version(entry))).collect();
        assert_eq!(found, expected, "{} from {start:?} at {at}", prefix.escape_ascii());
        assert_eq!(page.more, n_matching > n_expected, "{} from {start:?} at {at}", prefix.escape_ascii());
    }

    async fn compact(&mut self, rng: &mut Rng) {
        let revision = draw::revision(rng, self.floor, self.oracle.head());
        let expected = self.expected_error(revision);
        let outcome = within("a compaction", self.store.compact(revision)).await;
        assert_eq!(outcome.err(), expected, "compaction to {revision}");
        if expected.is_none() {
            self.floor = revision;
            self.retained.compact(revision);
        }
    }

    async fn follow(&mut self, rng: &mut Rng) {
        let idx = rng.usize(..FOLLOWERS);
        if self.followers[idx].is_none() {
            return self.start_follower(idx, rng).await;
        }
        match rng.usize(..FOLLOWERS * 4) {
            0 => self.catch_up(idx).await,
            1 if rng.bool() => self.followers[idx] = None,
            dice if dice / 4 >= idx => self.poll(idx),
            _ => {}
        }
    }

    async fn start_follower(&mut self, idx: usize, rng: &mut Rng) {
        let after = draw::revision(rng, self.floor, self.oracle.head());
        let prefix = draw::prefix(rng);
        let expected = self.expected_error(after);
        match Follower::try_start(&*self.store, prefix, after).await {
            Ok(follower) => {
                assert_eq!(None, expected, "a watch after {after} began");
                self.followers[idx] = Some((follower, after));
            }
            Err(err) => assert_eq!(Some(err), expected, "a watch after {after} was refused"),
        }
    }

    /// Takes what the watch has at hand.
    fn poll(&mut self, idx: usize) {
        if let Some((mut follower, after)) = self.followers[idx].take() {
            let outcome = follower.poll();
            self.compare_told(idx, follower, after, outcome);
        }
    }

    /// Reads the watch up to the head, or to where it is cut off.
    async fn catch_up(&mut self, idx: usize) {
        if let Some((mut follower, after)) = self.followers[idx].take() {
            let outcome = follower.try_through(self.oracle.head()).await;
            self.compare_told(idx, follower, after, outcome);
        }
    }

    /// Everything between `after` and where the watch stands must have been told, and nothing else.
    fn compare_told(
        &mut self,
        idx: usize,
        mut follower: Follower,
        after: Revision,
        outcome: Result<(), ReadError>,
    ) {
        let (prefix, done) = (follower.prefix().to_vec(), follower.done());
        let told: BTreeMap<(Revision, Vec<u8>), Effect> = follower
            .seen
            .drain(..)
            .map(|change| ((change.revision, change.key.to_vec()), plan::effect(&change)))
            .collect();
        let found = told.iter().map(|((revision, _), effect)| (*revision, effect));
        if !found.eq(self.oracle.log(&prefix, after, done)) {
            let expected: Vec<_> = self.oracle.log(&prefix, after, done).collect();
            panic!(
                "in ({after}, {done}] of {:?} expected {expected:?}, told {told:?}",
                prefix.escape_ascii()
            );
        }
        match outcome {
            Ok(()) => self.followers[idx] = Some((follower, done)),
            Err(err) => self.check_end(&err),
        }
    }

    fn check_end(&self, err: &ReadError) {
        match err {
            ReadError::Compacted { floor, .. } => assert!(*floor <= self.floor, "cut off at {floor}"),
            err => panic!("the watch ended with {err}"),
        }
    }

    fn tick(&mut self, rng: &mut Rng) {
        if let Some(clock) = self.harness.clock() {
            clock.advance(if rng.u8(..10) == 0 { rng.u64(..2000) } else { rng.u64(..50) });
        }
    }

    /// Closes the store and opens it again, if the engine can; what was live must still be.
    async fn reopen(&mut self) {
        if !self.harness.reopens() {
            return;
        }
        within("the close", self.store.close()).await;
        for slot in &mut self.followers {
            if let Some((mut follower, _)) = slot.take() {
                let ended = loop {
                    if let Err(err) = follower.next().await {
                        break err;
                    }
                };
                assert!(matches!(ended, ReadError::Stopped(_)), "the close ended a watch with {ended}");
            }
        }
        self.store = within("the reopening", self.harness.reopen(self.store.clone())).await;
        let reopened = latest(&*self.store).await;
        self.oracle.advance(reopened.revision());
        self.compare(&reopened);
        let floor = self.store.window().floor;
        assert!(floor <= self.oracle.head(), "the floor moved to {floor}");
        // How much of the past an engine brings back is up to it, as long as it is true.
        self.compare(&snapshot(&*self.store, Read::At(floor)).await);
        self.floor = floor;
        self.retained.compact(floor);
    }

    fn check_window(&mut self) {
        let window = self.store.window();
        self.oracle.advance(window.head);
        assert_eq!(window, self.window(), "the window moved on its own");
    }
}
