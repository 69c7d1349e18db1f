//! Resources that are asked, not stored: who am I, may I, is this token good.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use windlass_machinery::object::{Object, list_at, str_at};

use super::{actions, decode, json as answer_json};
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
        Some(Review::SelfRules) => self_rules(&call.user),
        Some(Review::SelfAccess) => access(&call.user, &object)?,
        Some(Review::Access) => access(&subject(&object), &object)?,
    };
    object.insert("status".to_owned(), status);
    Ok(answer_json(StatusCode::CREATED, Value::Object(object).to_string()))
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
    let groups = list_at(review, &["spec", "groups"]);
    User::new(
        str_at(review, &["spec", "user"]).unwrap_or_default(),
        groups.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    )
}

fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == "system:masters")
}

fn access(user: &User, review: &Object) -> Outcome<Value> {
    let spec =
        |field: &str| review.get("spec").and_then(|spec| spec.get(field)).is_some_and(Value::is_object);
    if spec("resourceAttributes") == spec("nonResourceAttributes") {
        let mut errors = windlass_machinery::field::Errors::new();
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(
            windlass_machinery::field::Fault::Invalid,
            "spec.resourceAttributes",
            "null".to_owned(),
            why,
        );
        let kind = str_at(review, &["kind"]).unwrap_or_default();
        return Err(Status::invalid("authorization.k8s.io", kind, "", &errors));
    }
    Ok(match is_master(user) {
        true => json!({"allowed": true}),
        false => json!({"allowed": false, "reason": "only members of system:masters have access"}),
    })
}

fn self_rules(user: &User) -> Value {
    let (resources, paths) = match is_master(user) {
        true => (
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
            json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]),
        ),
        false => (
            json!([]),
            json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version"]}]),
        ),
    };
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}
