//! Definitions of `v1beta1`.

use serde_json::{Value, json};

use super::{object, said};
use crate::{
    definition::{from_v1beta1, set_defaults, to_v1beta1, validate},
    field::Errors,
    object::Object,
    structural::Schema,
};

fn old(spec: Value) -> Object {
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": {"plural": "widgets", "kind": "Widget"}},
    });
    definition["spec"].as_object_mut().expect("a map").extend(object(spec));
    object(definition)
}

/// The definition in `v1`, which must be one that is taken, and the schemas of its versions.
#[track_caller]
fn converted(mut definition: Object) -> (Object, Vec<Schema>) {
    let mut errors = Errors::new();
    from_v1beta1(&mut definition, &mut errors);
    set_defaults(&mut definition);
    let schemas = validate(&definition, &mut errors);
    assert_eq!(said(&errors), [""; 0], "{definition:?}");
    assert_eq!(definition["apiVersion"], "apiextensions.k8s.io/v1");
    (definition, schemas.into_iter().flatten().collect())
}

#[test]
fn a_definition_without_a_schema_takes_anything() {
    let (new, schemas) = converted(old(json!({"version": "v1"})));
    assert_eq!(new["spec"]["scope"], "Namespaced");
    assert_eq!(new["spec"].get("version"), None);
    assert_eq!(
        new["spec"]["versions"],
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}])
    );
    let given = object(json!({"spec": {"cidr": "192.168.0.0/16", "deep": {"er": [1]}}}));
    let mut pruned = given.clone();
    assert_eq!(schemas[0].prune(&mut pruned, None), [""; 0]);
    assert_eq!(pruned, given);
}

#[test]
fn what_is_said_once_holds_for_every_version() {
    let (new, _) = converted(old(json!({
        "version": "v1",
        "versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v1beta1", "served": true, "storage": false}],
        "validation": {"openAPIV3Schema": {"properties": {"spec": {"properties": {"n": {"type": "integer"}}}}}},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "N", "type": "integer", "JSONPath": ".spec.n"}],
    })));
    for version in new["spec"]["versions"].as_array().expect("a list") {
        assert_eq!(version["subresources"], json!({"status": {}}));
        assert_eq!(
            version["additionalPrinterColumns"],
            json!([{"name": "N", "type": "integer", "jsonPath": ".spec.n"}])
        );
        assert!(version["schema"]["openAPIV3Schema"].is_object());
    }
    for key in ["validation", "subresources", "additionalPrinterColumns", "preserveUnknownFields"] {
        assert_eq!(new["spec"].get(key), None, "{key}");
    }
}

#[test]
fn old_schemas_become_structural_and_still_validate() {
    let (_, schemas) = converted(old(json!({
        "version": "v1",
        "validation": {"openAPIV3Schema": {
            "description": "d",
            "properties": {
                "apiVersion": {"description": "d"},
                "metadata": {"properties": {"labels": {"type": "object"}}},
                "spec": {
                    "required": ["n"],
                    "properties": {
                        "n": {"type": "integer", "minimum": 1},
                        "free": {},
                        "list": {"items": {"properties": {"a": {"type": "string"}}}},
                        "bare": {"type": "array"},
                        "port": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                        "map": {"additionalProperties": {"type": "string"}},
                        "closed": {"type": "object", "additionalProperties": false},
                        "typed": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["x"]}]},
                        "either": {"properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                            "oneOf": [{"required": ["a"], "description": "a"}, {"required": ["b"]}]},
                        "none": null,
                    },
                },
            },
        }},
    })));
    let faults = |spec: Value| {
        let mut errors = Errors::new();
        let mut object = object(json!({"metadata": {"labels": {"a": "b"}}, "spec": spec}));
        let given = object.clone();
        schemas[0].prune(&mut object, None);
        assert_eq!(object, given);
        schemas[0].validate(&object, None, &mut errors);
        said(&errors)
    };
    let valid = json!({
        "n": 1, "free": [{"x": 1}], "list": [{"a": "x", "unknown": 1}], "bare": [{"y": 1}], "port": "http", "map": {"k": "v"},
        "closed": {"z": 1}, "typed": 5, "either": {"a": "x"}, "none": {"a": {"b": 1}}, "unknown": {"deep": 1},
    });
    assert_eq!(faults(valid), [""; 0]);
    assert_eq!(
        faults(json!({"n": 0})),
        ["spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"]
    );
    assert_eq!(faults(json!({})), ["spec.n: Required value"]);
    assert_eq!(faults(json!({"n": 1, "port": true})).len(), 3);
    assert_eq!(
        faults(json!({"n": 1, "either": {"a": "x", "b": "y"}})),
        [
            r#"spec.either: Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
}

#[test]
fn a_definition_that_prunes_must_have_a_structural_schema() {
    let structural =
        json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}});
    let (_, schemas) =
        converted(old(json!({"version": "v1", "preserveUnknownFields": false, "validation": structural})));
    let mut object = object(json!({"spec": {"a": 1}}));
    assert_eq!(schemas[0].prune(&mut object, None), ["spec.a"]);
    let mut loose =
        old(json!({"version": "v1", "preserveUnknownFields": false, "validation": {"openAPIV3Schema": {}}}));
    let mut errors = Errors::new();
    from_v1beta1(&mut loose, &mut errors);
    set_defaults(&mut loose);
    validate(&loose, &mut errors);
    assert_eq!(
        said(&errors),
        ["spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root"]
    );
}

#[test]
fn what_is_said_twice_is_refused() {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let mut twice = old(json!({
        "version": "v2", "validation": schema,
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
    }));
    let mut errors = Errors::new();
    from_v1beta1(&mut twice, &mut errors);
    assert_eq!(
        said(&errors),
        [
            r#"spec.version: Invalid value: "v2": must match the first version in spec.versions"#,
            "spec.validation: Forbidden: top-level and per-version schemas are mutually exclusive",
        ]
    );
}

#[test]
fn webhooks_move_and_protected_groups_are_excused() {
    let mut spec = json!({
        "version": "v1", "group": "sample.k8s.io", "preserveUnknownFields": false,
        "validation": {"openAPIV3Schema": {"type": "object"}},
        "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://example.com"}},
    });
    let mut definition = old(spec.clone());
    definition["metadata"]["name"] = "widgets.sample.k8s.io".into();
    let (new, _) = converted(definition);
    assert_eq!(
        new["spec"]["conversion"],
        json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {"url": "https://example.com"}, "conversionReviewVersions": ["v1beta1"],
        }})
    );
    assert_eq!(
        new["metadata"]["annotations"]["api-approved.kubernetes.io"],
        "unapproved, was defined through v1beta1"
    );
    spec["conversion"] = json!({"strategy": "None"});
    let mut definition = old(spec);
    definition["metadata"] = json!({"name": "widgets.sample.k8s.io", "annotations": {"api-approved.kubernetes.io": "https://a.b/c"}});
    let (new, _) = converted(definition);
    assert_eq!(new["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(new["metadata"]["annotations"]["api-approved.kubernetes.io"], "https://a.b/c");
}

#[test]
fn definitions_can_be_read_as_they_were_written() {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}});
    let written = old(json!({
        "scope": "Namespaced", "version": "v1", "preserveUnknownFields": false,
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v1beta1", "served": true, "storage": false}],
        "validation": schema,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "N", "type": "integer", "JSONPath": ".spec.n"}],
        "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://example.com"}, "conversionReviewVersions": ["v1"]},
    }));
    let (mut new, _) = converted(written.clone());
    new.remove("status");
    to_v1beta1(&mut new);
    assert_eq!(new, written);

    // What differs between versions stays with them.
    let mut differing = object(json!({"spec": {"versions": [
        {"name": "v1", "schema": schema, "additionalPrinterColumns": [{"jsonPath": ".a"}]},
        {"name": "v2", "schema": {}, "additionalPrinterColumns": [{"jsonPath": ".a"}]},
    ]}}));
    to_v1beta1(&mut differing);
    assert_eq!(
        differing["spec"],
        json!({
            "version": "v1", "preserveUnknownFields": false, "additionalPrinterColumns": [{"JSONPath": ".a"}],
            "versions": [{"name": "v1", "schema": schema}, {"name": "v2", "schema": {}}],
        })
    );
}
