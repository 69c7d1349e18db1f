//! Quotas over sequences of writes, in order and out of it.

use serde_json::json;

use super::*;
use crate::admission::rehearsal::World;

fn named(kind: &str, name: &str, body: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"}});
    object.as_object_mut().expect("a map").extend(body.as_object().expect("a map").clone());
    object
}

fn quota(name: &str, hard: Value) -> Value {
    named("ResourceQuota", name, json!({"spec": {"hard": hard}}))
}

fn pod(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    named("Pod", name, json!({"spec": {"containers": [{"name": "c1", "resources": resources}]}}))
}

async fn used(world: &World, name: &str) -> Value {
    let quota = world.get("resourcequotas", "ns", name).await.expect("it is there");
    assert_eq!(quota["status"]["hard"], quota["spec"]["hard"]);
    quota["status"]["used"].clone()
}

async fn create(world: &World, plural: &str, value: Value) -> Result<(), String> {
    world.create(&ResourceQuota, plural, value).await.map(|_| ())
}

#[tokio::test]
async fn writes_are_counted_until_the_bound_is_reached() {
    let world = World::new();
    create(&world, "resourcequotas", quota("q", json!({"pods": "1", "requests.cpu": "2"})))
        .await
        .expect("ok");
    assert_eq!(used(&world, "q").await, json!({"pods": "0", "requests.cpu": "0"}));
    create(&world, "pods", pod("a", "500m")).await.expect("there is room");
    assert_eq!(used(&world, "q").await, json!({"pods": "1", "requests.cpu": "500m"}));
    assert_eq!(
        create(&world, "pods", pod("b", "1")).await,
        Err("pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
            .to_owned())
    );
    assert_eq!(
        create(&world, "pods", pod("b", "1600m")).await,
        Err("pods \"b\" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1600m, \
             used: pods=1,requests.cpu=500m, limited: pods=1,requests.cpu=2"
            .to_owned())
    );
    world.delete(&ResourceQuota, "pods", &pod("a", "500m")).await.expect("deleted");
    assert_eq!(used(&world, "q").await, json!({"pods": "0", "requests.cpu": "0"}));
    create(&world, "pods", pod("b", "1600m")).await.expect("there is room again");
}

#[tokio::test]
async fn a_new_quota_counts_what_is_there_and_itself() {
    let world = World::new();
    for name in ["a", "b"] {
        create(&world, "secrets", named("Secret", name, json!({}))).await.expect("nothing is bounded");
    }
    let hard = json!({
        "secrets": "5", "count/secrets": "5", "resourcequotas": "3", "count/deployments.apps": "1", "unknown": "1",
    });
    create(&world, "resourcequotas", quota("q", hard)).await.expect("ok");
    let counted =
        json!({"secrets": "2", "count/secrets": "2", "resourcequotas": "1", "count/deployments.apps": "0"});
    assert_eq!(used(&world, "q").await, counted);
    create(&world, "resourcequotas", quota("r", json!({"configmaps": "1"}))).await.expect("ok");
    assert_eq!(used(&world, "q").await["resourcequotas"], "2");
    create(&world, "deployments.apps", named("Deployment", "d", json!({}))).await.expect("there is room");
    assert_eq!(
        create(&world, "deployments.apps", named("Deployment", "e", json!({}))).await,
        Err("deployments.apps \"e\" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, \
             used: count/deployments.apps=1, limited: count/deployments.apps=1"
            .to_owned())
    );
    let mut wider = world.get("resourcequotas", "ns", "r").await.expect("it is there");
    wider["spec"]["hard"] = json!({"secrets": "1"});
    world
        .update(&ResourceQuota, "resourcequotas", None, wider)
        .await
        .expect("bounds may be below what is used");
    assert_eq!(used(&world, "r").await, json!({"secrets": "2"}));
    assert!(create(&world, "secrets", named("Secret", "c", json!({}))).await.is_err());
    world.delete(&ResourceQuota, "resourcequotas", &quota("r", json!({}))).await.expect("deleted");
    assert_eq!(used(&world, "q").await["resourcequotas"], "1");
    create(&world, "secrets", named("Secret", "c", json!({}))).await.expect("only the other one is left");
}

#[tokio::test]
async fn an_ended_pod_takes_nothing_but_its_place() {
    let world = World::new();
    let hard = json!({"pods": "1", "cpu": "1", "count/pods": "5"});
    create(&world, "resourcequotas", quota("q", hard)).await.expect("ok");
    create(&world, "pods", pod("a", "1")).await.expect("ok");
    let mut ended = pod("a", "1");
    ended["status"] = json!({"phase": "Succeeded"});
    world.update(&ResourceQuota, "pods", Some("status"), ended).await.expect("ok");
    assert_eq!(used(&world, "q").await, json!({"pods": "0", "cpu": "0", "count/pods": "1"}));
    create(&world, "pods", pod("b", "1")).await.expect("there is room");
    world.delete(&ResourceQuota, "pods", &pod("a", "1")).await.expect("ok");
    assert_eq!(used(&world, "q").await, json!({"pods": "1", "cpu": "1", "count/pods": "1"}));
}

#[tokio::test]
async fn pods_must_say_what_is_bounded() {
    let world = World::new();
    create(&world, "resourcequotas", quota("x", json!({"cpu": "1", "memory": "1Gi"}))).await.expect("ok");
    let bare = json!({"spec": {"containers": [{"name": "c1"}, {"name": "c2", "resources": {"requests": {"cpu": "1"}}}]}});
    assert_eq!(
        create(&world, "pods", named("Pod", "p", bare)).await,
        Err("pods \"p\" is forbidden: failed quota: x: must specify cpu for: c1; memory for: c1,c2"
            .to_owned())
    );
    let whole = json!({"spec": {
        "containers": [{"name": "c1"}], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }});
    create(&world, "pods", named("Pod", "p", whole)).await.expect("the pod says it for all of them");
    assert_eq!(used(&world, "x").await, json!({"cpu": "1", "memory": "1Gi"}));
}

#[tokio::test]
async fn services_and_claims_are_counted_by_what_they_take() {
    let world = World::new();
    let hard = json!({
        "services": "9", "services.nodeports": "9", "services.loadbalancers": "9", "persistentvolumeclaims": "9",
        "requests.storage": "10Gi", "fast.storageclass.storage.k8s.io/requests.storage": "5Gi",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "9",
    });
    create(&world, "resourcequotas", quota("q", hard)).await.expect("ok");
    let service = |kind: &str| {
        let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30001}]);
        named("Service", "s", json!({"spec": {"type": kind, "ports": ports}}))
    };
    let mut sparing = service("LoadBalancer");
    sparing["spec"]["allocateLoadBalancerNodePorts"] = false.into();
    create(&world, "services", service("ClusterIP")).await.expect("ok");
    for (service, balanced, on_nodes) in [
        (service("NodePort"), "0", "2"),
        (service("LoadBalancer"), "1", "2"),
        (sparing, "1", "1"),
        (service("ClusterIP"), "0", "0"),
    ] {
        world.update(&ResourceQuota, "services", None, service).await.expect("ok");
        let used = used(&world, "q").await;
        assert_eq!(used["services"], "1");
        assert_eq!(
            (&used["services.loadbalancers"], &used["services.nodeports"]),
            (&json!(balanced), &json!(on_nodes))
        );
    }
    let claim = |name: &str, class: &str, size: &str| {
        let spec = json!({"storageClassName": class, "resources": {"requests": {"storage": size}}});
        named("PersistentVolumeClaim", name, json!({"spec": spec}))
    };
    create(&world, "persistentvolumeclaims", claim("a", "fast", "2Gi")).await.expect("ok");
    create(&world, "persistentvolumeclaims", claim("b", "slow", "3Gi")).await.expect("ok");
    world
        .update(&ResourceQuota, "persistentvolumeclaims", None, claim("a", "fast", "4Gi"))
        .await
        .expect("ok");
    let used = used(&world, "q").await;
    assert_eq!(used["requests.storage"], "7Gi");
    assert_eq!(used["fast.storageclass.storage.k8s.io/requests.storage"], "4Gi");
    assert_eq!(used["fast.storageclass.storage.k8s.io/persistentvolumeclaims"], "1");
    assert_eq!(
        world.update(&ResourceQuota, "persistentvolumeclaims", None, claim("a", "fast", "6Gi")).await,
        Err("persistentvolumeclaims \"a\" is forbidden: exceeded quota: q, requested: \
             fast.storageclass.storage.k8s.io/requests.storage=2Gi, used: \
             fast.storageclass.storage.k8s.io/requests.storage=4Gi, limited: \
             fast.storageclass.storage.k8s.io/requests.storage=5Gi"
            .to_owned())
    );
}

#[tokio::test]
async fn scopes_say_which_pods_are_counted() {
    let scoped = |scopes: Value| json!({"hard": {"count/pods": "9", "secrets": "9"}, "scopes": scopes});
    let selected = |operator: &str, values: Value| {
        let expression = json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
        json!({"hard": {"count/pods": "9"}, "scopeSelector": {"matchExpressions": [expression]}})
    };
    let mut urgent = pod("a", "1");
    urgent["spec"]["priorityClassName"] = "high".into();
    urgent["spec"]["activeDeadlineSeconds"] = 5.into();
    let mut wide = named("Pod", "b", json!({"spec": {"containers": [{"name": "c"}]}}));
    wide["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}});
    for (spec, first, second) in [
        (scoped(json!(["BestEffort"])), 0, 1),
        (scoped(json!(["NotBestEffort"])), 1, 0),
        (scoped(json!(["Terminating"])), 1, 0),
        (scoped(json!(["NotTerminating"])), 0, 1),
        (scoped(json!(["NotTerminating", "NotBestEffort"])), 0, 0),
        (scoped(json!(["PriorityClass"])), 1, 0),
        (scoped(json!(["CrossNamespacePodAffinity"])), 0, 1),
        (selected("In", json!(["high", "low"])), 1, 0),
        (selected("In", json!(["low"])), 0, 0),
        (selected("NotIn", json!(["high"])), 0, 1),
        (selected("Exists", json!([])), 1, 0),
        (selected("DoesNotExist", json!([])), 0, 1),
    ] {
        let world = World::new();
        create(&world, "resourcequotas", named("ResourceQuota", "q", json!({"spec": spec})))
            .await
            .expect("ok");
        create(&world, "secrets", named("Secret", "s", json!({}))).await.expect("ok");
        for (pod, counted) in [(&urgent, first), (&wide, first + second)] {
            create(&world, "pods", pod.clone()).await.expect("ok");
            let used = used(&world, "q").await;
            assert_eq!(used["count/pods"], counted.to_string(), "{spec}");
            assert_ne!(used["secrets"], "1", "only pods have scopes");
        }
    }
}

#[tokio::test]
async fn a_write_that_did_not_see_a_new_quota_is_made_again_or_counted() {
    let world = World::new();
    let secret = |name: &str| named("Secret", name, json!({}));
    let write = async |view: &View, plural: &str, value: &Value| {
        world.write(view, &ResourceQuota, Operation::Create, plural, None, value).await.map(|_| ())
    };
    // Both are begun; the quota comes second and has not counted the secret.
    let before = world.view().await;
    write(&before, "secrets", &secret("a")).await.expect("ok");
    write(&before, "resourcequotas", &quota("q", json!({"secrets": "2"}))).await.expect("ok");
    assert_eq!(used(&world, "q").await, json!({"secrets": "0"}));
    // One that still does not know of the quota cannot happen any more.
    assert_eq!(write(&before, "secrets", &secret("b")).await, Err("conflict".to_owned()));
    // The next that does sees all of them.
    create(&world, "secrets", secret("b")).await.expect("there is room");
    assert_eq!(used(&world, "q").await, json!({"secrets": "2"}));
    assert_eq!(write(&before, "secrets", &secret("c")).await, Err("conflict".to_owned()));
    assert!(create(&world, "secrets", secret("c")).await.is_err(), "it is full");
}

#[tokio::test]
async fn what_controllers_write_into_the_status_is_left_alone() {
    let world = World::new();
    create(&world, "resourcequotas", quota("q", json!({"secrets": "2"}))).await.expect("ok");
    let mut reported = world.get("resourcequotas", "ns", "q").await.expect("it is there");
    reported["status"]["used"]["secrets"] = "1".into();
    world.update(&ResourceQuota, "resourcequotas", Some("status"), reported.clone()).await.expect("ok");
    assert_eq!(world.get("resourcequotas", "ns", "q").await, Some(reported.clone()));
    reported["metadata"]["labels"] = json!({"a": "b"});
    world.update(&ResourceQuota, "resourcequotas", None, reported).await.expect("ok");
    assert_eq!(used(&world, "q").await, json!({"secrets": "1"}));
}

fn random_object(random: &mut fastrand::Rng, plural: &str, name: &str) -> Value {
    let amounts = ["0", "100m", "1", "1500m", "2", "0.25", "1e1"];
    let cpu = amounts[random.usize(..amounts.len())];
    match plural {
        "pods" => {
            let mut pod = pod(name, cpu);
            if random.bool() {
                pod["spec"]["initContainers"] = json!([pod["spec"]["containers"][0].clone()]);
                pod["spec"]["initContainers"][0]["resources"]["requests"]["example.com/gpu"] = "2".into();
            }
            if random.bool() {
                pod["spec"]["activeDeadlineSeconds"] = 9.into();
            }
            if random.u8(..4) == 0 {
                pod["status"] = json!({"phase": "Failed"});
            }
            pod
        }
        "services" => {
            let kind = ["ClusterIP", "NodePort", "LoadBalancer"][random.usize(..3)];
            let ports = vec![json!({"port": 1}); random.usize(..4)];
            named("Service", name, json!({"spec": {"type": kind, "ports": ports}}))
        }
        "persistentvolumeclaims" => {
            let size = ["1Gi", "512Mi", "1G", "3"][random.usize(..4)];
            let class = ["fast", "slow"][random.usize(..2)];
            let spec = json!({"storageClassName": class, "resources": {"requests": {"storage": size}}});
            named("PersistentVolumeClaim", name, json!({"spec": spec}))
        }
        "resourcequotas" => {
            let all =
                ["pods", "cpu", "requests.storage", "count/secrets", "services.nodeports", "resourcequotas"];
            let hard = all.iter().filter(|_| random.bool()).map(|name| ((*name).to_owned(), json!("100k")));
            let hard = Value::Object(hard.collect());
            let scopes = if random.u8(..3) == 0 { json!(["Terminating"]) } else { json!([]) };
            named("ResourceQuota", name, json!({"spec": {"hard": hard, "scopes": scopes}}))
        }
        _ => named("Secret", name, json!({})),
    }
}

/// All of it, for all quotas, by looking at every object.
async fn assert_exact(world: &World, step: usize) {
    let view = world.view().await;
    for (object, _) in view.list("", "resourcequotas", "ns") {
        let quota = Quota::new(object);
        let mut from_scratch = Amounts::new();
        for resource in view.catalog.all().filter(|resource| measure::is_counted(resource)) {
            for (object, _) in view.list(&resource.group, &resource.plural, "ns") {
                add(&mut from_scratch, &quota.share(resource, Some(&object)));
            }
        }
        let mut told = amounts(at(&quota.object, &["status", "used"]));
        assert_eq!(told.len(), quota.hard.len(), "step {step}: {}", quota.name());
        told.retain(|_, amount| !amount.is_zero());
        from_scratch.retain(|_, amount| !amount.is_zero());
        assert_eq!(told, from_scratch, "step {step}: {}", quota.name());
    }
}

#[tokio::test]
async fn used_stays_exact_whatever_happens() {
    let plurals =
        ["pods", "services", "persistentvolumeclaims", "secrets", "secrets", "pods", "resourcequotas"];
    for seed in 0..4 {
        let world = World::new();
        let mut random = fastrand::Rng::with_seed(seed);
        let fixed = json!({
            "pods": "6", "count/pods": "9", "requests.cpu": "9", "limits.cpu": "20", "requests.example.com/gpu": "8",
            "services": "4", "services.nodeports": "5", "services.loadbalancers": "3", "requests.storage": "4Gi",
            "fast.storageclass.storage.k8s.io/requests.storage": "2Gi", "secrets": "4", "count/resourcequotas": "4",
        });
        create(&world, "resourcequotas", quota("fixed", fixed)).await.expect("ok");
        for step in 0..120 {
            let plural = plurals[random.usize(..plurals.len())];
            let name = ["a", "b", "c", "d", "e"][random.usize(..5)];
            let object = random_object(&mut random, plural, name);
            let outcome = match world.get(plural, "ns", name).await {
                None => create(&world, plural, object).await,
                Some(_) if random.u8(..3) == 0 => world.delete(&ResourceQuota, plural, &object).await,
                Some(_) => {
                    let part = (plural == "pods" && random.bool()).then_some("status");
                    let mut object = object;
                    if plural == "resourcequotas" {
                        let old = world.get(plural, "ns", name).await.expect("it is there");
                        object["status"] = old["status"].clone();
                    }
                    world.update(&ResourceQuota, plural, part, object).await.map(|_| ())
                }
            };
            if let Err(why) = outcome {
                assert!(why.contains("exceeded quota"), "{why}");
            }
            assert_exact(&world, step).await;
        }
    }
}

#[tokio::test]
async fn writers_with_old_views_cannot_make_it_wrong() {
    let plurals = ["pods", "services", "secrets", "resourcequotas"];
    let (mut conflicts, mut checked) = (0, 0);
    for seed in 0..4 {
        let world = World::new();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut views = vec![world.view().await];
        for step in 0..120 {
            let view = views[random.usize(..views.len())].clone();
            let plural = plurals[random.usize(..plurals.len())];
            let name = ["a", "b", "c", "d"][random.usize(..4)];
            let mut object = random_object(&mut random, plural, name);
            let operation = match view.get("", plural, "ns", name) {
                None => Operation::Create,
                Some(_) if random.u8(..3) == 0 => Operation::Delete,
                Some((old, _)) => {
                    if let (true, Some(status)) = (plural == "resourcequotas", old.get("status")) {
                        object["status"] = status.clone();
                    }
                    Operation::Update
                }
            };
            match world.write(&view, &ResourceQuota, operation, plural, None, &object).await {
                Err(why) if why == "conflict" => conflicts += 1,
                Err(why) => assert!(why.contains("quota"), "{why}"),
                Ok(_) => {}
            }
            let now = world.view().await;
            if !Guard::of(&now, "ns").provisional {
                checked += 1;
                assert_exact(&world, step).await;
            }
            views.push(now);
            if views.len() > 3 {
                views.remove(0);
            }
        }
    }
    assert!(conflicts > 20 && checked > 50, "{conflicts} conflicts, {checked} checks");
}
