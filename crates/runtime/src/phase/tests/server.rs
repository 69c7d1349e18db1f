//! A real API server, without a network.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    client::Body,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use windlass_access::authn::Peer;
use windlass_apiserver::{ApiServer, Config, admission::User};
use windlass_store::Memory;

#[derive(Clone)]
struct Direct(Arc<ApiServer>, Arc<User>);

impl tower::Service<Request<Body>> for Direct {
    type Response = Response<windlass_apiserver::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Direct(server, user) = self.clone();
        request.extensions_mut().insert(Peer { certificate: Some(user), ..Peer::default() });
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}

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
    let store = Arc::new(Memory::new().expect("a store in memory"));
    let server = ApiServer::start(Config::default(), store).await.expect("the server starts");
    let user = User::new("admin", vec!["system:masters".to_owned()]).authenticated();
    let client = Client::new(Direct(server, Arc::new(user)), "default");
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
