//! Running one kind's rules over JSON, for tables of claims.

use serde_json::Value;
use windlass_machinery::{field::Errors, object::Object};

use crate::resources::{Conversion, Strategy};

pub(super) fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}

/// The object with its defaults.
pub(super) fn defaulted(strategy: &Strategy, value: Value) -> Value {
    let mut object = object(value);
    (strategy.default)(&mut object);
    let once = object.clone();
    (strategy.default)(&mut object);
    assert_eq!(once, object, "defaults are filled in once");
    Value::Object(object)
}

/// The object as it is stored when it is new.
pub(super) fn created(strategy: &Strategy, value: Value) -> Value {
    let mut object = object(value);
    (strategy.default)(&mut object);
    (strategy.prepare_create)(&mut object);
    Value::Object(object)
}

/// The faults of a new object, such as `Required spec.ports`.
pub(super) fn faults(strategy: &Strategy, value: Value) -> Vec<String> {
    let new = object(created(strategy, value));
    let mut errors = Errors::new();
    (strategy.validate)(&new, &mut errors);
    words(&errors)
}

/// The object as it is stored after a change.
pub(super) fn updated(strategy: &Strategy, old: Value, new: Value, part: Option<&str>) -> Value {
    let (old, mut new) = (object(old), object(new));
    (strategy.default)(&mut new);
    (strategy.prepare_update)(&mut new, &old, part);
    Value::Object(new)
}

/// The faults of a change alone.
pub(super) fn change_faults(strategy: &Strategy, old: Value, new: Value, part: Option<&str>) -> Vec<String> {
    let mut stored = object(old);
    (strategy.default)(&mut stored);
    let new = object(updated(strategy, Value::Object(stored.clone()), new, part));
    let mut errors = Errors::new();
    (strategy.validate_update)(&new, &stored, part, &mut errors);
    words(&errors)
}

fn words(errors: &Errors) -> Vec<String> {
    errors.list().iter().map(|error| format!("{:?} {}", error.fault, error.field)).collect()
}

/// Checks a table of objects and their faults.
#[track_caller]
pub(super) fn check(strategy: &Strategy, table: &[(Value, &[&str])]) {
    for (value, expected) in table {
        assert_eq!(&faults(strategy, value.clone()), expected, "{value}");
    }
}

/// Names that the rules look at, so that junk gets deep into them.
const WORDS: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "name",
    "type",
    "ports",
    "port",
    "rules",
    "http",
    "paths",
    "backend",
    "service",
    "webhooks",
    "clientConfig",
    "limits",
    "max",
    "min",
    "default",
    "hard",
    "data",
    "conditions",
    "certificate",
    "cidrs",
    "clusterIPs",
    "ingress",
    "from",
    "ipBlock",
    "cidr",
    "except",
    "versions",
    "names",
    "kind",
    "subjects",
    "drivers",
    "devices",
    "requests",
    "exactly",
    "resources",
    "storage",
    "capacity",
    "hostPath",
    "nodeAffinity",
    "template",
    "containers",
    "selector",
    "matchLabels",
    "annotations",
    "labels",
    "taints",
    "endpoints",
    "addresses",
];

fn junk(random: &mut fastrand::Rng, depth: usize) -> Value {
    match random.u8(0..if depth == 0 { 7 } else { 12 }) {
        0 => Value::Null,
        1 => true.into(),
        2 => i64::MIN.into(),
        3 => u64::MAX.into(),
        4 => "".into(),
        5 => "é/%\u{0}:\n=".into(),
        6 => 0.5.into(),
        7 | 8 => (0..random.usize(..4)).map(|_| junk(random, depth - 1)).collect(),
        _ => {
            let fields = (0..random.usize(1..8)).map(|_| {
                let word = WORDS[random.usize(..WORDS.len())];
                (word.to_owned(), junk(random, depth - 1))
            });
            Value::Object(fields.collect())
        }
    }
}

#[test]
fn nothing_a_client_sends_makes_the_rules_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    for row in crate::resources::builtin::rows() {
        for _ in 0..100 {
            let old = object(junk(&mut random, 6));
            let mut new = object(junk(&mut random, 6));
            (row.strategy.default)(&mut new);
            (row.strategy.prepare_create)(&mut new);
            let mut errors = Errors::new();
            (row.strategy.validate)(&new, &mut errors);
            for part in [None, Some("status"), Some("approval")] {
                (row.strategy.prepare_update)(&mut new, &old, part);
                (row.strategy.validate_update)(&new, &old, part, &mut errors);
            }
            (row.strategy.deleting)(&mut new);
            let _ = row.rules.default(&mut new);
            row.rules.validate(&new, None, None, &mut errors);
            row.rules.validate(&new, Some(&old), None, &mut errors);
            (row.strategy.warn)(&new, &mut vec![]);
            if let Conversion::With(convert) = row.conversion {
                convert(&mut new, "v1", &mut errors);
                convert(&mut new, "a/v1beta1", &mut errors);
            }
        }
    }
}
