//! Kinds that are not there yet, go away and come back.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use windlass_runtime::{Action, Context, Key, Manager, Scope};
use windlass_testkit::TestServer;

use crate::{DEADLINE, Running, eventually};

const WAITS: &str = "waiting for a kind that does not exist";

fn definition() -> CustomResourceDefinition {
    let definition = json!({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "boats", "kind": "Boat"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    serde_json::from_value(definition).expect("a definition")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_waited_for_stops_its_controller_when_it_goes_and_restarts_it_when_it_comes_back() {
    let server = TestServer::start().await.expect("a server");
    let boats =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Boat"), "boats");
    let (seen_tx, mut seen_rx) = mpsc::unbounded_channel();
    let manager = Manager::new(server.client());
    let build = {
        let boats = boats.clone();
        move |context: &Context| {
            let seen_tx = seen_tx.clone();
            let informer = context.informers.of_resource(&boats, &Scope::all());
            let cache = informer.cache().clone();
            let tells = move |key: Key| {
                let told = seen_tx.send((cache.get(&key).is_some(), key.to_string()));
                async move { told.map(|()| Action::Done).map_err(Into::into) }
            };
            Ok(context.controller(tells).reconciles(&informer))
        }
    };
    manager.add("boats", build).expect("a new name");
    let running = Running::new(manager);
    running.is(WAITS).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    let api: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &boats);
    for name in ["first", "second"] {
        definitions.create(&PostParams::default(), &definition()).await.expect("created");
        running.is("working").await;
        let boat = DynamicObject::new(name, &boats);
        let create = async || api.create(&PostParams::default(), &boat).await.is_ok();
        eventually("it is created", create).await;
        let seen = tokio::time::timeout(DEADLINE, async {
            while seen_rx.recv().await != Some((true, format!("default/{name}"))) {}
        });
        seen.await.expect("it is looked after");
        definitions.delete("boats.example.com", &DeleteParams::default()).await.expect("deleted");
        running.is(WAITS).await;
        assert!(!running.status().running);
        let gone = async || definitions.get_opt("boats.example.com").await.is_ok_and(|found| found.is_none());
        eventually("the definition is gone", gone).await;
    }
    running.stop().await;
}
