//! Looking after nodes: cordon, uncordon, taint and drain.

use windlass_e2e::Server;

use crate::objects::{contains, controller, create, field, names, node, pod};

fn with_node() -> Server {
    let server = Server::start();
    create(&server, &node("worker"));
    server
}

#[test]
fn a_node_is_cordoned_and_uncordoned() {
    let server = with_node();
    assert_eq!(server.kubectl("cordon worker").ok(), "node/worker cordoned\n");
    contains(&server.kubectl("get nodes").ok(), &["SchedulingDisabled"]);
    assert_eq!(server.kubectl("cordon worker").ok(), "node/worker already cordoned\n");
    assert_eq!(server.kubectl("uncordon worker").ok(), "node/worker uncordoned\n");
    assert_eq!(field(&server, "node worker", ".spec.unschedulable"), "");
}

#[test]
fn a_node_is_tainted_and_untainted() {
    let server = with_node();
    assert_eq!(server.kubectl("taint node worker kind=db:NoSchedule").ok(), "node/worker tainted\n");
    contains(
        &field(&server, "node worker", ".spec.taints"),
        &[r#"{"effect":"NoSchedule","key":"kind","value":"db"}"#],
    );
    contains(&server.kubectl("taint node worker kind=web:NoSchedule").fails(), &["--overwrite is false"]);
    assert_eq!(server.kubectl("taint node worker kind-").ok(), "node/worker untainted\n");
    assert!(!field(&server, "node worker", ".spec.taints").contains("kind"));
}

#[test]
fn draining_evicts_the_pods_of_a_node() {
    let server = with_node();
    create(&server, &controller("ReplicaSet", "set"));
    let uid = field(&server, "rs set", ".metadata.uid");
    let owner = format!(
        "ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: set, uid: {uid}, controller: true}}]"
    );
    let owned = pod("owned", "set").replace("name: owned", &format!("name: owned, {owner}"));
    create(&server, &owned.replace("spec: {", "spec: {nodeName: worker, terminationGracePeriodSeconds: 0, "));
    create(&server, &pod("elsewhere", "set"));
    let dry = server.kubectl("drain worker --dry-run=server").ok();
    contains(&dry, &["node/worker cordoned (server dry run)", "node/worker drained (server dry run)"]);
    assert_eq!(names(&server.kubectl("get pods").ok()), ["elsewhere", "owned"]);
    contains(
        &server.kubectl("drain worker --timeout=60s").ok(),
        &["pod/owned evicted", "node/worker drained"],
    );
    assert_eq!(names(&server.kubectl("get pods").ok()), ["elsewhere"]);
    assert_eq!(field(&server, "node worker", ".spec.unschedulable"), "true");
}

#[test]
fn draining_spares_pods_that_nobody_would_make_again() {
    let server = with_node();
    create(&server, &pod("alone", "a").replace("spec: {", "spec: {nodeName: worker, "));
    contains(&server.kubectl("drain worker").fails(), &["declare no controller (use --force to override)"]);
}
