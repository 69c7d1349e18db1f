//! The flags of the API server, and the configuration they make. Nothing here touches a disk or a socket.
//!
//! Names and meanings are kube-apiserver's where it has the same thing. Start at [`ServerArgs::config`].

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::ValueEnum;
use ipnet::IpNet;
use windlass_apiserver::Config;
use windlass_store::Retention;

use crate::{
    args::{DataDir, Usage},
    authn::{AuthnArgs, AuthnConfig},
    issuers::IssuerArgs,
    values::{GoDuration, PortRange, San, address, network},
};

/// As many requests at a time as anyone could want.
const NO_LIMIT: usize = u32::MAX as usize;

/// Where the API server listens, what it stores and how.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    data_dir: DataDir,

    /// The address to listen on; 0.0.0.0 is every one of this machine
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = address, help_heading = "Network")]
    bind_address: IpAddr,
    /// The port to listen on, with TLS; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 6443, help_heading = "Network")]
    secure_port: u16,
    /// The address that others reach this server at [default: the one it listens on]
    #[arg(long, value_name = "IP", value_parser = address, help_heading = "Network")]
    advertise_address: Option<IpAddr>,
    /// Further names or addresses for the server's certificate
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Network")]
    tls_san: Vec<San>,

    /// Where objects are kept: in the data directory, or in etcd [default: etcd if --etcd-servers is given, else file]
    #[arg(long, value_name = "BACKEND", help_heading = "Storage")]
    backend: Option<BackendName>,
    /// The members of an etcd cluster, such as https://10.0.0.1:2379
    #[arg(long, value_name = "URL", value_delimiter = ',', help_heading = "Storage")]
    etcd_servers: Vec<String>,
    /// What stands before every key in etcd
    #[arg(long, value_name = "PREFIX", default_value = "/registry", help_heading = "Storage")]
    etcd_prefix: String,
    /// Which resources are encrypted where they are stored, and the keys: an EncryptionConfiguration [default: Secrets,
    /// with a key in DIR/pki/encryption.yaml; in etcd nothing]
    #[arg(long, value_name = "FILE", help_heading = "Storage")]
    encryption_provider_config: Option<PathBuf>,
    /// The authority that signed etcd's certificates
    #[arg(long, value_name = "FILE", requires = "etcd_servers", help_heading = "Storage")]
    etcd_cafile: Option<PathBuf>,
    /// The certificate to show to etcd
    #[arg(
        long,
        value_name = "FILE",
        requires = "etcd_keyfile",
        requires = "etcd_cafile",
        help_heading = "Storage"
    )]
    etcd_certfile: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certfile", help_heading = "Storage")]
    etcd_keyfile: Option<PathBuf>,
    /// How long changes are kept, so that watches and long lists can go on from a revision of the past
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Retention::default().min_age), help_heading = "Storage")]
    history_window: GoDuration,
    /// How many of the newest changes are kept even when they are older than that
    #[arg(long, value_name = "N", default_value_t = Retention::default().min_changes, help_heading = "Storage")]
    history_changes: usize,

    /// How long a request may take, watches aside; 0 is the default
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Config::default().request_timeout), help_heading = "Requests")]
    request_timeout: GoDuration,
    /// How long a watch without a limit of its own lasts at least, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = Config::default().min_request_timeout.as_secs(), help_heading = "Requests")]
    min_request_timeout: u64,
    /// How many requests are served at a time, with --max-mutating-requests-inflight added; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = Config::default().max_inflight_reads, help_heading = "Requests")]
    max_requests_inflight: usize,
    /// How many more requests are served at a time; priority levels share the sum; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = Config::default().max_inflight_writes, help_heading = "Requests")]
    max_mutating_requests_inflight: usize,

    /// How long events are kept
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Config::default().event_ttl), help_heading = "Objects")]
    event_ttl: GoDuration,
    /// Let writes to an object change its status and other parts that have a path of their own; for debugging
    #[arg(long, help_heading = "Objects")]
    unrestricted_update: bool,
    /// The networks that service addresses come from: one, or one of each family
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = network, default_values_t = Config::default().service_cidrs, help_heading = "Objects")]
    service_cluster_ip_range: Vec<IpNet>,
    /// The ports that node ports come from
    #[arg(long, value_name = "FROM-TO", default_value_t = PortRange(Config::default().node_ports), help_heading = "Objects")]
    service_node_port_range: PortRange,

    #[command(flatten)]
    authn: AuthnArgs,
    #[command(flatten)]
    issuers: IssuerArgs,
}

/// The engines a store can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BackendName {
    /// The embedded store, in the data directory
    #[value(alias = "embedded")]
    File,
    /// An etcd cluster
    Etcd,
}

/// What to serve, and from where. Checked as far as can be without touching anything.
#[derive(Debug)]
pub(crate) struct ServeConfig {
    /// Where everything is kept.
    pub(crate) data_dir: DataDir,
    /// Where to listen.
    pub(crate) bind: SocketAddr,
    /// Where others reach the server, if that is elsewhere.
    pub(crate) advertise: Option<IpAddr>,
    /// What else the server's certificate is for.
    pub(crate) tls_san: Vec<San>,
    /// Where objects are kept.
    pub(crate) backend: Backend,
    /// Which resources are encrypted, and with what, if that was given.
    pub(crate) encryption: Option<PathBuf>,
    /// How much of the past is kept.
    pub(crate) retention: Retention,
    /// Whose tokens are trusted.
    pub(crate) issuers: IssuerArgs,
    /// How the API server behaves. Its own address is not known yet.
    pub(crate) api: Config,
    /// How clients are known. The files have not been read.
    pub(crate) authn: AuthnConfig,
}

/// Where objects are kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// In the data directory.
    Embedded,
    /// In etcd.
    Etcd(EtcdArgs),
}

/// How to reach etcd. The files have not been read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EtcdArgs {
    /// Addresses of the members.
    pub(crate) servers: Vec<String>,
    /// What stands before every key; ends with `/`.
    pub(crate) prefix: String,
    /// The file with the authority's certificate.
    pub(crate) cafile: Option<PathBuf>,
    /// The files with our certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl ServerArgs {
    /// Checks what one flag alone cannot show to be wrong.
    pub(crate) fn config(self) -> Result<ServeConfig, Usage> {
        let ServerArgs {
            data_dir,
            bind_address,
            secure_port,
            advertise_address,
            tls_san,
            backend,
            etcd_servers,
            etcd_prefix,
            encryption_provider_config,
            etcd_cafile,
            etcd_certfile,
            etcd_keyfile,
            history_window,
            history_changes,
            request_timeout,
            min_request_timeout,
            max_requests_inflight,
            max_mutating_requests_inflight,
            event_ttl,
            unrestricted_update,
            service_cluster_ip_range,
            service_node_port_range,
            authn,
            issuers,
        } = self;
        if let Some(address) = advertise_address.filter(IpAddr::is_unspecified) {
            return usage(format!(
                "--advertise-address {address}: nobody can be reached there, expected an address of this machine"
            ));
        }
        if event_ttl.0.is_zero() {
            return usage("--event-ttl 0: expected a duration above zero, such as 1h".into());
        }
        let defaults = Config::default();
        let etcd = EtcdArgs {
            servers: etcd_servers,
            prefix: etcd_prefix,
            cafile: etcd_cafile,
            identity: etcd_certfile.zip(etcd_keyfile),
        };
        Ok(ServeConfig {
            data_dir,
            bind: SocketAddr::new(bind_address, secure_port),
            advertise: advertise_address,
            tls_san,
            authn: authn.config()?,
            backend: choose_backend(backend, etcd)?,
            encryption: encryption_provider_config,
            retention: Retention {
                min_age: history_window.0,
                min_changes: history_changes,
                ..Retention::default()
            },
            issuers,
            api: Config {
                request_timeout: if request_timeout.0.is_zero() {
                    defaults.request_timeout
                } else {
                    request_timeout.0
                },
                min_request_timeout: Duration::from_secs(min_request_timeout),
                max_inflight_reads: limit(max_requests_inflight),
                max_inflight_writes: limit(max_mutating_requests_inflight),
                event_ttl: event_ttl.0,
                unrestricted_update,
                service_cidrs: service_networks(service_cluster_ip_range)?,
                node_ports: service_node_port_range.0,
                ..defaults
            },
        })
    }
}

fn usage<T>(text: String) -> Result<T, Usage> {
    Err(Usage(text))
}

fn limit(number: usize) -> usize {
    if number == 0 { NO_LIMIT } else { number.min(NO_LIMIT) }
}

fn choose_backend(name: Option<BackendName>, etcd: EtcdArgs) -> Result<Backend, Usage> {
    match (name, etcd.servers.is_empty()) {
        (None | Some(BackendName::File), true) => return Ok(Backend::Embedded),
        (Some(BackendName::File), false) => {
            return usage("--etcd-servers: expected --backend etcd beside it, found --backend file".into());
        }
        (Some(BackendName::Etcd), true) => {
            return usage("--backend etcd: expected --etcd-servers URL,URL beside it".into());
        }
        (None | Some(BackendName::Etcd), false) => {}
    }
    for server in &etcd.servers {
        let (scheme, rest) = server.split_once("://").unwrap_or(("", server));
        if rest.is_empty() || !["", "http", "https"].contains(&scheme) || rest.contains(char::is_whitespace) {
            return usage(format!(
                "--etcd-servers {server}: expected an address such as https://10.0.0.1:2379"
            ));
        }
        if scheme == "https" && etcd.cafile.is_none() {
            return usage(format!("--etcd-servers {server}: expected --etcd-cafile FILE beside it"));
        }
        if scheme == "http" && etcd.cafile.is_some() {
            return usage(format!("--etcd-servers {server}: expected https, since --etcd-cafile is given"));
        }
    }
    let prefix = match etcd.prefix.trim_matches('/') {
        "" => "/".to_owned(),
        inner => format!("/{inner}/"),
    };
    Ok(Backend::Etcd(EtcdArgs { prefix, ..etcd }))
}

fn service_networks(nets: Vec<IpNet>) -> Result<Vec<IpNet>, Usage> {
    let is_v4 = |net: &IpNet| net.addr().is_ipv4();
    match nets.as_slice() {
        [one, other] if is_v4(one) == is_v4(other) => {}
        [_] | [_, _] => {
            let Some(small) = nets.iter().find(|net| net.max_prefix_len() - net.prefix_len() < 3) else {
                return Ok(nets);
            };
            return usage(format!(
                "--service-cluster-ip-range {small}: expected room for eight addresses or more"
            ));
        }
        _ => {}
    }
    let found = nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    usage(format!("--service-cluster-ip-range {found}: expected one network, or one of each family"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        server: ServerArgs,
    }

    fn config(flags: &str) -> Result<ServeConfig, String> {
        let line = Line::try_parse_from(["windlass"].into_iter().chain(flags.split_whitespace()));
        line.map_err(|error| error.to_string())?.server.config().map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_the_defaults_of_the_server_hold() {
        let ServeConfig { bind, backend, retention, api, advertise, .. } =
            config("").expect("no flag is needed");
        assert_eq!((bind.to_string().as_str(), advertise), ("127.0.0.1:6443", None));
        assert_eq!(backend, Backend::Embedded);
        assert_eq!(format!("{api:?}"), format!("{:?}", Config::default()));
        assert_eq!(format!("{retention:?}"), format!("{:?}", Retention::default()));
    }

    #[test]
    fn flags_mean_what_they_mean_to_kube_apiserver() {
        let flags = "--request-timeout 0 --min-request-timeout 60 --max-requests-inflight 0 \
                     --max-mutating-requests-inflight 7 --event-ttl 2h --service-node-port-range 100-200 \
                     --service-cluster-ip-range 10.1.2.3/16,fd00::/108 --advertise-address 10.0.0.9";
        let ServeConfig { api, advertise, .. } = config(flags).expect("good flags");
        assert_eq!(api.request_timeout, Config::default().request_timeout);
        assert_eq!(api.min_request_timeout, Duration::from_secs(60));
        assert_eq!((api.max_inflight_reads, api.max_inflight_writes), (NO_LIMIT, 7));
        assert_eq!(api.event_ttl, Duration::from_secs(7200));
        assert_eq!(api.node_ports, 100..=200);
        assert_eq!(api.service_cidrs[0].to_string(), "10.1.0.0/16");
        assert_eq!(advertise, Some(IpAddr::from([10, 0, 0, 9])));
    }

    #[test]
    fn the_past_is_kept_as_long_as_the_flags_say() {
        let ServeConfig { retention, .. } =
            config("--history-window 90s --history-changes 7").expect("good flags");
        assert_eq!((retention.min_age, retention.min_changes), (Duration::from_secs(90), 7));
        assert_eq!(retention.max_bytes, Retention::default().max_bytes);
    }

    #[test]
    fn naming_etcd_servers_is_choosing_etcd() {
        let ServeConfig { backend, .. } =
            config("--etcd-servers http://a:2379,b:2379 --etcd-prefix kube").expect("good flags");
        let Backend::Etcd(etcd) = backend else { panic!("etcd was asked for") };
        assert_eq!((etcd.servers.len(), etcd.prefix.as_str()), (2, "/kube/"));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_was_expected() {
        for (flags, named, expected) in [
            ("--request-timeout soon", "--request-timeout", "such as 60s"),
            ("--bind-address nowhere", "--bind-address", "expected an IP address"),
            ("--secure-port 70000", "--secure-port", "0..=65535"),
            ("--backend mysql", "--backend", "file, etcd"),
            ("--backend etcd", "--backend", "--etcd-servers"),
            ("--backend file --etcd-servers a", "--etcd-servers", "--backend etcd"),
            ("--etcd-servers ftp://a", "--etcd-servers", "https://10.0.0.1:2379"),
            ("--etcd-servers https://a", "--etcd-servers", "--etcd-cafile"),
            ("--etcd-servers http://a --etcd-cafile f", "--etcd-servers", "expected https"),
            ("--etcd-servers https://a --etcd-cafile f --etcd-certfile g", "--etcd-keyfile", "required"),
            ("--service-cluster-ip-range 10.0.0.0", "--service-cluster-ip-range", "such as 10.96.0.0/12"),
            (
                "--service-cluster-ip-range 10.0.0.0/16,10.1.0.0/16",
                "--service-cluster-ip-range",
                "each family",
            ),
            ("--service-cluster-ip-range 10.0.0.0/31", "--service-cluster-ip-range", "eight addresses"),
            ("--service-node-port-range 9-1", "--service-node-port-range", "such as 30000-32767"),
            ("--tls-san a_b..c", "--tls-san", "expected a host name"),
            ("--event-ttl 0", "--event-ttl", "above zero"),
            ("--advertise-address 0.0.0.0", "--advertise-address", "an address of this machine"),
            ("--max-requests-inflight many", "--max-requests-inflight", "invalid digit"),
        ] {
            let refused = config(flags).expect_err(flags);
            assert!(refused.contains(named) && refused.contains(expected), "{flags}: {refused}");
        }
    }
}
