//! The disk, as the embedded engine sees it: one flat directory of files.
//!
//! Everything the engine does to a disk goes through these two traits, so that tests can put a disk in their
//! place that loses power, tears writes, fills up or lies. [`Directory`] is the real one.
//!
//! What the engine relies on, and nothing else:
//! - bytes written and then covered by [`DiskFile::sync`] stay, whatever happens after;
//! - a file's name (created, renamed or removed) stays once [`Disk::sync_names`] has returned;
//! - [`Disk::rename`] replaces its target as one step.
//!
//! Between those points a crash may keep, drop, tear or garble each written sector on its own, in any order.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A flat directory of files.
pub trait Disk: Send + Sync + 'static {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates an empty file, replacing one of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens an existing file, for reading and, where the file system allows it, writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, replacing what had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all names as they are now durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// One open file.
pub trait DiskFile: Send + Sync {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills `buf` with the bytes at `offset`, which must exist.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` at `offset`, growing the file as needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts the file, or grows it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes all bytes written so far, and the length, durable.
    fn sync(&self) -> io::Result<()>;
}

/// A directory of the file system.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    handle: File,
}

impl Directory {
    /// Opens `path`, creating it for the owner alone if it is not there.
    pub fn open(path: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        // The directory's own name must be durable before anything in it is promised.
        if let Some(parent) = path.canonicalize()?.parent() {
            File::open(parent)?.sync_all()?;
        }
        Self::existing(path)
    }

    /// Opens `path`, which must exist.
    pub fn existing(path: &Path) -> io::Result<Self> {
        Ok(Directory { path: path.to_owned(), handle: File::open(path)? })
    }

    /// Opens one of its files for reading only.
    pub(crate) fn open_to_read(&self, name: &str) -> io::Result<File> {
        File::open(self.path.join(name))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.path)?.map(|file| Ok(file?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Box::new(options.open(self.path.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        match OpenOptions::new().read(true).write(true).open(self.path.join(name)) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
                ) =>
            {
                Ok(Box::new(self.open_to_read(name)?))
            }
            opened => Ok(Box::new(opened?)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
