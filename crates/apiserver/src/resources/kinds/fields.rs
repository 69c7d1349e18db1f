//! Looking at the fields of untyped objects, and the faults that any kind may have.
//!
//! A field of the wrong type reads as absent: the schema check has already refused it.

use serde_json::Value;
use windlass_machinery::{field::Errors, names, object::Object, quantity::Quantity};

pub(super) const NEGATIVE: &str = "must be greater than or equal to 0";
pub(super) const NOT_POSITIVE: &str = "must be greater than zero";
pub(super) const IMMUTABLE: &str = "field is immutable";
pub(super) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

/// The map under `field`.
pub(super) fn map<'a>(object: &'a Object, field: &str) -> Option<&'a Object> {
    object.get(field)?.as_object()
}

/// The string under `field`, empty when there is none.
pub(super) fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The integer under `field`.
pub(super) fn int(object: &Object, field: &str) -> Option<i64> {
    object.get(field)?.as_i64()
}

/// Whether `field` is true.
pub(super) fn truth(object: &Object, field: &str) -> bool {
    object.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// The list under `field`, empty when there is none.
pub(super) fn list<'a>(object: &'a Object, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The maps in the list under `field`, with their places.
pub(super) fn maps<'a>(object: &'a Object, field: &str) -> impl Iterator<Item = (usize, &'a Object)> {
    list(object, field).iter().enumerate().filter_map(|(index, value)| Some((index, value.as_object()?)))
}

/// The strings in the list under `field`, with their places.
pub(super) fn texts<'a>(object: &'a Object, field: &str) -> impl Iterator<Item = (usize, &'a str)> {
    list(object, field).iter().enumerate().filter_map(|(index, value)| Some((index, value.as_str()?)))
}

/// The maps in the list under `field`, to be changed.
pub(super) fn maps_mut<'a>(object: &'a mut Object, field: &str) -> impl Iterator<Item = &'a mut Object> {
    let list = object.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The map under `field`, to be changed.
pub(super) fn map_mut<'a>(object: &'a mut Object, field: &str) -> Option<&'a mut Object> {
    object.get_mut(field)?.as_object_mut()
}

/// Whether `field` is there and not null.
pub(super) fn is_set(object: &Object, field: &str) -> bool {
    object.get(field).is_some_and(|value| !value.is_null())
}

/// Puts `value` under `field` where nothing is, or the empty string or zero, which stand for nothing in fields
/// that cannot be absent.
pub(super) fn fill(object: &mut Object, field: &str, value: impl Into<Value>) {
    let empty = match object.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        _ => false,
    };
    if empty {
        object.insert(field.to_owned(), value.into());
    }
}

/// Looks at each map of the list under `field`.
pub(super) fn each(
    object: &Object,
    field: &str,
    errors: &mut Errors,
    mut check: impl FnMut(&Object, &mut Errors),
) {
    for (index, entry) in maps(object, field) {
        errors.at_index(field, index, |errors| check(entry, errors));
    }
}

/// Looks at the map under `field` if there is one.
pub(super) fn below(
    object: &Object,
    field: &str,
    errors: &mut Errors,
    check: impl FnOnce(&Object, &mut Errors),
) {
    if let Some(child) = map(object, field) {
        errors.at(field, |errors| check(child, errors));
    }
}

/// Looks at the map under `field`, as an empty one when there is none.
pub(super) fn within(
    object: &Object,
    field: &str,
    errors: &mut Errors,
    check: impl FnOnce(&Object, &mut Errors),
) {
    let empty = Object::new();
    errors.at(field, |errors| check(map(object, field).unwrap_or(&empty), errors));
}

/// The integers under these fields must not be below zero.
pub(super) fn non_negative(object: &Object, fields: &[&str], errors: &mut Errors) {
    at_least(object, fields, 0, NEGATIVE, errors);
}

/// The integers under these fields must be above zero.
pub(super) fn positive(object: &Object, fields: &[&str], errors: &mut Errors) {
    at_least(object, fields, 1, NOT_POSITIVE, errors);
}

fn at_least(object: &Object, fields: &[&str], least: i64, detail: &str, errors: &mut Errors) {
    for field in fields {
        if let Some(number) = int(object, field).filter(|number| *number < least) {
            errors.invalid(field, &number.into(), detail);
        }
    }
}

/// The string under `field`, if any, must be one of `allowed`.
pub(super) fn one_of(object: &Object, field: &str, allowed: &[&str], errors: &mut Errors) {
    let value = text(object, field);
    if !value.is_empty() && !allowed.contains(&value) {
        errors.not_supported(field, value, allowed);
    }
}

/// The string under `field` must be one of `allowed`.
pub(super) fn must_be(object: &Object, field: &str, allowed: &[&str], errors: &mut Errors) {
    match text(object, field).is_empty() {
        true => errors.required(field, ""),
        false => one_of(object, field, allowed, errors),
    }
}

/// The strings under these fields must be set. Answers whether they are.
pub(super) fn required(object: &Object, fields: &[&str], errors: &mut Errors) -> bool {
    let mut all = true;
    for field in fields {
        if text(object, field).is_empty() {
            errors.required(field, "");
            all = false;
        }
    }
    all
}

/// Records each of `faults` of the string `value`.
pub(super) fn malformed(
    field: &str,
    value: &str,
    faults: impl IntoIterator<Item = String>,
    errors: &mut Errors,
) {
    for fault in faults {
        errors.invalid_str(field, value, fault);
    }
}

/// The string under `field` must be a label of RFC 1123. Says whether it is.
pub(super) fn dns_label(object: &Object, field: &str, errors: &mut Errors) -> bool {
    if !required(object, &[field], errors) {
        return false;
    }
    let value = text(object, field);
    let fault = names::label(value, false);
    let good = fault.is_none();
    malformed(field, value, fault, errors);
    good
}

/// The string under `field`, if any, must be a subdomain of RFC 1123.
pub(super) fn subdomain(object: &Object, field: &str, errors: &mut Errors) {
    let value = text(object, field);
    if !value.is_empty() {
        malformed(field, value, names::subdomain(value, false), errors);
    }
}

/// The integer under `field`, if any, must be a port.
pub(super) fn port(object: &Object, field: &str, errors: &mut Errors) {
    if let Some(number) = int(object, field).filter(|number| !(1..=65535).contains(number)) {
        errors.invalid(field, &number.into(), PORT_RANGE);
    }
}

/// The number or name under `field` must be a port.
pub(super) fn port_or_name(object: &Object, field: &str, errors: &mut Errors) {
    match object.get(field) {
        Some(Value::String(name)) => malformed(field, name, names::port_name(name), errors),
        Some(Value::Number(_)) => port(object, field, errors),
        _ => errors.invalid(field, &0.into(), PORT_RANGE),
    }
}

/// How many, out of a number that is not known here: `5`, or `"25%"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// So many.
    Count(i64),
    /// So many of a hundred.
    Percent(i64),
}

impl Share {
    /// Whether it is nothing at all.
    pub(super) fn is_zero(self) -> bool {
        matches!(self, Share::Count(0) | Share::Percent(0))
    }
}

/// The count or percentage under `field`, which must not be negative.
pub(super) fn share(object: &Object, field: &str, errors: &mut Errors) -> Option<Share> {
    match object.get(field)? {
        Value::Number(number) => {
            let count = number.as_i64()?;
            if count < 0 {
                errors.invalid(field, &count.into(), NEGATIVE);
            }
            Some(Share::Count(count))
        }
        Value::String(text) => {
            let faults = names::percent(text);
            let good = faults.is_empty();
            malformed(field, text, faults, errors);
            // More digits than fit are more than everything in any case.
            good.then(|| Share::Percent(text.trim_end_matches('%').parse().unwrap_or(i64::MAX)))
        }
        _ => None,
    }
}

/// The count or percentage under `field` must not be negative, nor more than everything.
pub(super) fn share_of_all(object: &Object, field: &str, errors: &mut Errors) -> Option<Share> {
    let share = share(object, field, errors);
    if let Some(Share::Percent(percent)) = share
        && percent > 100
        && let Some(value) = object.get(field)
    {
        errors.invalid(field, value, "must not be greater than 100%");
    }
    share
}

/// The fields must not change.
pub(super) fn immutable(new: &Object, old: &Object, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        let value = new.get(*field).unwrap_or(&Value::Null);
        if !same(value, old.get(*field).unwrap_or(&Value::Null)) {
            errors.invalid(field, value, IMMUTABLE);
        }
    }
}

/// Whether two values mean the same: what is absent, empty, zero or false does, and so do two spellings of one
/// amount.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => same_map(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b || (says_nothing(a) && says_nothing(b)),
    }
}

/// [`same`] for maps.
pub(super) fn same_map(a: &Object, b: &Object) -> bool {
    a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))).all(|key| {
        let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
        match key.as_str() {
            "limits" | "requests" => same(a, b) || same_amounts(a, b),
            _ => same(a, b),
        }
    })
}

fn same_amounts(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return false };
    a.len() == b.len()
        && a.iter().all(|(name, amount)| {
            let other = b.get(name).and_then(|other| Quantity::from_value(other).ok());
            other.is_some() && Quantity::from_value(amount).ok() == other
        })
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(says_nothing),
        Value::Bool(true) => false,
    }
}

/// `value` must be a qualified name, such as the key of a label.
pub(super) fn qualified(field: &str, value: &str, errors: &mut Errors) {
    malformed(field, value, names::qualified(value), errors);
}

/// A map of labels.
pub(super) fn labels(object: &Object, field: &str, errors: &mut Errors) {
    for (key, value) in map(object, field).into_iter().flatten() {
        qualified(field, key, errors);
        let value = value.as_str().unwrap_or_default();
        malformed(field, value, names::label_value(value), errors);
    }
}
