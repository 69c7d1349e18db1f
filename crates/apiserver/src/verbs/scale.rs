//! The `scale` subresource: the number of replicas, in one form for all kinds.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{self, Object, int_at},
    schema::{canonicalize, check_applied},
    selector::LabelSelector,
};

use super::{
    apply::{Configuration, Through},
    author, decode, manager, object_json,
    patch::{Patch, Shape},
    write::check_name,
};
use crate::{
    http::{Body, Target, media_type},
    registry::{self, Served, Written, get_path, parse_bytes, set_path},
    resources::Scale,
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// The name of the subresource.
const SCALE: &str = "scale";

/// What a client wants a scale to be, from what it is.
type Wanted<'a> = Box<dyn Fn(&Object) -> Outcome<Object> + Send + Sync + 'a>;

/// get, update and patch of a scale.
pub(crate) async fn answer(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let resource = &target.resource;
    let scale = resource.scale.as_ref().ok_or_else(Status::no_such_path)?;
    let name = target.name.as_deref().unwrap_or_default();
    let wanted: Wanted<'_> = match call.method.as_str() {
        "GET" | "HEAD" => {
            let entry = server.registry.get(resource, &target.namespace, name, None).await?;
            let object = registry::parse(&entry)?;
            if !scale.optional && get_path(&object, &scale.replicas).is_none() {
                let why = format!("the spec replicas field \".{}\" does not exist", scale.replicas);
                return Err(Status::internal(why));
            }
            let shown = show(&object, scale);
            return Ok(object_json(StatusCode::OK, &shown));
        }
        "PUT" => {
            let given = decode::extra(call, body, &decode::SCALE)?;
            check_name(target, &given)?;
            Box::new(move |_: &Object| Ok(given.clone()))
        }
        "PATCH" if media_type(&call.headers) == super::apply::MEDIA_TYPE => {
            return applied(server, call, target, scale, body).await;
        }
        "PATCH" => {
            let patch = Patch::read(call, body)?;
            let validation = decode::FieldValidation::of(call)?;
            Box::new(move |shown: &Object| {
                Ok(patch.apply_checked(shown, Shape::Extra(&decode::SCALE.schema), target, validation)?.0)
            })
        }
        _ => return Err(Status::method_not_allowed()),
    };
    let change = |current: &Object| {
        let given = wanted(&show(current, scale))?;
        apply(name, current, &given, scale)
    };
    let (manager, api_version) = (manager(call)?, resource.api_version(&target.version));
    let mut author = author(call, &manager, &api_version)?;
    author.through = SCALE;
    let done = server.registry.update(resource, &target.namespace, name, None, &change, &mut author).await?;
    let warnings = author.warnings;
    answer_with(call, &done, warnings, scale)
}

/// Applies a scale: to the object, this is the configuration of nothing but the number of replicas.
async fn applied(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    scale: &Scale,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let resource = &target.resource;
    let name = target.name.as_deref().unwrap_or_default();
    let mut config = Configuration::read(call, body, ("autoscaling/v1", "Scale"))?;
    config.check(&decode::SCALE.schema, |object| check_applied(&decode::SCALE.schema, object))?;
    check_name(target, &config.object)?;
    config.settle_repeated(call)?;
    if int_at(&config.object, &["spec", "replicas"]).is_none() {
        let mut errors = Errors::new();
        errors.at("spec", |errors| errors.required("replicas", "must be applied to a scale"));
        return Err(Status::invalid("autoscaling", "Scale", name, &errors));
    }
    let api_version = resource.api_version(&target.version);
    let empty = Object::from_iter([
        ("apiVersion".to_owned(), api_version.as_str().into()),
        ("kind".to_owned(), resource.kind.as_str().into()),
    ]);
    config.object = apply(name, &empty, &config.object, scale)?;
    let catalog = server.registry.catalog.load_full();
    let served = Served { resource, catalog: &catalog };
    let through = Through { served, api_version: &api_version, subresource: SCALE };
    let change = |current: &Object| config.merged(current, &through);
    let mut author = author(call, &config.manager, &api_version)?;
    (author.through, author.applies) = (SCALE, true);
    let done = server.registry.update(resource, &target.namespace, name, None, &change, &mut author).await?;
    let warnings = author.warnings;
    answer_with(call, &done, warnings, scale)
}

/// Shows the scale of a written object.
fn answer_with(
    call: &mut Call,
    done: &Written,
    warnings: Vec<String>,
    scale: &Scale,
) -> Outcome<Response<Body>> {
    call.warnings.extend(warnings);
    let shown = show(&parse_bytes(&done.value, windlass_store::Revision::new(done.revision))?, scale);
    Ok(object_json(StatusCode::OK, &shown))
}

/// The scale of an object.
pub(crate) fn show(object: &Object, scale: &Scale) -> Object {
    let metadata = object::metadata(object);
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: Object =
        kept.iter().filter_map(|field| Some(((*field).to_owned(), metadata.get(*field)?.clone()))).collect();
    let number = |path: &str| get_path(object, path).and_then(Value::as_i64).unwrap_or(0);
    let selector = match get_path(object, &scale.selector) {
        Some(Value::String(text)) => text.clone(),
        // A selector of labels, or a bare map of them as replication controllers have it.
        Some(selector)
            if selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some() =>
        {
            LabelSelector::from_object(selector).map(|selector| selector.to_string()).unwrap_or_default()
        }
        Some(labels) => LabelSelector::from_object(&json!({"matchLabels": labels}))
            .map(|selector| selector.to_string())
            .unwrap_or_default(),
        None => String::new(),
    };
    let mut status = json!({"replicas": number(&scale.status_replicas)});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let mut shown = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": number(&scale.replicas)},
        "status": status,
    });
    let Some(scale) = shown.as_object_mut() else { return Object::new() };
    canonicalize(&decode::SCALE.schema, scale);
    std::mem::take(scale)
}

/// The object with the number of replicas that a scale asks for.
fn apply(name: &str, current: &Object, given: &Object, scale: &Scale) -> Outcome<Object> {
    let replicas = int_at(given, &["spec", "replicas"]).unwrap_or(0);
    if replicas < 0 {
        let mut errors = Errors::new();
        errors.at("spec", |errors| {
            errors.invalid("replicas", &Value::from(replicas), "must be greater than or equal to 0");
        });
        return Err(Status::invalid("autoscaling", "Scale", name, &errors));
    }
    let mut new = current.clone();
    set_path(&mut new, &scale.replicas, Some(replicas.into()));
    for field in ["resourceVersion", "uid"] {
        let value = object::metadata(given).get(field).cloned();
        match value {
            Some(value) => drop(object::metadata_mut(&mut new).insert(field.to_owned(), value)),
            None => drop(object::metadata_mut(&mut new).remove(field)),
        }
    }
    Ok(new)
}
