//! Keeping `metadata.managedFields` up to date on a write.

use serde_json::Value;

use super::{
    Entry, FIELD, Managers, Operation, Write,
    versions::{Change, Versions},
};
use crate::object::{Object, metadata, metadata_mut};

/// Most entries for updates. With more, the oldest are folded into one.
const UPDATERS: usize = 10;

/// The name of the entry that the oldest are folded into.
const ANCIENT: &str = "ancient-changes";

/// Sets `metadata.managedFields` of `new`, which a write makes of `old`. Both are in the same version, whichever the
/// write was in.
///
/// What the write adds or changes belongs to its manager and to nobody else; what it removes belongs to
/// nobody. The time of the manager's entry is that of its last addition or change, as in Kubernetes. A write
/// that changes nothing leaves all entries as they are. Entries of versions that are no longer served go, and an
/// object without entries, because they were cleared, stays without until it is applied to.
///
/// A client may edit the entries by sending others. `[{}]` clears them. What cannot be read is as if it had
/// not been sent, and so are an empty list (clients that know nothing of managed fields send that), whatever
/// is sent to a subresource, and whatever is sent when an object is created.
pub fn track(old: Option<&Object>, new: &mut Object, versions: &dyn Versions, write: &Write<'_>) {
    let sent = metadata_mut(new).remove(FIELD);
    let nothing = Object::new();
    let list = match old {
        None => {
            let fields = Change::new(&nothing, new, versions, write).into_changed(write.api_version);
            fields.and_then(|fields| Managers(vec![Entry::of(write, fields)]).encode())
        }
        Some(old) => {
            let sent = sent.filter(|_| write.subresource.is_empty());
            match accepted(sent, metadata(old).get(FIELD)) {
                None => None,
                Some(list) => pass_on(list, Change::new(old, new, versions, write), write),
            }
        }
    };
    if let Some(list) = list {
        metadata_mut(new).insert(FIELD.to_owned(), list);
    }
}

/// Gives `new`, which an apply has made of `old`, the entries of `old` if nothing is different but the time of the
/// apply.
pub fn keep_times(old: &Object, new: &mut Object, write: &Write<'_>) {
    let entries = |object| metadata(object).get(FIELD).and_then(Value::as_array);
    let (Some(before), Some(after)) = (entries(old), entries(new)) else { return };
    let ((own, others), (own_after, others_after)) = (apart(before, write), apart(after, write));
    let same_own = match (own, own_after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => is_same_without(before, after, "time"),
        (before, after) => before == after,
    };
    if same_own
        && others == others_after
        && is_same_without(old, new, "metadata")
        && is_same_without(metadata(old), metadata(new), FIELD)
    {
        let before = Value::Array(before.clone());
        metadata_mut(new).insert(FIELD.to_owned(), before);
    }
}

/// The entry of a write, and those of others.
fn apart<'a>(list: &'a [Value], write: &Write<'_>) -> (Option<&'a Value>, Vec<&'a Value>) {
    let is_own = |entry: &&Value| {
        let has =
            |field: &str, text: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default() == text;
        has("manager", write.manager())
            && has("operation", write.operation.as_str())
            && has("subresource", write.subresource)
    };
    let (own, others): (Vec<&Value>, Vec<&Value>) = list.iter().partition(is_own);
    (own.first().copied(), others)
}

/// Whether two maps are the same but for one field.
fn is_same_without(one: &Object, other: &Object, field: &str) -> bool {
    fn rest<'a>(map: &'a Object, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        map.iter().filter(move |(name, _)| *name != field)
    }
    rest(one, field).eq(rest(other, field))
}

/// The entries to go on with: those that were sent, or else those that are stored.
fn accepted(sent: Option<Value>, stored: Option<&Value>) -> Option<Value> {
    match sent {
        Some(sent) if Some(&sent) == stored => Some(sent),
        Some(sent) if is_reset(&sent) => None,
        Some(sent) => {
            let sent = Managers::decode(sent).ok().filter(|managers| !managers.0.is_empty());
            sent.map_or_else(|| stored.cloned(), Managers::encode)
        }
        None => stored.cloned(),
    }
}

fn is_reset(list: &Value) -> bool {
    let only = list.as_array().and_then(|list| if let [only] = &list[..] { only.as_object() } else { None });
    only.is_some_and(Object::is_empty)
}

/// The entries after a change.
fn pass_on(list: Value, mut change: Change<'_>, write: &Write<'_>) -> Option<Value> {
    let taken = match change.of(write.api_version) {
        Some(delta) if delta.is_empty() => return Some(list),
        Some(delta) => delta.changed.clone(),
        None => return Some(list),
    };
    let mut managers = Managers::trusted(list);
    let mut own = None;
    let mut entries = Vec::with_capacity(managers.0.len() + 1);
    for mut entry in managers.0.drain(..) {
        let Some(delta) = change.of(&entry.api_version) else { continue };
        entry.fields.prune(&delta.removed);
        match own.is_none() && entry.is_by(write) {
            true => own = Some(entries.len()),
            false => entry.fields.difference(&delta.changed),
        }
        entries.push(entry);
    }
    if !taken.is_empty() {
        match own.and_then(|place| entries.get_mut(place)) {
            Some(entry) => {
                entry.fields.union(taken);
                write.time.clone_into(&mut entry.time);
                write.api_version.clone_into(&mut entry.api_version);
            }
            None => entries.push(Entry::of(write, taken)),
        }
    }
    entries.retain(|entry| !entry.fields.is_empty());
    managers.0 = entries;
    fold(&mut managers);
    managers.encode()
}

/// Folds the oldest updates of each version into one, until there are few enough.
fn fold(managers: &mut Managers) {
    let updates = managers.0.iter().filter(|entry| entry.operation == Operation::Update).count();
    let mut excess = updates.saturating_sub(UPDATERS);
    if excess == 0 {
        return;
    }
    managers.sort();
    let mut kept: Vec<Entry> = Vec::with_capacity(managers.0.len());
    // Where the oldest update of each version is kept.
    let mut oldest: Vec<usize> = vec![];
    for entry in managers.0.drain(..) {
        if entry.operation == Operation::Apply || (excess == 0 && entry.manager != ANCIENT) {
            kept.push(entry);
            continue;
        }
        match oldest.iter().copied().find(|place| kept[*place].api_version == entry.api_version) {
            Some(place) if excess > 0 || kept[place].manager == ANCIENT => {
                let bucket = &mut kept[place];
                ANCIENT.clone_into(&mut bucket.manager);
                bucket.subresource.clear();
                bucket.fields.union(entry.fields);
                bucket.time = entry.time;
                excess = excess.saturating_sub(1);
            }
            Some(_) => kept.push(entry),
            None => {
                oldest.push(kept.len());
                kept.push(entry);
            }
        }
    }
    managers.0 = kept;
}
