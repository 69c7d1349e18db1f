//! `kubectl get` in all its forms.

use windlass_e2e::Server;

use crate::objects::{WEB, config, contains, create, names, pod, rows};

fn three_pods() -> Server {
    let server = Server::start();
    for (name, app) in [("one", "a"), ("two", "b"), ("three", "b")] {
        create(&server, &pod(name, app));
    }
    server
}

#[test]
fn a_table_has_the_columns_of_its_kind() {
    let server = three_pods();
    let table = server.kubectl("get pods").ok();
    assert!(table.starts_with("NAME    READY   STATUS    RESTARTS   AGE\n"), "{table}");
    assert_eq!(names(&table), ["one", "three", "two"]);
    assert_eq!(rows(&table)[0][1..4], ["0/1", "Pending", "0"]);
    let wide = server.kubectl("get pods -o wide").ok();
    contains(&wide, &["IP ", "NODE ", "NOMINATED NODE", "READINESS GATES"]);
    create(&server, WEB);
    let wide = server.kubectl("get deployments -o wide").ok();
    assert_eq!(rows(&wide)[0][..4], ["web", "0/2", "0", "0"]);
    contains(&wide, &["UP-TO-DATE", "AVAILABLE", "CONTAINERS", "IMAGES", "web:1", "app=web"]);
}

#[test]
fn a_table_can_do_without_headers_and_show_labels_and_kinds() {
    let server = three_pods();
    let bare = server.kubectl("get pods --no-headers").ok();
    assert_eq!(bare.lines().count(), 3);
    contains(&server.kubectl("get pods --show-labels").ok(), &["LABELS", "app=a", "app=b"]);
    contains(&server.kubectl("get pods -L app").ok(), &["APP\n", "a\n", "b\n"]);
    contains(&server.kubectl("get pods --show-kind").ok(), &["pod/one", "pod/two", "pod/three"]);
    contains(&server.kubectl("get pods -o name").ok(), &["pod/one\npod/three\npod/two\n"]);
}

#[test]
fn one_object_is_printed_in_every_format() {
    let server = Server::start();
    create(&server, &config("settings"));
    let yaml = server.kubectl("get cm settings -o yaml").ok();
    contains(&yaml, &["apiVersion: v1\ndata:\n  key: value\nkind: ConfigMap\n", "  name: settings\n"]);
    assert!(!yaml.contains("managedFields"), "{yaml}");
    contains(
        &server.kubectl("get cm settings -o yaml --show-managed-fields").ok(),
        &["manager: kubectl-create"],
    );
    let json = server.kubectl("get cm settings -o json").ok();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["data"]["key"], "value");
    for (format, expected) in [
        ("jsonpath='{.data.key} of {.metadata.name}'", "value of settings"),
        ("go-template='{{.data.key}}'", "value"),
        ("custom-columns=NAME:.metadata.name,VALUE:.data.key,NONE:.data.none", "settings   value   <none>"),
    ] {
        contains(&server.kubectl(&format!("get cm settings -o {format}")).ok(), &[expected]);
    }
}

#[test]
fn a_list_is_printed_in_every_format() {
    let server = three_pods();
    let list = server.kubectl("get pods -o json").ok();
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
    assert_eq!(list["items"][0]["kind"], "Pod");
    let path = "get pods -o jsonpath='{range .items[*]}{.metadata.name}:{.status.phase} {end}'";
    assert_eq!(server.kubectl(path).ok(), "one:Pending three:Pending two:Pending ");
    contains(&server.kubectl("get pods -o yaml").ok(), &["kind: List", "  kind: Pod"]);
}

#[test]
fn selectors_choose_by_label_and_by_field() {
    let server = three_pods();
    for (selector, expected) in [
        ("-l app=b", &["three", "two"] as &[_]),
        ("-l app!=b", &["one"]),
        ("-l 'app in (a,c)'", &["one"]),
        ("-l 'app notin (a)'", &["three", "two"]),
        ("-l app", &["one", "three", "two"]),
        ("-l '!app'", &[]),
        ("-l app=b --field-selector metadata.name=two", &["two"]),
        ("--field-selector status.phase=Pending,metadata.name!=two", &["one", "three"]),
        ("--field-selector status.phase=Running", &[]),
        ("--field-selector spec.nodeName=", &["one", "three", "two"]),
    ] {
        let ran = server.kubectl(&format!("get pods {selector}")).run();
        assert_eq!((names(&ran.stdout).as_slice(), ran.code), (expected, 0), "{selector}: {}", ran.stderr);
    }
    let refused = server.kubectl("get pods --field-selector spec.colour=red").fails();
    contains(&refused, &["BadRequest", "field label not supported: spec.colour"]);
}

#[test]
fn rows_can_be_sorted() {
    let server = three_pods();
    let by_time = server.kubectl("get pods --sort-by=.metadata.resourceVersion -o name").ok();
    assert_eq!(by_time, "pod/one\npod/two\npod/three\n");
    let by_name = server.kubectl("get pods --sort-by=.metadata.name").ok();
    assert_eq!(names(&by_name), ["one", "three", "two"]);
}

#[test]
fn pages_are_put_together() {
    let server = three_pods();
    let paged = server.kubectl("get pods --chunk-size=1 -v=6").run();
    assert_eq!(names(&paged.stdout), ["one", "three", "two"]);
    let requests = paged.stderr.lines().filter(|line| line.contains("limit=1")).count();
    assert_eq!(requests, 3, "{}", paged.stderr);
    assert_eq!(server.kubectl("get pods --chunk-size=2 -o name").ok(), "pod/one\npod/three\npod/two\n");
    assert_eq!(server.kubectl("get pods --chunk-size=0 -o name").ok(), "pod/one\npod/three\npod/two\n");
}

#[test]
fn every_namespace_can_be_asked_at_once() {
    let server = Server::start();
    create(&server, "{apiVersion: v1, kind: Namespace, metadata: {name: other}}");
    create(&server, &config("here"));
    server.kubectl("create -n other -f -").yaml(&config("there")).ok();
    let all = server.kubectl("get cm -A").ok();
    assert!(all.starts_with("NAMESPACE"), "{all}");
    let all = rows(&all);
    for expected in [["default", "here"], ["other", "there"]] {
        assert!(all.iter().any(|row| row[..2] == expected), "{all:?}");
    }
    contains(&server.kubectl("get cm there").fails(), &["(NotFound)", "configmaps \"there\" not found"]);
    assert!(names(&server.kubectl("get cm -n other").ok()).contains(&"there"));
    let in_nowhere = server.kubectl("get cm -n nowhere").run();
    contains(&in_nowhere.stderr, &["No resources found in nowhere namespace."]);
}

#[test]
fn kinds_have_short_names_groups_and_categories() {
    let server = Server::start();
    create(&server, WEB);
    for word in
        ["deploy", "deployment", "deployments", "Deployment", "deployments.apps", "deployments.v1.apps"]
    {
        assert_eq!(server.kubectl(&format!("get {word} -o name")).ok(), "deployment.apps/web\n", "{word}");
    }
    for word in
        ["ns", "no", "svc", "sa", "cm", "pv", "pvc", "hpa", "cj", "netpol", "pdb", "sc", "pc", "csr", "ev"]
    {
        server.kubectl(&format!("get {word}")).ok();
    }
    contains(&server.kubectl("get all").ok(), &["deployment.apps/web", "service/kubernetes"]);
    contains(
        &server.kubectl("get gadgets").fails(),
        &["the server doesn't have a resource type \"gadgets\""],
    );
}

#[test]
fn several_kinds_and_names_are_got_at_once() {
    let server = three_pods();
    create(&server, &config("settings"));
    contains(&server.kubectl("get pods,cm").ok(), &["pod/one", "configmap/settings"]);
    contains(&server.kubectl("get pod/one cm/settings").ok(), &["pod/one", "configmap/settings"]);
    assert_eq!(names(&server.kubectl("get pods one two").ok()), ["one", "two"]);
    let ran = server.kubectl("get pods one nobody").run();
    assert_eq!((names(&ran.stdout), ran.code), (vec!["one"], 1));
    contains(&ran.stderr, &["Error from server (NotFound): pods \"nobody\" not found"]);
    server.kubectl("get pods nobody --ignore-not-found").ok();
}

#[test]
fn a_file_says_what_to_get() {
    let server = three_pods();
    server.write("two.yaml", &pod("two", "b"));
    assert_eq!(server.kubectl("get -f two.yaml -o name").ok(), "pod/two\n");
}

#[test]
fn a_raw_path_answers_as_it_is() {
    let server = Server::start();
    assert_eq!(server.kubectl("get --raw /readyz").ok(), "ok");
    contains(&server.kubectl("get --raw /version").ok(), &["\"major\":", "\"gitVersion\":"]);
    contains(&server.kubectl("get --raw /metrics").ok(), &["apiserver_request_total"]);
    contains(&server.kubectl("get --raw /nowhere").fails(), &["NotFound"]);
}

#[test]
fn a_subresource_can_be_got() {
    let server = Server::start();
    create(&server, WEB);
    let scale = server.kubectl("get deploy web --subresource=scale -o yaml").ok();
    contains(&scale, &["kind: Scale", "replicas: 2", "selector: app=web"]);
    contains(&server.kubectl("get deploy web --subresource=status -o yaml").ok(), &["kind: Deployment"]);
}
