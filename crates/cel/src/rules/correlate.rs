//! What of an object was there before: the same field, the same key, the element of the same key.

use std::{cell::Cell, collections::HashMap};

use serde_json::Value;

use crate::{types::ListKind, value::identity};

/// A part of the object, and the same part as it was where that can be told.
///
/// What cannot be found again counts as unchanged when the part around it is.
pub(super) struct Correlation<'p, 'd> {
    pub(super) new: &'d Value,
    /// Null is as good as absent.
    pub(super) old: Option<&'d Value>,
    parent: Option<&'p Correlation<'p, 'd>>,
    equal: Cell<Option<bool>>,
}

impl<'p, 'd> Correlation<'p, 'd> {
    pub(super) fn root(new: &'d Value, old: Option<&'d Value>) -> Self {
        Correlation { new, old, parent: None, equal: Cell::new(None) }
    }

    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    fn below(&'p self, new: &'d Value, old: Option<&'d Value>) -> Correlation<'p, 'd> {
        let old = old.filter(|old| !old.is_null());
        Correlation { new, old, parent: Some(self), equal: Cell::new(None) }
    }

    /// The value of a field or key.
    pub(super) fn key(&'p self, name: &str, new: &'d Value) -> Correlation<'p, 'd> {
        self.part(name, new, self.old.and_then(|old| old.get(name)))
    }

    /// The same, where it is known what it was.
    pub(super) fn part(&'p self, name: &str, new: &'d Value, old: Option<&'d Value>) -> Correlation<'p, 'd> {
        let below = self.below(new, old);
        // The version of both objects is the same by now, so a change of it cannot be seen.
        if self.is_root() && matches!(name, "apiVersion" | "kind") {
            below.equal.set(Some(false));
        }
        below
    }

    /// The elements of a list. Those of lists without keys cannot be found again.
    pub(super) fn items(&'p self, kind: &ListKind) -> Vec<Correlation<'p, 'd>> {
        let mut by_identity = HashMap::new();
        if matches!(kind, ListKind::Map(_)) {
            for item in self.old.and_then(Value::as_array).into_iter().flatten() {
                by_identity.insert(identity(item, kind), item);
            }
        }
        let old = |item: &Value| match by_identity.is_empty() {
            true => None,
            false => by_identity.get(&identity(item, kind)).copied(),
        };
        let items = self.new.as_array().into_iter().flatten();
        items.map(|item| self.below(item, old(item))).collect()
    }

    /// Whether the part is as it was. This is looked up once.
    pub(super) fn unchanged(&self) -> bool {
        match (self.equal.get(), self.old, self.parent) {
            (Some(equal), ..) => equal,
            (None, Some(old), _) => {
                let equal = *self.new == *old;
                self.equal.set(Some(equal));
                equal
            }
            (None, None, Some(parent)) => parent.unchanged(),
            (None, None, None) => false,
        }
    }
}
