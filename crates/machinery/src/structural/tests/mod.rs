//! What schemas are taken, and what they do to objects.

mod compiling;
mod formats;
mod large;
mod patterns;
mod properties;
mod pruning;
mod validating;

use serde_json::{Value, json};

use super::Schema;
use crate::{field::Errors, object::Object};

/// What is said about a schema.
fn refused(schema: &Value) -> Vec<String> {
    let mut errors = Errors::new();
    let compiled = errors.at("schema", |errors| Schema::compile(schema, errors));
    assert_eq!(compiled.is_some(), errors.is_empty(), "{schema}");
    errors.list().iter().map(ToString::to_string).collect()
}

#[track_caller]
fn compile(schema: &Value) -> Schema {
    let mut errors = Errors::new();
    let compiled = Schema::compile(schema, &mut errors);
    compiled.unwrap_or_else(|| panic!("{schema}: {:?}", errors.list()))
}

/// A schema of objects whose `spec` is this.
#[track_caller]
fn compile_spec(spec: &Value) -> Schema {
    compile(&json!({"type": "object", "properties": {"spec": spec}}))
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn spec(value: Value) -> Object {
    object(json!({"spec": value}))
}

fn faults(schema: &Schema, object: &Object, old: Option<&Object>) -> Vec<String> {
    let mut errors = Errors::new();
    schema.validate(object, old, &mut errors);
    errors.list().iter().map(ToString::to_string).collect()
}
