//! get, list and watch.

use std::{io::Write, time::Duration};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures_util::stream;
use http::{HeaderValue, Response, StatusCode, header};
use windlass_access::authn::Shown;
use windlass_machinery::field::Errors;

use super::{json, object, rendering};
use crate::{
    access::Permit,
    bulk::{bulk, give_way},
    http::{Body, Handshake, Query, Style, Target, check_stream, refuse, takes_gzip},
    registry::{ListOptions, Listing, Rendering, Selection, WatchOptions, list, watch_stream},
    server::{ApiServer, Call},
    status::{Outcome, Status},
};

/// One object.
pub(crate) async fn get(server: &ApiServer, call: &Call, target: &Target) -> Outcome<Response<Body>> {
    let name = target.name.as_deref().unwrap_or_default();
    let revision = revision(call.query.get("resourceVersion"))?;
    let entry = server.registry.get(&target.resource, &target.namespace, name, revision).await?;
    object(call, target, &entry.value, entry.revision.get(), StatusCode::OK)
}

/// Many objects.
pub(crate) async fn list(server: &ApiServer, call: &Call, target: &Target) -> Outcome<Response<Body>> {
    let options = list_options(call, target)?;
    let rendering = rendering(call, target)?;
    let listing = server.registry.list(&target.resource, options).await?;
    Ok(send(call, listing, rendering).await)
}

/// Sends a list: at once when it is small, else piece by piece.
pub(crate) async fn send(call: &Call, mut listing: Listing, rendering: Rendering) -> Response<Body> {
    let mut out = list::chunk();
    rendering.list_head(&list::list_metadata(&listing), &mut out);
    let is_long = listing.is_long();
    let (listing, rendering, mut out, more) = bulk(is_long, async move {
        let more = listing.fill(&rendering, &mut true, &mut out).await;
        (listing, rendering, out, more)
    })
    .await;
    if !more {
        out.extend_from_slice(b"]}\n");
        return json(StatusCode::OK, out);
    }
    let gzip = takes_gzip(&call.headers) && Style::of(&call.headers, &call.query).is_none();
    let encoder = gzip.then(|| GzEncoder::new(Vec::new(), Compression::new(1)));
    let sending = Sending { listing, rendering, encoder, made: Some(out), last: Bytes::new(), more: true };
    let chunks = stream::unfold(sending, move |mut sending| async move {
        // A piece has just been sent, which has kept this thread busy.
        give_way();
        bulk(is_long, async move { Some((sending.next().await?, sending)) }).await
    });
    let mut response = Response::new(Body::stream(chunks));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
    if gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// A list that is sent piece by piece.
struct Sending {
    listing: Listing,
    rendering: Rendering,
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// What has been made but not sent.
    made: Option<Vec<u8>>,
    /// What was sent last: once it has left, its memory serves for the next piece.
    last: Bytes,
    /// Whether there are more objects.
    more: bool,
}

impl Sending {
    async fn next(&mut self) -> Option<Bytes> {
        let piece = match self.made.take() {
            Some(made) => made,
            None if !self.more => return None,
            None => {
                let mut piece = self.room();
                self.more = self.listing.fill(&self.rendering, &mut false, &mut piece).await;
                if !self.more {
                    piece.extend_from_slice(b"]}\n");
                }
                piece
            }
        };
        let Some(encoder) = &mut self.encoder else {
            self.last = piece.into();
            return Some(self.last.clone());
        };
        encoder.write_all(&piece).expect("writing to memory cannot fail");
        let squeezed = match self.more {
            true => std::mem::take(encoder.get_mut()),
            false => self.encoder.take().and_then(|encoder| encoder.finish().ok()).unwrap_or_default(),
        };
        self.last = piece.into();
        Some(squeezed.into())
    }

    fn room(&mut self) -> Vec<u8> {
        let mut last = std::mem::take(&mut self.last);
        if !last.is_unique() {
            return list::chunk();
        }
        last.clear();
        last.into()
    }
}

/// A revision as clients give it: absent is the newest, `0` is any.
pub(crate) fn revision(text: &str) -> Outcome<Option<u64>> {
    match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            let mut errors = Errors::new();
            errors.invalid_str("resourceVersion", text, "must be a whole number as the server gave it");
            Status::invalid_options("ListOptions", &errors)
        }),
    }
}

/// What a list or a deletion of many is about.
pub(crate) fn list_options(call: &Call, target: &Target) -> Outcome<ListOptions> {
    let query = &call.query;
    let (token, version, rule) =
        (query.get("continue"), query.get("resourceVersion"), query.get("resourceVersionMatch"));
    check_list_options(call, false)?;
    if !token.is_empty() && !matches!(version, "" | "0") {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    let limit = query.int("limit")?.unwrap_or(0);
    let revision = revision(version)?;
    // With a limit and no rule, a revision has always meant exactly that one.
    let exact = match rule {
        "Exact" => true,
        "" => limit > 0 && revision.is_some_and(|revision| revision > 0),
        _ => false,
    };
    Ok(ListOptions {
        namespace: target.namespace.clone(),
        selection: selection(call, target)?,
        limit: usize::try_from(limit).unwrap_or(0),
        token: token.to_owned(),
        revision,
        exact,
    })
}

fn selection(call: &Call, target: &Target) -> Outcome<Selection> {
    let (labels, fields) = (call.query.get("labelSelector"), call.query.get("fieldSelector"));
    Selection::parse(&target.resource, labels, fields, target.name.as_deref())
}

/// Which options may stand beside which, and which must be numbers even where they have no effect.
fn check_list_options(call: &Call, is_watch: bool) -> Outcome<()> {
    let query = &call.query;
    for number in ["limit", "timeoutSeconds"] {
        query.int(number)?;
    }
    let rule = query.get("resourceVersionMatch");
    let mut errors = Errors::new();
    match is_watch {
        true => check_watch_rule(query, rule, &mut errors),
        false => check_list_rule(query, rule, &mut errors),
    }
    if !rule.is_empty() && !query.get("continue").is_empty() {
        errors
            .forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid_options("ListOptions", &errors)),
    }
}

fn check_list_rule(query: &Query, rule: &str, errors: &mut Errors) {
    const FIELD: &str = "resourceVersionMatch";
    let version = query.get("resourceVersion");
    if !rule.is_empty() && version.is_empty() {
        errors.forbidden(FIELD, "resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    match rule {
        "Exact" if version == "0" => {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.forbidden(FIELD, why);
        }
        "" | "Exact" | "NotOlderThan" => {}
        other => errors.not_supported(FIELD, other, &["Exact", "NotOlderThan", ""]),
    }
    if query.has("sendInitialEvents") {
        errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
    }
}

fn check_watch_rule(query: &Query, rule: &str, errors: &mut Errors) {
    const FIELD: &str = "resourceVersionMatch";
    let sends_initial = query.has("sendInitialEvents");
    if sends_initial && rule != "NotOlderThan" {
        errors.forbidden(FIELD, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if !rule.is_empty() && !sends_initial {
        let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.forbidden(FIELD, why);
    }
    if !matches!(rule, "" | "NotOlderThan") {
        errors.not_supported(FIELD, rule, &["NotOlderThan"]);
    }
}

/// Changes as they happen.
pub(crate) async fn watch(server: &ApiServer, call: &Call, target: &Target) -> Outcome<Response<Body>> {
    let handshake = match call.may_switch.then(|| Handshake::of(&call.method, &call.headers)).transpose() {
        Ok(handshake) => handshake.flatten(),
        Err(status) => return Ok(refuse(&status)),
    };
    check_stream(&call.headers)?;
    check_list_options(call, true)?;
    let query = &call.query;
    let revision = revision(query.get("resourceVersion"))?;
    let sends_initial = query.flag("sendInitialEvents");
    let begins_with_state = match query.has("sendInitialEvents") {
        true => sends_initial,
        false => revision.unwrap_or(0) == 0,
    };
    let bookmarks = query.flag("allowWatchBookmarks");
    let after = match (begins_with_state, revision) {
        (true, _) => None,
        (false, Some(revision)) if revision > 0 => Some(revision),
        (false, _) => Some(server.registry.fresh(revision).await?.revision().get()),
    };
    let asked = query.int("timeoutSeconds")?.filter(|seconds| *seconds != 0);
    let least = server.config.min_request_timeout;
    let timeout = match asked {
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(7 * 24 * 3600)),
        None => least.mul_f64(1.0 + fastrand::f64()),
    };
    let options = WatchOptions {
        namespace: target.namespace.clone(),
        selection: selection(call, target)?,
        after,
        not_older_than: revision.filter(|_| begins_with_state),
        bookmarks,
        mark_initial: sends_initial && bookmarks,
        timeout,
    };
    let rendering = rendering(call, target)?;
    let shown = Shown { peer: &call.peer, headers: &call.headers };
    let permit = Permit::new(&server.access, shown, &call.path, &target.wanted(call));
    let watching =
        server.registry.watch(&target.resource, options, rendering, permit, server.draining()).await?;
    let gauge = server.metrics.watching(&target.resource);
    let lines = watch_stream(watching);
    let body = Body::stream(Counted { lines: Box::pin(lines), _gauge: gauge });
    let mut response = match handshake {
        Some(handshake) => handshake.accept(body),
        None => Response::new(body),
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// A watch that is counted as long as it lives.
struct Counted {
    lines: std::pin::Pin<Box<dyn stream::Stream<Item = Bytes> + Send>>,
    _gauge: crate::metrics::Counted,
}

impl stream::Stream for Counted {
    type Item = Bytes;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Bytes>> {
        self.lines.as_mut().poll_next(cx)
    }
}
