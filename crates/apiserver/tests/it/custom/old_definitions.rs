//! Definitions in `apiextensions.k8s.io/v1beta1`, as many published manifests still have them.

use serde_json::{Value, json};

use super::{DEFINITIONS, WIDGETS, serving, widget, widgets};
use crate::client::Client;

const OLD_DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";

fn old() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "version": "v1",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "JSONPath": ".spec.size"}],
            "validation": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}},
            }},
        },
    })
}

#[tokio::test]
async fn a_definition_of_old_is_taken_and_stored_as_a_new_one() {
    let client = Client::new().await;
    let created = client.post(OLD_DEFINITIONS, old()).await.created();
    assert_eq!(created["apiVersion"], "apiextensions.k8s.io/v1beta1");
    let stored = client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.ok();
    assert_eq!(stored["apiVersion"], "apiextensions.k8s.io/v1");
    let version = &stored["spec"]["versions"][0];
    assert_eq!(
        (&version["name"], &version["served"], &version["storage"]),
        (&json!("v1"), &json!(true), &json!(true))
    );
    assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".spec.size");
    assert_eq!(version["subresources"], json!({"status": {}}));
    assert_eq!(
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"],
        json!({"type": "integer", "minimum": 1})
    );
    client.post(WIDGETS, widget("a", 1)).await.created();
    client.post(WIDGETS, widget("b", 0)).await.refused(422, "Invalid");
}

#[tokio::test]
async fn a_definition_of_old_without_a_schema_keeps_everything() {
    let client = Client::new().await;
    let mut bare = old();
    bare["spec"].as_object_mut().map(|spec| spec.remove("validation"));
    client.post(OLD_DEFINITIONS, bare).await.created();
    let mut made = widget("a", 1);
    made["anything"] = json!({"goes": [1, 2]});
    assert_eq!(client.post(WIDGETS, made).await.created()["anything"], json!({"goes": [1, 2]}));
}

#[tokio::test]
async fn a_new_definition_is_shown_in_the_old_form() {
    let client = serving(widgets()).await;
    let shown = client.get(&format!("{OLD_DEFINITIONS}/widgets.example.com")).await.ok();
    assert_eq!(shown["apiVersion"], "apiextensions.k8s.io/v1beta1");
    assert_eq!(shown["spec"]["version"], "v1");
    assert_eq!(shown["spec"]["versions"][0]["name"], "v1");
    let list = client.get(OLD_DEFINITIONS).await.ok();
    assert_eq!(list["apiVersion"], "apiextensions.k8s.io/v1beta1");
    assert_eq!(list["items"][0]["spec"]["version"], "v1");
}

#[tokio::test]
async fn a_definition_of_old_is_updated_and_deleted() {
    let client = Client::new().await;
    client.post(OLD_DEFINITIONS, old()).await.created();
    let path = format!("{OLD_DEFINITIONS}/widgets.example.com");
    let shown = client.get(&path).await.ok();
    let again = client.put(&path, shown.clone()).await.ok();
    assert_eq!(
        again["metadata"]["generation"], shown["metadata"]["generation"],
        "what is read can be written back"
    );
    let patch = json!({"spec": {"names": {"shortNames": ["wd"]}}});
    client.patch("merge", &path, patch).await.ok();
    let list = client.get("/apis/example.com/v1").await.ok();
    assert_eq!(list["resources"][0]["shortNames"], json!(["wd"]));
    client.delete(&path, Value::Null).await.ok();
    super::eventually("the definition goes", async || client.get(&path).await.code == 404).await;
}

#[tokio::test]
async fn both_versions_of_definitions_are_discovered_the_new_one_first() {
    let client = Client::new().await;
    let group = client.get("/apis/apiextensions.k8s.io").await.ok();
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(group["versions"][1]["version"], "v1beta1");
    let document = client.get("/openapi/v3/apis/apiextensions.k8s.io/v1beta1").await.ok();
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.CustomResourceDefinition";
    assert!(document["components"]["schemas"][name]["properties"]["spec"].is_object());
}

#[tokio::test]
async fn fields_that_definitions_of_old_do_not_have_are_told() {
    let client = Client::new().await;
    let mut odd = old();
    odd["spec"]["bogus"] = 1.into();
    let refused = client.post(&format!("{OLD_DEFINITIONS}?fieldValidation=Strict"), odd).await;
    let status = refused.refused(400, "BadRequest");
    assert!(
        status["message"].as_str().is_some_and(|text| text.contains("unknown field \"spec.bogus\"")),
        "{status}"
    );
}
