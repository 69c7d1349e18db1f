//! Foo: the sample controller that everyone begins with. A Foo has a Deployment of so many replicas, and says how many of
//! them are there.
//!
//! It does what the sample in Go does, with the same events and messages: what a Foo names and somebody else has made is
//! left alone and told of.

#![expect(clippy::disallowed_names, reason = "the kind is called Foo")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{Container, PodSpec, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use kube::{
    Api, Client, CustomResource, Resource, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_runtime::{
    Action, Cache, Context, Controller, Key, Limits, ReconcileError, Reconciler, Recorder, Registration,
    Scope,
};

use crate::readable::Readable;

/// What a hub is told of it.
pub const REGISTRATION: Registration = Registration {
    name: "foo",
    about: "Keeps a Deployment for every Foo",
    crd: Some(<Foo as kube::CustomResourceExt>::crd),
    graph: None,
    build: |context| Ok(controller(context)),
};

/// What the controller calls itself in events and managed fields.
const COMPONENT: &str = "sample-controller";

/// How often everything is looked at again.
const RESYNC: Duration = Duration::from_secs(30);

/// How many failures a second are tried again, and how many at once: the sample in Go lets more through than is usual.
const PER_SECOND: f64 = 50.0;
const BURST: u32 = 300;

/// A Deployment that is wanted.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    plural = "foos",
    namespaced,
    status = "FooStatus",
    annotation(
        "api-approved.kubernetes.io",
        "unapproved, experimental-only; a sample of a kind in a group of Kubernetes"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// The name of the Deployment.
    #[serde(default)]
    pub deployment_name: String,
    /// How many replicas it has.
    #[schemars(range(min = 1, max = 10))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// What has become of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// How many replicas there are.
    #[serde(default)]
    pub available_replicas: i32,
}

/// A Deployment of that name belongs to someone else.
#[derive(Debug, thiserror::Error)]
#[error("Resource {0:?} already exists and is not managed by Foo")]
struct Taken(String);

struct Foos {
    client: Client,
    foos: Cache<Readable<Foo>>,
    deployments: Cache<Deployment>,
    events: Recorder,
}

fn controller(context: &Context) -> Controller {
    let foos = context.informers.of::<Readable<Foo>>(&Scope::all());
    let deployments = context.informers.of::<Deployment>(&Scope::all());
    let reconciler = Foos {
        client: context.client.clone(),
        foos: foos.cache().clone(),
        deployments: deployments.cache().clone(),
        events: context.events.recorder(COMPONENT),
    };
    context
        .controller(reconciler)
        .reconciles_if(&foos, |_| true)
        .owns(&deployments, "samplecontroller.k8s.io", "Foo")
        .workers(2)
        .limits(Limits { per_second: PER_SECOND, burst: BURST, ..Limits::default() }, &context.metrics)
}

#[async_trait]
impl Reconciler for Foos {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let Some(found) = self.foos.get(key) else {
            tracing::debug!(%key, "Foo no longer exists");
            return Ok(Action::Done);
        };
        let Some(foo) = found.or_tell(&self.events) else { return Ok(Action::Done) };
        let name = &foo.spec.deployment_name;
        if name.is_empty() {
            // It would not help to try again: somebody has to write a name.
            tracing::error!(%key, "Deployment name missing from object reference");
            return Ok(Action::After(RESYNC));
        }
        let deployment = self.deployment(foo, name).await?;
        if !is_controlled_by(&deployment, foo) {
            let taken = Taken(name.clone());
            self.events.warning(foo, "ErrResourceExists", taken.to_string());
            return Err(taken.into());
        }
        let deployment = match foo.spec.replicas {
            Some(wanted) if deployment.spec.replicas != Some(wanted) => {
                Arc::new(self.deployments(foo).replace(name, &by_us(), &deployment_of(foo)).await?)
            }
            _ => deployment,
        };
        self.tell(foo, &deployment).await?;
        self.events.normal(foo, "Synced", "Foo synced successfully");
        Ok(Action::After(RESYNC))
    }
}

impl Foos {
    fn deployments(&self, foo: &Foo) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &foo.namespace().unwrap_or_default())
    }

    /// The Deployment of a Foo, which is made where there is none.
    async fn deployment(&self, foo: &Foo, name: &str) -> Result<Arc<Deployment>, ReconcileError> {
        let key = Key::new(&foo.namespace().unwrap_or_default(), name);
        if let Some(deployment) = self.deployments.get(&key) {
            return Ok(deployment);
        }
        let api = self.deployments(foo);
        match api.create(&by_us(), &deployment_of(foo)).await {
            Ok(deployment) => Ok(Arc::new(deployment)),
            // The cache has not seen it yet.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Arc::new(api.get(name).await?)),
            Err(error) => Err(error.into()),
        }
    }

    async fn tell(&self, foo: &Foo, deployment: &Deployment) -> Result<(), kube::Error> {
        let available = deployment.status.as_ref().and_then(|status| status.available_replicas);
        let mut told = foo.clone();
        told.status = Some(FooStatus { available_replicas: available.unwrap_or(0) });
        let api: Api<Foo> = Api::namespaced(self.client.clone(), &foo.namespace().unwrap_or_default());
        api.replace_status(&foo.name_any(), &by_us(), &told).await?;
        Ok(())
    }
}

fn by_us() -> PostParams {
    PostParams { field_manager: Some(COMPONENT.to_owned()), ..PostParams::default() }
}

fn is_controlled_by(deployment: &Deployment, foo: &Foo) -> bool {
    let mut owners = deployment.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == foo.meta().uid.as_ref())
}

/// The Deployment that a Foo wants.
fn deployment_of(foo: &Foo) -> Deployment {
    let labels = [("app", "nginx".to_owned()), ("controller", foo.name_any())];
    let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let nginx = Container {
        name: "nginx".to_owned(),
        image: Some("nginx:latest".to_owned()),
        ..Container::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: Some(foo.spec.deployment_name.clone()),
            namespace: foo.namespace(),
            owner_references: foo
                .controller_owner_ref(&())
                .map(|owner| vec![OwnerReference { block_owner_deletion: Some(true), ..owner }]),
            ..ObjectMeta::default()
        },
        spec: DeploymentSpec {
            replicas: foo.spec.replicas,
            selector: LabelSelector { match_labels: Some(Clone::clone(&labels)), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![nginx], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}
