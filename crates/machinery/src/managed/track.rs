//! Keeping `metadata.managedFields` up to date on a write.

use serde_json::Value;

use super::{Entry, Managers, Operation, Write, walk::Delta};
use crate::{
    object::{Object, metadata, metadata_mut},
    schema::Node,
};

const FIELD: &str = "managedFields";

/// Most entries for updates. With more, the oldest are folded into one.
const UPDATERS: usize = 10;

/// The name of the entry that the oldest are folded into.
const ANCIENT: &str = "ancient-changes";

/// Sets `metadata.managedFields` of `new`, which a write makes of `old`.
///
/// What the write adds or changes belongs to its manager and to nobody else; what it removes belongs to
/// nobody. The time of the manager's entry is that of its last addition or change, as in Kubernetes. A write
/// that changes nothing leaves all entries as they are.
///
/// A client may edit the entries by sending others. `[{}]` clears them. What cannot be read is as if it had
/// not been sent, and so are an empty list (clients that know nothing of managed fields send that), whatever
/// is sent to a subresource, and whatever is sent when an object is created.
pub fn track(old: Option<&Object>, new: &mut Object, schema: &Node, write: &Write<'_>) {
    let sent = metadata_mut(new).remove(FIELD);
    let list = match old {
        None => Managers(vec![Entry::of(write, Delta::of_new(new, schema))]).encode(),
        Some(old) => {
            let sent = sent.filter(|_| write.subresource.is_empty());
            let list = accepted(sent, metadata(old).get(FIELD));
            let delta = Delta::between(old, new, schema);
            if delta.is_empty() { list } else { pass_on(list, delta, write) }
        }
    };
    if let Some(list) = list {
        metadata_mut(new).insert(FIELD.to_owned(), list);
    }
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
fn pass_on(list: Option<Value>, delta: Delta, write: &Write<'_>) -> Option<Value> {
    let Delta { changed, removed } = delta;
    let mut managers = list.map(Managers::trusted).unwrap_or_default();
    let mut own = None;
    for (place, entry) in managers.0.iter_mut().enumerate() {
        if !removed.is_empty() {
            entry.fields.prune(&removed);
        }
        match own.is_none() && entry.is_by(write) {
            true => own = Some(place),
            false => entry.fields.difference(&changed),
        }
    }
    if !changed.is_empty() {
        match own.and_then(|place| managers.0.get_mut(place)) {
            Some(entry) => {
                entry.fields.union(changed);
                write.time.clone_into(&mut entry.time);
                write.api_version.clone_into(&mut entry.api_version);
            }
            None => managers.0.push(Entry::of(write, changed)),
        }
    }
    managers.0.retain(|entry| !entry.fields.is_empty());
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
