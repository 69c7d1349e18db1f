//! A restart loses nothing, and clients go on where they were.

use windlass_e2e::Server;

use crate::objects::{WEB, config, contains, create, field};

#[test]
fn objects_are_the_same_after_a_restart() {
    let mut server = Server::start();
    create(&server, WEB);
    create(&server, &config("settings"));
    let before = server.kubectl("get deploy,cm,svc,ns -A -o json --show-managed-fields").ok();
    server.restart();
    assert_eq!(server.kubectl("get deploy,cm,svc,ns -A -o json --show-managed-fields").ok(), before);
}

#[test]
fn resource_versions_go_on_increasing() {
    let mut server = Server::start();
    create(&server, &config("before"));
    server.restart();
    create(&server, &config("after"));
    let version = |name: &str| -> u64 {
        field(&server, &format!("cm {name}"), ".metadata.resourceVersion").parse().expect("a number")
    };
    assert!(version("after") > version("before"));
}

#[test]
fn what_cannot_be_written_twice_cannot_be_after_a_restart() {
    let mut server = Server::start();
    create(&server, "{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {ports: [{port: 80}]}}");
    let address = field(&server, "svc one", ".spec.clusterIP");
    server.restart();
    let twin = format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: two}}, spec: {{clusterIP: {address}, ports: [{{port: 80}}]}}}}"
    );
    contains(&server.kubectl("create -f -").yaml(&twin).fails(), &["provided IP is already allocated"]);
}
