//! Walking a trace, and asking at each point what a power cut would leave.

use std::{mem, sync::Arc};

use fastrand::Rng;

use super::{
    Edit, Image, Mark, Mood, NameOp, Step, Trace,
    crash::{self, Chance, Fate},
    disk::numbered,
    trace::Names,
};

/// A position in a trace, with what is durable there and what is not.
///
/// It only goes forward, and folds each step in once; an image costs what is not durable at that point, and
/// one copy of each file concerned. A cut *during* a call needs no point of its own: after the step of a write,
/// images with any part of it occur, and before the step of a sync, images with any part of what it would have
/// made durable.
pub(crate) struct Replay<'a> {
    trace: &'a Trace,
    at: usize,
    names: Durable<Names, NameOp>,
    /// By number of the file.
    files: Vec<Durable<Arc<Vec<u8>>, Edit>>,
    asked: Vec<u64>,
    acked: Vec<u64>,
}

/// A state that is durable, and the changes since then that are not, or not surely.
struct Durable<T, C> {
    state: T,
    pending: Vec<(C, Fate)>,
}

impl<'a> Replay<'a> {
    /// Stands before the first step.
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let (names, files) = numbered(&trace.base);
        Replay {
            trace,
            at: 0,
            names: Durable::new(names),
            files: files.into_iter().map(Durable::new).collect(),
            asked: Vec::new(),
            acked: Vec::new(),
        }
    }

    /// Goes over one step and returns it; none when the trace has ended.
    pub(crate) fn step(&mut self) -> Option<&'a Step> {
        let step = self.trace.steps().get(self.at)?;
        self.at += 1;
        match step {
            Step::Edit(file, edit) => self.files[file.0].pending.push((edit.clone(), Fate::Open)),
            Step::Sync(file) => {
                self.files[file.0].sync(|bytes, edits| {
                    let bytes = Arc::make_mut(bytes);
                    edits.into_iter().for_each(|(edit, _)| edit.apply(bytes));
                });
            }
            Step::SyncFailed(file) => self.files[file.0].lose(),
            Step::Name(op) => {
                if let NameOp::Create { .. } = op {
                    self.files.push(Durable::new(Arc::default()));
                }
                self.names.pending.push((op.clone(), Fate::Open));
            }
            Step::SyncNames => {
                self.names.sync(|names, ops| ops.into_iter().for_each(|(op, _)| op.apply(names)));
            }
            Step::SyncNamesFailed => self.names.lose(),
            Step::Mark(Mark::Asked(number)) => self.asked.push(*number),
            Step::Mark(Mark::Acked(number)) => self.acked.push(*number),
        }
        Some(step)
    }

    /// How many steps it has gone over.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The numbers of the [`Mark::Asked`] it has gone over, in order.
    pub(crate) fn asked(&self) -> &[u64] {
        &self.asked
    }

    /// The numbers of the [`Mark::Acked`] it has gone over, in order.
    pub(crate) fn acked(&self) -> &[u64] {
        &self.acked
    }

    /// Whether everything is durable here, so that all images are the same.
    pub(crate) fn is_settled(&self) -> bool {
        self.names.pending.is_empty() && self.files.iter().all(|file| file.pending.is_empty())
    }

    /// What a power cut here might leave: one possibility per seed. In an eighth of them all files and the
    /// names fare alike, well or badly; in the others each draws its own [`Mood`].
    pub(crate) fn image(&self, seed: u64) -> Image {
        let mut rng = self.rng(seed);
        match rng.u8(..16) {
            0 => self.build(&mut rng, |_| Mood::Kept),
            1 => self.build(&mut rng, |_| Mood::Dropped),
            _ => self.build(&mut rng, Mood::any),
        }
    }

    /// Like [`Replay::image`], with one mood for all files and the names.
    pub(crate) fn image_in(&self, mood: Mood, seed: u64) -> Image {
        self.build(&mut self.rng(seed), |_| mood)
    }

    /// The same seed gives other chances at other points, so that a few seeds at each of many points are not
    /// the same few chances over and over.
    fn rng(&self, seed: u64) -> Rng {
        Rng::with_seed(Rng::with_seed(seed).u64(..) ^ self.at as u64)
    }

    fn build(&self, rng: &mut Rng, mut mood: impl FnMut(&mut Rng) -> Mood) -> Image {
        let chance = Chance::new(mood(rng), self.names.pending.len(), rng);
        let names = crash::names(&self.names.state, &self.names.pending, chance);
        let file = |(name, id): (String, super::FileId)| {
            let file = &self.files[id.0];
            let chance = Chance::new(mood(rng), file.pending.len(), rng);
            (name, crash::content(&file.state, &file.pending, chance))
        };
        names.into_iter().map(file).collect()
    }
}

impl<T, C> Durable<T, C> {
    fn new(state: T) -> Self {
        Durable { state, pending: Vec::new() }
    }

    /// Makes what is pending durable, but not what an earlier sync lost. `fold` puts changes into the state.
    fn sync(&mut self, fold: impl FnOnce(&mut T, Vec<(C, Fate)>)) {
        if self.pending.iter().any(|(_, fate)| *fate == Fate::Lost) {
            // What may or may not be there stays, and so does all that came after: it lies on top.
            self.turn_open(Fate::Durable);
        } else {
            fold(&mut self.state, mem::take(&mut self.pending));
        }
    }

    /// Leaves what is pending to chance for ever.
    fn lose(&mut self) {
        self.turn_open(Fate::Lost);
    }

    fn turn_open(&mut self, into: Fate) {
        self.pending.iter_mut().filter(|(_, fate)| *fate == Fate::Open).for_each(|(_, fate)| *fate = into);
    }
}
