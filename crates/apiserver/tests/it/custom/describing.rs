//! Discovery, OpenAPI and tables of custom kinds.

use serde_json::{Value, json};

use super::{DEFINITIONS, WIDGETS, definition, redefine, serving, widget, widget_schema, widgets, with};
use crate::client::Client;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn described() -> Value {
    with(widgets(), |spec| {
        spec["names"]["shortNames"] = json!(["wd"]);
        spec["names"]["categories"] = json!(["all", "tools"]);
        spec["versions"][0]["subresources"] = json!({
            "status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"},
        });
    })
}

#[tokio::test]
async fn discovery_names_a_kind_with_everything_it_is_called() {
    let client = serving(described()).await;
    let list = client.get("/apis/example.com/v1").await.ok();
    let resources = list["resources"].as_array().expect("resources");
    let names: Vec<&str> = resources.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["widgets", "widgets/scale", "widgets/status"]);
    let own = &resources[0];
    assert_eq!(own["singularName"], "widget");
    assert_eq!(own["shortNames"], json!(["wd"]));
    assert_eq!(own["categories"], json!(["all", "tools"]));
    assert_eq!(
        own["verbs"],
        json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"])
    );
    assert_eq!(resources[1]["kind"], "Scale");
    let groups = client.get("/apis").await.ok();
    let listed =
        groups["groups"].as_array().into_iter().flatten().find(|group| group["name"] == "example.com");
    assert_eq!(
        listed.map(|group| &group["preferredVersion"]["groupVersion"]),
        Some(&json!("example.com/v1"))
    );
}

#[tokio::test]
async fn aggregated_discovery_changes_its_tag_with_every_kind() {
    let client = Client::new().await;
    let ask = async || client.send("GET", "/apis", &[("accept", AGGREGATED)], "").await;
    let before = ask().await;
    client.post(DEFINITIONS, described()).await.created();
    let after = ask().await;
    assert_ne!(before.header("etag"), after.header("etag"));
    let all = after.ok();
    let group = all["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|group| group["metadata"]["name"] == "example.com");
    let resource = &group.expect("the group")["versions"][0]["resources"][0];
    assert_eq!(resource["resource"], "widgets");
    assert_eq!(resource["scope"], "Namespaced");
    assert_eq!(resource["subresources"].as_array().map(Vec::len), Some(2));
    client.delete(&format!("{DEFINITIONS}/widgets.example.com"), Value::Null).await.ok();
    super::eventually("the kind is gone", async || ask().await.header("etag") == before.header("etag")).await;
}

#[tokio::test]
async fn openapi_v3_has_the_schema_as_it_was_written() {
    let client = serving(described()).await;
    let index = client.get("/openapi/v3").await.ok();
    let url =
        index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().expect("a document").to_owned();
    let document = client.get(&url).await.ok();
    let schemas = &document["components"]["schemas"];
    let own = &schemas["com.example.v1.Widget"];
    assert_eq!(
        own["x-kubernetes-group-version-kind"],
        json!([{"group": "example.com", "version": "v1", "kind": "Widget"}])
    );
    let mut spec = widget_schema()["properties"]["spec"].clone();
    spec["properties"]["port"]["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    assert_eq!(own["properties"]["spec"], spec);
    assert_eq!(
        own["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    let list = &schemas["com.example.v1.WidgetList"];
    assert_eq!(list["properties"]["items"]["items"]["$ref"], "#/components/schemas/com.example.v1.Widget");
    let patch = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    let taken: Vec<&String> = patch["requestBody"]["content"].as_object().expect("forms").keys().collect();
    assert_eq!(
        taken,
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    );
    assert!(
        document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/scale"].is_object()
    );
}

#[tokio::test]
async fn openapi_follows_every_change_and_only_its_own_group() {
    let client = serving(widgets()).await;
    let url = async |path: &str| {
        let index = client.get("/openapi/v3").await.ok();
        index["paths"][path]["serverRelativeURL"].as_str().unwrap_or_default().to_owned()
    };
    let (own, other) = (url("apis/example.com/v1").await, url("apis/apps/v1").await);
    redefine(&client, "widgets.example.com", |spec| {
        spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["new"] =
            json!({"type": "string"});
    })
    .await
    .ok();
    assert_ne!(url("apis/example.com/v1").await, own);
    assert_eq!(url("apis/apps/v1").await, other);
    let document = client.get(&url("apis/example.com/v1").await).await.ok();
    let fields =
        &document["components"]["schemas"]["com.example.v1.Widget"]["properties"]["spec"]["properties"];
    assert_eq!(fields["new"]["type"], "string");
}

#[tokio::test]
async fn swagger_says_of_a_kind_what_it_can() {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {
            "either": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
            "maybe": {"type": "string", "nullable": true},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}},
    });
    let client = serving(definition("widgets", "Widget", schema)).await;
    let document = client.get("/openapi/v2").await.ok();
    let own = &document["definitions"]["com.example.v1.Widget"];
    let fields = &own["properties"]["spec"]["properties"];
    assert_eq!(fields["either"]["oneOf"], Value::Null);
    assert_eq!(fields["either"]["properties"]["a"]["type"], "string");
    assert_eq!(fields["maybe"], json!({}));
    assert_eq!(
        own["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    let protobuf = [("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")];
    let answer = client.send("GET", "/openapi/v2", &protobuf, "").await;
    assert_eq!(answer.code, 200);
    let name = b"com.example.v1.Widget";
    assert!(answer.body.windows(name.len()).any(|window| window == name));
}

#[tokio::test]
async fn openapi_says_what_extensions_imply() {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {
            "colour": {"type": "string"},
            "port": {"x-kubernetes-int-or-string": true},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        }}},
    });
    let client = serving(with(definition("widgets", "Widget", schema), |spec| {
        spec["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
    }))
    .await;
    let v3 = client.get("/openapi/v3/apis/example.com/v1").await.ok()["components"]["schemas"].clone();
    let v2 = client.get("/openapi/v2").await.ok()["definitions"].clone();
    for schemas in [&v2, &v3] {
        for name in ["com.example.v1.Widget", "com.example.v1.WidgetList"] {
            assert_eq!(
                schemas[name]["x-kubernetes-selectable-fields"],
                json!([{"fieldPath": "spec.colour"}])
            );
            let said = schemas[name]["properties"]["apiVersion"]["description"].as_str().unwrap_or_default();
            assert!(
                said.starts_with("APIVersion defines the versioned schema of this representation"),
                "{said}"
            );
        }
    }
    let fields = &v3["com.example.v1.Widget"]["properties"]["spec"]["properties"];
    assert_eq!(fields["template"]["required"], json!(["kind", "apiVersion"]));
    assert_eq!(fields["port"]["anyOf"], json!([{"type": "integer"}, {"type": "string"}]));
    let fields = &v2["com.example.v1.Widget"]["properties"]["spec"]["properties"];
    assert_eq!(fields["port"], json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(
        fields["template"],
        json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
    );
}

#[tokio::test]
async fn swagger_says_nothing_of_a_kind_that_may_hold_anything() {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let client = serving(definition("widgets", "Widget", schema)).await;
    let document = client.get("/openapi/v2").await.ok();
    let kind = json!([{"group": "example.com", "version": "v1", "kind": "Widget"}]);
    assert_eq!(
        document["definitions"]["com.example.v1.Widget"],
        json!({"type": "object", "x-kubernetes-group-version-kind": kind})
    );
}

#[tokio::test]
async fn tables_show_the_columns_of_the_definition() {
    let client = serving(with(widgets(), |spec| {
        spec["versions"][0]["additionalPrinterColumns"] = json!([
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large it is."},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]);
    }))
    .await;
    client.post(WIDGETS, widget("a", 4)).await.created();
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let shown = client.send("GET", WIDGETS, &table, "").await.ok();
    let columns = shown["columnDefinitions"].as_array().expect("columns");
    let priorities: Vec<_> = columns.iter().filter_map(|column| column["priority"].as_i64()).collect();
    assert_eq!(priorities, [0, 0, 0, 1, 0]);
    let cells = shown["rows"][0]["cells"].as_array().expect("cells");
    assert_eq!(
        (&cells[0], &cells[1], &cells[2], &cells[3]),
        (&json!("a"), &json!(4), &Value::Null, &json!("red"))
    );
    assert!(cells[4].as_str().is_some_and(|age| age.ends_with('s')), "{cells:?}");
    assert_eq!(shown["rows"][0]["object"]["metadata"]["name"], "a");
}

#[tokio::test]
async fn new_columns_are_shown_at_once() {
    let client = serving(widgets()).await;
    client.post(WIDGETS, widget("a", 4)).await.created();
    redefine(&client, "widgets.example.com", |spec| {
        spec["versions"][0]["additionalPrinterColumns"] =
            json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    })
    .await
    .ok();
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let shown = client.send("GET", &format!("{WIDGETS}/a"), &table, "").await.ok();
    assert_eq!(shown["rows"][0]["cells"], json!(["a", 4]));
}

/// Definitions with all that schemas may say, and what a real kube-apiserver published of them, but for the words about
/// the fields that every object has.
const PUBLISHED: &str = include_str!("published.json");

/// Takes out the words about the fields that every object and list has.
fn without_words(schema: &mut Value) {
    for field in ["apiVersion", "kind", "metadata", "items"] {
        if let Some(Value::Object(field)) = schema.get_mut("properties").and_then(|all| all.get_mut(field)) {
            field.remove("description");
        }
    }
    match schema {
        Value::Object(map) => map.values_mut().for_each(without_words),
        Value::Array(list) => list.iter_mut().for_each(without_words),
        _ => {}
    }
}

#[tokio::test]
async fn both_documents_say_what_kubernetes_says() {
    let recorded: Value = serde_json::from_str(PUBLISHED).expect("JSON");
    let client = Client::new().await;
    for (plural, schema) in recorded["definitions"].as_object().expect("definitions") {
        let kind = format!("{}{}", plural[..1].to_uppercase(), &plural[1..plural.len() - 1]);
        let one = with(definition(plural, &kind, schema.clone()), |spec| {
            spec["group"] = "oa.io".into();
            if plural == "cthrees" {
                spec["versions"][0]["subresources"] = json!({
                    "status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                });
                spec["versions"][0]["selectableFields"] =
                    json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.l"}]);
            }
        });
        let mut one = one;
        one["metadata"]["name"] = format!("{plural}.oa.io").into();
        client.post(DEFINITIONS, one).await.created();
    }
    let v2 = client.get("/openapi/v2").await.ok()["definitions"].clone();
    let v3 = client.get("/openapi/v3/apis/oa.io/v1").await.ok()["components"]["schemas"].clone();
    for (version, published) in [("v2", v2), ("v3", v3)] {
        for (name, expected) in recorded[version].as_object().expect("schemas") {
            let mut ours = published[name].clone();
            without_words(&mut ours);
            assert_eq!(ours, *expected, "{version} {name}");
        }
    }
}
