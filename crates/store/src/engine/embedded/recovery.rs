//! Recovery: from what is on disk to the tables, however the last process ended.
//!
//! Reading comes first and changes nothing; a directory that does not verify is left as it was. Then the last
//! segment is written anew, without its torn tail and closed, a new segment is begun, and files that nothing
//! names are removed. A crash anywhere in here leaves a directory that recovers in the same way. Start at
//! [`Recovered::read`].

use std::{collections::BTreeSet, sync::Arc};

use super::{
    codec::{SECTOR, owned},
    error::{DamageError, Doing, OpenError},
    frame::{Frame, FrameBuilder, FrameKind},
    header::FileKind,
    log::{SegmentInfo, Segments},
    manifest::{Manifest, Part, PartFile, part_name, part_number},
    planted,
    segment::{Ending, Scanned, SegmentReader, draft_name, read_all, segment_name, segment_number},
    table_file::TableReader,
};
use bytes::Bytes;

use crate::{
    Disk, Entry, Revision, UnsealError,
    history::Ages,
    seal::Sealer,
    tables::{State, window_cost},
};

/// What the disk holds.
pub(crate) struct Recovered {
    pub(crate) manifest: Manifest,
    pub(crate) state: State,
    pub(crate) ages: Ages,
    /// Segments with anything in them, in order.
    pub(crate) segments: Vec<(u64, SegmentInfo)>,
    /// The last segment's end, if it was left open.
    open_end: Option<OpenEnd>,
    /// Checksum of the last frame.
    pub(crate) chain: u64,
    /// Frames read.
    pub(crate) n_frames: u64,
    /// Whether anything that was read is not sealed as it would be now.
    pub(crate) is_stale: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenEnd {
    end: u64,
    len: u64,
    torn: bool,
}

impl Recovered {
    /// Reads the store on `disk`, verifying every byte it is made of, without changing anything.
    ///
    /// A store `in_use` may go on in segments that this disk does not show.
    pub(crate) fn read(
        disk: &dyn Disk,
        manifest: Manifest,
        in_use: bool,
        sealer: &Sealer,
    ) -> Result<Self, OpenError> {
        let base = manifest.newest_base();
        let mut found = Recovered {
            state: State::empty(base),
            ages: Ages::default(),
            segments: vec![],
            open_end: None,
            chain: 0,
            n_frames: 0,
            is_stale: false,
            manifest,
        };
        for part in &found.manifest.parts {
            if let Some(file) = part.file {
                let mut unopened = None;
                let load = |entry: Arc<Entry>| match opened(sealer, entry) {
                    Ok((entry, is_current)) => {
                        found.is_stale |= !is_current;
                        found.state.load(entry);
                    }
                    Err(error) => {
                        unopened.get_or_insert(error);
                    }
                };
                load_part(disk, &found.manifest, part, file, load)?;
                if let Some(error) = unopened {
                    return Err(error.into());
                }
            }
        }
        found.replay_log(disk, in_use, sealer)?;
        if planted::bug(planted::Bug::ReuseRevision) && found.state.head > base {
            found.state.head = Revision::new(found.state.head.get() - 1);
        }
        Ok(found)
    }

    /// Bytes after the last good frame that a crash left behind.
    pub(crate) fn torn_bytes(&self) -> u64 {
        self.open_end.filter(|open| open.torn).map_or(0, |open| open.len - open.end)
    }

    fn replay_log(&mut self, disk: &dyn Disk, in_use: bool, sealer: &Sealer) -> Result<(), OpenError> {
        let names = disk.list().doing(|| "listing the directory".into())?;
        let numbers: BTreeSet<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
        let mut chain = None;
        let mut previous = None;
        for &number in numbers.range(self.manifest.first_segment..) {
            let reader = SegmentReader::read(disk, self.manifest.store, number)?;
            let after = self.state.head;
            let scanned = reader.scan(chain, |name, frame| self.replay(name, frame, sealer))?;
            let was_continued = matches!(previous, Some((_, Ending::Closed(FrameKind::Continues))));
            if scanned.chain.is_none() && !was_continued {
                // Never used, or torn in its first frame: nothing was promised, and it will be made anew.
                continue;
            }
            self.check_sequence(previous, number)?;
            chain = scanned.chain.or(chain);
            self.note_segment(number, after, &scanned);
            previous = Some((number, scanned.ending));
            if in_use && matches!(scanned.ending, Ending::Open | Ending::Torn) {
                // It was the last one when it was read. What was closed and begun since then goes on from
                // frames that were not read.
                break;
            }
        }
        self.chain = chain.unwrap_or(0);
        let missing = match previous {
            Some((last, Ending::Closed(FrameKind::Continues))) => Some(last + 1).filter(|_| !in_use),
            _ => Some(self.manifest.known_segment).filter(|known| *known > 0 && !numbers.contains(known)),
        };
        if let Some(number) = missing {
            return Err(DamageError::new(&segment_name(number), 0, "it is missing").into());
        }
        if self.manifest.closed_at.is_some_and(|chain| chain != self.chain) {
            let (last, end) =
                self.segments.last().map_or((self.manifest.known_segment, 0), |(n, info)| (*n, info.used));
            let why = "the store was closed properly, yet the end of the log is not what it was";
            return Err(DamageError::new(&segment_name(last), end, why).into());
        }
        Ok(())
    }

    /// A segment in use must follow one that was closed, and none may be left out.
    fn check_sequence(&self, previous: Option<(u64, Ending)>, number: u64) -> Result<(), DamageError> {
        let expected = previous.map_or(self.manifest.first_segment, |(previous, _)| previous + 1);
        let damage = |number: u64, why: &str| Err(DamageError::new(&segment_name(number), 0, why));
        match previous {
            _ if number != expected => damage(expected, "it is missing"),
            Some((last, Ending::Open | Ending::Torn)) => {
                damage(last, "it has no closing frame, yet the next segment is in use")
            }
            _ => Ok(()),
        }
    }

    fn note_segment(&mut self, number: u64, after: Revision, scanned: &Scanned) {
        let Scanned { ending, end, len, .. } = *scanned;
        self.segments.push((number, SegmentInfo { after, used: end }));
        self.open_end = match ending {
            Ending::Closed(_) => None,
            Ending::Open => Some(OpenEnd { end, len, torn: false }),
            Ending::Torn => Some(OpenEnd { end, len, torn: true }),
        };
    }

    /// The number of the segment to go on in.
    pub(crate) fn next_segment(&self) -> u64 {
        self.segments.last().map_or(self.manifest.first_segment, |(last, _)| last + 1)
    }

    fn replay(&mut self, segment: &str, frame: &Frame<'_>, sealer: &Sealer) -> Result<(), OpenError> {
        self.n_frames += 1;
        match frame.kind {
            FrameKind::Txns => self.replay_txns(segment, frame, sealer),
            FrameKind::Compacted => {
                self.ages.drop_through(frame.revision);
                self.state.trim(frame.revision.min(self.state.head));
                Ok(())
            }
            FrameKind::Synced | FrameKind::Continues | FrameKind::Ends => Ok(()),
        }
    }

    fn replay_txns(&mut self, segment: &str, frame: &Frame<'_>, sealer: &Sealer) -> Result<(), OpenError> {
        let complete_from = self.manifest.newest_base();
        let mut n_changes = 0;
        let mut unopened: Option<UnsealError> = None;
        let Recovered { state, manifest, is_stale, .. } = self;
        let last = frame
            .for_each_op(|revision, key, stored| {
                if revision <= complete_from && revision <= manifest.part_of(key).base {
                    // Its part has it. That it stands here as well matters for as long as the log is kept.
                    *is_stale |= stored.is_some_and(|stored| !sealer.is_current(key, stored));
                    return;
                }
                let value = match stored.map(|stored| open_value(sealer, key, stored)).transpose() {
                    Ok(opened) => opened.map(|(value, is_current)| {
                        *is_stale |= !is_current;
                        value
                    }),
                    Err(error) => {
                        unopened.get_or_insert(error);
                        return;
                    }
                };
                match revision > complete_from {
                    true => {
                        n_changes += 1;
                        apply_op(state, revision, key, value);
                    }
                    false => load_op(state, revision, key, value),
                }
            })
            .map_err(|why| DamageError::new(segment, 0, why.0))?;
        if let Some(error) = unopened {
            return Err(error.into());
        }
        if n_changes > 0 {
            self.ages.push(last, frame.at_millis, n_changes, window_cost(n_changes, frame.len as u64));
        }
        self.state.head = self.state.head.max(last);
        Ok(())
    }

    /// Writes the end of the log anew, so that it is known to be durable, cut where it is torn, and closed.
    ///
    /// What was read may have come from a cache: a process that stopped because a sync failed leaves bytes
    /// behind that the next one can read and the disk never got. So the segment that was being written goes to
    /// a new file, and takes the old one's place in one step. Before it stands a segment that was closed and
    /// synced, unless nothing was written after closing it: then that one is written anew too.
    pub(crate) fn mend(&mut self, disk: &dyn Disk) -> Result<(), OpenError> {
        if self.manifest.closed_at.is_some() {
            return Ok(());
        }
        let is_unused = |(_, info): &&(u64, SegmentInfo)| info.used == SECTOR as u64;
        let n_doubtful = if self.segments.last().filter(is_unused).is_some() { 2 } else { 1 };
        for idx in self.segments.len().saturating_sub(n_doubtful)..self.segments.len() {
            let number = self.segments[idx].0;
            self.rewrite(disk, idx).doing(|| format!("writing {} anew", segment_name(number)))?;
        }
        disk.sync_names().doing(|| "syncing the directory".into())
    }

    fn rewrite(&mut self, disk: &dyn Disk, idx: usize) -> std::io::Result<()> {
        let (number, info) = self.segments[idx];
        let name = segment_name(number);
        let draft = draft_name(&name);
        let mut end = info.used as usize;
        if planted::bug(planted::Bug::CutTooMuch) && end > SECTOR {
            end -= SECTOR;
        }
        let mut bytes = vec![0; end];
        let old = disk.open(&name)?;
        old.read_at(&mut bytes, 0)?;
        if idx + 1 == self.segments.len() && self.open_end.take().is_some() {
            let mut frame = FrameBuilder::default();
            frame.bare();
            let seed = self.manifest.store.seed(FileKind::Segment, number) ^ end as u64;
            let (closing, checksum) = frame.finish(FrameKind::Ends, self.state.head, 0, self.chain, seed);
            bytes.extend_from_slice(closing);
            self.chain = checksum;
        }
        if planted::bug(planted::Bug::KeepTornTail) {
            let mut torn = vec![0; (old.len()? as usize).saturating_sub(bytes.len())];
            old.read_at(&mut torn, bytes.len() as u64)?;
            bytes.append(&mut torn);
        }
        let file = disk.create(&draft)?;
        file.write_at(&bytes, 0)?;
        if !planted::bug(planted::Bug::SkipMendSync) {
            file.sync()?;
        }
        disk.rename(&draft, &name)?;
        self.segments[idx].1.used = bytes.len() as u64;
        Ok(())
    }

    /// Removes what nothing names. Only once the manifest is durable: an older one may need it.
    pub(crate) fn clean(disk: &dyn Disk, manifest: &Manifest, segments: &Segments) -> Result<(), OpenError> {
        for name in disk.list().doing(|| "listing the directory".into())? {
            let is_stray = match segment_number(&name) {
                Some(number) => !segments.by_number().contains_key(&number),
                None => is_ours(&name) && !manifest.names(&name),
            };
            if is_stray {
                disk.remove(&name).doing(|| format!("removing {name}"))?;
            }
        }
        Ok(())
    }
}

/// Whether this is the name of a part, or of a file of ours that was being written.
fn is_ours(name: &str) -> bool {
    let finished = name.strip_suffix(".new").unwrap_or(name);
    part_number(finished).is_some()
        || (finished != name && (finished == "MANIFEST" || segment_number(finished).is_some()))
}

/// Reads one part and hands out its entries.
pub(crate) fn load_part(
    disk: &dyn Disk,
    manifest: &Manifest,
    part: &Part,
    file: PartFile,
    entry: impl FnMut(Arc<Entry>),
) -> Result<(), OpenError> {
    let name = part_name(file.number);
    let reader = TableReader::new(&name, FileKind::Part, read_all(disk, &name)?)?;
    reader.expect(manifest.store, file.number, part.base)?;
    let (_, checksum) = reader.for_each(entry)?;
    if checksum != file.checksum || reader.len() != file.len {
        return Err(DamageError::new(&name, 0, "it is not the file the manifest names").into());
    }
    Ok(())
}

/// An entry as readers see it, and whether it is sealed as it would be now.
fn opened(sealer: &Sealer, entry: Arc<Entry>) -> Result<(Arc<Entry>, bool), UnsealError> {
    let opened = sealer.open(&entry.key, &entry.value)?;
    let entry = match opened.value {
        None => entry,
        Some(value) => {
            Arc::new(Entry { key: entry.key.clone(), value: value.into(), revision: entry.revision })
        }
    };
    Ok((entry, opened.is_current))
}

fn open_value(sealer: &Sealer, key: &[u8], stored: &[u8]) -> Result<(Bytes, bool), UnsealError> {
    let opened = sealer.open(key, stored)?;
    Ok((opened.value.map_or_else(|| owned(stored), Bytes::from), opened.is_current))
}

/// A change inside the window that is being built up: it goes into the history.
fn apply_op(state: &mut State, revision: Revision, key: &[u8], value: Option<Bytes>) {
    let previous = state.get(key).cloned();
    if let Some(change) = State::change(key.into(), value, previous, revision) {
        state.apply(change);
    }
}

/// A change from before the window begins: it only brings an older part up to where it begins.
fn load_op(state: &mut State, revision: Revision, key: &[u8], value: Option<Bytes>) {
    match value {
        Some(value) => state.load(Arc::new(Entry { key: key.into(), value, revision })),
        None => state.unload(key),
    }
}
