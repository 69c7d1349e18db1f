//! Who has which roles, as the store has it now.
//!
//! The index follows the store by its revision: whoever asks brings it up to what this server has seen, by the changes
//! since. So a binding holds for the next request after its write was answered, and a server that shares the store hears
//! of it as soon as of everything else. Nobody has to be told, and a question costs no look at bindings of others.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use parking_lot::Mutex;
use windlass_access::{
    Attributes, User,
    rbac::{Binding, Grant, Index, Role},
};
use windlass_machinery::stored::Stored;
use windlass_store::{Entry, Read, Revision, Snapshot, Store};

/// Where roles and bindings are in the store, and whether they are bindings.
const PREFIXES: [(&str, bool); 4] =
    [("roles/", false), ("clusterroles/", false), ("rolebindings/", true), ("clusterrolebindings/", true)];

/// Who has which roles.
pub(crate) struct Rights {
    store: Arc<dyn Store>,
    kept: ArcSwap<Kept>,
    /// Held by whoever brings the index up to date.
    updating: Mutex<()>,
}

/// The index as of a revision.
struct Kept {
    index: Index,
    revision: Revision,
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rights")
    }
}

impl Rights {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        let kept = Kept { index: Index::default(), revision: Revision::new(0) };
        Arc::new(Rights { store, kept: ArcSwap::from_pointee(kept), updating: Mutex::new(()) })
    }

    /// Whether a user may do this, and why.
    pub(crate) fn grant(&self, user: &User, attributes: &Attributes<'_>) -> Option<Grant> {
        self.index().authorize(user, attributes)
    }

    /// Whether a user may do this.
    pub(crate) fn allow(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        self.grant(user, attributes).is_some()
    }

    /// The index as of all that this server has seen. When the store has stopped, it is what it was.
    pub(crate) fn index(&self) -> Index {
        let kept = self.kept.load();
        if self.store.window().head == kept.revision {
            return kept.index.clone();
        }
        let _updating = self.updating.lock();
        let kept = self.kept.load();
        match self.brought_up(&kept) {
            Some(newer) => {
                let index = newer.index.clone();
                self.kept.store(Arc::new(newer));
                index
            }
            None => kept.index.clone(),
        }
    }

    fn brought_up(&self, kept: &Kept) -> Option<Kept> {
        let snapshot = |read: Read| self.store.snapshot(read).now_or_never();
        let now = snapshot(Read::Seen)?.ok()?;
        if now.revision() <= kept.revision {
            return None;
        }
        let then = snapshot(Read::At(kept.revision)).filter(|_| kept.revision.get() > 0);
        // What is no longer in the window is read as a whole.
        let Some(Ok(then)) = then else {
            return Some(Kept { index: read_all(&now), revision: now.revision() });
        };
        let mut newer = Kept { index: kept.index.clone(), revision: now.revision() };
        for change in then.changes() {
            newer.revision = newer.revision.max(change.revision);
            take(&mut newer.index, &change.key, change.current.as_deref());
        }
        Some(newer)
    }
}

fn read_all(snapshot: &Snapshot) -> Index {
    let mut index = Index::default();
    for (prefix, _) in PREFIXES {
        for entry in snapshot.iter(prefix.as_bytes(), None) {
            take(&mut index, &entry.key, Some(entry));
        }
    }
    index
}

/// Takes up what has become of a key, if it is that of a role or a binding.
fn take(index: &mut Index, key: &[u8], entry: Option<&Entry>) {
    let place = PREFIXES.iter().find_map(|(prefix, is_binding)| {
        let rest = key.strip_prefix(prefix.as_bytes())?;
        Some((std::str::from_utf8(rest).ok()?, *is_binding))
    });
    let Some((rest, is_binding)) = place else { return };
    let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
    let object = entry.and_then(|entry| Stored::new(&entry.value)?.object(entry.revision.get()));
    match (is_binding, object) {
        (true, Some(object)) => index.put_binding(Binding::from_object(&object)),
        (true, None) => index.remove_binding(namespace, name),
        (false, Some(object)) => index.put_role(Role::from_object(&object)),
        (false, None) => index.remove_role(namespace, name),
    }
}
