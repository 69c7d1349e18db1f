//! The `AdmissionReview`: what a webhook is asked, and what it answers.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{super::Request, configuration::Webhook};
use crate::status::{Outcome, Status};

/// The review that is sent.
pub(super) fn question(
    version: &str,
    uid: &str,
    mut request: Map<String, Value>,
    object: &Value,
    old: &Value,
) -> Bytes {
    request.insert("uid".to_owned(), uid.into());
    request.insert("object".to_owned(), object.clone());
    request.insert("oldObject".to_owned(), old.clone());
    let review = json!({
        "kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request,
    });
    review.to_string().into()
}

/// What a webhook decides.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    allowed: bool,
    status: Map<String, Value>,
    pub(super) warnings: Vec<String>,
    /// A JSON patch.
    pub(super) patch: Option<Vec<u8>>,
    notes: Map<String, Value>,
}

/// Most bytes of all warnings of one webhook; from there on, each is cut.
const MOST_WARNINGS: usize = 4096;

/// What a warning is cut to.
const CUT_WARNING: usize = 256;

/// Reads an answer to the review of this version and uid.
pub(super) fn answer(version: &str, uid: &str, bytes: &[u8]) -> Result<Verdict, String> {
    let review: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("the answer is no JSON: {error}"))?;
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let wanted = format!("admission.k8s.io/{version}");
    // Those who still speak the old version need not say which it is.
    let is_lax = version == "v1beta1";
    let given = (text(&review, "apiVersion"), text(&review, "kind"));
    let is_bare = given.0.is_empty() && given.1.is_empty();
    if !(is_lax && is_bare) && (given.0 != wanted || given.1 != "AdmissionReview") {
        return Err(format!(
            "expected webhook response of {wanted}, Kind=AdmissionReview, got {}, Kind={}",
            given.0, given.1
        ));
    }
    let Some(response) = review.get("response").filter(|response| response.is_object()) else {
        return Err("webhook response was absent".to_owned());
    };
    let given = text(response, "uid");
    if given != uid && !(is_lax && given.is_empty()) {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let Some(allowed) = response.get("allowed").and_then(Value::as_bool) else {
        return Err("response.allowed is missing or no boolean".to_owned());
    };
    let map = |field: &str| response.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
    Ok(Verdict {
        allowed,
        status: map("status"),
        warnings: warnings(response),
        patch: patch(response, is_lax)?,
        notes: map("auditAnnotations"),
    })
}

fn patch(response: &Value, is_lax: bool) -> Result<Option<Vec<u8>>, String> {
    let kind = response.get("patchType").and_then(Value::as_str);
    let patch = match response.get("patch") {
        None | Some(Value::Null) => "",
        Some(Value::String(patch)) => patch,
        Some(_) => return Err("response.patch is no string".to_owned()),
    };
    match (patch.is_empty(), kind) {
        (true, None) => return Ok(None),
        (true, Some(_)) => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        (false, None) if !is_lax => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (false, Some(kind)) if kind != "JSONPatch" => {
            return Err(format!("invalid response.patchType of {kind:?}, expected \"JSONPatch\""));
        }
        (false, _) => {}
    }
    STANDARD.decode(patch).map(Some).map_err(|error| format!("response.patch is no base64: {error}"))
}

fn warnings(response: &Value) -> Vec<String> {
    let given = response.get("warnings").and_then(Value::as_array).into_iter().flatten();
    let mut warnings: Vec<String> = vec![];
    let mut n_bytes = 0;
    for warning in given.filter_map(Value::as_str).take(100) {
        n_bytes += warning.len();
        let most = if n_bytes > MOST_WARNINGS { CUT_WARNING } else { MOST_WARNINGS };
        let cut: String = warning.chars().take(most).collect();
        if !warnings.contains(&cut) {
            warnings.push(cut);
        }
    }
    warnings
}

impl Verdict {
    /// The verdict, unless it is a refusal.
    pub(super) fn admitted(self, webhook: &Webhook, request: &mut Request<'_>) -> Outcome<Self> {
        for (key, value) in &self.notes {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            request.note(format!("{}/{key}", webhook.name), text);
        }
        if self.allowed {
            return Ok(self);
        }
        request.warnings.extend(self.warnings);
        let text = |field: &str| self.status.get(field).and_then(Value::as_str).unwrap_or_default();
        let denied = format!("admission webhook {:?} denied the request", webhook.name);
        let message = match (text("message"), text("reason")) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let code = self.status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
        let details = self.status.get("details").and_then(Value::as_object).cloned().unwrap_or_default();
        Err(Status::from_outside(code, text("reason"), message, details))
    }
}
