//! Lists: their entries, which must differ in sets and maps, and which entry was which before.

use std::collections::{HashMap, hash_map::Entry};

use serde_json::Value;

use super::Walk;
use crate::{
    field::Fault,
    object::Object,
    structural::{ListType, Shape, clipped, place::Place},
};

impl Walk<'_> {
    pub(super) fn list(
        &mut self,
        shape: Shape<'_>,
        list: &[Value],
        old: Option<&[Value]>,
        place: &Place<'_>,
    ) {
        match shape.list_type() {
            ListType::Set => self.differ(list, old, place, Value::to_string),
            ListType::Map => {
                let keys: Vec<&str> = shape.list_keys().collect();
                let wrong = list.iter().position(|entry| !entry.is_object() && !entry.is_null());
                match wrong {
                    Some(index) => self.fault(
                        Fault::Invalid,
                        &place.index(index),
                        &clipped(&list[index].to_string()),
                        || "must be an object for an array of list-type map".to_owned(),
                    ),
                    None => self.differ(list, old, place, |entry| key_of(entry, &keys)),
                }
            }
            ListType::Atomic | ListType::Unset => {}
        }
        let Some(items) = shape.items() else { return };
        let mut before =
            old.filter(|_| shape.list_type() == ListType::Map).map(|old| Before::new(shape, old));
        for (index, entry) in list.iter().enumerate() {
            let old = before.as_mut().and_then(|before| before.of(entry, index));
            self.value(items, entry, old, &place.index(index));
        }
    }

    /// Tells the entries that are told alike by what `told_by` makes of them, each once. Lists in which there were
    /// such entries before may have them still.
    fn differ(
        &mut self,
        list: &[Value],
        old: Option<&[Value]>,
        place: &Place<'_>,
        told_by: impl Fn(&Value) -> String,
    ) {
        if list.len() < 2 || !self.budget.spend(list.len() as u64) {
            return;
        }
        let twice = repeated(list, &told_by);
        if twice.is_empty() || old.is_some_and(|old| !repeated(old, &told_by).is_empty()) {
            return;
        }
        for index in twice {
            self.hold(false, Fault::Duplicate, &place.index(index), || {
                (clipped(&told_by(&list[index])), String::new())
            });
        }
    }
}

/// Where the entries are that were there before, each once.
fn repeated(list: &[Value], told_by: impl Fn(&Value) -> String) -> Vec<usize> {
    let mut seen: HashMap<String, bool> = HashMap::with_capacity(list.len());
    let mut twice = vec![];
    for (index, entry) in list.iter().enumerate() {
        match seen.entry(told_by(entry)) {
            Entry::Vacant(first) => {
                first.insert(false);
            }
            Entry::Occupied(mut again) => {
                if !again.insert(true) {
                    twice.push(index);
                }
            }
        }
    }
    twice
}

/// What an entry of a map is told by.
fn key_of(entry: &Value, keys: &[&str]) -> String {
    let key = |name: &&str| Some(((*name).to_owned(), entry.get(name)?.clone()));
    Value::Object(keys.iter().filter_map(key).collect::<Object>()).to_string()
}

/// The entries that a list had before.
struct Before<'a> {
    keys: Vec<&'a str>,
    list: &'a [Value],
    by_key: Option<HashMap<String, Option<&'a Value>>>,
}

impl<'a> Before<'a> {
    fn new(shape: Shape<'a>, list: &'a [Value]) -> Self {
        Before { keys: shape.list_keys().collect(), list, by_key: None }
    }

    /// The entry that was told by the same fields, if there was one only.
    fn of(&mut self, entry: &Value, index: usize) -> Option<&'a Value> {
        // Entries rarely move.
        if self.by_key.is_none() {
            let here = self.list.get(index);
            if here.is_some_and(|here| self.keys.iter().all(|key| here.get(*key) == entry.get(*key))) {
                return here;
            }
        }
        let keys = &self.keys;
        let by_key = self.by_key.get_or_insert_with(|| {
            let mut by_key = HashMap::with_capacity(self.list.len());
            for entry in self.list {
                by_key.entry(key_of(entry, keys)).and_modify(|known| *known = None).or_insert(Some(entry));
            }
            by_key
        });
        by_key.get(&key_of(entry, keys)).copied().flatten()
    }
}
