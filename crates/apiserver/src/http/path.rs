//! What a URL asks for.

use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::resources::{Catalog, Resource};

/// What a URL asks for.
#[derive(Debug)]
pub(crate) enum Route {
    /// Objects of a resource.
    Resource(Target),
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    Version(String, String),
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`.
    OpenApiIndex,
    /// `/openapi/v3/PATH`.
    OpenApi(String),
    /// `/healthz`, `/livez`, `/readyz`, and one check of them.
    Health(&'static str, Option<String>),
    /// `/.well-known/openid-configuration`: who issues tokens of service accounts.
    Issuer,
    /// `/openid/v1/jwks`: the keys that these tokens are verified with.
    IssuerKeys,
    /// `/metrics`.
    Metrics,
    /// `/version`.
    ServerVersion,
    /// `/`: all paths.
    Paths,
}

/// Objects of a resource, and which of them.
#[derive(Debug)]
pub(crate) struct Target {
    /// The row.
    pub(crate) resource: Arc<Resource>,
    /// The version asked for, which is served.
    pub(crate) version: String,
    /// The namespace; empty for all, and for cluster-wide resources.
    pub(crate) namespace: String,
    /// One object.
    pub(crate) name: Option<String>,
    /// A subresource of it.
    pub(crate) sub: Option<String>,
    /// The old form of a watch, `/api/v1/watch/…`.
    pub(crate) watch: bool,
}

/// Finds out what a path asks for; `None` when nothing is served there.
pub(crate) fn route(path: &str, catalog: &Catalog) -> Option<Route> {
    let mut segments = Vec::new();
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    for segment in path.split('/').filter(|_| !path.is_empty()) {
        // What is missing in the middle is not guessed.
        if segment.is_empty() {
            return None;
        }
        segments.push(percent_decode_str(segment).decode_utf8().ok()?);
    }
    let parts: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    match parts.as_slice() {
        [] => Some(Route::Paths),
        ["api"] => Some(Route::CoreVersions),
        ["apis"] => Some(Route::Groups),
        ["apis", group] => Some(Route::Group((*group).to_owned())),
        ["api", "v1"] => Some(Route::Version(String::new(), "v1".to_owned())),
        ["apis", group, version] => Some(Route::Version((*group).to_owned(), (*version).to_owned())),
        ["api", version, rest @ ..] => target(catalog, "", version, rest).map(Route::Resource),
        ["apis", group, version, rest @ ..] => target(catalog, group, version, rest).map(Route::Resource),
        ["openapi", "v2"] => Some(Route::OpenApiV2),
        ["openapi", "v3"] => Some(Route::OpenApiIndex),
        ["openapi", "v3", rest @ ..] => Some(Route::OpenApi(rest.join("/"))),
        ["healthz", rest @ ..] => Some(Route::Health("healthz", check_name(rest)?)),
        ["livez", rest @ ..] => Some(Route::Health("livez", check_name(rest)?)),
        ["readyz", rest @ ..] => Some(Route::Health("readyz", check_name(rest)?)),
        [".well-known", "openid-configuration"] => Some(Route::Issuer),
        ["openid", "v1", "jwks"] => Some(Route::IssuerKeys),
        ["metrics"] => Some(Route::Metrics),
        ["version"] => Some(Route::ServerVersion),
        _ => None,
    }
}

fn check_name(rest: &[&str]) -> Option<Option<String>> {
    match rest {
        [] => Some(None),
        [name] => Some(Some((*name).to_owned())),
        _ => None,
    }
}

fn target(catalog: &Catalog, group: &str, version: &str, rest: &[&str]) -> Option<Target> {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        // The parts of a namespace look like resources in it.
        ["namespaces", _, "status" | "finalize"] | ["namespaces"] | ["namespaces", _] => ("", rest),
        ["namespaces", namespace, rest @ ..] => (*namespace, rest),
        rest => ("", rest),
    };
    let (plural, rest) = rest.split_first()?;
    let resource = catalog.at(group, version, plural)?;
    if !namespace.is_empty() && !resource.namespaced {
        return None;
    }
    let (name, sub) = match rest {
        [] => (None, None),
        [name] => (Some((*name).to_owned()), None),
        [name, sub] => (Some((*name).to_owned()), Some((*sub).to_owned())),
        // What is behind a proxied path is not ours to understand.
        [name, "proxy", ..] => (Some((*name).to_owned()), Some("proxy".to_owned())),
        _ => return None,
    };
    if resource.namespaced && name.is_some() && namespace.is_empty() {
        return None;
    }
    Some(Target {
        resource: Arc::clone(resource),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        name,
        sub,
        watch,
    })
}
