//! apply: an object that says only what one manager wants, merged into what there is, or created from it.

use std::borrow::Cow;

use bytes::Bytes;
use http::Response;
use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    apply::{ApplyError, Request, apply as merge},
    decode::decode_yaml,
    field::Errors,
    managed::{Operation, Write},
    object::{self, Object, metadata, str_at},
    schema::Report,
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
}

impl Configuration {
    /// Reads a configuration of this version and kind, whose fields are yet to be checked.
    pub(crate) fn read(
        call: &mut Call,
        target: &Target,
        body: &Bytes,
        (api_version, kind): (&str, &str),
    ) -> Outcome<Self> {
        if call.query.get("fieldManager").is_empty() {
            let mut errors = Errors::new();
            errors.required("fieldManager", "is required for apply patch");
            return Err(Status::invalid_options(call.options_kind(), &errors));
        }
        let manager = manager(call)?;
        let decoded = without_blocking(body.len(), || decode_yaml(body));
        let decoded = decoded
            .map_err(|error| Status::bad_request(format!("error decoding YAML: {}", crate::chain(&error))))?;
        settle_duplicates(call, &decoded.duplicates)?;
        let object = decoded.object;
        check_kind(&object, api_version, kind)?;
        if metadata(&object).get("managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        if !object::name(&object).is_empty() {
            check_name(target, &object)?;
        }
        Ok(Configuration { object, manager, force: call.query.flag("force"), n_bytes: body.len() })
    }

    /// Holds the configuration against a schema. Unlike elsewhere, fields that are not known are always refused.
    pub(crate) fn check(&mut self, inspect: impl FnOnce(&mut Object) -> Report) -> Outcome<()> {
        let object = &mut self.object;
        let report = without_blocking(self.n_bytes, || inspect(object));
        let unknown = report.unknown.iter().map(|field| format!(".{field}: field not declared in schema"));
        let faults: Vec<String> = unknown.chain(report.faults.iter().cloned()).collect();
        match faults.as_slice() {
            [] => Ok(()),
            [only] => Err(self.malformed(only)),
            several => Err(self.malformed(&format!("errors:\n  {}", several.join("\n  ")))),
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
        merged.map_err(|error| match error {
            ApplyError::Conflicts(conflicts) => Status::apply_conflict(&conflicts),
            other => self.malformed(&other.to_string()),
        })
    }

    /// 400: the configuration does not fit its schema.
    fn malformed(&self, why: &str) -> Box<Status> {
        let (namespace, name) = (object::namespace(&self.object), object::name(&self.object));
        let kind = shown_kind(&self.object);
        Status::bad_request(format!(
            "failed to create typed patch object ({namespace}/{name}; {kind}): {why}"
        ))
    }
}

/// Fields that were given twice are refused, told or ignored, as the client wants.
fn settle_duplicates(call: &mut Call, duplicates: &[String]) -> Outcome<()> {
    let twice: Vec<String> = duplicates.iter().map(|field| format!("duplicate field {field:?}")).collect();
    match FieldValidation::of(call)? {
        FieldValidation::Strict if !twice.is_empty() => {
            Err(Status::bad_request(format!("error strict decoding YAML: {}", twice.join(", "))))
        }
        FieldValidation::Warn => {
            call.warnings.extend(twice);
            Ok(())
        }
        _ => Ok(()),
    }
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
        false => Err(Status::bad_request(format!(
            "invalid object type: {}; this path takes {api_version}, Kind={kind}",
            shown_kind(object)
        ))),
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
    let mut creating = Configuration::read(call, target, body, (&api_version, &resource.kind))?;
    creating.check(|object| version.inspect_applied(object))?;
    let whole = (part.is_none() && server.registry.unrestricted).then(|| creating.clone());
    restrict_applied(resource, part, true, &mut creating.object);
    let is_whole = whole.is_some();
    let mut changing = whole.map_or(Cow::Borrowed(&creating), Cow::Owned);
    if part.is_none() && !is_whole && holds_reserved(resource, &creating.object) {
        restrict_applied(resource, part, false, &mut changing.to_mut().object);
    }
    let has_nulls = has_null(&changing.object);
    let catalog = server.registry.catalog.load_full();
    let subresource = part.map_or("", |part| part.name);
    let through =
        Through { served: Served { resource, catalog: &catalog }, api_version: &api_version, subresource };
    let change = |current: &Object| {
        let mut new = changing.merged(current, &through)?;
        if has_nulls {
            version.inspect(&mut new);
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
    version.inspect(&mut new);
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
