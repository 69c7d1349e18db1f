//! `POST serviceaccounts/NAME/token`: tokens for service accounts.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use windlass_access::accounts::{AccountToken, Bound, Named};
use windlass_machinery::{
    field::Errors,
    object::{self, Object, int_at, list_at, metadata_mut, set_at, str_at},
    schema::canonicalize,
    time,
};

use super::{author, decode, manager, object_json};
use crate::{
    admission::{Operation, View},
    http::{Body, Target},
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// How long a token lasts when nobody says, in seconds.
const USUAL_SECONDS: i64 = 3600;

/// A shorter one would be renewed all the time.
const LEAST_SECONDS: i64 = 600;

/// What Kubernetes takes at most.
const MOST_SECONDS: i64 = 1 << 32;

/// Most audiences of a token: it has to fit into a header.
const MOST_AUDIENCES: usize = 64;

/// Most bytes of one.
const MOST_AUDIENCE: usize = 512;

/// Makes a token.
pub(crate) async fn create(
    server: &Arc<ApiServer>,
    call: &mut Call,
    target: &Target,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let manager = manager(call)?;
    let mut request = decode::extra(call, body, &decode::TOKEN_REQUEST)?;
    let name = target.name.as_deref().unwrap_or_default();
    settle_names(&mut request, target, name)?;
    let accounts = &server.access.accounts;
    default(&mut request, accounts.audiences());
    validate(&request, name)?;
    let mut author = author(call, &manager, "authentication.k8s.io/v1")?;
    request = server.registry.ask(target, Operation::Create, request, &mut author).await?;
    let warnings = author.warnings;
    call.warnings.extend(warnings);
    default(&mut request, accounts.audiences());
    validate(&request, name)?;

    let view = server.registry.view().await?;
    let account = view.get("", "serviceaccounts", &target.namespace, name);
    let (account, _) = account.ok_or_else(|| Status::not_found(&target.resource, name))?;
    let token = AccountToken {
        namespace: target.namespace.clone(),
        account: named(&account),
        bound: bound(&view, target, name, &request)?,
        id: uuid::Uuid::new_v4().to_string(),
    };
    let mut seconds = int_at(&request, &["spec", "expirationSeconds"]).unwrap_or(USUAL_SECONDS);
    if let Some(most) = accounts.most_seconds().filter(|most| seconds > *most) {
        let warning = format!("requested expiration of {seconds} seconds shortened to {most} seconds");
        call.warnings.push(warning);
        seconds = most;
        set_at(&mut request, &["spec", "expirationSeconds"], Some(seconds.into()));
    }
    let now = Timestamp::from_second(Timestamp::now().as_second()).map_err(Status::internal)?;
    let expires = now.checked_add(SignedDuration::from_secs(seconds)).map_err(Status::internal)?;
    let audiences: Vec<String> = audiences(&request).map(str::to_owned).collect();
    let signed = accounts.issue(&token, &audiences, now, expires);
    let signed = signed.ok_or_else(|| Status::internal("the token could not be signed"))?;
    metadata_mut(&mut request).insert("creationTimestamp".to_owned(), time::rfc3339(now).into());
    let status = json!({"token": signed, "expirationTimestamp": time::rfc3339(expires)});
    request.insert("status".to_owned(), status);
    canonicalize(&decode::TOKEN_REQUEST.schema, &mut request);
    Ok(object_json(StatusCode::CREATED, &request))
}

/// A request is called like its account.
fn settle_names(request: &mut Object, target: &Target, name: &str) -> Outcome<()> {
    for (field, own) in [("name", name), ("namespace", target.namespace.as_str())] {
        match str_at(request, &["metadata", field]) {
            None | Some("") => set_at(request, &["metadata", field], Some(own.into())),
            Some(given) if given == own => {}
            Some(_) => {
                let why = format!("{field} in URL does not match {field} in TokenRequest object");
                return Err(Status::bad_request(why));
            }
        }
    }
    Ok(())
}

fn default(request: &mut Object, own: &[String]) {
    if audiences(request).next().is_none() {
        set_at(request, &["spec", "audiences"], Some(own.into()));
    }
    if int_at(request, &["spec", "expirationSeconds"]).is_none() {
        set_at(request, &["spec", "expirationSeconds"], Some(USUAL_SECONDS.into()));
    }
}

fn audiences(request: &Object) -> impl Iterator<Item = &str> {
    list_at(request, &["spec", "audiences"]).iter().filter_map(Value::as_str)
}

fn validate(request: &Object, name: &str) -> Outcome<()> {
    let mut errors = Errors::new();
    let seconds = int_at(request, &["spec", "expirationSeconds"]).unwrap_or_default();
    let field = "spec.expirationSeconds";
    if seconds < LEAST_SECONDS {
        errors.invalid(field, &seconds.into(), "may not specify a duration less than 10 minutes");
    }
    if seconds > MOST_SECONDS {
        errors.invalid(field, &seconds.into(), "may not specify a duration larger than 2^32 seconds");
    }
    let n_audiences = list_at(request, &["spec", "audiences"]).len();
    if n_audiences > MOST_AUDIENCES {
        errors.too_many("spec.audiences", n_audiences, MOST_AUDIENCES);
    }
    if audiences(request).any(|audience| audience.len() > MOST_AUDIENCE) {
        errors.too_long("spec.audiences", MOST_AUDIENCE);
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid("authentication.k8s.io", "TokenRequest", name, &errors)),
    }
}

fn named(object: &Object) -> Named {
    Named { name: object::name(object).to_owned(), uid: object::uid(object).to_owned() }
}

/// What the token is to be bound to, which must be there.
fn bound(view: &View, target: &Target, account: &str, request: &Object) -> Outcome<Option<Bound>> {
    let Some(Value::Object(wanted)) = object::at(request, &["spec", "boundObjectRef"]) else {
        return Ok(None);
    };
    let text = |field: &str| str_at(wanted, &[field]).unwrap_or_default();
    let (api_version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
    let (plural, namespace) = match (api_version, kind) {
        ("v1", "Pod") => ("pods", target.namespace.as_str()),
        ("v1", "Secret") => ("secrets", target.namespace.as_str()),
        ("v1", "Node") => ("nodes", ""),
        _ => {
            let why = format!("cannot bind token to object of type {api_version}, Kind={kind}");
            return Err(Status::bad_request(why));
        }
    };
    let row = view.catalog.get("", plural).ok_or_else(Status::no_such_path)?;
    let (found, _) = view.get("", plural, namespace, name).ok_or_else(|| Status::not_found(row, name))?;
    let uid = text("uid");
    if !uid.is_empty() && uid != object::uid(&found) {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(row, name, &why));
    }
    let named = named(&found);
    Ok(Some(match kind {
        "Pod" => {
            if str_at(&found, &["spec", "serviceAccountName"]) != Some(account) {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
                )));
            }
            Bound::Pod(named, node_of(view, &found))
        }
        "Secret" => Bound::Secret(named),
        _ => Bound::Node(named),
    }))
}

/// The node that a pod is on; without a uid if there is no such node.
fn node_of(view: &View, pod: &Object) -> Option<Named> {
    let name = str_at(pod, &["spec", "nodeName"]).filter(|name| !name.is_empty())?;
    let node = view.get("", "nodes", "", name).map(|(node, _)| named(&node));
    Some(node.unwrap_or_else(|| Named { name: name.to_owned(), uid: String::new() }))
}
