//! Where our keys lie in etcd: behind a prefix, beside one key of our own that no reader sees.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    CommitError, Entry, Key, Revision, Txn, UnsealError, engine::etcd::wire::KeyValue, key::prefix_end,
    seal::Sealer,
};

/// The key whose writes prove that a watch has caught up. It sorts before everything that has a name.
const MARKER: &[u8] = b"\0windlass/barrier";

/// The prefix and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    prefix: Bytes,
    end: Bytes,
    marker: Bytes,
    sealer: Sealer,
}

/// A version as readers see it.
pub(super) struct Found {
    pub(super) entry: Entry,
    /// Whether it is sealed as it would be now.
    pub(super) is_current: bool,
}

impl Keyspace {
    /// The keys behind `prefix`, which ends with `/`, and what is kept of their values.
    pub(super) fn new(prefix: &str, sealer: Sealer) -> Self {
        let end = prefix_end(prefix.as_bytes()).expect("a slash is not the last byte there is");
        let marker = [prefix.as_bytes(), MARKER].concat();
        let prefix = Bytes::copy_from_slice(prefix.as_bytes());
        Keyspace { prefix, end: end.into(), marker: marker.into(), sealer }
    }

    /// The first key in etcd that may be ours.
    pub(super) fn start(&self) -> Bytes {
        self.prefix.clone()
    }

    /// The first key in etcd that is not ours any more.
    pub(super) fn end(&self) -> Bytes {
        self.end.clone()
    }

    /// The hidden key.
    pub(super) fn marker(&self) -> Bytes {
        self.marker.clone()
    }

    /// The key as etcd has it.
    pub(super) fn outer(&self, key: &[u8]) -> Bytes {
        let mut outer = BytesMut::with_capacity(self.prefix.len() + key.len());
        outer.put_slice(&self.prefix);
        outer.put_slice(key);
        outer.freeze()
    }

    /// The key as readers see it; `None` when they do not.
    pub(super) fn inner(&self, outer: &[u8]) -> Option<Key> {
        let inner = outer.strip_prefix(&*self.prefix)?;
        (inner != MARKER && !inner.is_empty()).then(|| inner.into())
    }

    /// A version as readers see it; `None` when they do not.
    pub(super) fn find(&self, kv: &KeyValue) -> Result<Option<Found>, UnsealError> {
        let Some(key) = self.inner(&kv.key) else { return Ok(None) };
        let opened = self.sealer.open(&key, &kv.value)?;
        // Copied, because what was received is a slice of the whole answer and would keep all of it.
        let value = opened.value.map_or_else(|| Bytes::copy_from_slice(&kv.value), Bytes::from);
        let entry = Entry { key, value, revision: revision_from(kv.mod_revision) };
        Ok(Some(Found { entry, is_current: opened.is_current }))
    }

    /// The value as etcd has it.
    pub(super) fn value(&self, key: &[u8], value: &Bytes) -> Bytes {
        match self.sealer.seal(key, value) {
            Cow::Borrowed(_) => value.clone(),
            Cow::Owned(sealed) => sealed.into(),
        }
    }

    /// Refuses to touch the hidden key.
    pub(super) fn check(&self, txn: &Txn) -> Result<(), CommitError> {
        let keys = txn.ops.iter().map(|op| &op.key).chain(txn.checks.iter().map(|(key, _)| key));
        match keys.into_iter().find(|key| ***key == *MARKER) {
            Some(key) => Err(CommitError::BadKey { key: key.clone() }),
            None => Ok(()),
        }
    }
}

/// etcd's revisions are signed but never negative.
pub(super) fn revision_from(number: i64) -> Revision {
    Revision::new(u64::try_from(number).unwrap_or(0))
}

/// The number of a revision that came from etcd.
pub(super) fn number_of(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expect;

    #[test]
    fn the_marker_is_hidden_and_out_of_reach() {
        let keys = Keyspace::new("/registry/", Sealer(None));
        assert_eq!(keys.inner(&keys.outer(b"pods/a")), Some("pods/a".into()));
        assert_eq!(keys.inner(&keys.marker()), None);
        assert_eq!(keys.inner(b"/other/a"), None);
        assert!(keys.start() <= keys.marker() && keys.marker() < keys.end());
        let txn = Txn::new().put(MARKER, "x", Expect::Any);
        assert!(matches!(keys.check(&txn), Err(CommitError::BadKey { .. })));
    }
}
