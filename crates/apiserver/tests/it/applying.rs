//! Apply of built-in kinds: the codes and words of refusals, and what strict readers find, as a real kube-apiserver does.

use serde_json::{Value, json};

use super::client::{Answer, CONFIG_MAPS, Client};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d?fieldManager=m";

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap_or_default()
}

async fn yaml(client: &Client, path: &str, text: &str) -> Answer {
    client.send("PATCH", path, &[("content-type", "application/apply-patch+yaml")], text.to_owned()).await
}

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

#[tokio::test]
async fn what_does_not_fit_the_schema_is_a_failure_in_known_words() {
    let client = Client::new().await;
    let container = |fields: Value| json!({"template": {"spec": {"containers": [fields]}}});
    for (spec, why) in [
        (json!({"foo": 1}), ".spec.foo: field not declared in schema"),
        (json!({"replicas": "3"}), ".spec.replicas: expected numeric (int or float), got string"),
        (json!({"paused": {"a": 1}}), ".spec.paused: expected boolean, got &{map[a:1]}"),
        (json!({"selector": [1, "a"]}), ".spec.selector: expected map, got &{[1 a]}"),
        (
            json!({"template": {"spec": {"containers": {"a": "b"}}}}),
            ".spec.template.spec.containers: expected list, got &{map[a:b]}",
        ),
        (
            container(json!({"name": "c", "foo": 1})),
            ".spec.template.spec.containers[name=\"c\"].foo: field not declared in schema",
        ),
        (
            container(json!({"name": "c", "image": 1000000})),
            ".spec.template.spec.containers[name=\"c\"].image: expected string, got &value.valueUnstructured{Value:1000000}",
        ),
        (
            container(json!({"name": "c", "ports": [{"containerPort": "x"}]})),
            ".spec.template.spec.containers[name=\"c\"].ports[containerPort=\"x\",protocol=\"TCP\"].containerPort: expected numeric (int or float), got string",
        ),
        (
            container(json!({"name": "c", "resources": {"limits": {"cpu": {"a": 1}}}})),
            ".spec.template.spec.containers[name=\"c\"].resources.limits.cpu: expected any scalar, got &{map[a:1]}",
        ),
    ] {
        let status = client.patch("apply", DEPLOYMENT, deployment(spec)).await.refused(500, "");
        assert_eq!(
            message(&status),
            format!("failed to create typed patch object (/d; apps/v1, Kind=Deployment): {why}")
        );
    }
}

#[tokio::test]
async fn what_merges_and_is_no_value_of_its_type_is_a_failure_too() {
    let client = Client::new().await;
    let limits = json!({"template": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "abc"}}}]}}});
    for (spec, why) in [
        (json!({"replicas": 1.5}), "cannot convert float64 to int32"),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": {"a": 1}}}}),
            "json: cannot unmarshal object into Go value of type int32",
        ),
        (
            limits,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        let status = client.patch("apply", DEPLOYMENT, deployment(spec)).await.refused(500, "");
        let said = "failed to convert new object (/d; apps/v1, Kind=Deployment) to proper version: unable to convert unstructured object to apps/v1, Kind=Deployment: ";
        assert_eq!(message(&status), format!("{said}{why}"));
    }
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "%%%"}});
    let path = "/api/v1/namespaces/default/secrets/s?fieldManager=m";
    let status = client.patch("apply", path, secret).await.refused(500, "");
    assert!(
        message(&status)
            .ends_with("/v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 0"),
        "{status}"
    );
}

#[tokio::test]
async fn what_is_no_configuration_is_a_bad_request() {
    let client = Client::new().await;
    let unmarshal =
        "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
    for (text, said) in [
        ("[1]".to_owned(), format!("{unmarshal} array into Go value of type map[string]interface {{}}")),
        ("\"x\"".to_owned(), format!("{unmarshal} string into Go value of type map[string]interface {{}}")),
        (String::new(), "invalid object type: /, Kind=".to_owned()),
        (
            "{\"apiVersion\": \"apps/v1\", \"kind\": \"ReplicaSet\"}".to_owned(),
            "invalid object type: apps/v1, Kind=ReplicaSet".to_owned(),
        ),
        (
            deployment(json!({})).to_string().replace("\"name\":\"d\"", "\"name\":\"d\",\"namespace\":\"x\""),
            "the namespace of the provided object does not match the namespace sent on the request"
                .to_owned(),
        ),
    ] {
        let status = yaml(&client, DEPLOYMENT, &text).await.refused(400, "BadRequest");
        assert_eq!(message(&status), said);
    }
    let status = yaml(&client, DEPLOYMENT, "a: b: c").await.refused(400, "BadRequest");
    assert!(message(&status).starts_with("error encoding patch: yaml: "), "{status}");
}

const TWICE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\n  labels:\n    a: b\n    a: c\ndata:\n  x: q\n  x: z\n  x: w\n";
const FOUND: [&str; 3] = [
    "line 7: key \"a\" already set in map",
    "line 10: key \"x\" already set in map",
    "line 11: key \"x\" already set in map",
];

#[tokio::test]
async fn keys_given_twice_are_told_by_line() {
    let client = Client::new().await;
    let path = |more: &str| format!("{CONFIG_MAPS}/cm?fieldManager=m{more}");
    let status = yaml(&client, &path("&fieldValidation=Strict"), TWICE).await.refused(400, "BadRequest");
    let said = "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  ";
    assert_eq!(message(&status), format!("{said}{}", FOUND.join("\n  ")));
    client.get(&format!("{CONFIG_MAPS}/cm")).await.refused(404, "NotFound");
    let warned = yaml(&client, &path(""), TWICE).await;
    assert_eq!(
        (warned.created()["data"].clone(), warned.warnings()),
        (json!({"x": "w"}), FOUND.map(str::to_owned).to_vec())
    );
    let ignored = yaml(&client, &path("&fieldValidation=Ignore"), TWICE).await;
    ignored.ok();
    assert_eq!(ignored.warnings(), [""; 0]);
    // JSON is read as YAML, lines and all.
    let json = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"cm\"},\"data\":{\"x\":\"1\",\n\"x\":\"2\"}}";
    let warned = yaml(&client, &path(""), json).await;
    warned.ok();
    assert_eq!(warned.warnings(), ["line 2: key \"x\" already set in map"]);
    // What does not merge is told first, and nothing else.
    let status =
        yaml(&client, &path("&fieldValidation=Strict"), &format!("{TWICE}foo: 1\n")).await.refused(500, "");
    assert!(message(&status).ends_with(".foo: field not declared in schema"), "{status}");
}

#[tokio::test]
async fn keys_given_twice_in_an_object_of_yaml_are_told_by_line_too() {
    let client = Client::new().await;
    let send = async |query: &str| {
        let headers = [("content-type", "application/yaml")];
        client.send("POST", &format!("{CONFIG_MAPS}{query}"), &headers, TWICE).await
    };
    let status = send("?fieldValidation=Strict").await.refused(400, "BadRequest");
    let said = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  ";
    assert_eq!(message(&status), format!("{said}{}", FOUND.join("\n  ")));
    let warned = send("").await;
    warned.created();
    assert_eq!(warned.warnings(), FOUND.map(str::to_owned).to_vec());
}

#[tokio::test]
async fn keys_given_twice_below_what_is_preserved_are_told_by_line() {
    let client = Client::new().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "opens.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "opens", "kind": "Open"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    client.post(super::custom::DEFINITIONS, definition).await.created();
    let path = "/apis/example.com/v1/namespaces/default/opens/a?fieldManager=m&fieldValidation=Strict";
    let text = "apiVersion: example.com/v1\nkind: Open\nmetadata:\n  name: a\nspec:\n  odd:\n    deep: 1\n  foo: 1\n  foo: 2\n";
    let status = yaml(&client, path, text).await.refused(400, "BadRequest");
    assert!(message(&status).ends_with("\n  line 9: key \"foo\" already set in map"), "{status}");
}

#[tokio::test]
async fn an_entry_without_its_key_counts_as_one_with_an_empty_key() {
    let client = Client::new().await;
    let spec = json!({
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"image": "i"}]}},
    });
    let status = client.patch("apply", DEPLOYMENT, deployment(spec)).await.refused(422, "Invalid");
    assert!(message(&status).contains("spec.template.spec.containers[0].name: Required value"), "{status}");
}

#[tokio::test]
async fn owners_of_built_in_kinds_are_owned_as_a_whole() {
    let client = Client::new().await;
    let owners = json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u1", "controller": true}]);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "ownerReferences": owners}});
    let owned = |object: &Value| {
        object["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:ownerReferences"].clone()
    };
    let created = client.post(CONFIG_MAPS, object.clone()).await.created();
    assert_eq!(owned(&created), json!({".": {}, "k:{\"uid\":\"u1\"}": {}}));
    client.delete(&format!("{CONFIG_MAPS}/c"), Value::Null).await.ok();
    let applied = client.patch("apply", &format!("{CONFIG_MAPS}/c?fieldManager=m"), object).await.created();
    assert_eq!(owned(&applied), json!({"k:{\"uid\":\"u1\"}": {}}));
}
