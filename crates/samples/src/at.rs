//! At: runs a command at a time. When it comes, a pod is made that runs it.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::{
    Api, Client, CustomResource, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_runtime::{
    Action, Cache, Context, Controller, Key, ReconcileError, Reconciler, Recorder, Registration, Scope,
};

use crate::readable::Readable;

/// What a hub is told of it.
pub const REGISTRATION: Registration = Registration {
    name: "at",
    about: "Runs a command at a time",
    crd: Some(<At as kube::CustomResourceExt>::crd),
    graph: None,
    build: |context| Ok(controller(context)),
};

/// A command, and when to run it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "demo.wukong.com",
    version = "v1",
    kind = "At",
    plural = "ats",
    namespaced,
    status = "AtStatus",
    printcolumn = r#"{"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#
)]
pub struct AtSpec {
    /// When, such as `2006-01-02T15:04:05Z`.
    pub schedule: String,
    /// What to run, its words separated by spaces.
    pub command: String,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct AtStatus {
    /// Where it is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Why it goes no further, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The phases, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Phase {
    /// Its time has not come.
    Pending,
    /// Its pod is being made.
    Running,
    /// Its pod has been made.
    Done,
}

/// The name that its pod should have is another's.
#[derive(Debug, thiserror::Error)]
enum Taken {
    /// For ever, unless somebody does something.
    #[error("Pod {0:?} already exists and is not managed by At")]
    ByAnother(String),
    /// Not for long.
    #[error("Pod {0:?} of the same name is being deleted")]
    Ending(String),
}

struct Ats {
    client: Client,
    ats: Cache<Readable<At>>,
    events: Recorder,
}

fn controller(context: &Context) -> Controller {
    let ats = context.informers.of::<Readable<At>>(&Scope::all());
    let reconciler =
        Ats { client: context.client.clone(), ats: ats.cache().clone(), events: context.recorder() };
    context.controller(reconciler).reconciles(&ats)
}

#[async_trait]
impl Reconciler for Ats {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let Some(found) = self.ats.get(key) else { return Ok(Action::Done) };
        let Some(at) = found.or_tell(&self.events) else { return Ok(Action::Done) };
        if at.meta().deletion_timestamp.is_some() {
            return Ok(Action::Done);
        }
        match at.status.as_ref().and_then(|status| status.phase) {
            None => self.enter(at, Phase::Pending, None).await,
            Some(Phase::Pending) => {
                let Ok(due) = at.spec.schedule.parse::<Timestamp>() else {
                    let why = format!(
                        "schedule: expected a time such as 2006-01-02T15:04:05Z, found {:?}",
                        at.spec.schedule
                    );
                    return self.enter(at, Phase::Pending, Some(why)).await;
                };
                let left = due.duration_since(Timestamp::now());
                match Duration::try_from(left) {
                    Ok(left) if !left.is_zero() => {
                        // What was wrong with an earlier schedule is over.
                        self.enter(at, Phase::Pending, None).await?;
                        Ok(Action::After(left))
                    }
                    _ => self.enter(at, Phase::Running, None).await,
                }
            }
            Some(Phase::Running) => {
                self.run(at).await?;
                self.enter(at, Phase::Done, None).await
            }
            Some(Phase::Done) => Ok(Action::Done),
        }
    }
}

impl Ats {
    /// Writes down where it is. That is a change, which brings it here again.
    async fn enter(&self, at: &At, phase: Phase, message: Option<String>) -> Result<Action, ReconcileError> {
        let status = AtStatus { phase: Some(phase), message };
        if at.status.as_ref() != Some(&status) {
            let api: Api<At> = Api::namespaced(self.client.clone(), &at.namespace().unwrap_or_default());
            // A message that is not there has to be taken away.
            let written = json!({"phase": status.phase, "message": status.message});
            let patch = json!({"metadata": {"resourceVersion": at.resource_version()}, "status": written});
            api.patch_status(&at.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(Action::Done)
    }

    /// Makes the pod, unless an earlier try has.
    async fn run(&self, at: &At) -> Result<(), ReconcileError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &at.namespace().unwrap_or_default());
        match api.create(&PostParams::default(), &pod_of(at)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let pod = api.get(&format!("{}-pod", at.name_any())).await?;
                self.accept(at, &pod)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A pod that is there is as good if an earlier try has made it.
    fn accept(&self, at: &At, pod: &Pod) -> Result<(), ReconcileError> {
        let is_own = pod.owner_references().iter().any(|owner| Some(&owner.uid) == at.meta().uid.as_ref());
        if is_own {
            return Ok(());
        }
        if pod.meta().deletion_timestamp.is_some() {
            return Err(Taken::Ending(pod.name_any()).into());
        }
        let taken = Taken::ByAnother(pod.name_any());
        self.events.warning(at, "ErrResourceExists", taken.to_string());
        Err(taken.into())
    }
}

fn pod_of(at: &At) -> Pod {
    let words = at.spec.command.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
    let busybox = Container {
        name: "busybox".to_owned(),
        image: Some("busybox".to_owned()),
        command: Some(words.collect()),
        ..Container::default()
    };
    Pod {
        metadata: ObjectMeta {
            name: Some(format!("{}-pod", at.name_any())),
            namespace: at.namespace(),
            labels: Some([("app".to_owned(), at.name_any())].into()),
            owner_references: at.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![busybox],
            restart_policy: Some("OnFailure".to_owned()),
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}
