//! What quotas say is used.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service},
        scheduling::v1::PriorityClass,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_housekeeping::Options;

use crate::{
    house::{House, create, until},
    meddler::{meddled, pass},
};

type Said = BTreeMap<String, String>;

/// Waits until a quota says this of what is bounded and of what is used.
async fn says(house: &House, name: &str, hard: &Value, used: &Value) {
    let quotas = house.all::<ResourceQuota>("default");
    let of = |value: &Value| serde_json::from_value::<Said>(value.clone()).expect("amounts");
    let expected = (of(hard), of(used));
    until(&format!("{name} says {used}"), || async {
        let status = quotas.get(name).await.expect("it is there").status.unwrap_or_default();
        let text = |amounts: Option<BTreeMap<String, Quantity>>| -> Said {
            amounts.into_iter().flatten().map(|(name, amount)| (name, amount.0)).collect()
        };
        ((text(status.hard), text(status.used)) == expected).then_some(())
    })
    .await;
}

async fn quota(house: &House, name: &str, spec: Value) {
    create(&house.all::<ResourceQuota>("default"), json!({"metadata": {"name": name}, "spec": spec})).await;
}

/// Has a quota say something else.
async fn tamper(house: &House, name: &str, used: Value) {
    let quotas = house.all::<ResourceQuota>("default");
    let patch = Patch::Merge(json!({"status": {"used": used}}));
    quotas.patch_status(name, &PatchParams::default(), &patch).await.expect("patched");
}

fn pod(name: &str, more: Value) -> Value {
    let mut spec = json!({
        "containers": [{"name": "c", "image": "i", "resources": {
            "requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"},
        }}],
        "initContainers": [
            {"name": "side", "image": "i", "restartPolicy": "Always", "resources": {
                "requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "100m", "memory": "1Mi"},
            }},
            {"name": "init", "image": "i", "resources": {
                "requests": {"cpu": "600m", "memory": "1Mi"}, "limits": {"cpu": "600m", "memory": "1Mi"},
            }},
        ],
    });
    spec.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_put_right() {
    let house = House::new().await;
    let hard = json!({
        "pods": "10", "count/pods": "10", "requests.cpu": "10", "limits.memory": "10Gi", "memory": "10Gi",
        "services": "10", "services.nodeports": "10", "services.loadbalancers": "10", "configmaps": "10",
        "count/secrets": "10", "persistentvolumeclaims": "10", "requests.storage": "10Gi", "resourcequotas": "10",
        "count/deployments.apps": "10", "replicationcontrollers": "10",
    });
    let pods = house.all::<Pod>("default");
    create(&pods, pod("running", json!({}))).await;
    create(&pods, pod("ended", json!({}))).await;
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("ended", &PatchParams::default(), &ended).await.expect("patched");
    let services = house.all::<Service>("default");
    for (name, kind) in [("a", "ClusterIP"), ("b", "NodePort"), ("c", "LoadBalancer")] {
        let spec = json!({"type": kind, "ports": [{"name": "x", "port": 1}, {"name": "y", "port": 2}]});
        create(&services, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    house.map("m", json!([])).await;
    create(&house.all::<Secret>("default"), json!({"metadata": {"name": "s"}})).await;
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}});
    create(&house.all::<PersistentVolumeClaim>("default"), json!({"metadata": {"name": "p"}, "spec": claim}))
        .await;
    quota(&house, "q", json!({"hard": hard})).await;
    // The server has a service of its own in this namespace.
    let mut used = json!({
        "pods": "1", "count/pods": "2", "requests.cpu": "700m", "limits.memory": "129Mi", "memory": "65Mi",
        "services": "4", "services.nodeports": "4", "services.loadbalancers": "1", "configmaps": "1",
        "count/secrets": "1", "persistentvolumeclaims": "1", "requests.storage": "3Gi", "resourcequotas": "1",
        "count/deployments.apps": "0", "replicationcontrollers": "0",
    });
    says(&house, "q", &hard, &used).await;
    let wrong: serde_json::Map<String, Value> =
        used.as_object().expect("a map").keys().map(|name| (name.clone(), json!("7"))).collect();
    tamper(&house, "q", wrong.into()).await;
    says(&house, "q", &hard, &used).await;
    house.maps().delete("m", &DeleteParams::default()).await.expect("deleted");
    services.delete("b", &DeleteParams::default()).await.expect("deleted");
    pods.delete("running", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    let changes = [
        ("configmaps", "0"),
        ("services", "3"),
        ("services.nodeports", "2"),
        ("pods", "0"),
        ("count/pods", "1"),
        ("requests.cpu", "0"),
        ("limits.memory", "0"),
        ("memory", "0"),
    ];
    for (name, now) in changes {
        used[name] = now.into();
    }
    says(&house, "q", &hard, &used).await;
    let less = json!({"hard": {"pods": "3", "secrets": "4"}});
    let quotas = house.all::<ResourceQuota>("default");
    until("the quota is another", || async {
        let mut quota = quotas.get("q").await.expect("it is there");
        quota.spec = serde_json::from_value(less.clone()).expect("a spec");
        quotas.replace("q", &Default::default(), &quota).await.ok()
    })
    .await;
    says(&house, "q", &less["hard"], &json!({"pods": "0", "secrets": "1"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_with_scopes_count_what_fits() {
    let house = House::new().await;
    let hard = json!({"pods": "10"});
    let best_effort = json!({"containers": [{"name": "c", "image": "i"}], "initContainers": []});
    let pods = house.all::<Pod>("default");
    create(&pods, pod("asks", json!({"activeDeadlineSeconds": 5}))).await;
    create(&pods, pod("asks-too", json!({}))).await;
    create(&pods, pod("nothing", best_effort)).await;
    let expected =
        [("Terminating", "1"), ("NotTerminating", "2"), ("BestEffort", "1"), ("NotBestEffort", "2")];
    for (scope, number) in expected {
        let name = scope.to_lowercase();
        quota(&house, &name, json!({"hard": hard, "scopes": [scope]})).await;
        tamper(&house, &name, json!({"pods": "9"})).await;
        says(&house, &name, &hard, &json!({"pods": number})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_with_selectors_count_what_is_selected() {
    let house = House::new().await;
    let hard = json!({"pods": "10"});
    let pods = house.all::<Pod>("default");
    let classes: Api<PriorityClass> = Api::all(house.client.clone());
    for (name, value) in [("high", 100), ("low", 1)] {
        create(&classes, json!({"metadata": {"name": name}, "value": value})).await;
        create(&pods, pod(name, json!({"priorityClassName": name}))).await;
    }
    create(&pods, pod("none", json!({}))).await;
    let elsewhere = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "namespaces": ["other"]},
    ]}});
    create(&pods, pod("elsewhere", json!({"affinity": elsewhere}))).await;
    for (name, scope, operator, values, number) in [
        ("in", "PriorityClass", "In", json!(["high"]), "1"),
        ("not-in", "PriorityClass", "NotIn", json!(["high"]), "3"),
        ("exists", "PriorityClass", "Exists", json!([]), "2"),
        ("exists-not", "PriorityClass", "DoesNotExist", json!([]), "2"),
        ("across", "CrossNamespacePodAffinity", "Exists", json!([]), "1"),
    ] {
        let selector = json!([{"scopeName": scope, "operator": operator, "values": values}]);
        quota(&house, name, json!({"hard": hard, "scopeSelector": {"matchExpressions": selector}})).await;
        tamper(&house, name, json!({"pods": "9"})).await;
        says(&house, name, &hard, &json!({"pods": number})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_is_counted_by_class() {
    let house = House::new().await;
    let claims = house.all::<PersistentVolumeClaim>("default");
    for (name, class) in [("a", "gold"), ("b", "silver")] {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "3Gi"}}});
        create(&claims, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    let hard = json!({
        "gold.storageclass.storage.k8s.io/requests.storage": "10Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "10",
        "requests.storage": "10Gi",
    });
    let used = json!({
        "gold.storageclass.storage.k8s.io/requests.storage": "3Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "requests.storage": "6Gi",
    });
    quota(&house, "q", json!({"hard": hard})).await;
    let wrong: serde_json::Map<String, Value> =
        used.as_object().expect("a map").keys().map(|name| (name.clone(), json!("7"))).collect();
    tamper(&house, "q", wrong.into()).await;
    says(&house, "q", &hard, &used).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_should_have_ended_use_nothing() {
    let mut house = House::untidy().await;
    let hard = json!({"pods": "10", "count/pods": "10", "requests.cpu": "10"});
    let pods = house.all::<Pod>("default");
    let mut stuck = pod("stuck", json!({}));
    stuck["metadata"]["finalizers"] = json!(["example.com/held"]);
    create(&pods, stuck).await;
    create(&pods, pod("well", json!({}))).await;
    pods.delete("stuck", &DeleteParams::default()).await.expect("deleted");
    quota(&house, "q", json!({"hard": hard})).await;
    let clock = Arc::new(|| Timestamp::now() + SignedDuration::from_hours(1));
    house.tidy(Options { clock, ..Options::default() });
    says(&house, "q", &hard, &json!({"pods": "1", "count/pods": "2", "requests.cpu": "700m"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_count_are_not_each_counted_again() {
    let mut house = House::untidy().await;
    let (client, log) = meddled(&house.client, pass);
    house.tidy_as(client, Options::default());
    let hard = json!({"configmaps": "500", "count/secrets": "500"});
    quota(&house, "q", json!({"hard": hard})).await;
    says(&house, "q", &hard, &json!({"configmaps": "0", "count/secrets": "0"})).await;
    let begun = Instant::now();
    for number in 0..200 {
        house.map(&format!("m{number}"), json!([])).await;
    }
    says(&house, "q", &hard, &json!({"configmaps": "200", "count/secrets": "0"})).await;
    let n_counts =
        log.lock().iter().filter(|asked| asked.is("GET", "/api/v1/namespaces/default/configmaps")).count();
    let allowed = 4 + begun.elapsed().as_secs();
    assert!(n_counts as u64 <= allowed, "{n_counts} in {:?}", begun.elapsed());
    // Nor are kinds discovered each time: the collector does so, too.
    let n_discoveries = log.lock().iter().filter(|asked| asked.is("GET", "/apis")).count();
    assert!(n_discoveries <= 5, "{n_discoveries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_come_after_a_quota_are_counted() {
    let house = House::new().await;
    let hard = json!({"count/widgets.counted.example.com": "5", "configmaps": "5"});
    quota(&house, "q", json!({"hard": hard})).await;
    says(&house, "q", &hard, &json!({"configmaps": "0"})).await;
    let resource = house.define("counted", "Namespaced").await;
    says(&house, "q", &hard, &json!({"count/widgets.counted.example.com": "0", "configmaps": "0"})).await;
    let widgets: Api<DynamicObject> = Api::namespaced_with(house.client.clone(), "default", &resource);
    let widget = json!({"apiVersion": resource.api_version, "kind": "Widget", "metadata": {"name": "w"}});
    create(&widgets, widget).await;
    create(&house.all::<ConfigMap>("default"), json!({"metadata": {"name": "m"}})).await;
    says(&house, "q", &hard, &json!({"count/widgets.counted.example.com": "1", "configmaps": "1"})).await;
}
