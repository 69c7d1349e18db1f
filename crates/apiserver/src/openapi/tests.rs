//! What the documents and the compiled schemas of the built-in rows must hold.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};
use windlass_machinery::{
    object::Object,
    schema::{Format, Key, Node, Ownership, Strategic, check},
};

use super::{Documents, merge};
use crate::resources::{Catalog, builtin};

fn catalog() -> Arc<Catalog> {
    Arc::new(Catalog::new(builtin::rows()))
}

fn schema<'a>(catalog: &'a Catalog, group: &str, plural: &str) -> &'a Node {
    catalog.get(group, plural).expect("a row").versions[0].schema()
}

fn object(value: Value) -> Object {
    let Value::Object(object) = value else { panic!("not an object") };
    object
}

/// Calls `visit` with every field of every type below `node`.
fn walk(
    node: &Node,
    seen: &mut HashSet<String>,
    visit: &mut impl FnMut(&str, &windlass_machinery::schema::Field),
) {
    let name = match node {
        Node::Named(definition) => definition.name(),
        _ => "",
    };
    if !name.is_empty() && !seen.insert(name.to_owned()) {
        return;
    }
    match node.resolve() {
        Node::Object(fields) => {
            for field in fields {
                visit(name, field);
                walk(&field.node, seen, visit);
            }
        }
        Node::List(items) | Node::Map(items) => walk(items, seen, visit),
        _ => {}
    }
}

#[test]
fn every_list_of_objects_has_a_merge_rule() {
    let (mut seen, mut missing, mut wrong) = (HashSet::new(), vec![], vec![]);
    for row in catalog().all() {
        for version in &row.versions {
            assert!(matches!(version.schema().resolve(), Node::Object(_)), "{row:?}");
            walk(version.schema(), &mut seen, &mut |owner, field| {
                let Node::List(items) = &field.node else { return };
                let is_object = matches!(items.resolve(), Node::Object(_));
                match merge::rule(owner, &field.name) {
                    None if is_object => missing.push(format!("{owner}.{}", field.name)),
                    _ => {}
                }
                let keyed = match &field.merge.ownership {
                    Ownership::Keyed(keys) => keys.iter().all(|key| items.field(&key.name).is_some()),
                    Ownership::Set => !is_object,
                    _ => true,
                };
                if !keyed {
                    wrong.push(format!("{owner}.{}", field.name));
                }
            });
        }
    }
    assert_eq!(missing, [""; 0]);
    assert_eq!(wrong, [""; 0]);
    assert!(seen.len() > 400, "{}", seen.len());
}

#[test]
fn every_merge_rule_is_for_a_field_there_is() {
    let (mut seen, mut fields) = (HashSet::new(), HashSet::new());
    for row in catalog().all() {
        for version in &row.versions {
            walk(version.schema(), &mut seen, &mut |owner, field| {
                fields.insert((owner.to_owned(), field.name.to_string()));
            });
        }
    }
    let unused = merge::all().filter(|(owner, field)| {
        !fields.iter().any(|(name, known)| name.ends_with(&format!(".{owner}")) && known == field)
    });
    assert_eq!(unused.collect::<Vec<_>>(), []);
}

#[test]
fn pods_are_compiled_with_their_merge_rules() {
    let catalog = catalog();
    let pod = schema(&catalog, "", "pods");
    let spec = &pod.field("spec").expect("spec").node;
    let ports = spec
        .field("containers")
        .expect("containers")
        .node
        .items()
        .expect("items")
        .field("ports")
        .expect("ports");
    let protocol = Key { name: "protocol".into(), default: Some(json!("TCP")) };
    let port = Key { name: "containerPort".into(), default: Some(json!(0)) };
    let keys: Arc<[Key]> = Arc::new([port, protocol]);
    assert_eq!(ports.merge.ownership, Ownership::Keyed(keys));
    assert_eq!(ports.merge.strategic, Strategic::MergeBy("containerPort"));
    let volumes = spec.field("volumes").expect("volumes");
    assert_eq!(volumes.merge.strategic, Strategic::RetainKeys(Some("name")));
    assert_eq!(spec.field("nodeSelector").expect("there").merge.ownership, Ownership::Atomic);
    assert!(spec.field("imagePullSecrets").expect("there").node.items().expect("items").is_atomic());
    assert!(spec.field("containers").expect("containers").required);
    let metadata = &pod.field("metadata").expect("metadata").node;
    assert!(matches!(metadata.field("creationTimestamp").expect("there").node, Node::String(Format::Time)));
    assert_eq!(metadata.field("finalizers").expect("there").merge.strategic, Strategic::MergeSet);
    let selector =
        schema(&catalog, "apps", "deployments").field("spec").expect("spec").node.field("selector");
    assert_eq!(selector.expect("selector").merge.ownership, Ownership::Atomic);
}

#[test]
fn pods_are_checked() {
    let catalog = catalog();
    let mut pod = object(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "creationTimestamp": null, "labels": {"x": "y"}},
        "spec": {"foo": 1, "containers": [{
            "name": "c", "image": "i", "imag": "j", "ports": [{"containerPort": 80.0}],
            "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"port": "http"}}
        }]}
    }));
    let report = check(schema(&catalog, "", "pods"), &mut pod);
    assert_eq!(report.unknown, ["spec.containers[0].imag", "spec.foo"]);
    assert_eq!(report.faults, [""; 0]);
    assert_eq!(pod["metadata"], json!({"name": "a", "labels": {"x": "y"}}));
    assert_eq!(pod["spec"]["containers"][0]["ports"], json!([{"containerPort": 80}]));

    let mut pod = object(json!({"spec": {"containers": "c"}}));
    let report = check(schema(&catalog, "", "pods"), &mut pod);
    assert_eq!(
        report.faults,
        ["json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container"]
    );
}

#[test]
fn deployments_and_definitions_are_checked() {
    let catalog = catalog();
    let mut deployment =
        object(json!({"spec": {"replicas": "3", "strategy": {"rollingUpdate": {"maxSurge": "25%"}}}}));
    let report = check(schema(&catalog, "apps", "deployments"), &mut deployment);
    assert_eq!(
        report.faults,
        ["json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"]
    );
    let definition = json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": {"type": "object", "additionalProperties": true, "default": {"a": null}, "properties": {
                "x": {"type": "array", "items": {"type": "integer"}, "enum": [1, "two", null], "x-kubernetes-list-type": "set"}
            }}}
        }}}]}
    });
    let mut given = object(definition.clone());
    let report = check(schema(&catalog, "apiextensions.k8s.io", "customresourcedefinitions"), &mut given);
    assert_eq!(report, Default::default());
    assert_eq!(Value::Object(given), definition);
}

fn parsed(document: &super::Document) -> Value {
    let plain = document.plain();
    assert_eq!(plain.len(), document.plain_len);
    serde_json::from_slice(&plain).expect("JSON")
}

fn references(value: &Value, found: &mut HashSet<String>) {
    match value {
        Value::Object(object) => {
            // A property of this name is a schema, not a reference.
            found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

fn assert_references_resolve(document: &Value) {
    let mut found = HashSet::new();
    references(document, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("within the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn the_index_lists_every_group_version() {
    let (documents, catalog) = (Documents::default(), catalog());
    let index = parsed(&documents.index(&catalog));
    let paths = index["paths"].as_object().expect("paths");
    for row in catalog.all() {
        for version in &row.versions {
            let prefix = if row.group.is_empty() { "api".to_owned() } else { format!("apis/{}", row.group) };
            let path = format!("{prefix}/{}", version.name);
            let url = paths[&path]["serverRelativeURL"].as_str().expect("a URL");
            assert!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
        }
    }
}

#[test]
fn every_document_is_closed_and_keeps_the_hash_of_the_index() {
    let (documents, catalog) = (Documents::default(), catalog());
    let index = parsed(&documents.index(&catalog));
    let mut ids = HashSet::new();
    for (path, entry) in index["paths"].as_object().expect("paths") {
        let document = documents.v3(&catalog, path).expect("a document");
        let url = entry["serverRelativeURL"].as_str().expect("a URL");
        assert!(url.ends_with(document.etag.trim_matches('"')), "{url}");
        let document = parsed(&document);
        assert_references_resolve(&document);
        for item in document["paths"].as_object().expect("paths").values() {
            for operation in
                item.as_object().expect("an item").values().filter_map(|value| value.get("operationId"))
            {
                assert!(ids.insert(operation.to_string()), "{operation} twice");
            }
        }
    }
    assert!(documents.v3(&catalog, "apis/none/v1").is_none());
}

#[test]
fn deployments_are_described() {
    let (documents, catalog) = (Documents::default(), catalog());
    let document = parsed(&documents.v3(&catalog, "apis/apps/v1").expect("a document"));
    let schemas = &document["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
    );
    assert_eq!(
        deployment["properties"]["spec"]["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}])
    );
    assert_eq!(
        schemas["io.k8s.api.apps.v1.DeploymentList"]["x-kubernetes-group-version-kind"][0]["kind"],
        "DeploymentList"
    );
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(
        schemas["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"]["x-kubernetes-map-type"],
        "atomic"
    );
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    assert_eq!(patch["x-kubernetes-action"], "patch");
    let names: Vec<&str> =
        patch["parameters"].as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
}

#[test]
fn the_swagger_document_has_every_kind_once() {
    let (documents, catalog) = (Documents::default(), catalog());
    let document = parsed(&documents.v2(&catalog));
    assert_references_resolve(&document);
    let definitions = document["definitions"].as_object().expect("definitions");
    let mut kinds = HashSet::new();
    for (name, definition) in definitions {
        for gvk in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            assert!(kinds.insert(gvk.to_string()), "{name}: {gvk} twice");
        }
    }
    for row in catalog.all() {
        let gvk = json!({"group": row.group, "version": row.versions[0].name, "kind": row.kind});
        assert!(kinds.contains(&gvk.to_string()), "{gvk}");
    }
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert!(patch["parameters"].as_array().expect("a list").iter().any(|it| it["name"] == "dryRun"));
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "", "version": "v1", "kind": "Pod"})
    );
}

#[test]
fn documents_of_unchanged_groups_are_kept() {
    let (documents, catalog) = (Documents::default(), catalog());
    let before = documents.v3(&catalog, "apis/batch/v1").expect("a document");
    let fewer = catalog.without("batch", "cronjobs").without("apps", "deployments");
    let other = documents.v3(&fewer, "apis/batch/v1").expect("a document");
    assert!(!Arc::ptr_eq(&before, &other));
    let before = documents.v3(&fewer, "apis/policy/v1").expect("a document");
    let after = documents.v3(&catalog, "apis/policy/v1").expect("a document");
    assert!(Arc::ptr_eq(&before, &after));
}
