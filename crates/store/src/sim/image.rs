//! What is on a disk at rest: names and bytes, all of it durable.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// The files of a disk that nobody is using. Copies share the bytes of files until one of them changes, so
/// images that differ in one file cost that file.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pub(super) files: BTreeMap<String, Arc<Vec<u8>>>,
}

impl Image {
    /// The bytes of a file, if there is one of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(|bytes| bytes.as_slice())
    }

    /// All files in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// The bytes of a file that must be there, to be changed.
    pub(super) fn bytes_mut(&mut self, name: &str) -> &mut Vec<u8> {
        Arc::make_mut(self.files.get_mut(name).expect("the image has a file of that name"))
    }
}

impl<N: Into<String>, B: Into<Arc<Vec<u8>>>> FromIterator<(N, B)> for Image {
    fn from_iter<I: IntoIterator<Item = (N, B)>>(files: I) -> Self {
        Image { files: files.into_iter().map(|(name, bytes)| (name.into(), bytes.into())).collect() }
    }
}

/// Names and lengths: the bytes of a whole disk would drown a failed test's message.
impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, bytes)| (name, bytes.len()))).finish()
    }
}
