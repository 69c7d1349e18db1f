//! create and update.

use bytes::Bytes;
use http::Response;
use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    object::{self, Object, metadata_mut, str_at},
    stored::Stored,
};

use super::{ThroughPart, author, decode, manager, written};
use crate::{
    http::{Body, Target},
    registry::to_handled,
    resources::Resource,
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// A new object.
pub(crate) async fn create(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let mut new = decode::object(call, target, body)?;
    settle_namespace(target, &mut new)?;
    let resource = &target.resource;
    let (manager, api_version) = (manager(call)?, resource.api_version(&target.version));
    to_handled(resource, &mut new, &api_version)?;
    if object::name(&new).is_empty()
        && str_at(&new, &["metadata", "generateName"]).unwrap_or_default().is_empty()
    {
        let mut errors = Errors::new();
        errors.at("metadata", |errors| errors.required("name", "name or generateName is required"));
        return Err(Status::invalid(&resource.group, &resource.kind, "", &errors));
    }
    let mut author = author(call, &manager, &api_version)?;
    let done = server.registry.create(resource, &target.namespace, new, &mut author).await?;
    let warnings = author.warnings;
    if server.definitions.is_theirs(resource) && !author.dry_run {
        let name = Stored::new(&done.value).and_then(|stored| stored.peek(&["metadata", "name"]));
        server.definitions.caught_up(&server.registry, name.as_deref()).await;
    }
    written(call, target, &done, warnings)
}

/// A whole object in place of another, or of a part of it.
pub(crate) async fn update(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    part: ThroughPart<'_>,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let mut new = decode::object(call, target, body)?;
    let resource = &target.resource;
    let name = target.name.as_deref().unwrap_or_default();
    check_name(target, &new)?;
    settle_namespace(target, &mut new)?;
    let (manager, api_version) = (manager(call)?, resource.api_version(&target.version));
    let mut author = author(call, &manager, &api_version)?;
    let unversioned = matches!(str_at(&new, &["metadata", "resourceVersion"]), None | Some("" | "0"));
    let updated = match unversioned && !resource.strategy.unconditional_update {
        true => Err(needs_revision(resource, name)),
        false => {
            let change = |_: &Object| Ok(new.clone());
            server.registry.update(resource, &target.namespace, name, part, &change, &mut author).await
        }
    };
    let done = match updated {
        Err(status)
            if part.is_none()
                && resource.strategy.create_on_update
                && is_absent(server, target, &status).await? =>
        {
            server.access.authorize_creation(call, target)?;
            to_handled(resource, &mut new, &api_version)?;
            server.registry.create(resource, &target.namespace, new, &mut author).await?
        }
        other => other?,
    };
    let warnings = author.warnings;
    written(call, target, &done, warnings)
}

async fn is_absent(server: &ApiServer, target: &Target, status: &Status) -> Outcome<bool> {
    if status.code == 404 {
        return Ok(true);
    }
    let key = target.resource.key(&target.namespace, target.name.as_deref().unwrap_or_default());
    Ok(status.code == 422 && server.registry.fresh(None).await?.get(key.as_bytes()).is_none())
}

fn needs_revision(resource: &Resource, name: &str) -> Box<Status> {
    let mut errors = Errors::new();
    errors.at("metadata", |errors| {
        errors.invalid("resourceVersion", &Value::from(0), "must be specified for an update");
    });
    Status::invalid(&resource.group, &resource.kind, name, &errors)
}

const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// The namespace of the URL is that of the object.
pub(crate) fn settle_namespace(target: &Target, object: &mut Object) -> Outcome<()> {
    // Where there is none, the registry takes out what clients fill in.
    if !target.resource.namespaced {
        return Ok(());
    }
    let given = object::namespace(object);
    if target.namespace.is_empty() {
        return Err(Status::bad_request("an empty namespace may not be set during creation"));
    }
    if !given.is_empty() && given != target.namespace {
        return Err(Status::bad_request(OTHER_NAMESPACE));
    }
    metadata_mut(object).insert("namespace".to_owned(), target.namespace.as_str().into());
    Ok(())
}

/// The name and the namespace of the URL are those of an object that is written there.
pub(crate) fn check_name(target: &Target, object: &Object) -> Outcome<()> {
    let (name, given) = (target.name.as_deref().unwrap_or_default(), object::name(object));
    if given.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    let (namespace, given) = (target.namespace.as_str(), object::namespace(object));
    if !namespace.is_empty() && !given.is_empty() && given != namespace {
        return Err(Status::bad_request(OTHER_NAMESPACE));
    }
    Ok(())
}
