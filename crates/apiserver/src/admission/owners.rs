//! Owners: what is owned is deleted with its owner, and may keep it from being deleted. So both take rights.

use async_trait::async_trait;
use serde_json::Value;
use windlass_access::{Attributes, Wanted};
use windlass_machinery::object::{Object, list_at};

use super::{Operation, Plugin, Request};
use crate::status::Outcome;

/// Whoever changes the owners of an object must be allowed to delete it, and whoever makes it block the deletion of an
/// owner must be allowed to set the finalizers of that owner.
pub(super) struct OwnerReferencesPermissionEnforcement;

#[async_trait]
impl Plugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if !matches!(request.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        let (owners, before) = (owners(&request.object), request.old.map_or(&[][..], owners));
        if owners == before {
            return Ok(());
        }
        if request.operation == Operation::Update {
            let row = request.resource;
            if !may(request, "delete", [&row.group, &row.plural, ""], request.namespace, request.name) {
                return Err(request.refuse("cannot set an ownerRef on a resource you can't delete"));
            }
        }
        let blocks = |owner: &&Value| owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true);
        let is_new = |owner: &&Value| {
            let same = |other: &Value| {
                other.get("uid") == owner.get("uid") && other.get("name") == owner.get("name")
            };
            !before.iter().any(|other| same(other) && blocks(&other))
        };
        owners.iter().filter(blocks).filter(is_new).try_for_each(|owner| check_owner(request, owner))
    }
}

fn owners(object: &Object) -> &[Value] {
    list_at(object, &["metadata", "ownerReferences"])
}

/// Refused unless the user may set the finalizers of this owner.
fn check_owner(request: &Request<'_>, owner: &Value) -> Outcome<()> {
    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let rows = request.view.catalog.all();
    let rows: Vec<_> = rows.filter(|row| row.group == group && row.kind == kind && row.is_stored()).collect();
    if rows.is_empty() {
        return Err(request.refuse(format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} \
             Kind {kind}"
        )));
    }
    for row in rows {
        let namespace = if row.namespaced { request.namespace } else { "" };
        if !may(request, "update", [&row.group, &row.plural, "finalizers"], namespace, text("name")) {
            return Err(request.refuse(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on",
            ));
        }
    }
    Ok(())
}

/// `what` is a group, a plural and a subresource.
fn may(request: &Request<'_>, verb: &str, what: [&str; 3], namespace: &str, name: &str) -> bool {
    let [group, resource, subresource] = what;
    let wanted = Wanted::Resource { group, version: "*", resource, subresource, namespace, name };
    request.rights.allow(request.user, &Attributes { verb, wanted })
}
