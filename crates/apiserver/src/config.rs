//! What can be set.

use std::{net::SocketAddr, ops::RangeInclusive, sync::Arc, time::Duration};

use ipnet::IpNet;

use crate::admission::Signer;

/// The settings of the API server.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a request may take, watches aside.
    pub request_timeout: Duration,
    /// Watches whose client sets no limit end after this long, or up to twice as long.
    pub min_request_timeout: Duration,
    /// Requests that only read, at once.
    pub max_inflight_reads: usize,
    /// Requests that write, at once.
    pub max_inflight_writes: usize,
    /// Connections at once. Below a few thousand, large fleets of watchers would not fit; each costs some 20 KiB
    /// and a file descriptor, of which the store must be left some.
    pub max_connections: usize,
    /// How long events are kept.
    pub event_ttl: Duration,
    /// Where cluster IPs of services come from.
    pub service_cidrs: Vec<IpNet>,
    /// Where node ports of services come from.
    pub node_ports: RangeInclusive<u16>,
    /// Where clients reach the server.
    pub advertise: SocketAddr,
    /// Whether there is a listener that takes programs on this machine for a user without asking.
    pub allows_localhost: bool,
    /// Who signs the certificates of clients that are approved; nobody: someone outside has to.
    pub signer: Option<Arc<dyn Signer>>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            request_timeout: Duration::from_secs(60),
            min_request_timeout: Duration::from_secs(1800),
            max_inflight_reads: 400,
            max_inflight_writes: 200,
            max_connections: 20_000,
            event_ttl: Duration::from_secs(3600),
            service_cidrs: vec![IpNet::V4(ipnet::Ipv4Net::new_assert([10, 96, 0, 0].into(), 12))],
            node_ports: 30000..=32767,
            advertise: SocketAddr::from(([127, 0, 0, 1], 6443)),
            allows_localhost: false,
            signer: None,
        }
    }
}
