//! Keeps the levels and schemas that every server has, and hears of changes.
//!
//! At the start, what is missing is created, and what carries the annotation that allows it is brought back to what it
//! should be. Then the server follows the objects in the store, goes by them, and says of every schema whether its
//! level exists.

use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_machinery::{
    apply::{Request, apply},
    managed::{self, Write},
    object::{Object, int_at, list_at, metadata_mut, name, str_at},
    time,
};
use windlass_store::{Delivery, Read, ReadError};

use super::objects::{self, GROUP, Given, LEVELS, SCHEMAS};
use crate::{
    ApiServer, StartError,
    crd::{Condition, condition, set_condition},
    registry::{Served, parse},
    resources::Resource,
    startup,
    status::{Outcome, Status},
};

/// Whether the server may bring an object back to what it should be.
const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// Under which name Kubernetes says whether the level of a schema exists.
const CONFIG_CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Creates what is missing, goes by what is there, and follows it from then on.
pub(crate) async fn start(server: &Arc<ApiServer>) -> Result<(), StartError> {
    let (levels, schemas) = (objects::levels(), objects::schemas());
    let levels = levels.iter().map(|given| keep(server, LEVELS, given));
    let schemas = schemas.iter().map(|given| keep(server, SCHEMAS, given));
    try_join_all(levels).await?;
    try_join_all(schemas).await?;
    server.fairness.refresh(&server.registry).await;
    tell(server).await;
    startup::keep_following(server, "flow schemas", |server| async move { follow(&server).await });
    Ok(())
}

async fn keep(server: &Arc<ApiServer>, plural: &str, given: &Given) -> Result<(), StartError> {
    let annotations = json!({AUTOUPDATE: "true"});
    let object = json!({"metadata": {"name": given.name, "annotations": annotations}, "spec": given.spec});
    startup::ensure(server, GROUP, plural, "", object).await?;
    let catalog = server.registry.catalog.load_full();
    let Some(resource) = catalog.get(GROUP, plural) else { return Ok(()) };
    restore(server, resource, given).await.map_err(|status| StartError::Bootstrap {
        what: format!("{plural}/{}", given.name),
        why: status.to_string(),
    })
}

/// Brings an object back to what it should be, where that is wanted.
async fn restore(server: &ApiServer, resource: &Resource, given: &Given) -> Outcome<()> {
    let entry = server.registry.get(resource, "", given.name, None).await?;
    if !differs(resource, &parse(&entry)?, given) {
        return Ok(());
    }
    let user = startup::itself();
    let change = |object: &Object| {
        let mut object = object.clone();
        if differs(resource, &object, given) {
            object.insert("spec".to_owned(), given.spec.clone());
            let annotations = metadata_mut(&mut object).entry("annotations").or_insert_with(|| json!({}));
            annotations[AUTOUPDATE] = "true".into();
        }
        Ok(object)
    };
    let mut author = startup::author(&user, resource);
    server.registry.update(resource, "", given.name, None, &change, &mut author).await?;
    Ok(())
}

/// Whether an object is not what it should be, and may be changed.
fn differs(resource: &Resource, object: &Object, given: &Given) -> bool {
    let is_ours = match str_at(object, &["metadata", "annotations", AUTOUPDATE]) {
        _ if given.is_mandatory => true,
        Some(allows) => allows == "true",
        // Nobody has touched it.
        None => int_at(object, &["metadata", "generation"]) == Some(1),
    };
    let mut wanted = Object::from_iter([("spec".to_owned(), given.spec.clone())]);
    resource.canonicalize_stored(&mut wanted);
    is_ours && object.get("spec") != wanted.get("spec")
}

/// Follows the objects until a watch breaks.
async fn follow(server: &Arc<ApiServer>) -> Result<(), ReadError> {
    let store = &server.registry.store;
    let catalog = server.registry.catalog.load_full();
    let (Some(levels), Some(schemas)) = (catalog.get(GROUP, LEVELS), catalog.get(GROUP, SCHEMAS)) else {
        return Ok(());
    };
    let snapshot = store.snapshot(Read::Seen).await?;
    let mut levels = store.watch(levels.prefix.as_bytes(), snapshot.revision()).await?;
    let mut schemas = store.watch(schemas.prefix.as_bytes(), snapshot.revision()).await?;
    server.fairness.adopt(&snapshot, &catalog);
    drop(snapshot);
    keep_mandatory(server).await;
    tell(server).await;
    loop {
        let delivery = tokio::select! {
            delivery = levels.next() => delivery?,
            delivery = schemas.next() => delivery?,
        };
        if matches!(delivery, Delivery::Changes(_)) {
            server.fairness.refresh(&server.registry).await;
            keep_mandatory(server).await;
            tell(server).await;
        }
    }
}

/// Brings back what has to be there, should someone have deleted it.
async fn keep_mandatory(server: &Arc<ApiServer>) {
    for (plural, given) in [(LEVELS, objects::levels()), (SCHEMAS, objects::schemas())] {
        for given in given.iter().filter(|given| given.is_mandatory) {
            if let Err(error) = keep(server, plural, given).await {
                tracing::debug!(%error, "an object that has to be there could not be brought back");
            }
        }
    }
}

/// Says of every schema whether its level exists.
async fn tell(server: &ApiServer) {
    let Ok(view) = server.registry.view().await else { return };
    let Some(row) = view.catalog.get(GROUP, SCHEMAS) else { return };
    let schemas = view.snapshot.iter(row.prefix.as_bytes(), None).filter_map(|entry| parse(entry).ok());
    let wrong: Vec<(String, Condition)> = schemas
        .filter_map(|schema| {
            let level = str_at(&schema, &["spec", "priorityLevelConfiguration", "name"]).unwrap_or_default();
            let dangling = dangling(level, view.has(GROUP, LEVELS, "", level));
            (!says(&schema, &dangling)).then(|| (name(&schema).to_owned(), dangling))
        })
        .collect();
    join_all(wrong.iter().map(async |(schema, dangling)| {
        if let Err(error) = write_status(server, row, schema, dangling).await {
            tracing::debug!(schema, %error, "the status of a flow schema could not be written");
        }
    }))
    .await;
}

fn dangling(level: &str, exists: bool) -> Condition {
    let about = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    match exists {
        true => condition("Dangling", false, "Found", &format!("{about} and it exists")),
        false => condition("Dangling", true, "NotFound", &format!("{about} but there is no such object")),
    }
}

fn says(schema: &Object, condition: &Condition) -> bool {
    let said = list_at(schema, &["status", "conditions"]);
    let field = |said: &Value, field: &str| said.get(field).and_then(Value::as_str).map(str::to_owned);
    let said = said.iter().find(|said| field(said, "type").as_deref() == Some(&condition.kind));
    said.is_some_and(|said| {
        field(said, "status").as_deref() == Some(&condition.status)
            && field(said, "message").as_deref() == Some(&condition.message)
    })
}

async fn write_status(server: &ApiServer, row: &Resource, schema: &str, dangling: &Condition) -> Outcome<()> {
    let user = startup::itself();
    let now = Timestamp::now();
    let time = time::rfc3339(now);
    let catalog = server.registry.catalog.load_full();
    let write = Write {
        manager: CONFIG_CONSUMER,
        operation: managed::Operation::Apply,
        api_version: &row.handled_as,
        subresource: "status",
        time: &time,
        unowned: None,
    };
    let versions = Served { resource: row, catalog: &catalog };
    let change = |object: &Object| {
        let mut said = object.clone();
        set_condition(&mut said, dangling, now);
        let mut wanted = Object::new();
        for field in ["apiVersion", "kind", "status"] {
            wanted.extend(said.remove_entry(field));
        }
        metadata_mut(&mut wanted).insert("name".to_owned(), schema.into());
        apply(object, &wanted, &Request { write, versions: &versions, force: true }).map_err(Status::internal)
    };
    let mut author = startup::author(&user, row);
    (author.manager, author.applies) = (CONFIG_CONSUMER, true);
    server.registry.update(row, "", schema, row.part("status"), &change, &mut author).await?;
    Ok(())
}
