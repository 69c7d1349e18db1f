//! Reading a store's directory while its process goes on writing.
//!
//! Nothing is locked and nothing written. First all files are opened, which takes a moment: what is open stays
//! readable however long the reading takes, even if it is replaced or removed meanwhile. Then each file is read
//! from its end to its beginning: frames are written in order, so whatever is seen of a late frame, all of an
//! earlier one is seen too.

use std::{collections::BTreeMap, fs::File, io, time::Duration};

use super::{
    error::{DamageError, Doing, OpenError},
    manifest::Manifest,
    recovery::Recovered,
};
use crate::{Directory, Disk, DiskFile, seal::Sealer};

/// Opening everything takes milliseconds, and the files change less often than that: this is bad luck enough.
const ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// Reads the store in `directory` as it is at some moment during the call.
pub(crate) fn read_live(directory: &Directory) -> Result<Recovered, OpenError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let (disk, manifest) = match LiveDisk::pin(directory) {
            Ok(pinned) => pinned,
            Err(error) if attempts < ATTEMPTS && may_pass(&error) => {
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(error) => return Err(error),
        };
        // Whoever looks has no keys: values stay as they are kept.
        return Recovered::read(&disk, manifest, true, &Sealer(None));
    }
}

/// A file that went away while the directory was being looked at, or a manifest that was replaced.
fn may_pass(error: &OpenError) -> bool {
    matches!(error, OpenError::Io { source, .. }
        if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::Interrupted))
}

/// The files of a store, all opened at one moment.
pub(crate) struct LiveDisk {
    files: BTreeMap<String, File>,
}

impl LiveDisk {
    /// Opens all files that make up the store, and makes sure that they belong together.
    pub(crate) fn pin(directory: &Directory) -> Result<(Self, Manifest), OpenError> {
        let missing = || DamageError::new("MANIFEST", 0, "it is missing");
        let before = Manifest::read(directory)?.ok_or_else(missing)?;
        let mut files = BTreeMap::new();
        for name in directory.list().doing(|| format!("listing {}", directory.path().display()))? {
            if before.names(&name) {
                let file = directory.open_to_read(&name).doing(|| format!("opening {name}"))?;
                files.insert(name, file);
            }
        }
        let after = Manifest::read(directory)?.ok_or_else(missing)?;
        if before != after {
            return Err(io::Error::from(io::ErrorKind::Interrupted)).doing(|| "reading the manifest".into());
        }
        Ok((LiveDisk { files }, after))
    }
}

impl Disk for LiveDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.files.get(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Box::new(LiveFile(file.try_clone()?)))
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        Err(read_only())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_names(&self) -> io::Result<()> {
        Err(read_only())
    }
}

struct LiveFile(File);

impl DiskFile for LiveFile {
    fn len(&self) -> io::Result<u64> {
        DiskFile::len(&self.0)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        for (idx, piece) in buf.chunks_mut(PIECE).enumerate().rev() {
            DiskFile::read_at(&self.0, piece, offset + (idx * PIECE) as u64)?;
        }
        Ok(())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn sync(&self) -> io::Result<()> {
        Err(read_only())
    }
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "a store that is only looked at is not written")
}
