//! Tables of claims about one good object: what is wrong when a single field of it is different.

use serde_json::Value;
use windlass_machinery::{field::Errors, object::Object};

use crate::resources::Strategy;

/// The value under a JSON pointer, what the beginning of the fault it has must be (empty: none).
pub(super) type Variant<'a> = (&'a str, Value, &'a str);

pub(super) fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap()
}

/// The object as it would be created.
pub(super) fn created(strategy: &Strategy, value: Value) -> Object {
    let mut object = object(value);
    (strategy.default)(&mut object);
    (strategy.prepare_create)(&mut object);
    object
}

/// Puts `value` under a JSON pointer, making maps on the way.
fn put(target: &mut Value, pointer: &str, value: Value) {
    let place = pointer.split('/').skip(1).fold(target, |target, step| match target {
        Value::Array(list) => &mut list[step.parse::<usize>().unwrap()],
        other => {
            if other.is_null() {
                *other = Value::Object(Object::new());
            }
            other.as_object_mut().unwrap().entry(step).or_insert(Value::Null)
        }
    });
    *place = value;
}

fn check(errors: &Errors, expected: &str, what: &str) {
    let found: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
    match expected {
        "" => assert!(found.is_empty(), "{what}: {found:#?}"),
        _ => assert!(found.iter().any(|found| found.starts_with(expected)), "{what}: {found:#?}"),
    }
}

/// Creates `good` with each of the variants, and as it is.
#[track_caller]
pub(super) fn check_invalid(strategy: &Strategy, good: Value, variants: &[Variant<'_>]) {
    let as_it_is: Variant<'_> = ("", good.clone(), "");
    for (pointer, value, expected) in std::iter::once(&as_it_is).chain(variants) {
        let mut changed = good.clone();
        put(&mut changed, pointer, value.clone());
        let mut errors = Errors::new();
        (strategy.validate)(&created(strategy, changed), &mut errors);
        check(&errors, expected, &format!("{pointer} = {value}"));
    }
}

/// Updates `old` to each of the variants through `part`.
#[track_caller]
pub(super) fn check_update(strategy: &Strategy, old: Value, part: Option<&str>, variants: &[Variant<'_>]) {
    let before = object(old.clone());
    for (pointer, value, expected) in variants {
        let mut changed = old.clone();
        put(&mut changed, pointer, value.clone());
        let mut errors = Errors::new();
        (strategy.validate_update)(&object(changed), &before, part, &mut errors);
        check(&errors, expected, &format!("{pointer} = {value}"));
    }
}
