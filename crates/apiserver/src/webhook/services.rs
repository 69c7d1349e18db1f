//! Where the services of the cluster are: as their objects in the store say.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use serde_json::Value;
use windlass_machinery::object::{Object, list_at, metadata, str_at};
use windlass_store::{Read, Store};

use super::connect::lookup;
use crate::{admission::View, resources::Catalog};

/// Finds services.
#[async_trait]
pub(crate) trait Services: Send + Sync {
    /// Where this port of a service can be reached, the first choice first; or why it cannot.
    async fn addresses(&self, namespace: &str, name: &str, port: u16) -> Result<Vec<SocketAddr>, String>;
}

/// Services as they are stored: those behind it that are ready, in any order, or else its own address.
pub(crate) struct StoredServices {
    pub(crate) store: Arc<dyn Store>,
    /// The built-in rows.
    pub(crate) catalog: Arc<Catalog>,
}

#[async_trait]
impl Services for StoredServices {
    async fn addresses(&self, namespace: &str, name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        let called = format!("service \"{namespace}/{name}\"");
        let snapshot = self.store.snapshot(Read::Seen).await.map_err(|error| error.to_string())?;
        let view = View { snapshot, catalog: Arc::clone(&self.catalog) };
        let Some((service, _)) = view.get("", "services", namespace, name) else {
            return Err(format!("{called} not found"));
        };
        if str_at(&service, &["spec", "type"]) == Some("ExternalName") {
            let host = str_at(&service, &["spec", "externalName"]).unwrap_or_default();
            return lookup(host, port).await.map_err(|error| error.to_string());
        }
        let is_it = |one: &&Value| one.get("port").and_then(Value::as_u64) == Some(u64::from(port));
        let Some(own) = list_at(&service, &["spec", "ports"]).iter().find(is_it) else {
            return Err(format!("no service port {port} found for {called}"));
        };
        let port_name = own.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut found = behind(&view, namespace, name, port_name);
        fastrand::shuffle(&mut found);
        if found.is_empty() {
            let own = str_at(&service, &["spec", "clusterIP"]).and_then(|address| address.parse().ok());
            found.extend(own.map(|address: IpAddr| SocketAddr::new(address, port)));
        }
        match found.is_empty() {
            true => Err(format!("no endpoints available for {called}")),
            false => Ok(found),
        }
    }
}

/// What is ready behind the port of this name.
fn behind(view: &View, namespace: &str, name: &str, port_name: &str) -> Vec<SocketAddr> {
    let mut found = vec![];
    for (slice, _) in view.list("discovery.k8s.io", "endpointslices", namespace) {
        let labels = metadata(&slice).get("labels").and_then(Value::as_object);
        let owner = labels.and_then(|labels| labels.get("kubernetes.io/service-name")?.as_str());
        if owner != Some(name) {
            continue;
        }
        for endpoint in list_at(&slice, &["endpoints"]).iter().filter_map(Value::as_object) {
            let ready = endpoint.get("conditions").and_then(|conditions| conditions.get("ready"));
            if ready.and_then(Value::as_bool) != Some(false) {
                let addresses = list_at(endpoint, &["addresses"]).iter().filter_map(Value::as_str);
                pair(addresses, &slice, port_name, &mut found);
            }
        }
    }
    let endpoints =
        view.get("", "endpoints", namespace, name).map(|(endpoints, _)| endpoints).unwrap_or_default();
    for subset in list_at(&endpoints, &["subsets"]).iter().filter_map(Value::as_object) {
        let addresses = list_at(subset, &["addresses"]).iter().filter_map(|one| one.get("ip")?.as_str());
        pair(addresses, subset, port_name, &mut found);
    }
    found.sort();
    found.dedup();
    found
}

/// Every address with the port of this name.
fn pair<'a>(
    addresses: impl Iterator<Item = &'a str>,
    holder: &Object,
    port_name: &str,
    found: &mut Vec<SocketAddr>,
) {
    let named = |port: &&Value| port.get("name").and_then(Value::as_str).unwrap_or_default() == port_name;
    let port = list_at(holder, &["ports"]).iter().find(named).and_then(|port| port.get("port")?.as_u64());
    let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else { return };
    let addresses = addresses.filter_map(|address| address.parse().ok());
    found.extend(addresses.map(|address: IpAddr| SocketAddr::new(address, port)));
}
