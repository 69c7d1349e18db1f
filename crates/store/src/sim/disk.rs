//! The simulated disk while it runs: files in memory, every change written down.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

use super::{Call, Done, Edit, Fault, FileId, Image, Mark, NameOp, Step, Trace, trace::Names};
use crate::{Disk, DiskFile};

/// Longer files are refused. Far more than a test writes on purpose, and little enough that a length read from a
/// rotten file does not take the machine's memory.
const MAX_LEN: usize = 1 << 30;

/// A disk in memory. Clones are the same disk.
///
/// While it runs it shows what a cache would: everything written, durable or not. What a power cut would have
/// left is for [`super::Replay`] to say, from the [`Trace`]. To go on after a cut, make a new disk from the
/// image; the old one stays what it was, whoever still writes to it.
#[derive(Clone, Default)]
pub(crate) struct SimDisk {
    live: Arc<Mutex<Live>>,
}

/// The running state. Each call holds the lock from start to end, so the trace has one order.
#[derive(Default)]
struct Live {
    base: Image,
    steps: Vec<Step>,
    names: Names,
    /// By [`FileId`]. Files without a name stay, for those who have them open.
    files: Vec<Arc<Vec<u8>>>,
    fault: Option<Fault>,
}

/// An open file.
struct SimFile {
    disk: SimDisk,
    id: FileId,
}

impl SimDisk {
    /// A disk that holds `image`, with an empty trace.
    pub(crate) fn from_image(image: Image) -> Self {
        let (names, files) = numbered(&image);
        let live = Live { base: image, names, files, ..Live::default() };
        SimDisk { live: Arc::new(Mutex::new(live)) }
    }

    /// Puts a mark into the trace, here and now.
    pub(crate) fn mark(&self, mark: Mark) {
        self.live().steps.push(Step::Mark(mark));
    }

    /// Everything done so far.
    pub(crate) fn trace(&self) -> Trace {
        let live = self.live();
        Trace { base: live.base.clone(), steps: live.steps.clone() }
    }

    /// What is on the disk when the process dies and the machine stays up: everything written.
    pub(crate) fn image(&self) -> Image {
        let live = self.live();
        live.names.iter().map(|(name, id)| (name.clone(), Arc::clone(&live.files[id.0]))).collect()
    }

    /// Lets calls from here on fail. There is one fault at a time: it replaces the one before.
    pub(crate) fn inject(&self, fault: Fault) {
        self.live().fault = Some(fault);
    }

    /// Lets all calls go well again.
    pub(crate) fn heal(&self) {
        self.live().fault = None;
    }

    /// Whether the injected fault has made a call fail. When it has not, the run was shorter than the fault
    /// was patient, and all calls of the run have been tried.
    pub(crate) fn fault_fired(&self) -> bool {
        self.live().fault.as_ref().is_some_and(Fault::has_fired)
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        // No call leaves the state half changed, so a panicking holder does not spoil it.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, id: FileId) -> Box<dyn DiskFile> {
        Box::new(SimFile { disk: self.clone(), id })
    }
}

impl Live {
    /// How much of `call` is to be done, and what it then answers.
    fn attempt(&mut self, call: Call) -> (Done, io::Result<()>) {
        match self.fault.as_mut().and_then(|fault| fault.strike(call)) {
            None => (Done::Everything, Ok(())),
            Some((done, error)) => (done, Err(error)),
        }
    }

    fn find(&self, name: &str) -> io::Result<FileId> {
        self.names.get(name).copied().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, name))
    }

    fn edit(&mut self, id: FileId, edit: Edit) {
        edit.apply(Arc::make_mut(&mut self.files[id.0]));
        self.steps.push(Step::Edit(id, edit));
    }

    fn name(&mut self, op: NameOp) {
        op.apply(&mut self.names);
        self.steps.push(Step::Name(op));
    }

    /// Creates as the real disk does: a file that is there already is cut to nothing and stays the same file.
    fn create(&mut self, name: &str) -> FileId {
        if let Ok(id) = self.find(name) {
            self.edit(id, Edit::SetLen(0));
            return id;
        }
        let id = FileId(self.files.len());
        self.files.push(Arc::default());
        self.name(NameOp::Create { name: name.to_owned(), file: id });
        id
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut live = self.live();
        live.attempt(Call::List).1?;
        Ok(live.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut live = self.live();
        let (done, answer) = live.attempt(Call::Create);
        let created = (done == Done::Everything).then(|| live.create(name));
        answer?;
        Ok(self.handle(created.expect("a call that succeeds has done everything")))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut live = self.live();
        live.attempt(Call::Open).1?;
        live.find(name).map(|id| self.handle(id))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut live = self.live();
        let (done, answer) = live.attempt(Call::Rename);
        if done == Done::Everything {
            let file = live.find(from)?;
            if from != to {
                live.name(NameOp::Rename { from: from.to_owned(), to: to.to_owned(), file });
            }
        }
        answer
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut live = self.live();
        let (done, answer) = live.attempt(Call::Remove);
        if done == Done::Everything {
            let file = live.find(name)?;
            live.name(NameOp::Remove { name: name.to_owned(), file });
        }
        answer
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut live = self.live();
        let (done, answer) = live.attempt(Call::SyncNames);
        live.steps.push(if done == Done::Everything { Step::SyncNames } else { Step::SyncNamesFailed });
        answer
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let mut live = self.disk.live();
        live.attempt(Call::Len).1?;
        Ok(live.files[self.id.0].len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut live = self.disk.live();
        live.attempt(Call::Read).1?;
        let end = end_of(offset, buf.len()).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let bytes = live.files[self.id.0].get(end - buf.len()..end);
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let offset = end_of(offset, buf.len())? - buf.len();
        let mut live = self.disk.live();
        let (done, answer) = live.attempt(Call::Write);
        let data = match done {
            Done::Nothing => &[],
            Done::Part(percent) => &buf[..buf.len() * usize::from(percent) / 100],
            Done::Everything => buf,
        };
        if !data.is_empty() {
            let data = Bytes::copy_from_slice(data);
            live.edit(self.id, Edit::Write { offset, data });
        }
        answer
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = end_of(len, 0)?;
        let mut live = self.disk.live();
        let (done, answer) = live.attempt(Call::SetLen);
        if done == Done::Everything {
            live.edit(self.id, Edit::SetLen(len));
        }
        answer
    }

    fn sync(&self) -> io::Result<()> {
        let mut live = self.disk.live();
        let (done, answer) = live.attempt(Call::Sync);
        live.steps.push(match done {
            Done::Everything => Step::Sync(self.id),
            Done::Nothing | Done::Part(_) => Step::SyncFailed(self.id),
        });
        answer
    }
}

/// Where `len` bytes at `offset` end, if a file can be that long.
fn end_of(offset: u64, len: usize) -> io::Result<usize> {
    let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(len));
    end.filter(|end| *end <= MAX_LEN).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// The files of an image, with the numbers they have in its trace.
pub(super) fn numbered(image: &Image) -> (Names, Vec<Arc<Vec<u8>>>) {
    let names = image.files.keys().enumerate().map(|(idx, name)| (name.clone(), FileId(idx))).collect();
    (names, image.files.values().map(Arc::clone).collect())
}
