//! What can be set.

use std::{net::SocketAddr, ops::RangeInclusive, sync::Arc, time::Duration};

use ipnet::IpNet;

use crate::{
    access::{Authentication, issuers::IssuerConfig},
    admission::Signer,
    audit::Audit,
};

/// The settings of the API server.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a request may take, watches aside.
    pub request_timeout: Duration,
    /// Watches whose client sets no limit end after this long, or up to twice as long.
    pub min_request_timeout: Duration,
    /// Seats for requests that only read. Both kinds share the sum: priority levels say who has how many of it.
    pub max_inflight_reads: usize,
    /// Seats for requests that write.
    pub max_inflight_writes: usize,
    /// Connections at once. Below a few thousand, large fleets of watchers would not fit; each costs some 20 KiB
    /// and a file descriptor, of which the store must be left some.
    pub max_connections: usize,
    /// How long a list can be gone on with from where its first page left off, even if what it showed is still known.
    /// As in Kubernetes, so that clients meet there what they meet here.
    pub continue_ttl: Duration,
    /// How long events are kept.
    pub event_ttl: Duration,
    /// Where cluster IPs of services come from.
    pub service_cidrs: Vec<IpNet>,
    /// Where node ports of services come from.
    pub node_ports: RangeInclusive<u16>,
    /// Where external addresses of services may be; nowhere unless it is said.
    pub allowed_external_ips: Vec<IpNet>,
    /// Whether writes to an object itself may change its status and whatever else has a path of its own. For
    /// debugging.
    pub unrestricted_update: bool,
    /// Where clients reach the server.
    pub advertise: SocketAddr,
    /// How clients are known, besides by their certificates.
    pub authentication: Authentication,
    /// Whose tokens are trusted, besides our own.
    pub issuers: Option<IssuerConfig>,
    /// What is written down about requests; nothing without it.
    pub audit: Option<Arc<Audit>>,
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
            continue_ttl: Duration::from_secs(300),
            event_ttl: Duration::from_secs(3600),
            service_cidrs: vec![IpNet::V4(ipnet::Ipv4Net::new_assert([10, 96, 0, 0].into(), 12))],
            node_ports: 30000..=32767,
            allowed_external_ips: vec![],
            unrestricted_update: false,
            advertise: SocketAddr::from(([127, 0, 0, 1], 6443)),
            authentication: Authentication::default(),
            issuers: None,
            audit: None,
            allows_localhost: false,
            signer: None,
        }
    }
}
