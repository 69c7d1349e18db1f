//! The only place that builds an API `Status`: every error a client sees.

use serde_json::{Map, Value, json};
use windlass_machinery::{apply::Conflicts, field::Errors, object::to_line};

use crate::resources::Resource;

/// Why a request failed, as clients are told.
#[derive(Clone, Debug)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`; empty when Kubernetes gives none.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// What it is about.
    pub details: Map<String, Value>,
    /// A fresh continue token, when a list can be gone on with.
    pub next: Option<String>,
    /// Advice that came before the failure.
    pub warnings: Vec<String>,
    /// The resource was defined anew while the request was under way: it is to begin anew.
    pub(crate) redefined: bool,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Box<Self> {
        Box::new(Status {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
            next: None,
            warnings: vec![],
            redefined: false,
        })
    }

    /// A status about one object.
    fn about(resource: &Resource, name: &str, code: u16, reason: &'static str, message: String) -> Box<Self> {
        Self::new(code, reason, message)
            .with("name", name)
            .with("group", &resource.group)
            .with("kind", &resource.plural)
    }

    fn with(mut self: Box<Self>, field: &str, value: &str) -> Box<Self> {
        if !value.is_empty() {
            self.details.insert(field.to_owned(), value.into());
        }
        self
    }

    /// 404: there is no such object.
    pub fn not_found(resource: &Resource, name: &str) -> Box<Self> {
        Self::about(resource, name, 404, "NotFound", format!("{} {name:?} not found", resource.qualified()))
    }

    /// 404: nothing is served at this path.
    pub fn no_such_path() -> Box<Self> {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// 409: the object exists.
    pub fn already_exists(resource: &Resource, name: &str) -> Box<Self> {
        Self::about(
            resource,
            name,
            409,
            "AlreadyExists",
            format!("{} {name:?} already exists", resource.qualified()),
        )
    }

    /// 409: the object was changed by someone else.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Box<Self> {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified());
        Self::about(resource, name, 409, "Conflict", message)
    }

    /// 409: the object has been modified since it was read.
    pub fn stale(resource: &Resource, name: &str) -> Box<Self> {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 409: others own what an apply would change.
    pub fn apply_conflict(conflicts: &Conflicts) -> Box<Self> {
        let status = Self::new(409, "Conflict", conflicts.to_string());
        conflicts.listed.iter().fold(status, |status, conflict| {
            status.cause_at("FieldManagerConflict", &conflict.to_string(), &conflict.field)
        })
    }

    /// 403: an admission plugin refuses.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Box<Self> {
        let message = match name.is_empty() {
            true => format!("{} is forbidden: {why}", resource.qualified()),
            false => format!("{} {name:?} is forbidden: {why}", resource.qualified()),
        };
        Self::about(resource, name, 403, "Forbidden", message)
    }

    /// 403: a user may not do this to objects of a resource, which need not be one that is served.
    pub(crate) fn forbidden_on(group: &str, plural: &str, name: &str, why: &str) -> Box<Self> {
        let dot = if group.is_empty() { "" } else { "." };
        let object = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        let message = format!("{plural}{dot}{group}{object} is forbidden: {why}");
        Self::new(403, "Forbidden", message).with("name", name).with("group", group).with("kind", plural)
    }

    /// 403: this user may not do this.
    pub fn not_allowed(message: impl Into<String>) -> Box<Self> {
        Self::new(403, "Forbidden", message)
    }

    /// A request that the listener it came over does not take, whoever sent it.
    pub(crate) fn suspicious(code: u16, why: impl std::fmt::Display) -> Box<Self> {
        let reason = match code {
            403 => "Forbidden",
            415 => "UnsupportedMediaType",
            _ => "",
        };
        Self::new(code, reason, why.to_string())
    }

    /// 401: the credentials are missing or wrong.
    pub fn unauthorized() -> Box<Self> {
        Self::unauthorized_because("Unauthorized")
    }

    /// 401: this client may not come in, and may know why.
    pub fn unauthorized_because(why: &str) -> Box<Self> {
        Self::new(401, "Unauthorized", why)
    }

    /// 422: the object does not pass validation.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &Errors) -> Box<Self> {
        let shown: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
        let text = match shown.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let kind_and_group = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{kind_and_group} {name:?} is invalid: {text}");
        let causes = errors.list().iter().map(
            |error| json!({"reason": error.fault.reason(), "message": error.body(), "field": error.field}),
        );
        let causes = Value::Array(causes.collect());
        let mut status =
            Self::new(422, "Invalid", message).with("name", name).with("group", group).with("kind", kind);
        status.details.insert("causes".to_owned(), causes);
        status
    }

    /// 422: the options of a request do not pass validation. `kind` is what they are called, such as
    /// `ListOptions`.
    pub fn invalid_options(kind: &str, errors: &Errors) -> Box<Self> {
        Self::invalid("meta.k8s.io", kind, "", errors)
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Box<Self> {
        Self::new(400, "BadRequest", message)
    }

    /// 405: this resource does not have this verb.
    pub fn method_not_allowed() -> Box<Self> {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// 405: nothing is created of a kind that is being removed.
    pub fn terminating(resource: &Resource) -> Box<Self> {
        let message = "create not allowed while custom resource definition is terminating";
        Self::new(405, "MethodNotAllowed", message)
            .with("group", &resource.group)
            .with("kind", &resource.plural)
    }

    /// 503: the resource was defined anew while the request was under way. Whoever routes requests tries again.
    pub(crate) fn redefined() -> Box<Self> {
        let mut status = Self::unavailable("the resource is being defined anew, try again");
        status.redefined = true;
        status
    }

    /// 406: the answer cannot be given in a form the client takes.
    pub fn not_acceptable(accepted: &str) -> Box<Self> {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(406, "NotAcceptable", message)
    }

    /// 415: the body is in a form that is not taken here.
    pub fn unsupported_media_type(accepted: &str) -> Box<Self> {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 413: the body or the object is too large.
    pub fn too_large(message: impl std::fmt::Display) -> Box<Self> {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: {message}"))
    }

    /// 410: the revision asked for is no longer known.
    pub fn expired(message: impl Into<String>) -> Box<Self> {
        Self::new(410, "Expired", message)
    }

    /// 429: too many requests at once, or a budget is used up.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Box<Self> {
        Self::new(429, "TooManyRequests", message).retry_after(retry_after)
    }

    /// 504: it took too long, or the revision asked for is in the future.
    pub fn timeout(message: impl Into<String>, retry_after: u32) -> Box<Self> {
        Self::new(504, "Timeout", message).retry_after(retry_after)
    }

    /// 503: the store or something else does not answer for now.
    pub fn unavailable(message: impl Into<String>) -> Box<Self> {
        Self::new(503, "ServiceUnavailable", message).retry_after(1)
    }

    /// 500: something on our side failed.
    pub fn internal(message: impl std::fmt::Display) -> Box<Self> {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    /// A webhook refuses: the code, the reason and the details are its own.
    pub(crate) fn from_outside(
        code: u16,
        reason: &str,
        message: String,
        details: Map<String, Value>,
    ) -> Box<Self> {
        let reason = KNOWN_REASONS.iter().find(|known| **known == reason).copied().unwrap_or_default();
        Box::new(Status { details, ..*Self::new(code, reason, message) })
    }

    /// A policy refuses, for one of the reasons that policies can give.
    pub(crate) fn denied(resource: &Resource, name: &str, reason: &str, why: &str) -> Box<Self> {
        let (code, reason) = match reason {
            "Unauthorized" => (401, "Unauthorized"),
            "Forbidden" => (403, "Forbidden"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        let status = Self::forbidden(resource, name, why);
        Box::new(Status { code, reason, ..*status }).push_cause(json!({"message": why}))
    }

    /// 500: someone whom we asked failed. Kubernetes gives no reason for that.
    pub fn failure(message: impl Into<String>) -> Box<Self> {
        Self::new(500, "", message)
    }

    /// 501: the server is not made for this.
    pub fn not_implemented(message: impl Into<String>) -> Box<Self> {
        Self::new(501, "NotImplemented", message)
    }

    /// Says after how many seconds to try again.
    #[must_use]
    pub fn retry_after(mut self: Box<Self>, seconds: u32) -> Box<Self> {
        self.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(self: Box<Self>, reason: &str, message: &str) -> Box<Self> {
        self.push_cause(json!({"reason": reason, "message": message}))
    }

    /// Adds a cause that lies in one field.
    #[must_use]
    pub fn cause_at(self: Box<Self>, reason: &str, message: &str, field: &str) -> Box<Self> {
        self.push_cause(json!({"reason": reason, "message": message, "field": field}))
    }

    fn push_cause(mut self: Box<Self>, cause: Value) -> Box<Self> {
        match self.details.get_mut("causes").and_then(Value::as_array_mut) {
            Some(causes) => causes.push(cause),
            None => drop(self.details.insert("causes".to_owned(), Value::Array(vec![cause]))),
        }
        self
    }

    /// Gives the client a token to go on with.
    #[must_use]
    pub fn go_on_with(mut self: Box<Self>, token: String) -> Box<Self> {
        self.next = Some(token);
        self
    }

    /// The `Status` object.
    pub fn to_json(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.next {
            metadata.insert("continue".to_owned(), token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        // Where Kubernetes answers without having reached a resource, it says that there are no details.
        if !self.details.is_empty() || matches!(self.code, 404 | 405 | 406 | 415) {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }

    /// A `Status` object as it is sent: in the order of Kubernetes, with a line end.
    pub fn line(status: &Value) -> Vec<u8> {
        const ORDER: &[&str] =
            &["kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"];
        status.as_object().map(|status| to_line(status, ORDER)).unwrap_or_default()
    }
}

/// The reasons of Kubernetes. Others that a webhook makes up are not passed on.
const KNOWN_REASONS: &[&str] = &[
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
];

/// What a request comes to: an answer, or a `Status`. Boxed, because it is large and rare.
pub type Outcome<T> = Result<T, Box<Status>>;
