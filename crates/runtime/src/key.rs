//! The name of an object of a kind: its namespace and its name.

use std::{fmt, str::FromStr, sync::Arc};

use kube::{Resource, ResourceExt};

/// The name of an object. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>, u32);

impl Key {
    /// An object in a namespace; an empty one is none.
    pub fn new(namespace: &str, name: &str) -> Self {
        Key(format!("{namespace}/{name}").into(), namespace.len() as u32)
    }

    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        Key::new(object.meta().namespace.as_deref().unwrap_or_default(), &object.name_any())
    }

    /// The namespace; empty for what is in none.
    pub fn namespace(&self) -> &str {
        &self.0[..self.1 as usize]
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0[self.1 as usize + 1..]
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.strip_prefix('/').unwrap_or(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// It is not the name of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected NAMESPACE/NAME or NAME, found {0:?}")]
pub struct KeyError(String);

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        match name.is_empty() || name.contains('/') {
            true => Err(KeyError(text.to_owned())),
            false => Ok(Key::new(namespace, name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_kubernetes_writes_them() {
        for (text, namespace, name) in [("a/b", "a", "b"), ("b", "", "b")] {
            let key: Key = text.parse().expect("a key");
            assert_eq!((key.namespace(), key.name(), &*key.to_string()), (namespace, name, text));
            assert_eq!(key, Key::new(namespace, name));
        }
        for wrong in ["", "a/", "a/b/c"] {
            assert!(wrong.parse::<Key>().is_err(), "{wrong}");
        }
    }
}
