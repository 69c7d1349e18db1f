//! `kubectl describe`: every common kind has something to say, and its events with it.

use windlass_e2e::Server;

use crate::objects::{WEB, config, contains, controller, create, event, node, pod};

/// What is created, how it is described, and what must be in the description.
#[track_caller]
fn check(server: &Server, text: &str, object: &str, expected: &[&str]) {
    create(server, text);
    contains(&server.kubectl(&format!("describe {object}")).ok(), expected);
}

#[test]
fn a_pod_is_described_with_its_events() {
    let server = Server::start();
    create(&server, &pod("one", "a"));
    create(&server, &event(&server, "one"));
    let text = server.kubectl("describe pod one").ok();
    contains(
        &text,
        &["Name:             one\n", "Status:           Pending\n", "app=a", "image:1", "QoS Class:"],
    );
    contains(&text, &["Events:\n", "Warning  Testing", "tester", "it was tested", "(x3 over"]);
    assert!(!server.kubectl("describe pod one --show-events=false").ok().contains("it was tested"));
}

#[test]
fn workloads_are_described() {
    let server = Server::start();
    let replicas = "Replicas:               2 desired | 0 updated | 0 total";
    check(&server, WEB, "deploy web", &[replicas, "RollingUpdate", "web:1", "80/TCP", "81/TCP", "SECOND:"]);
    check(&server, &controller("ReplicaSet", "rs"), "rs rs", &["Replicas:     0 current / 1 desired"]);
    check(&server, &controller("StatefulSet", "sts"), "sts sts", &["1 desired | 0 total", "RollingUpdate"]);
    check(&server, &controller("DaemonSet", "ds"), "ds ds", &["Selector:", "app=ds", "image:1"]);
    check(&server, &controller("ReplicationController", "rc"), "rc rc", &["0 current / 1 desired"]);
    let template = "{spec: {restartPolicy: Never, containers: [{name: main, image: 'image:1'}]}}";
    let job = format!(
        "{{apiVersion: batch/v1, kind: Job, metadata: {{name: job}}, spec: {{template: {template}}}}}"
    );
    check(&server, &job, "job job", &["Parallelism:", "Completions:", "batch.kubernetes.io/job-name=job"]);
    let cron = format!(
        "{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: cron}},
          spec: {{schedule: '*/5 * * * *', jobTemplate: {{spec: {{template: {template}}}}}}}}}"
    );
    check(&server, &cron, "cronjob cron", &["*/5 * * * *", "Concurrency Policy:            Allow"]);
}

#[test]
fn configuration_is_described() {
    let server = Server::start();
    check(&server, &config("settings"), "cm settings", &["Data\n====\nkey:\n----\nvalue\n"]);
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: password}, stringData: {word: hidden}}";
    check(&server, secret, "secret password", &["Type:  Opaque", "word:  6 bytes"]);
    assert!(!server.kubectl("describe secret password").ok().contains("hidden"));
    let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}";
    check(&server, account, "sa robot", &["Name:                robot\n", "Image pull secrets:"]);
    let quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: few}, spec: {hard: {pods: '2'}}}";
    check(&server, quota, "quota few", &["Resource", "Used", "Hard"]);
    let limits = "{apiVersion: v1, kind: LimitRange, metadata: {name: small},
        spec: {limits: [{type: Container, max: {cpu: '1'}}]}}";
    check(&server, limits, "limits small", &["Container", "cpu"]);
    contains(&server.kubectl("describe ns default").ok(), &["Status:", "Active", "pods", "Container"]);
}

#[test]
fn networks_are_described() {
    let server = Server::start();
    let service = "{apiVersion: v1, kind: Service, metadata: {name: web},
        spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}";
    check(
        &server,
        service,
        "svc web",
        &["ClusterIP", "TargetPort:               8080/TCP", "app=web"].map(|part| {
            // The width of the first column depends on kubectl's version.
            part.rsplit("  ").next().unwrap_or(part).trim_start()
        }),
    );
    let ingress = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: door},
        spec: {rules: [{host: example.com, http: {paths: [
          {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}}";
    check(&server, ingress, "ingress door", &["example.com", "web:80"]);
    let policy = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: wall},
        spec: {podSelector: {}, policyTypes: [Ingress]}}";
    check(&server, policy, "netpol wall", &["PodSelector:     <none>", "Policy Types: Ingress"]);
    let endpoints = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1},
        addressType: IPv4, endpoints: [{addresses: [10.1.2.3]}], ports: [{name: http, port: 80}]}";
    check(&server, endpoints, "endpointslice web-1", &["AddressType:  IPv4", "10.1.2.3"]);
}

#[test]
fn cluster_wide_kinds_are_described() {
    let server = Server::start();
    check(
        &server,
        &node("worker"),
        "node worker",
        &["Name:               worker", "Unschedulable:      false"],
    );
    let volume = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk},
        spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /disk}}}";
    check(&server, volume, "pv disk", &["Capacity:        1Gi", "Reclaim Policy:  Retain", "HostPath"]);
    let claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: mine},
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}";
    check(&server, claim, "pvc mine", &["Status:        Pending", "VolumeMode:    Filesystem"]);
    let class = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: example.com/x}";
    check(
        &server,
        class,
        "sc fast",
        &["Provisioner:           example.com/x", "ReclaimPolicy:         Delete"],
    );
    let priority =
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}";
    check(&server, priority, "pc high", &["Value:", "1000", "PreemptLowerPriority"]);
    let role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader},
        rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}";
    check(&server, role, "clusterrole reader", &["PolicyRule:", "pods", "[get]"]);
    let binding =
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: readers},
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader},
        subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]}";
    check(&server, binding, "clusterrolebinding readers", &["ClusterRole", "reader", "ann"]);
}

#[test]
fn policies_of_scaling_and_disruption_are_described() {
    let server = Server::start();
    create(&server, WEB);
    let scaler = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web},
        spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 5,
        metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}";
    check(&server, scaler, "hpa web", &["Deployment/web", "Max replicas:", "resource cpu on pods"]);
    let budget = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web},
        spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}";
    check(&server, budget, "pdb web", &["Min available:  1", "app=web"]);
    let lease = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: lock}, spec: {holderIdentity: me}}";
    check(&server, lease, "lease lock", &["Holder Identity:", "me"]);
}

#[test]
fn events_are_listed_and_chosen() {
    let server = Server::start();
    create(&server, &pod("one", "a"));
    create(&server, &pod("two", "a"));
    create(&server, &event(&server, "one"));
    create(&server, &event(&server, "two"));
    let all = server.kubectl("events").ok();
    contains(&all, &["LAST SEEN", "Warning", "Testing", "Pod/one", "Pod/two", "it was tested"]);
    let one = server.kubectl("events --for pod/one --types=Warning").ok();
    assert!(one.contains("Pod/one") && !one.contains("Pod/two"), "{one}");
    contains(&server.kubectl("events -A").ok(), &["NAMESPACE", "default"]);
    contains(&server.kubectl("get events").ok(), &["LAST SEEN", "pod/one", "pod/two"]);
    let chosen = "get events --field-selector involvedObject.name=two,reason=Testing,type=Warning -o name";
    assert_eq!(server.kubectl(chosen).ok(), "event/two.1\n");
    let newer = server.kubectl("get events.events.k8s.io one.1 -o jsonpath='{.regarding.name} {.note}'").ok();
    assert_eq!(newer, "one it was tested");
}
