//! Files that are read again when they change.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// How often files about access are looked at. What is revoked in one of them holds after at most twice that.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// What tells one state of a file from another, without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    device: u64,
    inode: u64,
    n_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Mark {
    /// The mark of a file; nothing if there is none.
    fn of(path: &Path) -> Option<Self> {
        let file: Metadata = fs::metadata(path).ok()?;
        Some(Mark {
            device: file.dev(),
            inode: file.ino(),
            n_bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

/// A file, and what is done when it is another than before.
pub(crate) struct Followed {
    path: PathBuf,
    /// What it was when it was read.
    mark: Option<Mark>,
    /// What it was when it was looked at last. One that is being written is not read yet.
    seen: Option<Mark>,
    read: Box<dyn Fn(&Path) + Send>,
}

impl Followed {
    /// Reads the file with `read`, which must succeed, and again with `again` when it changes, which keeps what it
    /// has when it cannot be used and says so.
    pub(crate) fn new(
        path: &Path,
        read: impl FnOnce(&Path) -> anyhow::Result<()>,
        again: impl Fn(&Path) + Send + 'static,
    ) -> anyhow::Result<Self> {
        // The mark comes first: what changes while it is read is read again.
        let mark = Mark::of(path);
        read(path)?;
        Ok(Followed { path: path.to_owned(), seen: mark.clone(), mark, read: Box::new(again) })
    }

    /// Reads the file if it has changed, and has stayed so since the last look.
    fn look(&mut self) {
        let mark = Mark::of(&self.path);
        let is_settled = mark == self.seen;
        self.seen = mark;
        if is_settled && self.seen != self.mark {
            self.mark.clone_from(&self.seen);
            (self.read)(&self.path);
        }
    }
}

/// Files that are looked at together.
#[derive(Default)]
pub(crate) struct Files(Vec<Followed>);

impl Files {
    /// Looks at this file as well.
    pub(crate) fn add(&mut self, file: Followed) {
        self.0.push(file);
    }

    /// Looks at every file once.
    fn look(&mut self) {
        self.0.iter_mut().for_each(Followed::look);
    }

    /// Looks at the files this often, as long as the server runs.
    pub(crate) async fn follow(mut self, interval: Duration) {
        while !self.0.is_empty() {
            tokio::time::sleep(interval).await;
            let looked = tokio::task::spawn_blocking(move || {
                self.look();
                self
            });
            match looked.await {
                Ok(files) => self = files,
                Err(error) => {
                    tracing::error!(%error, "files are not followed any more");
                    break;
                }
            }
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_file_is_read_again_only_when_it_is_another() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("file");
        fs::write(&path, "one").expect("the directory is ours");
        let read = Arc::new(Mutex::new(vec![]));
        let keep = |read: &Mutex<Vec<String>>, path: &Path| {
            read.lock().expect("no panics").push(fs::read_to_string(path).unwrap_or_default());
        };
        let (first, later) = (Arc::clone(&read), Arc::clone(&read));
        let file = Followed::new(
            &path,
            move |path| {
                keep(&first, path);
                Ok(())
            },
            move |path| keep(&later, path),
        );
        let mut files = Files::default();
        files.add(file.expect("it is there"));
        let mut look = |expected: &[&str]| {
            files.look();
            files.look();
            assert_eq!(*read.lock().expect("no panics"), expected);
        };
        look(&["one"]);
        fs::write(&path, "three").expect("the directory is ours");
        look(&["one", "three"]);
        let other = directory.path().join("other");
        fs::write(&other, "third").expect("the directory is ours");
        fs::rename(&other, &path).expect("the directory is ours");
        look(&["one", "three", "third"]);
        fs::remove_file(&path).expect("it is there");
        look(&["one", "three", "third", ""]);
    }
}
