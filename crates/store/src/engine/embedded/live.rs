//! Reading a store's directory while its process goes on writing.
//!
//! Nothing is locked and nothing written. Files come and go and the log grows meanwhile, which is made
//! harmless by reading each file from its end to its beginning: frames are written in order, so whatever is
//! seen of a late frame, all of an earlier one is seen too. What looks damaged or is gone is read again.

use std::{io, time::Duration};

use super::{error::OpenError, manifest::Manifest, recovery::Recovered};
use crate::{DamageError, Directory, Disk, DiskFile};

/// A store is rewritten part by part, and no part lives for less than some milliseconds: this is minutes of
/// bad luck.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// Reads the store in `directory` as it is at some moment during the call.
pub(crate) fn read_live(directory: Directory) -> Result<Recovered, OpenError> {
    let disk = LiveDisk(directory);
    let mut attempts = 0;
    loop {
        attempts += 1;
        match read_once(&disk) {
            Err(error) if attempts < ATTEMPTS && may_pass(&error) => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

fn read_once(disk: &LiveDisk) -> Result<Recovered, OpenError> {
    let manifest = Manifest::read(disk)?.ok_or_else(|| DamageError::new("MANIFEST", 0, "it is missing"))?;
    Recovered::read(disk, manifest)
}

fn may_pass(error: &OpenError) -> bool {
    match error {
        OpenError::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
        OpenError::Damaged(_) => true,
        OpenError::InUse { .. } | OpenError::NewerFormat { .. } => false,
    }
}

struct LiveDisk(Directory);

impl Disk for LiveDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(LiveFile(self.0.open_to_read(name)?)))
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

struct LiveFile(std::fs::File);

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
