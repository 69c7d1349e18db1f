//! An object as the API server has it, and the machine's part of its status.
//!
//! Writes name the revision they are based on. When another was faster, the object is read again, and the machine's part
//! alone is applied to what is there now. When that very part is not what it was, somebody else runs the machine or has
//! edited it: then nothing is written, and everything begins anew. Nor is anything written once the object asks for
//! something else than what was decided on: then it is decided again.
//!
//! An API server that does not answer is asked again for a while: what a step has answered is not thrown away for that.

use std::{future::Future, time::Duration};

use kube::{
    Api, ResourceExt,
    api::{DynamicObject, PostParams},
};
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};

use super::{conditions, status::PhaseStatus};
use crate::{NotLeading, controller::may_act};

/// How often a write is tried that others always overtake.
const MOST_TRIES: usize = 16;

/// How long an answer of the API server may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait before an API server is asked again that did not answer, at first and at most, and how often.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
const MOST_OUTAGES: u32 = 9;

/// Why there is nothing to go on with.
#[derive(Debug, thiserror::Error)]
pub(super) enum LiveError {
    /// The object has gone.
    #[error("the object has gone")]
    Gone,
    /// The machine's part of the status is not what it was.
    #[error("somebody else has changed the machine's status")]
    Overtaken,
    /// The status cannot be read.
    #[error("the status cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// The kind does not keep what a machine must remember.
    #[error("the kind {0}")]
    Forgetful(&'static str),
    /// Another may lead.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// The API server does not answer, or refuses.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

pub(super) struct Live {
    api: Api<DynamicObject>,
    pub(super) object: DynamicObject,
    /// The machine's part of the object's status.
    pub(super) status: PhaseStatus,
}

impl Live {
    pub(super) async fn read(api: Api<DynamicObject>, name: &str) -> Result<Self, LiveError> {
        let object = answer(api.get_opt(name)).await?.ok_or(LiveError::Gone)?;
        let status = part_of(&object)?;
        Ok(Live { api, object, status })
    }

    /// Writes the machine's part of the status. False if the object no longer is one that this was decided for.
    pub(super) async fn save(
        &mut self,
        status: &PhaseStatus,
        is_meant: impl Fn(&DynamicObject) -> bool,
    ) -> Result<bool, LiveError> {
        let mut n_outages = 0;
        for _ in 0..MOST_TRIES {
            let mut object = self.object.clone();
            apply(status, &mut object);
            if object == self.object {
                return Ok(true);
            }
            let error = match self.write_status(&object).await? {
                Ok(object) => {
                    self.take(object)?;
                    return self.kept(status).map(|()| true);
                }
                Err(kube::Error::Api(refusal)) if refusal.code == 404 => return Err(self.missing().await?),
                Err(error) => error,
            };
            self.again(error, Some(status), &mut n_outages).await?;
            if self.status != part(status) && !is_meant(&self.object) {
                return Ok(false);
            }
        }
        Err(LiveError::Overtaken)
    }

    async fn write_status(&self, object: &DynamicObject) -> Result<kube::Result<DynamicObject>, NotLeading> {
        let (name, how) = (object.name_any(), PostParams::default());
        match may_act() {
            true => Ok(answer(self.api.replace_status(&name, &how, object)).await),
            false => Err(NotLeading),
        }
    }

    /// A machine that is made to forget would do everything again and again.
    fn kept(&self, written: &PhaseStatus) -> Result<(), LiveError> {
        let of = |status: &PhaseStatus| {
            let state = status.state.get(&status.phase).cloned().unwrap_or_default();
            (status.phase.clone(), status.state.len(), state.start_time, state.done, state.children.len())
        };
        match of(&self.status) == of(written) {
            true => Ok(()),
            false => Err(LiveError::Forgetful("has a schema without the fields of a machine's status")),
        }
    }

    /// Why there is no status to write to.
    async fn missing(&self) -> Result<LiveError, LiveError> {
        let object = answer(self.api.get_opt(&self.object.name_any())).await?;
        Ok(match object.is_some_and(|object| object.uid() == self.object.uid()) {
            true => LiveError::Forgetful("has no status subresource"),
            false => LiveError::Gone,
        })
    }

    /// Adds or takes away the finalizer.
    pub(super) async fn guard(&mut self, finalizer: &str, holds: bool) -> Result<(), LiveError> {
        let mut n_outages = 0;
        for _ in 0..MOST_TRIES {
            if !may_act() {
                return Err(NotLeading.into());
            }
            let mut object = self.object.clone();
            let finalizers = object.finalizers_mut();
            finalizers.retain(|own| own != finalizer);
            if holds {
                finalizers.push(finalizer.to_owned());
            }
            let (name, how) = (object.name_any(), PostParams::default());
            match answer(self.api.replace(&name, &how, &object)).await {
                Ok(object) => return self.take(object),
                Err(error) => self.again(error, None, &mut n_outages).await?,
            }
        }
        Err(LiveError::Overtaken)
    }

    fn take(&mut self, object: DynamicObject) -> Result<(), LiveError> {
        self.status = part_of(&object)?;
        self.object = object;
        Ok(())
    }

    /// Reads the object again if another was faster, or nobody knows, and sees whether the machine's part is what it was,
    /// or what it was to be.
    async fn again(
        &mut self,
        mut error: kube::Error,
        wanted: Option<&PhaseStatus>,
        n_outages: &mut u32,
    ) -> Result<(), LiveError> {
        let fresh = loop {
            match &error {
                kube::Error::Api(status) if status.code == 409 => {}
                kube::Error::Api(status) if status.code == 404 => return Err(LiveError::Gone),
                outage if is_outage(outage) && *n_outages < MOST_OUTAGES => {
                    sleep(AGAIN.0.saturating_mul(1 << *n_outages).min(AGAIN.1)).await;
                    *n_outages += 1;
                }
                _ => return Err(error.into()),
            }
            match answer(self.api.get_opt(&self.object.name_any())).await {
                Ok(fresh) => break fresh.ok_or(LiveError::Gone)?,
                Err(next) => error = next,
            }
        };
        if fresh.uid() != self.object.uid() {
            return Err(LiveError::Gone);
        }
        let now = part_of(&fresh)?;
        if now != self.status && wanted.is_none_or(|wanted| now != part(wanted)) {
            return Err(LiveError::Overtaken);
        }
        (self.object, self.status) = (fresh, now);
        Ok(())
    }
}

/// An answer, or an error if it takes too long.
async fn answer<T>(call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let late = |_| Err(kube::Error::Service(format!("no answer within {PATIENCE:?}").into()));
    timeout(PATIENCE, call).await.unwrap_or_else(late)
}

/// Whether nobody knows what has come of a request, or the API server wants to be asked later.
fn is_outage(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || status.code == 429,
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) => false,
        _ => true,
    }
}

/// A status as far as it can be read again.
fn part(status: &PhaseStatus) -> PhaseStatus {
    PhaseStatus { fields: Map::new(), ..status.clone() }
}

/// The machine's part of an object's status.
fn part_of(object: &DynamicObject) -> Result<PhaseStatus, LiveError> {
    let status = object.data.get("status").filter(|status| !status.is_null()).cloned();
    let Some(status) = status else { return Ok(PhaseStatus::default()) };
    let mut part: PhaseStatus = serde_json::from_value(status).map_err(LiveError::Unreadable)?;
    part.conditions.retain(|condition| conditions::TYPES.contains(&condition.type_.as_str()));
    Ok(part)
}

/// Puts the machine's part into an object's status, and leaves the rest of it alone.
fn apply(part: &PhaseStatus, object: &mut DynamicObject) {
    const OWN: [&str; 6] = ["phase", "state", "failedIn", "lastReset", "pausedAt", "observedGeneration"];
    let mut status = match object.data.get_mut("status").map(Value::take) {
        Some(Value::Object(status)) => status,
        _ => Map::new(),
    };
    status.extend(part.fields.clone());
    let Ok(Value::Object(mut new)) = serde_json::to_value(part) else { return };
    for name in OWN {
        match new.remove(name) {
            Some(value) => drop(status.insert(name.to_owned(), value)),
            None => drop(status.remove(name)),
        }
    }
    let others = status.remove("conditions").and_then(|all| all.as_array().cloned()).unwrap_or_default();
    let is_own =
        |condition: &Value| condition["type"].as_str().is_some_and(|kind| conditions::TYPES.contains(&kind));
    let own = new.remove("conditions").and_then(|own| own.as_array().cloned()).unwrap_or_default();
    let all: Vec<Value> = others.into_iter().filter(|other| !is_own(other)).chain(own).collect();
    status.insert("conditions".to_owned(), all.into());
    if !object.data.is_object() {
        object.data = Value::Object(Map::new());
    }
    object.data["status"] = Value::Object(status);
}
