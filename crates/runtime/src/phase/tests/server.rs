//! A real API server, and the kind that these tests have machines for.

use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use windlass_testkit::TestServer;

/// The kind that these tests have machines for.
pub(super) fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("test.windlass.dev", "v1", "Job"), "jobs")
}

/// An administrator of a new server that knows the kind.
pub(super) async fn client() -> Client {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    client_with(json!({"status": {}}), any).await
}

/// The same, of a kind that has these subresources and this status.
pub(super) async fn client_with(subresources: Value, status: Value) -> Client {
    let client = TestServer::start().await.expect("the server starts").client();
    let crds = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobs.test.windlass.dev"},
        "spec": {
            "group": "test.windlass.dev",
            "scope": "Namespaced",
            "names": {"plural": "jobs", "singular": "job", "kind": "Job", "listKind": "JobList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": subresources,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": status}}},
            }],
        },
    });
    let crd: DynamicObject = serde_json::from_value(crd).expect("an object");
    Api::<DynamicObject>::all_with(client.clone(), &crds)
        .create(&PostParams::default(), &crd)
        .await
        .expect("the kind is created");
    let api = jobs(&client);
    super::serving::eventually("the kind is served", || {
        let api = api.clone();
        async move { api.list(&Default::default()).await.is_ok() }
    })
    .await;
    client
}

/// The objects of the kind.
pub(super) fn jobs(client: &Client) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), "default", &resource())
}

/// Creates an object.
pub(super) async fn create(client: &Client, name: &str, spec: Value) {
    let mut object = DynamicObject::new(name, &resource());
    object.data = json!({"spec": spec});
    jobs(client).create(&PostParams::default(), &object).await.expect("it is created");
}
