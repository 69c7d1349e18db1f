//! What a test can expect of its server.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
    runtime::watcher,
};
use serde_json::json;
use windlass_testkit::{Config, TestServer};

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("a config map")
}

#[tokio::test]
async fn servers_are_ready_at_once_and_know_nothing_of_each_other() {
    let begun = Instant::now();
    let (one, other) = (TestServer::start().await.expect("one"), TestServer::start().await.expect("other"));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let of = |server: &TestServer| Api::<ConfigMap>::namespaced(server.client(), "default");
    of(&one).create(&PostParams::default(), &map("a")).await.expect("created");
    assert!(of(&one).get_opt("a").await.expect("an answer").is_some());
    assert!(of(&other).get_opt("a").await.expect("an answer").is_none());
}

#[tokio::test]
async fn watches_stream_until_the_server_stops() {
    let server = TestServer::bare(Config::default()).await.expect("a server");
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let revision = maps.list(&ListParams::default()).await.expect("a list").metadata.resource_version;
    let mut events =
        maps.watch(&WatchParams::default(), &revision.expect("a revision")).await.expect("a watch").boxed();
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &map(name)).await.expect("created");
        let event = events.try_next().await.expect("no error").expect("an event");
        assert!(matches!(event, WatchEvent::Added(map) if map.name_any() == name));
    }
    maps.delete("a", &DeleteParams::default()).await.expect("deleted");
    let event = events.try_next().await.expect("no error").expect("an event");
    assert!(matches!(event, WatchEvent::Deleted(map) if map.name_any() == "a"));
    server.stop().await;
    while let Some(event) = events.try_next().await.expect("a clean end") {
        assert!(matches!(event, WatchEvent::Bookmark(_)), "{event:?}");
    }
    assert!(maps.get("b").await.is_err());
}

#[tokio::test]
async fn kubes_own_watcher_works_on_it() {
    let server = TestServer::start().await.expect("a server");
    let namespaces: Api<Namespace> = Api::all(server.client());
    let mut events = watcher(namespaces, watcher::Config::default()).boxed();
    let mut names = vec![];
    while let Some(event) = events.try_next().await.expect("no error") {
        match event {
            watcher::Event::InitApply(namespace) => names.push(namespace.name_any()),
            watcher::Event::InitDone => break,
            _ => {}
        }
    }
    assert!(names.iter().any(|name| name == "default"), "{names:?}");
}

#[tokio::test]
async fn users_may_do_what_roles_allow() {
    let server = TestServer::start().await.expect("a server");
    let mine: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    mine.create(&PostParams::default(), &map("a")).await.expect("created");
    let hers: Api<ConfigMap> = Api::namespaced(server.client_as("jane", &[]), "default");
    let code = |error| match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    };
    assert_eq!(code(hers.get("a").await.expect_err("she may not")), 403);
    let binding = json!({
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::namespaced(server.client(), "default");
    let binding = serde_json::from_value(binding).expect("a binding");
    bindings.create(&PostParams::default(), &binding).await.expect("created");
    let deadline = Instant::now() + Duration::from_secs(10);
    // Roles are followed by a watch.
    while hers.get("a").await.is_err() {
        assert!(Instant::now() < deadline, "she may by now");
        tokio::task::yield_now().await;
    }
    assert_eq!(code(hers.delete("a", &DeleteParams::default()).await.expect_err("she may not")), 403);
}

/// Waits until there is no such object.
async fn goes<K>(api: &Api<K>, name: &str)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let gone = async {
        while api.get_opt(name).await.expect("an answer").is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone)
        .await
        .unwrap_or_else(|_| panic!("{name} is still there"));
}

#[tokio::test]
async fn dependents_follow_their_owners_and_namespaces_end() {
    let server = TestServer::start().await.expect("a server");
    let namespaces: Api<Namespace> = Api::all(server.client());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).expect("a namespace");
    namespaces.create(&PostParams::default(), &namespace).await.expect("created");
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "team");
    let owner = maps.create(&PostParams::default(), &map("owner")).await.expect("created");
    let mut dependent = map("dependent");
    dependent.metadata.owner_references = owner.owner_ref(&()).map(|owner| vec![owner]);
    maps.create(&PostParams::default(), &dependent).await.expect("created");
    maps.create(&PostParams::default(), &map("other")).await.expect("created");
    maps.delete("owner", &DeleteParams::background()).await.expect("deleted");
    goes(&maps, "dependent").await;
    assert!(maps.get_opt("other").await.expect("an answer").is_some());
    namespaces.delete("team", &DeleteParams::default()).await.expect("deleted");
    goes(&namespaces, "team").await;
    server.stop().await;
}

#[tokio::test]
async fn a_bare_server_leaves_everything_as_it_is() {
    let server = TestServer::bare(Config::default()).await.expect("a server");
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    maps.create(&PostParams::default(), &map("owner")).await.expect("created");
    maps.delete("owner", &DeleteParams::foreground()).await.expect("it is being deleted");
    let finalizers = maps.get("owner").await.expect("it waits for a collector").metadata.finalizers;
    assert_eq!(finalizers, Some(vec!["foregroundDeletion".to_owned()]));
}
