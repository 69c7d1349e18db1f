//! Rules from a directory of YAML files, for places without an API server.
//!
//! The files are looked at every second. A file that cannot be read, or has something in it that is no rule, is told of
//! in the log, and what was in it before stays.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use jiff::Timestamp;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};
use windlass_runtime::Key;

use crate::{
    documents::{NoRules, rules_in},
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
type Mark = (Option<SystemTime>, u64);

/// The objects of a file.
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
}

/// A file as it was seen last.
#[derive(Debug)]
struct Seen {
    mark: Mark,
    /// What was in it when it could last be read.
    objects: Objects,
    /// Why it cannot be read any more.
    trouble: Option<String>,
}

#[derive(Debug, Default)]
struct Contents {
    files: BTreeMap<PathBuf, Seen>,
    /// Why the directory itself cannot be read.
    trouble: Option<String>,
}

/// The objects of a directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    seen: Mutex<Contents>,
    last_revision: Mutex<i64>,
    plane: Arc<Plane>,
}

impl Directory {
    /// The directory, for a plane.
    pub fn new(path: PathBuf, plane: Arc<Plane>) -> Arc<Self> {
        Arc::new(Directory { path, seen: Mutex::default(), last_revision: Mutex::default(), plane })
    }

    /// Tells the plane what happens, until it is dropped.
    pub async fn follow(self: Arc<Self>) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look();
        }
    }

    /// Looks at all files, and takes up what has changed.
    fn look(&self) {
        let mut seen = self.seen.lock();
        let files = match files(&self.path) {
            Ok(files) => files,
            Err(error) => {
                let trouble = format!("{}: {error}", self.path.display());
                if seen.trouble.as_ref() != Some(&trouble) {
                    tracing::error!(error = trouble, "rules stay as they were");
                }
                seen.trouble = Some(trouble);
                return;
            }
        };
        seen.trouble = None;
        let before = everything(&seen.files);
        seen.files.retain(|path, _| files.contains_key(path));
        for (path, mark) in files {
            if seen.files.get(&path).is_some_and(|known| known.mark == mark) {
                continue;
            }
            let (objects, trouble) = match read(&path) {
                Ok(objects) => (objects, None),
                Err(error) => {
                    let trouble = format!("{}: {error}", path.display());
                    tracing::error!(error = trouble, "what the file said before stays");
                    let known = seen.files.remove(&path).map(|known| known.objects);
                    (known.unwrap_or_default(), Some(trouble))
                }
            };
            seen.files.insert(path, Seen { mark, objects, trouble });
        }
        self.tell(&before, &everything(&seen.files));
    }

    fn tell(&self, before: &Objects, after: &Objects) {
        let revision = self.next_revision();
        for kind in KindId::all() {
            let gone =
                before.keys().filter(|(of, key)| *of == kind && !after.contains_key(&(*of, key.clone())));
            let gone = gone.map(|(_, key)| Heard::Gone(key.clone()));
            let is = after.iter().filter(|(id, object)| id.0 == kind && before.get(*id) != Some(*object));
            let is = is.map(|(_, object)| Heard::Is(Arc::clone(object)));
            self.plane.heard(kind, gone.chain(is).collect(), Some(revision));
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
    async fn catch_up(&self, _: KindId) -> i64 {
        self.look();
        *self.last_revision.lock()
    }

    fn is_missing(&self, _: KindId) -> bool {
        false
    }

    fn trouble(&self, _: KindId) -> Option<String> {
        let seen = self.seen.lock();
        let of_files = || seen.files.values().find_map(|file| file.trouble.clone());
        seen.trouble.clone().or_else(of_files)
    }
}

/// All files whose name says that they are YAML or JSON, and how they are.
fn files(directory: &Path) -> io::Result<BTreeMap<PathBuf, Mark>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_rules = path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
        // Links are followed: that is how files come out of a ConfigMap.
        let Some(metadata) = fs::metadata(&path).ok().filter(|found| is_rules && found.is_file()) else {
            continue;
        };
        files.insert(path, (metadata.modified().ok(), metadata.len()));
        if files.len() > MOST_FILES {
            return Err(io::Error::other(format!("expected at most {MOST_FILES} files")));
        }
    }
    Ok(files)
}

fn everything(files: &BTreeMap<PathBuf, Seen>) -> Objects {
    let all = files.values().flat_map(|file| &file.objects);
    all.map(|(id, object)| (id.clone(), Arc::clone(object))).collect()
}

/// Reads the rules of a file.
fn read(path: &Path) -> Result<Objects, Unreadable> {
    let mut text = String::new();
    let read = File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MOST_BYTES {
        return Err(Unreadable::TooLarge);
    }
    let rules = rules_in(&text)?.into_iter().map(|(kind, mut object)| {
        object.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
        ((kind, Key::of(&object)), Arc::new(object))
    });
    Ok(rules.collect())
}
