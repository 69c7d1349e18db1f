//! Objects that expressions make: `Object.spec{replicas: 3}`, `JSONPatch{op: 'remove', path: '/a'}`.

use std::sync::Arc;

use super::{List, Map, Value};

/// How deep an object is looked at; what is made by one expression is never deeper.
const MOST_DEPTH: u32 = 200;

/// An object that an expression made.
#[derive(Debug)]
pub struct Object<'a> {
    /// The name of its type.
    pub name: Arc<str>,
    /// Its fields, sorted by name.
    pub fields: Vec<(Arc<str>, Value<'a>)>,
}

impl<'a> Object<'a> {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        let at = self.fields.binary_search_by(|(field, _)| (**field).cmp(name)).ok()?;
        Some(&self.fields[at].1)
    }

    /// Objects below whose type is not named after the place they stand at, such as an `Object.metadata` that
    /// is given as the `spec` of an `Object`. What is said of each is for who wrote the expression.
    pub fn misnamed(&self) -> Vec<String> {
        let mut found = vec![];
        for (field, value) in &self.fields {
            misnamed(value, &format!("{}.{field}", self.name), 0, &mut found);
        }
        found
    }
}

fn misnamed(value: &Value<'_>, expected: &str, depth: u32, found: &mut Vec<String>) {
    if depth > MOST_DEPTH {
        return;
    }
    match value {
        Value::Object(object) => {
            if *object.name != *expected {
                let name = &object.name;
                let which = "which matches field name path from root Object type";
                found.push(format!("unexpected type name {name:?}, expected {expected:?}, {which}"));
            }
            for (field, value) in &object.fields {
                misnamed(value, &format!("{expected}.{field}"), depth + 1, found);
            }
        }
        // Lists and maps have no names.
        Value::List(List::Shared(items)) => {
            items.iter().for_each(|item| misnamed(item, expected, depth + 1, found));
        }
        Value::Map(Map::Shared(entries)) => {
            entries.iter().for_each(|(_, value)| misnamed(value, expected, depth + 1, found));
        }
        _ => {}
    }
}
