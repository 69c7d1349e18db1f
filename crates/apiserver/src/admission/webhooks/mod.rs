//! Webhooks: outsiders who are asked about a write over HTTPS, and may change or refuse it.
//!
//! [`Configuration`] is what an object of the API says, ready to be used; [`review`] is what is sent and understood;
//! [`call`] asks one webhook. Those that may change the object are asked one after another, sorted by the name of
//! their configuration; those that may only refuse are asked all at once.

mod call;
mod configuration;
mod review;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};

use self::{
    call::{Call, Found, find},
    configuration::{Configuration, Webhook},
    review::Verdict,
};
use super::{Plugin, Request, kept::Kept, subject::Subject};
use crate::{
    status::{Outcome, Status},
    webhook,
};

/// Most webhooks that are asked about one request. They are few, or nobody would get anywhere.
const MOST: usize = 256;

/// Webhooks that are asked at once.
const AT_ONCE: usize = 32;

fn too_many() -> Box<Status> {
    Status::internal(format!("more than {MOST} webhooks would have to be called for one request"))
}

/// Those that may change the object.
pub(super) struct MutatingWebhooks {
    caller: Arc<webhook::Webhooks>,
    kept: Kept<Configuration>,
}

impl MutatingWebhooks {
    pub(super) fn new(caller: &Arc<webhook::Webhooks>) -> Self {
        let kept = Kept::new("mutatingwebhookconfigurations/", Configuration::of);
        MutatingWebhooks { caller: Arc::clone(caller), kept }
    }
}

#[async_trait]
impl Plugin for MutatingWebhooks {
    fn name(&self) -> &'static str {
        "MutatingAdmissionWebhook"
    }

    fn looks_again(&self) -> bool {
        true
    }

    fn is_outside(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if self.kept.is_empty(request.view) {
            return Ok(());
        }
        let Some(subject) = Subject::of(request) else { return Ok(()) };
        let all = self.kept.all(request.view);
        let is_again = request.outside.is_again;
        request.outside.webhooks.begin(&request.object);
        let mut n_asked = 0;
        for webhook in all.iter().flat_map(|item| &item.value.webhooks) {
            if is_again && !(webhook.reinvoked && request.outside.webhooks.is_due(&webhook.id)) {
                continue;
            }
            let Some(found) = find(webhook, &subject, request, &self.caller).await? else { continue };
            n_asked += 1;
            if n_asked > MOST {
                return Err(too_many());
            }
            let changed = self.ask(webhook, &subject, request, found).await?;
            if changed {
                request.outside.again = true;
            }
            request.outside.webhooks.note(&webhook.id, changed, &request.object, webhook.reinvoked);
        }
        Ok(())
    }
}

impl MutatingWebhooks {
    /// Asks one webhook, and whether it has changed the object.
    async fn ask<'a>(
        &self,
        webhook: &Webhook,
        subject: &Subject<'a>,
        request: &mut Request<'a>,
        found: Found<'_>,
    ) -> Outcome<bool> {
        let place = found.place;
        let call = Call::new(webhook, subject, request, found);
        let Some(verdict) = call.make(&self.caller).await? else { return Ok(false) };
        let Verdict { warnings, patch, .. } = verdict.admitted(webhook, request)?;
        request.warnings.extend(warnings);
        let Some(patch) = patch else { return Ok(false) };
        let object = call.into_object();
        let outcome = match object {
            None => {
                Err("attempted to modify the object, which is not supported for this operation".to_owned())
            }
            Some(object) => match windlass_machinery::patch::json_patch(&object, &patch) {
                Err(error) => Err(format!("the patch cannot be applied: {}", crate::chain(&error))),
                Ok(new) if new == object => Ok(false),
                Ok(new) => subject.put_back(request, place, new, &self.caller).await.map(|()| true),
            },
        };
        match outcome {
            Ok(changed) => Ok(changed),
            Err(why) => webhook.failed(&why).map(|()| false),
        }
    }
}

/// Those that may only refuse.
pub(super) struct ValidatingWebhooks {
    caller: Arc<webhook::Webhooks>,
    kept: Kept<Configuration>,
}

impl ValidatingWebhooks {
    pub(super) fn new(caller: &Arc<webhook::Webhooks>) -> Self {
        let kept = Kept::new("validatingwebhookconfigurations/", Configuration::of);
        ValidatingWebhooks { caller: Arc::clone(caller), kept }
    }
}

#[async_trait]
impl Plugin for ValidatingWebhooks {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn is_outside(&self) -> bool {
        true
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if self.kept.is_empty(request.view) {
            return Ok(());
        }
        let Some(subject) = Subject::of(request) else { return Ok(()) };
        let all = self.kept.all(request.view);
        let mut calls = vec![];
        for webhook in all.iter().flat_map(|item| &item.value.webhooks) {
            if let Some(found) = find(webhook, &subject, request, &self.caller).await? {
                calls.push(Call::new(webhook, &subject, request, found));
            }
        }
        if calls.len() > MOST {
            return Err(too_many());
        }
        // All of them, so that what is told does not depend on who was quickest.
        let asked: Vec<_> = calls.iter().map(|call| call.make(&self.caller)).collect();
        let answers: Vec<Outcome<Option<Verdict>>> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let mut refused = None;
        for (call, answer) in calls.iter().zip(answers) {
            let judged = match answer {
                Ok(None) => continue,
                Ok(Some(verdict)) => verdict.admitted(call.webhook, request),
                Err(status) => Err(status),
            };
            match judged {
                Ok(verdict) => request.warnings.extend(verdict.warnings),
                Err(status) => refused = refused.or(Some(status)),
            }
        }
        refused.map_or(Ok(()), Err)
    }
}
