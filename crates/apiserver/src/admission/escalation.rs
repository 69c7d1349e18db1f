//! Nobody gives what they do not have: who writes a role must hold its rules, and who binds one as well.
//!
//! As Kubernetes has it, the verbs `escalate` on the role and `bind` on the role that is bound allow it all the same, and
//! whoever makes a role of others, which can become anything, must hold everything. This looks at the object as it will be
//! stored, and every write passes here.

use async_trait::async_trait;
use windlass_access::{
    Attributes, MASTERS, Wanted,
    rbac::{Binding, GROUP, Role, Rule, missing},
};
use windlass_machinery::object::{self, Object};

use super::{Operation, Plugin, Request};
use crate::status::{Outcome, Status};

pub(super) struct NoEscalation;

#[async_trait]
impl Plugin for NoEscalation {
    fn name(&self) -> &'static str {
        "NoEscalation"
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let is_write = matches!(request.operation, Operation::Create | Operation::Update);
        if request.resource.group != GROUP || !is_write || request.user.is_in(MASTERS) {
            return Ok(());
        }
        // Whoever cleans up need not hold what they clean up.
        if request.old.is_some_and(|old| is_same_but_for_cleaning(&request.object, old)) {
            return Ok(());
        }
        match request.resource.plural.as_str() {
            "roles" | "clusterroles" => check_role(request),
            "rolebindings" | "clusterrolebindings" => check_binding(request),
            _ => Ok(()),
        }
    }
}

fn is_same_but_for_cleaning(new: &Object, old: &Object) -> bool {
    let bare = |object: &Object| {
        let mut bare = object.clone();
        let metadata = object::metadata_mut(&mut bare);
        for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
        bare
    };
    bare(new) == bare(old)
}

fn check_role(request: &Request<'_>) -> Outcome<()> {
    if may(request, "escalate", &request.resource.plural, request.called()) {
        return Ok(());
    }
    holds(request, &Role::from_object(&request.object).rules)?;
    let is_made_of_others = |role: &Object| role.get("aggregationRule").is_some_and(|rule| !rule.is_null());
    if is_made_of_others(&request.object) || request.old.is_some_and(is_made_of_others) {
        let everything = [Rule::all_resources(), Rule::all_paths()];
        holds(request, &everything)
            .map_err(|_| request.refuse("must have cluster-admin privileges to use the aggregationRule"))?;
    }
    Ok(())
}

fn check_binding(request: &Request<'_>) -> Outcome<()> {
    let role = Binding::from_object(&request.object).role;
    if may(request, "bind", role.plural(), &role.name) {
        return Ok(());
    }
    let index = request.rights.index();
    let namespace = if role.is_cluster { "" } else { request.namespace };
    match (index.role(namespace, &role.name), request.view.catalog.get(GROUP, role.plural())) {
        (Some(role), _) => holds(request, &role.rules),
        (None, Some(row)) if request.operation == Operation::Create => {
            Err(Status::not_found(row, &role.name))
        }
        // On an update, 404 would say that the binding is not there.
        _ => Err(request.refuse(format!("{} {:?} not found", role.plural(), role.name))),
    }
}

/// Refused unless the user holds all of these.
fn holds(request: &Request<'_>, wanted: &[Rule]) -> Outcome<()> {
    let held = request.rights.index().rules_for(request.user, request.namespace);
    match missing(&held, wanted) {
        None => Ok(()),
        Some(missing) => {
            let (user, groups) = (&request.user.name, request.user.groups.iter());
            let groups: Vec<String> = groups.map(|group| format!("{group:?}")).collect();
            Err(request.refuse(format!(
                "user {user:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{missing}",
                groups.join(" ")
            )))
        }
    }
}

fn may(request: &Request<'_>, verb: &str, plural: &str, name: &str) -> bool {
    let wanted = Wanted::Resource {
        group: GROUP,
        version: "*",
        resource: plural,
        subresource: "",
        namespace: request.namespace,
        name,
    };
    request.rights.allow(request.user, &Attributes { verb, wanted })
}
