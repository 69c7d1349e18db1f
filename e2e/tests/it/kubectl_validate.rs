//! `--dry-run=server` and `--validate`: being told without being taken at one's word.

use windlass_e2e::Server;

use crate::objects::{WEB, config, contains, create, field};

#[test]
fn a_dry_run_answers_as_if_and_leaves_no_trace() {
    let server = Server::start();
    let created = server.kubectl("create --dry-run=server -f -").yaml(WEB).ok();
    assert_eq!(created, "deployment.apps/web created (server dry run)\n");
    let defaulted = server.kubectl("create --dry-run=server -o yaml -f -").yaml(WEB).ok();
    contains(&defaulted, &["  uid: ", "type: RollingUpdate"]);
    let applied = server.kubectl("apply --dry-run=server -f -").yaml(WEB).ok();
    assert_eq!(applied, "deployment.apps/web created (server dry run)\n");
    contains(&server.kubectl("get deploy web").fails(), &["NotFound"]);

    create(&server, WEB);
    let before = field(&server, "deploy web", ".metadata.resourceVersion");
    let patch =
        r#"patch deploy web --dry-run=server -o jsonpath='{.spec.replicas}' -p '{"spec":{"replicas":8}}'"#;
    assert_eq!(server.kubectl(patch).ok(), "8");
    contains(&server.kubectl("label deploy web x=y --dry-run=server").ok(), &["labeled (server dry run)"]);
    contains(
        &server.kubectl("scale deploy web --replicas=9 --dry-run=server").ok(),
        &["scaled (server dry run)"],
    );
    contains(&server.kubectl("replace --dry-run=server -f -").yaml(WEB).ok(), &["replaced (server dry run)"]);
    contains(
        &server.kubectl("delete deploy web --dry-run=server").ok(),
        &["\"web\" deleted", "(server dry run)"],
    );
    assert_eq!(field(&server, "deploy web", ".metadata.resourceVersion"), before);
}

#[test]
fn a_dry_run_is_refused_for_the_same_reasons() {
    let server = Server::start();
    let refused = server
        .kubectl("create --dry-run=server -f -")
        .yaml(&WEB.replace("replicas: 2", "replicas: -1"))
        .fails();
    contains(&refused, &["spec.replicas: Invalid value: -1"]);
    create(&server, &config("settings"));
    let refused = server.kubectl("create --dry-run=server -f -").yaml(&config("settings")).fails();
    contains(&refused, &["AlreadyExists"]);
    contains(&server.kubectl("delete cm nobody --dry-run=server").fails(), &["NotFound"]);
}

#[test]
fn strict_validation_refuses_unknown_fields() {
    let server = Server::start();
    let unknown = WEB.replace("        image: web:1\n", "        image: web:1\n        imagee: x\n");
    for flag in ["", "--validate=true", "--validate=strict"] {
        let refused = server.kubectl(&format!("create {flag} -f -")).yaml(&unknown).fails();
        contains(
            &refused,
            &["strict decoding error", "unknown field \"spec.template.spec.containers[0].imagee\""],
        );
    }
    create(&server, &config("x"));
    let warned = server.kubectl(r#"patch cm x --type=merge -p '{"unknown":1}'"#).run();
    assert_eq!(warned.stdout, "configmap/x patched (no change)\n");
    contains(&warned.stderr, &["Warning: unknown field \"unknown\""]);
}

#[test]
fn warning_validation_prints_and_drops_unknown_fields() {
    let server = Server::start();
    let unknown = config("settings").replace("kind:", "colour: red, kind:");
    let ran = server.kubectl("create --validate=warn -f -").yaml(&unknown).run();
    assert_eq!(ran.stdout, "configmap/settings created\n");
    contains(&ran.stderr, &["Warning: unknown field \"colour\""]);
    assert_eq!(field(&server, "cm settings", ".colour"), "");
}

#[test]
fn without_validation_unknown_fields_are_dropped_in_silence() {
    let server = Server::start();
    let unknown = config("settings").replace("kind:", "colour: red, kind:");
    let ran = server.kubectl("create --validate=ignore -f -").yaml(&unknown).run();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("configmap/settings created\n", ""));
}

#[test]
fn duplicate_fields_are_found() {
    let server = Server::start();
    // Sent as it is: kubectl's own reading of a file would keep only the last.
    server.write(
        "twice.json",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"twice"},"data":{"a":"1","a":"2"}}"#,
    );
    let path = "/api/v1/namespaces/default/configmaps?fieldValidation";
    let refused = server.kubectl(&format!("create --raw {path}=Strict -f twice.json")).fails();
    contains(&refused, &["strict decoding error: duplicate field \"data.a\""]);
    let warned = server.kubectl(&format!("create --raw {path}=Warn -f twice.json")).run();
    assert_eq!(warned.code, 0, "{}", warned.stderr);
    contains(&warned.stderr, &["Warning: duplicate field \"data.a\""]);
    assert_eq!(field(&server, "cm twice", ".data.a"), "2");
}

#[test]
fn a_value_of_the_wrong_type_is_refused_whatever_the_flag() {
    let server = Server::start();
    let wrong = WEB.replace("replicas: 2", "replicas: many");
    for flag in ["strict", "warn", "ignore"] {
        let refused = server.kubectl(&format!("create --validate={flag} -f -")).yaml(&wrong).fails();
        contains(&refused, &["(BadRequest)", "cannot be handled as a Deployment"]);
    }
}
