//! A power cut: which of the changes that were not durable are on the disk, and in what shape.
//!
//! A change to the names is there or not, and so is a new length. A write is cut into sectors; each is there or
//! not, torn or ruined, whatever became of the others and of writes before and after. What ruins a sector ruins
//! all of it, old bytes included; a sector that no change since the last sync has touched is never harmed. A
//! change of length touches the sector it cuts through and all it adds.

use std::sync::Arc;

use fastrand::Rng;

use super::{
    Edit, NameOp, SECTOR,
    trace::{Names, put},
};

/// How a power cut treats the changes to one file, or to the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// All are there.
    Kept,
    /// None is there.
    Dropped,
    /// In order up to one, of which the beginning is there.
    Prefix,
    /// Any of their sectors, whole or torn; the others have their old bytes or zeros.
    Subset,
    /// As [`Mood::Subset`], and sectors may have bits flipped or be noise.
    Garbled,
    /// As [`Mood::Subset`], and sectors may be what stands elsewhere in the file: good bytes, wrong place.
    Stale,
}

impl Mood {
    /// A random one; those that leave many different images come more often.
    pub(super) fn any(rng: &mut Rng) -> Mood {
        match rng.u8(..16) {
            0 => Mood::Kept,
            1 => Mood::Dropped,
            2..4 => Mood::Prefix,
            4..8 => Mood::Subset,
            8..13 => Mood::Garbled,
            _ => Mood::Stale,
        }
    }
}

/// What is known of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The next sync will make it durable.
    Open,
    /// No sync will; it may be there by chance.
    Lost,
    /// It is durable, but lies on top of one that is not.
    Durable,
}

/// The dice of one power cut, for the changes of one file or of the names.
pub(super) struct Chance<'r> {
    rng: &'r mut Rng,
    mood: Mood,
    /// How likely a sector or a step is kept, of 8: cuts that lose little find other bugs than those that lose
    /// much.
    keep: u8,
    /// With [`Mood::Prefix`], how many changes are there in full.
    n_whole: usize,
    n_judged: usize,
}

/// What becomes of a change.
enum Verdict {
    Kept,
    Dropped,
    /// It was under way: its beginning is there.
    Begun,
    /// Each sector has its own fortune.
    Scattered,
}

impl<'r> Chance<'r> {
    pub(super) fn new(mood: Mood, n_changes: usize, rng: &'r mut Rng) -> Self {
        let keep = [1, 4, 7][rng.usize(..3)];
        let n_whole = rng.usize(..=n_changes);
        Chance { rng, mood, keep, n_whole, n_judged: 0 }
    }

    fn judge(&mut self, fate: Fate) -> Verdict {
        let idx = self.n_judged;
        self.n_judged += 1;
        match self.mood {
            _ if fate == Fate::Durable => Verdict::Kept,
            Mood::Kept => Verdict::Kept,
            Mood::Dropped => Verdict::Dropped,
            Mood::Prefix if idx < self.n_whole => Verdict::Kept,
            Mood::Prefix if idx > self.n_whole => Verdict::Dropped,
            Mood::Prefix => Verdict::Begun,
            Mood::Subset | Mood::Garbled | Mood::Stale => Verdict::Scattered,
        }
    }

    /// Whether a change that is one step is kept.
    fn keeps(&mut self, fate: Fate) -> bool {
        match self.judge(fate) {
            Verdict::Kept => true,
            Verdict::Dropped => false,
            Verdict::Begun => self.rng.bool(),
            Verdict::Scattered => self.is_lucky(),
        }
    }

    fn is_lucky(&mut self) -> bool {
        self.rng.u8(..8) < self.keep
    }
}

/// The names that are there after the cut.
pub(super) fn names(durable: &Names, pending: &[(NameOp, Fate)], mut chance: Chance<'_>) -> Names {
    let mut names = durable.clone();
    for (op, fate) in pending {
        if chance.keeps(*fate) {
            op.apply(&mut names);
        }
    }
    names
}

/// The content of a file after the cut.
pub(super) fn content(durable: &Arc<Vec<u8>>, pending: &[(Edit, Fate)], chance: Chance<'_>) -> Arc<Vec<u8>> {
    if pending.is_empty() {
        return Arc::clone(durable);
    }
    let len = durable.len();
    let mut wreck = Wreck { bytes: durable.to_vec(), floor: len, reach: len, chance };
    for (edit, fate) in pending {
        match edit {
            Edit::Write { offset, data } => wreck.write(*offset, data, *fate),
            Edit::SetLen(len) => wreck.set_len(*len, *fate),
        }
    }
    wreck.settle_length();
    Arc::new(wreck.bytes)
}

/// A file on its way through a power cut.
struct Wreck<'r> {
    bytes: Vec<u8>,
    /// The file cannot be shorter than this.
    floor: usize,
    /// The file can be as long as this: a new length may be there before the bytes that made it.
    reach: usize,
    chance: Chance<'r>,
}

impl Wreck<'_> {
    fn write(&mut self, offset: usize, data: &[u8], fate: Fate) {
        let end = offset + data.len();
        self.reach = self.reach.max(end);
        if fate == Fate::Durable {
            self.floor = self.floor.max(end);
        }
        match self.chance.judge(fate) {
            Verdict::Kept => put(&mut self.bytes, offset, data),
            Verdict::Dropped => {}
            Verdict::Begun => {
                let n_written = self.chance.rng.usize(..=data.len());
                put(&mut self.bytes, offset, &data[..n_written]);
            }
            Verdict::Scattered => {
                let mut at = offset;
                while at < end {
                    let next = (at + SECTOR - at % SECTOR).min(end);
                    self.write_in_sector(at, &data[at - offset..next - offset]);
                    at = next;
                }
            }
        }
    }

    /// Writes bytes that lie in one sector, or what is left of them.
    fn write_in_sector(&mut self, at: usize, data: &[u8]) {
        if self.chance.is_lucky() {
            return put(&mut self.bytes, at, data);
        }
        let tear = self.chance.rng.usize(..data.len());
        let can_ruin = matches!(self.chance.mood, Mood::Garbled | Mood::Stale);
        match self.chance.rng.u8(..if can_ruin { 6 } else { 4 }) {
            0 => {}
            1 => put(&mut self.bytes, at, &[0; SECTOR][..data.len()]),
            2 => put(&mut self.bytes, at, &data[..tear]),
            3 => put(&mut self.bytes, at + tear, &data[tear..]),
            _ => {
                put(&mut self.bytes, at, data);
                self.ruin(at - at % SECTOR);
            }
        }
    }

    fn set_len(&mut self, len: usize, fate: Fate) {
        if !self.chance.keeps(fate) {
            self.reach = self.reach.max(len);
            return;
        }
        let before = self.bytes.len();
        self.bytes.resize(len, 0);
        self.reach = len;
        if fate == Fate::Durable {
            self.floor = len;
            return;
        }
        self.floor = self.floor.min(len);
        if len == before {
            return;
        }
        let first = before.min(len);
        for sector in (first - first % SECTOR..len).step_by(SECTOR) {
            if !self.chance.is_lucky() {
                self.ruin(sector);
            }
        }
    }

    /// Lets the length be what some but not all of the changes made it.
    fn settle_length(&mut self) {
        let Chance { rng, mood, .. } = &mut self.chance;
        if !matches!(mood, Mood::Subset | Mood::Garbled | Mood::Stale) {
            return;
        }
        let len = self.bytes.len();
        match rng.u8(..4) {
            0 => self.bytes.truncate(rng.usize(self.floor..=len)),
            1 if self.reach > len => {
                self.bytes.resize(rng.usize(len..=self.reach), 0);
                if *mood == Mood::Garbled && rng.bool() {
                    rng.fill(&mut self.bytes[len..]);
                }
            }
            _ => {}
        }
    }

    /// Ruins the sector that starts at `sector`, if the mood is for it; of a sector at the end of the file
    /// there is only the part up to the file's end.
    fn ruin(&mut self, sector: usize) {
        let end = (sector + SECTOR).min(self.bytes.len());
        let Chance { rng, mood, .. } = &mut self.chance;
        match mood {
            Mood::Garbled if rng.bool() => rng.fill(&mut self.bytes[sector..end]),
            Mood::Garbled => {
                for _ in 0..rng.u8(1..8) {
                    self.bytes[rng.usize(sector..end)] ^= 1 << rng.u8(..8);
                }
            }
            Mood::Stale => {
                let from = rng.usize(..self.bytes.len() / SECTOR + 1) * SECTOR;
                let from_end = (from + end - sector).min(self.bytes.len());
                self.bytes.copy_within(from..from_end, sector);
            }
            _ => {}
        }
    }
}
