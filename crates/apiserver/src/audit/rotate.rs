//! A file of lines that is put aside when it has become large.
//!
//! What is put aside is named as lumberjack names it, which writes the audit logs of Kubernetes, so that whatever
//! collects those finds these.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::{Timestamp, tz::TimeZone};

/// Where lines go, and how much of them is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The file.
    pub path: PathBuf,
    /// How many bytes it may have before it is put aside.
    pub max_bytes: u64,
    /// How many that were put aside are kept; 0: all.
    pub max_backups: usize,
    /// How long they are kept; zero: forever.
    pub max_age: Duration,
}

/// How the time stands in the name of a file that was put aside.
const STAMP: &str = "%Y-%m-%dT%H-%M-%S.%3f";

/// The file that is written to.
pub(super) struct Rotating {
    files: Files,
    file: File,
    n_bytes: u64,
}

impl Rotating {
    pub(super) fn open(files: Files, now: Timestamp) -> io::Result<Self> {
        if let Some(folder) = files.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = open(&files.path)?;
        let n_bytes = file.metadata()?.len();
        let rotating = Rotating { files, file, n_bytes };
        rotating.forget_old(now);
        Ok(rotating)
    }

    /// Writes whole lines, or nothing of them.
    pub(super) fn write(&mut self, lines: &[u8], now: Timestamp) -> io::Result<()> {
        if self.n_bytes > 0 && self.n_bytes + lines.len() as u64 > self.files.max_bytes {
            self.rotate(now)?;
        }
        match self.file.write_all(lines) {
            Ok(()) => {
                self.n_bytes += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Half a line would spoil the next one as well.
                let _ = self.file.set_len(self.n_bytes);
                Err(error)
            }
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let mut at = now;
        let mut aside = self.files.aside(at);
        while aside.exists() {
            at += Duration::from_millis(1);
            aside = self.files.aside(at);
        }
        match fs::rename(&self.files.path, &aside) {
            Ok(()) => {}
            // Someone else has put it aside.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.file = open(&self.files.path)?;
        self.n_bytes = self.file.metadata()?.len();
        self.forget_old(now);
        Ok(())
    }

    /// Removes what was put aside and need not be kept.
    fn forget_old(&self, now: Timestamp) {
        let Files { max_backups, max_age, .. } = self.files;
        let mut aside = self.files.all_aside();
        aside.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (index, (at, path)) in aside.iter().enumerate() {
            let is_too_many = max_backups > 0 && index >= max_backups;
            let is_too_old = !max_age.is_zero()
                && now.duration_since(*at)
                    > jiff::SignedDuration::try_from(max_age).unwrap_or(jiff::SignedDuration::MAX);
            if (is_too_many || is_too_old)
                && let Err(error) = fs::remove_file(path)
            {
                tracing::warn!(path = %path.display(), %error, "an old audit log could not be removed");
            }
        }
    }
}

/// Opens a file for whoever runs the server and nobody else.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && meta.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

impl Files {
    /// The name without its ending, and the ending with its dot.
    fn parts(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let ending = self.path.extension().map(|ending| format!(".{}", ending.to_string_lossy()));
        (text(self.path.file_stem()), ending.unwrap_or_default())
    }

    /// What the file is called once it is put aside.
    fn aside(&self, at: Timestamp) -> PathBuf {
        let (stem, ending) = self.parts();
        let stamp = at.to_zoned(TimeZone::UTC).strftime(STAMP);
        self.path.with_file_name(format!("{stem}-{stamp}{ending}"))
    }

    /// All files that were put aside, and when.
    fn all_aside(&self) -> Vec<(Timestamp, PathBuf)> {
        let (stem, ending) = self.parts();
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let aside = files.filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let stamp = name.strip_prefix(&format!("{stem}-"))?.strip_suffix(&ending)?;
            let at = jiff::civil::DateTime::strptime(STAMP, stamp).ok()?;
            Some((at.to_zoned(TimeZone::UTC).ok()?.timestamp(), self.path.with_file_name(name)))
        });
        aside.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).expect("a time")
    }

    fn names(folder: &Path) -> Vec<String> {
        let files = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<String> =
            files.map(|file| file.expect("a file").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    fn files(folder: &Path, max_backups: usize, max_age: Duration) -> Files {
        Files { path: folder.join("audit.log"), max_bytes: 10, max_backups, max_age }
    }

    #[test]
    fn a_full_file_is_put_aside_under_the_name_that_lumberjack_gives() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut rotating = Rotating::open(files(folder.path(), 0, Duration::ZERO), at(0)).expect("a file");
        for line in [b"123456\n", b"abcdef\n", b"ABCDEF\n"] {
            rotating.write(line, at(0)).expect("written");
        }
        assert_eq!(
            names(folder.path()),
            ["audit-2023-11-14T22-13-20.000.log", "audit-2023-11-14T22-13-20.001.log", "audit.log"]
        );
        assert_eq!(fs::read(folder.path().join("audit.log")).expect("a file"), b"ABCDEF\n");
        for name in names(folder.path()) {
            let mode = fs::metadata(folder.path().join(&name)).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_line_larger_than_a_file_may_be_has_one_for_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut rotating = Rotating::open(files(folder.path(), 0, Duration::ZERO), at(0)).expect("a file");
        rotating.write(&[b'x'; 100], at(0)).expect("written");
        rotating.write(b"next\n", at(0)).expect("written");
        assert_eq!(names(folder.path()).len(), 2);
        assert_eq!(fs::read(folder.path().join("audit.log")).expect("a file"), b"next\n");
    }

    #[test]
    fn what_is_too_many_or_too_old_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let day = Duration::from_secs(24 * 60 * 60);
        fs::write(folder.path().join("audit-notes.log"), "mine").expect("a file");
        let mut rotating = Rotating::open(files(folder.path(), 2, day), at(0)).expect("a file");
        for second in 0..5 {
            rotating.write(b"123456789\n", at(second)).expect("written");
        }
        assert_eq!(
            names(folder.path()),
            [
                "audit-2023-11-14T22-13-23.000.log",
                "audit-2023-11-14T22-13-24.000.log",
                "audit-notes.log",
                "audit.log"
            ]
        );
        drop(rotating);
        Rotating::open(files(folder.path(), 2, day), at(2 * 24 * 60 * 60)).expect("a file");
        assert_eq!(names(folder.path()), ["audit-notes.log", "audit.log"]);
    }

    #[test]
    fn a_file_that_is_there_is_gone_on_with_and_closed_to_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        fs::write(&path, "old\n").expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a mode");
        let mut rotating = Rotating::open(files(folder.path(), 0, Duration::ZERO), at(0)).expect("a file");
        rotating.write(b"new\n", at(0)).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "old\nnew\n");
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    }
}
