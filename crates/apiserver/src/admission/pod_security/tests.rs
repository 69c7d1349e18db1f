//! Every control, and where the standards apply.

use serde_json::json;

use super::*;
use crate::admission::rehearsal::World;

async fn world(labels: Value) -> World {
    let world = World::new();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": labels}});
    world.put("namespaces", &namespace).await;
    world
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": spec})
}

fn enforce(level: &str) -> Value {
    json!({"pod-security.kubernetes.io/enforce": level})
}

fn good() -> Value {
    let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "image": "i", "securityContext": context}],
    })
}

const BARE: &str = "allowPrivilegeEscalation != false (container \"c\" must set \
    securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set \
    securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set \
    securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set \
    securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

#[tokio::test]
async fn a_bare_pod_is_told_everything_that_restricted_asks_for() {
    let restricted = world(enforce("restricted")).await;
    let bare = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    let refused = restricted.create(&PodSecurity, "pods", bare.clone()).await;
    let text = format!("pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": {BARE}");
    assert_eq!(refused, Err(text));
    for level in ["baseline", "privileged"] {
        let world = world(enforce(level)).await;
        assert_eq!(world.warnings(&PodSecurity, "pods", &bare).await, Vec::<String>::new(), "{level}");
    }
    assert_eq!(restricted.warnings(&PodSecurity, "pods", &pod(good())).await, Vec::<String>::new());
}

#[tokio::test]
async fn templates_are_warned_about_and_never_refused() {
    let bare = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let object = |kind: &str, body: Value| {
        let mut object =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "d", "namespace": "ns"}});
        object.as_object_mut().expect("a map").extend(body.as_object().expect("a map").clone());
        object
    };
    for labels in [enforce("restricted"), json!({"pod-security.kubernetes.io/warn": "restricted"})] {
        for (plural, kind, body) in [
            ("deployments.apps", "Deployment", json!({"spec": {"template": bare.clone()}})),
            ("jobs.batch", "Job", json!({"spec": {"template": bare.clone()}})),
            ("podtemplates", "PodTemplate", json!({"template": bare.clone()})),
            (
                "cronjobs.batch",
                "CronJob",
                json!({"spec": {"jobTemplate": {"spec": {"template": bare.clone()}}}}),
            ),
        ] {
            let world = world(labels.clone()).await;
            let warnings = world.warnings(&PodSecurity, plural, &object(kind, body)).await;
            assert_eq!(
                warnings,
                [format!("would violate PodSecurity \"restricted:latest\": {BARE}")],
                "{plural}"
            );
        }
    }
    let silent = json!({
        "pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "privileged",
    });
    let deployment = object("Deployment", json!({"spec": {"template": bare}}));
    let none = world(silent).await.warnings(&PodSecurity, "deployments.apps", &deployment).await;
    assert_eq!(none, Vec::<String>::new());
}

/// What is added to a good pod, at which path, and what each level says of it.
#[tokio::test]
async fn each_control_is_told_in_kubernetes_words() {
    const C: &str = "/containers/0";
    let cases: Vec<(&str, &str, Value, &str)> = vec![
        (
            "baseline",
            "",
            json!({"hostNetwork": true, "hostPID": true}),
            "host namespaces (hostNetwork=true, hostPID=true)",
        ),
        (
            "baseline",
            "",
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
            "hostPath volumes (volume \"v\")",
        ),
        (
            "restricted",
            "",
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "nfs": {}}, {"name": "x", "secret": {}}]}),
            "restricted volume types (volumes \"v\", \"w\" use restricted volume types \"hostPath\", \"nfs\")",
        ),
        (
            "baseline",
            C,
            json!({"ports": [{"hostPort": 80}, {"hostPort": 0}]}),
            "hostPort (container \"c\" uses hostPort 80)",
        ),
        (
            "baseline",
            C,
            json!({"livenessProbe": {"httpGet": {"host": "h"}}}),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle host \"h\")",
        ),
        (
            "baseline",
            "/containers/0/securityContext",
            json!({"privileged": true}),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        (
            "baseline",
            "/containers/0/securityContext",
            json!({"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}}),
            "non-default capabilities (container \"c\" must not include \"NET_RAW\", \"SYS_ADMIN\" in securityContext.capabilities.add)",
        ),
        (
            "restricted",
            "/containers/0/securityContext",
            json!({"capabilities": {"drop": ["ALL"], "add": ["CHOWN", "NET_BIND_SERVICE"]}}),
            "unrestricted capabilities (container \"c\" must not include \"CHOWN\" in securityContext.capabilities.add)",
        ),
        (
            "baseline",
            "/containers/0/securityContext",
            json!({"procMount": "Unmasked"}),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            "baseline",
            "/securityContext",
            json!({"seLinuxOptions": {"type": "spc_t", "user": "u"}}),
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"spc_t\"; user may not be set)",
        ),
        (
            "baseline",
            "/securityContext",
            json!({"seccompProfile": {"type": "Unconfined"}}),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            "restricted",
            "/securityContext",
            json!({"seccompProfile": {"type": "Unconfined"}}),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            "baseline",
            "/securityContext",
            json!({"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            "baseline",
            "/securityContext",
            json!({"windowsOptions": {"hostProcess": true}}),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            "baseline",
            "/containers/0/securityContext",
            json!({"appArmorProfile": {"type": "Unconfined"}}),
            "forbidden AppArmor profile (container \"c\" must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            "restricted",
            "/securityContext",
            json!({"runAsNonRoot": false}),
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
        ),
        (
            "restricted",
            "/containers/0/securityContext",
            json!({"runAsUser": 0}),
            "runAsUser=0 (container \"c\" must not set runAsUser=0)",
        ),
    ];
    for (level, path, more, told) in cases {
        let mut spec = good();
        let place = spec.pointer_mut(path).and_then(Value::as_object_mut).expect("the place is there");
        place.extend(more.as_object().expect("a map").clone());
        let refused = world(enforce(level)).await.create(&PodSecurity, "pods", pod(spec.clone())).await;
        let text = format!("pods \"p\" is forbidden: violates PodSecurity \"{level}:latest\": {told}");
        assert_eq!(refused, Err(text), "{spec}");
        let below = if level == "restricted" { "baseline" } else { "privileged" };
        let allowed = !told.contains("volume") && !told.contains("Unconfined");
        if below == "privileged" || allowed {
            let world = world(enforce(below)).await;
            assert!(world.create(&PodSecurity, "pods", pod(spec)).await.is_ok(), "{told}");
        }
    }
}

#[tokio::test]
async fn a_pinned_version_knows_only_the_controls_of_its_time() {
    let labels = |version: &str| {
        json!({
            "pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": version,
        })
    };
    let mut probed = good();
    probed["containers"][0]["livenessProbe"] = json!({"tcpSocket": {"host": "h"}});
    let mut kept = good();
    kept["securityContext"]["sysctls"] = json!([{"name": "net.ipv4.tcp_rmem"}]);
    for (version, spec, allowed) in [
        ("v1.33", &probed, true),
        ("v1.34", &probed, false),
        ("v1.99", &probed, false),
        ("v1.31", &kept, false),
        ("v1.32", &kept, true),
    ] {
        let created = world(labels(version)).await.create(&PodSecurity, "pods", pod(spec.clone())).await;
        assert_eq!(created.is_ok(), allowed, "{version}: {created:?}");
        if let Err(text) = created {
            assert!(text.contains(&format!("\"baseline:{version}\"")), "{text}");
        }
    }
}

#[tokio::test]
async fn pods_that_were_there_before_can_still_be_changed_but_not_in_what_matters() {
    let world = world(enforce("restricted")).await;
    let bare = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    world.put("pods", &bare).await;
    let mut labelled = bare.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert!(world.update(&PodSecurity, "pods", None, labelled).await.is_ok());
    let mut other = bare.clone();
    other["spec"]["containers"][0]["image"] = "j".into();
    assert!(world.update(&PodSecurity, "pods", None, other.clone()).await.is_err());
    assert!(world.update(&PodSecurity, "pods", Some("status"), other).await.is_ok());
    let mut debugged = bare;
    debugged["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "i"}]);
    assert!(world.update(&PodSecurity, "pods", Some("ephemeralcontainers"), debugged).await.is_err());
}

#[tokio::test]
async fn labels_that_mean_nothing_are_refused_unless_they_were_there() {
    let world = World::new();
    let namespace = |labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": labels}});
    let wrong = json!({
        "pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/audit-version": "v1.01",
    });
    let text = "Namespace \"ns\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \
        \"strict\": must be one of privileged, baseline, restricted, \
        metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: \"v1.01\": \
        must be \"latest\" or \"v1.x\"]";
    let refused = world.create(&PodSecurity, "namespaces", namespace(wrong.clone())).await;
    assert_eq!(refused, Err(text.to_owned()));
    world.put("namespaces", &namespace(wrong.clone())).await;
    let mut same = namespace(wrong);
    same["metadata"]["annotations"] = json!({"a": "b"});
    assert!(world.update(&PodSecurity, "namespaces", None, same).await.is_ok());
    let other = json!({"pod-security.kubernetes.io/enforce": "stricter"});
    assert!(world.update(&PodSecurity, "namespaces", None, namespace(other)).await.is_err());
    // What cannot be read is taken for the strictest.
    let bare = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    let refused = world.create(&PodSecurity, "pods", bare).await.expect_err("it is refused");
    assert!(refused.contains("\"restricted:latest\""), "{refused}");
}

#[tokio::test]
async fn a_stricter_namespace_tells_which_pods_it_would_refuse() {
    let world = world(json!({})).await;
    for (name, spec) in [
        ("a", json!({"containers": [{"name": "c"}], "hostPID": true})),
        ("b", json!({"containers": [{"name": "c"}], "hostPID": true})),
        ("c", json!({"containers": [{"name": "c", "securityContext": {"privileged": true}}]})),
        ("d", good()),
    ] {
        let mut pod = pod(spec);
        pod["metadata"]["name"] = name.into();
        world.put("pods", &pod).await;
    }
    let view = world.view().await;
    let stricter = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": enforce("baseline")},
    });
    let (_, warnings) = world
        .write(&view, &PodSecurity, Operation::Update, "namespaces", None, &stricter)
        .await
        .expect("it is allowed");
    assert_eq!(
        warnings,
        [
            "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 1 other pod): host namespaces",
            "c: privileged",
        ]
    );
}
