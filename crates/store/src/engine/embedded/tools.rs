//! What an operator does to a store from outside: look at it, verify it, copy it out, put a copy back.
//!
//! None of it needs the keys of a store whose values are sealed: they stay so, in a snapshot too.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Manifest, OpenError,
    checkpoint::Sizes,
    error::{DamageError, Doing},
    header::{FileKind, Header, StoreId},
    live::read_live,
    lock,
    manifest::{Part, PartFile, part_name},
    recovery::{Recovered, load_part},
    segment::{SegmentReader, segment_name, segment_number},
    table_file::{TableReader, TableWriter, Totals},
};
use crate::{
    Clock, Directory, Disk, DiskFile, Entry, Key, Revision, Snapshot, SystemClock, Window, seal::Sealer,
};

/// How far a restored store jumps ahead. The store the snapshot came from may have gone on after it was taken;
/// it would have to write a hundred thousand times a second for four months to get this far.
const RESTORE_GAP: u64 = 1 << 40;

/// Values are taken as they are kept, sealed or not.
const SEALED: Sealer = Sealer(None);

/// What a store holds.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The store's identity, in hexadecimal.
    pub store: String,
    /// The revisions that can be read.
    pub window: Window,
    /// Live keys.
    pub keys: u64,
    /// Bytes of live keys and values.
    pub live_bytes: u64,
    /// Changes in the window.
    pub changes: u64,
    /// Frames in the log.
    pub frames: u64,
    /// Bytes a crash left behind, which the next start will cut off.
    pub torn_bytes: u64,
    /// The files and their sizes, in order of name.
    pub files: Vec<(String, u64)>,
}

impl Stats {
    /// Bytes of all files.
    pub fn disk_bytes(&self) -> u64 {
        self.files.iter().map(|(_, len)| len).sum()
    }
}

/// Looks at the store in `directory`, which may be in use.
pub fn stats(directory: &Path) -> Result<Stats, OpenError> {
    let disk = Directory::existing(directory).doing(|| format!("opening {}", directory.display()))?;
    describe(directory, &read_live(&disk)?)
}

fn describe(directory: &Path, recovered: &Recovered) -> Result<Stats, OpenError> {
    let disk = Directory::existing(directory).doing(|| format!("opening {}", directory.display()))?;
    let mut files = vec![];
    for name in disk.list().doing(|| format!("listing {}", directory.display()))? {
        // A file that has gone since is one that is not there.
        if let Ok(len) = fs::metadata(directory.join(&name)).map(|file| file.len()) {
            files.push((name, len));
        }
    }
    files.sort();
    let state = &recovered.state;
    Ok(Stats {
        store: recovered.manifest.store.to_string(),
        window: state.window(),
        keys: state.live.len() as u64,
        live_bytes: state.live_bytes,
        changes: state.history.len() as u64,
        frames: recovered.n_frames,
        torn_bytes: recovered.torn_bytes(),
        files,
    })
}

/// What verifying one file found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The file's name.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Records in it that verify: entries of a part, frames of a segment.
    pub records: u64,
    /// What is wrong with it.
    pub damage: Option<DamageError>,
}

/// What verifying a store found.
#[derive(Debug)]
pub struct Verdict {
    /// Each file by itself.
    pub files: Vec<Checked>,
    /// The store as a whole: what it would open as, or why it would not.
    pub whole: Result<Stats, OpenError>,
}

/// Verifies every record of the store in `directory`, which must not be in use. Changes nothing.
pub fn check(directory: &Path) -> Result<Verdict, OpenError> {
    let disk = Directory::existing(directory).doing(|| format!("opening {}", directory.display()))?;
    let _lock = lock(directory)?;
    let manifest = Manifest::read(&disk)?.ok_or_else(|| DamageError::new("MANIFEST", 0, "it is missing"))?;
    let mut files = vec![];
    for part in &manifest.parts {
        if let Some(file) = part.file {
            files.push(check_part(&disk, &manifest, part, file)?);
        }
    }
    let mut names = disk.list().doing(|| format!("listing {}", directory.display()))?;
    names.sort();
    for number in names.iter().filter_map(|name| segment_number(name)) {
        if number >= manifest.first_segment {
            files.push(check_segment(&disk, manifest.store, number)?);
        }
    }
    let whole = Recovered::read(&disk, manifest, false, &SEALED)
        .and_then(|recovered| describe(directory, &recovered));
    Ok(Verdict { files, whole })
}

fn check_part(
    disk: &Directory,
    manifest: &Manifest,
    part: &Part,
    file: PartFile,
) -> Result<Checked, OpenError> {
    let mut records = 0;
    let outcome = load_part(disk, manifest, part, file, |_| records += 1);
    checked(disk, part_name(file.number), records, outcome)
}

fn check_segment(disk: &Directory, store: StoreId, number: u64) -> Result<Checked, OpenError> {
    let mut records = 0;
    let outcome = SegmentReader::read(disk, store, number).and_then(|reader| {
        reader.scan(None, |_, _| {
            records += 1;
            Ok(())
        })?;
        Ok(())
    });
    checked(disk, segment_name(number), records, outcome)
}

fn checked(
    disk: &Directory,
    file: String,
    records: u64,
    outcome: Result<(), OpenError>,
) -> Result<Checked, OpenError> {
    let bytes = fs::metadata(disk.path().join(&file)).map_or(0, |meta| meta.len());
    let damage = match outcome {
        Ok(()) => None,
        Err(OpenError::Damaged(damage)) => Some(damage),
        Err(OpenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Some(DamageError::new(&file, 0, "it is missing"))
        }
        Err(error) => return Err(error),
    };
    Ok(Checked { file, bytes, records, damage })
}

/// What a snapshot file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The revision it was taken at.
    pub revision: Revision,
    /// Keys in it.
    pub keys: u64,
    /// Bytes of keys and values in it.
    pub bytes: u64,
}

/// Writes all that is live in the store in `directory`, which may be in use, to the new file `target`.
///
/// The snapshot is of one revision and contains everything acknowledged before the call.
pub fn snapshot(directory: &Path, target: &Path) -> Result<SnapshotInfo, OpenError> {
    let disk = Directory::existing(directory).doing(|| format!("opening {}", directory.display()))?;
    let recovered = read_live(&disk)?;
    let header = Header {
        kind: FileKind::Snapshot,
        store: recovered.manifest.store,
        number: 0,
        revision: recovered.state.head.get(),
        at_millis: SystemClock.now_millis(),
    };
    let revision = recovered.state.head;
    let state = Snapshot::new(recovered.state, revision);
    let totals = write_snapshot(&state, &header, target).doing(|| format!("writing {}", target.display()))?;
    Ok(SnapshotInfo { revision, keys: totals.entries, bytes: totals.bytes })
}

/// Under another name first, so that what bears the name is whole; and never over what is there.
fn write_snapshot(state: &Snapshot, header: &Header, target: &Path) -> io::Result<Totals> {
    if target.symlink_metadata().is_ok() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is such a file already"));
    }
    let mut draft = target.as_os_str().to_owned();
    draft.push(".new");
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = fill_snapshot(state, header, Box::new(file)).and_then(|totals| {
        // Unlike a rename, this does not replace a file that has come to be there meanwhile.
        fs::hard_link(&draft, target)?;
        Ok(totals)
    });
    let removed = fs::remove_file(&draft);
    let totals = written?;
    removed?;
    sync_parent(target)?;
    Ok(totals)
}

fn fill_snapshot(state: &Snapshot, header: &Header, file: Box<dyn DiskFile>) -> io::Result<Totals> {
    let mut writer = TableWriter::new(file, header)?;
    state.iter(b"", None).try_for_each(|entry| writer.push(entry, &SEALED))?;
    let totals = writer.totals();
    writer.finish(true)?;
    Ok(totals)
}

/// Makes the name of `path` durable.
fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent)?.sync_all()
}

/// What a restore did.
#[derive(Clone, Debug)]
pub struct Restored {
    /// What the snapshot held.
    pub snapshot: SnapshotInfo,
    /// Where the store now stands: above everything ever given out.
    pub revision: Revision,
    /// Where the store that was there before was moved to.
    pub moved: Option<PathBuf>,
}

/// Verifies every record of a snapshot file.
pub fn verify_snapshot(source: &Path) -> Result<SnapshotInfo, OpenError> {
    read_snapshot(source).map(|(info, _)| info)
}

fn read_snapshot(source: &Path) -> Result<(SnapshotInfo, Vec<Arc<Entry>>), OpenError> {
    let name = source.display().to_string();
    let bytes = fs::read(source).doing(|| format!("reading {name}"))?;
    let reader = TableReader::new(&name, FileKind::Snapshot, bytes)?;
    let mut entries = vec![];
    let (totals, _) = reader.for_each(|entry| entries.push(entry))?;
    let revision = Revision::new(reader.header.revision);
    if revision_above(revision, 0).is_none() {
        return Err(DamageError::new(&name, 0, format!("revision {revision} leaves no room for more")).into());
    }
    Ok((SnapshotInfo { revision, keys: totals.entries, bytes: totals.bytes }, entries))
}

/// Makes `directory` a store that holds what the snapshot file `source` holds.
///
/// Revisions go on far above those of the snapshot and of the store that was there, so that whoever watched
/// before is told that history is gone. A store that is there is moved aside, not deleted, and must not be in
/// use. A failure leaves `directory` as it was.
pub fn restore(source: &Path, directory: &Path) -> Result<Restored, OpenError> {
    let (snapshot, entries) = read_snapshot(source)?;
    let there = directory.try_exists().doing(|| format!("looking at {}", directory.display()))?;
    let lock = if there { Some(lock(directory)?) } else { None };
    let above = snapshot.revision.max(if there { newest_revision(directory) } else { Revision::ZERO });
    let revision = revision_above(above, SystemClock.now_millis()).ok_or_else(|| {
        DamageError::new(
            &source.display().to_string(),
            0,
            format!("revision {above} leaves no room for more"),
        )
    })?;

    let draft = beside(directory, "restoring");
    // Fails if it is there: another restore is at work, or one was cut off and left something to look at.
    fs::DirBuilder::new().mode(0o700).create(&draft).doing(|| format!("creating {}", draft.display()))?;
    let placed = write_store(&draft, revision, &entries)
        .and_then(|()| exchange(&draft, directory, there))
        .doing(|| format!("restoring to {}", directory.display()));
    if placed.is_err() {
        let _ = fs::remove_dir_all(&draft);
    }
    placed?;
    // From here on the draft, if it is still there, is the store that was.
    let moved = there.then(|| {
        let moved = unused(directory);
        if fs::rename(&draft, &moved).is_ok() { moved } else { draft }
    });
    sync_parent(directory).doing(|| format!("syncing the folder of {}", directory.display()))?;
    drop(lock);
    Ok(Restored { snapshot, revision, moved })
}

/// A revision above everything that was ever given out, as far as can be known: above what is known by a large
/// gap, and above what any earlier restore of the same snapshot can have reached since.
fn revision_above(known: Revision, now_millis: u64) -> Option<Revision> {
    let by_time = (now_millis / 1000) << 20;
    let above = known.get().checked_add(RESTORE_GAP)?.max(by_time);
    (above < i64::MAX as u64 / 2).then_some(Revision::new(above))
}

/// Puts the finished draft where the store belongs and, if one is there, that one where the draft was. In one
/// step, so that at no time there is no store.
fn exchange(draft: &Path, directory: &Path, there: bool) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match there {
        true => Ok(renameat_with(CWD, draft, CWD, directory, RenameFlags::EXCHANGE)?),
        false => fs::rename(draft, directory),
    }
}

/// The newest revision the store may have given out, as far as it can be read at all.
fn newest_revision(directory: &Path) -> Revision {
    let read = || {
        let disk = Directory::existing(directory).ok()?;
        let manifest = Manifest::read(&disk).ok()??;
        let base = manifest.newest_base();
        Some(Recovered::read(&disk, manifest, false, &SEALED).map_or(base, |found| found.state.head))
    };
    read().unwrap_or(Revision::ZERO)
}

fn write_store(directory: &Path, revision: Revision, entries: &[Arc<Entry>]) -> io::Result<()> {
    let disk = Directory::open(directory)?;
    let mut manifest = Manifest::empty(StoreId::random(), revision);
    let part_bytes = Sizes::default().part(entries.iter().map(|entry| entry.bytes()).sum());
    let start = Key::from(&b""[..]);
    let now_millis = SystemClock.now_millis();
    manifest.parts =
        manifest.write_parts(&disk, entries.iter(), start, revision, part_bytes, now_millis, &SEALED)?;
    disk.sync_names()?;
    manifest.write(&disk)
}

fn beside(directory: &Path, suffix: &str) -> PathBuf {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    directory.with_file_name(format!("{name}.{suffix}"))
}

/// A name beside `directory` that nothing has yet.
fn unused(directory: &Path) -> PathBuf {
    let mut number = 1;
    loop {
        let candidate = beside(directory, &format!("before-restore-{number}"));
        if !candidate.exists() {
            return candidate;
        }
        number += 1;
    }
}
