//! One request on its way through the server, as the audit log sees it.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::stream::Stream;
use http::{Response, header};
use http_body::Body as _;
use jiff::Timestamp;
use serde_json::Value;
use windlass_access::{
    Attributes, User, Wanted,
    audit::{Account, Asked, Decision, Event, Level, ObjectRef, ResponseStatus, Stage},
    authn::Peer,
    rbac::Grant,
};
use windlass_machinery::{
    decode::decode_yaml,
    object::{Object, str_at},
};

use super::{Audit, Mode, Notes};
use crate::{
    http::{Body, Route},
    server::Call,
    status::{Outcome, Status},
};

/// Most bytes of what a client calls itself that are written down.
const MOST_AGENT: usize = 1024;

/// Most bytes of an answer that are written down. It is as much as a client may send; longer lists are left out, and the
/// event says so.
const MOST_ANSWER: usize = 3 * 1024 * 1024;

/// Most bytes of an answer that are looked at to see whether it is a `Status`.
const MOST_STATUS: usize = 64 * 1024;

/// Subresources whose answers take their time.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// What stands in place of an answer that is too long.
const LEFT_OUT: &str = "windlass.dev/response-object-left-out";

/// The code of an answer that nobody waited for.
const NOBODY_WAITS: u16 = 499;

/// A request on its way, as the audit log sees it.
pub(crate) struct Trail {
    audit: Arc<Audit>,
    decision: Decision,
    begun: Timestamp,
    id: String,
    uri: String,
    verb: String,
    user: Option<Arc<User>>,
    impersonated: Option<Arc<User>>,
    source: Option<String>,
    agent: String,
    object: Option<ObjectRef>,
    is_long: bool,
    sent: Option<Value>,
    answered: Option<Value>,
    status: Option<ResponseStatus>,
    annotations: BTreeMap<String, String>,
    notes: Notes,
    is_allowed: bool,
    is_over: bool,
}

impl Trail {
    /// Begins to follow a request whose user is known, if the policy is about it. Refuses it if that has to be written
    /// down and cannot be.
    pub(crate) async fn begin(
        audit: Option<&Arc<Audit>>,
        call: &Call,
        peer: &Peer,
        route: Option<&Route>,
    ) -> Outcome<Option<Box<Self>>> {
        let Some(audit) = audit else { return Ok(None) };
        let Some(mut trail) = Self::of(audit, call, Some(Arc::clone(&call.user)), peer, route) else {
            return Ok(None);
        };
        let line = trail.line(Stage::RequestReceived);
        let is_written = match line {
            Some(line) => audit.log.announce(line).await,
            None => !audit.log.is_behind().await,
        };
        if !is_written && audit.log.mode() == Mode::Strict {
            // It has not been carried out: there is nothing to tell.
            trail.is_over = true;
            audit.counters.refused.inc();
            return Err(Status::internal("failed to store audit event"));
        }
        Ok(Some(trail))
    }

    /// Writes down that somebody came whom nobody knows, or who was refused before that was even asked.
    pub(crate) async fn refuse(
        audit: Option<&Arc<Audit>>,
        call: &Call,
        peer: &Peer,
        route: Option<&Route>,
        status: Option<&Status>,
    ) {
        let Some(mut trail) = audit.and_then(|audit| Self::of(audit, call, None, peer, route)) else {
            return;
        };
        let shown = match (call.headers.contains_key(header::AUTHORIZATION), peer.certificate.is_some()) {
            (true, true) => "Authentication failed, attempted: bearer, x509",
            (true, false) => "Authentication failed, attempted: bearer",
            (false, true) => "Authentication failed, attempted: x509",
            (false, false) => "Authentication failed, no credentials provided",
        };
        trail.status = Some(match status {
            Some(status) => ResponseStatus::failure(status.code, status.reason, &status.message),
            None => ResponseStatus::failure(401, "Unauthorized", shown),
        });
        trail.write(Stage::ResponseStarted).await;
        trail.is_over = true;
    }

    fn of(
        audit: &Arc<Audit>,
        call: &Call,
        user: Option<Arc<User>>,
        peer: &Peer,
        route: Option<&Route>,
    ) -> Option<Box<Self>> {
        let attributes = match route {
            Some(route) => route.wanted(call),
            None => Attributes { verb: call.method_verb(), wanted: Wanted::Path(&call.path) },
        };
        let decision = audit.policy.load().decide(&Asked { user: user.as_deref(), attributes });
        audit.count(decision.level);
        if decision.level == Level::None {
            return None;
        }
        let object = match attributes.wanted {
            Wanted::Path(_) => None,
            Wanted::Resource { group, version, resource, subresource, namespace, name } => Some(ObjectRef {
                resource: resource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                api_group: group.to_owned(),
                api_version: version.to_owned(),
                subresource: subresource.to_owned(),
                ..ObjectRef::default()
            }),
        };
        let sub = object.as_ref().map_or("", |object| &object.subresource);
        let agent =
            call.headers.get(header::USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let mut agent = agent.unwrap_or_default().into_owned();
        if agent.len() > MOST_AGENT {
            agent.truncate(agent.floor_char_boundary(MOST_AGENT));
            agent.push_str("...TRUNCATED");
        }
        Some(Box::new(Trail {
            audit: Arc::clone(audit),
            decision,
            begun: Timestamp::now(),
            id: call.audit_id.clone(),
            uri: call.uri.path_and_query().map_or(call.path.as_str(), |uri| uri.as_str()).to_owned(),
            verb: attributes.verb.to_owned(),
            is_long: attributes.verb == "watch" || LONG_RUNNING.contains(&sub),
            user,
            impersonated: None,
            source: peer.address.map(|address| address.ip().to_canonical().to_string()),
            agent,
            object,
            sent: None,
            answered: None,
            status: None,
            annotations: BTreeMap::new(),
            notes: Notes::default(),
            is_allowed: false,
            is_over: false,
        }))
    }

    /// What is said about the request by those who have a hand in it.
    pub(crate) fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Notes whom the request is made as, and whether they may do it.
    pub(crate) fn judged(&mut self, user: &Arc<User>, grant: Option<&Grant>) {
        if !self.user.as_ref().is_some_and(|own| Arc::ptr_eq(own, user)) {
            self.impersonated = Some(Arc::clone(user));
        }
        self.is_allowed = grant.is_some();
        self.notes.leave("authorization.k8s.io/decision", if self.is_allowed { "allow" } else { "forbid" });
        self.notes.leave("authorization.k8s.io/reason", grant.map(Grant::to_string).unwrap_or_default());
    }

    /// Notes the object that was sent.
    pub(crate) fn sent(&mut self, object: &Object) {
        if let Some(about) = &mut self.object {
            let text = |path: &[&str]| str_at(object, path).unwrap_or_default().to_owned();
            for (field, path) in [
                (&mut about.namespace, ["metadata", "namespace"]),
                (&mut about.name, ["metadata", "name"]),
                (&mut about.uid, ["metadata", "uid"]),
                (&mut about.resource_version, ["metadata", "resourceVersion"]),
            ] {
                if field.is_empty() {
                    *field = text(&path);
                }
            }
        }
        if self.decision.level >= Level::Request {
            self.sent = Some(self.shown(Value::Object(object.clone())));
        }
    }

    /// Notes the patch that was sent.
    pub(crate) fn sent_patch(&mut self, patch: &[u8]) {
        if self.decision.level >= Level::Request {
            let json = serde_json::from_slice(patch).ok();
            self.sent = json.or_else(|| Some(Value::Object(decode_yaml(patch).ok()?.object)));
        }
    }

    /// Notes that the handler panicked, and writes it down.
    pub(crate) async fn panicked(mut self: Box<Self>) {
        self.status =
            Some(ResponseStatus::failure(500, "InternalError", "the handler of the request panicked"));
        self.write(Stage::Panic).await;
        self.is_over = true;
    }

    /// Writes down how the request was answered, or does so once the answer is complete.
    pub(crate) async fn end(mut self: Box<Self>, response: Response<Body>) -> Response<Body> {
        let code = response.status().as_u16();
        let pieces = response.body().known();
        let n_bytes: usize = pieces.as_deref().unwrap_or_default().iter().map(Bytes::len).sum();
        let wants_answer = self.decision.level >= Level::RequestResponse && !self.is_long;
        let may_be_status = code >= 400 || self.verb.starts_with("delete");
        let answer = match &pieces {
            Some(pieces)
                if (wants_answer && n_bytes <= MOST_ANSWER) || (may_be_status && n_bytes <= MOST_STATUS) =>
            {
                serde_json::from_slice::<Value>(&pieces.concat()).ok()
            }
            _ => None,
        };
        let status = answer.as_ref().and_then(|answer| ResponseStatus::of_object(answer, code));
        self.status = Some(self.withheld(status.unwrap_or_else(|| ResponseStatus::of_code(code))));
        if wants_answer && pieces.is_some() {
            self.keep_answer(answer, n_bytes);
        }
        if self.is_long && code < 400 {
            self.write(Stage::ResponseStarted).await;
        }
        if pieces.is_some() {
            self.write(Stage::ResponseComplete).await;
            self.is_over = true;
            return response;
        }
        let kept = wants_answer.then(Vec::new);
        response.map(|body| Body::stream(Followed { body, trail: self, kept, n_bytes: 0 }))
    }

    /// What may be told of how it ended: whoever had a look at a secret may quote it. Who may not even ask, or asks for
    /// what is not there, is told why.
    fn withheld(&self, mut status: ResponseStatus) -> ResponseStatus {
        if self.decision.is_withheld && self.is_allowed && status.code >= 400 && status.code != 404 {
            status.message.clear();
            status.details = None;
        }
        status
    }

    fn keep_answer(&mut self, answer: Option<Value>, n_bytes: usize) {
        match answer {
            Some(answer) => self.answered = Some(self.shown(answer)),
            None if n_bytes > MOST_ANSWER => {
                let why = format!("the answer has more than {MOST_ANSWER} bytes");
                self.annotations.insert(LEFT_OUT.to_owned(), why);
            }
            None => {}
        }
    }

    /// An object as it is written down.
    fn shown(&self, mut object: Value) -> Value {
        let forget = |object: &mut Value| {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        };
        if self.decision.omit_managed_fields {
            forget(&mut object);
            object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten().for_each(forget);
        }
        object
    }

    fn line(&mut self, stage: Stage) -> Option<Vec<u8>> {
        if self.decision.omit_stages.has(stage) {
            return None;
        }
        self.annotations.extend(self.notes.take());
        self.audit.counters.events.inc();
        let event = Event {
            level: self.decision.level,
            audit_id: &self.id,
            stage,
            request_uri: &self.uri,
            verb: &self.verb,
            user: self.user.as_deref().map(Account::from).unwrap_or_default(),
            impersonated_user: self.impersonated.as_deref().map(Account::from),
            source_ips: self.source.as_deref().map(|source| [source]),
            user_agent: &self.agent,
            object_ref: self.object.as_ref(),
            response_status: self.status.as_ref(),
            request_object: self.sent.as_ref(),
            response_object: self.answered.as_ref(),
            request_received_timestamp: self.begun,
            stage_timestamp: Timestamp::now(),
            annotations: &self.annotations,
        };
        Some(event.to_line())
    }

    async fn write(&mut self, stage: Stage) {
        if let Some(line) = self.line(stage) {
            self.audit.log.record(line).await;
        }
    }
}

impl Drop for Trail {
    /// The client is gone, or the answer has been sent, and nobody is left to wait for the log.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if self.status.is_none() {
            let why = "the client went away before it was answered";
            self.status = Some(ResponseStatus::failure(NOBODY_WAITS, "", why));
        }
        if let Some(line) = self.line(Stage::ResponseComplete) {
            self.audit.log.record_later(line);
        }
    }
}

/// An answer that is made as the client reads it. Its end is written down when it is dropped, which is also how it ends
/// when the client goes away.
struct Followed {
    body: Body,
    trail: Box<Trail>,
    /// The answer so far, where it is to be written down.
    kept: Option<Vec<u8>>,
    n_bytes: usize,
}

impl Stream for Followed {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else { return Poll::Pending };
        let next = frame.and_then(Result::ok).and_then(|frame| frame.into_data().ok());
        let this = &mut *self;
        match &next {
            Some(bytes) => {
                this.n_bytes += bytes.len();
                if this.n_bytes > MOST_ANSWER {
                    this.kept = this.kept.take().map(|_| vec![]);
                } else if let Some(kept) = &mut this.kept {
                    kept.extend_from_slice(bytes);
                }
            }
            None => {
                if let Some(kept) = this.kept.take() {
                    let answer = serde_json::from_slice(&kept).ok();
                    this.trail.keep_answer(answer, this.n_bytes);
                }
            }
        }
        Poll::Ready(next)
    }
}
