//! Merging a configuration into an object, by the kinds of its lists and maps.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    managed::place::{At, Kind, key_step, roots, value_step},
    object::{Object, child_mut},
    schema::{Key, Node},
};

/// Puts everything that is in a configuration into an object. What merges is merged, everything else replaced.
pub(super) fn merge(live: &mut Object, config: &Object, schema: &Node) {
    let (rest, meta) = roots(schema);
    for (name, value) in config {
        match value {
            Value::Object(config) if name == "metadata" => merge_map(child_mut(live, name), config, meta),
            _ => merge_field(live, name, value, rest),
        }
    }
}

fn merge_map(live: &mut Object, config: &Object, at: At<'_>) {
    for (name, value) in config {
        merge_field(live, name, value, at);
    }
}

fn merge_field(live: &mut Object, name: &str, config: &Value, at: At<'_>) {
    match live.get_mut(name) {
        Some(live) => merge_value(live, config, at.field(name).0),
        None => drop(live.insert(name.to_owned(), config.clone())),
    }
}

fn merge_value(live: &mut Value, config: &Value, at: At<'_>) {
    match (at.kind(live), &mut *live, config) {
        (Kind::Map, Value::Object(live), Value::Object(config)) => merge_map(live, config, at),
        (Kind::Set, Value::Array(live), Value::Array(config)) => {
            if live != config {
                let step = |value: &Value, _| value_step(value);
                *live = weave(std::mem::take(live), config, step, |_, value| value.clone());
            }
        }
        (Kind::Keyed(keys), Value::Array(live), Value::Array(config)) => {
            merge_entries(live, config, keys, at.items());
        }
        // What is in it is owned by others, one by one.
        (Kind::Map, Value::Object(live), Value::Null) if !live.is_empty() => {}
        (Kind::Set | Kind::Keyed(_), Value::Array(live), Value::Null) if !live.is_empty() => {}
        _ => *live = config.clone(),
    }
}

/// Maps for which the configuration has `null` were kept because of what others have in them: where nothing is left,
/// they are `null`.
pub(super) fn empty_to_null(merged: &mut Object, config: &Object) {
    for (name, config) in config {
        match (merged.get_mut(name), config) {
            (Some(Value::Object(merged)), Value::Object(config)) => empty_to_null(merged, config),
            (Some(empty @ Value::Object(_)), Value::Null)
                if empty.as_object().is_some_and(Object::is_empty) =>
            {
                *empty = Value::Null;
            }
            _ => {}
        }
    }
}

fn merge_entries(live: &mut Vec<Value>, config: &[Value], keys: &[Key], at: At<'_>) {
    let same = |(one, other): (&Value, &Value)| keys.iter().all(|key| key.of(one) == key.of(other));
    // Entries rarely come, go or move: then no step has to be made for them.
    if live.len() == config.len() && live.iter().zip(config).all(same) {
        for (live, config) in live.iter_mut().zip(config) {
            merge_value(live, config, at);
        }
        return;
    }
    let step = |entry: &Value, place| key_step(entry, keys, place);
    *live = weave(std::mem::take(live), config, step, |live, config| match live {
        Some(mut live) => {
            merge_value(&mut live, config, at);
            live
        }
        None => config.clone(),
    });
}

/// The entries of both lists: those of the configuration in its order, those that are only live where they are among
/// them. Live entries that cannot be told apart are kept, unless the configuration has the entry: then it alone
/// is.
///
/// ```text
/// live a s b   config b n a   gives s b n a
/// ```
fn weave(
    live: Vec<Value>,
    config: &[Value],
    step: impl Fn(&Value, usize) -> String,
    join: impl Fn(Option<Value>, &Value) -> Value,
) -> Vec<Value> {
    let wanted: HashMap<String, usize> =
        config.iter().enumerate().map(|(place, entry)| (step(entry, place), place)).collect();
    let places: Vec<Option<usize>> =
        live.iter().enumerate().map(|(place, entry)| wanted.get(&step(entry, place)).copied()).collect();
    let mut count = vec![0_usize; config.len()];
    for place in places.iter().flatten() {
        count[*place] += 1;
    }
    let mut partners: Vec<Option<Value>> = config.iter().map(|_| None).collect();
    let mut pieces = Vec::with_capacity(live.len() + config.len());
    // What comes next in the configuration, and the next entry of it that is also live.
    let shared_from = |from: usize| (from..config.len()).find(|place| count[*place] > 0);
    let (mut next, mut shared) = (0, shared_from(0));
    for (entry, place) in live.into_iter().zip(places) {
        let Some(place) = place else {
            pieces.push(Piece::Live(entry));
            continue;
        };
        if count[place] == 1 {
            partners[place] = Some(entry);
        }
        if shared == Some(place) {
            pieces.extend((next..=place).map(Piece::Config));
            next = place + 1;
            shared = shared_from(next);
        }
    }
    pieces.extend((next..config.len()).map(Piece::Config));
    let made = pieces.into_iter().map(|piece| match piece {
        Piece::Live(entry) => entry,
        Piece::Config(place) => join(partners[place].take(), &config[place]),
    });
    made.collect()
}

/// What an entry of the outcome comes from.
enum Piece {
    Live(Value),
    Config(usize),
}
