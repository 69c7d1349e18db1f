//! The codes and words with which custom resources are refused, as a real kube-apiserver has them.

use serde_json::{Value, json};

use super::{definition, serving};
use crate::client::{Answer, Client};

const UNCHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
                         correct the existing errors to complete validation";

fn gadgets() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "required": ["size"],
        "x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too big"}],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "name": {"type": "string", "pattern": "^a"},
            "kind": {"type": "string", "enum": ["x"]},
            "one": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
            "two": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
            "map": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
            "letter": {"type": "string", "maxLength": 1},
            "date": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "bare": {"type": "object"},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"in": {"type": "object", "properties": {"x": {"type": "string"}}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "keyed": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
            },
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        },
    }}});
    definition("gadgets", "Gadget", schema)
}

const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

fn gadget(spec: &Value) -> Value {
    let mut whole = json!({"size": 1});
    whole.as_object_mut().expect("an object").extend(spec.as_object().cloned().unwrap_or_default());
    json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": whole})
}

async fn apply(client: &Client, spec: &Value) -> Answer {
    client.patch("apply", &format!("{GADGETS}/a?fieldManager=m"), gadget(spec)).await
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn what_does_not_merge_is_a_failure_that_says_where() {
    let client = serving(gadgets()).await;
    for (spec, why) in [
        (json!({"odd": 1}), ".spec.odd: field not declared in schema"),
        (json!({"size": "a"}), ".spec.size: expected numeric (int or float), got string"),
        (json!({"name": 5}), ".spec.name: expected string, got &value.valueUnstructured{Value:5}"),
        (json!({"bare": "x"}), ".spec.bare: expected map, got &{x}"),
        (json!({"open": {"in": "s"}}), ".spec.open.in: expected map, got &{s}"),
        (json!({"set": ["a", "a"]}), ".spec.set: duplicate entries for key [=\"a\"]"),
        (json!({"keyed": [{"k": "a", "z": 1}]}), ".spec.keyed[k=\"a\"].z: field not declared in schema"),
        (
            json!({"keyed": [{"v": 1}]}),
            ".spec.keyed: element 0: associative list with keys has an element that omits all key fields [\"k\"] (and doesn't have default values for any key fields)",
        ),
        (json!({"embedded": {"odd": 1}}), ".spec.embedded.odd: field not declared in schema"),
        (
            json!({"embedded": {"metadata": {"odd": 1}}}),
            ".spec.embedded.metadata.odd: field not declared in schema",
        ),
    ] {
        let status = apply(&client, &spec).await.refused(500, "");
        let said = "failed to create typed patch object (/a; example.com/v1, Kind=Gadget): ";
        assert_eq!(message(&status), format!("{said}{why}"));
    }
}

#[tokio::test]
async fn what_merges_is_taken_and_what_the_schema_does_not_name_is_dropped() {
    let client = serving(gadgets()).await;
    let spec = json!({"bare": {"a": 1}, "open": {"z": {"y": 1}, "in": {"x": "a", "w": 1}}});
    let object = apply(&client, &spec).await.created();
    assert_eq!(object["spec"]["bare"], json!({}));
    assert_eq!(object["spec"]["open"], json!({"z": {"y": 1}, "in": {"x": "a"}}));
    let owned = &object["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert_eq!(owned["f:bare"], json!({"f:a": {}}));
    assert_eq!(owned["f:open"]["f:in"], json!({"f:w": {}, "f:x": {}}));
}

#[tokio::test]
async fn faults_that_rules_rely_on_keep_them_from_being_checked() {
    let client = serving(gadgets()).await;
    let type_of = |field: &str, kind: &str, found: &str| {
        format!(
            "spec.{field}: Invalid value: \"{found}\": spec.{field} in body must be of type {kind}: \"{found}\""
        )
    };
    for (spec, faults) in [
        (json!({"one": ["a", "b"]}), vec!["spec.one: Too many: 2: must have at most 1 item".to_owned()]),
        (
            json!({"two": ["a", "b", "c"]}),
            vec!["spec.two: Too many: 3: must have at most 2 items".to_owned()],
        ),
        (
            json!({"map": {"a": "", "b": ""}}),
            vec!["spec.map: Too many: 2: must have at most 1 item".to_owned()],
        ),
        (json!({"letter": "ab"}), vec!["spec.letter: Too long: may not be more than 1 byte".to_owned()]),
        (
            json!({"kind": "y", "size": 11}),
            vec!["spec.kind: Unsupported value: \"y\": supported values: \"x\"".to_owned()],
        ),
        (json!({"port": {"a": 1}}), vec![type_of("port", "integer,string", "object")]),
    ] {
        let both = faults.iter().map(String::as_str).chain([UNCHECKED]).collect::<Vec<_>>().join(", ");
        let said = format!("Gadget.example.com \"a\" is invalid: [{both}]");
        assert_eq!(message(&apply(&client, &spec).await.refused(422, "Invalid")), said);
        assert_eq!(message(&client.post(GADGETS, gadget(&spec)).await.refused(422, "Invalid")), said);
    }
    // Others do not.
    for (spec, said) in [
        (json!({"name": "z"}), "spec.name: Invalid value: \"z\": spec.name in body should match '^a'"),
        (
            json!({"name": "z", "size": 11}),
            "[spec.name: Invalid value: \"z\": spec.name in body should match '^a', spec: Invalid value: too big]",
        ),
    ] {
        let status = client.post(GADGETS, gadget(&spec)).await.refused(422, "Invalid");
        assert_eq!(message(&status), format!("Gadget.example.com \"a\" is invalid: {said}"));
    }
}

#[tokio::test]
async fn new_finalizers_without_a_domain_are_warned_of() {
    let client = serving(gadgets()).await;
    let prefer = |name: &str, path: &str| {
        format!(
            "metadata.finalizers: \"{name}\": prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )
    };
    let mut object = gadget(&json!({}));
    object["metadata"]["finalizers"] = json!(["x.io", "foregroundDeletion", "abc", "x.io/y"]);
    let answer = client.post(GADGETS, object).await;
    answer.created();
    assert_eq!(answer.warnings(), [prefer("abc", ""), prefer("x.io", " including a path (/)")]);
    let patch = json!({"metadata": {"finalizers": ["abc", "def"]}});
    let answer = client.patch("merge", &format!("{GADGETS}/a"), patch).await;
    answer.ok();
    assert_eq!(answer.warnings(), [prefer("def", "")]);
}

#[tokio::test]
async fn owners_are_owned_as_a_whole() {
    let client = serving(gadgets()).await;
    let mut object = gadget(&json!({}));
    object["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u1", "controller": true},
        {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "u2"},
    ]);
    let owned = |object: &Value| {
        object["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:ownerReferences"].clone()
    };
    let created = client.post(GADGETS, object.clone()).await.created();
    assert_eq!(owned(&created), json!({".": {}, "k:{\"uid\":\"u1\"}": {}, "k:{\"uid\":\"u2\"}": {}}));
    client.delete(&format!("{GADGETS}/a"), Value::Null).await.ok();
    let applied = client.patch("apply", &format!("{GADGETS}/a?fieldManager=m"), object).await.created();
    assert_eq!(owned(&applied), json!({"k:{\"uid\":\"u1\"}": {}, "k:{\"uid\":\"u2\"}": {}}));
}
