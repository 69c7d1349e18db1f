//! Namespaces that are deleted.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::Instant;

use crate::house::{House, create, until};

pub(crate) async fn delete(house: &House, name: &str) {
    let namespaces: Api<Namespace> = Api::all(house.client.clone());
    namespaces.delete(name, &DeleteParams::default()).await.expect("deleted");
}

pub(crate) async fn gone(house: &House, name: &str) {
    let namespaces: Api<Namespace> = Api::all(house.client.clone());
    until(&format!("{name} is gone"), || async {
        namespaces.get_opt(name).await.expect("an answer").is_none().then_some(())
    })
    .await;
}

/// Waits for a condition to be of this status, reason and message.
pub(crate) async fn condition(house: &House, name: &str, type_: &str, wanted: [&str; 3]) {
    let namespaces: Api<Namespace> = Api::all(house.client.clone());
    until(&format!("{type_} is {wanted:?}"), || async {
        let found = namespaces.get(name).await.expect("it is there").status?.conditions?;
        let found = found.into_iter().find(|condition| condition.type_ == type_)?;
        let text = |text: Option<String>| text.unwrap_or_default();
        ([found.status, text(found.reason), text(found.message)] == wanted).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_in_a_namespace_goes_and_nothing_else() {
    let house = House::new().await;
    let widget = house.define("emptied", "Namespaced").await;
    for name in ["going", "staying"] {
        house.namespace(name).await;
        create(&house.all::<ConfigMap>(name), json!({"metadata": {"name": "a"}})).await;
        create(&house.all::<Secret>(name), json!({"metadata": {"name": "a"}})).await;
        let widgets: Api<DynamicObject> = Api::namespaced_with(house.client.clone(), name, &widget);
        let object = json!({"apiVersion": widget.api_version, "kind": "Widget", "metadata": {"name": "a"}});
        create(&widgets, object).await;
    }
    delete(&house, "going").await;
    gone(&house, "going").await;
    for (namespace, number) in [("going", 0), ("staying", 1)] {
        let widgets: Api<DynamicObject> = Api::namespaced_with(house.client.clone(), namespace, &widget);
        assert_eq!(widgets.list(&ListParams::default()).await.expect("a list").items.len(), number);
        let maps = house.all::<ConfigMap>(namespace);
        assert_eq!(maps.get_opt("a").await.expect("an answer").is_some(), number == 1);
        let secrets = house.all::<Secret>(namespace);
        assert_eq!(secrets.list(&ListParams::default()).await.expect("a list").items.len(), number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_says_what_it_waits_for_and_goes_when_that_is_gone() {
    let house = House::new().await;
    house.namespace("stuck").await;
    let maps = house.all::<ConfigMap>("stuck");
    for name in ["a", "b"] {
        create(&maps, json!({"metadata": {"name": name, "finalizers": ["example.com/held"]}})).await;
    }
    let secrets = house.all::<Secret>("stuck");
    create(
        &secrets,
        json!({"metadata": {"name": "s", "finalizers": ["example.com/held", "example.com/other"]}}),
    )
    .await;
    delete(&house, "stuck").await;
    let expected = [
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 2 resource instances, secrets. has 1 resource instances",
        ),
        (
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/held in 3 resource instances, \
             example.com/other in 1 resource instances",
        ),
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
    ];
    for (type_, status, reason, message) in expected {
        condition(&house, "stuck", type_, [status, reason, message]).await;
    }
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for name in ["a", "b"] {
        maps.patch(name, &PatchParams::default(), &free).await.expect("patched");
    }
    let left = "Some resources are remaining: secrets. has 1 resource instances";
    condition(&house, "stuck", "NamespaceContentRemaining", ["True", "SomeResourcesRemain", left]).await;
    secrets.patch("s", &PatchParams::default(), &free).await.expect("patched");
    gone(&house, "stuck").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_go_before_everything_else() {
    let house = House::new().await;
    house.namespace("ordered").await;
    let pods = house.all::<Pod>("ordered");
    let pod = json!({
        "metadata": {"name": "p", "finalizers": ["example.com/held"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    create(&pods, pod).await;
    create(&house.all::<ConfigMap>("ordered"), json!({"metadata": {"name": "a"}})).await;
    delete(&house, "ordered").await;
    let left = "Some resources are remaining: pods. has 1 resource instances";
    condition(&house, "ordered", "NamespaceContentRemaining", ["True", "SomeResourcesRemain", left]).await;
    assert!(house.all::<ConfigMap>("ordered").get_opt("a").await.expect("an answer").is_some());
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    pods.patch("p", &PatchParams::default(), &free).await.expect("patched");
    gone(&house, "ordered").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_of_others_hold_a_namespace() {
    let house = House::new().await;
    let namespaces: Api<Namespace> = Api::all(house.client.clone());
    let namespace = json!({"metadata": {"name": "held"}, "spec": {"finalizers": ["example.com/other"]}});
    create(&namespaces, namespace).await;
    delete(&house, "held").await;
    let found = until("only the other finalizer is left", || async {
        let found = namespaces.get("held").await.expect("it is there");
        let left = found.spec.clone()?.finalizers?;
        (left == ["example.com/other"]).then_some(found)
    })
    .await;
    let mut freed = found;
    freed.spec.as_mut().expect("a spec").finalizers = None;
    let done = namespaces.replace_subresource("finalize", "held", &Default::default(), &freed).await;
    assert!(done.is_ok(), "{done:?}");
    gone(&house, "held").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_objects_go_soon() {
    let house = House::new().await;
    house.namespace("full").await;
    let maps = house.all::<ConfigMap>("full");
    let each = stream::iter(0..10_000).map(|number| {
        let maps = maps.clone();
        async move { create(&maps, json!({"metadata": {"name": format!("m{number}")}})).await }
    });
    each.buffer_unordered(64).for_each(|_| async {}).await;
    let begun = Instant::now();
    delete(&house, "full").await;
    gone(&house, "full").await;
    println!("10,000 objects of a namespace went in {:?}", begun.elapsed());
    // Code that is not optimised has more time.
    let allowed = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 10 });
    assert!(begun.elapsed() < allowed, "{:?}", begun.elapsed());
}
