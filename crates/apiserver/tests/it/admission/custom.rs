//! Webhooks and policies about custom kinds.

use serde_json::{Value, json};

use super::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Where things of a version are.
fn things(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/things")
}

/// A kind in two versions, stored in the second.
fn definition(conversion: Value) -> Value {
    let entry = json!({"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}, "required": ["name"]});
    let spec = json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "colour": {"type": "string", "default": "red"},
            "entries": {
                "type": "array", "items": entry, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            },
            "words": {"type": "array", "items": {"type": "string"}},
        },
    });
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "data": {
        "type": "object", "additionalProperties": {"type": "string"},
    }}}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", false), version("v2", true)], "conversion": conversion,
        },
    })
}

async fn serving(conversion: Value) -> Client {
    let client = Client::new().await;
    client.post(DEFINITIONS, definition(conversion)).await.created();
    client
}

fn thing(version: &str, name: &str, size: i64) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": {"size": size},
    })
}

fn rule_of(version: &str) -> Value {
    json!({"apiGroups": ["example.com"], "apiVersions": [version], "resources": ["things"], "operations": ["*"]})
}

#[tokio::test]
async fn a_webhook_sees_the_version_that_it_names_and_what_it_adds_is_pruned() {
    let client = serving(json!({"strategy": "None"})).await;
    let patch = json!([
        {"op": "add", "path": "/spec/size", "value": 7},
        {"op": "remove", "path": "/spec/colour"},
        {"op": "add", "path": "/spec/unknown", "value": 1},
    ]);
    let reviewer = Reviewer::start(move |request| match request["operation"].as_str() {
        Some("CREATE") => patched(patch.clone()),
        _ => json!({"allowed": true}),
    })
    .await;
    client
        .configure(
            MUTATING,
            "m",
            vec![reviewer.webhook("one.example.com", json!({"rules": [rule_of("v1")]}))],
        )
        .await;
    let made = client.post(&things("v2"), thing("v2", "x", 1)).await.created();
    assert_eq!(
        (&made["spec"], &made["apiVersion"]),
        (&json!({"size": 7, "colour": "red"}), &json!("example.com/v2"))
    );
    client.delete(&format!("{}/x", things("v1")), Value::Null).await.ok();
    let asked = reviewer.asked();
    assert_eq!(
        (&asked[0]["kind"]["version"], &asked[0]["requestKind"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
    assert_eq!(asked[0]["object"]["apiVersion"], "example.com/v1");
    assert_eq!(
        (&asked[1]["object"], &asked[1]["oldObject"]["apiVersion"]),
        (&Value::Null, &json!("example.com/v1"))
    );
}

#[tokio::test]
async fn a_webhook_of_the_exact_version_is_not_asked_about_another() {
    let client = serving(json!({"strategy": "None"})).await;
    let reviewer = Reviewer::agreeable().await;
    let exact = json!({"rules": [rule_of("v1")], "matchPolicy": "Exact"});
    client.configure(VALIDATING, "v", vec![reviewer.webhook("one.example.com", exact)]).await;
    client.post(&things("v2"), thing("v2", "x", 1)).await.created();
    client.post(&things("v1"), thing("v1", "y", 1)).await.created();
    assert_eq!(reviewer.operations(), ["CREATE things y"]);
}

#[tokio::test]
async fn what_is_shown_in_another_version_is_converted_there_and_back() {
    let work = Arc::new(|_: &str, body: &[u8]| {
        let review: Value = serde_json::from_slice(body).expect("JSON");
        let request = &review["request"];
        let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
        // In the first version, sizes are ten times as large.
        let turn = |object: &Value| {
            let mut object = object.clone();
            let size = object["spec"]["size"].as_i64().unwrap_or_default();
            object["spec"]["size"] = if wanted.ends_with("v1") { size * 10 } else { size / 10 }.into();
            object["apiVersion"] = wanted.into();
            object
        };
        let converted: Vec<Value> = request["objects"].as_array().into_iter().flatten().map(turn).collect();
        let response =
            json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted});
        Reply::ok(
            json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response})
                .to_string(),
        )
    });
    let hooks = Hooks::start(&["127.0.0.1"], work).await;
    let config = json!({"url": format!("https://{}/convert", hooks.address), "caBundle": hooks.bundle()});
    let webhook = json!({"clientConfig": config, "conversionReviewVersions": ["v1"]});
    let client = serving(json!({"strategy": "Webhook", "webhook": webhook})).await;
    let reviewer = Reviewer::start(|request| {
        let size = request["object"]["spec"]["size"].as_i64().unwrap_or_default();
        patched(json!([{"op": "replace", "path": "/spec/size", "value": size + 20}]))
    })
    .await;
    client
        .configure(
            MUTATING,
            "m",
            vec![reviewer.webhook("one.example.com", json!({"rules": [rule_of("v1")]}))],
        )
        .await;
    let mut rule = rule_of("v1");
    rule["operations"] = json!(["CREATE"]);
    let constraints = json!({"resourceRules": [rule]});
    client.policy("p", json!({"matchConstraints": constraints, "validations": [{"expression": "object.spec.size < 100"}]})).await;
    let made = client.post(&things("v2"), thing("v2", "x", 3)).await.created();
    assert_eq!(made["spec"]["size"], 5);
    assert_eq!(reviewer.asked()[0]["object"]["spec"]["size"], 30);
    client.post(&things("v2"), thing("v2", "y", 9)).await.refused(422, "Invalid");
}

#[tokio::test]
async fn a_configuration_is_applied_by_the_lists_of_the_schema() {
    let client = serving(json!({"strategy": "None"})).await;
    let applied = |expression: &str| {
        let mutation =
            json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
        json!({"matchConstraints": {"resourceRules": [{
            "apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["things"], "operations": ["CREATE"],
        }]}, "mutations": [mutation]})
    };
    let expression = "Object{
        metadata: Object.metadata{labels: {'a': 'b'}, finalizers: ['example.com/f']},
        spec: Object.spec{entries: [Object.spec.entries{name: 'one', value: '1'}, Object.spec.entries{name: 'two', value: '2'}]}
    }";
    client.policy("p", applied(expression)).await;
    let mut sent = thing("v1", "x", 1);
    sent["spec"]["entries"] = json!([{"name": "two", "value": "0"}, {"name": "three"}]);
    let made = client.post(&things("v1"), sent).await.created();
    assert_eq!(
        (&made["metadata"]["labels"]["a"], &made["metadata"]["finalizers"]),
        (&json!("b"), &json!(["example.com/f"]))
    );
    let entries = made["spec"]["entries"].as_array().expect("entries");
    let value =
        |name: &str| entries.iter().find(|entry| entry["name"] == name).map(|entry| entry["value"].clone());
    assert_eq!((entries.len(), value("one"), value("two")), (3, Some(json!("1")), Some(json!("2"))));
    client.policy("q", applied("Object{spec: Object.spec{words: ['a']}}")).await;
    let refused = client.post(&things("v1"), thing("v1", "y", 1)).await.refused(422, "Invalid");
    assert!(
        message(&refused).contains("may not mutate atomic arrays, maps or structs: .spec.words"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_custom_kind_can_be_a_parameter_and_is_known_to_type_checking() {
    let client = serving(json!({"strategy": "None"})).await;
    let spec = json!({
        "paramKind": {"apiVersion": "example.com/v1", "kind": "Thing"},
        "matchConstraints": {"resourceRules": [rule_of("v1"), rule("", &["configmaps"], &["CREATE"])]},
        "matchConditions": [{"name": "maps", "expression": "request.kind.kind == 'ConfigMap'"}],
        "validations": [
            {"expression": "size(object.data) <= params.spec.size"},
            {"expression": "!has(object.spec) || object.spec.sise == 1"},
            {"expression": "params.spec.colur == 'red' || true"},
        ],
    });
    client.post(&things("v2"), thing("v2", "limit", 1)).await.created();
    let made = client
        .bound("p", spec, json!({"paramRef": {"name": "limit", "parameterNotFoundAction": "Deny"}}))
        .await;
    let warnings = made["status"]["typeChecking"]["expressionWarnings"].as_array().expect("warnings");
    let places: Vec<&str> = warnings.iter().filter_map(|warning| warning["fieldRef"].as_str()).collect();
    assert_eq!(places, ["spec.validations[1].expression", "spec.validations[2].expression"], "{warnings:?}");
    assert!(
        warnings[0]["warning"].as_str().is_some_and(|text| text.starts_with("example.com/v1, Kind=Thing: "))
    );
    client.post(crate::client::CONFIG_MAPS, config("x")).await.created();
    let two = json!({"metadata": {"name": "y"}, "data": {"a": "1", "b": "2"}});
    client.post(crate::client::CONFIG_MAPS, two).await.refused(422, "Invalid");
}
