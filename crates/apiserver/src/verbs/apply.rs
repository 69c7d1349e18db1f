//! apply: an object that says only what one manager wants, merged into what there is, or created from it.

use std::borrow::Cow;

use bytes::Bytes;
use http::Response;
use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    apply::{ApplyError, Request, apply as merge, faults},
    decode::{DecodeError, Decoded, decode_yaml},
    field::Errors,
    managed::{Operation, Write},
    object::{self, Object, metadata, str_at},
    schema::{Node, Report},
    time,
};

use super::{
    ThroughPart, author, decode::FieldValidation, manager, without_blocking, write::check_name,
    write::settle_namespace, written,
};
use crate::{
    http::{Body, Target},
    registry::{Served, holds_reserved, restrict_applied, to_handled, unowned_before},
    resources::Version,
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// How a configuration comes.
pub(crate) const MEDIA_TYPE: &str = "application/apply-patch+yaml";

/// How often a configuration is tried when the object comes and goes meanwhile.
const ATTEMPTS: usize = 5;

/// Which way a configuration is applied.
pub(crate) struct Through<'a> {
    pub(crate) served: Served<'a>,
    pub(crate) api_version: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
}

/// What a manager wants.
#[derive(Clone)]
pub(crate) struct Configuration {
    /// Only what it wants, in the version of the request.
    pub(crate) object: Object,
    /// Who it is.
    pub(crate) manager: String,
    force: bool,
    n_bytes: usize,
    /// What a strict reader finds in it: keys that were given twice.
    repeated: Vec<String>,
}

impl Configuration {
    /// Reads a configuration of this version and kind, whose fields are yet to be checked.
    pub(crate) fn read(call: &mut Call, body: &Bytes, (api_version, kind): (&str, &str)) -> Outcome<Self> {
        if call.query.get("fieldManager").is_empty() {
            let mut errors = Errors::new();
            errors.required("fieldManager", "is required for apply patch");
            return Err(Status::invalid_options(call.options_kind(), &errors));
        }
        let manager = manager(call)?;
        let decoded = match without_blocking(body.len(), || decode_yaml(body)) {
            Err(DecodeError::Kind("null")) => Decoded::default(),
            decoded => decoded.map_err(|error| undecodable(&error))?,
        };
        let object = decoded.object;
        check_kind(&object, api_version, kind)?;
        if metadata(&object).get("managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let (force, n_bytes) = (call.query.flag("force"), body.len());
        Ok(Configuration { object, manager, force, n_bytes, repeated: decoded.repeated })
    }

    /// Holds the configuration against the schema by which it is merged, where fields that are not known are always
    /// refused, and against what `inspect` knows besides.
    pub(crate) fn check(
        &mut self,
        schema: &Node,
        inspect: impl FnOnce(&mut Object) -> Report,
    ) -> Outcome<()> {
        match without_blocking(self.n_bytes, || faults(&self.object, schema)).as_slice() {
            [] => {}
            [only] => return Err(self.malformed(only)),
            several => return Err(self.malformed(&format!("errors:\n  {}", several.join("\n  ")))),
        }
        let object = &mut self.object;
        let report = without_blocking(self.n_bytes, || inspect(object));
        report.faults.first().map_or(Ok(()), |fault| Err(self.inconvertible(fault)))
    }

    /// Keys that were given twice are refused, told or ignored, as the client wants.
    pub(crate) fn settle_repeated(&mut self, call: &mut Call) -> Outcome<()> {
        match FieldValidation::of(call)? {
            FieldValidation::Strict => Ok(()),
            FieldValidation::Warn => {
                call.warnings.append(&mut self.repeated);
                Ok(())
            }
            FieldValidation::Ignore => {
                self.repeated.clear();
                Ok(())
            }
        }
    }

    /// What becomes of an object; an empty one is none.
    pub(crate) fn merged(&self, live: &Object, through: &Through<'_>) -> Outcome<Object> {
        let time = time::rfc3339(Timestamp::now());
        let resource = through.served.resource;
        let unowned = unowned_before(resource, resource.part(through.subresource), live);
        let write = Write {
            manager: &self.manager,
            operation: Operation::Apply,
            api_version: through.api_version,
            subresource: through.subresource,
            time: &time,
            unowned: unowned.as_ref(),
        };
        let request = Request { write, versions: &through.served, force: self.force };
        let merged = without_blocking(self.n_bytes, || merge(live, &self.object, &request));
        let merged = merged.map_err(|error| match error {
            ApplyError::Conflicts(conflicts) => Status::apply_conflict(&conflicts),
            other => self.malformed(&other.to_string()),
        })?;
        match self.repeated.is_empty() {
            true => Ok(merged),
            false => Err(Status::bad_request(format!(
                "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                self.repeated.join("\n  ")
            ))),
        }
    }

    /// The object as messages name it.
    fn shown(&self) -> String {
        let (namespace, name) = (object::namespace(&self.object), object::name(&self.object));
        format!("{namespace}/{name}; {}", shown_kind(&self.object))
    }

    /// 500, as in Kubernetes: the configuration does not fit the schema by which it is merged.
    fn malformed(&self, why: &str) -> Box<Status> {
        Status::failure(format!("failed to create typed patch object ({}): {why}", self.shown()))
    }

    /// 500, as in Kubernetes: what is in the configuration merges, but is no value of its type.
    fn inconvertible(&self, fault: &str) -> Box<Status> {
        let why = match fault.rsplit_once(" of type ") {
            Some((what, wanted)) if what.contains("Go struct field") => {
                format!("cannot convert float64 to {wanted}")
            }
            _ if fault.starts_with("illegal base64") => format!("error decoding from json: {fault}"),
            _ => fault.to_owned(),
        };
        Status::failure(format!(
            "failed to convert new object ({}) to proper version: unable to convert unstructured object to {}: {why}",
            self.shown(),
            shown_kind(&self.object)
        ))
    }
}

/// 400: the bytes are no configuration.
fn undecodable(error: &DecodeError) -> Box<Status> {
    Status::bad_request(match error {
        DecodeError::Yaml(why) => format!("error encoding patch: {why}"),
        other => format!("error decoding patch: error unmarshaling JSON: while decoding JSON: {other}"),
    })
}

/// Group, version and kind as messages show them.
fn shown_kind(object: &Object) -> String {
    let text = |field: &str| str_at(object, &[field]).unwrap_or_default();
    let api_version = text("apiVersion");
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={}", text("kind"))
}

fn check_kind(object: &Object, api_version: &str, kind: &str) -> Outcome<()> {
    let is = |field: &str, wanted: &str| str_at(object, &[field]) == Some(wanted);
    match is("apiVersion", api_version) && is("kind", kind) {
        true => Ok(()),
        false => Err(Status::bad_request(format!("invalid object type: {}", shown_kind(object)))),
    }
}

/// Changes an object, or a part of it, as a manager wants it, or creates it.
pub(crate) async fn apply(
    server: &ApiServer,
    call: &mut Call,
    target: &Target,
    part: ThroughPart<'_>,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let resource = &target.resource;
    let version = resource.version(&target.version).ok_or_else(Status::no_such_path)?;
    let api_version = resource.api_version(&target.version);
    let mut creating = Configuration::read(call, body, (&api_version, &resource.kind))?;
    creating.check(version.schema(), |object| version.inspect_applied(object))?;
    if !object::name(&creating.object).is_empty() {
        check_name(target, &creating.object)?;
    }
    creating.settle_repeated(call)?;
    let whole = (part.is_none() && server.registry.unrestricted).then(|| creating.clone());
    restrict_applied(resource, part, true, &mut creating.object);
    let is_whole = whole.is_some();
    let mut changing = whole.map_or(Cow::Borrowed(&creating), Cow::Owned);
    if part.is_none() && !is_whole && holds_reserved(resource, &creating.object) {
        restrict_applied(resource, part, false, &mut changing.to_mut().object);
    }
    let is_loose = resource.custom().is_some() || has_null(&changing.object);
    let catalog = server.registry.catalog.load_full();
    let subresource = part.map_or("", |part| part.name);
    let through =
        Through { served: Served { resource, catalog: &catalog }, api_version: &api_version, subresource };
    let change = |current: &Object| {
        let mut new = changing.merged(current, &through)?;
        if is_loose {
            version.inspect_merged(&mut new);
        }
        check_name(target, &new)?;
        Ok(new)
    };
    let mut author = author(call, &creating.manager, &api_version)?;
    author.applies = true;
    let name = target.name.as_deref().unwrap_or_default();
    let mut attempt = 0;
    let done = loop {
        attempt += 1;
        let updated =
            server.registry.update(resource, &target.namespace, name, part, &change, &mut author).await;
        match updated {
            Err(status) if status.code == 404 && part.is_none() => {}
            outcome => break outcome?,
        }
        let new = created(target, &creating, &through, version)?;
        server.access.authorize_creation(call, target)?;
        match server.registry.create(resource, &target.namespace, new, &mut author).await {
            Err(status) if status.reason == "AlreadyExists" && attempt < ATTEMPTS => {}
            outcome => break outcome?,
        }
    };
    let warnings = author.warnings;
    written(call, target, &done, warnings)
}

/// The object that a configuration makes where there is none, in the form in which it is stored.
fn created(
    target: &Target,
    config: &Configuration,
    through: &Through<'_>,
    version: &Version,
) -> Outcome<Object> {
    let uid = object::uid(&config.object);
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        let name = target.name.as_deref().unwrap_or_default();
        return Err(Status::conflict(&target.resource, name, &why));
    }
    let mut new = config.merged(&Object::new(), through)?;
    version.inspect_merged(&mut new);
    check_name(target, &new)?;
    settle_namespace(target, &mut new)?;
    to_handled(&target.resource, &mut new, through.api_version)?;
    Ok(new)
}

/// Whether there is a `null` in it, which an object does not keep.
fn has_null(object: &Object) -> bool {
    fn is_or_has(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(list) => list.iter().any(is_or_has),
            Value::Object(map) => has_null(map),
            _ => false,
        }
    }
    object.values().any(is_or_has)
}
