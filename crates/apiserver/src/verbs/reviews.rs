//! Resources that are asked, not stored: who am I, may I, is this token good.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use windlass_access::{Attributes, Wanted, rbac::Rule};
use windlass_machinery::{
    field::{Errors, Fault},
    object::{Object, at, list_at, str_at},
};

use super::{actions, decode, object_json};
use crate::{
    admission::User,
    http::{Body, Target},
    resources::Review,
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// Answers a review.
pub(crate) async fn create(
    server: &Arc<ApiServer>,
    call: &mut Call,
    target: &Target,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let mut object = decode::object(call, target, body)?;
    let status = match target.resource.review {
        None => return Err(Status::method_not_allowed()),
        Some(Review::Bind) => return actions::bind_object(server, call, target, object).await,
        Some(Review::Token) if str_at(&object, &["spec", "token"]).unwrap_or_default().is_empty() => {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        Some(Review::Token) => server.access.review(&object).await,
        Some(Review::SelfSubject) => json!({"userInfo": user_info(&call.user)}),
        Some(Review::SelfRules) => self_rules(server, &call.user, &object)?,
        Some(Review::SelfAccess) => access(server, &call.user, &object)?,
        Some(Review::Access) => {
            check_subject(target, &object)?;
            access(server, &subject(&object), &object)?
        }
    };
    object.insert("status".to_owned(), status);
    target.resource.canonicalize(&mut object);
    Ok(object_json(StatusCode::CREATED, &object))
}

pub(crate) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// Whoever the review is about.
fn subject(review: &Object) -> User {
    let texts = |list: &[Value]| -> Vec<String> {
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = at(review, &["spec", "extra"]).and_then(Value::as_object);
    let extra = extra
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.to_lowercase(), texts(values.as_array().map_or(&[][..], Vec::as_slice))));
    User {
        name: str_at(review, &["spec", "user"]).unwrap_or_default().to_owned(),
        uid: str_at(review, &["spec", "uid"]).unwrap_or_default().to_owned(),
        groups: texts(list_at(review, &["spec", "groups"])),
        extra: extra.collect(),
    }
}

/// Finds faults in whom and what a review is about.
fn check_subject(target: &Target, review: &Object) -> Outcome<()> {
    let namespace = str_at(review, &["spec", "resourceAttributes", "namespace"]).unwrap_or_default();
    if target.resource.namespaced
        && at(review, &["spec", "resourceAttributes"]).is_some()
        && namespace != target.namespace
    {
        let own = &target.namespace;
        return Err(Status::bad_request(format!(
            "spec.resourceAttributes.namespace must match namespace: {own}"
        )));
    }
    let mut errors = Errors::new();
    let groups = list_at(review, &["spec", "groups"]);
    if str_at(review, &["spec", "user"]).unwrap_or_default().is_empty() && groups.is_empty() {
        errors.invalid_str("spec.user", "", "at least one of user or group must be specified");
    }
    if target.resource.namespaced
        && at(review, &["spec", "nonResourceAttributes"]).is_some_and(|it| !it.is_null())
    {
        errors.forbidden("spec.nonResourceAttributes", "disallowed on this kind of request");
    }
    faultless(review, &errors)
}

fn faultless(review: &Object, errors: &Errors) -> Outcome<()> {
    let kind = str_at(review, &["kind"]).unwrap_or_default();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid("authorization.k8s.io", kind, "", errors)),
    }
}

/// Whether a user may do what the review says. Selectors are taken, but no role looks at them.
fn access(server: &ApiServer, user: &User, review: &Object) -> Outcome<Value> {
    let spec = |field: &str| at(review, &["spec", field]).is_some_and(Value::is_object);
    let mut errors = Errors::new();
    if spec("resourceAttributes") == spec("nonResourceAttributes") {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(Fault::Invalid, "spec.resourceAttributes", "null".to_owned(), why);
    }
    check_selectors(review, &mut errors);
    faultless(review, &errors)?;
    let on = |field: &str| str_at(review, &["spec", "resourceAttributes", field]).unwrap_or_default();
    let off = |field: &str| str_at(review, &["spec", "nonResourceAttributes", field]).unwrap_or_default();
    let attributes = match spec("resourceAttributes") {
        true => Attributes {
            verb: on("verb"),
            wanted: Wanted::Resource {
                group: on("group"),
                version: on("version"),
                resource: on("resource"),
                subresource: on("subresource"),
                namespace: on("namespace"),
                name: on("name"),
            },
        },
        false => Attributes { verb: off("verb"), wanted: Wanted::Path(off("path")) },
    };
    let grant = server.access.rights().grant(user, &attributes);
    let mut status = json!({"allowed": grant.is_some()});
    if let Some(reason) = grant.map(|grant| grant.to_string()).filter(|reason| !reason.is_empty()) {
        status["reason"] = reason.into();
    }
    Ok(status)
}

/// A selector is given as text or as requirements, not as both.
fn check_selectors(review: &Object, errors: &mut Errors) {
    for field in ["fieldSelector", "labelSelector"] {
        let selector = ["spec", "resourceAttributes", field];
        let Some(selector) = at(review, &selector).and_then(Value::as_object) else { continue };
        let has_text = str_at(selector, &["rawSelector"]).is_some_and(|text| !text.is_empty());
        let has_list = !list_at(selector, &["requirements"]).is_empty();
        let path = format!("spec.resourceAttributes.{field}");
        match (has_text, has_list) {
            (true, true) => {
                let why = "may not specified at the same time as requirements";
                errors.invalid_str(&format!("{path}.rawSelector"), "", why);
            }
            (false, false) => errors.required(
                &format!("{path}.requirements"),
                "when fieldSelector is specified, requirements or rawSelector is required",
            ),
            _ => {}
        }
    }
}

/// What a user may do in a namespace.
fn self_rules(server: &ApiServer, user: &User, review: &Object) -> Outcome<Value> {
    let namespace = str_at(review, &["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let rules = server.access.rights().index().rules_for(user, namespace);
    let (paths, resources): (Vec<_>, Vec<_>) = rules.iter().partition(|rule| rule.is_about_paths());
    let told = |rules: Vec<&Rule>| -> Vec<Value> { rules.into_iter().map(Rule::to_json).collect() };
    Ok(json!({"resourceRules": told(resources), "nonResourceRules": told(paths), "incomplete": false}))
}
