//! What holds for all schemas and all objects.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::faults;
use crate::{
    field::Errors,
    object::Object,
    structural::{Schema, Shape},
};

const NAMES: &[&str] = &["a", "b", "c", "metadata", "spec", "kind", "x.y", ""];
const TEXTS: &[&str] = &["", "a", "ab", "1", "2014-12-15", "10Gi", "ä", "a.b", "http://x", "null"];
const FORMATS: &[&str] =
    &["date", "date-time", "uri", "email", "hostname", "ipv4", "duration", "byte", "odd", "int32"];
const PATTERNS: &[&str] = &["^a", "b$", "[a-z]+", "^$", "(a|b)*"];

fn one<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(..of.len())]
}

/// Any JSON.
fn value(random: &mut Rng, depth: usize) -> Value {
    match random.u8(..if depth == 0 { 5 } else { 8 }) {
        0 => Value::Null,
        1 => random.bool().into(),
        2 => random.i64(-3..12).into(),
        3 => [json!(0.5), json!(-1.0), json!(1e300), json!(3.0), json!(u64::MAX)][random.usize(..5)].clone(),
        4 => one(random, TEXTS).into(),
        5 => (0..random.usize(..4)).map(|_| value(random, depth - 1)).collect(),
        _ => Value::Object(map(random, depth - 1)),
    }
}

fn map(random: &mut Rng, depth: usize) -> Object {
    (0..random.usize(..5)).map(|_| (one(random, NAMES).to_owned(), value(random, depth))).collect()
}

/// A schema that is mostly structural.
fn schema(random: &mut Rng, depth: usize) -> Value {
    let mut schema = restrictions(random, depth, true);
    let kinds = if depth == 0 { 5 } else { 9 };
    match random.u8(..kinds) {
        0 => drop(schema.insert("type".into(), "string".into())),
        1 => drop(schema.insert("type".into(), "integer".into())),
        2 => drop(schema.insert("type".into(), "boolean".into())),
        3 => drop(schema.insert("type".into(), "number".into())),
        4 => drop(schema.insert("x-kubernetes-int-or-string".into(), true.into())),
        5 => {
            schema.insert("type".into(), "array".into());
            schema.insert("items".into(), self::schema(random, depth - 1));
            if random.u8(..3) == 0 {
                schema.insert("x-kubernetes-list-type".into(), one(random, &["set", "atomic", "map"]).into());
            }
        }
        6 => {
            schema.insert("type".into(), "object".into());
            schema.insert("additionalProperties".into(), self::schema(random, depth - 1));
        }
        _ => {
            schema.insert("type".into(), "object".into());
            let names = (0..random.usize(..5)).map(|_| one(random, NAMES).to_owned());
            let names: Vec<String> = names.filter(|name| name != "metadata").collect();
            let properties: Map<String, Value> =
                names.into_iter().map(|name| (name, self::schema(random, depth - 1))).collect();
            schema.insert("properties".into(), properties.into());
        }
    }
    for (key, odds) in
        [("nullable", 3), ("x-kubernetes-preserve-unknown-fields", 6), ("x-kubernetes-embedded-resource", 12)]
    {
        if random.u8(..odds) == 0 {
            schema.insert(key.to_owned(), true.into());
        }
    }
    if random.u8(..4) == 0 {
        schema.insert("default".to_owned(), value(random, 2));
    }
    Value::Object(schema)
}

fn restrictions(random: &mut Rng, depth: usize, outside: bool) -> Object {
    let mut out = Object::new();
    let n_checks = random.usize(..3);
    for _ in 0..n_checks {
        let (key, value) = match random.u8(..14) {
            0 => ("maximum", random.i64(-2..10).into()),
            1 => ("minimum", random.i64(-2..10).into()),
            2 => ("multipleOf", json!([0.1, 2.0, 0.0, 3.0][random.usize(..4)])),
            3 => ("maxLength", random.i64(-1..5).into()),
            4 => ("minLength", random.i64(-1..3).into()),
            5 => ("pattern", one(random, PATTERNS).into()),
            6 => ("maxItems", random.i64(-1..4).into()),
            7 => ("minItems", random.i64(0..3).into()),
            8 => ("maxProperties", random.i64(0..5).into()),
            9 => ("required", json!([one(random, NAMES)])),
            10 => ("enum", (0..3).map(|_| value(random, 1)).collect()),
            11 => ("format", one(random, FORMATS).into()),
            12 if depth > 0 => {
                let key = one(random, &["allOf", "anyOf", "oneOf"]);
                (key, (0..2).map(|_| Value::Object(restrictions(random, depth - 1, false))).collect())
            }
            13 if depth > 0 => ("not", Value::Object(restrictions(random, depth - 1, false))),
            _ => continue,
        };
        out.insert(key.to_owned(), value);
    }
    if !outside && depth > 0 && random.u8(..3) == 0 {
        let nested = Value::Object(restrictions(random, depth - 1, false));
        out.insert("properties".to_owned(), json!({one(random, &["a", "b"]): nested}));
    }
    out
}

/// Random schemas that can be used, with the seed that made them.
fn schemas(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (u64, Rng, Schema)> {
    seeds.filter_map(|seed| {
        let mut random = Rng::with_seed(seed);
        let root = json!({"type": "object", "properties": {
            "spec": schema(&mut random, 3), "a": schema(&mut random, 2), "b": schema(&mut random, 1),
        }});
        Some((seed, random, Schema::compile(&root, &mut Errors::new())?))
    })
}

/// A value that is likely to fit.
fn fitting(random: &mut Rng, shape: Shape<'_>, depth: usize) -> Value {
    use crate::structural::Kind;
    if depth == 0 || random.u8(..10) == 0 {
        return value(random, 2);
    }
    match shape.kind() {
        Kind::Any => value(random, 2),
        Kind::Boolean => random.bool().into(),
        Kind::Integer | Kind::Number => random.i64(0..6).into(),
        Kind::String | Kind::IntOrString => one(random, TEXTS).into(),
        Kind::Array => {
            let items = shape.items();
            let entry = |_| items.map_or(Value::Null, |items| fitting(random, items, depth - 1));
            (0..2).map(entry).collect()
        }
        Kind::Object => {
            let mut map = Object::new();
            for (name, field) in shape.fields() {
                if random.bool() {
                    map.insert(name.to_owned(), fitting(random, field, depth - 1));
                }
            }
            if let Some(values) = shape.values() {
                map.insert("key".to_owned(), fitting(random, values, depth - 1));
            }
            Value::Object(map)
        }
    }
}

fn any_object(random: &mut Rng, schema: &Schema) -> Object {
    match fitting(random, schema.root(), 4) {
        Value::Object(object) => object,
        _ => map(random, 3),
    }
}

#[test]
fn pruning_and_defaulting_are_idempotent() {
    let mut n_schemas = 0;
    for (seed, mut random, schema) in schemas(0..2_000) {
        n_schemas += 1;
        for _ in 0..8 {
            let given = any_object(&mut random, &schema);
            let mut pruned = given.clone();
            schema.prune(&mut pruned, None);
            let mut again = pruned.clone();
            assert_eq!(schema.prune(&mut again, None), [""; 0], "seed {seed}: {given:?}");
            assert_eq!(again, pruned, "seed {seed}: {given:?}");

            let mut filled = pruned;
            schema.default(&mut filled).expect("small defaults");
            let mut again = filled.clone();
            schema.default(&mut again).expect("small defaults");
            assert_eq!(again, filled, "seed {seed}: {given:?}");
            // What is filled in is specified.
            assert_eq!(schema.prune(&mut again, None), [""; 0], "seed {seed}: {given:?}");
        }
    }
    assert!(n_schemas > 300, "{n_schemas}");
}

#[test]
fn any_json_can_be_validated() {
    let (mut n_valid, mut n_invalid) = (0, 0);
    for (seed, mut random, schema) in schemas(2_000..4_000) {
        for _ in 0..8 {
            let object = any_object(&mut random, &schema);
            match faults(&schema, &object, None).len() {
                0 => n_valid += 1,
                1..=100 => n_invalid += 1,
                many => panic!("seed {seed}: {many} faults"),
            }
        }
    }
    assert!(n_valid > 1_000 && n_invalid > 1_000, "{n_valid} {n_invalid}");
}

#[test]
fn what_does_not_change_can_always_be_written_again() {
    for (seed, mut random, schema) in schemas(4_000..6_000) {
        for _ in 0..8 {
            let object = any_object(&mut random, &schema);
            assert_eq!(faults(&schema, &object, Some(&object)), [""; 0], "seed {seed}: {object:?}");
            // An update never makes worse what creation takes.
            let other = any_object(&mut random, &schema);
            let (created, updated) = (faults(&schema, &object, None), faults(&schema, &object, Some(&other)));
            assert!(updated.iter().all(|fault| created.contains(fault)), "seed {seed}: {object:?} {other:?}");
        }
    }
}

#[test]
fn any_json_can_be_a_schema() {
    const KEYS: &[&str] = &[
        "type",
        "properties",
        "items",
        "allOf",
        "anyOf",
        "not",
        "default",
        "enum",
        "required",
        "format",
        "pattern",
        "additionalProperties",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
        "x-kubernetes-embedded-resource",
        "nullable",
        "maximum",
        "maxLength",
        "metadata",
    ];
    fn junk(random: &mut Rng, depth: usize) -> Value {
        match random.u8(..4) {
            0 => value(random, 2),
            1 if depth > 0 => (0..random.usize(..3)).map(|_| junk(random, depth - 1)).collect(),
            2 => one(random, &["object", "array", "string", "map", "set", "a"]).into(),
            _ if depth > 0 => {
                let entries =
                    (0..random.usize(..5)).map(|_| (one(random, KEYS).to_owned(), junk(random, depth - 1)));
                Value::Object(entries.collect())
            }
            _ => true.into(),
        }
    }
    for seed in 0..5_000 {
        let mut random = Rng::with_seed(seed);
        let schema = junk(&mut random, 5);
        let mut errors = Errors::new();
        let compiled = Schema::compile(&schema, &mut errors);
        assert_eq!(compiled.is_some(), errors.is_empty(), "seed {seed}: {schema}");
    }
}
