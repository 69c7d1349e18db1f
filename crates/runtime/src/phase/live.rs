//! An object as the API server has it, and the machine's part of its status.
//!
//! Writes name the revision they are based on. When another was faster, the object is read again, and the machine's part
//! alone is applied to what is there now. When that very part is not what it was, somebody else runs the machine or has
//! edited it: then nothing is written, and everything begins anew.

use kube::{
    Api, ResourceExt,
    api::{DynamicObject, PostParams},
};
use serde_json::{Map, Value};

use super::{conditions, status::PhaseStatus};

/// How often a write is tried that others always overtake.
const MOST_TRIES: usize = 16;

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
        let object = api.get_opt(name).await?.ok_or(LiveError::Gone)?;
        let status = part_of(&object)?;
        Ok(Live { api, object, status })
    }

    /// Writes the machine's part of the status.
    pub(super) async fn save(&mut self, status: &PhaseStatus) -> Result<(), LiveError> {
        for _ in 0..MOST_TRIES {
            let mut object = self.object.clone();
            apply(status, &mut object);
            if object == self.object {
                return Ok(());
            }
            match self.api.replace_status(&object.name_any(), &PostParams::default(), &object).await {
                Ok(object) => {
                    self.take(object)?;
                    return self.kept(status);
                }
                Err(kube::Error::Api(refusal)) if refusal.code == 404 => return Err(self.missing().await?),
                Err(error) => self.again(error).await?,
            }
        }
        Err(LiveError::Overtaken)
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
        let object = self.api.get_opt(&self.object.name_any()).await?;
        Ok(match object.is_some_and(|object| object.uid() == self.object.uid()) {
            true => LiveError::Forgetful("has no status subresource"),
            false => LiveError::Gone,
        })
    }

    /// Adds or takes away the finalizer.
    pub(super) async fn guard(&mut self, finalizer: &str, holds: bool) -> Result<(), LiveError> {
        for _ in 0..MOST_TRIES {
            let mut object = self.object.clone();
            let finalizers = object.finalizers_mut();
            finalizers.retain(|own| own != finalizer);
            if holds {
                finalizers.push(finalizer.to_owned());
            }
            match self.api.replace(&object.name_any(), &PostParams::default(), &object).await {
                Ok(object) => return self.take(object),
                Err(error) => self.again(error).await?,
            }
        }
        Err(LiveError::Overtaken)
    }

    fn take(&mut self, object: DynamicObject) -> Result<(), LiveError> {
        self.status = part_of(&object)?;
        self.object = object;
        Ok(())
    }

    /// Reads the object again if another was faster, and sees whether the machine's part is what it was.
    async fn again(&mut self, error: kube::Error) -> Result<(), LiveError> {
        match &error {
            kube::Error::Api(status) if status.code == 409 => {}
            kube::Error::Api(status) if status.code == 404 => return Err(LiveError::Gone),
            _ => return Err(error.into()),
        }
        let fresh = self.api.get_opt(&self.object.name_any()).await?.ok_or(LiveError::Gone)?;
        if fresh.uid() != self.object.uid() {
            return Err(LiveError::Gone);
        }
        if part_of(&fresh)? != self.status {
            return Err(LiveError::Overtaken);
        }
        self.object = fresh;
        Ok(())
    }
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
