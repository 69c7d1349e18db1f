//! Certificates for clients: whoever approves a request for one has it signed with the same write.
//!
//! There is one signer here, for clients of this server. What it may sign is what Kubernetes' signer of that name
//! signs; a request for anything else is marked as failed. A rehearsal signs nothing.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_machinery::object::{self, Object};

use super::{Operation, Plugin, Request};
use crate::status::Outcome;

/// The signer of certificates that clients show to this server.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// What its certificates can be for. The first has to be asked for.
const USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];

/// How long a certificate lasts at most, and where nothing is asked for.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Signs requests with the key of an authority.
pub trait Signer: fmt::Debug + Send + Sync {
    /// Makes the certificate of a client, in PEM; or says what is wrong with the request.
    fn sign(&self, asked: &Asked<'_>) -> Result<String, String>;
}

/// What is to be signed.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The request, in PEM.
    pub request: &'a [u8],
    /// Whether the key may sign, and whether it may encipher keys.
    pub usages: (bool, bool),
    /// The moment.
    pub now: Timestamp,
    /// How long the certificate is to last.
    pub lasts: Duration,
}

/// Signs what is approved.
pub(super) struct CertificateSigning(pub(super) Option<Arc<dyn Signer>>);

#[async_trait]
impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    /// Last of all, so that nothing is signed that anyone refuses.
    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let Some(signer) = &self.0 else { return Ok(()) };
        let is_approval = request.operation == Operation::Update
            && request.part == Some("approval")
            && request.resource.group == "certificates.k8s.io"
            && request.resource.plural == "certificatesigningrequests";
        if !is_approval || request.dry_run || !is_wanted(&request.object) {
            return Ok(());
        }
        let signed = sign(&**signer, &request.object, request.now);
        let status = object::child_mut(&mut request.object, "status");
        match signed {
            Ok(pem) => drop(status.insert("certificate".to_owned(), BASE64_STANDARD.encode(pem).into())),
            Err(why) => {
                let now = request.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                let failed = json!({
                    "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why,
                    "lastUpdateTime": now, "lastTransitionTime": now,
                });
                if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
                    conditions.push(failed);
                }
            }
        }
        Ok(())
    }
}

/// Whether this is approved, for our signer, and neither signed nor given up yet.
fn is_wanted(asked: &Object) -> bool {
    let status = asked.get("status");
    let conditions = status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let has = |kind: &str| conditions.into_iter().flatten().any(|condition| condition["type"] == kind);
    let is_signed = status.is_some_and(|status| status.get("certificate").is_some_and(|cert| cert != ""));
    object::str_at(asked, &["spec", "signerName"]) == Some(CLIENTS)
        && has("Approved")
        && !has("Denied")
        && !has("Failed")
        && !is_signed
}

fn sign(signer: &dyn Signer, asked: &Object, now: Timestamp) -> Result<String, String> {
    let spec = asked.get("spec").and_then(Value::as_object).ok_or("there is no spec")?;
    let usages = spec.get("usages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let usages: Vec<&str> = usages.iter().filter_map(Value::as_str).collect();
    if let Some(other) = usages.iter().find(|usage| !USAGES.contains(usage)) {
        return Err(format!("usage {other:?} is not allowed: expected some of {USAGES:?}"));
    }
    if !usages.contains(&USAGES[0]) {
        return Err(format!("usages did not include {:?}", USAGES[0]));
    }
    let request = spec.get("request").and_then(Value::as_str).unwrap_or_default();
    let request = BASE64_STANDARD.decode(request).map_err(|_| "the request is not base64".to_owned())?;
    let lasts = spec.get("expirationSeconds").and_then(Value::as_u64).map(Duration::from_secs);
    signer.sign(&Asked {
        request: &request,
        usages: (usages.contains(&USAGES[1]), usages.contains(&USAGES[2])),
        now,
        lasts: lasts.unwrap_or(LONGEST).min(LONGEST),
    })
}
