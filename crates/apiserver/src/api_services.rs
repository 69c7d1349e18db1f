//! Local APIServices: one object for each group and version that the server serves.
//!
//! Those of built-in groups are brought into order when the server begins, those of custom resources whenever a
//! definition comes, changes or goes, as Kubernetes does it; a label says which are which. What people have created
//! themselves is left alone. Start at [`start`].

use std::{collections::BTreeMap, sync::Arc};

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use windlass_machinery::object::{self, Object, str_at};
use windlass_store::{Delivery, Read, ReadError};

use crate::{
    ApiServer, StartError,
    admission::View,
    registry::DeleteOptions,
    resources::Resource,
    startup::{author, itself, keep_following},
    status::{Outcome, Status},
};

/// The built-in groups in the order in which they are listed, with their priorities as Kubernetes has them. The group of
/// the APIServices themselves has none.
pub(crate) const GROUPS: &[(&str, i64)] = &[
    ("apiregistration.k8s.io", 0),
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("admissionregistration.k8s.io", 16_700),
    ("apiextensions.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("storagemigration.k8s.io", 15_800),
];

/// Versions whose priority in their group is another than that of most.
const VERSIONS: &[(&str, &str, i64)] = &[
    ("", "v1", 1),
    ("apiextensions.k8s.io", "v1beta1", 9),
    ("autoscaling", "v2", 30),
    ("flowcontrol.apiserver.k8s.io", "v1", 21),
    ("resource.k8s.io", "v1", 21),
];
const MOST_VERSIONS: i64 = 15;

/// What groups and versions of custom resources have.
const CUSTOM: (i64, i64) = (1000, 100);

/// Says that the server keeps an object, and when.
const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
const ON_START: &str = "onstart";
const ALWAYS: &str = "true";

const GROUP: &str = "apiregistration.k8s.io";
const PLURAL: &str = "apiservices";

/// Writes at once when the first server on a store begins: enough to share syncs of the disk.
const AT_ONCE: usize = 32;

/// Objects that should be there, by name.
type Wanted = BTreeMap<String, Object>;

/// Brings the APIServices into order, and follows the definitions of custom resources.
pub(crate) async fn start(server: &Arc<ApiServer>) -> Result<(), StartError> {
    let failed =
        |status: Box<Status>| StartError::Bootstrap { what: PLURAL.to_owned(), why: status.to_string() };
    let mut wanted = built_in(server);
    wanted.extend(custom(server));
    settle(server, &wanted, &[ON_START, ALWAYS]).await.map_err(failed)?;
    keep_following(server, "API services", |server| async move { follow(&server).await });
    Ok(())
}

/// Brings those of custom resources into order whenever a definition or an APIService changes.
async fn follow(server: &ApiServer) -> Result<(), ReadError> {
    let store = &server.registry.store;
    let mut definitions = server.definitions.changes();
    let after = store.snapshot(Read::Seen).await?.revision();
    let prefix = server.registry.catalog.load().get(GROUP, PLURAL).map(|row| row.prefix.clone());
    let mut watch = store.watch(prefix.unwrap_or_default().as_bytes(), after).await?;
    loop {
        if let Err(status) = settle(server, &custom(server), &[ALWAYS]).await {
            tracing::warn!(%status, "API services of custom resources could not be written");
        }
        loop {
            tokio::select! {
                delivery = watch.next() => if matches!(delivery?, Delivery::Changes(_)) { break },
                _ = definitions.changed() => break,
            }
        }
    }
}

/// Those of the groups that are built in.
fn built_in(server: &ApiServer) -> Wanted {
    let catalog = server.registry.catalog.load_full();
    let rows = catalog.all().filter(|row| row.custom().is_none());
    let versions =
        rows.flat_map(|row| row.versions.iter().map(|version| (row.group.clone(), version.name.clone())));
    let services = versions.filter_map(|(group, version)| {
        let (_, priority) = GROUPS.iter().find(|(own, priority)| *own == group && *priority > 0)?;
        let own = VERSIONS.iter().find(|(of, own, _)| *of == group && *own == version);
        let priorities = (*priority, own.map_or(MOST_VERSIONS, |(_, _, priority)| *priority));
        Some(service(&group, &version, priorities, ON_START))
    });
    services.collect()
}

/// Those of the groups and versions of custom resources.
fn custom(server: &ApiServer) -> Wanted {
    let versions = server.definitions.served_versions();
    versions.iter().map(|(group, version)| service(group, version, CUSTOM, ALWAYS)).collect()
}

fn service(
    group: &str,
    version: &str,
    (group_priority, priority): (i64, i64),
    kept: &str,
) -> (String, Object) {
    let name = format!("{version}.{group}");
    let mut spec = json!({
        "version": version, "groupPriorityMinimum": group_priority, "versionPriority": priority,
    });
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    let object = Object::from_iter([
        ("metadata".to_owned(), json!({"name": name, "labels": {LABEL: kept}})),
        ("spec".to_owned(), spec),
    ]);
    (name, object)
}

/// Creates what is missing, and changes and deletes what is kept in one of these ways and not as it should be.
async fn settle(server: &ApiServer, wanted: &Wanted, kept: &[&str]) -> Outcome<()> {
    let view = server.registry.view().await?;
    let Some(row) = view.catalog.get(GROUP, PLURAL).cloned() else { return Ok(()) };
    let mut missing = wanted.clone();
    let mut work = vec![];
    for (present, _) in view.list(GROUP, PLURAL, "") {
        let name = object::name(&present).to_owned();
        missing.remove(&name);
        if !str_at(&present, &["metadata", "labels", LABEL]).is_some_and(|label| kept.contains(&label)) {
            continue;
        }
        match wanted.get(&name) {
            Some(wanted) if wanted.get("spec") == present.get("spec") => {}
            Some(wanted) => work.push(Step::Change(name, wanted.get("spec").cloned().unwrap_or_default())),
            // This server may not have heard yet of what is served.
            None if is_defined(server, &view, &present) => {}
            None => work.push(Step::Delete(name)),
        }
    }
    let is_gone = |service: &Object| is_kept_always(service) && !is_defined(server, &view, service);
    work.extend(missing.into_values().filter(|service| !is_gone(service)).map(Step::Create));
    let mut work =
        stream::iter(work.into_iter().map(|step| step.take(server, &row))).buffer_unordered(AT_ONCE);
    while let Some(done) = work.next().await {
        match done {
            // Another server on the same store may be faster.
            Err(status) if status.reason != "AlreadyExists" && status.code != 404 => return Err(status),
            _ => {}
        }
    }
    Ok(())
}

fn is_kept_always(service: &Object) -> bool {
    str_at(service, &["metadata", "labels", LABEL]) == Some(ALWAYS)
}

/// Whether the group and version of an APIService are served as a definition in the store says.
fn is_defined(server: &ApiServer, view: &View, service: &Object) -> bool {
    let spec = |field: &str| str_at(service, &["spec", field]).unwrap_or_default();
    server.definitions.is_served_at(&view.snapshot, spec("group"), spec("version"))
}

/// One thing to do.
enum Step {
    Create(Object),
    Change(String, Value),
    Delete(String),
}

impl Step {
    async fn take(self, server: &ApiServer, row: &Arc<Resource>) -> Outcome<()> {
        let (user, registry) = (itself(), &server.registry);
        let mut author = author(&user, row);
        match self {
            Step::Create(mut service) => {
                service.insert("apiVersion".to_owned(), row.stored_as.as_str().into());
                service.insert("kind".to_owned(), row.kind.as_str().into());
                registry.create(row, "", service, &mut author).await?;
            }
            Step::Change(name, spec) => {
                let change = |present: &Object| {
                    let mut new = present.clone();
                    new.insert("spec".to_owned(), spec.clone());
                    Ok(new)
                };
                registry.update(row, "", &name, None, &change, &mut author).await?;
            }
            Step::Delete(name) => {
                registry.delete(row, "", &name, &DeleteOptions::default(), &mut author).await?;
            }
        }
        Ok(())
    }
}
