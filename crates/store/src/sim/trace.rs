//! What was done to a simulated disk, in one order: changes, syncs, and the test's own marks.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
};

use bytes::Bytes;

use super::Image;

/// Everything done to a disk since it was an image at rest.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(super) base: Image,
    pub(super) steps: Vec<Step>,
}

impl Trace {
    /// The steps, oldest first.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// One thing that happened. Calls that changed nothing, such as reads and most failed ones, leave no step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The content of a file changed.
    Edit(FileId, Edit),
    /// All edits of the file so far became durable; its name did not.
    Sync(FileId),
    /// A sync of the file failed, and its edits so far count as clean: no later sync will write them. Each of
    /// them may be on the disk or not. This is what Linux file systems do.
    SyncFailed(FileId),
    /// A name came, changed or went.
    Name(NameOp),
    /// All names so far became durable; the content of files did not.
    SyncNames,
    /// A sync of the names failed; as with [`Step::SyncFailed`].
    SyncNamesFailed,
    /// The test said something.
    Mark(Mark),
}

/// What a test knows at a point of the trace. The numbers are the test's own: revisions, say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// From here on this may be found on the disk.
    Asked(u64),
    /// From here on this must be found on the disk.
    Acked(u64),
}

/// A file itself, whatever its name: an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId(pub(super) usize);

/// A change to the content of a file.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Bytes were written, at least one.
    Write {
        /// Where the first went.
        offset: usize,
        /// The bytes.
        data: Bytes,
    },
    /// The file was cut or grown to this length.
    SetLen(usize),
}

impl Edit {
    /// Makes the change to `bytes`.
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Edit::Write { offset, data } => put(bytes, *offset, data),
            Edit::SetLen(len) => bytes.resize(*len, 0),
        }
    }
}

/// Where a write went and how long it was, but not its bytes.
impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edit::Write { offset, data } => write!(f, "Write({offset}..{})", offset + data.len()),
            Edit::SetLen(len) => write!(f, "SetLen({len})"),
        }
    }
}

/// A change to the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameOp {
    /// A new file got a name. (Creating over an old file cuts that one to nothing: an [`Edit`].)
    Create {
        /// Its name.
        name: String,
        /// The new file.
        file: FileId,
    },
    /// A file changed its name, and the file that had the new name lost it.
    Rename {
        /// Its name before.
        from: String,
        /// Its name after.
        to: String,
        /// The file that was moved.
        file: FileId,
    },
    /// A file lost its name.
    Remove {
        /// Its name.
        name: String,
        /// The file that had it.
        file: FileId,
    },
}

/// Which file has which name.
pub(super) type Names = BTreeMap<String, FileId>;

impl NameOp {
    /// Makes the change to `names`, as one step. Without effect where the file does not have the name it had,
    /// because an earlier change was lost.
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            NameOp::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            NameOp::Rename { from, to, file } => {
                if take(names, from, *file) {
                    names.insert(to.clone(), *file);
                }
            }
            NameOp::Remove { name, file } => {
                take(names, name, *file);
            }
        }
    }
}

/// Takes `name` from `file`, if it has it.
fn take(names: &mut Names, name: &str, file: FileId) -> bool {
    match names.entry(name.to_owned()) {
        Entry::Occupied(entry) if *entry.get() == file => {
            entry.remove();
            true
        }
        _ => false,
    }
}

/// Writes `data` into `bytes` at `offset`; a gap before it reads as zeros. Nothing grows by no data.
pub(super) fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}
