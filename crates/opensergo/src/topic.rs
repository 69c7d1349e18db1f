//! What a client subscribes to: the rules of one kind of one app.

use std::{fmt, sync::Arc};

use crate::kinds::{KINDS, Kind};

/// A kind, by its place in [`KINDS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(u8);

impl KindId {
    /// All of them.
    pub fn all() -> impl Iterator<Item = KindId> {
        (0..KINDS.len()).map(|idx| KindId(idx as u8))
    }

    /// The kind that clients call so.
    pub fn find(id: &str) -> Option<KindId> {
        KindId::all().find(|kind| kind.kind().id() == id)
    }

    /// Its place.
    pub fn idx(self) -> usize {
        usize::from(self.0)
    }

    /// Its row.
    pub fn kind(self) -> &'static Kind {
        &KINDS[self.idx()]
    }
}

impl fmt::Debug for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().kind)
    }
}

/// The longest namespace or label.
const MOST_LABEL: usize = 63;
/// What the name of an app is like, in words.
pub(crate) const NAME_OF_APP: &str = "1 to 63 letters, digits, '-', '_' and '.'";

/// An app: what objects of a namespace have in common whose label `app` is the same. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct App {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The label.
    pub name: Arc<str>,
}

impl App {
    /// An app of a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        App { namespace: namespace.into(), name: name.into() }
    }

    /// Whether this may be the name of an app, or of a namespace: others nobody can ask for.
    pub(crate) fn is_name(text: &str) -> bool {
        let is_of_label = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
        !text.is_empty() && text.len() <= MOST_LABEL && text.bytes().all(is_of_label)
    }
}

impl fmt::Display for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The rules of one kind of an app.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic {
    /// The app.
    pub app: App,
    /// The kind.
    pub kind: KindId,
}
