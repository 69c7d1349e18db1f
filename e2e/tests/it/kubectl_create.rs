//! `kubectl create` from files and by its subcommands, and `kubectl run`, `expose` and `autoscale`.

use windlass_e2e::Server;

use crate::objects::{WEB, config, contains, create, field};

/// Runs a subcommand of create and checks one field of what it made.
#[track_caller]
fn check(server: &Server, line: &str, object: &str, path: &str, expected: &str) {
    server.kubectl(&format!("create {line}")).ok();
    assert_eq!(field(server, object, path), expected, "create {line}");
}

#[test]
fn a_file_may_hold_many_objects() {
    let server = Server::start();
    let both = format!("{}\n---\n{}", config("one"), config("two"));
    assert_eq!(create(&server, &both), "configmap/one created\nconfigmap/two created\n");
    let list = format!("{{apiVersion: v1, kind: List, items: [{}, {}]}}", config("three"), config("four"));
    assert_eq!(create(&server, &list), "configmap/three created\nconfigmap/four created\n");
    let again = server.kubectl("create -f -").yaml(&both).fails();
    contains(
        &again,
        &["(AlreadyExists)", "configmaps \"one\" already exists", "configmaps \"two\" already exists"],
    );
}

#[test]
fn a_generated_name_is_new_each_time() {
    let server = Server::start();
    let text = config("x").replace("name: x", "generateName: part-");
    let (one, two) = (create(&server, &text), create(&server, &text));
    assert!(one.starts_with("configmap/part-") && one != two, "{one}{two}");
}

#[test]
fn what_is_wrong_with_an_object_is_said_field_by_field() {
    let server = Server::start();
    let wrong =
        WEB.replace("replicas: 2", "replicas: -1").replace("containerPort: 80}", "containerPort: 99999}");
    let refused = server.kubectl("create -f -").yaml(&wrong).fails();
    contains(
        &refused,
        &["The Deployment \"web\" is invalid:", "spec.replicas: Invalid value: -1", "containerPort"],
    );
    let refused = server.kubectl("create -f -").yaml(&config("Not_A_Name")).fails();
    contains(&refused, &["metadata.name: Invalid value: \"Not_A_Name\"", "RFC 1123"]);
    let refused = server.kubectl("create -n nowhere -f -").yaml(&config("x")).fails();
    contains(&refused, &["(NotFound)", "namespaces \"nowhere\" not found"]);
}

#[test]
fn configuration_is_created_by_subcommands() {
    let server = Server::start();
    server.write("file.txt", "from a file");
    check(&server, "ns other", "ns other", ".status.phase", "Active");
    let line = "cm settings --from-literal=a=1 --from-file=file.txt";
    check(&server, line, "cm settings", ".data", r#"{"a":"1","file.txt":"from a file"}"#);
    let line = "secret generic word --from-literal=word=hidden";
    check(&server, line, "secret word", ".data.word", "aGlkZGVu");
    let line =
        "secret docker-registry reg --docker-server=example.com --docker-username=u --docker-password=p";
    check(&server, line, "secret reg", ".type", "kubernetes.io/dockerconfigjson");
    check(&server, "sa robot", "sa robot", ".metadata.name", "robot");
    check(&server, "quota few --hard=pods=2", "quota few", ".spec.hard.pods", "2");
    check(&server, "priorityclass high --value=1000", "pc high", ".value", "1000");
}

#[test]
fn workloads_are_created_by_subcommands() {
    let server = Server::start();
    check(&server, "deployment web --image=web:1 --replicas=3", "deploy web", ".spec.replicas", "3");
    check(&server, "job once --image=web:1", "job once", ".spec.template.spec.restartPolicy", "Never");
    check(
        &server,
        "cronjob often --image=web:1 --schedule='* * * * *'",
        "cj often",
        ".spec.schedule",
        "* * * * *",
    );
    check(&server, "job now --from=cronjob/often", "job now", ".metadata.ownerReferences[0].name", "often");
    check(&server, "pdb web --selector=app=web --min-available=1", "pdb web", ".spec.minAvailable", "1");
}

#[test]
fn networks_are_created_by_subcommands() {
    let server = Server::start();
    check(&server, "service clusterip inner --tcp=80:8080", "svc inner", ".spec.ports[0].targetPort", "8080");
    check(&server, "service nodeport outer --tcp=80", "svc outer", ".spec.type", "NodePort");
    check(&server, "service loadbalancer wide --tcp=80", "svc wide", ".spec.type", "LoadBalancer");
    check(
        &server,
        "service externalname far --external-name=example.com",
        "svc far",
        ".spec.externalName",
        "example.com",
    );
    let line = "ingress door --rule='example.com/*=inner:80'";
    check(&server, line, "ingress door", ".spec.rules[0].host", "example.com");
}

#[test]
fn access_rules_are_created_by_subcommands() {
    let server = Server::start();
    check(&server, "role reader --verb=get --resource=pods", "role reader", ".rules[0].resources[0]", "pods");
    let line = "clusterrole reader --verb=get,list --resource=pods";
    check(&server, line, "clusterrole reader", ".rules[0].verbs", r#"["get","list"]"#);
    let line = "rolebinding ann --role=reader --user=ann";
    check(&server, line, "rolebinding ann", ".subjects[0].name", "ann");
    let line = "clusterrolebinding ann --clusterrole=reader --user=ann";
    check(&server, line, "clusterrolebinding ann", ".roleRef.name", "reader");
}

#[test]
fn run_makes_a_pod() {
    let server = Server::start();
    let line = "run one --image=busybox --port=80 --env=A=1 --labels=tier=x -- sleep 1";
    assert_eq!(server.kubectl(line).ok(), "pod/one created\n");
    let args = field(&server, "pod one", ".spec.containers[0].args");
    assert_eq!(args, r#"["sleep","1"]"#);
    assert_eq!(field(&server, "pod one", ".metadata.labels"), r#"{"tier":"x"}"#);
}

#[test]
fn expose_makes_a_service_of_a_deployment() {
    let server = Server::start();
    create(&server, WEB);
    assert_eq!(
        server.kubectl("expose deploy web --port=8000 --target-port=http").ok(),
        "service/web exposed\n"
    );
    assert_eq!(field(&server, "svc web", ".spec.selector"), r#"{"app":"web"}"#);
    assert_eq!(field(&server, "svc web", ".spec.ports[0].targetPort"), "http");
    assert!(field(&server, "svc web", ".spec.clusterIP").starts_with("10."));
}

#[test]
fn autoscale_makes_an_autoscaler() {
    let server = Server::start();
    create(&server, WEB);
    contains(&server.kubectl("autoscale deploy web --min=2 --max=5").ok(), &["autoscaled"]);
    assert_eq!(field(&server, "hpa web", ".spec.maxReplicas"), "5");
    assert_eq!(field(&server, "hpa web", ".spec.scaleTargetRef.name"), "web");
}
