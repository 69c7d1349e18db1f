//! A store on a simulated disk, a simple model beside it, and random work for both.
//!
//! Everything is driven from one thread, so a seed is a run. Sizes are tiny: a few hundred steps go through
//! rotations, checkpoints, compactions, clean closes and crashes.

use std::{
    cell::Cell,
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;

use crate::{
    Clock, CommitError, Disk, Expect, Retention, Revision, Snapshot, Txn,
    conformance::ToySeal,
    engine::embedded::{OpenError, Parts, checkpoint::Sizes},
    seal::Sealer,
    sim::{Image, Mark, SimDisk},
};

pub(super) const SIZES: Sizes = Sizes { min_part: 1200, min_round: 3 << 10, segment: (4 << 10, 6 << 10) };
pub(super) const RETENTION: Retention =
    Retention { min_age: Duration::ZERO, min_changes: 6, max_bytes: 6 << 10 };
const KEYS: u8 = 6;

/// What is under each key, and since when.
pub(super) type Contents = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

/// A clock that moves when told to.
#[derive(Clone, Default)]
pub(super) struct ManualClock(Arc<AtomicU64>);

impl Clock for ManualClock {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the store should hold, at every revision that was ever asked for.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) states: BTreeMap<u64, Contents>,
}

impl Model {
    fn head(&self) -> u64 {
        *self.states.keys().next_back().expect("never empty")
    }

    fn latest(&self) -> &Contents {
        &self.states[&self.head()]
    }

    /// Does what the store should do with `txn`; `None` when it should refuse.
    fn commit(&mut self, txn: &Txn) -> Option<u64> {
        let mut contents = self.latest().clone();
        let holds = |(key, expect): &(crate::Key, Expect)| {
            expect.holds(contents.get(&**key).map(|(_, revision)| Revision::new(*revision)))
        };
        if !txn.checks.iter().all(holds) {
            return None;
        }
        let revision = self.head() + 1;
        let mut changed = false;
        for op in &txn.ops {
            changed |= match &op.value {
                Some(value) => {
                    contents.insert(op.key.to_vec(), (value.to_vec(), revision));
                    true
                }
                None => contents.remove(&*op.key).is_some(),
            };
        }
        if changed {
            self.states.insert(revision, contents);
        }
        Some(self.head())
    }
}

/// What may be found after a crash.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// Anywhere in here the head may be.
    pub(super) heads: RangeInclusive<u64>,
}

/// A running store, its disk and its model.
pub(super) struct World {
    pub(super) disk: SimDisk,
    pub(super) model: Model,
    pub(super) parts: Option<Parts>,
    pub(super) clock: ManualClock,
    random: Rng,
    n_values: u64,
}

/// How the stores that this thread opens are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sealing {
    Not,
    /// Always with the same key.
    OneKey,
    /// Every time they are opened the next of three keys is the current one.
    Rotating,
}

thread_local! {
    static SEALING: Cell<Sealing> = const { Cell::new(Sealing::Not) };
    static N_OPENED: Cell<u8> = const { Cell::new(0) };
}

/// Runs `test` with sealed stores.
pub(super) fn sealed<T>(sealing: Sealing, test: impl FnOnce() -> T) -> T {
    SEALING.set(sealing);
    let outcome = test();
    SEALING.set(Sealing::Not);
    outcome
}

fn sealer() -> Sealer {
    match SEALING.get() {
        Sealing::Not => Sealer(None),
        Sealing::OneKey => Sealer(Some(Arc::new(ToySeal::new([1])))),
        Sealing::Rotating => {
            let first = (N_OPENED.get() + 1) % 3;
            N_OPENED.set(first);
            Sealer(Some(Arc::new(ToySeal::new((0..3).map(|idx| (first + idx) % 3)))))
        }
    }
}

/// Opens the store on `disk` as tests do.
pub(super) fn open(disk: &SimDisk, clock: &ManualClock) -> Result<Parts, OpenError> {
    let disk = Arc::new(disk.clone()) as Arc<dyn Disk>;
    Parts::open(disk, Arc::new(clock.clone()), RETENTION, SIZES, sealer())
}

impl World {
    pub(super) fn new(seed: u64, disk: SimDisk) -> Self {
        let mut model = Model::default();
        model.states.insert(Revision::FIRST.get(), Contents::new());
        let clock = ManualClock::default();
        World { disk, model, parts: None, clock, random: Rng::with_seed(seed), n_values: 0 }
    }

    /// Where the store stands, if all that was asked for happened.
    pub(super) fn head(&self) -> u64 {
        self.model.head()
    }

    /// Does `n_steps` things. Ends early, with the reason, when the store stops.
    pub(super) fn run(&mut self, n_steps: usize) -> Result<(), String> {
        for _ in 0..n_steps {
            self.clock.0.fetch_add(self.random.u64(..1500), Ordering::Relaxed);
            if let Some(parts) = &mut self.parts {
                parts.checkpointer.tables.sweep();
            } else {
                self.parts = Some(open(&self.disk, &self.clock).map_err(|error| format!("{error:?}"))?);
            }
            match self.random.u8(..100) {
                0..70 => self.commit_group()?,
                70..78 => self.with(|parts| parts.checkpointer.step().map_err(|error| error.to_string()))?,
                78..84 => {
                    self.with(|parts| {
                        parts.checkpointer.step_if_due().map(drop).map_err(|error| error.to_string())
                    })?;
                }
                84..90 => self.with(|parts| parts.spare.prepare().map_err(|error| error.to_string()))?,
                90..94 => self.with(|parts| {
                    parts.writer.idle();
                    stopped(parts)
                })?,
                94..97 => self.compact()?,
                _ => self.close()?,
            }
        }
        Ok(())
    }

    /// Commits something, a while after the last.
    pub(super) fn commit(&mut self) -> Result<(), String> {
        self.clock.0.fetch_add(1500, Ordering::Relaxed);
        self.commit_group()
    }

    fn with(&mut self, act: impl FnOnce(&mut Parts) -> Result<(), String>) -> Result<(), String> {
        act(self.parts.as_mut().expect("open"))
    }

    /// Commits a random group; the store must say what the model says.
    fn commit_group(&mut self) -> Result<(), String> {
        let n_txns = self.random.usize(1..4);
        let txns: Vec<Txn> = (0..n_txns).map(|_| self.random_txn()).collect();
        let before = self.model.clone();
        let expected: Vec<Option<u64>> = txns.iter().map(|txn| self.model.commit(txn)).collect();
        self.disk.mark(Mark::Asked(self.model.head()));
        let mut outcome = Ok(());
        let disk = self.disk.clone();
        let parts = self.parts.as_mut().expect("open");
        let mut expected = expected.into_iter();
        parts.writer.commit(txns.into_iter(), |reply| {
            match (reply, expected.next().expect("one for each")) {
                (Ok(revision), Some(expected)) if revision.get() == expected => {
                    disk.mark(Mark::Acked(expected))
                }
                (Err(CommitError::Refused(_)), None) => {}
                (Err(CommitError::NoSpace { .. }), _) => outcome = Err(None),
                (Err(error @ (CommitError::Unknown(_) | CommitError::Stopped(_))), _) => {
                    outcome = Err(Some(error.to_string()));
                }
                (reply, expected) => outcome = Err(Some(format!("WRONG: {reply:?}, expected {expected:?}"))),
            }
        });
        match outcome {
            Ok(()) => Ok(()),
            // Nothing was written, so nothing has changed.
            Err(None) => {
                self.model = before;
                Ok(())
            }
            Err(Some(reason)) => Err(reason),
        }
    }

    fn random_txn(&mut self) -> Txn {
        let n_ops = if self.random.u8(..8) == 0 { 3 } else { 1 };
        let first = self.random.u8(..KEYS);
        let mut txn = Txn::new();
        for idx in 0..n_ops {
            let key = format!("key-{}", (first + idx) % KEYS);
            let at = self.model.latest().get(key.as_bytes()).map(|(_, revision)| Revision::new(*revision));
            let expect = match (self.random.u8(..4), at) {
                (0, Some(at)) => Expect::At(at),
                (0, None) => Expect::Absent,
                (1, _) => Expect::At(Revision::new(self.random.u64(1..9))),
                _ => Expect::Any,
            };
            self.n_values += 1;
            let len = self.random.usize(..700);
            let value = format!("{:0>len$}", self.n_values);
            txn = match self.random.u8(..4) {
                0 => txn.delete(key, expect),
                _ => txn.put(key, value, expect),
            };
        }
        txn
    }

    fn compact(&mut self) -> Result<(), String> {
        let parts = self.parts.as_mut().expect("open");
        let window = parts.writer.tables.window();
        let floor = self.random.u64(window.floor.get()..=window.head.get());
        match parts.writer.compact(Revision::new(floor)) {
            Ok(()) => Ok(()),
            Err(_) => stopped(parts),
        }
    }

    /// The process ends and another one opens the same disk, which is well again. What that one finds is what
    /// happened.
    pub(super) fn restart(&mut self) {
        self.disk.heal();
        self.parts = None;
        let parts = open(&self.disk, &self.clock).expect("the disk is well again");
        let head = compare(&parts, &self.model).expect("nothing else than was asked for");
        self.model.states.retain(|revision, _| *revision <= head);
        self.disk.mark(Mark::Acked(head));
        self.parts = Some(parts);
    }

    /// Closes properly; the next step opens again.
    pub(super) fn close(&mut self) -> Result<(), String> {
        if let Some(mut parts) = self.parts.take() {
            parts.writer.close(&mut parts.checkpointer);
            match parts.writer.hub.stop_reason().as_deref() {
                Some("closed") => {}
                reason => return Err(format!("{reason:?}")),
            }
        }
        Ok(())
    }
}

fn stopped(parts: &Parts) -> Result<(), String> {
    match parts.writer.hub.stop_reason() {
        Some(reason) => Err(reason.to_string()),
        None => Ok(()),
    }
}

/// Opens the store on an image and compares it, its history included, with the model. Returns the disk, on
/// which recovery has left its trace, and the head that was found.
pub(super) fn verify(image: Image, model: &Model, bounds: &Bounds) -> Result<(SimDisk, u64), String> {
    let disk = SimDisk::from_image(image);
    let parts = open(&disk, &ManualClock::default())
        .map_err(|error| format!("it does not open: {error}: {error:?}"))?;
    let head = compare(&parts, model)?;
    if !bounds.heads.contains(&head) {
        return Err(format!("it stands at {head}, expected one of {:?}", bounds.heads));
    }
    Ok((disk, head))
}

/// Every readable revision must be as the model has it.
pub(super) fn compare(parts: &Parts, model: &Model) -> Result<u64, String> {
    let state = parts.writer.tables.state().clone();
    let (floor, head) = (state.floor.get(), state.head.get());
    for revision in floor..=head {
        let Some(expected) = model.states.get(&revision) else {
            return Err(format!("nobody asked for revision {revision}"));
        };
        let snapshot = Snapshot::new(state.clone(), Revision::new(revision));
        let found: Contents = snapshot
            .iter(b"", None)
            .map(|entry| (entry.key.to_vec(), (entry.value.to_vec(), entry.revision.get())))
            .collect();
        if found != *expected {
            return Err(format!("revision {revision} differs: {found:?}, expected {expected:?}"));
        }
    }
    Ok(head)
}
