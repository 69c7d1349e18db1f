//! What of an object was there before: the same field, the same key, the element of the same key.

use std::{cell::Cell, collections::HashMap};

use serde_json::Value;

use crate::{types::ListKind, value::identity};

/// The elements of a list as it was, by their keys. Lists without keys have none that could be found again.
pub(super) struct OldItems<'d> {
    by_identity: HashMap<String, &'d Value>,
    kind: ListKind,
}

impl<'d> OldItems<'d> {
    pub(super) fn new(old: Option<&'d Value>, kind: &ListKind) -> Self {
        let mut by_identity = HashMap::new();
        if matches!(kind, ListKind::Map(_)) {
            for item in old.and_then(Value::as_array).into_iter().flatten() {
                by_identity.insert(identity(item, kind), item);
            }
        }
        OldItems { by_identity, kind: kind.clone() }
    }

    pub(super) fn get(&self, item: &Value) -> Option<&'d Value> {
        if self.by_identity.is_empty() {
            return None;
        }
        self.by_identity.get(&identity(item, &self.kind)).copied()
    }
}

/// A part of the object and the same part as it was. What cannot be found again counts as unchanged when the
/// part around it is.
pub(super) struct Correlation<'p, 'd> {
    new: &'d Value,
    old: Option<&'d Value>,
    parent: Option<&'p Correlation<'p, 'd>>,
    equal: Cell<Option<bool>>,
}

impl<'p, 'd> Correlation<'p, 'd> {
    pub(super) fn root(new: &'d Value, old: Option<&'d Value>) -> Self {
        Correlation { new, old, parent: None, equal: Cell::new(None) }
    }

    /// A part that always counts as changed.
    pub(super) fn none(new: &'d Value) -> Self {
        Correlation::root(new, None)
    }

    pub(super) fn key(&'p self, name: &str, new: &'d Value) -> Correlation<'p, 'd> {
        let old = self.old.and_then(|old| old.get(name));
        Correlation { new, old, parent: Some(self), equal: Cell::new(None) }
    }

    pub(super) fn items(&self, kind: &ListKind) -> OldItems<'d> {
        OldItems::new(self.old, kind)
    }

    pub(super) fn item(&'p self, new: &'d Value, old: Option<&'d Value>) -> Correlation<'p, 'd> {
        Correlation { new, old, parent: Some(self), equal: Cell::new(None) }
    }

    /// Whether the part is as it was. This is looked up once.
    pub(super) fn unchanged(&self) -> bool {
        match (self.old, self.parent) {
            (Some(old), _) => self.equal.get().unwrap_or_else(|| {
                let equal = *self.new == *old;
                self.equal.set(Some(equal));
                equal
            }),
            (None, Some(parent)) => parent.unchanged(),
            (None, None) => false,
        }
    }
}
