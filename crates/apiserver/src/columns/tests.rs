//! Objects in, rows as `kubectl get` prints them out.

use serde_json::{Value, json};
use windlass_machinery::table::{cells, definitions};

use super::*;
use crate::resources::builtin;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

fn object(mut object: Value) -> Object {
    if object.pointer("/metadata/creationTimestamp").is_none() {
        object["metadata"]["creationTimestamp"] = json!("2026-03-01T11:55:00Z");
    }
    object.as_object().expect("an object").clone()
}

fn shown(cell: &Value) -> String {
    cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)
}

/// What is printed for one object, as `Heading: value`: always, and with `-o wide`.
#[track_caller]
fn check(group: &str, kind: &str, value: Value, always: &[&str], wide: &[&str]) {
    let columns = of(group, kind);
    let cells = cells(&columns, &object(value), now());
    let printed = |priority: u8| {
        let both = columns.iter().zip(&cells).filter(|(column, _)| column.priority == priority);
        both.map(|(column, cell)| format!("{}: {}", column.name, shown(cell))).collect::<Vec<_>>()
    };
    assert_eq!(printed(0), always, "{kind}");
    assert_eq!(printed(1), wide, "{kind}, wide");
}

#[test]
fn replicated_workloads() {
    let spec = json!({
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"spec": {"containers": [{"name": "a", "image": "nginx"}, {"name": "b", "image": "redis:7"}]}},
    });
    let wide = ["Containers: a,b", "Images: nginx,redis:7", "Selector: app=web"];
    check(
        "apps",
        "Deployment",
        json!({"metadata": {"name": "web"}, "spec": spec, "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}}),
        &["Name: web", "Ready: 2/3", "Up-to-date: 3", "Available: 1", "Age: 5m"],
        &wide,
    );
    check(
        "apps",
        "Deployment",
        json!({}),
        &["Name: ", "Ready: 0/0", "Up-to-date: 0", "Available: 0", "Age: 5m"],
        &["Containers: ", "Images: ", "Selector: "],
    );
    check(
        "apps",
        "ReplicaSet",
        json!({"metadata": {"name": "web-1"}, "spec": spec, "status": {"replicas": 2, "readyReplicas": 1}}),
        &["Name: web-1", "Desired: 3", "Current: 2", "Ready: 1", "Age: 5m"],
        &wide,
    );
    check(
        "apps",
        "StatefulSet",
        json!({"metadata": {"name": "db"}, "spec": spec, "status": {"readyReplicas": 1}}),
        &["Name: db", "Ready: 1/3", "Age: 5m"],
        &wide[..2],
    );
    check(
        "",
        "ReplicationController",
        json!({"metadata": {"name": "rc"}, "spec": {"replicas": 1, "selector": {"b": "2", "a": "1"}}}),
        &["Name: rc", "Desired: 1", "Current: 0", "Ready: 0", "Age: 5m"],
        &["Containers: ", "Images: ", "Selector: a=1,b=2"],
    );
    check(
        "apps",
        "DaemonSet",
        json!({"metadata": {"name": "log"}, "spec": {"selector": {}, "template": {"spec": {"nodeSelector": {"disk": "ssd"}}}},
            "status": {"desiredNumberScheduled": 4, "currentNumberScheduled": 3, "numberReady": 2, "updatedNumberScheduled": 1}}),
        &[
            "Name: log",
            "Desired: 4",
            "Current: 3",
            "Ready: 2",
            "Up-to-date: 1",
            "Available: 0",
            "Node Selector: disk=ssd",
            "Age: 5m",
        ],
        &["Containers: ", "Images: ", "Selector: <none>"],
    );
    check(
        "apps",
        "ControllerRevision",
        json!({"metadata": {"name": "db-1", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "x"},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true}]}, "revision": 7}),
        &["Name: db-1", "Controller: statefulset.apps/db", "Revision: 7", "Age: 5m"],
        &[],
    );
}

#[test]
fn jobs_show_how_far_they_are() {
    let cases = [
        (json!({"spec": {"completions": 3}}), "Running", "0/3", ""),
        (
            json!({"spec": {"parallelism": 4}, "status": {"succeeded": 2, "startTime": "2026-03-01T11:59:30Z"}}),
            "Running",
            "2/1 of 4",
            "30s",
        ),
        (
            json!({"spec": {"completions": 1}, "status": {"succeeded": 1, "startTime": "2026-03-01T11:00:00Z",
                "completionTime": "2026-03-01T11:03:05Z", "conditions": [{"type": "Complete", "status": "True"}]}}),
            "Complete",
            "1/1",
            "3m5s",
        ),
        (json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}), "Failed", "0/1", ""),
        (
            json!({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}),
            "Suspended",
            "0/1",
            "",
        ),
        (json!({"metadata": {"deletionTimestamp": "2026-03-01T11:59:00Z"}}), "Terminating", "0/1", ""),
    ];
    for (job, status, completions, duration) in cases {
        let cells = cells(&of("batch", "Job"), &object(job), now());
        assert_eq!(cells[1..4], [status, completions, duration]);
    }
    check(
        "batch",
        "CronJob",
        json!({"metadata": {"name": "tick"}, "spec": {"schedule": "*/5 * * * *", "suspend": false,
            "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}}},
            "status": {"active": [{}, {}], "lastScheduleTime": "2026-03-01T11:58:00Z"}}),
        &[
            "Name: tick",
            "Schedule: */5 * * * *",
            "Timezone: <none>",
            "Suspend: False",
            "Active: 2",
            "Last Schedule: 2m",
            "Age: 5m",
        ],
        &["Containers: c", "Images: busybox", "Selector: <none>"],
    );
}

#[test]
fn services_show_where_they_are_reached() {
    let port = json!({"port": 80, "protocol": "TCP"});
    let cases = [
        (
            json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": [port]}),
            "10.0.0.1",
            "<none>",
            "80/TCP",
        ),
        (
            json!({"type": "ClusterIP", "clusterIPs": ["None"], "clusterIP": "None"}),
            "None",
            "<none>",
            "<none>",
        ),
        (
            json!({"type": "NodePort", "clusterIP": "10.0.0.2", "externalIPs": ["1.1.1.1", "2.2.2.2"],
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}),
            "10.0.0.2",
            "1.1.1.1,2.2.2.2",
            "80:30080/TCP,53/UDP",
        ),
        (json!({"type": "LoadBalancer"}), "<none>", "<pending>", "<none>"),
        (json!({"type": "ExternalName", "externalName": "example.com"}), "<none>", "example.com", "<none>"),
    ];
    for (spec, cluster, external, ports) in cases {
        let cells = cells(&of("", "Service"), &object(json!({"spec": spec})), now());
        assert_eq!(cells[2..5], [cluster, external, ports], "{spec}");
    }
    check(
        "",
        "Service",
        json!({"metadata": {"name": "lb"}, "spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.3"],
            "externalIPs": ["3.3.3.3"], "selector": {"app": "web"}},
            "status": {"loadBalancer": {"ingress": [{"ip": "9.9.9.9"}, {"hostname": "a.example.com"}, {"ip": "9.9.9.9"}]}}}),
        &[
            "Name: lb",
            "Type: LoadBalancer",
            "Cluster-IP: 10.0.0.3",
            "External-IP: 9.9.9.9,a.example.com,3.3.3.3",
            "Port(s): <none>",
            "Age: 5m",
        ],
        &["Selector: app=web"],
    );
}

#[test]
fn networking() {
    check(
        "",
        "Endpoints",
        json!({"metadata": {"name": "web"}, "subsets": [
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}, {"port": 443}]}]}),
        &["Name: web", "Endpoints: 10.0.0.1:80,[fd00::1]:80,10.0.0.1:443 + 1 more...", "Age: 5m"],
        &[],
    );
    check(
        "",
        "Endpoints",
        json!({"metadata": {"name": "e"}}),
        &["Name: e", "Endpoints: <none>", "Age: 5m"],
        &[],
    );
    check(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"metadata": {"name": "web-x"}, "addressType": "IPv4", "ports": [{"port": 80}, {"name": "metrics"}, {}],
            "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"]}, {"addresses": ["10.0.0.3"]}, {"addresses": ["10.0.0.4"]}]}),
        &[
            "Name: web-x",
            "AddressType: IPv4",
            "Ports: 80,metrics,*",
            "Endpoints: 10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...",
            "Age: 5m",
        ],
        &[],
    );
    check(
        "networking.k8s.io",
        "Ingress",
        json!({"metadata": {"name": "in"}, "spec": {"ingressClassName": "nginx", "tls": [{}],
            "rules": [{"host": "a"}, {}, {"host": "b"}, {"host": "c"}, {"host": "d"}]},
            "status": {"loadBalancer": {"ingress": [{"hostname": "a-rather-long-name.example.com"}]}}}),
        &[
            "Name: in",
            "Class: nginx",
            "Hosts: a,b,c + 2 more...",
            "Address: a-rather-long-name.example.com",
            "Ports: 80, 443",
            "Age: 5m",
        ],
        &[],
    );
    check(
        "networking.k8s.io",
        "Ingress",
        json!({"metadata": {"name": "in"}, "spec": {"rules": [{}]}}),
        &["Name: in", "Class: <none>", "Hosts: *", "Address: ", "Ports: 80", "Age: 5m"],
        &[],
    );
    check(
        "networking.k8s.io",
        "IngressClass",
        json!({"metadata": {"name": "nginx"}, "spec": {"controller": "k8s.io/nginx",
            "parameters": {"apiGroup": "example.com", "kind": "Params", "name": "p"}}}),
        &["Name: nginx", "Controller: k8s.io/nginx", "Parameters: Params.example.com/p", "Age: 5m"],
        &[],
    );
    check(
        "networking.k8s.io",
        "NetworkPolicy",
        json!({"metadata": {"name": "deny"}, "spec": {"podSelector": {}}}),
        &["Name: deny", "Pod-Selector: <none>", "Age: 5m"],
        &[],
    );
    check(
        "networking.k8s.io",
        "IPAddress",
        json!({"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": {"group": "", "resource": "services", "namespace": "default", "name": "kubernetes"}}}),
        &["Name: 10.0.0.1", "ParentRef: services/default/kubernetes"],
        &[],
    );
    check(
        "networking.k8s.io",
        "ServiceCIDR",
        json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/12", "fd00::/108"]}}),
        &["Name: kubernetes", "CIDRs: 10.96.0.0/12,fd00::/108", "Age: 5m"],
        &[],
    );
}

#[test]
fn nodes_show_whether_they_take_pods() {
    check(
        "",
        "Node",
        json!({"metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu", "node-role.kubernetes.io/": ""}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.37.0", "osImage": "Debian"},
                "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.1.1.1"}]}}),
        &["Name: n1", "Status: Ready,SchedulingDisabled", "Roles: gpu,worker", "Age: 5m", "Version: v1.37.0"],
        &[
            "Internal-IP: 10.1.1.1",
            "External-IP: <none>",
            "OS-Image: Debian",
            "Kernel-Version: <unknown>",
            "Container-Runtime: <unknown>",
        ],
    );
    for (status, word) in [(json!("False"), "NotReady"), (json!("Unknown"), "NotReady")] {
        let node = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert_eq!(cells(&of("", "Node"), &object(node), now())[1], word);
    }
    assert_eq!(cells(&of("", "Node"), &object(json!({})), now())[1], "Unknown");
}

#[test]
fn events_show_what_happened_last() {
    let old = json!({"metadata": {"name": "e"}, "type": "Warning", "reason": "BackOff", "message": " waiting \n", "count": 3,
        "involvedObject": {"kind": "Pod", "name": "web"}, "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2026-03-01T11:50:00Z", "lastTimestamp": "2026-03-01T11:59:00Z"});
    check(
        "",
        "Event",
        old,
        &["Last Seen: 60s", "Type: Warning", "Reason: BackOff", "Object: pod/web", "Message: waiting"],
        &["Subobject: ", "Source: kubelet, n1", "First Seen: 10m", "Count: 3", "Name: e"],
    );
    let new = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Scheduled", "involvedObject": {"kind": "Pod"},
        "firstTimestamp": null, "eventTime": "2026-03-01T11:58:00.123456Z", "reportingComponent": "scheduler"});
    check(
        "events.k8s.io",
        "Event",
        new,
        &["Last Seen: 119s", "Type: Normal", "Reason: Scheduled", "Object: pod", "Message: "],
        &["Subobject: ", "Source: scheduler", "First Seen: 119s", "Count: 1", "Name: e"],
    );
}

#[test]
fn what_every_namespace_has() {
    let rows = [
        ("Namespace", json!({"status": {"phase": "Active"}}), vec!["Name: x", "Status: Active", "Age: 5m"]),
        (
            "Secret",
            json!({"type": "Opaque", "data": {"a": "", "b": ""}}),
            vec!["Name: x", "Type: Opaque", "Data: 2", "Age: 5m"],
        ),
        (
            "ConfigMap",
            json!({"data": {"a": ""}, "binaryData": {"b": ""}}),
            vec!["Name: x", "Data: 2", "Age: 5m"],
        ),
        ("ServiceAccount", json!({}), vec!["Name: x", "Age: 5m"]),
        (
            "ResourceQuota",
            json!({"status": {"hard": {"pods": "10", "limits.cpu": "2000m", "requests.cpu": "1"}, "used": {"pods": "3", "limits.cpu": "500m"}}}),
            vec!["Name: x", "Request: pods: 3/10, requests.cpu: 0/1", "Limit: limits.cpu: 500m/2", "Age: 5m"],
        ),
        ("LimitRange", json!({}), vec!["Name: x", "Created At: 2026-03-01T11:55:00Z"]),
        (
            "PodTemplate",
            json!({"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}),
            vec!["Name: x", "Containers: c", "Images: i", "Pod Labels: a=b"],
        ),
    ];
    for (kind, mut value, row) in rows {
        value["metadata"]["name"] = json!("x");
        check("", kind, value, &row, &[]);
    }
    check(
        "policy",
        "PodDisruptionBudget",
        json!({"metadata": {"name": "x"}, "spec": {"minAvailable": 2}, "status": {"disruptionsAllowed": 1}}),
        &["Name: x", "Min Available: 2", "Max Unavailable: N/A", "Allowed Disruptions: 1", "Age: 5m"],
        &[],
    );
}

#[test]
fn storage() {
    check(
        "",
        "PersistentVolume",
        json!({"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "default", "name": "data"},
            "storageClassName": "fast", "volumeMode": "Filesystem"}, "status": {"phase": "Bound"}}),
        &[
            "Name: pv",
            "Capacity: 1Gi",
            "Access Modes: RWO,RWX",
            "Reclaim Policy: Retain",
            "Status: Bound",
            "Claim: default/data",
            "StorageClass: fast",
            "VolumeAttributesClass: <unset>",
            "Reason: ",
            "Age: 5m",
        ],
        &["VolumeMode: Filesystem"],
    );
    let claim = |spec: Value| {
        json!({"metadata": {"name": "data"}, "spec": spec,
            "status": {"phase": "Bound", "accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}}})
    };
    let row = |volume, capacity, modes| {
        [
            "Name: data",
            "Status: Bound",
            volume,
            capacity,
            modes,
            "StorageClass: fast",
            "VolumeAttributesClass: <unset>",
            "Age: 5m",
        ]
    };
    check(
        "",
        "PersistentVolumeClaim",
        claim(json!({"volumeName": "pv", "storageClassName": "fast"})),
        &row("Volume: pv", "Capacity: 1Gi", "Access Modes: RWOP"),
        &["VolumeMode: <unset>"],
    );
    check(
        "",
        "PersistentVolumeClaim",
        claim(json!({"storageClassName": "fast"})),
        &row("Volume: ", "Capacity: ", "Access Modes: "),
        &["VolumeMode: <unset>"],
    );
    check(
        "storage.k8s.io",
        "StorageClass",
        json!({"metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "x.io/y"}),
        &[
            "Name: fast (default)",
            "Provisioner: x.io/y",
            "ReclaimPolicy: Delete",
            "VolumeBindingMode: Immediate",
            "AllowVolumeExpansion: false",
            "Age: 5m",
        ],
        &[],
    );
    check(
        "storage.k8s.io",
        "CSIDriver",
        json!({"metadata": {"name": "d"}, "spec": {"tokenRequests": [{"audience": "a"}, {"audience": "b"}], "volumeLifecycleModes": ["Persistent", "Ephemeral"]}}),
        &[
            "Name: d",
            "AttachRequired: true",
            "PodInfoOnMount: false",
            "StorageCapacity: false",
            "TokenRequests: a,b",
            "RequiresRepublish: false",
            "Modes: Persistent,Ephemeral",
            "Age: 5m",
        ],
        &[],
    );
    check(
        "storage.k8s.io",
        "VolumeAttachment",
        json!({"metadata": {"name": "va"}, "spec": {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}}, "status": {"attached": true}}),
        &["Name: va", "Attacher: d", "PV: pv", "Node: n1", "Attached: true", "Age: 5m"],
        &[],
    );
}

#[test]
fn autoscalers_show_what_is_and_what_should_be() {
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1024Mi"}}});
    let queue =
        json!({"type": "External", "external": {"target": {"type": "AverageValue", "averageValue": "30"}}});
    let hits = json!({"type": "Object", "object": {"target": {"type": "Value", "value": "2000m"}}});
    let pods = json!({"type": "Pods", "pods": {"target": {"type": "AverageValue", "averageValue": "100m"}}});
    let cases = [
        (json!([]), json!([]), "<none>"),
        (json!([cpu]), json!([]), "cpu: <unknown>/80%"),
        (json!([cpu]), json!([{"resource": {"current": {"averageUtilization": 10}}}]), "cpu: 10%/80%"),
        (json!([memory]), json!([{"resource": {"current": {"averageValue": "512Mi"}}}]), "memory: 512Mi/1Gi"),
        (json!([queue]), json!([]), "<unknown>/30 (avg)"),
        (json!([queue]), json!([{"external": {"current": {"averageValue": "20"}}}]), "20/30 (avg)"),
        (json!([hits, pods]), json!([{"object": {"current": {"value": "1"}}}]), "1/2, <unknown>/100m"),
        (
            json!([cpu, memory, queue, pods]),
            json!([]),
            "cpu: <unknown>/80%, memory: <unknown>/1Gi + 2 more...",
        ),
        (json!([{"type": "Odd"}]), json!([]), "<unknown type>"),
    ];
    for (metrics, current, targets) in cases {
        let hpa = json!({"spec": {"metrics": metrics}, "status": {"currentMetrics": current}});
        assert_eq!(cells(&of("autoscaling", "HorizontalPodAutoscaler"), &object(hpa), now())[2], targets);
    }
    check(
        "autoscaling",
        "HorizontalPodAutoscaler",
        json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 5}, "status": {"currentReplicas": 2}}),
        &[
            "Name: web",
            "Reference: Deployment/web",
            "Targets: <none>",
            "MinPods: <unset>",
            "MaxPods: 5",
            "Replicas: 2",
            "Age: 5m",
        ],
        &[],
    );
}

#[test]
fn access() {
    check(
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        json!({"metadata": {"name": "admins"}, "roleRef": {"kind": "ClusterRole", "name": "admin"}, "subjects": [
            {"kind": "User", "name": "ann"}, {"kind": "User", "name": "bob"}, {"kind": "Group", "name": "ops"},
            {"kind": "ServiceAccount", "namespace": "ci", "name": "bot"}]}),
        &["Name: admins", "Role: ClusterRole/admin", "Age: 5m"],
        &["Users: ann, bob", "Groups: ops", "ServiceAccounts: ci/bot"],
    );
    let role = json!({"metadata": {"name": "r"}});
    check("rbac.authorization.k8s.io", "Role", role, &["Name: r", "Created At: 2026-03-01T11:55:00Z"], &[]);
    let states = [
        (json!({}), "Pending"),
        (json!({"conditions": [{"type": "Approved"}]}), "Approved"),
        (json!({"conditions": [{"type": "Approved"}], "certificate": "LS0="}), "Approved,Issued"),
        (json!({"conditions": [{"type": "Approved"}, {"type": "Denied"}]}), "Denied"),
        (json!({"conditions": [{"type": "Approved"}, {"type": "Failed"}]}), "Approved,Failed"),
    ];
    for (status, state) in states {
        let request = json!({"metadata": {"name": "csr"}, "status": status,
            "spec": {"signerName": "s.io/x", "username": "ann", "expirationSeconds": 7200}});
        let condition = format!("Condition: {state}");
        let row = [
            "Name: csr",
            "Age: 5m",
            "SignerName: s.io/x",
            "Requestor: ann",
            "RequestedDuration: 120m",
            &condition,
        ];
        check("certificates.k8s.io", "CertificateSigningRequest", request, &row, &[]);
    }
}

#[test]
fn what_shapes_the_server() {
    check(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        json!({"metadata": {"name": "p"}, "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 30,
            "limitResponse": {"queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50}}}}}),
        &[
            "Name: p",
            "Type: Limited",
            "NominalConcurrencyShares: 30",
            "Queues: 64",
            "HandSize: 8",
            "QueueLengthLimit: 50",
            "Age: 5m",
        ],
        &[],
    );
    check(
        "apiregistration.k8s.io",
        "APIService",
        json!({"metadata": {"name": "v1.x.io"}, "spec": {"service": {"namespace": "ns", "name": "x"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]}}),
        &["Name: v1.x.io", "Service: ns/x", "Available: False (MissingEndpoints)", "Age: 5m"],
        &[],
    );
    check(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": {"selector": {"matchLabels": {"a": "b"}}}}}),
        &[
            "Name: b",
            "PolicyName: p",
            "ParamRef: &LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
            "Age: 5m",
        ],
        &[],
    );
    check(
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        json!({"metadata": {"name": "m"}, "spec": {"mutations": [{}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}}),
        &["Name: m", "Mutations: 1", "ParamKind: v1/ConfigMap", "Age: 5m"],
        &[],
    );
    check(
        "resource.k8s.io",
        "ResourceClaim",
        json!({"metadata": {"name": "gpu"}, "status": {"allocation": {}, "reservedFor": [{}]}}),
        &["Name: gpu", "State: allocated,reserved", "Age: 5m"],
        &[],
    );
    check(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}),
        &["Name: high", "Value: 1000", "Global-Default: false", "Age: 5m", "PreemptionPolicy: Never"],
        &[],
    );
    check(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        json!({"metadata": {"name": "units.example.com"}}),
        &["Name: units.example.com", "Created At: 2026-03-01T11:55:00Z"],
        &[],
    );
}

#[test]
fn finished_pods_have_finished_rows() {
    let row = |phase: &str| row_conditions("", "Pod", &object(json!({"status": {"phase": phase}})));
    assert_eq!(row("Running"), [] as [Value; 0]);
    assert_eq!(row("Failed")[0]["reason"], "Failed");
    assert_eq!(row("Succeeded")[0]["type"], "Completed");
}

/// Whatever its fields hold, an object has a row.
#[test]
fn no_object_breaks_a_table() {
    let odd = [
        json!({}),
        json!(null),
        json!(7),
        json!("x"),
        json!([1, "x", null, {}]),
        json!({"a": [null], "type": 1}),
    ];
    for resource in builtin::rows() {
        assert_eq!(definitions(&resource.columns).len(), resource.columns.len());
        let names = resource.columns.iter().filter(|column| column.name == "Name").count();
        assert_eq!(names, 1, "{resource:?}");
        for value in &odd {
            for deeper in ["conditions", "containerStatuses", "rules", "ports", "hard", "metrics", "claimRef"]
            {
                let half = json!({deeper: value, "selector": value});
                for part in [value.clone(), half] {
                    let object = json!({"metadata": value, "spec": part, "status": part, "subsets": value,
                        "endpoints": value, "series": value, "subjects": value, "ports": value});
                    let cells = cells(&resource.columns, object.as_object().expect("an object"), now());
                    assert_eq!(cells.len(), resource.columns.len());
                }
            }
        }
    }
}
