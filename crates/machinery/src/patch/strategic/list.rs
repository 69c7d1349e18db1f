//! Lists in strategic merge patches: merged by key, merged as a set, or replaced; and put in order.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{What, directive, merge_map, shown, shown_map};
use crate::{
    object::Object,
    patch::{DEPTH, PatchError},
    schema::{Node, Strategic},
};

/// Merges the entries of a patch into a list. `order` is what `$setElementOrder` asks for.
pub(super) fn merge(
    old: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    strategic: Strategic,
    items: &Node,
    depth: usize,
) -> Result<Vec<Value>, PatchError> {
    match strategic {
        Strategic::MergeBy(key) | Strategic::RetainKeys(Some(key)) => {
            merge_keyed(old, patch, order, key, items, depth)
        }
        Strategic::MergeSet => merge_set(old, patch, order),
        Strategic::Replace | Strategic::RetainKeys(None) => {
            let fresh = replace(patch, items, depth)?;
            match order {
                Some(order) => reorder(fresh, order, strategic),
                None => Ok(fresh),
            }
        }
    }
}

/// Puts a list in order that is not changed otherwise.
pub(super) fn reorder(
    old: Vec<Value>,
    order: &[Value],
    strategic: Strategic,
) -> Result<Vec<Value>, PatchError> {
    let told = match strategic {
        Strategic::MergeBy(key) | Strategic::RetainKeys(Some(key)) => Told::By(key),
        _ => Told::Whole,
    };
    let live = told.positions(&old, false)?;
    Ok(arrange(old, &told.positions(order, true)?, &live, told))
}

fn merge_keyed(
    mut old: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    key: &str,
    items: &Node,
    depth: usize,
) -> Result<Vec<Value>, PatchError> {
    let told = Told::By(key);
    let Sorted { merged: entries, deleted, replace } = sort_out(patch, key)?;
    if replace {
        old.clear();
    }
    if !deleted.is_empty() {
        old.retain(|entry| told.by(entry).is_none_or(|id| !deleted.contains(&id)));
    }
    let live = told.positions(&old, false)?;
    let mut places = live.clone();
    let mut named = HashMap::with_capacity(entries.len());
    for entry in &entries {
        let id = told.by_map(entry).ok_or_else(|| told.untold(entry))?;
        let next = named.len();
        named.entry(id.clone()).or_insert(next);
        let place = *places.entry(id).or_insert(old.len());
        if place == old.len() {
            old.push(Value::Object(Object::new()));
        }
        if let Some(Value::Object(target)) = old.get_mut(place) {
            merge_map(target, entry, items, depth + 1)?;
        }
    }
    match order {
        None => Ok(arrange(old, &named, &live, told)),
        Some(order) => {
            let wanted = told.positions(order, true)?;
            let ids = entries.iter().filter_map(|entry| told.by_map(entry));
            follows(ids, &wanted, patch, order)?;
            Ok(arrange(old, &wanted, &live, told))
        }
    }
}

/// The entries of a patch, by what is to be done with them.
struct Sorted<'a> {
    merged: Vec<&'a Object>,
    deleted: HashSet<String>,
    replace: bool,
}

fn sort_out<'a>(patch: &'a [Value], key: &str) -> Result<Sorted<'a>, PatchError> {
    let mut sorted =
        Sorted { merged: Vec::with_capacity(patch.len()), deleted: HashSet::new(), replace: false };
    for entry in patch {
        let Value::Object(entry) = entry else {
            let message = format!("list entry {} is not a map with the merge key: {key}", shown(entry));
            return Err(PatchError::Inapplicable(message));
        };
        match directive(entry)? {
            None | Some(What::Merge) => sorted.merged.push(entry),
            // It stands for the whole list, and for no entry of it.
            Some(What::Replace) => sorted.replace = true,
            Some(What::Delete) => {
                let told = Told::By(key);
                let id = told.by_map(entry).ok_or_else(|| told.untold(entry))?;
                sorted.deleted.insert(id);
            }
        }
    }
    Ok(sorted)
}

fn merge_set(
    mut old: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
) -> Result<Vec<Value>, PatchError> {
    if patch.iter().any(|entry| entry.is_object() || entry.is_array() || entry.is_null()) {
        return Err(PatchError::Directive("invalid patch format of primitive list".to_owned()));
    }
    let told = Told::Whole;
    let live = told.positions(&old, false)?;
    let named = told.positions(patch, true)?;
    old.extend(patch.iter().cloned());
    let mut seen = HashSet::new();
    old.retain(|entry| seen.insert(entry.to_string()));
    match order {
        None => Ok(arrange(old, &named, &live, told)),
        Some(order) => {
            let wanted = told.positions(order, true)?;
            follows(patch.iter().map(Value::to_string), &wanted, patch, order)?;
            Ok(arrange(old, &wanted, &live, told))
        }
    }
}

/// A list that replaces another, without directives.
fn replace(patch: &[Value], items: &Node, depth: usize) -> Result<Vec<Value>, PatchError> {
    if depth > DEPTH {
        return Err(PatchError::Malformed(format!("the patch nests more than {DEPTH} levels")));
    }
    let mut fresh = Vec::with_capacity(patch.len());
    for entry in patch {
        match entry {
            Value::Object(entry) => {
                if matches!(directive(entry)?, None | Some(What::Merge)) {
                    let mut map = Object::new();
                    merge_map(&mut map, entry, items, depth + 1)?;
                    fresh.push(Value::Object(map));
                }
            }
            Value::Array(list) => {
                let items = items.items().unwrap_or(&Node::Any);
                fresh.push(Value::Array(replace(list, items, depth + 1)?));
            }
            scalar => fresh.push(scalar.clone()),
        }
    }
    Ok(fresh)
}

/// What tells the entries of a list apart.
#[derive(Clone, Copy)]
enum Told<'a> {
    /// This field.
    By(&'a str),
    /// Everything about them.
    Whole,
}

impl Told<'_> {
    fn by(self, entry: &Value) -> Option<String> {
        match self {
            Told::By(_) => self.by_map(entry.as_object()?),
            Told::Whole => Some(entry.to_string()),
        }
    }

    fn by_map(self, entry: &Object) -> Option<String> {
        let Told::By(key) = self else { return None };
        entry.get(key).filter(|value| !value.is_null()).map(Value::to_string)
    }

    /// The first place of every entry. With `strict`, all entries must be told apart.
    fn positions(self, entries: &[Value], strict: bool) -> Result<HashMap<String, usize>, PatchError> {
        let mut positions = HashMap::with_capacity(entries.len());
        for (place, entry) in entries.iter().enumerate() {
            match (self.by(entry), entry) {
                (Some(id), _) => drop(positions.entry(id).or_insert(place)),
                (None, Value::Object(entry)) if strict => return Err(self.untold(entry)),
                (None, _) if strict => {
                    let message = "invalid patch format of setElementOrder list".to_owned();
                    return Err(PatchError::Directive(message));
                }
                (None, _) => {}
            }
        }
        Ok(positions)
    }

    fn untold(self, entry: &Object) -> PatchError {
        let key = if let Told::By(key) = self { key } else { "" };
        let message = format!("map: {} does not contain declared merge key: {key}", shown_map(entry));
        PatchError::Inapplicable(message)
    }
}

/// Checks that the entries of a patch come in the order that the patch itself asks for.
fn follows(
    ids: impl Iterator<Item = String>,
    wanted: &HashMap<String, usize>,
    patch: &[Value],
    order: &[Value],
) -> Result<(), PatchError> {
    let mut last = None;
    for id in ids {
        let place = wanted.get(&id).copied();
        if place.is_none() || place < last {
            let list = |list: &[Value]| shown(&Value::Array(list.iter().take(20).cloned().collect()));
            let message = format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                list(patch),
                list(order)
            );
            return Err(PatchError::Directive(message));
        }
        last = place;
    }
    Ok(())
}

/// Puts the entries in order: those that are `wanted` in that order, the others where they were `live`, as far
/// as both can be had. An entry that is only wanted comes as early as it can.
fn arrange(
    entries: Vec<Value>,
    wanted: &HashMap<String, usize>,
    live: &HashMap<String, usize>,
    told: Told<'_>,
) -> Vec<Value> {
    let mut ours = Vec::with_capacity(entries.len());
    let mut others = Vec::with_capacity(entries.len());
    for entry in entries {
        let id = told.by(&entry);
        let place = id.as_ref().and_then(|id| live.get(id)).copied();
        match id.as_ref().and_then(|id| wanted.get(id)) {
            Some(rank) => ours.push((*rank, place, entry)),
            None => others.push((place, entry)),
        }
    }
    ours.sort_by_key(|(rank, ..)| *rank);
    let mut out = Vec::with_capacity(ours.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, place, entry) in ours {
        while let Some((_, other)) =
            others.next_if(|(other, _)| place.is_some_and(|place| other.is_some_and(|other| other < place)))
        {
            out.push(other);
        }
        out.push(entry);
    }
    out.extend(others.map(|(_, other)| other));
    out
}
