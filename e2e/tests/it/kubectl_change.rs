//! Changing what is there: edit, replace, patch, label, annotate and set.

use std::{fs, os::unix::fs::PermissionsExt};

use windlass_e2e::Server;

use crate::objects::{WEB, config, contains, create, field, pod};

const IMAGE: &str = ".spec.template.spec.containers[0].image";

fn with_settings() -> Server {
    let server = Server::start();
    create(&server, &config("settings"));
    server
}

fn with_web() -> Server {
    let server = Server::start();
    create(&server, WEB);
    server
}

/// An editor that does `script` of sed to whatever it is given.
fn editor(server: &Server, script: &str) -> String {
    let path = server.directory().join("editor");
    fs::write(&path, format!("#!/bin/sh\nexec sed -i -e '{script}' \"$1\"\n"))
        .expect("the directory is ours");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    path.display().to_string()
}

#[test]
fn edit_writes_what_the_editor_leaves() {
    let server = with_settings();
    let ours = editor(&server, "s/key: value/key: edited/");
    assert_eq!(server.kubectl("edit cm settings").env("EDITOR", &ours).ok(), "configmap/settings edited\n");
    assert_eq!(field(&server, "cm settings", ".data.key"), "edited");
    let nothing = editor(&server, "s/absent/x/");
    let ran = server.kubectl("edit cm settings").env("EDITOR", &nothing).run();
    contains(&format!("{}{}", ran.stdout, ran.stderr), &["Edit cancelled, no changes made"]);
}

#[test]
fn edit_can_edit_a_subresource_and_several_kinds() {
    let server = with_web();
    server
        .kubectl(r#"patch deploy web --subresource=status --type=merge -p '{"status":{"replicas":1}}'"#)
        .ok();
    let ours = editor(&server, "s/replicas: 1/replicas: 7/");
    server.kubectl("edit deploy web --subresource=status").env("EDITOR", &ours).ok();
    assert_eq!(field(&server, "deploy web", ".status.replicas"), "7");
    create(&server, &config("settings"));
    let ours = editor(&server, "s/web:1/web:2/; s/key: value/key: edited/");
    server.kubectl("edit deploy/web cm/settings").env("EDITOR", &ours).ok();
    assert_eq!(field(&server, "deploy web", IMAGE), "web:2");
    assert_eq!(field(&server, "cm settings", ".data.key"), "edited");
}

#[test]
fn replace_writes_the_whole_object() {
    let server = with_settings();
    let uid = field(&server, "cm settings", ".metadata.uid");
    let new = config("settings").replace("key: value", "other: thing");
    assert_eq!(server.kubectl("replace -f -").yaml(&new).ok(), "configmap/settings replaced\n");
    assert_eq!(field(&server, "cm settings", ".data"), r#"{"other":"thing"}"#);
    assert_eq!(field(&server, "cm settings", ".metadata.uid"), uid);
    let missing = server.kubectl("replace -f -").yaml(&config("nobody")).fails();
    contains(&missing, &["NotFound", "configmaps \"nobody\" not found"]);
}

#[test]
fn replace_refuses_what_was_read_before_somebody_wrote() {
    let server = with_settings();
    let read = server.kubectl("get cm settings -o yaml").ok();
    server.kubectl("label cm settings changed=yes").ok();
    let conflict = server.kubectl("replace -f -").yaml(&read).fails();
    contains(
        &conflict,
        &["(Conflict)", "the object has been modified; please apply your changes to the latest version"],
    );
}

#[test]
fn replace_by_force_makes_another_object() {
    let server = with_settings();
    let uid = field(&server, "cm settings", ".metadata.uid");
    server.write("settings.yaml", &config("settings"));
    contains(&server.kubectl("replace --force -f settings.yaml").ok(), &["configmap/settings replaced"]);
    assert_ne!(field(&server, "cm settings", ".metadata.uid"), uid);
}

#[test]
fn a_strategic_patch_merges_lists_by_their_keys() {
    let server = with_web();
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"},{"name":"more","image":"more:1"}]}}}}"#;
    assert_eq!(
        server.kubectl(&format!("patch deploy web -p '{patch}'")).ok(),
        "deployment.apps/web patched\n"
    );
    let images = field(&server, "deploy web", ".spec.template.spec.containers[*].image");
    assert_eq!(images.split(' ').collect::<std::collections::BTreeSet<_>>(), ["more:1", "web:2"].into());
    let delete = r#"{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"more"}]}}}}"#;
    server.kubectl(&format!("patch deploy web --type=strategic -p '{delete}'")).ok();
    assert_eq!(field(&server, "deploy web", ".spec.template.spec.containers[*].image"), "web:2");
    assert_eq!(
        server.kubectl(r#"patch deploy web -p '{}'"#).ok(),
        "deployment.apps/web patched (no change)\n"
    );
}

#[test]
fn a_merge_patch_replaces_lists_and_null_removes() {
    let server = with_web();
    let patch = r#"{"metadata":{"labels":{"app":null,"tier":"front"}},"spec":{"template":{"spec":{"containers":[{"name":"only","image":"only:1"}]}}}}"#;
    server.kubectl(&format!("patch deploy web --type=merge -p '{patch}'")).ok();
    assert_eq!(field(&server, "deploy web", ".spec.template.spec.containers[*].name"), "only");
    assert_eq!(field(&server, "deploy web", ".metadata.labels"), r#"{"tier":"front"}"#);
}

#[test]
fn a_json_patch_tests_before_it_writes() {
    let server = with_web();
    let patch = |value: &str| {
        format!(
            r#"patch deploy web --type=json -p '[{{"op":"test","path":"/spec/replicas","value":2}},{{"op":"replace","path":"/spec/replicas","value":{value}}}]'"#
        )
    };
    server.kubectl(&patch("5")).ok();
    assert_eq!(field(&server, "deploy web", ".spec.replicas"), "5");
    contains(&server.kubectl(&patch("6")).fails(), &["is invalid", "testing path /spec/replicas failed"]);
    assert_eq!(field(&server, "deploy web", ".spec.replicas"), "5");
    let add = r#"patch deploy web --type=json -p '[{"op":"add","path":"/metadata/labels/new","value":"x"},{"op":"remove","path":"/metadata/labels/app"}]'"#;
    server.kubectl(add).ok();
    assert_eq!(field(&server, "deploy web", ".metadata.labels"), r#"{"new":"x"}"#);
}

#[test]
fn status_is_changed_through_its_subresource_alone() {
    let server = with_web();
    for kind in ["merge", "strategic"] {
        server.kubectl(&format!(r#"patch deploy web --type={kind} -p '{{"status":{{"replicas":9}}}}'"#)).ok();
        assert_eq!(field(&server, "deploy web", ".status.replicas"), "", "{kind}");
    }
    let patch = r#"{"spec":{"replicas":9},"status":{"replicas":1,"readyReplicas":1}}"#;
    server.kubectl(&format!("patch deploy web --subresource=status --type=merge -p '{patch}'")).ok();
    assert_eq!(field(&server, "deploy web", ".status.readyReplicas"), "1");
    assert_eq!(field(&server, "deploy web", ".spec.replicas"), "2");
    let patch = r#"[{"op":"replace","path":"/status/readyReplicas","value":0}]"#;
    server.kubectl(&format!("patch deploy web --subresource=status --type=json -p '{patch}'")).ok();
    let patch = r#"{"spec":{"replicas":6}}"#;
    server.kubectl(&format!("patch deploy web --subresource=scale --type=merge -p '{patch}'")).ok();
    assert_eq!(field(&server, "deploy web", ".spec.replicas"), "6");
}

#[test]
fn labels_are_set_kept_and_removed() {
    let server = Server::start();
    create(&server, &pod("one", "a"));
    create(&server, &pod("two", "a"));
    assert_eq!(server.kubectl("label pod one tier=front").ok(), "pod/one labeled\n");
    contains(&server.kubectl("label pod one tier=back").fails(), &["--overwrite is false"]);
    server.kubectl("label pod one tier=back --overwrite").ok();
    assert_eq!(field(&server, "pod one", ".metadata.labels"), r#"{"app":"a","tier":"back"}"#);
    assert_eq!(server.kubectl("label pod one tier-").ok(), "pod/one unlabeled\n");
    contains(&server.kubectl("label pods -l app=a seen=yes").ok(), &["pod/one labeled", "pod/two labeled"]);
    contains(&server.kubectl("label pods --all all=yes").ok(), &["pod/one labeled", "pod/two labeled"]);
    contains(
        &server.kubectl("label pod one 'bad key=x'").fails(),
        &["name part must consist of alphanumeric"],
    );
    contains(&server.kubectl("label pod one --list").ok(), &["seen=yes"]);
}

#[test]
fn annotations_are_set_and_removed() {
    let server = with_settings();
    assert_eq!(server.kubectl("annotate cm settings note='a note'").ok(), "configmap/settings annotated\n");
    assert_eq!(field(&server, "cm settings", ".metadata.annotations.note"), "a note");
    contains(
        &server.kubectl("annotate cm settings note=x --overwrite --resource-version=1").fails(),
        &["the object has been modified"],
    );
    server.kubectl("annotate cm settings note-").ok();
    assert_eq!(field(&server, "cm settings", ".metadata.annotations"), "");
}

#[test]
fn set_changes_image_variables_resources_account_and_selector() {
    let server = with_web();
    contains(&server.kubectl("set image deploy/web main=web:9").ok(), &["image updated"]);
    contains(&server.kubectl("set env deploy/web THIRD=3 FIRST-").ok(), &["env updated"]);
    contains(
        &server.kubectl("set resources deploy/web --limits=cpu=200m --requests=memory=64Mi").ok(),
        &["updated"],
    );
    contains(&server.kubectl("set serviceaccount deploy/web robot").ok(), &["serviceaccount updated"]);
    let container = ".spec.template.spec.containers[0]";
    assert_eq!(field(&server, "deploy web", IMAGE), "web:9");
    assert_eq!(field(&server, "deploy web", &format!("{container}.env[*].name")), "SECOND THIRD");
    let resources = field(&server, "deploy web", &format!("{container}.resources"));
    contains(&resources, &[r#""limits":{"cpu":"200m"}"#, r#""memory":"64Mi""#]);
    assert_eq!(field(&server, "deploy web", ".spec.template.spec.serviceAccountName"), "robot");
    contains(&server.kubectl("set env deploy/web --list").ok(), &["SECOND=2", "THIRD=3"]);
    create(&server, "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}");
    server.kubectl("set selector svc web app=web").ok();
    assert_eq!(field(&server, "svc web", ".spec.selector"), r#"{"app":"web"}"#);
}
