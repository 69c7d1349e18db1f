//! Schemas: what is refused, what is dropped, what is filled in.

use serde_json::{Value, json};

use super::{DEFINITIONS, WIDGETS, definition, redefine, serving, widget, widgets};
use crate::client::Client;

fn messages(status: &Value) -> Vec<String> {
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    causes.iter().map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message"))).collect()
}

#[tokio::test]
async fn every_fault_is_told_by_its_field() {
    let client = serving(widgets()).await;
    let mut wrong = widget("a", 0);
    wrong["spec"]["colour"] = "mauve".into();
    wrong["spec"]["parts"] = json!([{"name": 5}]);
    let status = client.post(WIDGETS, wrong).await.refused(422, "Invalid");
    assert_eq!(status["details"]["kind"], "Widget");
    assert_eq!(status["details"]["group"], "example.com");
    let mut found = messages(&status);
    found.sort();
    assert_eq!(
        found,
        [
            "spec.colour: Unsupported value: \"mauve\": supported values: \"red\", \"green\", \"blue\"",
            "spec.parts[0].name: Invalid value: \"integer\": spec.parts[0].name in body must be of type string: \"integer\"",
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ]
    );
    let missing = json!({"metadata": {"name": "a"}, "spec": {}});
    assert_eq!(
        messages(&client.post(WIDGETS, missing).await.refused(422, "Invalid")),
        ["spec.size: Required value"]
    );
}

#[tokio::test]
async fn unknown_fields_are_dropped_with_a_warning() {
    let client = serving(widgets()).await;
    let mut extra = widget("a", 1);
    extra["spec"]["bogus"] = 1.into();
    extra["spec"]["parts"] = json!([{"name": "p", "more": true}]);
    extra["metadata"]["odd"] = "x".into();
    let answer = client.post(WIDGETS, extra).await;
    let created = answer.created();
    assert_eq!(created["spec"], json!({"size": 1, "colour": "red", "parts": [{"name": "p"}]}));
    let mut warnings = answer.warnings();
    warnings.sort();
    assert_eq!(
        warnings,
        [
            "unknown field \"metadata.odd\"",
            "unknown field \"spec.bogus\"",
            "unknown field \"spec.parts[0].more\""
        ]
    );
}

#[tokio::test]
async fn unknown_fields_are_refused_by_whoever_is_strict_and_ignored_by_whoever_is_not() {
    let client = serving(widgets()).await;
    let mut extra = widget("a", 1);
    extra["spec"]["bogus"] = 1.into();
    let refused = client.post(&format!("{WIDGETS}?fieldValidation=Strict"), extra.clone()).await;
    let status = refused.refused(400, "BadRequest");
    assert_eq!(
        status["message"],
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.bogus\""
    );
    let answer = client.post(&format!("{WIDGETS}?fieldValidation=Ignore"), extra).await;
    answer.created();
    assert_eq!(answer.warnings(), [""; 0]);
}

#[tokio::test]
async fn duplicate_fields_are_refused_by_whoever_is_strict() {
    let client = serving(widgets()).await;
    let twice = r#"{"metadata":{"name":"a"},"spec":{"size":1,"size":2}}"#;
    let json = [("content-type", "application/json")];
    let path = format!("{WIDGETS}?fieldValidation=Strict");
    let status = client.send("POST", &path, &json, twice).await.refused(400, "BadRequest");
    assert!(
        status["message"].as_str().is_some_and(|text| text.contains("duplicate field \"spec.size\"")),
        "{status}"
    );
}

#[tokio::test]
async fn what_may_hold_anything_holds_anything() {
    let client = serving(widgets()).await;
    let mut made = widget("a", 1);
    made["spec"]["free"] = json!({"a": {"b": [1, 2, {"c": null}]}});
    made["spec"]["port"] = "http".into();
    let created = client.post(&format!("{WIDGETS}?fieldValidation=Strict"), made.clone()).await.created();
    assert_eq!(created["spec"]["free"], made["spec"]["free"]);
    let patched = client.patch("merge", &format!("{WIDGETS}/a"), json!({"spec": {"port": 80}})).await.ok();
    assert_eq!(patched["spec"]["port"], 80);
    client
        .patch("merge", &format!("{WIDGETS}/a"), json!({"spec": {"port": true}}))
        .await
        .refused(422, "Invalid");
}

#[tokio::test]
async fn faults_that_were_there_before_the_rules_do_not_stand_in_the_way() {
    let client = serving(widgets()).await;
    client.post(WIDGETS, widget("a", 1)).await.created();
    redefine(&client, "widgets.example.com", |spec| {
        spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["minimum"] =
            10.into();
    })
    .await
    .ok();
    let path = format!("{WIDGETS}/a");
    client.patch("merge", &path, json!({"spec": {"colour": "blue"}})).await.ok();
    client.patch("merge", &path, json!({"spec": {"size": 2}})).await.refused(422, "Invalid");
    client.patch("merge", &path, json!({"spec": {"size": 10}})).await.ok();
}

#[tokio::test]
async fn embedded_objects_are_held_to_what_objects_have() {
    let schema = json!({
        "type": "object",
        "properties": {"template": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        }},
    });
    let client = serving(definition("holders", "Holder", schema)).await;
    let path = "/apis/example.com/v1/namespaces/default/holders";
    let holder = |template: Value| json!({"metadata": {"name": "a"}, "template": template});
    client.post(path, holder(json!({"kind": "Pod"}))).await.refused(422, "Invalid");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"x": 1}});
    let created = client.post(path, holder(pod.clone())).await.created();
    assert_eq!(created["template"], pod);
}

#[tokio::test]
async fn defaults_are_filled_in_where_the_parent_is() {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "default": {}, "properties": {
            "mode": {"type": "string", "default": "auto"},
            "items": {"type": "array", "items": {"type": "object", "properties": {"weight": {"type": "integer", "default": 1}}}},
            "note": {"type": "string", "nullable": true, "default": "none"},
        }}},
    });
    let client = serving(definition("modes", "Mode", schema)).await;
    let path = "/apis/example.com/v1/namespaces/default/modes";
    let made = client.post(path, json!({"metadata": {"name": "a"}})).await.created();
    assert_eq!(made["spec"], json!({"mode": "auto", "note": "none"}));
    let given = json!({"metadata": {"name": "b"}, "spec": {"mode": null, "note": null, "items": [{}, {"weight": 2}]}});
    let made = client.post(path, given).await.created();
    assert_eq!(
        made["spec"],
        json!({"mode": "auto", "note": null, "items": [{"weight": 1}, {"weight": 2}]}),
        "null is a value only where it may be one"
    );
}

#[tokio::test]
async fn faults_of_definitions_are_told_by_their_field() {
    let client = Client::new().await;
    let cases = [
        (
            json!({"type": "object", "properties": {"spec": {}}}),
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].type",
        ),
        (
            json!({"type": "object", "properties": {"spec": {"type": "object", "default": 5}}}),
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].default",
        ),
        (
            json!({"type": "object", "properties": {"spec": {"type": "string", "pattern": "("}}}),
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].pattern",
        ),
    ];
    for (schema, field) in cases {
        let status =
            client.post(DEFINITIONS, definition("widgets", "Widget", schema)).await.refused(422, "Invalid");
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        assert!(causes.iter().any(|cause| cause["field"] == field), "{field}: {status}");
    }
    let mut renamed = widgets();
    renamed["metadata"]["name"] = "other.example.com".into();
    let status = client.post(DEFINITIONS, renamed).await.refused(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "metadata.name");
}

#[tokio::test]
async fn protected_groups_need_an_approval() {
    let client = Client::new().await;
    let mut protected = definition("widgets", "Widget", json!({"type": "object"}));
    protected["metadata"]["name"] = "widgets.sample.k8s.io".into();
    protected["spec"]["group"] = "sample.k8s.io".into();
    let status = client.post(DEFINITIONS, protected.clone()).await.refused(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "metadata.annotations[api-approved.kubernetes.io]");
    protected["metadata"]["annotations"] =
        json!({"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1111"});
    client.post(DEFINITIONS, protected).await.created();
}

#[tokio::test]
async fn what_a_definition_is_may_not_change() {
    let client = serving(widgets()).await;
    redefine(&client, "widgets.example.com", |spec| spec["scope"] = "Cluster".into())
        .await
        .refused(422, "Invalid");
    redefine(&client, "widgets.example.com", |spec| spec["names"]["kind"] = "Gadget".into())
        .await
        .refused(422, "Invalid");
    redefine(&client, "widgets.example.com", |spec| spec["versions"][0]["name"] = "v2".into())
        .await
        .refused(422, "Invalid");
}

/// Widgets with rules in CEL.
fn ruled() -> Value {
    definition(
        "widgets",
        "Widget",
        json!({
            "type": "object",
            "properties": {"spec": {
                "type": "object",
                "x-kubernetes-validations": [
                    {"rule": "self.least <= self.most", "message": "the least must not be more than the most"},
                    {"rule": "self.most <= 100", "messageExpression": "'at most 100, not ' + string(self.most)", "fieldPath": ".most"},
                ],
                "properties": {
                    "least": {"type": "integer"},
                    "most": {"type": "integer"},
                    "name": {"type": "string", "maxLength": 63, "x-kubernetes-validations": [
                        {"rule": "self == oldSelf", "message": "it cannot be renamed", "reason": "FieldValueForbidden"},
                    ]},
                },
            }},
        }),
    )
}

fn ruled_widget(least: i64, most: i64) -> Value {
    let mut made = widget("a", 1);
    made["spec"] = json!({"least": least, "most": most, "name": "x"});
    made
}

#[tokio::test]
async fn rules_in_cel_hold_for_objects() {
    let client = serving(ruled()).await;
    let status = client.post(WIDGETS, ruled_widget(5, 4)).await.refused(422, "Invalid");
    assert_eq!(messages(&status), ["spec: Invalid value: the least must not be more than the most"]);
    let status = client.post(WIDGETS, ruled_widget(5, 101)).await.refused(422, "Invalid");
    assert_eq!(messages(&status), ["spec.most: Invalid value: at most 100, not 101"]);
    client.post(WIDGETS, ruled_widget(5, 100)).await.created();
}

#[tokio::test]
async fn rules_in_cel_hold_for_changes() {
    let client = serving(ruled()).await;
    client.post(WIDGETS, ruled_widget(1, 2)).await.created();
    let path = format!("{WIDGETS}/a");
    let status = client.patch("merge", &path, json!({"spec": {"name": "y"}})).await.refused(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueForbidden");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.name");
    client.patch("merge", &path, json!({"spec": {"most": 3}})).await.ok();
}

#[tokio::test]
async fn rules_that_do_not_compile_or_cost_too_much_are_refused_with_the_definition() {
    let client = Client::new().await;
    let with_rule = |rule: &str| {
        let mut made = ruled();
        made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
            [0]["rule"] = rule.into();
        made
    };
    let field = "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
    for (rule, said) in
        [("self.least <= self.absent", "undefined field 'absent'"), ("self.least +", "compilation failed")]
    {
        let status = client.post(DEFINITIONS, with_rule(rule)).await.refused(422, "Invalid");
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["field"], field, "{status}");
        assert!(cause["message"].as_str().is_some_and(|text| text.contains(said)), "{rule}: {status}");
    }
    let costly = definition(
        "widgets",
        "Widget",
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [
                {"rule": "self.all(x, self.all(y, self.all(z, x + y != z)))"},
            ]},
        }}}}),
    );
    let status = client.post(DEFINITIONS, costly).await.refused(422, "Invalid");
    assert!(status["message"].as_str().is_some_and(|text| text.contains("cost")), "{status}");
    // What has not changed is not looked at again.
    client.post(DEFINITIONS, ruled()).await.created();
    redefine(&client, "widgets.example.com", |spec| spec["names"]["shortNames"] = json!(["wd"])).await.ok();
}
