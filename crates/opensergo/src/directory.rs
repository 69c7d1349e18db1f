//! Rules from a directory of YAML files, for places without an API server.
//!
//! The files are looked at every second. A file counts as it is when it was so in two looks in a row: before, somebody may
//! be writing it, or moving what is in it to another. One that cannot be read, or has something in it that is no rule, is
//! told of in the log, and what was in it before stays. If there is no before, because it was so from the beginning,
//! nobody is told anything until it is mended or gone: clients would take what is missing for deleted.
//!
//! A rule that is there several times counts as it is in the first file, by the order of their paths.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs::{self, File, Metadata},
    io::{self, Read},
    mem,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use windlass_runtime::Key;

use crate::{
    documents::{NoRules, rules_in},
    kinds::Untranslatable,
    plane::{Heard, Plane},
    source::Source,
    topic::KindId,
};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// More than any file has, and how many there may be.
const MOST_BYTES: u64 = 8 << 20;
const MOST_FILES: usize = 10_000;

/// The namespace of what does not say.
const NAMESPACE: &str = "default";

/// What tells one state of a file from another.
///
/// Size and time of change are not enough: whoever copies a file with its time may leave both as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    inode: u64,
    size: u64,
    /// When what is in it was changed, in seconds and nanoseconds. Anyone can set that.
    modified: (i64, i64),
    /// When anything about it was. Nobody can set that.
    changed: (i64, i64),
}

impl Mark {
    fn of(metadata: &Metadata) -> Self {
        Mark {
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A rule, and what tells it from others.
type Rule = ((KindId, Key), Arc<DynamicObject>);

/// Each rule once.
type Objects = BTreeMap<(KindId, Key), Arc<DynamicObject>>;

/// Why a file is not taken up.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is too large.
    #[error("expected at most {MOST_BYTES} bytes")]
    TooLarge,
    /// Something in it is no rule.
    #[error("{0}")]
    NoRules(#[from] NoRules),
    /// A rule makes no sense.
    #[error("{0:?} {1}: {2}")]
    Untranslatable(KindId, Key, Untranslatable),
}

/// What is known of a file.
#[derive(Debug, Default)]
struct Seen {
    /// How it was at the last look; nothing if it was not there.
    looked: Option<Mark>,
    /// How it was when it was read; nothing if it is to be read again.
    read: Option<Mark>,
    /// What was in it when it could last be read, if it ever could.
    rules: Option<Vec<Rule>>,
    /// Why it cannot be read any more.
    trouble: Option<String>,
}

impl Seen {
    /// Reads the file if it has changed, and nobody is writing it.
    fn look(&mut self, path: &Path, found: io::Result<Mark>, is_first: bool) {
        let mark = match found {
            Ok(mark) => mark,
            Err(error) => return self.fail(path, &error.into()),
        };
        let is_settled = self.looked.replace(mark) == Some(mark) || is_first;
        if !is_settled || self.read == Some(mark) {
            return;
        }
        match read(path, mark) {
            Ok(Some(rules)) => {
                *self = Seen { looked: Some(mark), read: Some(mark), rules: Some(rules), trouble: None };
            }
            // Somebody is at it right now.
            Ok(None) => {}
            Err(error) => {
                self.read = Some(mark);
                self.fail(path, &error);
            }
        }
    }

    fn fail(&mut self, path: &Path, error: &Unreadable) {
        self.trouble = Some(format!("{}: {error}", path.display()));
        // What is wrong with the disk may pass without a trace in the file.
        if matches!(error, Unreadable::Io(_)) {
            self.read = None;
        }
    }
}

#[derive(Debug, Default)]
struct Contents {
    files: BTreeMap<PathBuf, Seen>,
    /// Each rule of the files once.
    objects: Objects,
    /// All that was wrong at the last look.
    troubles: Vec<String>,
    has_looked: bool,
    /// Whether everything that was there at some look had been read by then.
    is_complete: bool,
}

impl Contents {
    /// Looks at everything once more; returns what is wrong that was not before.
    fn look(&mut self, path: &Path) -> Vec<String> {
        let unlisted = self.look_at_files(path).err();
        let (objects, repeated) = first_of_each(&self.files);
        self.objects = objects;
        let of_directory = unlisted.map(|error| format!("{}: {error}", path.display()));
        let of_files = self.files.values().filter_map(|file| file.trouble.clone());
        let troubles = of_directory.into_iter().chain(of_files).chain(repeated).collect();
        let known: BTreeSet<String> = mem::replace(&mut self.troubles, troubles).into_iter().collect();
        self.troubles.iter().filter(|trouble| !known.contains(*trouble)).cloned().collect()
    }

    fn look_at_files(&mut self, path: &Path) -> io::Result<()> {
        let is_first = !mem::replace(&mut self.has_looked, true);
        let found = files(path)?;
        // To be gone is a state as others are: it counts in the second look.
        self.files.retain(|path, file| found.contains_key(path) || file.looked.take().is_some());
        for (path, found) in found {
            self.files.entry(path.clone()).or_default().look(&path, found, is_first);
        }
        self.is_complete |= self.files.values().all(|file| file.rules.is_some());
        Ok(())
    }
}

/// The objects of a directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Held as long as a look takes, so by nobody else.
    seen: Mutex<Contents>,
    trouble: Mutex<Option<String>>,
    /// What is to be said of rules that are taken up.
    remarks: Mutex<BTreeSet<String>>,
    last_revision: Mutex<i64>,
    plane: Arc<Plane>,
}

impl Directory {
    /// The directory, for a plane.
    pub fn new(path: PathBuf, plane: Arc<Plane>) -> Arc<Self> {
        let (seen, trouble, remarks, last_revision) = Default::default();
        Arc::new(Directory { path, seen, trouble, remarks, last_revision, plane })
    }

    /// Tells the plane what happens, until it is dropped.
    pub async fn follow(self: Arc<Self>) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let directory = Arc::clone(&self);
            // Disks may take their time, and so do large files.
            if let Err(error) = spawn_blocking(move || directory.look()).await {
                tracing::error!(%error, "the files could not be looked at");
            }
        }
    }

    /// Looks at all files, and takes up what has changed.
    fn look(&self) {
        let mut seen = self.seen.lock();
        let before = seen.objects.clone();
        for trouble in seen.look(&self.path) {
            tracing::error!(trouble, "some rules are not taken up");
        }
        let revision = seen.is_complete.then(|| self.next_revision());
        self.tell(&before, &seen.objects, revision);
        if before != seen.objects {
            self.remark(&seen.objects);
        }
        let remark = self.remarks.lock().first().cloned();
        *self.trouble.lock() = seen.troubles.first().cloned().or(remark);
    }

    /// Says what is odd about rules, which is in their status where there is one.
    fn remark(&self, objects: &Objects) {
        let rules = self.plane.rules();
        let remarks = objects.iter().flat_map(|((kind, key), object)| {
            let dangling = rules.dangling(*kind, key).into_iter();
            let dangling =
                dangling.map(|one| format!("{} {} is not among the rules of its app", one.kind, one.name));
            let warnings = (kind.kind().warnings)(object);
            dangling.chain(warnings).map(|remark| format!("{kind:?} {key}: {remark}")).collect::<Vec<_>>()
        });
        let remarks: BTreeSet<String> = remarks.collect();
        drop(rules);
        let before = mem::replace(&mut *self.remarks.lock(), remarks.clone());
        remarks
            .difference(&before)
            .for_each(|remark| tracing::warn!(remark, "a rule may not do what it should"));
    }

    fn tell(&self, before: &Objects, after: &Objects, revision: Option<i64>) {
        for kind in KindId::all() {
            let gone =
                before.keys().filter(|(of, key)| *of == kind && !after.contains_key(&(*of, key.clone())));
            let gone = gone.map(|(_, key)| Heard::Gone(key.clone()));
            let is = after.iter().filter(|(id, object)| id.0 == kind && before.get(*id) != Some(*object));
            let is = is.map(|(_, object)| Heard::Is(Arc::clone(object)));
            self.plane.heard(kind, gone.chain(is).collect(), revision);
        }
    }

    /// There is nobody who numbers what happens; the clock does, and goes on after a restart.
    fn next_revision(&self) -> i64 {
        let mut last = self.last_revision.lock();
        *last = Timestamp::now().as_millisecond().max(*last);
        *last
    }
}

#[async_trait]
impl Source for Directory {
    /// What was seen last, without another look: that is no longer ago than looks are apart, and clients that come in
    /// crowds shall not have the files read for each.
    async fn catch_up(&self, _: KindId) -> i64 {
        *self.last_revision.lock()
    }

    fn is_missing(&self, _: KindId) -> bool {
        false
    }

    fn trouble(&self, _: KindId) -> Option<String> {
        self.trouble.lock().clone()
    }
}

/// All files whose name says that they are YAML or JSON, and how they are. What is hidden belongs to programs.
fn files(directory: &Path) -> io::Result<BTreeMap<PathBuf, io::Result<Mark>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden || !path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json") {
            continue;
        }
        // Links are followed: that is how files come out of a ConfigMap.
        let found = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => Ok(Mark::of(&metadata)),
            Ok(_) => continue,
            // It is gone since, or a link to nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => Err(error),
        };
        files.insert(path, found);
        if files.len() > MOST_FILES {
            return Err(io::Error::other(format!("expected at most {MOST_FILES} files")));
        }
    }
    Ok(files)
}

/// Each rule as the first file has it, and what is to be said of those that have it as well.
fn first_of_each(files: &BTreeMap<PathBuf, Seen>) -> (Objects, Vec<String>) {
    let mut firsts: BTreeMap<&(KindId, Key), (&Path, &Arc<DynamicObject>)> = BTreeMap::new();
    let mut repeated = vec![];
    for (path, file) in files {
        for (id, object) in file.rules.iter().flatten() {
            match firsts.entry(id) {
                Entry::Vacant(vacant) => {
                    vacant.insert((path, object));
                }
                Entry::Occupied(first) => {
                    let (kind, key) = id;
                    let (path, first) = (path.display(), first.get().0.display());
                    repeated.push(format!("{path}: {kind:?} {key} is in {first} already"));
                }
            }
        }
    }
    let objects = firsts.into_iter().map(|(id, (_, object))| (id.clone(), Arc::clone(object)));
    (objects.collect(), repeated)
}

/// Reads the rules of a file, unless it is not what it was when it was looked at, before or after.
fn read(path: &Path, mark: Mark) -> Result<Option<Vec<Rule>>, Unreadable> {
    let file = File::open(path)?;
    let mut text = vec![];
    let n_read = (&file).take(MOST_BYTES + 1).read_to_end(&mut text)?;
    if Mark::of(&file.metadata()?) != mark {
        return Ok(None);
    }
    if n_read as u64 > MOST_BYTES {
        return Err(Unreadable::TooLarge);
    }
    let text = String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let rules = rules_in(&text)?.into_iter().map(|(kind, mut object)| {
        object.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
        let key = Key::of(&object);
        match (kind.kind().translate)(&object) {
            Ok(_) => Ok(((kind, key), Arc::new(object))),
            Err(error) => Err(Unreadable::Untranslatable(kind, key, error)),
        }
    });
    rules.collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tempfile::TempDir;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::{metrics::Metrics, plane::Settings};

    fn limits() -> KindId {
        KindId::all().find(|id| id.kind().kind == "RateLimitStrategy").expect("a kind")
    }

    fn limit(name: &str) -> String {
        format!(
            "---\napiVersion: fault-tolerance.opensergo.io/v1alpha1\nkind: RateLimitStrategy\n\
             metadata: {{name: {name}}}\n\
             spec: {{metricType: RequestAmount, limitMode: Local, threshold: 1, statDurationSeconds: 1}}\n"
        )
    }

    fn directory() -> (TempDir, Arc<Directory>) {
        let folder = tempfile::tempdir().expect("a folder");
        let plane = Plane::new(Settings::default(), Metrics::default());
        let directory = Directory::new(folder.path().to_owned(), plane);
        (folder, directory)
    }

    /// How many rules the plane knows, and whether these are all.
    fn known(directory: &Directory) -> (usize, bool) {
        directory.look();
        (directory.plane.rules().count(limits()), directory.plane.is_synced(limits()))
    }

    #[test]
    fn a_file_counts_once_nobody_writes_it() {
        let (folder, directory) = directory();
        let write = |text: &str| fs::write(folder.path().join("a.yaml"), text).expect("written");
        write(&limit("a"));
        assert_eq!(known(&directory), (1, true), "what is there from the beginning counts");
        for names in [&["a", "b"][..], &["a", "b", "c"]] {
            write(&names.iter().map(|name| limit(name)).collect::<String>());
            assert_eq!(known(&directory), (1, true), "it may be being written");
        }
        assert_eq!(known(&directory), (3, true), "it is as it was");
        fs::write(folder.path().join("b.yaml"), limit("d")).expect("written");
        assert_eq!(known(&directory), (3, true), "this as well");
        assert_eq!(known(&directory), (4, true));
    }

    #[test]
    fn a_file_that_is_renamed_is_never_gone() {
        let (folder, directory) = directory();
        fs::write(folder.path().join("a.yaml"), limit("a")).expect("written");
        assert_eq!(known(&directory), (1, true));
        fs::rename(folder.path().join("a.yaml"), folder.path().join("b.yaml")).expect("renamed");
        for _ in 0..3 {
            assert_eq!(known(&directory), (1, true));
        }
        fs::remove_file(folder.path().join("b.yaml")).expect("removed");
        assert_eq!(known(&directory), (1, true), "it may come again at once");
        assert_eq!(known(&directory), (0, true));
    }

    #[test]
    fn what_has_come_since_the_first_look_is_waited_for() {
        let (folder, directory) = directory();
        let path = folder.path().join("rules");
        let directory = Directory::new(path.clone(), Arc::clone(&directory.plane));
        assert_eq!(known(&directory), (0, false), "there is no folder");
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("a.yaml"), limit("a")).expect("written");
        assert_eq!(known(&directory), (0, false), "it may be being written");
        assert_eq!(known(&directory), (1, true));
    }

    #[test]
    fn what_is_wrong_is_told_once() {
        let (folder, _) = directory();
        for (name, text) in [("a.yaml", limit("a")), ("b.yaml", limit("a")), ("c.yaml", "{".to_owned())] {
            fs::write(folder.path().join(name), text).expect("written");
        }
        let mut contents = Contents::default();
        let told = contents.look(folder.path());
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("c.yaml") && told[1].ends_with("a.yaml already"), "{told:?}");
        assert!(contents.look(folder.path()).is_empty());
        assert_eq!(contents.troubles, told, "but it stays");
        fs::write(folder.path().join("c.yaml"), limit("c")).expect("written");
        for _ in 0..2 {
            assert!(contents.look(folder.path()).is_empty());
        }
        assert_eq!(contents.troubles, told[1..]);
    }

    /// In a single thread, everything would stand still.
    #[tokio::test]
    async fn nobody_waits_for_a_look() {
        let (_folder, directory) = directory();
        let (held, is_held) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let slow = Arc::clone(&directory);
        let slow = std::thread::spawn(move || {
            let _seen = slow.seen.lock();
            held.send(()).expect("somebody waits");
            may_go_on.recv().expect("it is told to");
        });
        is_held.recv().expect("it is held");
        let following = tokio::spawn(Arc::clone(&directory).follow());
        // Until it looks, and has to wait.
        while Arc::strong_count(&directory) < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!((directory.catch_up(limits()).await, directory.trouble(limits())), (0, None));
        go_on.send(()).expect("it waits");
        slow.join().expect("it ends");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !directory.plane.is_synced(limits()) {
            assert!(Instant::now() < deadline, "nobody looks");
            sleep(Duration::from_millis(10)).await;
        }
        following.abort();
    }
}
