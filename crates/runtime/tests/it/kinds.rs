//! Kinds that are not there yet, go away and come back.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use windlass_runtime::{Action, Context, Informers, Key, Manager, Scope, informer::Reach};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_goes_and_comes_back_within_a_moment_is_followed_however_often() {
    let server = TestServer::start().await.expect("a server");
    let boats =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Boat"), "boats");
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    let api: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &boats);
    let informer = Informers::new(server.client()).of_resource(&boats, &Scope::all());
    for n in 0..12 {
        definitions.create(&PostParams::default(), &definition()).await.expect("created");
        let boat = DynamicObject::new(&format!("boat-{n}"), &boats);
        let create = async || api.create(&PostParams::default(), &boat).await.is_ok();
        eventually("it is created", create).await;
        let key = Key::new("default", &format!("boat-{n}"));
        // Now and then it goes before anybody has seen it.
        if n % 3 != 0 {
            eventually("it is seen", async || informer.cache().get(&key).is_some()).await;
            eventually("all of it is seen", async || informer.reach() == Reach::Synced).await;
        }
        definitions.delete("boats.example.com", &DeleteParams::default()).await.expect("deleted");
        let gone = async || definitions.get_opt("boats.example.com").await.is_ok_and(|found| found.is_none());
        eventually("the definition is gone", gone).await;
    }
    definitions.create(&PostParams::default(), &definition()).await.expect("created");
    eventually("all of it is seen", async || informer.reach() == Reach::Synced).await;
    eventually("nothing is left of what is gone", async || informer.cache().is_empty()).await;
}
