//! `kubectl scale` and `kubectl rollout`, on objects that no controller looks after.

use windlass_e2e::Server;

use crate::objects::{WEB, contains, controller, create, field};

#[test]
fn everything_with_replicas_can_be_scaled() {
    let server = Server::start();
    for kind in ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"] {
        let name = kind.to_lowercase();
        create(&server, &controller(kind, &name));
        contains(&server.kubectl(&format!("scale {name}/{name} --replicas=4")).ok(), &["scaled"]);
        assert_eq!(field(&server, &format!("{name} {name}"), ".spec.replicas"), "4", "{kind}");
        assert_eq!(field(&server, &format!("{name} {name}"), ".metadata.generation"), "2", "{kind}");
    }
}

#[test]
fn scaling_can_depend_on_what_is_there() {
    let server = Server::start();
    create(&server, WEB);
    server.kubectl("scale deploy web --current-replicas=2 --replicas=3").ok();
    let refused = server.kubectl("scale deploy web --current-replicas=2 --replicas=5").fails();
    contains(&refused, &["Expected replicas to be 2, was 3"]);
    server.kubectl("scale deploy web --resource-version=1 --replicas=5").fails();
    assert_eq!(field(&server, "deploy web", ".spec.replicas"), "3");
    contains(&server.kubectl("scale deploy nobody --replicas=1").fails(), &["\"nobody\" not found"]);
    server.kubectl("scale deploy web --replicas=-1").fails();
}

#[test]
fn rollout_status_follows_the_status() {
    let server = Server::start();
    create(&server, WEB);
    let mut waiting = server.kubectl("rollout status deploy web").spawn();
    waiting.line_with("Waiting for deployment");
    let status = r#"{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}"#;
    server.kubectl(&format!("patch deploy web --subresource=status --type=merge -p '{status}'")).ok();
    waiting.line_with("deployment \"web\" successfully rolled out");
    let (_, status) = waiting.finish();
    assert!(status.success(), "{status}");
    server.kubectl("set image deploy/web main=web:2").ok();
    let late = server.kubectl("rollout status deploy web --timeout=1s").fails();
    contains(&late, &["timed out waiting for the condition"]);
}

#[test]
fn rollout_history_is_read_from_replica_sets() {
    let server = Server::start();
    create(&server, WEB);
    server.kubectl("annotate deploy web deployment.kubernetes.io/revision=2").ok();
    let uid = field(&server, "deploy web", ".metadata.uid");
    for revision in [1, 2] {
        let owner = format!(
            "name: web-{revision}, annotations: {{deployment.kubernetes.io/revision: '{revision}',
              kubernetes.io/change-cause: change {revision}}},
              ownerReferences: [{{apiVersion: apps/v1, kind: Deployment, name: web, uid: {uid}, controller: true}}]"
        );
        let set = controller("ReplicaSet", "web")
            .replacen("name: web", &owner, 1)
            .replace("image:1", &format!("web:{revision}"));
        create(&server, &set);
    }
    let history = server.kubectl("rollout history deploy web").ok();
    contains(&history, &["REVISION  CHANGE-CAUSE", "1         change 1", "2         change 2"]);
    contains(&server.kubectl("rollout history deploy web --revision=1").ok(), &["web:1"]);
    contains(&server.kubectl("rollout undo deploy web --to-revision=1").ok(), &["rolled back"]);
    assert_eq!(field(&server, "deploy web", ".spec.template.spec.containers[0].image"), "web:1");
}

#[test]
fn rollouts_are_paused_resumed_and_restarted() {
    let server = Server::start();
    create(&server, WEB);
    contains(&server.kubectl("rollout pause deploy web").ok(), &["paused"]);
    assert_eq!(field(&server, "deploy web", ".spec.paused"), "true");
    contains(&server.kubectl("rollout resume deploy web").ok(), &["resumed"]);
    contains(&server.kubectl("rollout restart deploy web").ok(), &["restarted"]);
    let at = field(
        &server,
        "deploy web",
        r".spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt",
    );
    assert_ne!(at, "");
}
