//! Watches under observation: every delivery is held against what any watch promises.

use std::{sync::Arc, time::Duration};

use super::{plan, probe::within};
use crate::{Change, Delivery, ReadError, Revision, Store, Watch};

/// How often followers ask for progress: it is how they learn that nothing more is coming.
const PROGRESS: Duration = Duration::from_millis(2);

/// A watch and what it has told so far.
pub(super) struct Follower {
    watch: Watch,
    prefix: Vec<u8>,
    /// Everything delivered, in order.
    pub(super) seen: Vec<Arc<Change>>,
    /// Nothing at or below this revision may come any more.
    done: Revision,
}

impl Follower {
    /// Watches `prefix` from the first change after `after`, which must be possible.
    pub(super) async fn start(store: &dyn Store, prefix: &[u8], after: Revision) -> Self {
        match Self::try_start(store, prefix, after).await {
            Ok(follower) => follower,
            Err(err) => panic!("no watch of {:?} after {after}: {err}", prefix.escape_ascii()),
        }
    }

    pub(super) async fn try_start(
        store: &dyn Store,
        prefix: &[u8],
        after: Revision,
    ) -> Result<Self, ReadError> {
        let watch = within("a watch", store.watch(prefix, after)).await?;
        assert_eq!(watch.delivered(), after, "a watch begins where it was asked to");
        let watch = watch.with_progress(PROGRESS);
        Ok(Follower { watch, prefix: prefix.to_vec(), seen: Vec::new(), done: after })
    }

    /// Everything of the prefix up to here has been seen.
    pub(super) fn done(&self) -> Revision {
        self.done
    }

    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Waits for a delivery and checks it.
    pub(super) async fn next(&mut self) -> Result<Delivery, ReadError> {
        let delivery = within("a delivery", self.watch.next()).await.inspect_err(|err| self.cut_off(err))?;
        match &delivery {
            Delivery::Changes(changes) => {
                assert!(!changes.is_empty(), "an empty delivery");
                self.accept(changes);
            }
            Delivery::Progress(revision) => {
                assert_eq!(*revision, self.watch.delivered(), "progress is what has been delivered");
            }
        }
        self.advance();
        Ok(delivery)
    }

    /// Takes what is there, without waiting.
    pub(super) fn poll(&mut self) -> Result<(), ReadError> {
        let changes = self.watch.poll().inspect_err(|err| self.cut_off(err))?;
        self.accept(&changes);
        self.advance();
        Ok(())
    }

    /// Reads until everything up to `revision` has been seen, or the watch ends.
    pub(super) async fn try_through(&mut self, revision: Revision) -> Result<(), ReadError> {
        loop {
            self.poll()?;
            if self.done >= revision {
                return Ok(());
            }
            self.next().await?;
        }
    }

    /// Reads until everything up to `revision` has been seen.
    pub(super) async fn through(&mut self, revision: Revision) {
        if let Err(err) = self.try_through(revision).await {
            panic!("the watch of {:?} ended at {}: {err}", self.prefix.escape_ascii(), self.done);
        }
    }

    fn accept(&mut self, changes: &[Arc<Change>]) {
        for chunk in changes.chunk_by(|a, b| a.revision == b.revision) {
            let revision = chunk[0].revision;
            // Covers order, duplicates, split revisions, and progress that ran ahead.
            assert!(revision > self.done, "revision {revision} comes after {} was done", self.done);
            self.done = revision;
            for (idx, change) in chunk.iter().enumerate() {
                assert!(change.key.starts_with(&self.prefix), "{change:?} is not of the prefix");
                assert!(chunk[..idx].iter().all(|other| other.key != change.key), "{change:?} comes twice");
                plan::effect(change);
            }
        }
        self.seen.extend_from_slice(changes);
    }

    /// What the watch says it has delivered, beyond the changes themselves, is held against it later.
    fn advance(&mut self) {
        assert!(self.watch.delivered() >= self.done, "the watch has moved backwards");
        self.done = self.watch.delivered();
    }

    fn cut_off(&self, err: &ReadError) {
        if let ReadError::Compacted { requested, floor } = err {
            assert_eq!(*requested, self.watch.delivered(), "cut off at another place than it stands");
            assert!(*requested >= self.done, "the watch has moved backwards");
            assert!(floor > requested, "cut off though nothing it has not read is gone: {err}");
        }
    }
}
