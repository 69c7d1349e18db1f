//! Definitions as large as those of well-known operators.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{compile, faults, object};
use crate::{
    field::Errors,
    object::list_at,
    schema::{Node, Ownership},
    structural::{
        Schema, Shape,
        testing::{LEVELS, large_definition, large_object},
    },
};

fn schemas(definition: &serde_json::Map<String, Value>) -> Vec<Schema> {
    let versions = list_at(definition, &["spec", "versions"]);
    versions.iter().map(|version| compile(&version["schema"]["openAPIV3Schema"])).collect()
}

#[test]
fn a_definition_of_a_megabyte_takes_little_memory() {
    let definition = large_definition("example.com", 3, 1 << 20);
    let n_bytes = Value::Object(definition.clone()).to_string().len();
    assert!((900_000..1_200_000).contains(&n_bytes), "{n_bytes}");
    let sizes: Vec<usize> = schemas(&definition).iter().map(Schema::size).collect();
    assert_eq!(sizes.len(), 3);
    // A twentieth of what was written, for all versions together.
    assert!(sizes.iter().sum::<usize>() < n_bytes / 20, "{sizes:?} of {n_bytes}");
}

#[test]
fn a_definition_of_a_hundred_fields_takes_a_few_kilobytes() {
    let properties: serde_json::Map<String, Value> = (0..100)
        .map(|n| {
            let field = json!({"type": "string", "description": "d".repeat(100), "maxLength": 10 + n, "pattern": format!("^a{n}$")});
            (format!("field{n}"), field)
        })
        .collect();
    let schema = compile(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}),
    );
    assert!(schema.size() < 12 << 10, "{}", schema.size());
}

#[test]
fn large_definitions_have_every_feature() {
    let definition = large_definition("example.com", 2, 200_000);
    let schema = &schemas(&definition)[0];
    let mut seen = HashSet::new();
    fn walk(shape: Shape<'_>, depth: usize, seen: &mut HashSet<String>) -> usize {
        if let Some(format) = shape.format() {
            seen.insert(format.name().to_owned());
        }
        seen.insert(format!("{:?}", shape.kind()));
        seen.insert(format!("{:?}", shape.list_type()));
        for (has, what) in [
            (shape.default().is_some(), "default"),
            (shape.is_embedded(), "embedded"),
            (shape.preserves_unknown(), "preserve"),
            (shape.rules().next().is_some(), "rules"),
            (!shape.options().is_empty(), "options"),
            (shape.is_atomic(), "atomic"),
            (shape.is_nullable(), "nullable"),
        ] {
            if has {
                seen.insert(what.to_owned());
            }
        }
        let fields = shape.fields().map(|(_, field)| field);
        let below = fields.chain(shape.values()).chain(shape.items());
        below.map(|below| walk(below, depth + 1, seen)).max().unwrap_or(depth)
    }
    let depth = walk(schema.root(), 0, &mut seen);
    assert!(depth > 20 && depth <= LEVELS + 3, "{depth}");
    for feature in [
        "default",
        "embedded",
        "preserve",
        "rules",
        "options",
        "atomic",
        "nullable",
        "IntOrString",
        "Map",
        "Set",
        "Atomic",
        "duration",
        "byte",
        "date-time",
        "k8s-long-name",
    ] {
        assert!(seen.contains(feature), "{feature}: {seen:?}");
    }
}

#[test]
fn objects_of_large_definitions_are_taken_and_served_unchanged() {
    let definition = large_definition("example.com", 3, 1 << 20);
    for (schema, version) in schemas(&definition).iter().zip(["v1", "v1beta2", "v1beta1"]) {
        let given = large_object("example.com", version, "one");
        let (mut taken, mut errors) = (given.clone(), Errors::new());
        assert_eq!(schema.prune(&mut taken, Some(&mut errors)), [""; 0]);
        assert_eq!(taken, given);
        schema.default(&mut taken).expect("small defaults");
        assert_eq!(faults(schema, &taken, None), [""; 0]);
        assert_eq!(taken["spec"]["section0"]["secretRef"], json!({"name": "s", "key": "value"}));
        let mut wrong = taken.clone();
        wrong["spec"]["section1"]["containers"][0]["resources"]["limits"]["cpu"] = json!("much");
        wrong["spec"]["section0"]["inline"] = json!("YQ==");
        let told = faults(schema, &wrong, None);
        assert_eq!(told.len(), 2, "{told:?}");
    }
}

#[test]
fn ownership_follows_list_and_map_types() {
    let schema = compile(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["set"], "properties": {
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}},
            "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": {"type": "string"}}},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
        "typeless": {"x-kubernetes-preserve-unknown-fields": true,
            "properties": {"set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
            "entries": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "x-kubernetes-map-type": "atomic"}},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        }}}}),
    );
    let node = schema.node();
    assert!(node.field("metadata").is_some_and(|meta| meta.node.field("finalizers").is_some()));
    assert!(node.field("apiVersion").is_some() && node.field("kind").is_some());
    let spec = &node.field("spec").expect("a field").node;
    let owned = |name: &str| &spec.field(name).expect("a field").merge.ownership;
    assert_eq!(*owned("keyed"), Ownership::Keyed(["a".into(), "b".into()].into()));
    assert_eq!(*owned("set"), Ownership::Set);
    assert_eq!(*owned("plain"), Ownership::Plain);
    assert_eq!(*owned("atomic"), Ownership::Atomic);
    assert!(spec.field("set").is_some_and(|set| set.required));
    assert!(matches!(spec.field("free").map(|free| free.node.resolve()), Some(Node::Any)));
    let typeless = spec.field("typeless").and_then(|typeless| typeless.node.field("set"));
    assert_eq!(typeless.map(|set| &set.merge.ownership), Some(&Ownership::Set));
    let values = spec.field("map").and_then(|map| map.node.items());
    assert!(matches!(values, Some(Node::Any)), "{values:?}");
    assert!(spec.field("entries").and_then(|list| list.node.items()).is_some_and(Node::is_atomic));
    assert!(spec.field("embedded").is_some_and(|inner| inner.node.field("metadata").is_some()));
}

#[test]
fn parts_that_are_alike_are_converted_once() {
    let part = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    let schema = compile(&json!({"type": "object", "properties": {"one": part, "other": part}}));
    let node = schema.node();
    let shared = |name: &str| match &node.field(name).expect("a field").node {
        Node::Named(definition) => std::sync::Arc::as_ptr(definition),
        other => panic!("{other:?}"),
    };
    assert_eq!(shared("one"), shared("other"));
    let mut value = object(json!({"one": {"a": "x", "odd": 1}}));
    assert_eq!(crate::schema::check(&node, &mut value).unknown, ["one.odd"]);
}
