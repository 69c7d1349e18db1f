//! How each kind of request is answered: one file per verb.

mod actions;
mod apply;
pub(crate) mod body;
mod components;
mod decode;
mod delete;
mod patch;
mod read;
pub(crate) mod reviews;
pub(crate) mod scale;
mod tokens;
mod write;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    metadata::{MANAGER_MOST, validate_field_manager},
    object::{HEAD, Object, to_line},
    stored::Stored,
};

use crate::{
    access::Allowed,
    http::{Body, Route, Target, is_dry_run, media_type, of_objects},
    openapi::{self, Document, Documents},
    registry::{Author, Rendering, Written, render::Include},
    resources::{Action, Catalog, Part},
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// Answers a request whose route is known and allowed, and whose body has been read.
pub(crate) async fn answer(
    server: &Arc<ApiServer>,
    call: &mut Call,
    allowed: Allowed,
    body: Bytes,
) -> Outcome<Response<Body>> {
    let mut target = match allowed.into_route() {
        Route::Resource(target) => target,
        other => return describe(server, call, other).await,
    };
    let reads = matches!(call.method, Method::GET | Method::HEAD);
    check_names(&target)?;
    if let (true, Some(trail)) = (call.method == Method::PATCH, &mut call.trail) {
        trail.sent_patch(&body);
    }
    for _ in 0..REDEFINED {
        call.warnings.clear();
        match dispatch(server, call, &target, &body).await {
            // Its definition has changed meanwhile: it begins anew, by the rules that hold now.
            Err(status) if status.redefined => {
                let catalog = server.registry.catalog.load_full();
                let (row, version) = (&target.resource, &target.version);
                let row = catalog.at(&row.group, version, &row.plural).cloned();
                target.resource = row.ok_or_else(Status::no_such_path)?;
            }
            Ok(response) if !reads && server.definitions.is_theirs(&target.resource) => {
                // What is created is waited for where its name is known.
                if call.method != Method::POST {
                    server.definitions.caught_up(&server.registry, target.name.as_deref()).await;
                }
                return Ok(response);
            }
            outcome => return outcome,
        }
    }
    Err(Status::redefined())
}

/// The patches that are understood for custom kinds, which do not say how their lists are merged.
const PATCHES_OF_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// How often a request begins anew when its resource is defined anew. The time it may take is bounded besides.
const REDEFINED: usize = 100;

/// Answers a request about objects.
async fn dispatch(
    server: &Arc<ApiServer>,
    call: &mut Call,
    target: &Target,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    if !matches!(call.method, Method::GET | Method::HEAD) {
        // Whoever cannot be answered must not have written.
        rendering(call, target)?;
    }
    let version = target.resource.version(&target.version);
    call.warnings.extend(version.and_then(|version| version.warning.clone()));
    let is_strategic = media_type(&call.headers) == "application/strategic-merge-patch+json";
    if call.method == Method::PATCH && is_strategic && target.resource.custom().is_some() {
        return Err(Status::unsupported_media_type(PATCHES_OF_CUSTOM));
    }
    if target.watch && !matches!(call.method, Method::GET | Method::HEAD) {
        return Err(Status::method_not_allowed());
    }
    if let Some(sub) = target.sub.as_deref() {
        return subresource(server, call, target, sub, body).await;
    }
    let resource = &target.resource;
    if resource.computed {
        return components::answer(server, call, target);
    }
    if resource.review.is_some() {
        return match call.method {
            Method::POST if target.name.is_none() => reviews::create(server, call, target, body).await,
            _ => Err(Status::method_not_allowed()),
        };
    }
    match (call.method.as_str(), &target.name) {
        ("GET" | "HEAD", _) if target.watch || call.query.flag("watch") => {
            read::watch(server, call, target).await
        }
        ("GET" | "HEAD", Some(_)) => read::get(server, call, target).await,
        ("GET" | "HEAD", None) => read::list(server, call, target).await,
        ("POST", None) if resource.namespaced && target.namespace.is_empty() => {
            Err(Status::method_not_allowed())
        }
        ("POST", None) => write::create(server, call, target, body).await,
        ("PUT", Some(_)) => write::update(server, call, target, None, body).await,
        ("PATCH", Some(_)) => patch::patch(server, call, target, None, body).await,
        ("DELETE", Some(_)) => delete::delete(server, call, target, body).await,
        ("DELETE", None) => delete::delete_collection(server, call, target, body).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Names in a path must be fit to be one segment of it.
fn check_names(target: &Target) -> Outcome<()> {
    let names = [("Name", target.name.as_deref()), ("Namespace", Some(target.namespace.as_str()))];
    for (what, name) in names {
        let name = name.unwrap_or_default();
        if let Some(fault) = windlass_machinery::names::path_segment(name, false) {
            return Err(Status::bad_request(format!("{what} parameter invalid: {name:?}: {fault}")));
        }
    }
    Ok(())
}

async fn subresource(
    server: &Arc<ApiServer>,
    call: &mut Call,
    target: &Target,
    sub: &str,
    body: &Bytes,
) -> Outcome<Response<Body>> {
    let resource = Arc::clone(&target.resource);
    if sub == "scale" && resource.scale.is_some() {
        return scale::answer(server, call, target, body).await;
    }
    if let Some(part) = resource.part(sub) {
        if part.put_only && call.method != Method::PUT {
            return Err(Status::method_not_allowed());
        }
        return match call.method.as_str() {
            "GET" | "HEAD" => read::get(server, call, target).await,
            "PUT" => write::update(server, call, target, Some(part), body).await,
            "PATCH" => patch::patch(server, call, target, Some(part), body).await,
            _ => Err(Status::method_not_allowed()),
        };
    }
    let action = resource.actions.iter().find(|(name, _)| *name == sub).map(|(_, action)| *action);
    match action {
        None => Err(Status::no_such_path()),
        Some(Action::Kubelet) if sub == "log" && !matches!(call.method, Method::GET | Method::HEAD) => {
            Err(Status::method_not_allowed())
        }
        Some(Action::Kubelet) => actions::kubelet(server, call, target, sub).await,
        Some(_) if call.method != Method::POST => Err(Status::method_not_allowed()),
        Some(Action::Bind) => actions::bind(server, call, target, body).await,
        Some(Action::Evict) => actions::evict(server, call, target, body).await,
        Some(Action::Token) => tokens::create(server, call, target, body).await,
    }
}

/// Everything that is not about objects.
async fn describe(server: &Arc<ApiServer>, call: &Call, route: Route) -> Outcome<Response<Body>> {
    if !matches!(call.method, Method::GET | Method::HEAD) {
        return Err(Status::method_not_allowed());
    }
    let catalog = server.registry.catalog.load_full();
    // A document that is asked for the first time takes a while to build.
    let build = |find: fn(&Documents, &Catalog, &str) -> Option<Arc<Document>>, path: String| {
        let (server, catalog) = (Arc::clone(server), Arc::clone(&catalog));
        tokio::task::spawn_blocking(move || find(&server.openapi, &catalog, &path))
    };
    match route {
        Route::CoreVersions => Ok(server.discovery.core(&catalog, &call.headers, server.config.advertise)),
        Route::Groups => Ok(server.discovery.groups(&catalog, &call.headers)),
        Route::Group(group) => server.discovery.group(&catalog, &group).ok_or_else(Status::no_such_path),
        Route::Version(group, version) => {
            server.discovery.version(&catalog, &group, &version).ok_or_else(Status::no_such_path)
        }
        Route::OpenApiV2 if takes_protobuf(call) => {
            document(build(|all, catalog, _| Some(all.v2_protobuf(catalog)), String::new()).await, call)
        }
        Route::OpenApiV2 => {
            document(build(|all, catalog, _| Some(all.v2(catalog)), String::new()).await, call)
        }
        Route::OpenApiIndex => {
            document(build(|all, catalog, _| Some(all.index(catalog)), String::new()).await, call)
        }
        Route::OpenApi(path) => document(build(|all, catalog, path| all.v3(catalog, path), path).await, call),
        Route::Health(endpoint, check) => Ok(server.health(endpoint, check.as_deref(), &call.query)),
        Route::Metrics => Ok(text(
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            server.metrics.render(server),
        )),
        Route::ServerVersion => Ok(json(StatusCode::OK, crate::discovery::version_info().to_string())),
        Route::Issuer => Ok(json(StatusCode::OK, server.access.accounts.configuration(&server.config))),
        Route::IssuerKeys => {
            let mut response = json(StatusCode::OK, server.access.accounts.key_set());
            let media = HeaderValue::from_static("application/jwk-set+json");
            response.headers_mut().insert(header::CONTENT_TYPE, media);
            Ok(response)
        }
        Route::Paths => Ok(json(StatusCode::OK, server.discovery.paths(&catalog))),
        Route::Resource(_) => Err(Status::internal("a resource is not a document")),
    }
}

/// Whether a client asks for the Swagger document in protobuf.
fn takes_protobuf(call: &Call) -> bool {
    let accepted = call.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|form| [openapi::ASKED_AS, openapi::MEDIA_TYPE].contains(&form.trim()))
}

fn document(
    built: Result<Option<Arc<Document>>, tokio::task::JoinError>,
    call: &Call,
) -> Outcome<Response<Body>> {
    let document = built.map_err(Status::internal)?.ok_or_else(Status::no_such_path)?;
    let etag = &document.etag;
    let known =
        call.headers.get(header::IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == etag.as_bytes());
    let mut response = match (known, crate::http::takes_gzip(&call.headers)) {
        (true, _) => Response::new(Body::empty()),
        (false, true) => {
            let mut response = Response::new(Body::whole(document.gzip.clone()));
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        }
        (false, false) => Response::new(Body::whole(document.plain())),
    };
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(document.media_type));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
    if let Ok(value) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, value);
    }
    Ok(response)
}

/// Bytes that are worth leaving the thread that serves everyone for.
const HEAVY: usize = 64 * 1024;

/// Does what takes long with large bodies without keeping other requests waiting.
pub(crate) fn without_blocking<T>(n_bytes: usize, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let threads =
        Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    match threads && n_bytes > HEAVY {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

/// How this client wants objects to be shown.
pub(crate) fn rendering(call: &Call, target: &Target) -> Outcome<Rendering> {
    let include = match call.query.get("includeObject") {
        "" | "Metadata" => Include::Metadata,
        "None" => Include::Nothing,
        "Object" => Include::Object,
        other => {
            return Err(Status::bad_request(format!(
                "invalid value {other:?} for the query parameter includeObject: expected None, Metadata or Object"
            )));
        }
    };
    Ok(Rendering {
        api_version: target.resource.api_version(&target.version),
        resource: Arc::clone(&target.resource),
        form: of_objects(&call.headers, has_table(target))?,
        include,
        now: Timestamp::now(),
    })
}

/// Whether there is a table of what is answered: not of what is only asked, nor of what is done to an object.
fn has_table(target: &Target) -> bool {
    let resource = &target.resource;
    let sub = target.sub.as_deref();
    resource.review.is_none() && !resource.actions.iter().any(|(name, _)| Some(*name) == sub)
}

/// The author of a write, for the registry.
pub(crate) fn author<'a>(call: &'a Call, manager: &'a str, api_version: &'a str) -> Outcome<Author<'a>> {
    Ok(Author {
        user: &call.user,
        manager,
        api_version,
        applies: false,
        dry_run: dry_run(call)?,
        through: "",
        notes: call.notes(),
        warnings: vec![],
    })
}

/// Whether the query says that nothing is to be committed.
pub(crate) fn dry_run(call: &Call) -> Outcome<bool> {
    let mut errors = Errors::new();
    let dry = is_dry_run(call.query.all("dryRun"), &mut errors);
    match errors.is_empty() {
        true => Ok(dry),
        false => Err(Status::invalid_options(call.options_kind(), &errors)),
    }
}

/// The name under which written fields are recorded: what the client says, or what it is.
pub(crate) fn manager(call: &Call) -> Outcome<String> {
    let given = call.query.get("fieldManager");
    let mut errors = Errors::new();
    validate_field_manager(given, "fieldManager", &mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid_options(call.options_kind(), &errors));
    }
    if !given.is_empty() {
        return Ok(given.to_owned());
    }
    let agent =
        call.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name: String = agent.split('/').next().unwrap_or_default().chars().take(MANAGER_MOST).collect();
    Ok(if name.is_empty() { "unknown".to_owned() } else { name })
}

/// Shows a written object.
pub(crate) fn written(
    call: &mut Call,
    target: &Target,
    written: &Written,
    warnings: Vec<String>,
) -> Outcome<Response<Body>> {
    call.warnings.extend(warnings);
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    object(call, target, &written.value, written.revision, status)
}

/// Shows one object.
pub(crate) fn object(
    call: &Call,
    target: &Target,
    value: &Bytes,
    revision: u64,
    status: StatusCode,
) -> Outcome<Response<Body>> {
    let rendering = rendering(call, target)?;
    if rendering.is_verbatim()
        && let Some(stored) = Stored::new(value)
    {
        let mut middle = Vec::with_capacity(48);
        stored.write_revision(revision, &mut middle);
        let split = stored.split();
        let len = value.len() + middle.len() + 1;
        // Small objects are one write; large ones are not copied.
        if len <= 16 * 1024 {
            let mut whole = Vec::with_capacity(len);
            whole.extend_from_slice(&value[..split]);
            whole.extend_from_slice(&middle);
            whole.extend_from_slice(&value[split..]);
            whole.push(b'\n');
            return Ok(json(status, whole));
        }
        let pieces =
            vec![value.slice(..split), middle.into(), value.slice(split..), Bytes::from_static(b"\n")];
        let mut response = Response::new(Body::pieces(pieces));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        return Ok(response);
    }
    let mut out = Vec::with_capacity(value.len() + 256);
    rendering.single(value, revision, true, &mut out);
    out.push(b'\n');
    Ok(json(status, out))
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An answer in plain text.
pub(crate) fn text(media: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// The part that a write goes through, for those that name one.
pub(crate) type ThroughPart<'a> = Option<&'a Part>;

/// A duration as Go writes it, such as `1m30s`; a bare number is in seconds.
pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        total += number
            * match &rest[..unit] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = &rest[unit..];
    }
    Duration::try_from_secs_f64(total).ok()
}

/// A `Status` that says that all went well.
pub(crate) fn success(details: Value) -> Response<Body> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    json(StatusCode::OK, Status::line(&status))
}

/// An object that is made for one answer, as it is sent.
pub(crate) fn object_json(status: StatusCode, object: &Object) -> Response<Body> {
    json(status, to_line(object, HEAD))
}
