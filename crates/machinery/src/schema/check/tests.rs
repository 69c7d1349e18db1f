//! What fits, what does not, and how that is told.

use serde_json::{Value, json};

use super::*;
use crate::schema::{Compiler, Definitions, Merge, Presence};

fn schema() -> Node {
    let sources = json!({
        "a.v1.Thing": {"type": "object", "properties": {
            "metadata": {"$ref": "#/$defs/a.v1.Meta", "description": "said"},
            "spec": {"allOf": [{"$ref": "#/$defs/a.v1.Spec"}]},
            "free": {"type": "object"}
        }},
        "a.v1.Meta": {"type": "object", "properties": {
            "name": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}
        }},
        "a.v1.Spec": {"type": "object", "required": ["items"], "properties": {
            "replicas": {"type": "integer", "format": "int32"},
            "paused": {"type": "boolean"},
            "ratio": {"type": "number"},
            "port": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.util.intstr.IntOrString"},
            "size": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            "at": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.Time"},
            "data": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
            "items": {"type": "array", "items": {"$ref": "#/$defs/a.v1.Item"}},
            "words": {"type": "array", "items": {"type": "string"}}
        }},
        "a.v1.Item": {"type": "object", "properties": {
            "name": {"type": "string"},
            "below": {"$ref": "#/$defs/a.v1.Item"}
        }}
    });
    let mut definitions = Definitions::new();
    let mut compiler = Compiler {
        sources: sources.as_object().expect("a map"),
        definitions: &mut definitions,
        atomic: &|_| false,
        merge: &|_, _, _| Merge::PLAIN,
        presence: &|_, _| Presence::Optional,
    };
    compiler.named("a.v1.Thing")
}

fn run(object: Value) -> (Value, Report) {
    let Value::Object(mut object) = object else { panic!("not an object") };
    let report = check(&schema(), &mut object);
    (Value::Object(object), report)
}

const QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

fn faults(spec: Value) -> Vec<String> {
    run(json!({"spec": spec})).1.faults
}

#[test]
fn what_fits_is_left_as_it_is() {
    let object = json!({
        "metadata": {"name": "n", "labels": {"any.key/at-all": "v"}},
        "free": {"null": null, "deep": [{"x": null}]},
        "spec": {
            "replicas": 3, "paused": true, "ratio": 0.5, "port": "http", "size": "1536Mi", "at": "2024-02-29T12:00:00Z",
            "data": {"a": "aGVsbG8=", "b": ""}, "words": ["x"],
            "items": [{"name": "a", "below": {"name": "b", "below": {}}}]
        }
    });
    let (after, report) = run(object.clone());
    assert_eq!(after, object);
    assert_eq!(report, Report::default());
}

#[test]
fn unknown_fields_are_dropped_and_told_with_their_places() {
    let (after, report) = run(json!({
        "bogus": 1, "metadata": {"labels": {"x": "y"}, "names": 2},
        "spec": {"items": [{}, {"nam": "a", "below": {"belo": {}}}]}
    }));
    assert_eq!(after, json!({"metadata": {"labels": {"x": "y"}}, "spec": {"items": [{}, {"below": {}}]}}));
    assert_eq!(report.unknown, ["bogus", "metadata.names", "spec.items[1].below.belo", "spec.items[1].nam"]);
    assert_eq!(report.faults, [""; 0]);
}

#[test]
fn nulls_are_dropped_from_objects_and_become_zero_in_lists_and_maps() {
    let (after, report) = run(json!({
        "metadata": {"name": null, "labels": {"x": null}},
        "spec": {"replicas": null, "items": [null], "words": [null], "data": null}
    }));
    assert_eq!(after, json!({"metadata": {"labels": {"x": ""}}, "spec": {"items": [{}], "words": [""]}}));
    assert_eq!(report, Report::default());
}

#[test]
fn wrong_types_are_told_as_go_tells_them() {
    let cases = [
        (
            json!({"items": "x"}),
            "json: cannot unmarshal string into Go struct field Spec.spec.items of type []v1.Item",
        ),
        (
            json!({"items": [{"name": 5}]}),
            "json: cannot unmarshal number into Go struct field Item.spec.items.name of type string",
        ),
        (
            json!({"items": ["x"]}),
            "json: cannot unmarshal string into Go struct field Spec.spec.items of type v1.Item",
        ),
        (
            json!({"replicas": "3"}),
            "json: cannot unmarshal string into Go struct field Spec.spec.replicas of type int32",
        ),
        (
            json!({"replicas": 3000000000u32}),
            "json: cannot unmarshal number 3000000000 into Go struct field Spec.spec.replicas of type int32",
        ),
        (
            json!({"replicas": 1.5}),
            "json: cannot unmarshal number 1.5 into Go struct field Spec.spec.replicas of type int32",
        ),
        (
            json!({"paused": "true"}),
            "json: cannot unmarshal string into Go struct field Spec.spec.paused of type bool",
        ),
        (
            json!({"words": [true]}),
            "json: cannot unmarshal bool into Go struct field Spec.spec.words of type string",
        ),
        (json!({"data": {"a": "a!=="}}), "illegal base64 data at input byte 1"),
        (json!({"data": {"a": "aGVsbG8"}}), "illegal base64 data at input byte 7"),
        (json!({"size": "many"}), QUANTITY),
        (json!({"size": true}), QUANTITY),
        (json!({"port": true}), "json: cannot unmarshal bool into Go value of type int32"),
        (
            json!({"at": "yesterday"}),
            "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
        ),
    ];
    for (spec, fault) in cases {
        assert_eq!(faults(spec.clone()), [fault], "{spec}");
    }
}

#[test]
fn whole_floats_become_integers() {
    let (after, report) = run(json!({"spec": {"replicas": 3.0, "port": 80.0}}));
    assert_eq!(after, json!({"spec": {"replicas": 3, "port": 80}}));
    assert_eq!(report, Report::default());
}

#[test]
fn quantities_and_times_are_written_in_one_way() {
    for (given, kept) in
        [(json!(1), "1"), (json!("1000m"), "1"), (json!(0.5), "500m"), (json!("1024Mi"), "1Gi")]
    {
        let (object, report) = run(json!({"spec": {"items": [], "size": given}}));
        assert_eq!((object["spec"]["size"].as_str(), report), (Some(kept), Report::default()));
    }
    let (object, _) = run(json!({"spec": {"items": [], "at": "2026-01-01T02:00:00.5+02:00"}}));
    assert_eq!(object["spec"]["at"], "2026-01-01T00:00:00Z");
}
