//! The disk without a store: one write and one sync at a time, to a file that has all its space.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::Context;

use super::load::Ran;

/// A file full of zeros, written over from beginning to end, again and again.
#[derive(Clone, Debug)]
pub(crate) struct Bare {
    /// One turn at a time.
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    file: File,
    len: u64,
    offset: u64,
}

impl Bare {
    /// Makes the file in `folder`.
    pub(crate) fn create(folder: &Path, len: u64) -> anyhow::Result<Self> {
        let path = folder.join("bare");
        let doing = || format!("writing {}", path.display());
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path).with_context(doing)?;
        let zeros = vec![0; 1 << 20];
        for offset in (0..len).step_by(zeros.len()) {
            file.write_all_at(&zeros, offset).with_context(doing)?;
        }
        file.sync_all().with_context(doing)?;
        Ok(Bare { state: Arc::new(Mutex::new(State { file, len, offset: 0 })) })
    }

    /// Appends groups of `group_bytes` for this long, syncing each.
    pub(crate) async fn append(&self, group_bytes: u64, time: Duration) -> anyhow::Result<Ran> {
        let state = self.state.clone();
        let appending = move || {
            let mut state = state.lock().expect("no one panics while holding the file");
            let group = vec![7; group_bytes as usize];
            let begun = Instant::now();
            let mut ran = Ran::default();
            while begun.elapsed() < time {
                let asked = Instant::now();
                state.append(&group)?;
                ran.latencies.push(asked.elapsed());
            }
            ran.elapsed = begun.elapsed();
            Ok(ran)
        };
        tokio::task::spawn_blocking(appending).await?
    }
}

impl State {
    fn append(&mut self, group: &[u8]) -> anyhow::Result<()> {
        if self.offset + group.len() as u64 > self.len {
            self.offset = 0;
        }
        self.file.write_all_at(group, self.offset)?;
        self.file.sync_data()?;
        self.offset += group.len() as u64;
        Ok(())
    }
}
