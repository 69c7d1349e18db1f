//! Filling in what an object does not say.

use serde_json::Value;

use super::{Overgrown, Shape, compact::value_size};
use crate::object::Object;

/// Puts defaults into a value, as long as there is room for them.
pub(super) struct Filling {
    /// How many bytes of defaults may yet be put in.
    pub(super) room: usize,
}

impl Filling {
    pub(super) fn value(&mut self, shape: Shape<'_>, value: &mut Value) -> Result<(), Overgrown> {
        match value {
            Value::Object(map) => self.map(shape, map),
            Value::Array(list) => {
                let Some(items) = shape.items() else { return Ok(()) };
                for entry in list {
                    if lacks(items, entry)
                        && let Some(default) = items.default()
                    {
                        *entry = self.copy(default)?;
                    }
                    self.value(items, entry)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn map(&mut self, shape: Shape<'_>, map: &mut Object) -> Result<(), Overgrown> {
        for (name, field) in shape.fields() {
            if let Some(default) = field.default()
                && map.get(name).is_none_or(|value| lacks(field, value))
            {
                map.insert(name.to_owned(), self.copy(default)?);
            }
        }
        let is_open = |value: &Value| matches!(value, Value::Null | Value::Array(_) | Value::Object(_));
        for (key, value) in map.iter_mut().filter(|(_, value)| is_open(value)) {
            let Some(child) = shape.child(key) else { continue };
            if lacks(child, value)
                && let Some(default) = child.default()
            {
                *value = self.copy(default)?;
            }
            self.value(child, value)?;
        }
        Ok(())
    }

    fn copy(&mut self, default: &Value) -> Result<Value, Overgrown> {
        self.room = self.room.checked_sub(value_size(default)).ok_or(Overgrown)?;
        Ok(default.clone())
    }
}

/// Drops `null` from maps where it is not allowed and there is no default to take its place.
pub(super) fn drop_nulls(shape: Shape<'_>, map: &mut Object) {
    map.retain(|key, value| {
        let Some(child) = shape.child(key) else { return true };
        drop_nulls_in(child, value);
        !lacks(child, value) || child.default().is_some()
    });
}

fn drop_nulls_in(shape: Shape<'_>, value: &mut Value) {
    match value {
        Value::Object(map) => drop_nulls(shape, map),
        Value::Array(list) => {
            let Some(items) = shape.items() else { return };
            list.iter_mut().for_each(|entry| drop_nulls_in(items, entry));
        }
        _ => {}
    }
}

/// Whether something else than `null` belongs here.
fn lacks(shape: Shape<'_>, value: &Value) -> bool {
    value.is_null() && !shape.is_nullable()
}
