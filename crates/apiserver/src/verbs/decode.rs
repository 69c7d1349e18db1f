//! Reading the object in a body: its encoding, its kind, its fields.

use std::sync::LazyLock;

use bytes::Bytes;
use schemars::JsonSchema;
use serde_json::Value;
use windlass_machinery::{
    decode::{DecodeError, Decoded, decode_json, decode_yaml},
    object::{Object, str_at},
    schema::{Node, Report, check},
};

use super::without_blocking;
use crate::{
    codec::protobuf,
    http::{Encoding, TAKEN_OF_CUSTOM, Target, of_body},
    server::Call,
    status::{Outcome, Status},
};

/// What to do about fields that are not known or given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    pub(crate) fn of(call: &Call) -> Outcome<Self> {
        match call.query.get("fieldValidation") {
            "Ignore" => Ok(FieldValidation::Ignore),
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            other => {
                let mut errors = windlass_machinery::field::Errors::new();
                errors.not_supported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]);
                Err(Status::invalid_options(call.options_kind(), &errors))
            }
        }
    }
}

/// A body as it came; `kind` is what was expected.
fn body(call: &Call, body: &Bytes, kind: &str) -> Outcome<Decoded> {
    let decoded = match of_body(&call.headers)? {
        Encoding::Json => without_blocking(body.len(), || decode_json(body)),
        Encoding::Yaml => without_blocking(body.len(), || decode_yaml(body)),
        Encoding::Protobuf => {
            return match protobuf::decode(body, super::body::MOST_BODY) {
                Ok(object) => Ok(Decoded { object, ..Decoded::default() }),
                Err(error) => Err(unrecognized(kind, body, "", &error)),
            };
        }
    };
    match decoded {
        // A document in which nothing stands says nothing.
        Err(DecodeError::Kind("null")) => Ok(Decoded::default()),
        Err(DecodeError::Json(_)) if body.trim_ascii() == b"null" => Ok(Decoded::default()),
        decoded => decoded.map_err(|error| {
            let why = match error {
                DecodeError::Json(_) | DecodeError::Kind(_) => {
                    "couldn't get version/kind; json parse error: "
                }
                _ => "",
            };
            unrecognized(kind, body, why, &error)
        }),
    }
}

fn unrecognized(
    kind: &str,
    body: &[u8],
    why: &str,
    error: &(dyn std::error::Error + 'static),
) -> Box<Status> {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why}{} ({})",
        crate::chain(error),
        summary(body)
    ))
}

/// Most bytes of a body that are shown.
const SHOWN: usize = 30;

/// The beginning of a body: as text when it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    let shown = &body[..body.len().min(SHOWN)];
    let more = if body.len() > SHOWN { " ..." } else { "" };
    match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let digits: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits}{more}")
        }
    }
}

/// Reads an object of the target's kind and checks its fields.
pub(crate) fn object(call: &mut Call, target: &Target, bytes: &Bytes) -> Outcome<Object> {
    let kind = &target.resource.kind;
    let version = target.resource.version(&target.version).ok_or_else(Status::no_such_path)?;
    if target.resource.custom().is_some() && of_body(&call.headers)? == Encoding::Protobuf {
        return Err(Status::unsupported_media_type(TAKEN_OF_CUSTOM));
    }
    let Decoded { mut object, duplicates, repeated } = body(call, bytes, kind)?;
    let api_version = target.resource.api_version(&target.version);
    settle_kind(&mut object, &api_version, kind)?;
    // What is of another kind is not written down: it may be a secret that the rules for this kind do not look for.
    note(call, &object);
    let report = version.inspect(&mut object);
    fields(call, report, &api_version, kind, (&duplicates, &repeated))?;
    Ok(object)
}

/// Tells the audit log what was sent.
fn note(call: &mut Call, object: &Object) {
    if let Some(trail) = &mut call.trail {
        trail.sent(object);
    }
}

/// A type that has no row, but stands in some bodies.
pub(crate) struct Extra {
    /// The versions it may be sent in, the usual one first; none: any.
    api_versions: &'static [&'static str],
    kind: &'static str,
    /// Its schema.
    pub(crate) schema: LazyLock<Node>,
}

fn compiled<T: JsonSchema>() -> Node {
    crate::openapi::compile(&T::schema_name(), |generator| generator.subschema_for::<T>())
}

/// How to delete. Clients send it in the version of whatever they delete.
pub(crate) static DELETE_OPTIONS: Extra = Extra {
    api_versions: &[],
    kind: "DeleteOptions",
    schema: LazyLock::new(compiled::<k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions>),
};

/// Where a pod shall run.
pub(crate) static BINDING: Extra = Extra {
    api_versions: &["v1"],
    kind: "Binding",
    schema: LazyLock::new(compiled::<k8s_openapi::api::core::v1::Binding>),
};

/// A token for a service account.
pub(crate) static TOKEN_REQUEST: Extra = Extra {
    api_versions: &["authentication.k8s.io/v1"],
    kind: "TokenRequest",
    schema: LazyLock::new(compiled::<k8s_openapi::api::authentication::v1::TokenRequest>),
};

/// Which pod shall go.
pub(crate) static EVICTION: Extra = Extra {
    api_versions: &["policy/v1", "policy/v1beta1"],
    kind: "Eviction",
    schema: LazyLock::new(compiled::<k8s_openapi::api::policy::v1::Eviction>),
};

/// How many there shall be.
pub(crate) static SCALE: Extra = Extra {
    api_versions: &["autoscaling/v1"],
    kind: "Scale",
    schema: LazyLock::new(compiled::<k8s_openapi::api::autoscaling::v1::Scale>),
};

/// Reads an object of a type that has no row and checks its fields.
pub(crate) fn extra(call: &mut Call, bytes: &Bytes, extra: &Extra) -> Outcome<Object> {
    let Decoded { mut object, duplicates, repeated } = body(call, bytes, extra.kind)?;
    note(call, &object);
    let given = str_at(&object, &["apiVersion"]).filter(|given| !given.is_empty());
    let any = extra.api_versions.is_empty();
    let known = given.filter(|given| any || extra.api_versions.contains(given));
    let usual = extra.api_versions.first().copied().unwrap_or("v1");
    let api_version = known.unwrap_or(usual).to_owned();
    settle_kind(&mut object, &api_version, extra.kind)?;
    let report = check(&extra.schema, &mut object);
    fields(call, report, &api_version, extra.kind, (&duplicates, &repeated))?;
    Ok(object)
}

/// Sees to it that the object is of the kind that the URL names.
pub(crate) fn settle_kind(object: &mut Object, api_version: &str, kind: &str) -> Outcome<()> {
    let given = |field: &str| match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(given)) => Ok(Some(given.as_str()).filter(|given| !given.is_empty())),
        Some(_) => Err(Status::bad_request(format!(
            "couldn't get version/kind; json parse error: the field {field} of a {kind} must be a string"
        ))),
    };
    let (given_version, given_kind) = (given("apiVersion")?, given("kind")?);
    if let Some(other) = given_kind.filter(|given| *given != kind) {
        let version = given_version.unwrap_or(api_version).rsplit('/').next().unwrap_or_default();
        return Err(Status::bad_request(format!(
            "{other} in version {version:?} cannot be handled as a {kind}: the kinds differ"
        )));
    }
    if let Some(other) = given_version.filter(|given| *given != api_version) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({other}) does not match the expected API version ({api_version})"
        )));
    }
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(())
}

/// Refuses fields of the wrong type, and tells of those that are not known or given twice: by their paths, and where the
/// body is YAML by line.
fn fields(
    call: &mut Call,
    report: Report,
    api_version: &str,
    kind: &str,
    (duplicates, repeated): (&[String], &[String]),
) -> Outcome<()> {
    let validation = FieldValidation::of(call)?;
    if let Some(fault) = report.faults.first() {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        return Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {fault}"
        )));
    }
    let unknown = report.unknown.iter().map(|field| format!("unknown field {field:?}"));
    let by_path = duplicates.iter().filter(|_| repeated.is_empty());
    let by_path = by_path.map(|field| format!("duplicate field {field:?}"));
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => {
            call.warnings.extend(repeated.iter().cloned().chain(unknown).chain(by_path));
        }
        FieldValidation::Strict => {
            let by_line = (!repeated.is_empty())
                .then(|| format!("yaml: unmarshal errors:\n  {}", repeated.join("\n  ")));
            let found: Vec<String> = by_line.into_iter().chain(unknown).chain(by_path).collect();
            if !found.is_empty() {
                let found = found.join(", ");
                return Err(Status::bad_request(format!(
                    "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {found}",
                    api_version.rsplit('/').next().unwrap_or_default()
                )));
            }
        }
    }
    Ok(())
}
