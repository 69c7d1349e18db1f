//! Discovery: which groups, versions and resources are served, in both forms.
//!
//! What is said about a group is made from its rows when somebody asks, and kept until the group changes; what is said
//! about all of them is put together from that.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    api_services::GROUPS,
    http::{Body, wants_aggregated_discovery},
    resources::{Action, Catalog, Group, Resource, Version},
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
    fn of(groups: &[Arc<Described>]) -> Self {
        let items: Vec<&str> = groups.iter().map(|group| group.aggregated()).collect();
        let body = Bytes::from(format!(
            "{{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{{}},\"items\":[{}]}}",
            items.join(",")
        ));
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

/// What discovery answers, made when it is first asked for and kept for as long as the rows it was made of are served.
#[derive(Default)]
pub(crate) struct Discovery(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_group: HashMap<String, Arc<Described>>,
    all: Option<(Arc<Catalog>, Arc<Everything>)>,
}

/// What is said about one group. Clients ask for one of the forms that name every resource, so each is made by itself.
struct Described {
    name: String,
    group: Arc<Group>,
    /// Its entry in the list of groups.
    listed: String,
    /// Its entry in the aggregated form.
    aggregated: OnceLock<String>,
    /// `/apis/GROUP`.
    alone: Bytes,
    /// `/apis/GROUP/VERSION`.
    by_version: Vec<(String, OnceLock<Bytes>)>,
    paths: Vec<String>,
}

/// What is said about all groups.
struct Everything {
    aggregated_core: Aggregated,
    aggregated_groups: Aggregated,
    groups: Bytes,
    paths: Bytes,
}

/// Paths that are there whatever is served.
const PATHS: &[&str] = &[
    "/.well-known/openid-configuration",
    "/api",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
];

impl Kept {
    fn group(&mut self, name: &str, group: &Arc<Group>) -> Arc<Described> {
        if let Some(described) = self.by_group.get(name).filter(|own| Arc::ptr_eq(&own.group, group)) {
            return Arc::clone(described);
        }
        let described = Arc::new(Described::of(name, group));
        self.by_group.insert(name.to_owned(), Arc::clone(&described));
        described
    }

    fn all(&mut self, catalog: &Arc<Catalog>) -> Arc<Everything> {
        if let Some((_, all)) = self.all.as_ref().filter(|(own, _)| Arc::ptr_eq(own, catalog)) {
            return Arc::clone(all);
        }
        self.by_group.retain(|name, _| catalog.group(name).is_some());
        let mut groups: Vec<(usize, &str, &Arc<Group>)> = catalog
            .groups()
            .map(|(name, group)| {
                let place = GROUPS.iter().position(|(first, _)| *first == name).unwrap_or(GROUPS.len());
                (place, name, group)
            })
            .collect();
        groups.sort_by_key(|(place, name, _)| (*place, *name));
        let (mut core, mut listed, mut aggregated) = (vec![], vec![], vec![]);
        let mut paths: Vec<String> = PATHS.iter().map(ToString::to_string).collect();
        for (_, name, group) in groups {
            let described = self.group(name, group);
            paths.extend(described.paths.iter().cloned());
            match name.is_empty() {
                true => core.push(described),
                false => {
                    listed.push(described.listed.clone());
                    aggregated.push(described);
                }
            }
        }
        paths.sort();
        let listed = listed.join(",");
        let all = Arc::new(Everything {
            aggregated_core: Aggregated::of(&core),
            aggregated_groups: Aggregated::of(&aggregated),
            groups: format!("{{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[{listed}]}}")
                .into(),
            paths: json!({"paths": paths}).to_string().into(),
        });
        self.all = Some((Arc::clone(catalog), Arc::clone(&all)));
        all
    }
}

impl Described {
    fn of(name: &str, group: &Arc<Group>) -> Self {
        let versions = group.versions();
        let root = |version: &str| match name.is_empty() {
            true => format!("/api/{version}"),
            false => format!("/apis/{name}/{version}"),
        };
        let mut paths: Vec<String> = versions.iter().map(|(version, _)| root(version)).collect();
        if !name.is_empty() {
            paths.push(format!("/apis/{name}"));
        }
        let listed = group_of(name, &versions);
        let mut alone = listed.clone();
        alone["kind"] = "APIGroup".into();
        alone["apiVersion"] = "v1".into();
        let by_version = versions.iter().map(|(version, _)| ((*version).to_owned(), OnceLock::new()));
        Described {
            name: name.to_owned(),
            group: Arc::clone(group),
            listed: listed.to_string(),
            aggregated: OnceLock::new(),
            alone: alone.to_string().into(),
            by_version: by_version.collect(),
            paths,
        }
    }

    fn aggregated(&self) -> &str {
        self.aggregated.get_or_init(|| aggregated_group(&self.name, &self.group.versions()).to_string())
    }

    fn version(&self, version: &str) -> Option<Bytes> {
        let (_, body) = self.by_version.iter().find(|(own, _)| own == version)?;
        let make = || {
            let versions = self.group.versions();
            let rows = versions.iter().find(|(own, _)| *own == version).map(|(_, rows)| &rows[..]);
            resource_list(&self.name, version, rows.unwrap_or_default()).to_string().into()
        };
        Some(body.get_or_init(make).clone())
    }
}

impl Discovery {
    fn all(&self, catalog: &Arc<Catalog>) -> Arc<Everything> {
        self.0.lock().all(catalog)
    }

    /// `/api`.
    pub(crate) fn core(
        &self,
        catalog: &Arc<Catalog>,
        headers: &HeaderMap,
        address: SocketAddr,
    ) -> Response<Body> {
        if wants_aggregated_discovery(headers) {
            return self.all(catalog).aggregated_core.answer(headers);
        }
        let everyone = json!({"clientCIDR": "0.0.0.0/0", "serverAddress": address.to_string()});
        let versions = json!({
            "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [everyone],
        });
        answer_json(StatusCode::OK, versions.to_string())
    }

    /// `/apis`.
    pub(crate) fn groups(&self, catalog: &Arc<Catalog>, headers: &HeaderMap) -> Response<Body> {
        let all = self.all(catalog);
        match wants_aggregated_discovery(headers) {
            true => all.aggregated_groups.answer(headers),
            false => answer_json(StatusCode::OK, all.groups.clone()),
        }
    }

    /// `/apis/GROUP`.
    pub(crate) fn group(&self, catalog: &Catalog, name: &str) -> Option<Response<Body>> {
        let group = catalog.group(name).filter(|_| !name.is_empty())?;
        let described = self.0.lock().group(name, group);
        Some(answer_json(StatusCode::OK, described.alone.clone()))
    }

    /// `/api/v1` and `/apis/GROUP/VERSION`.
    pub(crate) fn version(&self, catalog: &Catalog, name: &str, version: &str) -> Option<Response<Body>> {
        let described = self.0.lock().group(name, catalog.group(name)?);
        Some(answer_json(StatusCode::OK, described.version(version)?))
    }

    /// `/`.
    pub(crate) fn paths(&self, catalog: &Arc<Catalog>) -> Bytes {
        self.all(catalog).paths.clone()
    }
}

/// A version and its rows.
type Rows<'a> = (&'a str, Vec<&'a Resource>);

fn group_of(group: &str, versions: &[Rows<'_>]) -> Value {
    let entry =
        |(version, _): &Rows<'_>| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    json!({
        "name": group,
        "versions": versions.iter().map(entry).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(entry),
    })
}

/// What can be done to a resource.
fn verbs(row: &Resource) -> &'static [&'static str] {
    match row.is_stored() {
        _ if row.computed => &["get", "list"],
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

fn aggregated_group(group: &str, versions: &[Rows<'_>]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, rows)| {
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
