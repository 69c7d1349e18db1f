//! Runs the greeter on the cluster that KUBECONFIG names, or the one it is in, until Ctrl-C.

use std::error::Error;

use greeter::GREETER;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use tokio_util::sync::CancellationToken;
use windlass_runtime::{HubConfig, Manager};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt::init();
    let client = Client::try_default().await?;
    let kinds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in GREETER.crd.iter().map(|definition| definition()) {
        kinds.patch(&kind.name_any(), &PatchParams::apply("greeter").force(), &Patch::Apply(&kind)).await?;
    }
    let manager = Manager::of(client, &[GREETER], &HubConfig::default())?;
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(stop).await }
    });
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    Ok(running.await?)
}
