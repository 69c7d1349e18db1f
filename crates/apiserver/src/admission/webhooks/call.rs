//! Asking one webhook about one request.

use bytes::Bytes;
use serde_json::Value;
use windlass_machinery::object::Object;

use super::{
    super::{
        Request,
        expressions::Inputs,
        subject::{Form, Place, Subject},
    },
    configuration::Webhook,
    review::{self, Verdict},
};
use crate::{
    status::{Outcome, Status},
    webhook::Webhooks,
};

/// Most bytes of an answer: a patch may replace the whole object, in base64.
const MOST_ANSWER: usize = 8 * 1024 * 1024;

/// A webhook is to be asked, about the object at this place.
pub(super) struct Found<'a> {
    pub(super) place: Place<'a>,
    form: Form,
}

/// Whether a webhook is to be asked about a request.
pub(super) async fn find<'a>(
    webhook: &Webhook,
    subject: &Subject<'a>,
    request: &mut Request<'a>,
    webhooks: &Webhooks,
) -> Outcome<Option<Found<'a>>> {
    let Some(place) = webhook.matching.find(subject, request) else { return Ok(None) };
    let form = subject.form(request, place, webhooks).await?;
    if !webhook.conditions.is_empty() {
        let mut budget = request.outside.budget.clone();
        let inputs = Inputs::new(subject, request, place, &form);
        let outcome = webhook.conditions.hold(&inputs.variables(), &mut budget);
        drop(inputs);
        request.outside.budget = budget;
        match outcome {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(why) if webhook.ignored => {
                tracing::warn!(
                    webhook = webhook.name,
                    why,
                    "the conditions of a webhook failed, which is ignored"
                );
                return Ok(None);
            }
            Err(why) => {
                let why = format!("the match conditions of webhook {:?} failed: {why}", webhook.name);
                return Err(Status::forbidden(subject.resource, subject.name, &why));
            }
        }
    }
    if request.dry_run && !webhook.takes_dry_run {
        return Err(Status::bad_request(format!(
            "admission webhook {:?} does not support dry run",
            webhook.name
        )));
    }
    Ok(Some(Found { place, form }))
}

/// One question to one webhook.
pub(super) struct Call<'w> {
    pub(super) webhook: &'w Webhook,
    uid: String,
    body: Bytes,
    object: Value,
}

impl<'w> Call<'w> {
    pub(super) fn new(
        webhook: &'w Webhook,
        subject: &Subject<'_>,
        request: &Request<'_>,
        found: Found<'_>,
    ) -> Self {
        let Found { place, form } = found;
        let uid = uuid::Uuid::new_v4().to_string();
        let asked = subject.to_json(request, place);
        let body = review::question(webhook.review, &uid, asked, &form.object, &form.old);
        Call { webhook, uid, body, object: form.object }
    }

    /// Asks. `None` when the webhook fails and that is to be ignored.
    pub(super) async fn make(&self, webhooks: &Webhooks) -> Outcome<Option<Verdict>> {
        let webhook = self.webhook;
        let outcome = match &webhook.hook {
            Err(why) => Err(format!("failed to call webhook: {why}")),
            Ok(hook) => match webhooks.call(hook, self.body.clone(), webhook.timeout, MOST_ANSWER).await {
                Err(error) => Err(format!("failed to call webhook: {error}")),
                Ok(bytes) => review::answer(webhook.review, &self.uid, &bytes)
                    .map_err(|why| format!("received invalid webhook response: {why}")),
            },
        };
        match outcome {
            Ok(verdict) => Ok(Some(verdict)),
            Err(why) => webhook.failed(&why).map(|()| None),
        }
    }

    /// The object that was asked about.
    pub(super) fn into_object(self) -> Option<Object> {
        match self.object {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }
}
