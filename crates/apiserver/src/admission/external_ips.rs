//! ExternalIPs: services take traffic for addresses of the outside only where that was allowed.
//!
//! Whoever may create a service could otherwise have the cluster send them what is meant for any address
//! (CVE-2020-8554). Addresses that a service has already stay.

use std::net::IpAddr;

use async_trait::async_trait;
use ipnet::IpNet;
use serde_json::Value;
use windlass_machinery::object::{Object, list_at};

use super::{Operation, Plugin, Request};
use crate::status::Outcome;

/// The admission plugin.
pub(crate) struct ExternalIps {
    /// Where external addresses may be.
    pub(crate) allowed: Vec<IpNet>,
}

#[async_trait]
impl Plugin for ExternalIps {
    fn name(&self) -> &'static str {
        "DenyServiceExternalIPs"
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let is_written = matches!(request.operation, Operation::Create | Operation::Update);
        if !is_written || !request.is("", "services") {
            return Ok(());
        }
        let had: Vec<&str> = request.old.map(addresses).unwrap_or_default();
        let new = addresses(&request.object);
        match new.into_iter().find(|address| !had.contains(address) && !self.allows(address)) {
            None => Ok(()),
            Some(address) => Err(request.refuse(format!(
                "spec.externalIPs: Use of external IPs is denied by admission control: {address} is in none of the allowed networks"
            ))),
        }
    }
}

impl ExternalIps {
    fn allows(&self, address: &str) -> bool {
        // What is no address is refused by validation, in better words.
        let Ok(address) = address.parse::<IpAddr>() else { return true };
        self.allowed.iter().any(|network| network.contains(&address.to_canonical()))
    }
}

fn addresses(service: &Object) -> Vec<&str> {
    list_at(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect()
}
