//! Custom resources as people use them: install a definition, work with its objects, take it away again.

use std::{fmt::Write, fs, os::unix::fs::PermissionsExt};

use windlass_e2e::Server;

use crate::objects::{contains, create, field, names, rows};

/// A definition with everything that kubectl shows.
const WIDGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd], categories: [all, tools]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size, description: How large it is.}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type==\"Ready\")].status'}
    - {name: Colour, type: string, jsonPath: .spec.colour, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    selectableFields:
    - {jsonPath: .spec.colour}
    schema:
      openAPIV3Schema:
        description: A widget is a thing of some size.
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How large it is.}
              colour: {type: string, default: red, enum: [red, green, blue]}
              replicas: {type: integer, minimum: 0}
              parts:
                type: array
                description: What it is made of.
                items:
                  type: object
                  properties:
                    name: {type: string}
                    weight: {type: number}
              labels: {type: object, additionalProperties: {type: string}}
              port: {x-kubernetes-int-or-string: true}
          status:
            type: object
            properties:
              replicas: {type: integer}
              selector: {type: string}
              conditions:
                type: array
                items: {type: object, properties: {type: {type: string}, status: {type: string}}}
";

fn widget(name: &str, size: i64) -> String {
    format!(
        "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}}}, spec: {{size: {size}, replicas: 1}}}}"
    )
}

fn with_widgets() -> Server {
    let server = Server::start();
    create(&server, WIDGETS);
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
fn a_definition_and_its_objects_are_applied_in_one_go() {
    let server = Server::start();
    let applied = server.kubectl("apply -f -").yaml(WIDGETS).ok();
    assert_eq!(applied, "customresourcedefinition.apiextensions.k8s.io/widgets.example.com created\n");
    server.kubectl("wait --for=condition=established --timeout=10s crd/widgets.example.com").ok();
    assert_eq!(server.kubectl("apply -f -").yaml(&widget("a", 1)).ok(), "widget.example.com/a created\n");
    assert_eq!(server.kubectl("get widgets -o name").ok(), "widget.example.com/a\n");
}

#[test]
fn a_kind_is_found_by_every_name_it_has() {
    let server = with_widgets();
    create(&server, &widget("a", 1));
    for name in
        ["widgets", "widget", "wd", "Widget", "widgets.example.com", "widgets.v1.example.com", "tools"]
    {
        contains(&server.kubectl(&format!("get {name} -o name")).ok(), &["widget.example.com/a\n"]);
    }
    contains(&server.kubectl("get all -o name").ok(), &["widget.example.com/a\n"]);
    let resources = server.kubectl("api-resources --api-group=example.com").ok();
    assert_eq!(rows(&resources), [["widgets", "wd", "example.com/v1", "true", "Widget"]]);
}

#[test]
fn explain_tells_all_fields() {
    let server = with_widgets();
    let all = server.kubectl("explain widgets --recursive").ok();
    contains(
        &all,
        &[
            "GROUP:      example.com",
            "KIND:       Widget",
            "A widget is a thing of some size.",
            "size\t<integer> -required-",
            "colour\t<string>",
            "parts\t<[]Object>",
            "weight\t<number>",
            "labels\t<map[string]string>",
            "metadata\t<ObjectMeta>",
            "ownerReferences\t<[]OwnerReference>",
        ],
    );
    let one = server.kubectl("explain widget.spec.parts").ok();
    contains(&one, &["FIELD: parts <[]Object>", "What it is made of.", "name\t<string>"]);
    contains(&server.kubectl("explain widget.spec.bogus").fails(), &["bogus"]);
}

#[test]
fn get_shows_the_columns_of_the_definition() {
    let server = with_widgets();
    create(&server, &widget("a", 3));
    let status = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    server.kubectl(&format!("patch wd a --subresource=status --type=merge -p '{status}'")).ok();
    let plain = server.kubectl("get wd").ok();
    assert_eq!(
        plain.lines().next().map(|line| line.split_whitespace().collect::<Vec<_>>()),
        Some(vec!["NAME", "SIZE", "READY", "AGE"])
    );
    assert_eq!(rows(&plain)[0][..3], ["a", "3", "True"]);
    let wide = server.kubectl("get wd -o wide").ok();
    contains(&wide, &["COLOUR", "red"]);
    let by_field = server.kubectl("get wd --field-selector=spec.colour=red").ok();
    assert_eq!(names(&by_field), ["a"]);
    contains(
        &server.kubectl("get wd --field-selector=spec.colour=blue").run().stderr,
        &["No resources found"],
    );
    contains(&server.kubectl("describe wd a").ok(), &["Kind:         Widget", "Colour:", "Size:"]);
}

#[test]
fn scale_works_on_a_custom_resource() {
    let server = with_widgets();
    create(&server, &widget("a", 3));
    assert_eq!(server.kubectl("scale widget/a --replicas=4").ok(), "widget.example.com/a scaled\n");
    assert_eq!(field(&server, "wd a", ".spec.replicas"), "4");
    server.kubectl("scale wd a --current-replicas=4 --replicas=5").ok();
    contains(
        &server.kubectl("scale wd a --current-replicas=4 --replicas=6").fails(),
        &["Expected replicas to be 4, was 5"],
    );
    assert_eq!(field(&server, "wd a", ".metadata.generation"), "3");
}

#[test]
fn edit_and_patch_change_a_custom_resource() {
    let server = with_widgets();
    create(&server, &widget("a", 3));
    let ours = editor(&server, "s/size: 3/size: 7/");
    assert_eq!(server.kubectl("edit wd a").env("EDITOR", &ours).ok(), "widget.example.com/a edited\n");
    assert_eq!(field(&server, "wd a", ".spec.size"), "7");
    server.kubectl(r#"patch wd a --type=merge -p '{"spec":{"colour":"blue"}}'"#).ok();
    server.kubectl(r#"patch wd a --type=json -p '[{"op":"replace","path":"/spec/size","value":8}]'"#).ok();
    assert_eq!(field(&server, "wd a", ".spec.size"), "8");
    let strategic = server.kubectl(r#"patch wd a -p '{"spec":{"size":9}}'"#).fails();
    contains(&strategic, &["strategic-merge-patch+json is not supported by example.com/v1, Kind=Widget"]);
    server.kubectl("label wd a team=red").ok();
    assert_eq!(names(&server.kubectl("get wd -l team=red").ok()), ["a"]);
}

#[test]
fn applying_twice_changes_nothing_and_diff_shows_what_would() {
    let server = with_widgets();
    let parts =
        widget("a", 3).replace("replicas: 1", "replicas: 1, parts: [{name: x}, {name: z, weight: 2}]");
    assert_eq!(server.kubectl("apply -f -").yaml(&parts).ok(), "widget.example.com/a created\n");
    let before = field(&server, "wd a", ".metadata.resourceVersion");
    assert_eq!(server.kubectl("apply -f -").yaml(&parts).ok(), "widget.example.com/a unchanged\n");
    assert_eq!(field(&server, "wd a", ".metadata.resourceVersion"), before);
    let same = server.kubectl("diff -f -").yaml(&parts).run();
    assert_eq!((same.code, same.stdout.as_str()), (0, ""), "{}", same.stderr);
    let fewer = parts.replace("{name: x}, ", "").replace("size: 3", "size: 4");
    let different = server.kubectl("diff -f -").yaml(&fewer).run();
    assert_eq!(different.code, 1, "{}", different.stderr);
    contains(&different.stdout, &["-  size: 3\n", "+  size: 4\n", "-  - name: x\n"]);
    assert_eq!(server.kubectl("apply -f -").yaml(&fewer).ok(), "widget.example.com/a configured\n");
    assert_eq!(field(&server, "wd a", ".spec.parts[*].name"), "z");
    let again = server.kubectl("apply -f -").yaml(WIDGETS).ok();
    contains(&again, &["widgets.example.com configured"]);
    assert_eq!(
        server.kubectl("apply -f -").yaml(WIDGETS).ok(),
        "customresourcedefinition.apiextensions.k8s.io/widgets.example.com unchanged\n"
    );
}

#[test]
fn two_managers_apply_a_custom_resource_and_meet_in_a_conflict() {
    let server = with_widgets();
    let theirs = widget("a", 3).replace("size: 3", "size: 3, colour: blue");
    assert_eq!(
        server.kubectl("apply --server-side -f -").yaml(&theirs).ok(),
        "widget.example.com/a serverside-applied\n"
    );
    let ours = widget("a", 5);
    let refused = server.kubectl("apply --server-side --field-manager=other -f -").yaml(&ours).fails();
    contains(&refused, &["Apply failed with 1 conflict: conflict with \"kubectl\"", ".spec.size"]);
    server.kubectl("apply --server-side --field-manager=other --force-conflicts -f -").yaml(&ours).ok();
    assert_eq!(field(&server, "wd a", ".spec.size"), "5");
    assert_eq!(field(&server, "wd a", ".spec.colour"), "blue");
    contains(
        &server.kubectl("apply --server-side -f -").yaml(&theirs.replace("size", "sise")).fails(),
        &[".spec.sise: field not declared in schema"],
    );
}

#[test]
fn mistakes_are_refused_by_name() {
    let server = with_widgets();
    let wrong = server.kubectl("create -f -").yaml(&widget("a", 0)).fails();
    contains(
        &wrong,
        &["The Widget \"a\" is invalid: spec.size: Invalid value: 0", "greater than or equal to 1"],
    );
    let unknown = widget("a", 1).replace("size: 1", "size: 1, sise: 2");
    for command in ["create -f -", "apply -f -"] {
        let refused = server.kubectl(command).yaml(&unknown).fails();
        contains(&refused, &["strict decoding error: unknown field \"spec.sise\""]);
    }
    let warned = server.kubectl("create --validate=warn -f -").yaml(&unknown).run();
    assert_eq!(warned.code, 0, "{}", warned.stderr);
    contains(&warned.stderr, &["Warning: unknown field \"spec.sise\""]);
    let broken = WIDGETS
        .replace("widgets", "gadgets")
        .replace("Widget", "Gadget")
        .replace("wd", "gd")
        .replace("minimum: 1,", "minimum: x,");
    server.kubectl("create -f -").yaml(&broken).fails();
    contains(
        &server.kubectl("get gadgets").fails(),
        &["the server doesn't have a resource type \"gadgets\""],
    );
}

#[test]
fn deleting_the_definition_deletes_the_objects() {
    let server = with_widgets();
    for name in ["a", "b"] {
        create(&server, &widget(name, 1));
    }
    let deleted = server.kubectl("delete crd widgets.example.com --timeout=20s").ok();
    contains(&deleted, &["\"widgets.example.com\" deleted"]);
    // Without what kubectl remembers, it would say that there is no such type.
    contains(&server.kubectl("get widgets").fails(), &["could not find the requested resource"]);
    create(&server, WIDGETS);
    contains(&server.kubectl("get widgets").run().stderr, &["No resources found"]);
}

#[test]
fn a_definition_waits_for_an_object_that_is_held() {
    let server = with_widgets();
    create(&server, &widget("a", 1).replace("name: a", "name: a, finalizers: [example.com/hold]"));
    server.kubectl("delete crd widgets.example.com --wait=false").ok();
    server.kubectl("wait crd/widgets.example.com --for=condition=terminating --timeout=10s").ok();
    contains(
        &server.kubectl("create -f -").yaml(&widget("b", 1)).fails(),
        &["create not allowed while custom resource definition is terminating"],
    );
    server.kubectl(r#"patch wd a --type=merge -p '{"metadata":{"finalizers":null}}'"#).ok();
    server.kubectl("wait crd/widgets.example.com --for=delete --timeout=10s").ok();
}

#[test]
fn a_definition_of_old_is_installed_and_read_back() {
    // A sample has the same plural.
    let server = Server::start_with(&["--without", "samples"]);
    let old = "
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: networks.samples.example.com}
spec:
  group: samples.example.com
  version: v1
  names: {kind: Network, plural: networks}
  scope: Namespaced
  additionalPrinterColumns:
  - {name: Gateway, type: string, JSONPath: .spec.gateway}
";
    assert_eq!(
        server.kubectl("apply -f -").yaml(old).ok(),
        "customresourcedefinition.apiextensions.k8s.io/networks.samples.example.com created\n"
    );
    create(
        &server,
        "{apiVersion: samples.example.com/v1, kind: Network, metadata: {name: a}, spec: {cidr: 192.168.0.0/16, gateway: 192.168.0.1}}",
    );
    assert_eq!(rows(&server.kubectl("get networks").ok()), [["a", "192.168.0.1"]]);
    assert_eq!(field(&server, "network a", ".spec.cidr"), "192.168.0.0/16");
    let shown = server
        .kubectl(
            "get customresourcedefinitions.v1beta1.apiextensions.k8s.io networks.samples.example.com -o yaml",
        )
        .ok();
    contains(&shown, &["apiVersion: apiextensions.k8s.io/v1beta1", "JSONPath: .spec.gateway", "version: v1"]);
    assert_eq!(
        server.kubectl("apply -f -").yaml(old).ok(),
        "customresourcedefinition.apiextensions.k8s.io/networks.samples.example.com unchanged\n"
    );
}

/// A definition of about a megabyte, as large operators have them: hundreds of fields, twenty levels deep, with
/// alternatives and texts.
fn large() -> String {
    let mut deep = "{type: string}".to_owned();
    for level in (0..20).rev() {
        deep = format!(
            "{{type: object, properties: {{level{level}: {deep}, note: {{type: string, nullable: true}}}}}}"
        );
    }
    let text =
        "Says at some length what the field is for, and what to think of before it is set. ".repeat(18);
    let mut fields = String::new();
    for n in 0..650 {
        let _ = writeln!(
            fields,
            "              field{n}: {{description: '{text}', type: object, properties: {{
                mode: {{type: string, enum: [open, shut]}}, port: {{x-kubernetes-int-or-string: true}},
                any: {{x-kubernetes-preserve-unknown-fields: true}}}}, oneOf: [{{required: [mode]}}, {{required: [port]}}]}}"
        );
    }
    format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: engines.example.com}}
spec:
  group: example.com
  scope: Cluster
  names: {{plural: engines, kind: Engine}}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              deep: {deep}
{fields}"
    )
}

#[test]
fn a_definition_of_a_megabyte_is_installed() {
    let server = Server::start();
    let large = large();
    assert!(large.len() > 1_000_000 && large.len() < 1_300_000, "{}", large.len());
    // On the client side, what was applied is noted on the object, where there is not enough room for it.
    contains(&server.kubectl("apply -f -").yaml(&large).fails(), &["may not be more than 262144 bytes"]);
    let installed = "customresourcedefinition.apiextensions.k8s.io/engines.example.com";
    let created = server.kubectl("create -f -").yaml(&large).ok();
    assert_eq!(created, format!("{installed} created\n"));
    server.kubectl("delete crd engines.example.com").ok();
    let applied = server.kubectl("apply --server-side -f -").yaml(&large).ok();
    assert_eq!(applied, format!("{installed} serverside-applied\n"));
    let before = field(&server, "crd engines.example.com", ".metadata.resourceVersion");
    server.kubectl("apply --server-side -f -").yaml(&large).ok();
    assert_eq!(field(&server, "crd engines.example.com", ".metadata.resourceVersion"), before);
    create(
        &server,
        "{apiVersion: example.com/v1, kind: Engine, metadata: {name: a}, spec: {field7: {mode: shut, any: {x: 1}}, field8: {port: 80}}}",
    );
    let spec = server.kubectl("get engine a -o jsonpath='{.spec}'").ok();
    contains(&spec, &[r#""mode":"shut""#, r#""port":80"#]);
    let neither =
        "{apiVersion: example.com/v1, kind: Engine, metadata: {name: b}, spec: {field7: {mode: maybe}}}";
    contains(
        &server.kubectl("create -f -").yaml(neither).fails(),
        &["spec.field7.mode: Unsupported value: \"maybe\""],
    );
    let path: Vec<String> = (0..20).map(|level| format!("level{level}")).collect();
    contains(
        &server.kubectl(&format!("explain engine.spec.deep.{}", path.join("."))).ok(),
        &["FIELD: level19 <string>"],
    );
}

#[test]
fn definitions_and_objects_outlive_a_restart() {
    let mut server = with_widgets();
    create(&server, &widget("a", 1));
    server.restart();
    assert_eq!(rows(&server.kubectl("get wd").ok())[0][..2], ["a", "1"]);
    server.crash();
    create(&server, &widget("b", 2));
    assert_eq!(names(&server.kubectl("get wd").ok()), ["a", "b"]);
}

#[test]
fn a_watch_sees_custom_resources_come_and_go() {
    let server = with_widgets();
    let mut watching = server.kubectl("get wd --watch -o name").spawn();
    create(&server, &widget("a", 1));
    watching.line_with("widget.example.com/a");
    server.kubectl(r#"patch wd a --type=merge -p '{"spec":{"size":2}}'"#).ok();
    watching.line_with("widget.example.com/a");
    server.kubectl("delete wd a").ok();
    watching.line_with("widget.example.com/a");
}
