//! What needs a kubelet says so, in words.

use windlass_e2e::Server;

use crate::objects::{contains, create, pod};

#[test]
fn logs_exec_attach_and_port_forward_say_that_there_is_no_kubelet() {
    let server = Server::start();
    create(&server, &pod("one", "a").replace("spec: {", "spec: {nodeName: somewhere, "));
    server.kubectl(r#"patch pod one --subresource=status -p '{"status":{"phase":"Running"}}'"#).ok();
    for command in ["logs one", "logs one -f", "exec one -- true", "attach one", "port-forward one 0:80"] {
        let refused = server.kubectl(command).fails();
        assert!(refused.contains("kubelet"), "{command}: {refused}");
    }
}

#[test]
fn a_pod_that_is_not_there_is_not_found() {
    let server = Server::start();
    for command in ["logs nobody", "exec nobody -- true", "attach nobody", "port-forward nobody 0:80"] {
        contains(&server.kubectl(command).fails(), &["pods \"nobody\" not found"]);
    }
}

#[test]
fn there_are_no_metrics() {
    let server = Server::start();
    contains(&server.kubectl("top pods").fails(), &["Metrics API not available"]);
}
