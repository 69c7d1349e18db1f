//! Custom resources: what their definitions promise, through the API.

mod applying;
mod conversion;
mod describing;
mod fields;
mod lifecycle;
mod nulls;
mod objects;
mod old_definitions;
mod several_servers;
mod subresources;
mod versions;
mod words;

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Answer, Client, DEADLINE};

/// Where definitions are.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Where the objects of [`widgets`] in `default` are.
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A definition with one version.
fn definition(plural: &str, kind: &str, schema: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// The schema of widgets.
fn widget_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "colour": {"type": "string", "default": "red", "enum": ["red", "green", "blue"]},
                    "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                    "port": {"x-kubernetes-int-or-string": true},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"},
                },
            },
        },
    })
}

/// A definition of widgets.
pub(crate) fn widgets() -> Value {
    definition("widgets", "Widget", widget_schema())
}

/// A widget of this size.
fn widget(name: &str, size: i64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}})
}

/// A server that serves this definition.
async fn serving(definition: Value) -> Client {
    let client = Client::new().await;
    client.post(DEFINITIONS, definition).await.created();
    client
}

/// A definition, changed by what `change` does to its specification.
fn with(mut definition: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut definition["spec"]);
    definition
}

/// Changes the specification of a definition that is there.
async fn redefine(client: &Client, name: &str, change: impl FnOnce(&mut Value)) -> Answer {
    let path = format!("{DEFINITIONS}/{name}");
    let current = client.get(&path).await.ok();
    client.put(&path, with(current, change)).await
}

/// A condition of a definition.
fn condition(definition: &Value, kind: &str) -> Option<(String, String, String)> {
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let conditions = definition["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some((text(condition, "status"), text(condition, "reason"), text(condition, "message")))
}

/// Asks until the answer is as wanted.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while !is_so().await {
        assert!(tokio::time::Instant::now() < deadline, "{what} does not come to pass");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
