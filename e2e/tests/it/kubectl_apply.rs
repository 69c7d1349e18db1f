//! `kubectl apply`, client side, and `kubectl diff`.

use windlass_e2e::Server;

use crate::objects::{WEB, config, contains, field};

const CONTAINER: &str = ".spec.template.spec.containers[0]";

#[track_caller]
fn apply(server: &Server, text: &str) -> String {
    server.kubectl("apply -f -").yaml(text).ok()
}

#[test]
fn applying_twice_creates_once_and_changes_nothing() {
    let server = Server::start();
    assert_eq!(apply(&server, WEB), "deployment.apps/web created\n");
    let before = field(&server, "deploy web", ".metadata.resourceVersion");
    assert_eq!(apply(&server, WEB), "deployment.apps/web unchanged\n");
    assert_eq!(field(&server, "deploy web", ".metadata.resourceVersion"), before);
    let manager = field(&server, "deploy web --show-managed-fields", ".metadata.managedFields[*].manager");
    assert_eq!(manager, "kubectl-client-side-apply");
}

#[test]
fn what_was_applied_is_remembered_in_an_annotation() {
    let server = Server::start();
    apply(&server, &config("settings"));
    let applied = field(
        &server,
        "cm settings",
        r".metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration",
    );
    let applied: serde_json::Value = serde_json::from_str(&applied).expect("JSON");
    assert_eq!(applied["data"], serde_json::json!({"key": "value"}));
    contains(&server.kubectl("apply view-last-applied cm settings").ok(), &["data:\n  key: value\n"]);
    server.write("settings.yaml", &config("settings").replace("value", "other"));
    server.kubectl("apply set-last-applied -f settings.yaml").ok();
    contains(&server.kubectl("apply view-last-applied cm settings").ok(), &["data:\n  key: other\n"]);
}

#[test]
fn a_field_that_was_applied_before_and_is_not_now_goes_away() {
    let server = Server::start();
    apply(&server, &config("settings").replace("key: value", "key: value, more: x"));
    server.kubectl(r#"patch cm settings -p '{"data":{"theirs":"kept"}}'"#).ok();
    assert_eq!(apply(&server, &config("settings")), "configmap/settings configured\n");
    assert_eq!(field(&server, "cm settings", ".data"), r#"{"key":"value","theirs":"kept"}"#);
}

#[test]
fn containers_ports_and_variables_are_merged_by_their_keys() {
    let server = Server::start();
    apply(&server, WEB);
    // Somebody else adds a container and a variable; applying again must not take them away.
    let theirs = r#"{"spec":{"template":{"spec":{"containers":[
        {"name":"main","env":[{"name":"THEIRS","value":"3"}]},{"name":"sidecar","image":"side:1"}]}}}}"#;
    server.kubectl(&format!("patch deploy web -p '{theirs}'")).ok();
    let ours = WEB
        .replace("image: web:1", "image: web:2")
        .replace(
            "        - {name: admin, containerPort: 81}\n",
            "        - {name: metrics, containerPort: 82}\n",
        )
        .replace("        - {name: FIRST, value: '1'}\n", "");
    assert_eq!(apply(&server, &ours), "deployment.apps/web configured\n");
    let names = ".spec.template.spec.containers[*].name";
    assert_eq!(field(&server, "deploy web", names), "main sidecar");
    assert_eq!(field(&server, "deploy web", &format!("{CONTAINER}.image")), "web:2");
    assert_eq!(field(&server, "deploy web", &format!("{CONTAINER}.ports[*].containerPort")), "80 82");
    let mut variables: Vec<String> = field(&server, "deploy web", &format!("{CONTAINER}.env[*].name"))
        .split(' ')
        .map(str::to_owned)
        .collect();
    variables.sort();
    assert_eq!(variables, ["SECOND", "THEIRS"]);
}

#[test]
fn a_change_of_the_spec_counts_up_the_generation() {
    let server = Server::start();
    apply(&server, WEB);
    assert_eq!(field(&server, "deploy web", ".metadata.generation"), "1");
    apply(&server, &WEB.replace("replicas: 2", "replicas: 4"));
    assert_eq!(field(&server, "deploy web", ".metadata.generation"), "2");
    apply(
        &server,
        &WEB.replace("replicas: 2", "replicas: 4")
            .replace("labels: {app: web}}\nspec", "labels: {app: x}}\nspec"),
    );
    // kubectl keeps what it applied in an annotation, and annotations of deployments count, as in Kubernetes.
    assert_eq!(field(&server, "deploy web", ".metadata.generation"), "3");
    assert_eq!(field(&server, "deploy web", ".metadata.labels.app"), "x");
}

#[test]
fn a_field_that_must_not_change_is_refused() {
    let server = Server::start();
    apply(&server, WEB);
    let refused = server
        .kubectl("apply -f -")
        .yaml(&WEB.replace("{matchLabels: {app: web}}", "{matchLabels: {app: new}}"))
        .fails();
    contains(&refused, &["The Deployment \"web\" is invalid", "spec.selector"]);
}

#[test]
fn pruning_deletes_what_the_files_no_longer_have() {
    let server = Server::start();
    let labelled = |name: &str| {
        config(name).replace(&format!("name: {name}"), &format!("name: {name}, labels: {{set: a}}"))
    };
    apply(&server, &format!("{}\n---\n{}", labelled("one"), labelled("two")));
    apply(&server, &config("alien"));
    let pruned = server
        .kubectl("apply --prune -l set=a --prune-allowlist=core/v1/ConfigMap -f -")
        .yaml(&labelled("one"))
        .ok();
    contains(&pruned, &["configmap/one unchanged", "configmap/two pruned"]);
    assert_eq!(server.kubectl("get cm one alien -o name").ok(), "configmap/one\nconfigmap/alien\n");
    contains(&server.kubectl("get cm two").fails(), &["NotFound"]);
}

#[test]
fn a_folder_of_files_is_applied_and_deleted() {
    let server = Server::start();
    std::fs::create_dir(server.directory().join("all")).expect("a folder");
    server.write("all/one.yaml", &config("one"));
    server.write("all/two.json", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"two"}}"#);
    assert_eq!(server.kubectl("apply -f all").ok(), "configmap/one created\nconfigmap/two created\n");
    contains(
        &server.kubectl("delete -f all").ok(),
        &["configmap \"one\" deleted", "configmap \"two\" deleted"],
    );
}

#[test]
fn a_kustomization_is_applied() {
    let server = Server::start();
    server.write(
        "kustomization.yaml",
        "namePrefix: our-\nresources: [settings.yaml]\ncommonAnnotations: {by: us}\n",
    );
    server.write("settings.yaml", &config("settings"));
    assert_eq!(server.kubectl("apply -k .").ok(), "configmap/our-settings created\n");
    assert_eq!(field(&server, "cm our-settings", ".metadata.annotations.by"), "us");
}

#[test]
fn diff_shows_what_would_change_and_changes_nothing() {
    let server = Server::start();
    apply(&server, WEB);
    let same = server.kubectl("diff -f -").yaml(WEB).run();
    assert_eq!((same.code, same.stdout.as_str()), (0, ""), "{}", same.stderr);
    let different = server.kubectl("diff -f -").yaml(&WEB.replace("web:1", "web:2")).run();
    assert_eq!(different.code, 1, "{}", different.stderr);
    contains(
        &different.stdout,
        &["-        image: web:1\n", "+        image: web:2\n", "-  generation: 1\n", "+  generation: 2\n"],
    );
    let new = server.kubectl("diff -f -").yaml(&config("new")).run();
    assert_eq!(new.code, 1, "{}", new.stderr);
    contains(&new.stdout, &["+kind: ConfigMap\n"]);
    contains(&server.kubectl("get cm new").fails(), &["NotFound"]);
    assert_eq!(field(&server, "deploy web", ".metadata.generation"), "1");
}
