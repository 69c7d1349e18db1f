//! Which definitions are taken, and what becomes of old ones.

mod legacy;

use serde_json::{Value, json};

use super::*;
use crate::structural::testing::large_definition;

pub(super) fn object(value: Value) -> Object {
    value.as_object().cloned().expect("an object")
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "n": {"type": "integer"}, "s": {"type": "string"}, "f": {"type": "number"},
                        "list": {"type": "array", "items": {"type": "string"}},
                    }},
                    "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
                },
            }}}],
        },
    })
}

/// The definition with something else at a JSON pointer.
fn with(changes: &[(&str, Value)]) -> Object {
    let mut definition = definition();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        match definition.pointer_mut(parent).expect("a parent") {
            Value::Array(list) => match key.parse::<usize>() {
                Ok(index) => list[index] = value.clone(),
                Err(_) => list.push(value.clone()),
            },
            Value::Object(map) if *value == Value::Null => drop(map.remove(key)),
            other => other[key] = value.clone(),
        }
    }
    object(definition)
}

pub(super) fn said(errors: &Errors) -> Vec<String> {
    let cut = |text: String| text.split(" (e.g.").next().unwrap_or_default().to_owned();
    errors.list().iter().map(|error| cut(error.to_string())).collect()
}

fn faults(definition: &Object) -> Vec<String> {
    let mut errors = Errors::new();
    let schemas = validate(definition, &mut errors);
    if errors.is_empty() {
        assert!(!schemas.is_empty() && schemas.iter().all(Option::is_some));
    }
    said(&errors)
}

fn update_faults(new: &Object, old: &Object) -> Vec<String> {
    let mut errors = Errors::new();
    validate_update(new, old, &mut errors);
    said(&errors)
}

#[track_caller]
fn check(changes: &[(&str, Value)], expected: &[&str]) {
    assert_eq!(faults(&with(changes)), expected, "{changes:?}");
}

#[test]
fn a_plain_definition_is_taken() {
    check(&[], &[]);
    assert_eq!(faults(&large_definition("example.com", 3, 100_000)), [""; 0]);
}

#[test]
fn names_are_dns_labels_and_make_up_the_name() {
    const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
    check(
        &[("/metadata/name", json!("gadgets.example.com"))],
        &[r#"metadata.name: Invalid value: "gadgets.example.com": must be spec.names.plural+"."+spec.group"#],
    );
    let names = |changes: &[(&str, Value)], faults: &[&str]| check(changes, faults);
    names(
        &[("/spec/names/singular", json!("Widget"))],
        &[&format!(r#"spec.names.singular: Invalid value: "Widget": {LABEL}"#)],
    );
    names(
        &[("/spec/names/kind", json!("Wid_get"))],
        &[&format!(
            r#"spec.names.kind: Invalid value: "Wid_get": may have mixed case, but should otherwise match: {LABEL}"#
        )],
    );
    names(
        &[("/spec/names/listKind", json!("Widget"))],
        &[r#"spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same"#],
    );
    names(&[("/spec/names/singular", Value::Null)], &["spec.names.singular: Required value"]);
    names(&[("/spec/names/kind", json!(""))], &["spec.names.kind: Required value"]);
    names(
        &[("/spec/names/shortNames", json!(["w", "W"]))],
        &[&format!(r#"spec.names.shortNames[1]: Invalid value: "W": {LABEL}"#)],
    );
    names(
        &[("/spec/names/categories", json!(["all", 1]))],
        &[&format!(r#"spec.names.categories[1]: Invalid value: "": {LABEL}"#)],
    );
}

#[test]
fn the_group_is_a_domain_and_the_scope_is_known() {
    let named = |group: &str| {
        vec![("/spec/group", json!(group)), ("/metadata/name", json!(format!("widgets.{group}")))]
    };
    check(
        &named("example"),
        &[r#"spec.group: Invalid value: "example": should be a domain with at least one dot"#],
    );
    check(&named(""), &["spec.group: Required value"]);
    let upper = faults(&with(&named("Example.com")));
    assert!(
        upper[0].starts_with(r#"spec.group: Invalid value: "Example.com": a lowercase RFC 1123 subdomain"#),
        "{upper:?}"
    );
    check(&[("/spec/scope", Value::Null)], &["spec.scope: Required value"]);
    check(
        &[("/spec/scope", json!("World"))],
        &[r#"spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced""#],
    );
    let mut errors = Errors::new();
    validate(&Object::new(), &mut errors);
    assert!(said(&errors).contains(&"spec: Required value".to_owned()));
}

#[test]
fn exactly_one_version_is_stored() {
    let version = |name: &str, storage: bool| {
        let mut version = definition()["spec"]["versions"][0].clone();
        version["name"] = name.into();
        version["storage"] = storage.into();
        version
    };
    let ends = |versions: Value, expected: &[&str]| {
        let found = faults(&with(&[("/spec/versions", versions)]));
        let details: Vec<&str> =
            found.iter().map(|fault| fault.rsplit(": ").next().unwrap_or_default()).collect();
        assert_eq!(details, expected, "{found:?}");
        assert!(found.iter().all(|fault| fault.len() < 3000));
    };
    ends(json!([version("v1", true), version("v2", false)]), &[]);
    ends(
        json!([version("v1", true), version("v2", true)]),
        &["must have exactly one version marked as storage version"],
    );
    ends(json!([version("v1", false)]), &["must have exactly one version marked as storage version"]);
    ends(json!([]), &["must have exactly one version marked as storage version"]);
    ends(json!([version("v1", true), version("v1", false)]), &["must contain unique version names"]);
    check(
        &[("/spec/versions/0/served", Value::Null), ("/spec/versions/0/storage", json!("yes"))],
        &[
            "spec.versions[0].served: Required value",
            r#"spec.versions[0].storage: Invalid value: "yes": must be a boolean"#,
            &faults(&with(&[
                ("/spec/versions/0/served", Value::Null),
                ("/spec/versions/0/storage", json!("yes")),
            ]))[2],
        ],
    );
}

#[test]
fn versions_have_schemas() {
    check(
        &[("/spec/versions/0/schema", Value::Null)],
        &["spec.versions[0].schema.openAPIV3Schema: Required value"],
    );
    check(
        &[("/spec/versions/0/schema/openAPIV3Schema/properties/spec/type", Value::Null)],
        &[
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields",
        ],
    );
    check(
        &[("/spec/versions/0/schema/openAPIV3Schema/nullable", json!(true))],
        &["spec.versions[0].schema.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root"],
    );
    // Where the status is written by itself, there can be nothing at the root that is about all of an object.
    let any_of = ("/spec/versions/0/schema/openAPIV3Schema/anyOf", json!([{"required": ["spec"]}]));
    check(std::slice::from_ref(&any_of), &[]);
    let found = faults(&with(&[any_of, ("/spec/versions/0/subresources", json!({"status": {}}))]));
    assert!(
        found[0]
            .ends_with("fields are allowed at the root of the schema if the status subresource is enabled"),
        "{found:?}"
    );
    check(&[("/spec/versions/0/subresources", json!({"status": {}}))], &[]);
}

#[test]
fn only_deprecated_versions_have_warnings() {
    let deprecated = ("/spec/versions/0/deprecated", json!(true));
    let warning = |text: &str| ("/spec/versions/0/deprecationWarning", json!(text));
    check(&[deprecated.clone(), warning("use v2")], &[]);
    check(
        &[warning("use v2")],
        &[
            r#"spec.versions[0].deprecationWarning: Invalid value: "use v2": can only be set for deprecated versions"#,
        ],
    );
    check(
        &[deprecated.clone(), warning("")],
        &[r#"spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string"#],
    );
    check(
        &[deprecated.clone(), warning("a\nb")],
        &[
            r#"spec.versions[0].deprecationWarning: Invalid value: "a\nb": must only contain printable UTF-8 characters; non-printable character found at index 1"#,
        ],
    );
    let long = faults(&with(&[deprecated, warning(&"x".repeat(257))]));
    assert!(long[0].ends_with("must be <= 256 characters long"), "{long:?}");
}

#[test]
fn scale_paths_lead_below_spec_and_status() {
    let scale = |spec: &str, status: &str, selector: &str| {
        let scale =
            json!({"specReplicasPath": spec, "statusReplicasPath": status, "labelSelectorPath": selector});
        vec![("/spec/versions/0/subresources", json!({"scale": scale}))]
    };
    let place = "spec.versions[0].subresources.scale";
    check(&scale(".spec.n", ".status.n", ".status.selector"), &[]);
    check(&scale(".spec.n", ".status.n", ""), &[]);
    check(
        &scale("", "status.n", ".metadata.x"),
        &[
            &format!("{place}.specReplicasPath: Required value"),
            &format!(
                r#"{place}.statusReplicasPath: Invalid value: "status.n": must be a simple json path starting with ."#
            ),
            &format!(
                r#"{place}.labelSelectorPath: Invalid value: ".metadata.x": should be a json path under either .spec or .status"#
            ),
        ],
    );
    check(
        &scale(".status.n", ".spec.n", ""),
        &[
            &format!(
                r#"{place}.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec"#
            ),
            &format!(
                r#"{place}.statusReplicasPath: Invalid value: ".spec.n": should be a json path under .status"#
            ),
        ],
    );
}

#[test]
fn columns_have_a_name_a_type_and_a_path() {
    let column = |column: Value| vec![("/spec/versions/0/additionalPrinterColumns", json!([column]))];
    let place = "spec.versions[0].additionalPrinterColumns[0]";
    check(&column(json!({"name": "N", "type": "integer", "format": "int32", "jsonPath": ".spec.n"})), &[]);
    check(
        &column(json!({})),
        &[
            &format!("{place}.name: Required value"),
            &format!("{place}.type: Required value: must be one of boolean,date,integer,number,string"),
            &format!("{place}.jsonPath: Required value"),
        ],
    );
    check(
        &column(json!({"name": "N", "type": "text", "format": "odd", "jsonPath": "spec.n"})),
        &[
            &format!(
                r#"{place}.type: Invalid value: "text": must be one of boolean,date,integer,number,string"#
            ),
            &format!(
                r#"{place}.format: Invalid value: "odd": must be one of byte,date,date-time,double,float,int32,int64,password"#
            ),
            &format!(
                r#"{place}.jsonPath: Invalid value: "spec.n": must be a simple json path starting with ."#
            ),
        ],
    );
}

#[test]
fn selectable_fields_are_plain_fields_of_simple_types() {
    let fields = |paths: &[&str]| {
        let fields: Vec<Value> = paths.iter().map(|path| json!({"jsonPath": path})).collect();
        vec![("/spec/versions/0/selectableFields", Value::from(fields))]
    };
    let place = |index: usize| format!("spec.versions[0].selectableFields[{index}].jsonPath");
    check(&fields(&[".spec.n", ".spec.s"]), &[]);
    check(
        &fields(&["", ".spec.f", ".spec.absent", ".spec.list[0]", ".spec.n", ".spec.n"]),
        &[
            &format!("{}: Required value", place(0)),
            &format!(
                r#"{}: Invalid value: ".spec.f": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#,
                place(1)
            ),
            &format!(
                r#"{}: Invalid value: ".spec.absent": is an invalid path: does not refer to a valid field"#,
                place(2)
            ),
            &format!(
                r#"{}: Invalid value: ".spec.list[0]": is an invalid path: array notation is not allowed"#,
                place(3)
            ),
            &format!(r#"{}: Duplicate value: ".spec.n""#, place(5)),
        ],
    );
    let mut many = definition();
    let properties: Object = (0..9).map(|n| (format!("s{n}"), json!({"type": "string"}))).collect();
    many["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        properties.into();
    many["spec"]["versions"][0]["selectableFields"] =
        (0..9).map(|n| json!({"jsonPath": format!(".spec.s{n}")})).collect();
    assert_eq!(
        faults(&object(many)),
        ["spec.versions[0].selectableFields: Too many: 9: must have at most 8 items"]
    );
}

#[test]
fn conversion_by_webhook_needs_to_know_whom_to_call() {
    let conversion = |value: Value| vec![("/spec/conversion", value)];
    let webhook = |client: Value| {
        conversion(json!({"strategy": "Webhook", "webhook": {
            "clientConfig": client, "conversionReviewVersions": ["v1"],
        }}))
    };
    check(&conversion(json!({"strategy": "None"})), &[]);
    check(&webhook(json!({"url": "https://example.com/convert"})), &[]);
    check(&webhook(json!({"service": {"name": "a", "namespace": "b", "path": "/c/d", "port": 443}})), &[]);
    check(&conversion(json!({})), &["spec.conversion.strategy: Required value"]);
    check(
        &conversion(json!({"strategy": "Magic"})),
        &[r#"spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook""#],
    );
    check(
        &conversion(json!({"strategy": "None", "webhook": {}})),
        &["spec.conversion.webhook: Forbidden: should not be set when strategy is not set to Webhook"],
    );
    check(
        &conversion(json!({"strategy": "Webhook"})),
        &[
            "spec.conversion.webhook.clientConfig: Required value: required when strategy is set to Webhook",
            "spec.conversion.webhook.conversionReviewVersions: Required value",
        ],
    );
    check(
        &webhook(json!({})),
        &["spec.conversion.webhook.clientConfig: Required value: exactly one of url or service is required"],
    );
    check(
        &webhook(json!({"url": "http://u@h/?q#f"})),
        &[
            r#"spec.conversion.webhook.clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
            r#"spec.conversion.webhook.clientConfig.url: Invalid value: "u": user information is not permitted in the URL"#,
            r#"spec.conversion.webhook.clientConfig.url: Invalid value: "f": fragments are not permitted in the URL"#,
            r#"spec.conversion.webhook.clientConfig.url: Invalid value: "q": query parameters are not permitted in the URL"#,
        ],
    );
    let found = faults(&with(&webhook(json!({"service": {"path": "a//B", "port": 0}}))));
    assert_eq!(found.len(), 4, "{found:?}");
    check(
        &conversion(json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {"url": "https://example.com"}, "conversionReviewVersions": ["v2", "v2"],
        }})),
        &[
            r#"spec.conversion.webhook.conversionReviewVersions[1]: Invalid value: "v2": duplicate version"#,
            r#"spec.conversion.webhook.conversionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1"#,
        ],
    );
}

fn protected(annotation: Option<&str>) -> Object {
    let mut changes =
        vec![("/spec/group", json!("sample.k8s.io")), ("/metadata/name", json!("widgets.sample.k8s.io"))];
    changes.extend(annotation.map(|text| ("/metadata/annotations", json!({APPROVED: text}))));
    with(&changes)
}

#[test]
fn kinds_in_protected_groups_are_approved() {
    for (group, expected) in [
        ("k8s.io", true),
        ("a.k8s.io", true),
        ("kubernetes.io", true),
        ("a.b.kubernetes.io", true),
        ("ak8s.io", false),
        ("k8s.io.example.com", false),
        ("example.com", false),
    ] {
        assert_eq!(is_protected(group), expected, "{group}");
    }
    assert_eq!(faults(&protected(Some("https://github.com/kubernetes/enhancements/pull/1"))), [""; 0]);
    assert_eq!(faults(&protected(Some("unapproved, experimental"))), [""; 0]);
    let missing = faults(&protected(None));
    assert!(
        missing[0].starts_with(r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io""#),
        "{missing:?}"
    );
    for text in ["yes", "/path", "mailto:x"] {
        let invalid = faults(&protected(Some(text)));
        assert!(
            invalid[0].starts_with("metadata.annotations[api-approved.kubernetes.io]: Invalid value: "),
            "{invalid:?}"
        );
    }
    // What was not approved before is not asked for it now.
    assert_eq!(update_faults(&protected(None), &protected(None)), [""; 0]);
    assert_eq!(update_faults(&protected(None), &protected(Some("unapproved"))).len(), 1);
}

#[test]
fn what_objects_are_stored_by_cannot_change() {
    let established = (
        "/status",
        json!({
            "conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"],
        }),
    );
    let old = with(std::slice::from_ref(&established));
    let change = |pointer: &'static str, value: &str| with(&[established.clone(), (pointer, json!(value))]);
    assert_eq!(update_faults(&old, &old), [""; 0]);
    for (pointer, value, fault) in [
        ("/spec/scope", "Cluster", r#"spec.scope: Invalid value: "Cluster": field is immutable"#),
        ("/spec/names/kind", "Gadget", r#"spec.names.kind: Invalid value: "Gadget": field is immutable"#),
        (
            "/spec/names/plural",
            "gadgets",
            r#"spec.names.plural: Invalid value: "gadgets": field is immutable"#,
        ),
        ("/spec/group", "other.com", r#"spec.group: Invalid value: "other.com": field is immutable"#),
    ] {
        assert_eq!(update_faults(&change(pointer, value), &old), [fault], "{pointer}");
    }
    // Until it is established, only what makes up the name is fixed.
    assert_eq!(update_faults(&with(&[("/spec/scope", json!("Cluster"))]), &with(&[])), [""; 0]);
}

#[test]
fn versions_that_objects_may_be_stored_in_stay() {
    let stored = |versions: Value| with(&[("/status", json!({"storedVersions": versions}))]);
    let of = |definition: &Object| update_faults(definition, &with(&[]));
    assert_eq!(of(&stored(json!(["v1"]))), [""; 0]);
    assert_eq!(
        of(&stored(json!([]))),
        ["status.storedVersions: Invalid value: []: must have at least one stored version"]
    );
    let missing = of(&stored(json!(["v1", "v0"])));
    assert!(
        missing[0].starts_with(r#"status.storedVersions[1]: Invalid value: "v0": missing from spec.versions; v0 was previously a storage version"#),
        "{missing:?}"
    );
    let other = of(&stored(json!(["v0"])));
    assert_eq!(other[0], r#"status.storedVersions: Invalid value: ["v0"]: must have the storage version v1"#);
}

#[test]
fn unknown_fields_cannot_be_kept_everywhere() {
    let keeps = with(&[("/spec/preserveUnknownFields", json!(true))]);
    let fault = "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    assert_eq!(faults(&keeps), [fault]);
    assert_eq!(update_faults(&keeps, &with(&[])), [fault]);
    assert_eq!(update_faults(&keeps, &keeps), [""; 0]);
    check(&[("/spec/preserveUnknownFields", json!(false))], &[]);
}

#[test]
fn defaults_make_a_short_definition_whole() {
    let mut short = with(&[
        ("/spec/names", json!({"plural": "widgets", "kind": "Widget"})),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook", "webhook": {
                "clientConfig": {"service": {"name": "a", "namespace": "b"}}, "conversionReviewVersions": ["v1"],
            }}),
        ),
    ]);
    set_defaults(&mut short);
    assert_eq!(
        short["spec"]["names"],
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"})
    );
    assert_eq!(short["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"], 443);
    assert_eq!(short["status"], json!({"storedVersions": ["v1"]}));
    assert_eq!(faults(&short), [""; 0]);
    let before = short.clone();
    set_defaults(&mut short);
    assert_eq!(short, before);

    let mut plain = with(&[]);
    set_defaults(&mut plain);
    assert_eq!(plain["spec"]["conversion"], json!({"strategy": "None"}));

    let mut moved =
        with(&[("/spec/versions/0/name", json!("v2")), ("/status", json!({"storedVersions": ["v1"]}))]);
    set_defaults(&mut moved);
    assert_eq!(moved["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn any_json_can_be_a_definition() {
    let template = Value::Object(large_definition("example.com", 1, 0));
    fn spoil(random: &mut fastrand::Rng, value: &mut Value) {
        let n_below = match value {
            Value::Object(map) => map.len(),
            Value::Array(list) => list.len(),
            _ => 0,
        };
        if n_below == 0 || random.u8(..6) == 0 {
            let junk =
                [json!(null), json!(1), json!("x"), json!([1]), json!({"a": {}}), json!(true), json!("")];
            *value = junk[random.usize(..junk.len())].clone();
            return;
        }
        let at = random.usize(..n_below);
        match value {
            Value::Object(map) => spoil(random, map.values_mut().nth(at).expect("in range")),
            Value::Array(list) => spoil(random, &mut list[at]),
            _ => {}
        }
    }
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut spoiled = template.clone();
        for _ in 0..random.usize(1..4) {
            spoil(&mut random, &mut spoiled);
        }
        let Value::Object(mut spoiled) = spoiled else { continue };
        let mut errors = Errors::new();
        validate_update(&spoiled, &object(template.clone()), &mut errors);
        validate(&spoiled, &mut errors);
        to_v1beta1(&mut spoiled);
        from_v1beta1(&mut spoiled, &mut errors);
        set_defaults(&mut spoiled);
        validate(&spoiled, &mut errors);
        assert!(errors.list().len() <= 100, "seed {seed}");
    }
}
