//! Which form a client sends and which it wants: content types and `Accept`.

use http::HeaderMap;

use crate::status::{Outcome, Status};

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// The object or list itself.
    Plain,
    /// A table, as `kubectl get` wants it.
    Table,
    /// Only the metadata.
    Metadata,
}

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// What is understood in a request.
const TAKEN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// What is understood in a request about custom resources.
pub(crate) const TAKEN_OF_CUSTOM: &str = "application/json, application/yaml";

/// One entry of an `Accept` header.
struct Wanted<'a> {
    media: &'a str,
    kind: &'a str,
    group: &'a str,
    version: &'a str,
}

fn wanted(headers: &HeaderMap) -> impl Iterator<Item = Wanted<'_>> {
    let values = headers.get_all(http::header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let mut wanted = Wanted { media: parts.next().unwrap_or_default(), kind: "", group: "", version: "" };
        for part in parts {
            match part.split_once('=') {
                Some(("as", kind)) => wanted.kind = kind,
                Some(("g", group)) => wanted.group = group,
                Some(("v", version)) => wanted.version = version,
                _ => {}
            }
        }
        wanted
    })
}

fn is_json(media: &str) -> bool {
    matches!(media, "" | "*/*" | "application/*" | "application/json")
}

/// The form of an answer about objects, of which there may be no table.
pub(crate) fn of_objects(headers: &HeaderMap, has_table: bool) -> Outcome<Form> {
    let mut any = false;
    for wanted in wanted(headers) {
        any = true;
        // Protobuf is asked for with JSON as the second choice, which is what is given.
        if !is_json(wanted.media) {
            continue;
        }
        let meta = wanted.group == "meta.k8s.io" && matches!(wanted.version, "v1" | "v1beta1");
        match wanted.kind {
            "" => return Ok(Form::Plain),
            "Table" if meta && has_table => return Ok(Form::Table),
            "PartialObjectMetadata" | "PartialObjectMetadataList" if meta => return Ok(Form::Metadata),
            _ => {}
        }
    }
    match any {
        true => Err(Status::not_acceptable("application/json")),
        false => Ok(Form::Plain),
    }
}

/// Whether aggregated discovery is asked for.
pub(crate) fn wants_aggregated_discovery(headers: &HeaderMap) -> bool {
    let mut forms = wanted(headers).filter(|wanted| is_json(wanted.media));
    forms.any(|wanted| {
        wanted.kind == "APIGroupDiscoveryList"
            && wanted.group == "apidiscovery.k8s.io"
            && wanted.version == "v2"
    })
}

/// Whether the client takes gzip.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let values =
        headers.get_all(http::header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
    })
}

/// The media type of a body, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value =
        headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// How a body with an object is encoded.
pub(crate) fn of_body(headers: &HeaderMap) -> Outcome<Encoding> {
    if headers.get(http::header::CONTENT_ENCODING).is_some_and(|value| value != "identity") {
        return Err(Status::unsupported_media_type(&format!("{TAKEN}, without a Content-Encoding")));
    }
    match media_type(headers).as_str() {
        "" if headers.get(http::header::CONTENT_TYPE).is_none_or(http::HeaderValue::is_empty) => {
            Ok(Encoding::Json)
        }
        "application/json" => Ok(Encoding::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(Encoding::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Encoding::Protobuf),
        _ => Err(Status::unsupported_media_type(TAKEN)),
    }
}
