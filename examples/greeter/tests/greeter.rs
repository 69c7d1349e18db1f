//! The greeter against a real API server, in this very process.

use std::{error::Error, time::Duration};

use greeter::{GREETER, Greeting, GreetingSpec};
use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, CustomResourceExt, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{conditions, wait::await_condition},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{HubConfig, Manager};
use windlass_testkit::TestServer;

/// Waits until a map says something.
async fn says(maps: &Api<ConfigMap>, words: &'static str) -> Result<(), Box<dyn Error>> {
    let is_said = move |map: Option<&ConfigMap>| {
        map.and_then(|map| map.data.as_ref()?.get("words")).is_some_and(|said| said == words)
    };
    tokio::time::timeout(Duration::from_secs(30), await_condition(maps.clone(), "first", is_said)).await??;
    Ok(())
}

#[tokio::test]
async fn a_greeting_has_a_map_with_its_words() -> Result<(), Box<dyn Error>> {
    let server = TestServer::start().await?;
    let client = server.client();
    let kinds: Api<CustomResourceDefinition> = Api::all(client.clone());
    kinds.create(&PostParams::default(), &Greeting::crd()).await?;
    await_condition(kinds, Greeting::crd_name(), conditions::is_crd_established()).await?;

    let manager = Manager::of(client.clone(), &[GREETER], &HubConfig::default())?;
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(stop).await }
    });

    let greetings: Api<Greeting> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let greeting = Greeting::new("first", GreetingSpec { who: "world".to_owned() });
    greetings.create(&PostParams::default(), &greeting).await?;
    says(&maps, "Hello, world!").await?;

    let other = Patch::Merge(json!({"spec": {"who": "moon"}}));
    greetings.patch("first", &PatchParams::default(), &other).await?;
    says(&maps, "Hello, moon!").await?;

    // Whoever changes the map does not get far.
    let wrong = Patch::Merge(json!({"data": {"words": "Go away!"}}));
    maps.patch("first", &PatchParams::default(), &wrong).await?;
    says(&maps, "Hello, moon!").await?;

    // A greeting that goes takes its map with it.
    let uid = maps.get("first").await?.uid().unwrap_or_default();
    greetings.delete("first", &DeleteParams::default()).await?;
    let gone = await_condition(maps, "first", conditions::is_deleted(&uid));
    tokio::time::timeout(Duration::from_secs(30), gone).await??;

    stop.cancel();
    running.await?;
    server.stop().await;
    Ok(())
}
