//! patch: JSON patch, merge patch, strategic merge patch; apply, which comes as a patch, is next door.

use bytes::Bytes;
use http::Response;
use serde_json::Value;
use windlass_machinery::{
    decode::decode_json,
    field::{Errors, Fault},
    object::{Object, uid},
    patch::{PatchError, json_patch, merge_patch, strategic_merge},
    schema::{Node, Report, check},
};

use super::{ThroughPart, apply, author, decode::FieldValidation, manager, write::check_name, written};
use crate::{
    http::{Body, Target, media_type},
    resources::Version,
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
}

/// What is understood in a patch.
const TAKEN: &str = "application/json-patch+json, application/merge-patch+json, \
                     application/strategic-merge-patch+json, application/apply-patch+yaml";

/// A patch, ready to be applied any number of times.
pub(crate) struct Patch {
    kind: PatchKind,
    bytes: Bytes,
    object: Object,
    /// What strict decoding does not let pass.
    findings: Vec<String>,
}

impl Patch {
    pub(crate) fn read(call: &mut Call, body: &Bytes) -> Outcome<Self> {
        let kind = match media_type(&call.headers).as_str() {
            "application/json-patch+json" => PatchKind::Json,
            "application/merge-patch+json" => PatchKind::Merge,
            "application/strategic-merge-patch+json" => PatchKind::Strategic,
            _ => return Err(Status::unsupported_media_type(TAKEN)),
        };
        if call.query.has("force") {
            let mut errors = Errors::new();
            errors.forbidden("force", "may not be specified for non-apply patch");
            return Err(Status::invalid_options(call.options_kind(), &errors));
        }
        let validation = FieldValidation::of(call)?;
        if kind == PatchKind::Json {
            let findings = match validation {
                FieldValidation::Ignore => vec![],
                _ => unknown_in_operations(body),
            };
            return Ok(Patch { kind, bytes: body.clone(), object: Object::new(), findings });
        }
        let decoded = decode_json(body).map_err(|error| {
            Status::bad_request(format!("error decoding patch: {}", crate::chain(&error)))
        })?;
        let findings = decoded.duplicates.iter().map(|field| format!("duplicate field {field:?}")).collect();
        Ok(Patch { kind, bytes: Bytes::new(), object: decoded.object, findings })
    }

    /// Applies the patch to what a client would see and checks the outcome. Gives what strict decoding does not
    /// let pass, which is refused here if it shall be.
    pub(crate) fn apply_checked(
        &self,
        current: &Object,
        shape: Shape<'_>,
        target: &Target,
        validation: FieldValidation,
    ) -> Outcome<(Object, Vec<String>)> {
        let mut new = self.apply(current, shape.schema()).map_err(|error| failed(&error, target))?;
        keep_kind(&mut new, current, target)?;
        keep_uid(&new, current, target)?;
        let report = shape.inspect(&mut new);
        let mut findings = self.findings.clone();
        findings.extend(report.unknown.iter().map(|field| format!("unknown field {field:?}")));
        let refusal = match report.faults.first() {
            Some(fault) => Some(fault.clone()),
            None if validation == FieldValidation::Strict && !findings.is_empty() => {
                Some(format!("strict decoding error: {}", findings.join(", ")))
            }
            None => None,
        };
        if let Some(why) = refusal {
            // As the client would have it, with what has just been taken out of it.
            let made = self.apply(current, shape.schema()).map_err(|error| failed(&error, target))?;
            return Err(unfit(&self.shown(made), &why));
        }
        check_name(target, &new)?;
        Ok((new, findings))
    }

    /// What Kubernetes shows of a patch that makes no object of the kind: a strategic one itself, else what it makes.
    fn shown(&self, made: Object) -> String {
        match self.kind {
            PatchKind::Strategic => go_value(&Value::Object(self.object.clone())),
            PatchKind::Json | PatchKind::Merge => Value::Object(made).to_string(),
        }
    }

    fn apply(&self, current: &Object, schema: &Node) -> Result<Object, PatchError> {
        match self.kind {
            PatchKind::Json => json_patch(current, &self.bytes),
            PatchKind::Merge => {
                let mut new = current.clone();
                merge_patch(&mut new, &self.object);
                Ok(new)
            }
            PatchKind::Strategic => {
                let mut new = current.clone();
                strategic_merge(&mut new, &self.object, schema)?;
                Ok(new)
            }
        }
    }
}

/// What the outcome of a patch is held against.
#[derive(Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// One version of a resource.
    Of(&'a Version),
    /// A type that has no row.
    Extra(&'a Node),
}

impl<'a> Shape<'a> {
    fn schema(self) -> &'a Node {
        match self {
            Shape::Of(version) => version.schema(),
            Shape::Extra(schema) => schema,
        }
    }

    fn inspect(self, object: &mut Object) -> Report {
        match self {
            Shape::Of(version) => version.inspect(object),
            Shape::Extra(schema) => check(schema, object),
        }
    }
}

/// Changes an object, or a part of it.
pub(crate) async fn patch(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    part: ThroughPart<'_>,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    if media_type(&call.headers) == apply::MEDIA_TYPE {
        return apply::apply(server, call, target, part, body).await;
    }
    let resource = &target.resource;
    let version = resource.version(&target.version).ok_or_else(Status::no_such_path)?;
    let patch = Patch::read(call, body)?;
    let validation = FieldValidation::of(call)?;
    let name = target.name.as_deref().unwrap_or_default();
    let (manager, api_version) = (manager(call)?, resource.api_version(&target.version));
    let findings = parking_lot::Mutex::new(vec![]);
    let change = |current: &Object| {
        let (new, found) = patch.apply_checked(current, Shape::Of(version), target, validation)?;
        *findings.lock() = found;
        Ok(new)
    };
    let mut author = author(call, &manager, &api_version)?;
    let done = server.registry.update(resource, &target.namespace, name, part, &change, &mut author).await?;
    let mut warnings = author.warnings;
    if validation == FieldValidation::Warn {
        warnings.extend(findings.into_inner());
    }
    written(call, target, &done, warnings)
}

/// A patch may not make another kind of object of it.
fn keep_kind(new: &mut Object, current: &Object, target: &Target) -> Outcome<()> {
    for field in ["apiVersion", "kind"] {
        let Some(own) = current.get(field) else { continue };
        match new.get(field) {
            None | Some(Value::Null) => drop(new.insert(field.to_owned(), own.clone())),
            Some(given) if given == own => {}
            Some(given) => {
                let why = format!("a patch may not change {field} from {own} to {given}");
                return Err(refused(target, &why));
            }
        }
    }
    Ok(())
}

/// A patch may not make another object of it. (In a whole object, a foreign uid is a precondition that fails.)
fn keep_uid(new: &Object, current: &Object, target: &Target) -> Outcome<()> {
    let uid = uid(new);
    if uid.is_empty() || uid == self::uid(current) {
        return Ok(());
    }
    let mut errors = Errors::new();
    errors.at("metadata", |errors| errors.invalid_str("uid", uid, "field is immutable"));
    let resource = &target.resource;
    Err(Status::invalid(&resource.group, &resource.kind, target.name.as_deref().unwrap_or_default(), &errors))
}

/// Fields that the operations of a JSON patch do not have.
fn unknown_in_operations(body: &[u8]) -> Vec<String> {
    // What is no list of operations is refused when it is applied.
    let operations: Vec<Object> = serde_json::from_slice(body).unwrap_or_default();
    let fields = operations.iter().enumerate().flat_map(|(index, operation)| {
        let unknown =
            operation.keys().filter(|key| !matches!(key.as_str(), "op" | "path" | "from" | "value"));
        unknown.map(move |key| format!("json patch unknown field \"[{index}].{key}\""))
    });
    fields.take(MOST_FINDINGS).collect()
}

/// Most findings in one patch; more would only fill the answer.
const MOST_FINDINGS: usize = 100;

/// 422: what the patch makes is not an object of the kind.
fn refused(target: &Target, why: &str) -> Box<Status> {
    let resource = &target.resource;
    let mut errors = Errors::new();
    errors.push(Fault::Invalid, "patch", "\"\"".to_owned(), why);
    Status::invalid(&resource.group, &resource.kind, target.name.as_deref().unwrap_or_default(), &errors)
}

/// 422: what a patch makes cannot be decoded as the kind. Kubernetes names no object here, only what it was given.
fn unfit(shown: &str, why: &str) -> Box<Status> {
    let mut errors = Errors::new();
    errors.invalid_str("patch", shown, why);
    Status::invalid("", "", "", &errors)
}

/// A value as Go prints it.
fn go_value(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", joined(list.iter().map(go_value).collect())),
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| format!("{name}:{}", go_value(value)));
            format!("map[{}]", joined(fields.collect()))
        }
        other => other.to_string(),
    }
}

fn failed(error: &PatchError, target: &Target) -> Box<Status> {
    let text = crate::chain(error);
    match error {
        PatchError::TooManyOperations { .. } | PatchError::TooLarge { .. } => Status::too_large(text),
        PatchError::Inapplicable { .. } | PatchError::TestFailed { .. } => refused(target, &text),
        _ => Status::bad_request(text),
    }
}
