//! What goes wrong between a keeper and the server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{
        DynamicObject, ListParams, Patch, PatchParams,
        PropagationPolicy::{Background, Foreground, Orphan},
    },
    client::Body,
    core::ApiResource,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_apiserver::{ApiServer, Config, Direct};
use windlass_housekeeping::Options;
use windlass_store::Memory;

use crate::{
    emptying::{condition, delete, gone},
    house::{House, create, owner, until},
    meddler::{Asked, Fate, meddled, pass, refused, status},
};

async fn something_is_collected(house: &House) {
    let uid = house.map("canary-owner", json!([])).await;
    house.map("canary", json!([owner("canary-owner", &uid)])).await;
    house.delete("canary-owner", Background).await;
    house.gone("canary").await;
}

async fn widget_in(house: &House, namespace: &str, resource: &ApiResource, name: &str) {
    let widgets: Api<DynamicObject> = Api::namespaced_with(house.client.clone(), namespace, resource);
    let widget = json!({"apiVersion": resource.api_version, "kind": "Widget", "metadata": {"name": name}});
    create(&widgets, widget).await;
}

/// What discovery says, made worse.
async fn discovered(client: &Client, worsen: impl Fn(&mut Value)) -> Fate {
    let groups = client.list_api_groups_aggregated().await.expect("groups");
    let mut groups = serde_json::to_value(groups).expect("it can be written");
    worsen(&mut groups);
    Fate::Answered(200, groups)
}

/// A secret that belongs to a config map.
async fn secret_of(house: &House, name: &str, map: &str) {
    let uid = house.map(map, json!([])).await;
    let secret = json!({"metadata": {"name": name, "ownerReferences": [owner(map, &uid)]}});
    create(&house.all::<Secret>("default"), secret).await;
}

async fn secret_goes(house: &House, name: &str) {
    let secrets = house.all::<Secret>("default");
    until("the secret is gone", || async {
        secrets.get_opt(name).await.expect("an answer").is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_metadata_is_asked_for_and_in_pages() {
    let mut house = House::untidy().await;
    let resource = house.define("partial", "Namespaced").await;
    house.namespace("going").await;
    widget_in(&house, "going", &resource, "w").await;
    let (client, log) = meddled(&house.client, pass);
    house.tidy_as(client, Options::default());
    delete(&house, "going").await;
    gone(&house, "going").await;
    let asked: Vec<Asked> =
        log.lock().iter().filter(|asked| asked.path.contains("/widgets")).cloned().collect();
    let looks: Vec<&Asked> = asked.iter().filter(|asked| asked.method == "GET").collect();
    assert!(looks.iter().any(|asked| asked.is_watch()), "{asked:?}");
    assert!(looks.iter().any(|asked| asked.path.contains("/namespaces/going/")), "{asked:?}");
    for asked in looks {
        assert!(asked.accept.contains("as=PartialObjectMetadata"), "{asked:?}");
        assert!(asked.is_watch() || asked.query.contains("limit=500"), "{asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_list_does_not_have_is_looked_for_before_anything_goes() {
    let mut house = House::untidy().await;
    secret_of(&house, "s", "a").await;
    let (forget, forgets) = watch::channel(false);
    let (n_watches, n_lists) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (client, log) = meddled(&house.client, {
        let client = house.client.clone();
        move |asked| {
            let (client, mut forgets) = (client.clone(), forgets.clone());
            let (n_watches, n_lists) = (Arc::clone(&n_watches), Arc::clone(&n_lists));
            async move {
                if asked.path != "/api/v1/configmaps" {
                    return Fate::Passes;
                }
                if asked.is_watch() {
                    if n_watches.fetch_add(1, Ordering::SeqCst) > 0 {
                        return Fate::Passes;
                    }
                    forgets.wait_for(|forgets| *forgets).await.expect("someone says so");
                    let expired = status(410, "Expired", "too old resource version");
                    return Fate::Answered(200, json!({"type": "ERROR", "object": expired}));
                }
                if n_lists.fetch_add(1, Ordering::SeqCst) != 1 {
                    return Fate::Passes;
                }
                let maps: Api<ConfigMap> = Api::all(client);
                let now = maps.list(&ListParams::default()).await.expect("a list").metadata.resource_version;
                let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": now}, "items": []});
                Fate::Answered(200, list)
            }
        }
    });
    house.tidy_as(client, Options::default());
    let asked_for_a = || log.lock().iter().filter(|asked| asked.path.ends_with("/configmaps/a")).count();
    let watches = |n| {
        let is_ours = |asked: &&Asked| asked.path == "/api/v1/configmaps" && asked.is_watch();
        (log.lock().iter().filter(is_ours).count() >= n).then_some(())
    };
    until("it watches", || async { watches(1) }).await;
    forget.send_replace(true);
    until("it watches again", || async { watches(2) }).await;
    until("the owner is looked for", || async { (asked_for_a() > 0).then_some(()) }).await;
    something_is_collected(&house).await;
    assert!(asked_for_a() <= 2, "not again and again");
    let secret = house.all::<Secret>("default").get_opt("s").await.expect("an answer");
    assert!(secret.is_some_and(|secret| secret.metadata.deletion_timestamp.is_none()), "its owner is there");
    house.delete("a", Background).await;
    secret_goes(&house, "s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_goes_while_another_version_of_it_begins_to_be_served_is_missed() {
    let mut house = House::untidy().await;
    let resource = house.define("moving", "Namespaced").await;
    let (go_on, goes_on) = watch::channel(false);
    let path = "/apis/moving.example.com/v2/widgets";
    let (client, log) = meddled(&house.client, move |asked| {
        let mut goes_on = goes_on.clone();
        async move {
            if asked.path == path {
                goes_on.wait_for(|goes_on| *goes_on).await.expect("someone says so");
            }
            Fate::Passes
        }
    });
    house.tidy_as(client, Options::default());
    widget_in(&house, "default", &resource, "w").await;
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(house.client.clone(), &resource);
    let uid = widgets.get("w").await.expect("it is there").uid().expect("a UID");
    house
        .map("a", json!([{"apiVersion": resource.api_version, "kind": "Widget", "name": "w", "uid": uid}]))
        .await;
    something_is_collected(&house).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(house.client.clone());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = json!([
        {"name": "v1", "served": false, "storage": true, "schema": schema},
        {"name": "v2", "served": true, "storage": false, "schema": schema},
    ]);
    let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
    definitions.patch("widgets.moving.example.com", &PatchParams::default(), &patch).await.expect("patched");
    until("it is about to look", || async {
        log.lock().iter().any(|asked| asked.path == path).then_some(())
    })
    .await;
    let version = ("v2".to_owned(), "moving.example.com/v2".to_owned());
    let new = ApiResource { version: version.0, api_version: version.1, ..resource };
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(house.client.clone(), &new);
    widgets.delete("w", &Default::default()).await.expect("deleted");
    go_on.send_replace(true);
    house.gone("a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_while_the_server_is_away_is_caught_up_with() {
    let mut house = House::untidy().await;
    let is_away = Arc::new(AtomicBool::new(false));
    let (client, log) = meddled(&house.client, {
        let is_away = Arc::clone(&is_away);
        move |_| {
            let is_away = is_away.load(Ordering::SeqCst);
            async move {
                match is_away {
                    true => refused(503, "ServiceUnavailable", "the server is shutting down"),
                    false => Fate::PassesShortly,
                }
            }
        }
    });
    house.tidy_as(client, Options::default());
    secret_of(&house, "s", "a").await;
    secret_of(&house, "t", "b").await;
    something_is_collected(&house).await;
    is_away.store(true, Ordering::SeqCst);
    // Everyone who was watching has noticed.
    let n_asked = log.lock().len();
    until("it asks in vain", || async { (log.lock().len() > n_asked + 60).then_some(()) }).await;
    house.delete("a", Background).await;
    house.delete("b", Foreground).await;
    is_away.store(false, Ordering::SeqCst);
    secret_goes(&house, "s").await;
    secret_goes(&house, "t").await;
    something_is_collected(&house).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_is_kept_as_before() {
    let store = Arc::new(Memory::new().expect("a store"));
    let start = || async {
        let server = ApiServer::start(Config::default(), Arc::clone(&store) as _).await.expect("a server");
        (Client::new(Direct::new(&server, "admin", &["system:masters"]), "default"), server)
    };
    let (client, first) = start().await;
    let current = Arc::new(Mutex::new(client));
    let service = tower::service_fn({
        let current = Arc::clone(&current);
        move |request: http::Request<Body>| {
            let now = current.lock().clone();
            async move { now.send(request).await }
        }
    });
    let mut house = House::of(Client::new(service, "default"));
    house.tidy(Options::default());
    secret_of(&house, "s", "a").await;
    secret_of(&house, "t", "b").await;
    house.namespace("going").await;
    create(&house.all::<ConfigMap>("going"), json!({"metadata": {"name": "m"}})).await;
    something_is_collected(&house).await;
    first.begin_drain();
    let (client, _second) = start().await;
    // Others know of the new server before the keeper does.
    let other = House::of(client.clone());
    other.delete("a", Background).await;
    delete(&other, "going").await;
    *current.lock() = client;
    secret_goes(&house, "s").await;
    gone(&house, "going").await;
    house.delete("b", Background).await;
    secret_goes(&house, "t").await;
    something_is_collected(&house).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_in_the_middle_of_orphaning_harms_nobody() {
    const N: usize = 20;
    let mut house = House::untidy().await;
    let a = house.map("a", json!([])).await;
    for number in 0..N {
        house.map(&format!("d{number}"), json!([owner("a", &a)])).await;
    }
    let n_patches = Arc::new(AtomicUsize::new(0));
    let (client, _) = meddled(&house.client, {
        let n_patches = Arc::clone(&n_patches);
        move |asked| {
            let n_patches = Arc::clone(&n_patches);
            async move {
                // Some are answered, some arrive and are not heard of again, and some never arrive.
                if asked.method == "PATCH" && n_patches.fetch_add(1, Ordering::SeqCst) >= N / 2 {
                    std::future::pending::<()>().await;
                }
                Fate::Passes
            }
        }
    });
    house.tidy_as(client, Options::default());
    house.delete("a", Orphan).await;
    until("it is in the middle", || async { (n_patches.load(Ordering::SeqCst) >= N).then_some(()) }).await;
    house.neglect().await;
    let all = house.maps().list(&ListParams::default()).await.expect("a list");
    let n_owned = all.iter().filter(|map| !map.owner_references().is_empty()).count();
    assert!(n_owned > 0 && all.items.len() == N + 1, "{n_owned} of {}", all.items.len());
    house.tidy(Options::default());
    house.gone("a").await;
    something_is_collected(&house).await;
    let all = house.maps().list(&ListParams::default()).await.expect("a list");
    assert_eq!(all.items.len(), N);
    assert!(all.iter().all(|map| map.owner_references().is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_are_no_reason_to_hurry() {
    let mut house = House::untidy().await;
    let a = house.map("a", json!([])).await;
    house.map("d", json!([owner("a", &a)])).await;
    let refuses = Arc::new(AtomicBool::new(true));
    let (client, log) = meddled(&house.client, {
        let refuses = Arc::clone(&refuses);
        move |asked| {
            let refuses = refuses.load(Ordering::SeqCst);
            async move {
                match asked.is("DELETE", "/api/v1/namespaces/default/configmaps/d") && refuses {
                    true => refused(409, "Conflict", "the object has been modified"),
                    false => Fate::Passes,
                }
            }
        }
    });
    house.tidy_as(client, Options::default());
    house.delete("a", Background).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let n_tried = log.lock().iter().filter(|asked| asked.method == "DELETE").count();
    assert!((1..=15).contains(&n_tried), "{n_tried} in two seconds");
    refuses.store(false, Ordering::SeqCst);
    house.gone("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_without_a_word_is_looked_at_again_and_goes() {
    let mut house = House::untidy().await;
    let a = house.map("a", json!([])).await;
    house.map("d", json!([owner("a", &a)])).await;
    let n_deletions = Arc::new(AtomicUsize::new(0));
    let (client, log) = meddled(&house.client, {
        let (client, n_deletions) = (house.client.clone(), Arc::clone(&n_deletions));
        move |asked| {
            let (client, n_deletions) = (client.clone(), Arc::clone(&n_deletions));
            async move {
                let path = "/api/v1/namespaces/default/configmaps/d";
                if asked.is("DELETE", path) && n_deletions.fetch_add(1, Ordering::SeqCst) == 0 {
                    let maps: Api<ConfigMap> = Api::default_namespaced(client);
                    let mut map = maps.get("d").await.expect("it is there");
                    map.data = Some([("changed".to_owned(), "meanwhile".to_owned())].into());
                    maps.replace("d", &Default::default(), &map).await.expect("replaced");
                }
                Fate::Passes
            }
        }
    });
    house.tidy_as(client, Options::default());
    house.delete("a", Background).await;
    house.gone("d").await;
    let path = "/api/v1/namespaces/default/configmaps/d";
    assert_eq!(log.lock().iter().filter(|asked| asked.is("GET", path)).count(), 1);
    assert_eq!(n_deletions.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_cannot_be_discovered_hold_a_namespace() {
    let mut house = House::untidy().await;
    house.namespace("held").await;
    let is_broken = Arc::new(AtomicBool::new(true));
    let (client, _) = meddled(&house.client, {
        let (client, is_broken) = (house.client.clone(), Arc::clone(&is_broken));
        move |asked| {
            let (client, is_broken) = (client.clone(), is_broken.load(Ordering::SeqCst));
            async move {
                if !is_broken || asked.path != "/apis" {
                    return Fate::Passes;
                }
                let stale = json!({"metadata": {"name": "broken.example.com"},
                    "versions": [{"version": "v1", "freshness": "Stale"}]});
                discovered(&client, |groups| {
                    groups["items"].as_array_mut().expect("a list").push(stale.clone());
                })
                .await
            }
        }
    });
    house.tidy_as(client, Options::default());
    create(&house.all::<ConfigMap>("held"), json!({"metadata": {"name": "m"}})).await;
    delete(&house, "held").await;
    let message = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
                   broken.example.com/v1: stale GroupVersion discovery: broken.example.com/v1";
    let wanted = ["True", "DiscoveryFailed", message];
    condition(&house, "held", "NamespaceDeletionDiscoveryFailure", wanted).await;
    assert!(house.all::<ConfigMap>("held").get_opt("m").await.expect("an answer").is_none());
    is_broken.store(false, Ordering::SeqCst);
    gone(&house, "held").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_cannot_be_deleted_holds_a_namespace() {
    let mut house = House::untidy().await;
    house.namespace("held").await;
    create(&house.all::<ConfigMap>("held"), json!({"metadata": {"name": "m"}})).await;
    let refuses = Arc::new(AtomicBool::new(true));
    let (client, _) = meddled(&house.client, {
        let refuses = Arc::clone(&refuses);
        move |asked| {
            let refuses = refuses.load(Ordering::SeqCst);
            async move {
                match asked.is("DELETE", "/api/v1/namespaces/held/configmaps") && refuses {
                    true => refused(500, "InternalError", "there is no way"),
                    false => Fate::Passes,
                }
            }
        }
    });
    house.tidy_as(client, Options::default());
    delete(&house, "held").await;
    let message = "Failed to delete all resource types, 1 remaining: there is no way";
    let wanted = ["True", "ContentDeletionFailed", message];
    condition(&house, "held", "NamespaceDeletionContentFailure", wanted).await;
    refuses.store(false, Ordering::SeqCst);
    gone(&house, "held").await;
}

/// A keeper to whom widgets lack these verbs.
async fn without(house: &mut House, verbs: &'static [&'static str]) -> crate::meddler::Log {
    let (client, log) = meddled(&house.client, {
        let client = house.client.clone();
        move |asked| {
            let client = client.clone();
            async move {
                if asked.path != "/apis" {
                    return Fate::Passes;
                }
                let worsen = |groups: &mut Value| {
                    for group in groups["items"].as_array_mut().expect("a list") {
                        if group["metadata"]["name"]
                            .as_str()
                            .is_some_and(|name| name.ends_with("example.com"))
                        {
                            let own = group["versions"][0]["resources"][0]["verbs"].as_array_mut();
                            own.expect("verbs").retain(|own| !verbs.iter().any(|verb| own == verb));
                        }
                    }
                };
                discovered(&client, worsen).await
            }
        }
    });
    house.tidy_as(client, Options::default());
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_deleted_together_is_deleted_one_by_one() {
    let mut house = House::untidy().await;
    let resource = house.define("single", "Namespaced").await;
    house.namespace("going").await;
    for number in 0..5 {
        widget_in(&house, "going", &resource, &format!("w{number}")).await;
    }
    let log = without(&mut house, &["deletecollection"]).await;
    delete(&house, "going").await;
    gone(&house, "going").await;
    let deletions: Vec<String> =
        log.lock().iter().filter(|asked| asked.method == "DELETE").map(|asked| asked.path.clone()).collect();
    for number in 0..5 {
        assert!(deletions.iter().any(|path| path.ends_with(&format!("/widgets/w{number}"))), "{deletions:?}");
    }
    assert!(!deletions.iter().any(|path| path.ends_with("/widgets")), "{deletions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_neither_listed_nor_deleted_together_holds_nothing() {
    let mut house = House::untidy().await;
    house.define("blind", "Namespaced").await;
    house.namespace("going").await;
    let log = without(&mut house, &["deletecollection", "list"]).await;
    delete(&house, "going").await;
    gone(&house, "going").await;
    assert!(!log.lock().iter().any(|asked| asked.path.contains("/widgets")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_took_the_place_of_another_is_not_emptied() {
    let mut house = House::untidy().await;
    for name in ["going", "other"] {
        house.namespace(name).await;
    }
    let is_armed = Arc::new(AtomicBool::new(false));
    let (client, _) = meddled(&house.client, {
        let (client, is_armed) = (house.client.clone(), Arc::clone(&is_armed));
        move |asked| {
            let (client, is_armed) = (client.clone(), Arc::clone(&is_armed));
            async move {
                if asked.path == "/apis" && is_armed.swap(false, Ordering::SeqCst) {
                    replace_namespace(&client, "going").await;
                }
                Fate::Passes
            }
        }
    });
    house.tidy_as(client, Options { namespace_workers: 1, ..Options::default() });
    something_is_collected(&house).await;
    is_armed.store(true, Ordering::SeqCst);
    delete(&house, "going").await;
    until("another has taken its place", || async { (!is_armed.load(Ordering::SeqCst)).then_some(()) }).await;
    // There is one who does this, so when the next is gone, this is done.
    delete(&house, "other").await;
    gone(&house, "other").await;
    assert!(house.all::<ConfigMap>("going").get_opt("new").await.expect("an answer").is_some());
}

/// Someone else lets a namespace go, and a new one takes its place.
async fn replace_namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut old = namespaces.get(name).await.expect("it is there");
    old.spec.get_or_insert_default().finalizers = None;
    let done = namespaces.replace_subresource("finalize", name, &Default::default(), &old).await;
    assert!(done.is_ok(), "{done:?}");
    create(&namespaces, json!({"metadata": {"name": name}})).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), name);
    create(&maps, json!({"metadata": {"name": "new"}})).await;
}
