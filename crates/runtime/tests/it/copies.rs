//! A whole controller: ConfigMaps that say so are kept copied to another of the name they give.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_runtime::{
    Action, Cache, HubConfig, Key, Manager, ReconcileError, Reconciler, Recorder, Registration, Scope,
};
use windlass_testkit::TestServer;

use crate::{Running, eventually};

/// What a newcomer writes: this, to the end of the registration.
struct Copies {
    client: Client,
    maps: Cache<ConfigMap>,
    recorder: Recorder,
}

#[async_trait]
impl Reconciler for Copies {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let Some(map) = self.maps.get(key) else { return Ok(Action::Done) };
        let Some(name) = map.labels().get("copy-to") else { return Ok(Action::Done) };
        let copy = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                owner_references: map.controller_owner_ref(&()).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: map.data.clone(),
            ..ConfigMap::default()
        };
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), key.namespace());
        maps.patch(name, &PatchParams::apply("copies").force(), &Patch::Apply(&copy)).await?;
        self.recorder.normal(&*map, "Copied", format!("copied to {name}"));
        Ok(Action::Done)
    }
}

const COPIES: Registration = Registration {
    name: "copies",
    about: "Keeps copies of ConfigMaps that ask for one",
    crd: None,
    graph: None,
    build: |context| {
        let maps = context.informers.of::<ConfigMap>(&Scope::all());
        let reconciler = Copies {
            client: context.client.clone(),
            maps: maps.cache().clone(),
            recorder: context.recorder(),
        };
        Ok(context.controller(reconciler).reconciles(&maps).owns(&maps, "", "ConfigMap"))
    },
};

fn hub(config: serde_json::Value) -> HubConfig {
    serde_json::from_value(config).expect("a configuration")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_of_sixty_lines_does_its_work() {
    let server = TestServer::start().await.expect("a server");
    let manager = Manager::of(server.client(), &[COPIES], &HubConfig::default()).expect("it is right");
    let running = Running::new(manager);
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let mut map = ConfigMap::default();
    map.metadata.name = Some("original".to_owned());
    map.metadata.labels = Some(BTreeMap::from([("copy-to".to_owned(), "copy".to_owned())]));
    map.data = Some(BTreeMap::from([("colour".to_owned(), "red".to_owned())]));
    maps.create(&PostParams::default(), &map).await.expect("created");
    let colour = async || {
        let copy = maps.get_opt("copy").await.expect("an answer")?;
        copy.data?.get("colour").cloned()
    };
    let paint = async |name: &str, colour: &str| {
        let patch = Patch::Merge(json!({"data": {"colour": colour}}));
        maps.patch(name, &PatchParams::default(), &patch).await.expect("patched");
    };
    eventually("it is copied", async || colour().await.as_deref() == Some("red")).await;
    paint("original", "blue").await;
    eventually("the copy follows", async || colour().await.as_deref() == Some("blue")).await;
    paint("copy", "green").await;
    eventually("the copy is put right", async || colour().await.as_deref() == Some("blue")).await;
    let off = hub(json!({"reconcilers": {"copies": {"enabled": false}}}));
    running.manager.apply(&off).expect("it is right");
    let took = running.is("disabled").await;
    assert!(took.as_secs() < 2, "{took:?}");
    assert!(running.manager.informers().is_empty(), "nobody watches for it");
    paint("original", "yellow").await;
    running.manager.apply(&HubConfig::default()).expect("it is right");
    eventually("it catches up", async || colour().await.as_deref() == Some("yellow")).await;
    assert_eq!(running.manager.readyz().0, 200);
    running.stop().await;
    let events: Api<Event> = Api::default_namespaced(server.client());
    let events = events.list(&ListParams::default()).await.expect("events").items;
    let [event] = &events[..] else { panic!("one event: {events:?}") };
    assert_eq!(event.message.as_deref(), Some("copied to copy"));
    assert_eq!(event.source.as_ref().and_then(|source| source.component.as_deref()), Some("copies"));
    assert!(event.count >= Some(4), "{:?}", event.count);
}
