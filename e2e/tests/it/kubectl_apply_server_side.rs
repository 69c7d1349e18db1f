//! `kubectl apply --server-side`, also together with its client-side twin, and `kubectl diff --server-side`.

use windlass_e2e::Server;

use crate::objects::{WEB, config, contains, field};

const REPLICAS: &str = ".spec.replicas";
const VERSION: &str = ".metadata.resourceVersion";
const NOTE: &str = r".metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration";

#[track_caller]
fn apply(server: &Server, flags: &str, text: &str) -> String {
    server.kubectl(&format!("apply --server-side {flags} -f -")).yaml(text).ok()
}

/// Who manages an object, and how, in the order of the entries.
#[track_caller]
fn managers(server: &Server, object: &str) -> String {
    let path = r#"range .metadata.managedFields[*]}{.manager}:{.operation} {end"#;
    field(server, &format!("{object} --show-managed-fields"), path).trim_end().to_owned()
}

#[test]
fn the_first_time_creates_and_the_second_changes_nothing() {
    let server = Server::start();
    assert_eq!(apply(&server, "", WEB), "deployment.apps/web serverside-applied\n");
    assert_eq!(managers(&server, "deploy web"), "kubectl:Apply");
    let before = field(&server, "deploy web", VERSION);
    assert_eq!(apply(&server, "", WEB), "deployment.apps/web serverside-applied\n");
    assert_eq!(field(&server, "deploy web", VERSION), before);
    assert_eq!(field(&server, "deploy web", NOTE), "", "nothing is noted on the object");
    apply(&server, "", &WEB.replace("web:1", "web:2"));
    assert_eq!(field(&server, "deploy web", ".spec.template.spec.containers[0].image"), "web:2");
    assert_eq!(field(&server, "deploy web", ".metadata.generation"), "2");
}

#[test]
fn a_conflict_is_told_and_changes_nothing_until_it_is_forced() {
    let server = Server::start();
    apply(&server, "", WEB);
    server.kubectl(r#"patch deploy web --field-manager=other -p '{"spec":{"replicas":5}}'"#).ok();
    let refused = server.kubectl("apply --server-side -f -").yaml(WEB).run();
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{}", refused.stderr);
    contains(
        &refused.stderr,
        &[
            "Apply failed with 1 conflict: conflict with \"other\" using apps/v1: .spec.replicas",
            "--force-conflicts",
        ],
    );
    assert_eq!(field(&server, "deploy web", REPLICAS), "5");
    apply(&server, "--force-conflicts", WEB);
    assert_eq!(field(&server, "deploy web", REPLICAS), "2");
    assert_eq!(managers(&server, "deploy web"), "kubectl:Apply");
}

#[test]
fn a_scale_by_hand_is_a_conflict_until_the_field_is_given_up() {
    let server = Server::start();
    apply(&server, "", WEB);
    server.kubectl("scale deploy web --replicas=7").ok();
    let refused = server.kubectl("apply --server-side -f -").yaml(WEB).fails();
    contains(&refused, &["with subresource \"scale\" using apps/v1: .spec.replicas"]);
    apply(&server, "", &WEB.replace("  replicas: 2\n", ""));
    assert_eq!(field(&server, "deploy web", REPLICAS), "7");
}

#[test]
fn two_managers_share_an_object() {
    let server = Server::start();
    apply(&server, "--field-manager=one", &config("shared"));
    let theirs = config("shared").replace("key: value", "theirs: value");
    apply(&server, "--field-manager=two", &theirs);
    assert_eq!(field(&server, "cm shared", ".data"), r#"{"key":"value","theirs":"value"}"#);
    assert_eq!(managers(&server, "cm shared"), "one:Apply two:Apply");
    let refused = server
        .kubectl("apply --server-side --field-manager=two -f -")
        .yaml(&config("shared").replace("value", "x"))
        .fails();
    contains(&refused, &["conflict with \"one\": .data.key"]);
    apply(&server, "--field-manager=one", "{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}}");
    assert_eq!(field(&server, "cm shared", ".data"), r#"{"theirs":"value"}"#);
}

#[test]
fn an_object_from_client_side_apply_is_taken_over_without_conflict() {
    let server = Server::start();
    server.kubectl("apply -f -").yaml(WEB).ok();
    assert_eq!(managers(&server, "deploy web"), "kubectl-client-side-apply:Update");
    let changed = WEB.replace("web:1", "web:2").replace("        - {name: FIRST, value: '1'}\n", "");
    assert_eq!(apply(&server, "", &changed), "deployment.apps/web serverside-applied\n");
    assert_eq!(field(&server, "deploy web", ".spec.template.spec.containers[0].image"), "web:2");
    assert_eq!(
        field(&server, "deploy web", ".spec.template.spec.containers[0].env[*].name"),
        "SECOND",
        "what the client had applied goes when the server is not asked for it"
    );
    let managers = managers(&server, "deploy web");
    assert!(managers.contains("kubectl:Apply") && !managers.contains("client-side"), "{managers}");
}

#[test]
fn client_side_apply_goes_on_where_server_side_apply_left_off() {
    let server = Server::start();
    let both = config("settings").replace("key: value", "key: value, more: x");
    server.kubectl("apply -f -").yaml(&config("settings")).ok();
    apply(&server, "", &both);
    contains(&field(&server, "cm settings", NOTE), &["\"more\":\"x\""]);
    assert_eq!(
        server.kubectl("apply -f -").yaml(&config("settings")).ok(),
        "configmap/settings configured\n"
    );
    assert_eq!(field(&server, "cm settings", ".data"), r#"{"key":"value"}"#);
}

#[test]
fn a_dry_run_changes_nothing() {
    let server = Server::start();
    let dry = apply(&server, "--dry-run=server", &config("new"));
    assert_eq!(dry, "configmap/new serverside-applied (server dry run)\n");
    contains(&server.kubectl("get cm new").fails(), &["NotFound"]);
}

#[test]
fn a_field_that_does_not_exist_is_refused() {
    let server = Server::start();
    let refused =
        server.kubectl("apply --server-side -f -").yaml(&WEB.replace("replicas: 2", "replica: 2")).fails();
    contains(&refused, &[".spec.replica: field not declared in schema"]);
    contains(&server.kubectl("get deploy web").fails(), &["NotFound"]);
}

#[test]
fn a_diff_asks_the_server_what_would_change() {
    let server = Server::start();
    apply(&server, "", WEB);
    let same = server.kubectl("diff --server-side -f -").yaml(WEB).run();
    assert_eq!((same.code, same.stdout.as_str()), (0, ""), "{}", same.stderr);
    let different = server.kubectl("diff --server-side -f -").yaml(&WEB.replace("web:1", "web:2")).run();
    assert_eq!(different.code, 1, "{}", different.stderr);
    contains(&different.stdout, &["-        image: web:1\n", "+        image: web:2\n"]);
    server.kubectl(r#"patch deploy web --field-manager=other -p '{"spec":{"replicas":5}}'"#).ok();
    let refused = server.kubectl("diff --server-side -f -").yaml(WEB).run();
    assert!(refused.code > 1, "{refused:?}");
    contains(&refused.stderr, &["conflict with \"other\" using apps/v1: .spec.replicas"]);
    let forced = server.kubectl("diff --server-side --force-conflicts -f -").yaml(WEB).run();
    assert_eq!(forced.code, 1, "{}", forced.stderr);
    contains(&forced.stdout, &["-  replicas: 5\n", "+  replicas: 2\n"]);
    assert_eq!(field(&server, "deploy web", REPLICAS), "5");
}

#[test]
fn after_two_client_side_applies_there_is_no_diff() {
    let server = Server::start();
    for expected in ["deployment.apps/web created\n", "deployment.apps/web unchanged\n"] {
        assert_eq!(server.kubectl("apply -f -").yaml(WEB).ok(), expected);
    }
    let same = server.kubectl("diff -f -").yaml(WEB).run();
    assert_eq!((same.code, same.stdout.as_str()), (0, ""), "{}", same.stderr);
}
