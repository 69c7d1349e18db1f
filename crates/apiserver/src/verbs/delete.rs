//! delete and deletecollection.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use windlass_machinery::{
    field::{Errors, Fault},
    object::{Object, bool_at, int_at, list_at, str_at},
    stored::Stored,
};

use super::{author, decode, manager, object, read, rendering, success};
use crate::{
    http::{Body, Target, is_dry_run},
    registry::{Author, DeleteOptions, Propagation, Written, split_key},
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// Deletions of one collection at once: enough to share syncs of the disk.
const AT_ONCE: usize = 32;

/// One object.
pub(crate) async fn delete(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let name = target.name.as_deref().unwrap_or_default();
    let (options, dry_run) = options(call, body)?;
    let (manager, api_version) = (manager(call)?, target.resource.api_version(&target.version));
    let mut author = author(call, &manager, &api_version)?;
    author.dry_run |= dry_run;
    let done =
        server.registry.delete(&target.resource, &target.namespace, name, &options, &mut author).await?;
    let warnings = author.warnings;
    call.warnings.extend(warnings);
    if options.propagation.is_none() && target.resource.strategy.orphans && target.resource.kind == "Job" {
        call.warnings.push(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
             set propagationPolicy=Orphan to suppress this warning"
                .to_owned(),
        );
    }
    if done.removed && !target.resource.strategy.returns_deleted {
        return Ok(success(details(target, name, &done)));
    }
    object(call, target, &done.value, done.revision, StatusCode::OK)
}

fn details(target: &Target, name: &str, done: &Written) -> Value {
    let uid = Stored::new(&done.value)
        .and_then(|stored| stored.peek(&["metadata", "uid"]).map(|uid| uid.into_owned()));
    let mut details = json!({"name": name, "kind": target.resource.plural, "uid": uid.unwrap_or_default()});
    if !target.resource.group.is_empty() {
        details["group"] = target.resource.group.as_str().into();
    }
    details
}

/// All objects that a list would give.
pub(crate) async fn delete_collection(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let resource = &target.resource;
    if !resource.deletes_collections || (resource.namespaced && target.namespace.is_empty()) {
        return Err(Status::method_not_allowed());
    }
    let (options, dry_run) = options(call, body)?;
    let (manager, api_version) = (manager(call)?, target.resource.api_version(&target.version));
    let dry_run = dry_run || super::dry_run(call)?;
    let listing = server.registry.list(&target.resource, read::list_options(call, target)?).await?;
    let (deleted, rendering) = (listing.clone(), rendering(call, target)?);
    let resource = Arc::clone(&target.resource);
    let (user, notes) = (Arc::clone(&call.user), call.notes());
    let (options, manager, api_version) = (&options, &manager, &api_version);
    let entries =
        stream::unfold(listing, |mut listing| async move { Some((listing.next().await?, listing)) });
    let deletions = entries.map(|entry| {
        let (resource, user) = (Arc::clone(&resource), Arc::clone(&user));
        async move {
            let (namespace, name) = split_key(&resource, &entry.key);
            let (namespace, name) = (String::from_utf8_lossy(namespace), String::from_utf8_lossy(name));
            let (applies, through, warnings) = (false, "", vec![]);
            let mut author =
                Author { user: &user, manager, api_version, applies, dry_run, through, notes, warnings };
            match server.registry.delete(&resource, &namespace, &name, options, &mut author).await {
                // Someone else was faster, which is just as well.
                Err(status) if status.code == 404 => Ok(()),
                outcome => outcome.map(drop),
            }
        }
    });
    let mut deletions = std::pin::pin!(deletions.buffer_unordered(AT_ONCE));
    let mut failed = None;
    while let Some(outcome) = deletions.next().await {
        failed = failed.or(outcome.err());
    }
    match failed {
        Some(status) => Err(status),
        None => Ok(read::send(call, deleted, rendering).await),
    }
}

/// How to delete: from the body, or from the query where there is none.
fn options(call: &mut Call, body: &Bytes) -> Outcome<(DeleteOptions, bool)> {
    let mut given = match body.is_empty() {
        true => Object::new(),
        false => decode::extra(call, body, &decode::DELETE_OPTIONS)?,
    };
    if body.is_empty() {
        if let Some(grace) = call.query.int("gracePeriodSeconds")? {
            given.insert("gracePeriodSeconds".to_owned(), grace.into());
        }
        if call.query.has("propagationPolicy") {
            given.insert("propagationPolicy".to_owned(), call.query.get("propagationPolicy").into());
        }
        if call.query.has("orphanDependents") {
            given.insert("orphanDependents".to_owned(), call.query.flag("orphanDependents").into());
        }
    }
    let mut errors = Errors::new();
    let propagation = match (str_at(&given, &["propagationPolicy"]), bool_at(&given, &["orphanDependents"])) {
        (Some(policy), Some(_)) => {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(Fault::Invalid, "propagationPolicy", format!("{policy:?}"), why);
            None
        }
        (Some("Orphan"), _) | (_, Some(true)) => Some(Propagation::Orphan),
        (Some("Background"), _) | (_, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (None | Some(""), None) => None,
        (Some(other), None) => {
            errors.not_supported("propagationPolicy", other, &["Foreground", "Background", "Orphan"]);
            None
        }
    };
    let dry_runs = list_at(&given, &["dryRun"]).iter().filter_map(Value::as_str);
    let dry_run = is_dry_run(dry_runs, &mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid_options("DeleteOptions", &errors));
    }
    // As Kubernetes has it, what is negative means at once, but not by force.
    let grace = int_at(&given, &["gracePeriodSeconds"]).map(|grace| if grace < 0 { 1 } else { grace });
    let text = |field: &str| str_at(&given, &["preconditions", field]).map(str::to_owned);
    let options = DeleteOptions { grace, propagation, uid: text("uid"), revision: text("resourceVersion") };
    Ok((options, dry_run))
}
