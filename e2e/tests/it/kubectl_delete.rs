//! `kubectl delete`: what goes, what stays and what is left for the garbage collector.

use windlass_e2e::Server;

use crate::objects::{WEB, config, contains, controller, create, field, names, pod};

fn with_web() -> Server {
    let server = Server::start();
    create(&server, WEB);
    server
}

#[test]
fn in_the_background_the_object_goes_at_once() {
    let server = with_web();
    contains(&server.kubectl("delete deploy web").ok(), &["deployment.apps \"web\" deleted"]);
    contains(&server.kubectl("get deploy web").fails(), &["deployments.apps \"web\" not found"]);
    contains(&server.kubectl("delete deploy web").fails(), &["(NotFound)"]);
    server.kubectl("delete deploy web --ignore-not-found").ok();
    let server = with_web();
    server.kubectl("delete deploy web --cascade=background").ok();
    contains(&server.kubectl("get deploy web").fails(), &["NotFound"]);
}

#[test]
fn a_finalizer_keeps_the_object_until_it_is_removed() {
    let server = Server::start();
    create(&server, &config("kept").replace("name: kept", "name: kept, finalizers: [example.com/keep]"));
    let mut deletion = server.kubectl("delete cm kept").spawn();
    deletion.line_with("configmap \"kept\" deleted");
    assert_ne!(field(&server, "cm kept", ".metadata.deletionTimestamp"), "");
    let refused = server.kubectl(r#"patch cm kept --type=merge -p '{"metadata":{"finalizers":["example.com/keep","example.com/new"]}}'"#);
    contains(&refused.fails(), &["no new finalizers can be added if the object is being deleted"]);
    server.kubectl(r#"patch cm kept --type=merge -p '{"metadata":{"finalizers":[]}}'"#).ok();
    let (_, status) = deletion.finish();
    assert!(status.success(), "kubectl saw the object go: {status}");
    contains(&server.kubectl("get cm kept").fails(), &["NotFound"]);
}

#[test]
fn labels_fields_all_and_files_say_what_to_delete() {
    let server = Server::start();
    for (name, app) in [("one", "a"), ("two", "a"), ("three", "b"), ("four", "b"), ("five", "b")] {
        create(&server, &pod(name, app));
    }
    contains(&server.kubectl("delete pods -l app=a").ok(), &["pod \"one\" deleted", "pod \"two\" deleted"]);
    assert_eq!(names(&server.kubectl("get pods").ok()), ["five", "four", "three"]);
    contains(
        &server.kubectl("delete pods --field-selector metadata.name=four").ok(),
        &["pod \"four\" deleted"],
    );
    server.write("three.yaml", &pod("three", "b"));
    contains(&server.kubectl("delete -f three.yaml").ok(), &["pod \"three\" deleted"]);
    contains(&server.kubectl("delete pods --all").ok(), &["pod \"five\" deleted"]);
    contains(&server.kubectl("get pods").run().stderr, &["No resources found in default namespace."]);
}

#[test]
fn several_kinds_are_deleted_at_once() {
    let server = Server::start();
    create(&server, &config("one"));
    create(&server, &controller("ReplicaSet", "one"));
    let done = server.kubectl("delete cm/one rs/one").ok();
    contains(&done, &["configmap \"one\" deleted", "replicaset.apps \"one\" deleted"]);
}

#[test]
fn a_pod_on_a_node_is_given_time_and_force_takes_it() {
    let server = Server::start();
    create(&server, &pod("one", "a").replace("spec: {", "spec: {nodeName: somewhere, "));
    server.kubectl("delete pod one --wait=false").ok();
    assert_eq!(field(&server, "pod one", ".metadata.deletionGracePeriodSeconds"), "30");
    contains(&server.kubectl("get pods").ok(), &["Terminating"]);
    server.kubectl("delete pod one --grace-period=5 --wait=false").ok();
    assert_eq!(field(&server, "pod one", ".metadata.deletionGracePeriodSeconds"), "5");
    server.kubectl("delete pod one --grace-period=0 --force").ok();
    contains(&server.kubectl("get pod one").fails(), &["NotFound"]);
}
