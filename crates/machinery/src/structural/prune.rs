//! Dropping what a schema does not specify.

use serde_json::Value;

use super::{Shape, embedded, openapi::META, place::Place};
use crate::{field::Errors, object::Object};

/// Most places that are told.
const TOLD_MOST: usize = 100;

/// A walk that prunes.
pub(super) struct Pruning<'e> {
    unknown: Vec<String>,
    /// Who is told about malformed metadata; it is dropped if nobody is.
    errors: Option<&'e mut Errors>,
}

impl<'e> Pruning<'e> {
    pub(super) fn new(errors: Option<&'e mut Errors>) -> Self {
        Pruning { unknown: vec![], errors }
    }

    pub(super) fn finish(self) -> Vec<String> {
        self.unknown
    }

    /// Prunes a value. `keep` is whether its own unknown fields are kept because of the list around it.
    pub(super) fn value(&mut self, shape: Shape<'_>, value: &mut Value, keep: bool, place: &Place<'_>) {
        match value {
            Value::Object(map) => self.map(shape, map, false, keep, place),
            Value::Array(list) => {
                let keep = keep || shape.preserves_unknown();
                // Without items this is no list, which is for validation to say.
                let Some(items) = shape.items() else { return };
                for (index, entry) in list.iter_mut().enumerate() {
                    self.value(items, entry, keep, &place.index(index));
                }
            }
            _ => {}
        }
    }

    pub(super) fn map(
        &mut self,
        shape: Shape<'_>,
        map: &mut Object,
        is_root: bool,
        keep: bool,
        place: &Place<'_>,
    ) {
        if shape.is_embedded() && !is_root {
            embedded::coerce(map, place, self.errors.as_deref_mut(), &mut self.unknown);
        }
        let is_resource = is_root || shape.is_embedded();
        let keep = keep || shape.preserves_unknown() || shape.is_open();
        map.retain(|key, value| {
            if is_resource && META.contains(&key.as_str()) {
                return true;
            }
            match shape.child(key) {
                Some(child) => self.value(child, value, false, &place.field(key)),
                None if keep => {}
                None => {
                    self.tell(&place.field(key));
                    return false;
                }
            }
            true
        });
        self.unknown.truncate(TOLD_MOST);
    }

    fn tell(&mut self, place: &Place<'_>) {
        if self.unknown.len() < TOLD_MOST {
            self.unknown.push(place.to_string());
        }
    }
}
