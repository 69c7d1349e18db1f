//! The strategic merge patch that makes one object of another.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{DELETE, ORDER, PATCH, RETAIN, below};
use crate::{
    object::Object,
    schema::{Node, Strategic},
};

/// The patch that makes `to` of `from`; empty when there is nothing to do.
///
/// What patches cannot say is not in it: `null`s in `to`, and entries of merging lists that cannot be told apart.
pub fn strategic_diff(from: &Object, to: &Object, schema: &Node) -> Object {
    diff_map(from, to, schema)
}

fn diff_map(from: &Object, to: &Object, node: &Node) -> Object {
    let mut patch = Object::new();
    for field in from.keys().filter(|field| !to.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    for (field, new) in to {
        match from.get(field) {
            Some(old) if old == new => {}
            Some(old) => diff_field(field, old, new, node, &mut patch),
            None => drop(patch.insert(field.clone(), new.clone())),
        }
    }
    patch
}

fn diff_field(field: &str, old: &Value, new: &Value, node: &Node, patch: &mut Object) {
    let (node, strategic) = below(node, field);
    match (old, new, strategic) {
        (Value::Object(old), Value::Object(new), _) => {
            let mut map = diff_map(old, new, node);
            if !map.is_empty() {
                if let Strategic::RetainKeys(_) = strategic {
                    retain(&mut map, new);
                }
                patch.insert(field.to_owned(), Value::Object(map));
            }
        }
        (Value::Array(old), Value::Array(new), Strategic::MergeSet) => diff_set(field, old, new, patch),
        (
            Value::Array(old),
            Value::Array(new),
            Strategic::MergeBy(key) | Strategic::RetainKeys(Some(key)),
        ) => {
            let items = node.items().unwrap_or(&Node::Any);
            let retains = matches!(strategic, Strategic::RetainKeys(_));
            match (by_key(old, key), by_key(new, key)) {
                (Some(old), Some(known)) => {
                    let entries = Entries { old, known, key, items, retains };
                    entries.diff(field, new, patch);
                }
                _ => {
                    let replacing = std::iter::once(json!({PATCH: "replace"})).chain(new.iter().cloned());
                    patch.insert(field.to_owned(), replacing.collect());
                }
            }
        }
        (_, new, _) => drop(patch.insert(field.to_owned(), new.clone())),
    }
}

fn retain(patch: &mut Object, new: &Object) {
    patch.insert(RETAIN.to_owned(), new.keys().map(String::as_str).collect());
}

fn diff_set(field: &str, old: &[Value], new: &[Value], patch: &mut Object) {
    let told = |list: &[Value]| -> HashMap<String, ()> {
        list.iter().map(|value| (value.to_string(), ())).collect()
    };
    let (before, after) = (told(old), told(new));
    let lacking = |list: &[Value], known: &HashMap<String, ()>| -> Vec<Value> {
        list.iter().filter(|value| !known.contains_key(&value.to_string())).cloned().collect()
    };
    let (added, gone) = (lacking(new, &before), lacking(old, &after));
    if !gone.is_empty() {
        patch.insert(format!("{DELETE}{field}"), Value::Array(gone));
    }
    if !added.is_empty() {
        patch.insert(field.to_owned(), Value::Array(added));
    }
    patch.insert(format!("{ORDER}{field}"), Value::Array(new.to_vec()));
}

/// The entries of a list by their keys; `None` when they cannot be told apart.
fn by_key<'a>(list: &'a [Value], key: &str) -> Option<HashMap<String, &'a Object>> {
    let mut entries = HashMap::with_capacity(list.len());
    for entry in list {
        let id = entry.get(key).filter(|id| !id.is_null())?;
        if entries.insert(id.to_string(), entry.as_object()?).is_some() {
            return None;
        }
    }
    Some(entries)
}

/// Two lists whose entries are told by a key.
struct Entries<'a> {
    old: HashMap<String, &'a Object>,
    known: HashMap<String, &'a Object>,
    key: &'a str,
    items: &'a Node,
    retains: bool,
}

impl Entries<'_> {
    fn diff(&self, field: &str, new: &[Value], patch: &mut Object) {
        let mut entries: Vec<Value> =
            new.iter().filter_map(Value::as_object).filter_map(|new| self.entry(new)).collect();
        let gone = self.old.iter().filter(|(id, _)| !self.known.contains_key(*id));
        let mut gone: Vec<&Value> = gone.filter_map(|(_, entry)| entry.get(self.key)).collect();
        gone.sort_by_key(|id| id.to_string());
        entries.extend(gone.into_iter().map(|id| json!({PATCH: "delete", self.key: id})));
        if !entries.is_empty() {
            patch.insert(field.to_owned(), Value::Array(entries));
        }
        let order = new.iter().filter_map(|entry| Some(json!({self.key: entry.get(self.key)?})));
        patch.insert(format!("{ORDER}{field}"), order.collect());
    }

    /// What a patch says about an entry of the new list; `None` when it is as it was.
    fn entry(&self, new: &Object) -> Option<Value> {
        let id = new.get(self.key)?;
        let Some(old) = self.old.get(&id.to_string()) else { return Some(Value::Object(new.clone())) };
        let mut entry = diff_map(old, new, self.items);
        if entry.is_empty() {
            return None;
        }
        entry.insert(self.key.to_owned(), id.clone());
        if self.retains {
            retain(&mut entry, new);
        }
        Some(Value::Object(entry))
    }
}
