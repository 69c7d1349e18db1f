//! Network: an object whose other half is in a service outside. What is wanted is made there, changed there, and removed
//! there when the object goes; when the service fails, it is tried again. What others have made there is left alone: each
//! network of ours says so.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use windlass_runtime::{
    Action, Cache, Context, Controller, Key, ReconcileError, Reconciler, Recorder, Registration, Scope,
};

use crate::{
    neutron::{self, Neutron, NeutronClient},
    readable::Readable,
};

/// What a hub is told of it.
pub const REGISTRATION: Registration = Registration {
    name: "network",
    about: "Keeps a network in Neutron for every Network",
    crd: Some(<Network as kube::CustomResourceExt>::crd),
    graph: None,
    build: |context| {
        let Settings { neutron_url } = context.settings()?;
        let url = neutron_url.map_or_else(Neutron::of_this_process, Ok)?;
        Ok(controller(context, &url))
    },
};

/// What it can be told.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    /// Where Neutron is, such as `http://127.0.0.1:9696`. Without, it is in this process, and forgets everything with it.
    neutron_url: Option<String>,
}

/// What the controller calls itself in events.
const COMPONENT: &str = "network-controller";

/// A network that is wanted.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "samplecrd.k8s.io",
    version = "v1",
    kind = "Network",
    plural = "networks",
    namespaced,
    annotation(
        "api-approved.kubernetes.io",
        "unapproved, experimental-only; a sample of a kind in a group of Kubernetes"
    ),
    printcolumn = r#"{"name": "CIDR", "type": "string", "jsonPath": ".spec.cidr"}"#,
    printcolumn = r#"{"name": "Gateway", "type": "string", "jsonPath": ".spec.gateway"}"#
)]
pub struct NetworkSpec {
    /// Its addresses, such as `192.168.0.0/16`.
    #[serde(default)]
    pub cidr: String,
    /// The way out of it, such as `192.168.0.1`.
    #[serde(default)]
    pub gateway: String,
}

/// The service has a network of that name that somebody else has made.
#[derive(Debug, thiserror::Error)]
#[error("Network {0:?} already exists in Neutron and is not managed by Network")]
struct Taken(String);

/// How networks in the service say whose they are: the cluster by the UID of a namespace that every cluster has, and the
/// object by its own. One Neutron serves many, and whoever cannot tell theirs must not remove any.
#[derive(Clone)]
struct Marks {
    client: Client,
    cluster: Arc<OnceCell<String>>,
}

impl Marks {
    /// What all of ours begin with.
    async fn ours(&self) -> Result<&str, kube::Error> {
        let asked = self.cluster.get_or_try_init(|| async {
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            let uid = namespaces.get("kube-system").await?.uid().unwrap_or_default();
            Ok(format!("windlass.dev/network/{uid}/"))
        });
        asked.await.map(String::as_str)
    }
}

struct Networks {
    client: Client,
    networks: Cache<Readable<Network>>,
    neutron: NeutronClient,
    marks: Marks,
    events: Recorder,
}

/// The controller, of networks in the service at `url`.
fn controller(context: &Context, url: &str) -> Controller {
    let networks = context.informers.of::<Readable<Network>>(&Scope::all());
    let neutron = NeutronClient::new(url);
    let marks = Marks { client: context.client.clone(), cluster: Arc::default() };
    let reconciler = Networks {
        client: context.client.clone(),
        networks: networks.cache().clone(),
        neutron: neutron.clone(),
        marks: marks.clone(),
        events: context.events.recorder(COMPONENT),
    };
    let controller = context.controller(reconciler).reconciles(&networks).workers(2);
    let (queue, context) = (controller.queue().clone(), context.clone());
    // What was deleted while nobody was looking is still there.
    controller.after_sync(move || {
        let (neutron, marks, queue, context) =
            (neutron.clone(), marks.clone(), queue.clone(), context.clone());
        async move {
            let ours = marks.ours().await?;
            for network in neutron.list().await? {
                let key = network.name.parse().ok().filter(|key: &Key| !key.namespace().is_empty());
                if let Some(key) =
                    key.filter(|key| network.description.starts_with(ours) && context.sees(key))
                {
                    queue.add(key);
                }
            }
            Ok(())
        }
    })
}

#[async_trait]
impl Reconciler for Networks {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        let ours = self.marks.ours().await?;
        let found = self.neutron.find(&key.to_string()).await?;
        let Some(network) = self.networks.get(key) else {
            tracing::info!("Network: {key} does not exist in local cache, will delete it from Neutron ...");
            tracing::info!("[Neutron] Deleting network: {key} ...");
            if let Some(found) = found.filter(|found| found.description.starts_with(ours))
                && self.is_gone(key).await?
            {
                self.neutron.delete(&found.id).await?;
            }
            return Ok(Action::Done);
        };
        let Some(network) = network.or_tell(&self.events) else { return Ok(Action::Done) };
        tracing::info!("[Neutron] Try to process network: {key} ...");
        let wanted = neutron::Network {
            id: found.as_ref().map(|found| found.id.clone()).unwrap_or_default(),
            name: key.to_string(),
            cidr: network.spec.cidr.clone(),
            gateway: network.spec.gateway.clone(),
            description: format!("{ours}{}", network.uid().unwrap_or_default()),
        };
        match found {
            None => self.neutron.create(wanted).await?,
            Some(found) if !found.description.starts_with(ours) => {
                let taken = Taken(key.to_string());
                self.events.warning(network, "ErrResourceExists", taken.to_string());
                return Err(taken.into());
            }
            Some(found) if found != wanted => self.neutron.update(&found.id, wanted).await?,
            Some(_) => {}
        }
        tracing::debug!(name = network.name_any(), "Network synced");
        self.events.normal(network, "Synced", "Network synced successfully");
        Ok(Action::Done)
    }
}

impl Networks {
    /// Whether there is no such object, as the API server itself says. That the kind is not served at the moment says
    /// nothing of its objects; when it is again, everything is looked at again.
    async fn is_gone(&self, key: &Key) -> Result<bool, kube::Error> {
        let api: Api<Network> = Api::namespaced(self.client.clone(), key.namespace());
        match api.get_metadata(key.name()).await {
            Ok(_) => Ok(false),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                Ok(status.details.as_ref().is_some_and(|details| details.name == key.name()))
            }
            Err(error) => Err(error),
        }
    }
}
