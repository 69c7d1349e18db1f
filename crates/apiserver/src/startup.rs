//! What the server does on its own: the objects it begins with, and the expiry of events.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_access::{MASTERS, User};
use windlass_machinery::{
    object::{Object, list_at, str_at},
    stored::Stored,
    time,
};
use windlass_store::{Delivery, Entry, Expect, Read, ReadError, Revision, Snapshot, Txn};

use crate::{ApiServer, StartError, registry::Author, resources::Resource};

/// The name of the server itself as a user.
pub(crate) const ITSELF: &str = "system:apiserver";

/// How long it takes until what broke off begins anew.
const AGAIN: Duration = Duration::from_secs(1);

/// Who the server itself is, to admission and in managed fields.
pub(crate) fn itself() -> User {
    User::new(ITSELF, vec![MASTERS.to_owned()])
}

/// Creates the objects that every server has, unless they are there.
pub(crate) async fn bootstrap(server: &Arc<ApiServer>) -> Result<(), StartError> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        ensure(server, "", "namespaces", "", json!({"metadata": {"name": name}})).await?;
    }
    for (name, value, about) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        let class = json!({"metadata": {"name": name}, "value": value, "description": about});
        ensure(server, "scheduling.k8s.io", "priorityclasses", "", class).await?;
    }
    service(server).await
}

/// The service by which the API server is found.
async fn service(server: &Arc<ApiServer>) -> Result<(), StartError> {
    let config = &server.config;
    let Some(first) = config.service_cidrs.first() else { return Ok(()) };
    let cidrs: Vec<String> = config.service_cidrs.iter().map(ToString::to_string).collect();
    let cidr = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": cidrs}});
    ensure(server, "networking.k8s.io", "servicecidrs", "", cidr).await?;
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let address = first.hosts().next().map(|address| address.to_string()).unwrap_or_default();
    let service = json!({
        "metadata": {"name": "kubernetes", "labels": labels},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "sessionAffinity": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": config.advertise.port()}],
        },
    });
    ensure(server, "", "services", "default", service).await?;
    // Slices must not name a loopback address: where that is all there is, nobody else can reach it anyway.
    if config.advertise.ip().is_loopback() || config.advertise.ip().is_unspecified() {
        return Ok(());
    }
    let (ip, port) = (config.advertise.ip(), config.advertise.port());
    let kind = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let slice = json!({
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": kind,
        "endpoints": [{"addresses": [ip.to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "protocol": "TCP", "port": port}],
    });
    ensure(server, "discovery.k8s.io", "endpointslices", "default", slice).await?;
    let endpoints = json!({
        "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": ip.to_string()}], "ports": [{"name": "https", "protocol": "TCP", "port": port}]}],
    });
    ensure(server, "", "endpoints", "default", endpoints).await
}

/// The server itself as the author of an object.
pub(crate) fn author<'a>(user: &'a User, resource: &'a Resource) -> Author<'a> {
    Author {
        user,
        manager: "windlass",
        api_version: &resource.stored_as,
        applies: false,
        dry_run: false,
        through: "",
        notes: None,
        warnings: vec![],
    }
}

/// Creates an object unless it is there.
pub(crate) async fn ensure(
    server: &Arc<ApiServer>,
    group: &str,
    plural: &str,
    namespace: &str,
    object: Value,
) -> Result<(), StartError> {
    let Value::Object(mut object) = object else { return Ok(()) };
    let catalog = server.registry.catalog.load_full();
    let Some(resource) = catalog.get(group, plural) else { return Ok(()) };
    let name = str_at(&object, &["metadata", "name"]).unwrap_or_default().to_owned();
    let fail = |why: &dyn std::fmt::Display| StartError::Bootstrap {
        what: format!("{plural}/{name}"),
        why: why.to_string(),
    };
    let view = server.registry.view().await.map_err(|status| fail(&status))?;
    if view.has(group, plural, namespace, &name) {
        return Ok(());
    }
    object.insert("apiVersion".to_owned(), resource.stored_as.as_str().into());
    object.insert("kind".to_owned(), resource.kind.as_str().into());
    let user = itself();
    let mut author = author(&user, resource);
    match server.registry.create(resource, namespace, object, &mut author).await {
        Ok(_) => Ok(()),
        // Another server on the same store was faster.
        Err(status) if status.reason == "AlreadyExists" => Ok(()),
        Err(status) => Err(fail(&status)),
    }
}

/// Deletes events that nobody has written to for a while. They come due in the order they were written, so
/// the cost does not grow with the number of events that are not due.
pub(crate) fn expire_events(server: &Arc<ApiServer>) {
    keep_following(server, "events", |server| async move { follow_events(&server).await });
}

/// Follows something for as long as the server runs: what broke off begins anew.
pub(crate) fn keep_following<F>(
    server: &Arc<ApiServer>,
    what: &'static str,
    follow: impl Fn(Arc<ApiServer>) -> F + Send + Sync + 'static,
) where
    F: Future<Output = Result<(), ReadError>> + Send,
{
    let (server, mut draining) = (Arc::clone(server), server.draining());
    tokio::spawn(async move {
        let work = async {
            loop {
                if let Err(error) = follow(Arc::clone(&server)).await {
                    tracing::debug!(%error, what, "a watch of the server itself broke off and begins anew");
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::select! {
            _ = draining.wait_for(|draining| *draining) => {}
            () = work => {}
        }
    });
}

/// An event, when it is to go.
struct Due {
    at: Instant,
    key: Vec<u8>,
    revision: Revision,
}

/// Follows the events until the watch breaks.
async fn follow_events(server: &ApiServer) -> Result<(), ReadError> {
    let ttl = server.config.event_ttl;
    let store = &server.registry.store;
    let Some(prefix) = server.registry.catalog.load().get("", "events").map(|row| row.prefix.clone()) else {
        return Ok(());
    };
    let snapshot = store.snapshot(Read::Seen).await?;
    let mut watch = store.watch(prefix.as_bytes(), snapshot.revision()).await?;
    let mut queue = waiting(&snapshot, &prefix, ttl);
    drop(snapshot);
    loop {
        let next = queue.front().map_or_else(|| Instant::now() + ttl, |due| due.at);
        match tokio::time::timeout_at(next, watch.next()).await {
            Ok(Ok(Delivery::Changes(changes))) => {
                let at = Instant::now() + ttl;
                let written = changes.iter().filter(|change| change.current.is_some());
                queue.extend(written.map(|change| Due {
                    at,
                    key: change.key.to_vec(),
                    revision: change.revision,
                }));
            }
            Ok(Ok(Delivery::Progress(_))) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                if let Some(Due { key, revision, .. }) = queue.pop_front() {
                    // Refused when someone has written to it since, which is as it should be.
                    let _ = store.commit(Txn::new().delete(key, Expect::At(revision))).await;
                }
            }
        }
    }
}

/// The events that are there, in the order in which they are to go.
fn waiting(snapshot: &Snapshot, prefix: &str, ttl: Duration) -> VecDeque<Due> {
    let (now, wall) = (Instant::now(), Timestamp::now());
    let entries = snapshot.iter(prefix.as_bytes(), None);
    let mut queue: Vec<Due> = entries
        .map(|entry| {
            let age = last_write(entry)
                .map_or(Duration::ZERO, |at| wall.duration_since(at).try_into().unwrap_or_default());
            Due { at: now + ttl.saturating_sub(age), key: entry.key.to_vec(), revision: entry.revision }
        })
        .collect();
    queue.sort_by_key(|due| due.at);
    queue.into()
}

fn last_write(entry: &Entry) -> Option<Timestamp> {
    let object: Object = Stored::new(&entry.value)?.object(entry.revision.get())?;
    let managed = list_at(&object, &["metadata", "managedFields"]);
    let times = managed.iter().filter_map(|entry| entry.get("time")?.as_str());
    let times = times.chain(str_at(&object, &["metadata", "creationTimestamp"]));
    times.filter_map(time::parse).max()
}
