//! Objects that tests begin with, and short ways to make and to ask for them.

use windlass_e2e::{Server, eventually};

/// A deployment with one container, two ports and two variables.
pub(crate) const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: web:1
        ports:
        - {name: http, containerPort: 80}
        - {name: admin, containerPort: 81}
        env:
        - {name: FIRST, value: '1'}
        - {name: SECOND, value: '2'}
";

/// A config map with one key.
pub(crate) fn config(name: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{key: value}}}}")
}

/// A pod with one container and the label `app`.
pub(crate) fn pod(name: &str, app: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: {app}}}}},
          spec: {{containers: [{{name: main, image: 'image:1'}}]}}}}"
    )
}

/// A controller of pods: anything of `kind` that has a selector by labels and a template.
pub(crate) fn controller(kind: &str, name: &str) -> String {
    let (group, selector) = match kind {
        "ReplicationController" => ("v1", format!("{{app: {name}}}")),
        _ => ("apps/v1", format!("{{matchLabels: {{app: {name}}}}}")),
    };
    let more = if kind == "StatefulSet" { format!("serviceName: {name}, ") } else { String::new() };
    let replicas = if kind == "DaemonSet" { "" } else { "replicas: 1, " };
    format!(
        "{{apiVersion: {group}, kind: {kind}, metadata: {{name: {name}, labels: {{app: {name}}}}},
          spec: {{{more}{replicas}selector: {selector}, template: {{metadata: {{labels: {{app: {name}}}}},
          spec: {{containers: [{{name: main, image: 'image:1'}}]}}}}}}}}"
    )
}

/// A node without a kubelet.
pub(crate) fn node(name: &str) -> String {
    format!("{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}}}")
}

/// Something that happened to a pod.
pub(crate) fn event(server: &Server, pod: &str) -> String {
    let uid = field(server, &format!("pod {pod}"), ".metadata.uid");
    format!(
        "{{apiVersion: v1, kind: Event, metadata: {{name: {pod}.1, namespace: default}},
          involvedObject: {{apiVersion: v1, kind: Pod, namespace: default, name: {pod}, uid: {uid}}},
          type: Warning, reason: Testing, message: it was tested, count: 3, source: {{component: tester}},
          firstTimestamp: '2026-01-01T00:00:00Z', lastTimestamp: '2026-01-01T00:00:00Z'}}"
    )
}

/// Creates what a text describes.
#[track_caller]
pub(crate) fn create(server: &Server, text: &str) -> String {
    server.kubectl("create -f -").yaml(text).ok()
}

/// One field of one object, as JSONPath prints it.
#[track_caller]
pub(crate) fn field(server: &Server, object: &str, path: &str) -> String {
    server.kubectl(&format!("get {object} -o jsonpath='{{{path}}}'")).ok()
}

/// Waits until there is no such object.
#[track_caller]
pub(crate) fn is_gone(server: &Server, object: &str) {
    eventually(|| {
        let ran = server.kubectl(&format!("get {object}")).run();
        if ran.stderr.contains("NotFound") { Ok(()) } else { Err(format!("{object} is there: {ran:?}")) }
    });
}

/// Waits until a field is as it should be.
#[track_caller]
pub(crate) fn becomes(server: &Server, object: &str, path: &str, expected: &str) {
    eventually(|| {
        let ran = server.kubectl(&format!("get {object} -o jsonpath='{{{path}}}'")).run();
        if ran.code == 0 && ran.stdout == expected {
            Ok(())
        } else {
            Err(format!("{path} of {object}: {ran:?}"))
        }
    });
}

/// The cells of a table, without the heading.
pub(crate) fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect()
}

/// The first column of a table, without the heading.
pub(crate) fn names(table: &str) -> Vec<&str> {
    rows(table).into_iter().filter_map(|row| row.first().copied()).collect()
}

/// Fails the test unless `text` contains all of `expected`.
#[track_caller]
pub(crate) fn contains(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}
