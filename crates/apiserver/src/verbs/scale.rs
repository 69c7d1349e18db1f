//! The `scale` subresource: the number of replicas, in one form for all kinds.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{self, Object, int_at},
    selector::LabelSelector,
};

use super::{author, decode, json as answer_json, manager, patch::Patch, write::check_name};
use crate::{
    http::{Body, Target},
    registry::{self, get_path, parse_bytes, set_path},
    resources::Scale,
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

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
    let scale = resource.scale.ok_or_else(Status::no_such_path)?;
    let name = target.name.as_deref().unwrap_or_default();
    let wanted: Wanted<'_> = match call.method.as_str() {
        "GET" | "HEAD" => {
            let entry = server.registry.get(resource, &target.namespace, name, None).await?;
            let shown = show(&registry::parse(&entry)?, &scale);
            return Ok(answer_json(StatusCode::OK, Value::Object(shown).to_string()));
        }
        "PUT" => {
            let given = decode::extra(call, body, &decode::SCALE)?;
            check_name(target, &given)?;
            Box::new(move |_: &Object| Ok(given.clone()))
        }
        "PATCH" => {
            let patch = Patch::read(call, body)?;
            let validation = decode::FieldValidation::of(call)?;
            Box::new(move |shown: &Object| {
                Ok(patch.apply_checked(shown, &decode::SCALE.schema, target, validation)?.0)
            })
        }
        _ => return Err(Status::method_not_allowed()),
    };
    let change = |current: &Object| {
        let given = wanted(&show(current, &scale))?;
        apply(name, current, &given, &scale)
    };
    let (manager, api_version) = (manager(call)?, resource.api_version(&target.version));
    let mut author = author(call, &manager, &api_version)?;
    author.through = "scale";
    let done = server.registry.update(resource, &target.namespace, name, None, &change, &mut author).await?;
    let warnings = author.warnings;
    call.warnings.extend(warnings);
    let shown = show(&parse_bytes(&done.value, windlass_store::Revision::new(done.revision))?, &scale);
    Ok(answer_json(StatusCode::OK, Value::Object(shown).to_string()))
}

/// The scale of an object.
pub(crate) fn show(object: &Object, scale: &Scale) -> Object {
    let metadata = object::metadata(object);
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: Object =
        kept.iter().filter_map(|field| Some(((*field).to_owned(), metadata.get(*field)?.clone()))).collect();
    let number = |path: &str| get_path(object, path).and_then(Value::as_i64).unwrap_or(0);
    let selector = match get_path(object, scale.selector) {
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
    let mut status = json!({"replicas": number(scale.status_replicas)});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let shown = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": number(scale.replicas)},
        "status": status,
    });
    match shown {
        Value::Object(shown) => shown,
        _ => Object::new(),
    }
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
    set_path(&mut new, scale.replicas, Some(replicas.into()));
    for field in ["resourceVersion", "uid"] {
        let value = object::metadata(given).get(field).cloned();
        match value {
            Some(value) => drop(object::metadata_mut(&mut new).insert(field.to_owned(), value)),
            None => drop(object::metadata_mut(&mut new).remove(field)),
        }
    }
    Ok(new)
}
