//! Informers of some objects of a kind, and of their metadata.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_runtime::{Informers, Key, Scope};
use windlass_testkit::TestServer;

use crate::eventually;

async fn create(client: &Client, namespace: &str, name: &str, colour: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([("colour".to_owned(), colour.to_owned())])),
        ..ObjectMeta::default()
    };
    let data = Some(BTreeMap::from([("text".to_owned(), "long".repeat(100))]));
    let map = ConfigMap { metadata, data, ..ConfigMap::default() };
    maps.create(&PostParams::default(), &map).await.expect("created");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_informer_sees_what_its_scope_says_and_those_who_want_the_same_share_it() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    let metadata = ObjectMeta { name: Some("other".to_owned()), ..ObjectMeta::default() };
    let other = Namespace { metadata, ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &other).await.expect("created");
    create(&client, "default", "a", "red").await;
    create(&client, "default", "b", "blue").await;
    create(&client, "other", "c", "red").await;
    let informers = Informers::new(client.clone());
    let red = Scope { labels: Some("colour=red".to_owned()), ..Scope::all() };
    let named = Scope { fields: Some("metadata.name=b".to_owned()), ..Scope::namespace("default") };
    let scopes = [
        (Scope::namespace("default"), "a b"),
        (Scope::namespace("other"), "c"),
        (red.clone(), "a c"),
        (named, "b"),
    ];
    let mut kept = vec![];
    for (scope, names) in scopes {
        let informer = informers.of::<ConfigMap>(&scope);
        informer.synced().await;
        let seen = || {
            let all = informer.cache().all();
            let mut all: Vec<String> = all.iter().map(|map| map.name_any()).collect();
            all.retain(|name| name.len() == 1);
            all.sort();
            all.join(" ")
        };
        assert_eq!(seen(), names, "{scope:?}");
        kept.push((informers.of::<ConfigMap>(&scope), informer));
    }
    assert_eq!(informers.len(), 4, "one watch for each scope");
    // What a selector no longer takes is gone for who looks through it.
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let blue = Patch::Merge(json!({"metadata": {"labels": {"colour": "blue"}}}));
    maps.patch("a", &PatchParams::default(), &blue).await.expect("patched");
    let (of_red, _) = &kept[2];
    let key = Key::new("default", "a");
    eventually("it is no longer red", async || of_red.cache().get(&key).is_none()).await;
    drop(kept);
    assert!(informers.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_informer_of_metadata_follows_objects_without_keeping_them() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    create(&client, "default", "a", "red").await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    let informers = Informers::new(client.clone());
    let informer = informers.of_metadata(&resource, &Scope::namespace("default"));
    informer.synced().await;
    let key = Key::new("default", "a");
    let seen = || informer.cache().get(&key).map(|map| map.metadata.clone());
    assert_eq!(
        seen().and_then(|meta| meta.labels).and_then(|all| all.get("colour").cloned()).as_deref(),
        Some("red")
    );
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let blue = Patch::Merge(json!({"metadata": {"labels": {"colour": "blue"}}}));
    let patched = maps.patch("a", &PatchParams::default(), &blue).await.expect("patched");
    let revision = patched.resource_version();
    eventually("the change is seen", async || seen().is_some_and(|meta| meta.resource_version == revision))
        .await;
    maps.delete("a", &DeleteParams::default()).await.expect("deleted");
    eventually("it is gone", async || seen().is_none()).await;
}
