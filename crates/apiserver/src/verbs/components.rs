//! The components of the cluster, worked out when they are asked for.
//!
//! Of those that Kubernetes tells of there is one here, the store. Nothing can be asked while it has stopped, but what
//! was said last.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde_json::json;
use windlass_machinery::{object::Object, stored};

use super::{json as answer_json, object, rendering};
use crate::{
    http::{Body, Target},
    registry::Selection,
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// Answers a request about components.
pub(super) fn answer(server: &ApiServer, call: &Call, target: &Target) -> Outcome<Response<Body>> {
    let reads = matches!(call.method, Method::GET | Method::HEAD);
    if !reads || target.watch || call.query.flag("watch") {
        return Err(Status::method_not_allowed());
    }
    let resource = &target.resource;
    let mut components = components(server).into_iter();
    if let Some(name) = &target.name {
        let found = components.find(|(own, _)| own == name);
        let (_, component) = found.ok_or_else(|| Status::not_found(resource, name))?;
        return object(call, target, &component, 0, StatusCode::OK);
    }
    let (labels, fields) = (call.query.get("labelSelector"), call.query.get("fieldSelector"));
    let selection = Selection::parse(resource, labels, fields, None)?;
    let rendering = rendering(call, target)?;
    let mut out = vec![];
    rendering.list_head("{}", &mut out);
    let wanted = components.filter(|(name, value)| selection.takes(resource, name.as_bytes(), value));
    for (place, (_, component)) in wanted.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        rendering.item(&component, 0, &mut out);
    }
    out.extend_from_slice(b"]}");
    Ok(answer_json(StatusCode::OK, out))
}

/// The components by name, in the form in which objects are stored.
fn components(server: &ApiServer) -> Vec<(&'static str, Bytes)> {
    let (status, message) = match server.store_failure() {
        None => ("True", "ok".to_owned()),
        Some(why) => ("False", why),
    };
    let name = "etcd-0";
    let component = Object::from_iter([
        ("apiVersion".to_owned(), "v1".into()),
        ("kind".to_owned(), "ComponentStatus".into()),
        ("metadata".to_owned(), json!({"name": name})),
        ("conditions".to_owned(), json!([{"type": "Healthy", "status": status, "message": message}])),
    ]);
    vec![(name, stored::encode(&component).into())]
}
