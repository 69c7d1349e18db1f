//! Network: an object whose other half is in a service outside. What is wanted is made there, changed there, and removed
//! there when the object goes; when the service fails, it is tried again.

use async_trait::async_trait;
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_runtime::{
    Action, Cache, Context, Controller, Key, ReconcileError, Reconciler, Recorder, Registration, Scope,
};

use crate::neutron::{self, NeutronClient};

/// What a hub is told of it.
pub const REGISTRATION: Registration = Registration {
    name: "network",
    about: "Keeps a network in Neutron for every Network",
    crd: Some(<Network as kube::CustomResourceExt>::crd),
    graph: None,
    build: |context| {
        let Settings { neutron_url } = context.settings()?;
        Ok(controller(context, &neutron_url))
    },
};

/// What it has to be told.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    /// Where Neutron is, such as `http://127.0.0.1:9696`.
    neutron_url: String,
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

struct Networks {
    networks: Cache<Network>,
    neutron: NeutronClient,
    events: Recorder,
}

/// The controller, of networks in the service at `url`.
fn controller(context: &Context, url: &str) -> Controller {
    let networks = context.informers.of::<Network>(&Scope::all());
    let neutron = NeutronClient::new(url);
    let reconciler = Networks {
        networks: networks.cache().clone(),
        neutron: neutron.clone(),
        events: context.events.recorder(COMPONENT),
    };
    let controller = context.controller(reconciler).reconciles(&networks).workers(2);
    let queue = controller.queue().clone();
    // What was deleted while nobody was looking is still there.
    controller.after_sync(move || {
        let (neutron, queue) = (neutron.clone(), queue.clone());
        async move {
            for network in neutron.list().await? {
                if let Ok(key) = network.name.parse() {
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
        let name = key.to_string();
        let found = self.neutron.find(&name).await?;
        let Some(network) = self.networks.get(key) else {
            tracing::info!("Network: {key} does not exist in local cache, will delete it from Neutron ...");
            if let Some(found) = found {
                tracing::info!("[Neutron] Deleting network: {key} ...");
                self.neutron.delete(&found.id).await?;
            }
            return Ok(Action::Done);
        };
        tracing::info!("[Neutron] Try to process network: {key} ...");
        let wanted = neutron::Network {
            id: String::new(),
            name,
            cidr: network.spec.cidr.clone(),
            gateway: network.spec.gateway.clone(),
        };
        match found {
            None => self.neutron.create(wanted).await?,
            Some(found) if (&found.cidr, &found.gateway) != (&wanted.cidr, &wanted.gateway) => {
                self.neutron.update(&found.id, wanted).await?;
            }
            Some(_) => {}
        }
        tracing::debug!(name = network.name_any(), "Network synced");
        self.events.normal(&*network, "Synced", "Network synced successfully");
        Ok(Action::Done)
    }
}
