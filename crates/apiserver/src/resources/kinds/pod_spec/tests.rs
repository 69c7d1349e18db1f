//! What users rely on when they write pod specs, as a table of faults.

use serde_json::{Value, json};

use crate::resources::kinds::{
    pod::STRATEGY,
    variants::{check_invalid, created},
};

fn pod() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {
        "containers": [{
            "name": "main", "image": "nginx:1",
            "ports": [{"name": "http", "containerPort": 80}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "livenessProbe": {"httpGet": {"port": "http"}},
        }],
        "initContainers": [{"name": "setup", "image": "busybox:1"}],
        "volumes": [{"name": "data"}],
    }})
}

#[test]
fn volumes_probes_and_variables_are_filled_in() {
    let mut pod = pod();
    pod["spec"]["serviceAccount"] = json!("robot");
    pod["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    pod["spec"]["containers"][0]["readinessProbe"] = json!({"grpc": {"port": 9}});
    pod["spec"]["containers"][0]["lifecycle"] = json!({"preStop": {"httpGet": {"port": 80}}});
    pod["spec"]["volumes"] = json!([
        {"name": "data"},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "host", "hostPath": {"path": "/x"}},
        {"name": "all", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}},
            {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]}},
    ]);
    let pod = created(&STRATEGY, pod);
    let spec = &pod["spec"];
    assert_eq!((&spec["serviceAccountName"], &spec["serviceAccount"]), (&json!("robot"), &json!("robot")));
    let container = &spec["containers"][0];
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(
        container["livenessProbe"],
        json!({
            "httpGet": {"port": "http", "path": "/", "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        })
    );
    assert_eq!(container["readinessProbe"]["grpc"], json!({"port": 9, "service": ""}));
    assert_eq!(container["lifecycle"]["preStop"]["httpGet"]["scheme"], "HTTP");
    assert_eq!(spec["initContainers"][0]["terminationMessagePolicy"], "File");
    assert_eq!(
        spec["volumes"],
        json!([
            {"name": "data", "emptyDir": {}},
            {"name": "secret", "secret": {"secretName": "s", "defaultMode": 420}},
            {"name": "host", "hostPath": {"path": "/x", "type": ""}},
            {"name": "all", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
                {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}},
            ]}},
        ])
    );
}

/// Puts each value into the first container and expects a fault below it.
#[test]
fn faults_of_containers_are_named_by_field() {
    let cases = [
        ("name", json!("setup"), "spec.initContainers[0].name: Duplicate value: \"setup\""),
        ("ports", json!([{"containerPort": 0}]), "spec.containers[0].ports[0].containerPort: Required value"),
        (
            "ports",
            json!([{"containerPort": 70000}]),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            "ports",
            json!([{"containerPort": 80, "protocol": "ICMP"}]),
            "spec.containers[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ),
        (
            "ports",
            json!([{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]),
            "spec.containers[0].ports[1].name: Duplicate value: \"a\"",
        ),
        (
            "ports",
            json!([{"containerPort": 1, "hostPort": 8}, {"containerPort": 2, "hostPort": 8}]),
            "spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//8\"",
        ),
        ("env", json!([{"name": ""}]), "spec.containers[0].env[0].name: Required value"),
        (
            "env",
            json!([{"name": "A", "value": "1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
            "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
        ),
        (
            "env",
            json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.priority"}}}]),
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"spec.priority\"",
        ),
        ("envFrom", json!([{}]), "spec.containers[0].envFrom[0]: Invalid value: \"\": must specify one of"),
        (
            "volumeMounts",
            json!([{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a"}]),
            "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
        ),
        (
            "volumeMounts",
            json!([{"name": "data"}]),
            "spec.containers[0].volumeMounts[0].mountPath: Required value",
        ),
        (
            "volumeMounts",
            json!([{"name": "data", "mountPath": "/a", "subPath": "../b"}]),
            "spec.containers[0].volumeMounts[0].subPath: Invalid value: \"../b\": must not contain '..'",
        ),
        (
            "livenessProbe",
            json!({}),
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            "livenessProbe",
            json!({"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}),
            "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
        ),
        (
            "livenessProbe",
            json!({"exec": {"command": ["x"]}, "successThreshold": 2}),
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            "readinessProbe",
            json!({"exec": {"command": []}, "periodSeconds": -1}),
            "spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "imagePullPolicy",
            json!("Maybe"),
            "spec.containers[0].imagePullPolicy: Unsupported value: \"Maybe\"",
        ),
        (
            "resources",
            json!({"limits": {"cpu": "-1"}}),
            "spec.containers[0].resources.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            "resources",
            json!({"requests": {"speed": "1"}}),
            "spec.containers[0].resources.requests[speed]: Invalid value: \"speed\": must be a standard resource for containers",
        ),
        (
            "resources",
            json!({"requests": {"example.com/gpu": "1"}}),
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            "securityContext",
            json!({"privileged": true, "allowPrivilegeEscalation": false}),
            "spec.containers[0].securityContext: Invalid value",
        ),
        (
            "securityContext",
            json!({"runAsUser": -1}),
            "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        ),
    ];
    for (field, value, expected) in cases {
        let pointer = format!("/spec/containers/0/{field}");
        check_invalid(&STRATEGY, pod(), &[(&pointer, value, expected)]);
    }
}

#[test]
fn faults_of_the_spec_are_named_by_field() {
    let cases = [
        ("/spec/volumes/1", json!({"name": "data"}), "spec.volumes[1].name: Duplicate value: \"data\""),
        ("/spec/volumes/1", json!({"name": ""}), "spec.volumes[1].name: Required value"),
        (
            "/spec/volumes/1",
            json!({"name": "b", "emptyDir": {}, "hostPath": {"path": "/"}}),
            "spec.volumes[1].hostPath: Forbidden: may not specify more than 1 volume type",
        ),
        (
            "/spec/volumes/1",
            json!({"name": "b", "secret": {}}),
            "spec.volumes[1].secret.secretName: Required value",
        ),
        (
            "/spec/volumes/1",
            json!({"name": "b", "configMap": {"name": "c", "defaultMode": 512}}),
            "spec.volumes[1].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
        ),
        (
            "/spec/volumes/1",
            json!({"name": "b", "nfs": {"server": "s", "path": "x"}}),
            "spec.volumes[1].nfs.path: Invalid value",
        ),
        (
            "/spec/volumes/1",
            json!({"name": "b", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]}}),
            "spec.volumes[1].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5",
        ),
        (
            "/spec/initContainers/0/readinessProbe",
            json!({"exec": {"command": ["x"]}}),
            "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
        ),
        (
            "/spec/activeDeadlineSeconds",
            json!(0),
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647",
        ),
        ("/spec/hostAliases", json!([{"ip": "x"}]), "spec.hostAliases[0].ip: Invalid value: \"x\""),
        (
            "/spec/tolerations",
            json!([{"operator": "Equal"}]),
            "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty",
        ),
        (
            "/spec/tolerations",
            json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]),
            "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
        (
            "/spec/topologySpreadConstraints",
            json!([{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
        (
            "/spec/affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value",
        ),
        (
            "/spec/affinity",
            json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 0, "podAffinityTerm": {"topologyKey": "zone"}}]}}),
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
        ),
        (
            "/spec/securityContext",
            json!({"seccompProfile": {"type": "Localhost"}}),
            "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
        ),
        ("/spec/priorityClassName", json!("A B"), "spec.priorityClassName: Invalid value: \"A B\""),
        ("/spec/dnsPolicy", json!("Guess"), "spec.dnsPolicy: Unsupported value: \"Guess\""),
        ("/spec/os", json!({"name": "beos"}), "spec.os.name: Unsupported value: \"beos\""),
        (
            "/spec/resources",
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            "spec.resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
    ];
    for (pointer, value, expected) in cases {
        let mut pod = pod();
        pod["spec"]["volumes"] = json!([{"name": "data"}, {"name": "spare"}]);
        check_invalid(&STRATEGY, pod, &[(pointer, value, expected)]);
    }
}

#[test]
fn host_networking_wants_the_same_port_on_both_sides() {
    let mut pod = pod();
    pod["spec"]["hostNetwork"] = json!(true);
    let ports = json!([{"name": "http", "containerPort": 80, "hostPort": 81}]);
    let expected = "spec.containers[0].ports[0].containerPort: Invalid value: 80: must match `hostPort` when `hostNetwork` is true";
    check_invalid(&STRATEGY, pod, &[("/spec/containers/0/ports", ports, expected)]);
}
