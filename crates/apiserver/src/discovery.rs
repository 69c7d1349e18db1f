//! Discovery: which groups, versions and resources are served, in both forms, made once from the rows.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    http::{Body, wants_aggregated_discovery},
    resources::{Action, Catalog, Resource, Version},
    verbs::json as answer_json,
};

/// The Kubernetes version that the API is that of.
const MINOR: &str = "37";

/// The media type of the aggregated form.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What `/version` tells.
pub(crate) fn version_info() -> Value {
    json!({
        "major": "1",
        "minor": MINOR,
        "emulationMajor": "1",
        "emulationMinor": MINOR,
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "36",
        "gitVersion": format!("v1.{MINOR}.0+windlass-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_arch()),
    })
}

fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// One document of the aggregated form.
struct Aggregated {
    body: Bytes,
    etag: String,
}

impl Aggregated {
    fn of(items: Vec<Value>) -> Self {
        let document = json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
        });
        let body = Bytes::from(document.to_string());
        let etag = format!("\"{:032X}\"", xxh3_128(&body));
        Aggregated { body, etag }
    }

    fn answer(&self, headers: &HeaderMap) -> Response<Body> {
        let known =
            headers.get(header::IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == self.etag.as_bytes());
        let mut response = match known {
            true => Response::new(Body::empty()),
            false => Response::new(Body::whole(self.body.clone())),
        };
        if known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        if let Ok(etag) = HeaderValue::from_str(&self.etag) {
            headers.insert(header::ETAG, etag);
        }
        response
    }
}

/// Everything discovery answers.
pub(crate) struct Discovery {
    aggregated_core: Aggregated,
    aggregated_groups: Aggregated,
    groups: Bytes,
    by_group: HashMap<String, Bytes>,
    by_version: HashMap<(String, String), Bytes>,
    paths: Bytes,
}

/// The order in which groups are listed; others follow by name.
const FIRST: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

impl Discovery {
    /// Describes these rows.
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let mut groups: BTreeMap<(usize, &str), Vec<&Resource>> = BTreeMap::new();
        for row in catalog.all() {
            let place = FIRST.iter().position(|group| *group == row.group).unwrap_or(FIRST.len());
            groups.entry((place, &row.group)).or_default().push(row);
        }
        let mut discovery = Discovery {
            aggregated_core: Aggregated::of(vec![]),
            aggregated_groups: Aggregated::of(vec![]),
            groups: Bytes::new(),
            by_group: HashMap::new(),
            by_version: HashMap::new(),
            paths: Bytes::new(),
        };
        let (mut listed, mut aggregated) = (vec![], vec![]);
        let mut paths: Vec<String> = [
            "/api",
            "/apis",
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned)
        .to_vec();
        for ((_, group), rows) in &groups {
            let versions = versions_of(rows);
            for version in &versions {
                let list = resource_list(group, version, rows);
                discovery.by_version.insert(((*group).to_owned(), version.clone()), list.to_string().into());
                paths.push(match group.is_empty() {
                    true => format!("/api/{version}"),
                    false => format!("/apis/{group}/{version}"),
                });
            }
            let item = aggregated_group(group, &versions, rows);
            if group.is_empty() {
                discovery.aggregated_core = Aggregated::of(vec![item]);
                continue;
            }
            aggregated.push(item);
            let described = group_of(group, &versions);
            let mut alone = described.clone();
            alone["kind"] = "APIGroup".into();
            alone["apiVersion"] = "v1".into();
            discovery.by_group.insert((*group).to_owned(), alone.to_string().into());
            paths.push(format!("/apis/{group}"));
            listed.push(described);
        }
        paths.sort();
        discovery.aggregated_groups = Aggregated::of(aggregated);
        discovery.groups =
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}).to_string().into();
        discovery.paths = json!({"paths": paths}).to_string().into();
        discovery
    }

    /// `/api`.
    pub(crate) fn core(&self, headers: &HeaderMap) -> Response<Body> {
        if wants_aggregated_discovery(headers) {
            return self.aggregated_core.answer(headers);
        }
        let versions = json!({"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"], "serverAddressByClientCIDRs": []});
        answer_json(StatusCode::OK, versions.to_string())
    }

    /// `/apis`.
    pub(crate) fn groups(&self, headers: &HeaderMap) -> Response<Body> {
        match wants_aggregated_discovery(headers) {
            true => self.aggregated_groups.answer(headers),
            false => answer_json(StatusCode::OK, self.groups.clone()),
        }
    }

    /// `/apis/GROUP`.
    pub(crate) fn group(&self, group: &str) -> Option<Response<Body>> {
        self.by_group.get(group).map(|body| answer_json(StatusCode::OK, body.clone()))
    }

    /// `/api/v1` and `/apis/GROUP/VERSION`.
    pub(crate) fn version(&self, group: &str, version: &str) -> Option<Response<Body>> {
        let body = self.by_version.get(&(group.to_owned(), version.to_owned()))?;
        Some(answer_json(StatusCode::OK, body.clone()))
    }

    /// `/`.
    pub(crate) fn paths(&self) -> Bytes {
        self.paths.clone()
    }
}

/// The versions of a group, the preferred one first.
fn versions_of(rows: &[&Resource]) -> Vec<String> {
    let mut versions: Vec<String> = vec![];
    for version in rows.iter().flat_map(|row| &row.versions) {
        if !versions.contains(&version.name) {
            versions.push(version.name.clone());
        }
    }
    versions
}

fn group_of(group: &str, versions: &[String]) -> Value {
    let entry = |version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    json!({
        "name": group,
        "versions": versions.iter().map(entry).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(entry),
    })
}

/// What can be done to a resource.
fn verbs(row: &Resource) -> &'static [&'static str] {
    match row.is_stored() {
        true if !row.deletes_collections => &["create", "delete", "get", "list", "patch", "update", "watch"],
        true => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        false => &["create"],
    }
}

/// One subresource: its name, the kind it takes, and what can be done with it.
struct Sub {
    name: &'static str,
    group: String,
    version: String,
    kind: String,
    verbs: &'static [&'static str],
}

fn subresources(row: &Resource, version: &Version) -> Vec<Sub> {
    let own = |name, verbs| Sub {
        name,
        group: row.group.clone(),
        version: version.name.clone(),
        kind: row.kind.clone(),
        verbs,
    };
    let other = |name, group: &str, version: &str, kind: &str, verbs| Sub {
        name,
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs,
    };
    let mut subs: Vec<Sub> =
        row.parts.iter().map(|part| own(part.name, &["get", "patch", "update"])).collect();
    if row.scale.is_some() {
        subs.push(other("scale", "autoscaling", "v1", "Scale", &["get", "patch", "update"]));
    }
    for (name, action) in &row.actions {
        subs.push(match action {
            Action::Bind => other(name, "", "v1", "Binding", &["create"]),
            Action::Evict => other(name, "policy", "v1", "Eviction", &["create"]),
            Action::Token => other(name, "authentication.k8s.io", "v1", "TokenRequest", &["create"]),
            Action::Kubelet if *name == "log" => own(name, &["get"]),
            Action::Kubelet if *name == "proxy" => other(
                name,
                "",
                "v1",
                &format!("{}ProxyOptions", row.kind),
                &["create", "delete", "get", "patch", "update"],
            ),
            Action::Kubelet => {
                let kind = match *name {
                    "exec" => "PodExecOptions",
                    "attach" => "PodAttachOptions",
                    _ => "PodPortForwardOptions",
                };
                other(name, "", "v1", kind, &["create", "get"])
            }
        });
    }
    subs.sort_by_key(|sub| sub.name);
    subs
}

fn resource_list(group: &str, version: &str, rows: &[&Resource]) -> Value {
    let mut resources = vec![];
    for row in rows {
        let Some(own) = row.version(version) else { continue };
        let mut entry = json!({
            "name": row.plural,
            "singularName": row.singular,
            "namespaced": row.namespaced,
            "kind": row.kind,
            "verbs": verbs(row),
        });
        if !row.short_names.is_empty() {
            entry["shortNames"] = json!(row.short_names);
        }
        if !row.categories.is_empty() {
            entry["categories"] = json!(row.categories);
        }
        if row.is_stored() {
            entry["storageVersionHash"] = storage_hash(row).into();
        }
        resources.push(entry);
        for sub in subresources(row, own) {
            let mut entry = json!({
                "name": format!("{}/{}", row.plural, sub.name),
                "singularName": "",
                "namespaced": row.namespaced,
                "kind": sub.kind,
                "verbs": sub.verbs,
            });
            if (sub.group.as_str(), sub.version.as_str()) != (group, version) {
                entry["group"] = sub.group.into();
                entry["version"] = sub.version.into();
            }
            resources.push(entry);
        }
    }
    resources.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}

fn storage_hash(row: &Resource) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let text = format!("{}/{}/{}", row.group, row.stored_as, row.kind);
    STANDARD.encode(xxhash_rust::xxh3::xxh3_64(text.as_bytes()).to_be_bytes())
}

fn aggregated_group(group: &str, versions: &[String], rows: &[&Resource]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let mut resources: Vec<Value> = rows
                .iter()
                .filter_map(|row| Some(aggregated_resource(group, row, row.version(version)?)))
                .collect();
            resources.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
            json!({"version": version, "freshness": "Current", "resources": resources})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(group: &str, row: &Resource, version: &Version) -> Value {
    let scope = if row.namespaced { "Namespaced" } else { "Cluster" };
    let mut entry = json!({
        "resource": row.plural,
        "responseKind": {"group": group, "version": version.name, "kind": row.kind},
        "scope": scope,
        "singularResource": row.singular,
        "verbs": verbs(row),
    });
    if !row.short_names.is_empty() {
        entry["shortNames"] = json!(row.short_names);
    }
    if !row.categories.is_empty() {
        entry["categories"] = json!(row.categories);
    }
    let subs: Vec<Value> = subresources(row, version)
        .into_iter()
        .map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
                "verbs": sub.verbs,
            })
        })
        .collect();
    if !subs.is_empty() {
        entry["subresources"] = Value::Array(subs);
    }
    entry
}
