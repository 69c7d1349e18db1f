//! Claims and volumes stay as long as they are used, and no longer.

use k8s_openapi::api::{
    core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::VolumeAttributesClass,
};
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::house::{House, create, until};

const OF_CLAIM: &str = "kubernetes.io/pvc-protection";

fn claim(name: &str) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A pod with one volume; it runs on a node unless that is empty.
fn pod(name: &str, node: &str, volume: Value) -> Value {
    let containers = json!([{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]);
    let mut pod =
        json!({"metadata": {"name": name}, "spec": {"containers": containers, "volumes": [volume]}});
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

fn of_claim(name: &str) -> Value {
    json!({"name": "v", "persistentVolumeClaim": {"claimName": name}})
}

async fn is_gone<K: Clone + std::fmt::Debug + DeserializeOwned>(api: &Api<K>, name: &str) {
    until(&format!("{name} is gone"), || async {
        api.get_opt(name).await.expect("an answer").is_none().then_some(())
    })
    .await;
}

async fn delete<K: Clone + std::fmt::Debug + DeserializeOwned>(api: &Api<K>, name: &str) {
    api.delete(name, &DeleteParams::default()).await.expect("deleted");
}

/// Waits until an object has these finalizers.
async fn has<K: Resource + Clone + std::fmt::Debug + DeserializeOwned>(
    api: &Api<K>,
    name: &str,
    finalizers: &[&str],
) {
    until(&format!("{name} has {finalizers:?}"), || async {
        let found = api.get(name).await.expect("it is there").meta().finalizers.clone();
        (found.unwrap_or_default() == finalizers).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_deleted_goes_when_no_pod_on_a_node_uses_it() {
    let house = House::new().await;
    let (claims, pods) = (house.all::<PersistentVolumeClaim>("default"), house.all::<Pod>("default"));
    for name in ["unused", "waited-for", "used"] {
        create(&claims, claim(name)).await;
    }
    create(&pods, pod("waits", "", of_claim("waited-for"))).await;
    create(&pods, pod("runs", "node", of_claim("used"))).await;
    for name in ["used", "unused", "waited-for"] {
        delete(&claims, name).await;
    }
    is_gone(&claims, "unused").await;
    is_gone(&claims, "waited-for").await;
    // A pod that is over still has the volume.
    let over = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("runs", &PatchParams::default(), &over).await.expect("patched");
    create(&claims, claim("later")).await;
    delete(&claims, "later").await;
    is_gone(&claims, "later").await;
    has(&claims, "used", &[OF_CLAIM]).await;
    pods.delete("runs", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    is_gone(&claims, "used").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_made_for_a_pod_goes_with_it_and_not_before() {
    let house = House::new().await;
    let (claims, pods) = (house.all::<PersistentVolumeClaim>("default"), house.all::<Pod>("default"));
    let template = json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim("")["spec"]}}});
    let mut runs = pod("runs", "node", template);
    runs["metadata"]["finalizers"] = json!(["example.com/held"]);
    let runs = create(&pods, runs).await;
    // Who has the name but is somebody else's is not in use.
    create(&claims, claim("runs-v")).await;
    delete(&claims, "runs-v").await;
    is_gone(&claims, "runs-v").await;
    let mut own = claim("runs-v");
    own["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Pod", "name": "runs", "uid": runs.metadata.uid, "controller": true}
    ]);
    create(&claims, own).await;
    delete(&claims, "runs-v").await;
    create(&claims, claim("later")).await;
    delete(&claims, "later").await;
    is_gone(&claims, "later").await;
    has(&claims, "runs-v", &[OF_CLAIM]).await;
    // The pod cannot go, but it is over.
    pods.delete("runs", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    is_gone(&claims, "runs-v").await;
    assert!(pods.get_opt("runs").await.expect("an answer").is_some(), "somebody holds it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_deleted_goes_when_it_is_not_bound() {
    let house = House::new().await;
    let volumes: Api<PersistentVolume> = Api::all(house.client.clone());
    let spec =
        json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/v"}});
    for name in ["bound", "free"] {
        create(&volumes, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    let phase = |phase: &'static str| {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        let volumes = volumes.clone();
        async move { volumes.patch_status("bound", &PatchParams::default(), &patch).await.expect("patched") }
    };
    phase("Bound").await;
    delete(&volumes, "bound").await;
    delete(&volumes, "free").await;
    is_gone(&volumes, "free").await;
    has(&volumes, "bound", &["kubernetes.io/pv-protection"]).await;
    phase("Released").await;
    is_gone(&volumes, "bound").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protection_comes_back_and_other_finalizers_stay() {
    let house = House::new().await;
    let claims = house.all::<PersistentVolumeClaim>("default");
    create(&claims, claim("mine")).await;
    let bare = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    claims.patch("mine", &PatchParams::default(), &bare).await.expect("patched");
    has(&claims, "mine", &["example.com/held", OF_CLAIM]).await;
    delete(&claims, "mine").await;
    has(&claims, "mine", &["example.com/held"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_with_claims_goes() {
    let house = House::new().await;
    house.namespace("full").await;
    create(&house.all::<PersistentVolumeClaim>("full"), claim("data")).await;
    create(&house.all::<Pod>("full"), pod("waits", "", of_claim("data"))).await;
    let namespaces: Api<Namespace> = Api::all(house.client.clone());
    delete(&namespaces, "full").await;
    is_gone(&namespaces, "full").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_is_deleted_goes_when_no_claim_names_it() {
    let house = House::new().await;
    let classes: Api<VolumeAttributesClass> = Api::all(house.client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(house.client.clone(), "default");
    for name in ["gold", "silver"] {
        create(&classes, json!({"metadata": {"name": name}, "driverName": "a.b", "parameters": {"x": "y"}}))
            .await;
    }
    let mut named = claim("data");
    named["spec"]["volumeAttributesClassName"] = "gold".into();
    create(&claims, named).await;
    delete(&classes, "silver").await;
    is_gone(&classes, "silver").await;
    delete(&classes, "gold").await;
    has(&classes, "gold", &["kubernetes.io/vac-protection"]).await;
    delete(&claims, "data").await;
    is_gone(&classes, "gold").await;
}
