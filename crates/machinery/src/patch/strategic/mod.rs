//! Strategic merge patches: merge patches that know which lists are merged, and by what.
//!
//! Directives (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`) say what a plain merge cannot; they are obeyed at every level, also where the
//! object has nothing yet, and never come through into the result. Where the schema says nothing, maps are
//! merged and lists replaced.

mod diff;
mod list;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::Value;

pub use self::diff::strategic_diff;
use super::{DEPTH, PatchError, short};
use crate::{
    object::{Object, child_mut},
    schema::{Node, Strategic},
};

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

/// Merges a strategic merge patch into an object. When it fails, `target` is left half merged.
pub fn strategic_merge(target: &mut Object, patch: &Object, schema: &Node) -> Result<(), PatchError> {
    merge_map(target, patch, schema, 1)
}

fn merge_map(target: &mut Object, patch: &Object, node: &Node, depth: usize) -> Result<(), PatchError> {
    if depth > DEPTH {
        return Err(PatchError::Malformed(format!("the patch nests more than {DEPTH} levels")));
    }
    match directive(patch)? {
        Some(What::Replace) => target.clear(),
        Some(What::Delete) => {
            target.clear();
            return Ok(());
        }
        Some(What::Merge) | None => {}
    }
    retain_keys(target, patch)?;
    for (field, value) in patch {
        if !field.starts_with('$') || node.field(field).is_some() {
            merge_field(target, field, value, patch, node, depth)?;
        } else if let Some(list) = field.strip_prefix(DELETE) {
            delete_scalars(target, list, value)?;
        } else if let Some(list) = field.strip_prefix(ORDER) {
            if !patch.get(list).is_some_and(Value::is_array) {
                reorder(target, list, value, node)?;
            }
        } else if field != PATCH && field != RETAIN {
            // Free maps may have such keys.
            if let Node::Object(_) = node.resolve() {
                return Err(PatchError::Directive(format!("unknown directive {:?} in patch", short(field))));
            }
            merge_field(target, field, value, patch, node, depth)?;
        }
    }
    Ok(())
}

fn merge_field(
    target: &mut Object,
    field: &str,
    value: &Value,
    patch: &Object,
    node: &Node,
    depth: usize,
) -> Result<(), PatchError> {
    let (node, strategic) = below(node, field);
    match value {
        Value::Null => drop(target.remove(field)),
        Value::Object(map) => {
            let present = target.get(field).is_some_and(Value::is_object);
            if present || directive(map)? != Some(What::Delete) {
                merge_map(child_mut(target, field), map, node, depth + 1)?;
            }
        }
        Value::Array(entries) => {
            let old = match target.get_mut(field) {
                Some(Value::Array(old)) => std::mem::take(old),
                _ => vec![],
            };
            let order = patch.get(&format!("{ORDER}{field}")).map(order_list).transpose()?;
            let items = node.items().unwrap_or(&Node::Any);
            let merged = list::merge(old, entries, order, strategic, items, depth + 1)?;
            target.insert(field.to_owned(), Value::Array(merged));
        }
        scalar => drop(target.insert(field.to_owned(), scalar.clone())),
    }
    Ok(())
}

/// What is known about what is below a field.
fn below<'a>(node: &'a Node, field: &str) -> (&'a Node, Strategic) {
    match (node.field(field), node.resolve()) {
        (Some(field), _) => (&field.node, field.merge.strategic),
        (None, Node::Map(items)) => (items, Strategic::Replace),
        _ => (&Node::Any, Strategic::Replace),
    }
}

/// What `$patch` says is to be done with a map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Object) -> Result<Option<What>, PatchError> {
    let Some(what) = patch.get(PATCH) else { return Ok(None) };
    match what.as_str() {
        Some("merge") => Ok(Some(What::Merge)),
        Some("replace") => Ok(Some(What::Replace)),
        Some("delete") => Ok(Some(What::Delete)),
        _ => {
            let message = format!("unknown patch type: {} in map: {}", shown(what), shown_map(patch));
            Err(PatchError::Directive(message))
        }
    }
}

/// Drops the fields that `$retainKeys` does not name.
fn retain_keys(target: &mut Object, patch: &Object) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN) else { return Ok(()) };
    let bad = || PatchError::Directive("invalid patch format of retainKeys".to_owned());
    let keys: Option<HashSet<&str>> = keys.as_array().ok_or_else(bad)?.iter().map(Value::as_str).collect();
    let keys = keys.ok_or_else(bad)?;
    let sets = |field: &str, value: &Value| !value.is_null() && !field.starts_with('$');
    if patch.iter().any(|(field, value)| sets(field, value) && !keys.contains(field.as_str())) {
        return Err(bad());
    }
    target.retain(|field, _| keys.contains(field.as_str()));
    Ok(())
}

fn delete_scalars(target: &mut Object, list: &str, gone: &Value) -> Result<(), PatchError> {
    let Value::Array(gone) = gone else {
        return Err(PatchError::Directive("invalid patch format of primitive list".to_owned()));
    };
    if let Some(Value::Array(entries)) = target.get_mut(list) {
        let gone: HashSet<String> = gone.iter().map(Value::to_string).collect();
        entries.retain(|entry| !gone.contains(&entry.to_string()));
    }
    Ok(())
}

/// Obeys `$setElementOrder/…` for a list that the patch does not change otherwise.
fn reorder(target: &mut Object, list: &str, order: &Value, node: &Node) -> Result<(), PatchError> {
    let order = order_list(order)?;
    let (_, strategic) = below(node, list);
    if let Some(Value::Array(entries)) = target.get_mut(list) {
        *entries = list::reorder(std::mem::take(entries), order, strategic)?;
    }
    Ok(())
}

fn order_list(order: &Value) -> Result<&[Value], PatchError> {
    let order = order.as_array().map(Vec::as_slice);
    order.ok_or_else(|| PatchError::Directive("invalid patch format of setElementOrder list".to_owned()))
}

/// A value as Kubernetes' messages show it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => short(text).to_owned(),
        Value::Object(map) => shown_map(map),
        Value::Array(list) => {
            let list: Vec<String> = list.iter().take(20).map(shown).collect();
            format!("[{}]", short(&list.join(" ")))
        }
        other => other.to_string(),
    }
}

fn shown_map(map: &Object) -> String {
    let fields: Vec<String> =
        map.iter().take(20).map(|(field, value)| format!("{}:{}", short(field), shown(value))).collect();
    format!("map[{}]", short(&fields.join(" ")))
}
