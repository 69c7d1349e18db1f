//! `kubectl wait`: for conditions, for values and for the end.

use windlass_e2e::Server;

use crate::objects::{WEB, config, contains, create, pod};

/// Sets the condition Ready of a pod.
fn ready(server: &Server, pod: &str, value: &str) {
    let patch = format!(r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{value}"}}]}}}}"#);
    server.kubectl(&format!("patch pod {pod} --subresource=status -p '{patch}'")).ok();
}

#[test]
fn it_waits_for_a_condition() {
    let server = Server::start();
    create(&server, &pod("one", "a"));
    let mut waiting = server.kubectl("wait pod one --for=condition=Ready --timeout=60s").spawn();
    ready(&server, "one", "True");
    waiting.line_with("pod/one condition met");
    assert!(waiting.finish().1.success());
    server.kubectl("wait pods --all --for=condition=Ready").ok();
    let waiting = server.kubectl("wait pod one --for=condition=Ready=false --timeout=60s").spawn();
    ready(&server, "one", "False");
    assert!(waiting.finish().1.success());
}

#[test]
fn it_waits_for_a_value() {
    let server = Server::start();
    create(&server, WEB);
    let waiting = server.kubectl("wait deploy web --for=jsonpath='{.spec.replicas}'=5 --timeout=60s").spawn();
    server.kubectl("scale deploy web --replicas=5").ok();
    assert!(waiting.finish().1.success());
    server.kubectl("wait deploy web --for=jsonpath='{.metadata.uid}'").ok();
}

#[test]
fn it_waits_for_the_end() {
    let server = Server::start();
    create(
        &server,
        &config("settings").replace("name: settings", "name: settings, finalizers: [example.com/x]"),
    );
    server.kubectl("delete cm settings --wait=false").ok();
    let mut waiting = server.kubectl("wait cm settings --for=delete --timeout=60s").spawn();
    server.kubectl(r#"patch cm settings --type=merge -p '{"metadata":{"finalizers":null}}'"#).ok();
    // Quick as it is, kubectl may find it gone already, and then it prints nothing.
    let printed = waiting.next_line();
    assert!(printed.is_none_or(|line| line.contains("configmap/settings condition met")));
    assert!(waiting.finish().1.success());
    server.kubectl("wait cm nobody --for=delete").ok();
}

#[test]
fn it_gives_up_in_time() {
    let server = Server::start();
    create(&server, &pod("one", "a"));
    let late = server.kubectl("wait pod one --for=condition=Ready --timeout=1s").fails();
    contains(&late, &["timed out waiting for the condition on pods/one"]);
    contains(&server.kubectl("wait pod nobody --for=condition=Ready --timeout=1s").fails(), &["NotFound"]);
}
