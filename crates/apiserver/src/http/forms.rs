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

/// What is given in an answer.
const GIVEN: &str = "application/json, application/yaml";

/// What is given as a stream.
const GIVEN_AS_STREAM: &str = "application/json;stream=watch";

/// One entry of an `Accept` header.
#[derive(Default)]
struct Wanted<'a> {
    media: &'a str,
    kind: &'a str,
    group: &'a str,
    version: &'a str,
    is_pretty: bool,
    is_stream: bool,
    /// How much it is wanted, in thousandths.
    quality: u16,
}

impl<'a> Wanted<'a> {
    fn new(entry: &'a str) -> Self {
        let mut parts = entry.split(';').map(str::trim);
        let mut wanted =
            Wanted { media: parts.next().unwrap_or_default(), quality: 1000, ..Wanted::default() };
        for part in parts {
            match part.split_once('=') {
                Some(("as", kind)) => wanted.kind = kind,
                Some(("g", group)) => wanted.group = group,
                Some(("v", version)) => wanted.version = version,
                Some(("pretty", is_pretty)) => wanted.is_pretty = is_pretty == "1",
                Some(("stream", stream)) => wanted.is_stream = !stream.is_empty(),
                Some(("q", quality)) => {
                    wanted.quality =
                        quality.parse().map_or(1000, |q: f32| (q.clamp(0.0, 1.0) * 1000.0) as u16);
                }
                _ => {}
            }
        }
        wanted
    }

    /// What it would be answered with, if it can be. Not everything can be shown as a table.
    fn accepted(&self, has_table: bool) -> Option<Accepted> {
        // Protobuf is asked for with JSON as the second choice, which is what is given.
        let encoding = match self.media {
            "application/yaml" if !self.is_stream => Encoding::Yaml,
            media if is_json(media) => Encoding::Json,
            _ => return None,
        };
        let meta = self.group == "meta.k8s.io" && matches!(self.version, "v1" | "v1beta1");
        let form = match self.kind {
            "" => Form::Plain,
            "Table" if meta && has_table => Form::Table,
            "PartialObjectMetadata" | "PartialObjectMetadataList" if meta => Form::Metadata,
            _ => return None,
        };
        Some(Accepted { form, encoding, is_pretty: self.is_pretty })
    }

    /// What is wanted more comes first, and what is said more exactly.
    fn rank(&self) -> (u16, bool) {
        (self.quality, !self.media.ends_with('*'))
    }
}

/// How an answer about objects is given.
pub(crate) struct Accepted {
    pub(crate) form: Form,
    pub(crate) encoding: Encoding,
    pub(crate) is_pretty: bool,
}

fn wanted(headers: &HeaderMap) -> impl Iterator<Item = Wanted<'_>> {
    let values = headers.get_all(http::header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(Wanted::new)
}

fn is_json(media: &str) -> bool {
    matches!(media, "" | "*/*" | "application/*" | "application/json")
}

/// What is accepted of what is wanted; nothing if nothing can be.
pub(crate) fn accepted(headers: &HeaderMap) -> Option<Accepted> {
    accepted_of(headers, true)
}

fn accepted_of(headers: &HeaderMap, has_table: bool) -> Option<Accepted> {
    if !headers.contains_key(http::header::ACCEPT) {
        return Some(Accepted { form: Form::Plain, encoding: Encoding::Json, is_pretty: false });
    }
    let mut best: Option<((u16, bool), Accepted)> = None;
    for wanted in wanted(headers) {
        if best.as_ref().is_none_or(|(rank, _)| wanted.rank() > *rank)
            && let Some(accepted) = wanted.accepted(has_table)
        {
            best = Some((wanted.rank(), accepted));
        }
    }
    best.map(|(_, accepted)| accepted)
}

/// The form of an answer about objects, of which there may be no table.
pub(crate) fn of_objects(headers: &HeaderMap, has_table: bool) -> Outcome<Form> {
    accepted_of(headers, has_table).map(|accepted| accepted.form).ok_or_else(|| Status::not_acceptable(GIVEN))
}

/// Refuses a stream in a form that has none.
pub(crate) fn check_stream(headers: &HeaderMap) -> Outcome<()> {
    match accepted(headers) {
        Some(Accepted { encoding: Encoding::Json, .. }) => Ok(()),
        _ => Err(Status::not_acceptable(GIVEN_AS_STREAM)),
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
