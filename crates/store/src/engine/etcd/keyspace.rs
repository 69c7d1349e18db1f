//! Where our keys lie in etcd: behind a prefix, beside one key of our own that no reader sees.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{CommitError, Entry, Key, Revision, Txn, engine::etcd::wire::KeyValue, key::prefix_end};

/// The key whose writes prove that a watch has caught up. It sorts before everything that has a name.
const MARKER: &[u8] = b"\0windlass/barrier";

/// The prefix and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    prefix: Bytes,
    end: Bytes,
    marker: Bytes,
}

impl Keyspace {
    /// The keys behind `prefix`, which ends with `/`.
    pub(super) fn new(prefix: &str) -> Self {
        let end = prefix_end(prefix.as_bytes()).expect("a slash is not the last byte there is");
        let marker = [prefix.as_bytes(), MARKER].concat();
        Keyspace { prefix: Bytes::copy_from_slice(prefix.as_bytes()), end: end.into(), marker: marker.into() }
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

    /// A version as readers see it.
    pub(super) fn entry(&self, kv: &KeyValue) -> Option<Entry> {
        // Copied, because what was received is a slice of the whole answer and would keep all of it.
        let value = Bytes::copy_from_slice(&kv.value);
        Some(Entry { key: self.inner(&kv.key)?, value, revision: revision_from(kv.mod_revision) })
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
        let keys = Keyspace::new("/registry/");
        assert_eq!(keys.inner(&keys.outer(b"pods/a")), Some("pods/a".into()));
        assert_eq!(keys.inner(&keys.marker()), None);
        assert_eq!(keys.inner(b"/other/a"), None);
        assert!(keys.start() <= keys.marker() && keys.marker() < keys.end());
        let txn = Txn::new().put(MARKER, "x", Expect::Any);
        assert!(matches!(keys.check(&txn), Err(CommitError::BadKey { .. })));
    }
}
