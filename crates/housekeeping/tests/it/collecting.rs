//! What belonged to something that is gone.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Event, Secret},
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PropagationPolicy::*},
    core::ApiResource,
};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_housekeeping::Options;

use crate::house::{House, blocked, create, owner, until};

/// What is there, by name.
async fn names(house: &House) -> Vec<String> {
    let mut names: Vec<String> = house
        .maps()
        .list(&ListParams::default())
        .await
        .expect("a list")
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    names.retain(|name| name != "kube-root-ca.crt");
    names.sort();
    names
}

/// Waits until something else was collected, so that whatever should have happened before has happened.
async fn settle(house: &House) {
    let uid = house.map("canary-owner", json!([])).await;
    house.map("canary", json!([owner("canary-owner", &uid)])).await;
    house.delete("canary-owner", Background).await;
    house.gone("canary").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_go_after_their_owner() {
    let house = House::new().await;
    let a = house.map("a", json!([])).await;
    let b = house.map("b", json!([owner("a", &a)])).await;
    house.map("c", json!([owner("b", &b)])).await;
    house.map("other", json!([])).await;
    house.delete("a", Background).await;
    for name in ["a", "b", "c"] {
        house.gone(name).await;
    }
    assert_eq!(names(&house).await, ["other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_waits_for_dependents_that_block_it() {
    let house = House::new().await;
    let a = house.map("a", json!([])).await;
    house.map("blocking", json!([blocked("a", &a)])).await;
    house.map("free", json!([owner("a", &a)])).await;
    house.finalizers("blocking", &["example.com/held"]).await;
    house.finalizers("free", &["example.com/held"]).await;
    house.delete("a", Foreground).await;
    let maps = house.maps();
    for name in ["blocking", "free"] {
        until("dependents are deleted first", || async {
            maps.get(name).await.expect("it is there").metadata.deletion_timestamp
        })
        .await;
    }
    settle(&house).await;
    let a = maps.get("a").await.expect("it waits");
    assert_eq!(a.finalizers(), ["foregroundDeletion"]);
    house.finalizers("blocking", &[]).await;
    house.gone("a").await;
    assert_eq!(names(&house).await, ["free"]);
    house.finalizers("free", &[]).await;
    house.gone("free").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreground_goes_all_the_way_down() {
    let house = House::new().await;
    let a = house.map("a", json!([])).await;
    let b = house.map("b", json!([blocked("a", &a)])).await;
    house.map("c", json!([blocked("b", &b)])).await;
    house.finalizers("c", &["example.com/held"]).await;
    house.delete("a", Foreground).await;
    let maps = house.maps();
    until("c is deleted", || async { maps.get("c").await.expect("it is there").metadata.deletion_timestamp })
        .await;
    assert_eq!(maps.get("b").await.expect("it waits").finalizers(), ["foregroundDeletion"]);
    house.finalizers("c", &[]).await;
    for name in ["a", "b", "c"] {
        house.gone(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_stay_and_forget_their_owner() {
    let house = House::new().await;
    let (a, z) = (house.map("a", json!([])).await, house.map("z", json!([])).await);
    for number in 0..20 {
        house.map(&format!("d{number}"), json!([owner("a", &a), owner("z", &z)])).await;
        house.map(&format!("e{number}"), json!([owner("a", &a)])).await;
    }
    house.delete("a", Orphan).await;
    house.gone("a").await;
    settle(&house).await;
    for map in house.maps().list(&ListParams::default()).await.expect("a list") {
        let left: Vec<&str> = map.owner_references().iter().map(|owner| owner.name.as_str()).collect();
        let expected: &[&str] = if map.name_any().starts_with('d') { &["z"] } else { &[] };
        assert_eq!(left, expected, "{}", map.name_any());
    }
    assert_eq!(names(&house).await.len(), 41);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_another_owner_stays_and_forgets_the_one_that_is_gone() {
    let house = House::new().await;
    let (a, b) = (house.map("a", json!([])).await, house.map("b", json!([])).await);
    house.map("c", json!([owner("a", &a), owner("b", &b)])).await;
    house.delete("a", Background).await;
    let maps = house.maps();
    until("a is forgotten", || async {
        let map = maps.get("c").await.expect("it stays");
        let left: Vec<String> = map.owner_references().iter().map(|owner| owner.name.clone()).collect();
        (left == ["b"]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_that_never_were_and_wrong_uids_are_no_owners() {
    let house = House::new().await;
    house.map("a", json!([])).await;
    house.map("never", json!([owner("nobody", "11111111-1111-1111-1111-111111111111")])).await;
    house.map("wrong", json!([owner("a", "22222222-2222-2222-2222-222222222222")])).await;
    house.gone("never").await;
    house.gone("wrong").await;
    assert_eq!(names(&house).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_and_versions_that_are_not_served_prove_nothing() {
    let house = House::new().await;
    let uid = "33333333-3333-3333-3333-333333333333";
    let of = |api_version: &str, kind: &str| json!([{"apiVersion": api_version, "kind": kind, "name": "x", "uid": uid}]);
    house.map("kind", of("v1", "Nonsense")).await;
    house.map("version", of("v7", "ConfigMap")).await;
    house.map("group", of("nonsense.example.com/v1", "Thing")).await;
    settle(&house).await;
    assert_eq!(names(&house).await, ["group", "kind", "version"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_uid_under_a_wrong_kind_is_no_owner_and_spares_the_others() {
    let house = House::new().await;
    let a = house.map("a", json!([])).await;
    house.map("right", json!([owner("a", &a)])).await;
    house.map("wrong", json!([{"apiVersion": "v1", "kind": "Secret", "name": "a", "uid": a}])).await;
    house.gone("wrong").await;
    settle(&house).await;
    assert_eq!(names(&house).await, ["a", "right"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_in_another_namespace_are_no_owners() {
    let house = House::new().await;
    house.namespace("other").await;
    let a = house.map("a", json!([])).await;
    let others = house.all::<ConfigMap>("other");
    create(&others, json!({"metadata": {"name": "b", "ownerReferences": [owner("a", &a)]}})).await;
    until("b is gone", || async { others.get_opt("b").await.expect("an answer").is_none().then_some(()) })
        .await;
    let events = house.all::<Event>("other");
    let message = until("it is told", || async {
        let events = events.list(&ListParams::default()).await.expect("a list");
        let mut events = events.into_iter();
        events.find(|event| event.reason.as_deref() == Some("OwnerRefInvalidNamespace"))?.message
    })
    .await;
    let expected = format!(
        "ownerRef [v1/ConfigMap, namespace: other, name: a, uid: {a}] does not exist in namespace \"other\""
    );
    assert_eq!(message, expected);
    assert_eq!(names(&house).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_no_namespace_is_never_collected_for_an_owner_in_one() {
    let house = House::new().await;
    let roles: Api<ClusterRole> = Api::all(house.client.clone());
    let a = house.map("a", json!([])).await;
    for (name, uid) in [("real", a.as_str()), ("unreal", "44444444-4444-4444-4444-444444444444")] {
        create(&roles, json!({"metadata": {"name": name, "ownerReferences": [owner("a", uid)]}})).await;
    }
    house.delete("a", Background).await;
    house.gone("a").await;
    settle(&house).await;
    for name in ["real", "unreal"] {
        assert!(roles.get_opt(name).await.expect("an answer").is_some(), "{name}");
    }
    // Someone who is in a namespace and names the same owner is.
    house.map("b", json!([owner("a", "44444444-4444-4444-4444-444444444444")])).await;
    house.gone("b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_in_no_namespace_have_dependents_everywhere() {
    let house = House::new().await;
    house.namespace("other").await;
    let roles: Api<ClusterRole> = Api::all(house.client.clone());
    let uid = create(&roles, json!({"metadata": {"name": "r"}})).await.uid().expect("a UID");
    let of = json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "r", "uid": uid}]);
    house.map("a", of.clone()).await;
    let others = house.all::<Secret>("other");
    create(&others, json!({"metadata": {"name": "b", "ownerReferences": of}})).await;
    settle(&house).await;
    assert_eq!(names(&house).await, ["a"]);
    roles.delete("r", &DeleteParams::default()).await.expect("deleted");
    house.gone("a").await;
    until("b is gone", || async { others.get_opt("b").await.expect("an answer").is_none().then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn circles_do_not_wait_for_themselves() {
    let house = House::new().await;
    let a = house.map("a", json!([])).await;
    let b = house.map("b", json!([blocked("a", &a)])).await;
    let c = house.map("c", json!([blocked("b", &b)])).await;
    let close = Patch::Merge(json!({"metadata": {"ownerReferences": [blocked("c", &c)]}}));
    house.maps().patch("a", &PatchParams::default(), &close).await.expect("patched");
    let own = house.map("own", json!([])).await;
    let close = Patch::Merge(json!({"metadata": {"ownerReferences": [blocked("own", &own)]}}));
    house.maps().patch("own", &PatchParams::default(), &close).await.expect("patched");
    settle(&house).await;
    assert_eq!(names(&house).await, ["a", "b", "c", "own"]);
    house.delete("a", Foreground).await;
    house.delete("own", Foreground).await;
    for name in ["a", "b", "c", "own"] {
        house.gone(name).await;
    }
}

fn widget(resource: &ApiResource, name: &str, owners: Value) -> Value {
    json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "ownerReferences": owners},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_kinds_come_and_go_while_it_runs() {
    let house = House::new().await;
    settle(&house).await;
    let resource = house.define("late", "Namespaced").await;
    let widgets: Api<DynamicObject> = Api::namespaced_with(house.client.clone(), "default", &resource);
    let of = |name: &str, uid: &str| json!([{"apiVersion": resource.api_version, "kind": "Widget", "name": name, "uid": uid}]);
    let w = create(&widgets, widget(&resource, "w", json!([]))).await.uid().expect("a UID");
    house.map("a", of("w", &w)).await;
    create(&widgets, widget(&resource, "v", of("w", &w))).await;
    widgets.delete("w", &DeleteParams::default()).await.expect("deleted");
    house.gone("a").await;
    until("v is gone", || async { widgets.get_opt("v").await.expect("an answer").is_none().then_some(()) })
        .await;
    // With the definition go the objects, and with them what belongs to them.
    let x = create(&widgets, widget(&resource, "x", json!([]))).await.uid().expect("a UID");
    house.map("b", of("x", &x)).await;
    settle(&house).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(house.client.clone());
    definitions.delete("widgets.late.example.com", &DeleteParams::default()).await.expect("deleted");
    house.gone("b").await;
    // And it may come back.
    until("the definition is gone", || async {
        definitions.get_opt("widgets.late.example.com").await.expect("an answer").is_none().then_some(())
    })
    .await;
    house.define("late", "Namespaced").await;
    let y = create(&widgets, widget(&resource, "y", json!([]))).await.uid().expect("a UID");
    house.map("c", of("y", &y)).await;
    widgets.delete("y", &DeleteParams::background()).await.expect("deleted");
    house.gone("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_of_a_kind_that_comes_later_are_looked_for_then() {
    let house = House::new().await;
    let uid = "55555555-5555-5555-5555-555555555555";
    let of = json!([{"apiVersion": "later.example.com/v1", "kind": "Widget", "name": "w", "uid": uid}]);
    house.map("a", of).await;
    settle(&house).await;
    assert_eq!(names(&house).await, ["a"]);
    let begun = Instant::now();
    house.define("later", "Namespaced").await;
    house.gone("a").await;
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_stay_owners_when_their_version_is_not_served_any_more() {
    let house = House::new().await;
    let old = house.define("moved", "Namespaced").await;
    let widgets: Api<DynamicObject> = Api::namespaced_with(house.client.clone(), "default", &old);
    let w = create(&widgets, widget(&old, "w", json!([]))).await.uid().expect("a UID");
    let of = json!([{"apiVersion": old.api_version, "kind": "Widget", "name": "w", "uid": w}]);
    house.map("a", of).await;
    settle(&house).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(house.client.clone());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = json!([
        {"name": "v1", "served": false, "storage": true, "schema": schema},
        {"name": "v2", "served": true, "storage": false, "schema": schema},
    ]);
    let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
    definitions.patch("widgets.moved.example.com", &PatchParams::default(), &patch).await.expect("patched");
    let new = ApiResource {
        version: "v2".to_owned(),
        api_version: old.api_version.replace("v1", "v2"),
        ..old.clone()
    };
    let widgets: Api<DynamicObject> = Api::namespaced_with(house.client.clone(), "default", &new);
    until("the other version is served", || async { widgets.get("w").await.ok() }).await;
    // Its watch has begun anew once this is collected.
    let v = create(&widgets, widget(&new, "v", json!([]))).await.uid().expect("a UID");
    house.map("b", json!([{"apiVersion": new.api_version, "kind": "Widget", "name": "v", "uid": v}])).await;
    widgets.delete("v", &DeleteParams::default()).await.expect("deleted");
    house.gone("b").await;
    assert_eq!(names(&house).await, ["a"]);
    widgets.delete("w", &DeleteParams::default()).await.expect("deleted");
    house.gone("a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_before_it_began_is_caught_up_with() {
    let mut house = House::untidy().await;
    let (a, f, o) =
        (house.map("a", json!([])).await, house.map("f", json!([])).await, house.map("o", json!([])).await);
    house.map("of-a", json!([owner("a", &a)])).await;
    house.map("of-f", json!([blocked("f", &f)])).await;
    house.map("of-o", json!([owner("o", &o)])).await;
    house.delete("a", Background).await;
    house.delete("f", Foreground).await;
    house.delete("o", Orphan).await;
    house.tidy(Options::default());
    for name in ["a", "of-a", "f", "of-f", "o"] {
        house.gone(name).await;
    }
    settle(&house).await;
    assert_eq!(names(&house).await, ["of-o"]);
    house.neglect().await;
    house.delete("of-o", Background).await;
}

/// `n` dependents of one owner, which goes: how long they take to go as well.
async fn many(n: usize) -> Duration {
    let house = House::new().await;
    let a = house.map("a", json!([])).await;
    let (house, a) = (&house, &a);
    let each = stream::iter(0..n).map(|number| async move {
        house.map(&format!("d{number}"), json!([owner("a", a)])).await;
    });
    each.buffer_unordered(64).for_each(|()| async {}).await;
    let begun = Instant::now();
    house.delete("a", Background).await;
    let one = ListParams::default().limit(2);
    let maps = house.maps();
    loop {
        let left = maps.list_metadata(&one).await.expect("a list");
        if left.iter().all(|map| !map.name_any().starts_with('d')) {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < Duration::from_secs(600), "some are left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A hundred thousand in a minute is 0.6 ms for each. Code that is not optimised has more time.
fn allowed(n: usize) -> Duration {
    let each = Duration::from_micros(if cfg!(debug_assertions) { 10_000 } else { 600 });
    (each * u32::try_from(n).expect("not that many")).max(Duration::from_secs(5))
}

#[tokio::test(flavor = "multi_thread")]
async fn many_dependents_go_soon() {
    // More of them for whoever wants to know.
    let n = std::env::var("DEPENDENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(5_000);
    let took = many(n).await;
    println!("{n} dependents went in {took:?}");
    assert!(took < allowed(n), "{n} took {took:?}");
}
