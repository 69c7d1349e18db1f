//! The roles that every server has, and roles that are made of others: both are kept as they should be.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use serde_json::Value;
use windlass_access::rbac::{GROUP, aggregate, bootstrap};
use windlass_machinery::object::{self, Object, list_at};
use windlass_store::{Delivery, Read, ReadError};

use crate::{
    ApiServer, StartError,
    registry::{DeleteOptions, Written},
    resources::Resource,
    startup::{author, itself, keep_following},
    status::{Outcome, Status},
};

/// Writes at once when the first server on a store begins: enough to share syncs of the disk.
const AT_ONCE: usize = 32;

/// Brings the roles and bindings that every server has into the store, and follows the roles that others are made of.
pub(crate) async fn start(server: &Arc<ApiServer>) -> Result<(), StartError> {
    let failed =
        |what: String| move |status: Box<Status>| StartError::Bootstrap { what, why: status.to_string() };
    let view = server.registry.view().await.map_err(failed("roles".to_owned()))?;
    let work = bootstrap::all().into_iter().map(|built_in| {
        let name = object::name(&built_in.object).to_owned();
        let present = view.get(GROUP, built_in.plural, built_in.namespace, &name);
        let what = format!("{}/{name}", built_in.plural);
        async move { keep(server, built_in, present.map(|(object, _)| object)).await.map_err(failed(what)) }
    });
    let mut work = stream::iter(work.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
    while let Some(done) = work.next().await {
        done?;
    }
    settle(server).await.map_err(failed("aggregated roles".to_owned()))?;
    keep_following(server, "cluster roles", |server| async move { follow(&server).await });
    Ok(())
}

async fn keep(server: &ApiServer, built_in: bootstrap::BuiltIn, present: Option<Object>) -> Outcome<()> {
    let bootstrap::BuiltIn { plural, namespace, object: wanted } = built_in;
    let name = object::name(&wanted).to_owned();
    let repair = match &present {
        None => return create(server, plural, namespace, wanted).await,
        Some(present) => bootstrap::repair(present, &wanted),
    };
    match repair {
        bootstrap::Repair::Nothing => Ok(()),
        bootstrap::Repair::Update(_) => {
            let change = |present: &Object| match bootstrap::repair(present, &wanted) {
                bootstrap::Repair::Update(new) => Ok(new),
                _ => Ok(present.clone()),
            };
            update(server, plural, namespace, &name, &change).await
        }
        bootstrap::Repair::Replace => {
            delete(server, plural, namespace, &name).await?;
            create(server, plural, namespace, wanted).await
        }
    }
}

fn row(server: &ApiServer, plural: &str) -> Outcome<Arc<Resource>> {
    server.registry.catalog.load().get(GROUP, plural).cloned().ok_or_else(Status::no_such_path)
}

/// Another server on the same store may be faster.
fn even_if_late(outcome: Outcome<Written>) -> Outcome<()> {
    match outcome {
        Err(status) if status.reason != "AlreadyExists" && status.code != 404 => Err(status),
        _ => Ok(()),
    }
}

async fn create(server: &ApiServer, plural: &str, namespace: &str, mut wanted: Object) -> Outcome<()> {
    let (row, user) = (row(server, plural)?, itself());
    wanted.insert("apiVersion".to_owned(), row.stored_as.as_str().into());
    wanted.insert("kind".to_owned(), row.kind.as_str().into());
    even_if_late(server.registry.create(&row, namespace, wanted, &mut author(&user, &row)).await)
}

async fn update(
    server: &ApiServer,
    plural: &str,
    namespace: &str,
    name: &str,
    change: &(dyn Fn(&Object) -> Outcome<Object> + Send + Sync),
) -> Outcome<()> {
    let (row, user) = (row(server, plural)?, itself());
    let mut author = author(&user, &row);
    even_if_late(server.registry.update(&row, namespace, name, None, change, &mut author).await)
}

async fn delete(server: &ApiServer, plural: &str, namespace: &str, name: &str) -> Outcome<()> {
    let (row, user) = (row(server, plural)?, itself());
    let options = DeleteOptions::default();
    even_if_late(server.registry.delete(&row, namespace, name, &options, &mut author(&user, &row)).await)
}

/// How often roles that are made of roles that are made of others are made anew, at most. Those that go in circles only
/// ever gain, and end sooner.
const ROUNDS: usize = 32;

/// Makes the roles that are made of others what they should be.
async fn settle(server: &ApiServer) -> Outcome<()> {
    for _ in 0..ROUNDS {
        let view = server.registry.view().await?;
        let all: Vec<Object> =
            view.list(GROUP, "clusterroles", "").into_iter().map(|(role, _)| role).collect();
        let mut settled = true;
        for role in &all {
            let Some(rules) = aggregate(role, &all) else { continue };
            if list_at(role, &["rules"]) == rules.as_slice() {
                continue;
            }
            settled = false;
            let change = |present: &Object| {
                let mut new = present.clone();
                if aggregate(present, &[]).is_some() {
                    new.insert("rules".to_owned(), Value::Array(rules.clone()));
                }
                Ok(new)
            };
            update(server, "clusterroles", "", object::name(role), &change).await?;
        }
        if settled {
            break;
        }
    }
    Ok(())
}

/// Makes them anew whenever a cluster role changes.
async fn follow(server: &ApiServer) -> Result<(), ReadError> {
    let store = &server.registry.store;
    let after = store.snapshot(Read::Seen).await?.revision();
    let mut watch = store.watch(b"clusterroles/", after).await?;
    loop {
        if let Err(status) = settle(server).await {
            tracing::warn!(%status, "roles that are made of others could not be written");
        }
        while !matches!(watch.next().await?, Delivery::Changes(_)) {}
    }
}
