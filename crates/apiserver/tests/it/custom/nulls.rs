//! Explicit nulls in what is applied to custom resources, case by case as a real kube-apiserver decides them.

use serde_json::{Map, Value, json};

use super::{definition, serving};
use crate::client::{Answer, Client};

const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// A type, a default of it, and what a fault calls it.
fn types() -> Vec<(&'static str, Value, Value, &'static str)> {
    vec![
        ("str", json!({"type": "string"}), json!("d"), "string"),
        ("int", json!({"type": "integer"}), json!(1), "integer"),
        (
            "obj",
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"a": "d"}),
            "object",
        ),
        ("arr", json!({"type": "array", "items": {"type": "string"}}), json!(["d"]), "array"),
        (
            "map",
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": "d"}),
            "object",
        ),
        ("ios", json!({"x-kubernetes-int-or-string": true}), json!(1), "integer,string"),
        ("open", json!({"type": "object", OPEN: true}), json!({"z": 1}), "object"),
        ("any", json!({OPEN: true}), json!({"z": 1}), ""),
    ]
}

/// One field for each case: plain, with a default (D), nullable (N), and both.
fn fields() -> Vec<(String, Value)> {
    let mut fields = vec![];
    for (name, schema, default, _) in types() {
        for (letters, nullable, defaulted) in
            [("", false, false), ("D", false, true), ("N", true, false), ("ND", true, true)]
        {
            let mut schema = schema.clone();
            if nullable {
                schema["nullable"] = true.into();
            }
            if defaulted {
                schema["default"] = default.clone();
            }
            fields.push((format!("{name}{letters}"), schema));
        }
    }
    fields
}

async fn apply(client: &Client, kind: &str, plural: &str, spec: Value) -> Answer {
    let path = format!("/apis/example.com/v1/namespaces/default/{plural}/a?fieldManager=m");
    let object =
        json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec});
    client.patch("apply", &path, object).await
}

/// What must become of a null that is applied to a field.
fn expected(field: &str) -> Result<Option<Value>, String> {
    let (name, _, default, called) =
        types().into_iter().find(|(name, ..)| field.trim_end_matches(['N', 'D']) == *name).expect("a type");
    match &field[name.len()..] {
        "N" | "ND" => Ok(Some(Value::Null)),
        "D" => Ok(Some(default)),
        _ if called.is_empty() => Ok(None),
        _ => Err(format!("Invalid value: \"null\": spec.{field} in body must be of type {called}: \"null\"")),
    }
}

fn check(field: &str, answer: &Answer) {
    match expected(field) {
        Ok(value) => {
            let object = answer.created();
            assert_eq!(object["spec"].get(field), value.as_ref(), "{field}: {object}");
            let owned = &object["metadata"]["managedFields"][0]["fieldsV1"];
            assert_eq!(*owned, json!({"f:spec": {format!("f:{field}"): {}}}), "{field}");
        }
        Err(why) => {
            let status = answer.refused(422, "Invalid");
            assert!(status["message"].as_str().is_some_and(|text| text.ends_with(&why)), "{field}: {status}");
        }
    }
}

#[tokio::test]
async fn a_null_is_judged_by_nullable_default_and_type() {
    let properties: Map<String, Value> = fields().into_iter().collect();
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    let client = serving(definition("opts", "Opt", schema)).await;
    for (field, _) in fields() {
        check(&field, &apply(&client, "Opt", "opts", json!({&field: null})).await);
        client.delete("/apis/example.com/v1/namespaces/default/opts/a", Value::Null).await;
    }
}

#[tokio::test]
async fn a_null_in_a_required_field_counts_as_given() {
    let client = Client::new().await;
    for (field, schema) in fields() {
        let (kind, plural) = (format!("R{}", field.to_lowercase()), format!("r{}s", field.to_lowercase()));
        let spec = json!({"type": "object", "required": [&field], "properties": {&field: schema, "other": {"type": "string"}}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        client.post(super::DEFINITIONS, definition(&plural, &kind, schema)).await.created();
        let answer = apply(&client, &kind, &plural, json!({&field: null})).await;
        check(&field, &answer);
        if expected(&field).is_ok() {
            // What was taken is taken again.
            apply(&client, &kind, &plural, json!({&field: null, "other": "x"})).await.ok();
        }
        // What is created is read first, and then there is nothing where null is not allowed.
        let object = json!({"metadata": {"name": "b"}, "spec": {&field: null}});
        let answer = client.post(&format!("/apis/example.com/v1/namespaces/default/{plural}"), object).await;
        match field.ends_with('N') || field.ends_with('D') {
            true => drop(answer.created()),
            false => {
                let status = answer.refused(422, "Invalid");
                let why = format!("spec.{field}: Required value");
                assert!(status["message"].as_str().is_some_and(|text| text.ends_with(&why)), "{status}");
            }
        }
    }
}

/// A widget with places for nulls of all kinds.
fn nested() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "keyed": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
        },
        "open": {"type": "object", OPEN: true, "properties": {"in": {"type": "object"}}},
        "bare": {"type": "object"},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, OPEN: true},
    }}}})
}

#[tokio::test]
async fn nulls_below_lists_and_maps_are_judged_too() {
    let client = serving(definition("opts", "Opt", nested())).await;
    let of_type = |field: &str, kind: &str| format!("{field} in body must be of type {kind}: \"null\"");
    for (spec, says) in [
        (json!({"list": [null]}), of_type("spec.list[0]", "string")),
        (json!({"map": {"a": null}}), of_type("spec.map.a", "string")),
        (json!({"keyed": [{"k": "a", "v": null}]}), of_type("spec.keyed[0].v", "integer")),
        (json!({"open": {"in": null}}), of_type("spec.open.in", "object")),
        (json!({"embedded": null}), of_type("spec.embedded", "object")),
    ] {
        let status = apply(&client, "Opt", "opts", spec).await.refused(422, "Invalid");
        assert!(status["message"].as_str().is_some_and(|text| text.contains(&says)), "{status}");
    }
    for (spec, stored) in [
        (json!({"open": {"z": null}}), json!({"open": {"z": null}})),
        // Dropped with what the schema does not name.
        (json!({"bare": {"a": null}}), json!({"bare": {}})),
        (
            json!({"embedded": {"apiVersion": "v1", "kind": "X", "metadata": null}}),
            json!({"embedded": {"apiVersion": "v1", "kind": "X", "metadata": {}}}),
        ),
    ] {
        let object = apply(&client, "Opt", "opts", spec).await.created();
        assert_eq!(object["spec"], stored);
        client.delete("/apis/example.com/v1/namespaces/default/opts/a", Value::Null).await.ok();
    }
}

#[tokio::test]
async fn a_null_over_what_is_there_is_judged_by_who_has_it() {
    let client = serving(definition("opts", "Opt", nested())).await;
    apply(&client, "Opt", "opts", json!({"map": {"k": "v"}, "open": {"z": 1}})).await.created();
    // Whoever gives up what is in a map and says null leaves null.
    for field in ["map", "open"] {
        let mut spec = json!({"map": {"k": "v"}, "open": {"z": 1}});
        spec[field] = Value::Null;
        apply(&client, "Opt", "opts", spec).await.refused(422, "Invalid");
    }
    // What others have in it stays.
    let path = "/apis/example.com/v1/namespaces/default/opts/a?fieldManager=other";
    let object = json!({"apiVersion": "example.com/v1", "kind": "Opt", "metadata": {"name": "a"}, "spec": {"map": null}});
    let both = client.patch("apply", path, object).await.ok();
    assert_eq!(both["spec"]["map"], json!({"k": "v"}));
}
