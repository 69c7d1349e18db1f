//! What has expired: tokens for joining, and requests for certificates that nobody needs any more.

use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp, fmt::temporal::Pieces};
use k8s_openapi::api::{
    certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
    core::v1::Secret,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use windlass_runtime::{Action, Cache, Context, Controller, Key, ReconcileError, Reconciler, Scope};

use crate::{Clock, Options, code};

const TOKEN_NAMESPACE: &str = "kube-system";
const TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";
const TOKEN_EXPIRATION: &str = "expiration";

/// How long requests are kept: those that were answered, and those that were not.
const ANSWERED: SignedDuration = SignedDuration::from_hours(1);
const PENDING: SignedDuration = SignedDuration::from_hours(24);

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    GoesAt(Timestamp),
}

impl Fate {
    /// The earlier of both.
    fn or(self, other: Fate) -> Fate {
        match (self, other) {
            (Fate::GoesAt(one), Fate::GoesAt(other)) => Fate::GoesAt(one.min(other)),
            (Fate::Stays, fate) | (fate, Fate::Stays) => fate,
        }
    }

    fn after(since: Timestamp, time: SignedDuration) -> Fate {
        since.checked_add(time).map_or(Fate::Stays, Fate::GoesAt)
    }

    /// How long that is from now; nothing when it stays.
    fn due(self, now: Timestamp) -> Option<Duration> {
        let Fate::GoesAt(at) = self else { return None };
        Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
    }
}

/// Deletes an object when its time has come.
struct Expirer<K> {
    objects: Cache<K>,
    api: Api<K>,
    clock: Clock,
    fate: fn(&K) -> Fate,
}

#[async_trait]
impl<K> Reconciler for Expirer<K>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = self.objects.get(key) else { return Ok(Action::Done) };
        if object.meta().deletion_timestamp.is_some() {
            return Ok(Action::Done);
        }
        match (self.fate)(&object).due((self.clock)()) {
            None => Ok(Action::Done),
            Some(Duration::ZERO) => self.delete(&*object).await,
            Some(wait) => Ok(Action::After(wait)),
        }
    }
}

impl<K> Expirer<K>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    async fn delete(&self, object: &K) -> Result<Action, ReconcileError> {
        // Only the very one that was looked at.
        let preconditions = Preconditions { uid: object.uid(), resource_version: object.resource_version() };
        let options = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api.delete(&object.name_any(), &options).await {
            Ok(_) => Ok(Action::Done),
            // It is gone, or another than was looked at, which a watch tells.
            Err(error) if matches!(code(&error), 404 | 409) => Ok(Action::Done),
            Err(error) => Err(error.into()),
        }
    }
}

/// When a token for joining goes. One whose time cannot be read is as good as expired.
fn fate_of_token(secret: &Secret) -> Fate {
    let Some(text) = secret.data.as_ref().and_then(|data| data.get(TOKEN_EXPIRATION)) else {
        return Fate::Stays;
    };
    if text.0.is_empty() {
        return Fate::Stays;
    }
    let fate = std::str::from_utf8(&text.0).ok().and_then(fate_at);
    fate.unwrap_or(Fate::GoesAt(Timestamp::MIN))
}

/// What becomes of something with this time; `None` if it is none. People who mean never write times that are later
/// than a timestamp can be, such as the last second of the year 9999.
fn fate_at(text: &str) -> Option<Fate> {
    if let Ok(at) = text.parse() {
        return Some(Fate::GoesAt(at));
    }
    let pieces = Pieces::parse(text).ok()?;
    let is_time = pieces.time().is_some() && pieces.offset().is_some();
    (is_time && pieces.date().year() > 0).then_some(Fate::Stays)
}

/// When a request for a certificate goes.
fn fate_of_request(request: &CertificateSigningRequest) -> Fate {
    let status = request.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let created = request.metadata.creation_timestamp.as_ref();
    if conditions.is_empty() {
        return created.map_or(Fate::Stays, |created| Fate::after(created.0, PENDING));
    }
    let certificate =
        status.and_then(|status| status.certificate.as_ref()).filter(|issued| !issued.0.is_empty());
    let of_condition = |condition: &CertificateSigningRequestCondition| {
        let since = condition.last_update_time.as_ref().or(created).map(|time| time.0);
        let kept = since.map_or(Fate::Stays, |since| Fate::after(since, ANSWERED));
        match (condition.type_.as_str(), certificate) {
            ("Denied" | "Failed", _) => kept,
            ("Approved", Some(certificate)) => kept.or(end_of(&certificate.0)),
            _ => Fate::Stays,
        }
    };
    conditions.iter().map(of_condition).fold(Fate::Stays, Fate::or)
}

/// When the first certificate of a chain ends.
fn end_of(pem: &[u8]) -> Fate {
    let Ok((_, pem)) = x509_parser::pem::parse_x509_pem(pem) else { return Fate::Stays };
    let Ok(certificate) = pem.parse_x509() else { return Fate::Stays };
    let end = Timestamp::from_second(certificate.validity().not_after.timestamp());
    end.map_or(Fate::Stays, Fate::GoesAt)
}

/// The controller of tokens for joining.
pub(crate) fn tokens(context: &Context, options: &Options) -> Controller {
    let scope = Scope { fields: Some(format!("type={TOKEN_TYPE}")), ..Scope::namespace(TOKEN_NAMESPACE) };
    let secrets = context.informers.of::<Secret>(&scope);
    let reconciler = Expirer {
        objects: secrets.cache().clone(),
        api: Api::namespaced(context.client.clone(), TOKEN_NAMESPACE),
        clock: Clock::clone(&options.clock),
        fate: fate_of_token,
    };
    context.controller(reconciler).reconciles(&secrets)
}

/// The controller of requests for certificates.
pub(crate) fn requests(context: &Context, options: &Options) -> Controller {
    let requests = context.informers.of_cluster::<CertificateSigningRequest>(&Scope::all());
    let reconciler = Expirer {
        objects: requests.cache().clone(),
        api: Api::all(context.client.clone()),
        clock: Clock::clone(&options.clock),
        fate: fate_of_request,
    };
    context.controller(reconciler).reconciles(&requests)
}
