//! `/healthz`, `/livez` and `/readyz`.

use http::{Response, StatusCode};

use crate::{
    http::{Body, Query},
    server::ApiServer,
    verbs::text,
};

/// Looks at one thing and says what is wrong with it.
type Check = fn(&ApiServer) -> Result<(), String>;

/// What is looked at, and whether only readiness depends on it.
const CHECKS: &[(&str, bool, Check)] = &[
    ("ping", false, |_| Ok(())),
    ("log", false, |_| Ok(())),
    ("etcd", false, |server| server.store_failure().map_or(Ok(()), Err)),
    ("store", false, |server| server.store_failure().map_or(Ok(()), Err)),
    ("shutdown", true, ApiServer::is_ready),
];

/// Answers a health endpoint, or one check of it.
pub(crate) fn answer(
    server: &ApiServer,
    endpoint: &str,
    check: Option<&str>,
    query: &Query,
) -> Response<Body> {
    let excluded: Vec<&str> = query.all("exclude").collect();
    let checks = CHECKS.iter().filter(|(_, only_ready, _)| !only_ready || endpoint == "readyz");
    let checks: Vec<_> = checks.filter(|(name, ..)| check.is_none_or(|wanted| wanted == *name)).collect();
    if check.is_some() && checks.is_empty() {
        let mut response = text("text/plain; charset=utf-8", "404 page not found\n".to_owned());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let mut lines = String::new();
    let mut failed = false;
    for (name, _, run) in checks {
        if excluded.contains(name) {
            lines.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        match run(server) {
            Ok(()) => lines.push_str(&format!("[+]{name} ok\n")),
            Err(why) => {
                failed = true;
                // The reason is for the log: this page is for everyone.
                tracing::warn!(check = name, why, "health check failed");
                lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
            }
        }
    }
    if endpoint == "readyz" && check.is_none() && server.config.allows_localhost {
        lines.push_str("warn: authn-allow-localhost: programs on this machine need no credentials\n");
    }
    for name in excluded.iter().filter(|name| !CHECKS.iter().any(|(known, ..)| known == *name)) {
        lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {name:?}\n"));
    }
    if failed {
        lines.push_str(&format!("{endpoint} check failed\n"));
        let mut response = text("text/plain; charset=utf-8", lines);
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return response;
    }
    match query.flag("verbose") {
        true => text("text/plain; charset=utf-8", format!("{lines}{endpoint} check passed\n")),
        false => text("text/plain; charset=utf-8", "ok".to_owned()),
    }
}
