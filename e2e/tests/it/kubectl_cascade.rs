//! What happens to others when something is deleted: dependents, what is in a namespace, what a quota counts.

use windlass_e2e::{Server, eventually};

use crate::objects::{WEB, becomes, config, contains, controller, create, field, is_gone, names, pod};

/// A text of an object, owned by another.
fn owned(server: &Server, text: &str, owner: &str, kind: &str, name: &str) -> String {
    let uid = field(server, owner, ".metadata.uid");
    let group = if kind == "ConfigMap" { "v1" } else { "apps/v1" };
    let reference = format!(
        "ownerReferences: [{{apiVersion: {group}, kind: {kind}, name: {name}, uid: {uid}, controller: true, \
         blockOwnerDeletion: true}}], name:"
    );
    text.replacen("name:", &reference, 1)
}

/// A deployment, its replica set, and a pod of that.
fn family() -> Server {
    let server = Server::start();
    create(&server, WEB);
    create(&server, &owned(&server, &controller("ReplicaSet", "set"), "deploy web", "Deployment", "web"));
    create(&server, &owned(&server, &pod("one", "a"), "rs set", "ReplicaSet", "set"));
    server
}

#[test]
fn in_the_background_the_owner_goes_and_then_its_dependents() {
    let server = family();
    create(&server, &config("unrelated"));
    server.kubectl("delete deploy web").ok();
    is_gone(&server, "rs set");
    is_gone(&server, "pod one");
    server.kubectl("get cm unrelated").ok();
}

#[test]
fn in_the_foreground_the_dependents_go_and_then_the_owner() {
    let server = family();
    server
        .kubectl(r#"patch pod one --type=merge -p '{"metadata":{"finalizers":["example.com/hold"]}}'"#)
        .ok();
    let mut deletion = server.kubectl("delete deploy web --cascade=foreground").spawn();
    deletion.line_with("deployment.apps \"web\" deleted");
    becomes(&server, "rs set", ".metadata.finalizers", r#"["foregroundDeletion"]"#);
    eventually(|| {
        let at = field(&server, "pod one", ".metadata.deletionTimestamp");
        if at.is_empty() { Err("the pod is not being deleted".to_owned()) } else { Ok(()) }
    });
    assert_eq!(field(&server, "deploy web", ".metadata.finalizers"), r#"["foregroundDeletion"]"#);
    server.kubectl(r#"patch pod one --type=merge -p '{"metadata":{"finalizers":null}}'"#).ok();
    let (_, status) = deletion.finish();
    assert!(status.success(), "kubectl has waited for all of them: {status}");
    for object in ["pod one", "rs set", "deploy web"] {
        contains(&server.kubectl(&format!("get {object}")).fails(), &["NotFound"]);
    }
}

#[test]
fn orphans_stay_and_belong_to_nobody() {
    let server = family();
    server.kubectl("delete deploy web --cascade=orphan").ok();
    contains(&server.kubectl("get deploy web").fails(), &["NotFound"]);
    assert_eq!(field(&server, "rs set", ".metadata.ownerReferences"), "");
    assert_eq!(field(&server, "rs set", ".metadata.deletionTimestamp"), "");
    assert_ne!(field(&server, "pod one", ".metadata.ownerReferences"), "");
}

#[test]
fn dependents_of_what_never_was_go_and_those_of_the_living_stay() {
    let server = Server::start();
    create(&server, &config("owner"));
    create(&server, &owned(&server, &config("rightful"), "cm owner", "ConfigMap", "owner"));
    let other = owned(&server, &config("impostor"), "cm owner", "ConfigMap", "owner");
    let uid = field(&server, "cm owner", ".metadata.uid");
    create(&server, &other.replace(&uid, "11111111-2222-3333-4444-555555555555"));
    is_gone(&server, "cm impostor");
    server.kubectl("get cm rightful").ok();
    // One that is made after its owner has gone.
    let late = owned(&server, &config("late"), "cm owner", "ConfigMap", "owner");
    server.kubectl("delete cm owner").ok();
    is_gone(&server, "cm rightful");
    create(&server, &late);
    is_gone(&server, "cm late");
}

#[test]
fn custom_kinds_own_and_are_owned() {
    let server = Server::start();
    let definition = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: boats.example.com},
        spec: {group: example.com, names: {plural: boats, kind: Boat}, scope: Namespaced, versions: [
        {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}";
    create(&server, definition);
    let boat = |name: &str| format!("{{apiVersion: example.com/v1, kind: Boat, metadata: {{name: {name}}}}}");
    create(&server, &boat("mother"));
    let child = owned(&server, &boat("child"), "boat mother", "Boat", "mother");
    create(&server, &child.replace("apiVersion: apps/v1", "apiVersion: example.com/v1"));
    server.kubectl("delete boat mother").ok();
    is_gone(&server, "boat child");
}

#[test]
fn a_namespace_takes_everything_with_it_but_waits_for_finalizers() {
    let server = Server::start();
    create(&server, "{apiVersion: v1, kind: Namespace, metadata: {name: old}}");
    server.kubectl("create -n old -f -").yaml(&pod("plain", "a")).ok();
    let held = config("held").replace("name: held", "name: held, finalizers: [example.com/hold]");
    server.kubectl("create -n old -f -").yaml(&held).ok();
    let mut deletion = server.kubectl("delete ns old").spawn();
    deletion.line_with("namespace \"old\" deleted");
    is_gone(&server, "pod plain -n old");
    let condition = |kind: &str, field: &str| format!(".status.conditions[?(@.type==\"{kind}\")].{field}");
    becomes(&server, "ns old", &condition("NamespaceFinalizersRemaining", "status"), "True");
    becomes(
        &server,
        "ns old",
        &condition("NamespaceFinalizersRemaining", "message"),
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
    );
    becomes(
        &server,
        "ns old",
        &condition("NamespaceContentRemaining", "message"),
        "Some resources are remaining: configmaps. has 1 resource instances",
    );
    contains(&server.kubectl("get ns old").ok(), &["Terminating"]);
    let refused = server.kubectl("create -n old -f -").yaml(&config("late")).fails();
    contains(&refused, &["(Forbidden)", "because it is being terminated"]);
    server.kubectl(r#"patch cm held -n old --type=merge -p '{"metadata":{"finalizers":null}}'"#).ok();
    let (_, status) = deletion.finish();
    assert!(status.success(), "kubectl has waited for the end: {status}");
    contains(&server.kubectl("get ns old").fails(), &["NotFound"]);
}

#[test]
fn every_namespace_has_an_account_and_the_authority() {
    let server = Server::start();
    create(&server, "{apiVersion: v1, kind: Namespace, metadata: {name: new}}");
    for namespace in ["default", "new"] {
        let account = format!("serviceaccount default -n {namespace}");
        becomes(&server, &account, ".metadata.name", "default");
        let map = format!("cm kube-root-ca.crt -n {namespace}");
        eventually(|| match server.kubectl(&format!("get {map}")).run() {
            ran if ran.code == 0 => Ok(()),
            ran => Err(ran.stderr),
        });
        let shown = field(&server, &map, ".data.ca\\.crt");
        assert!(shown.starts_with("-----BEGIN CERTIFICATE-----"), "{shown}");
        server.kubectl(&format!("delete {account}")).ok();
        becomes(&server, &account, ".metadata.name", "default");
    }
}

#[test]
fn a_quota_counts_what_is_there() {
    let server = Server::start();
    create(&server, &config("before"));
    create(
        &server,
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: few}, spec: {hard: {count/secrets: 2, pods: 1}}}",
    );
    becomes(&server, "quota few", ".status.used", r#"{"count/secrets":"0","pods":"0"}"#);
    server.kubectl("create secret generic one --from-literal=a=b").ok();
    server.kubectl("create secret generic two --from-literal=a=b").ok();
    becomes(&server, "quota few", ".status.used", r#"{"count/secrets":"2","pods":"0"}"#);
    contains(
        &server.kubectl("create secret generic three --from-literal=a=b").fails(),
        &["exceeded quota: few, requested: count/secrets=1, used: count/secrets=2, limited: count/secrets=2"],
    );
    server.kubectl("delete secret one").ok();
    becomes(&server, "quota few", ".status.used", r#"{"count/secrets":"1","pods":"0"}"#);
    server.kubectl("create secret generic three --from-literal=a=b").ok();
    assert_eq!(names(&server.kubectl("get secrets").ok()), ["three", "two"]);
}

#[test]
fn who_has_controllers_of_their_own_can_leave_ours_out() {
    let server = Server::start_with(&["--without", "housekeeping,hub"]);
    create(&server, &config("owner"));
    server.kubectl("delete cm owner --cascade=orphan --wait=false").ok();
    assert_eq!(field(&server, "cm owner", ".metadata.finalizers"), r#"["orphan"]"#);
    let status = server.windlass("status");
    assert!(!status.contains("garbage-collector"), "{status}");
}
