//! What the etcd engine is told, and why it may not come up.

use std::{fmt, sync::Arc, time::Duration};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::{Retention, Seal, UnsealError};

/// Connecting takes a round trip or two; a host that is not there must not use up a request's whole time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// etcd closes connections that ping more often than every five seconds, so a little less often.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(6);

/// A server that has not answered a ping for this long is taken for dead, and the watch moves on.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes under way per stream. At HTTP/2's default of 64 KiB, loading a large store over a network with 10 ms
/// round trips would crawl at 6 MiB/s.
const WINDOW_BYTES: u32 = 4 << 20;

/// How to reach an etcd cluster and what to keep of it.
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    /// Client addresses of the members, such as `https://10.0.0.1:2379`. Without a scheme, `tls` decides.
    pub endpoints: Vec<String>,
    /// What stands before every key in etcd. Ends with `/`; `/registry/` by default, as in Kubernetes.
    pub prefix: String,
    /// Certificates; without them connections are in the clear.
    pub tls: Option<EtcdTls>,
    /// Who to be, where etcd has authentication enabled.
    pub user: Option<EtcdUser>,
    /// How much history to hold in memory.
    pub retention: Retention,
    /// How long one request may take, with all attempts to connect; 5 s by default. etcd itself gives up on a
    /// write after 7 s, so waiting much longer than that gains nothing.
    pub request_timeout: Duration,
    /// How often old revisions are compacted away in etcd, together with any other server or kube-apiserver
    /// on it; every 5 minutes by default, `None` leaves it to others.
    pub compaction_interval: Option<Duration>,
    /// How values are sealed on their way to etcd; the same keys on every server. By default they are not.
    pub seal: Option<Arc<dyn Seal>>,
}

impl EtcdConfig {
    /// The defaults, for these members.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        EtcdConfig {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            prefix: "/registry/".to_owned(),
            tls: None,
            user: None,
            retention: Retention::default(),
            request_timeout: Duration::from_secs(5),
            compaction_interval: Some(Duration::from_secs(300)),
            seal: None,
        }
    }

    /// Refuses settings that cannot work, before anything is connected.
    pub(super) fn validate(&self) -> Result<(), ConnectError> {
        if self.endpoints.is_empty() {
            return Err(ConnectError::NoEndpoints);
        }
        if !self.prefix.ends_with('/') {
            return Err(ConnectError::BadPrefix { prefix: self.prefix.clone() });
        }
        Ok(())
    }

    /// How to connect to one of the endpoints.
    pub(super) fn endpoint(&self, address: &str) -> Result<Endpoint, ConnectError> {
        let bad = |source| ConnectError::BadEndpoint { endpoint: address.to_owned(), source };
        let url = match (address.contains("://"), &self.tls) {
            (true, _) => address.to_owned(),
            (false, Some(_)) => format!("https://{address}"),
            (false, None) => format!("http://{address}"),
        };
        if url.starts_with("https://") != self.tls.is_some() {
            return Err(ConnectError::TlsMismatch { endpoint: address.to_owned() });
        }
        let endpoint = Endpoint::from_shared(url)
            .map_err(bad)?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(2 * WINDOW_BYTES);
        match &self.tls {
            Some(tls) => endpoint.tls_config(tls.client_config()).map_err(bad),
            None => Ok(endpoint),
        }
    }
}

/// Certificates for etcd, in PEM.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    /// The authority that signed the servers' certificates.
    pub ca: Vec<u8>,
    /// What to show to servers that ask for a client certificate.
    pub identity: Option<EtcdIdentity>,
}

impl EtcdTls {
    fn client_config(&self) -> ClientTlsConfig {
        let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca));
        match &self.identity {
            Some(EtcdIdentity { cert, key }) => config.identity(Identity::from_pem(cert, key)),
            None => config,
        }
    }
}

/// A client certificate and its key, in PEM.
#[derive(Clone)]
pub struct EtcdIdentity {
    /// The certificate, followed by any intermediate ones.
    pub cert: Vec<u8>,
    /// Its private key. Never printed.
    pub key: Vec<u8>,
}

impl fmt::Debug for EtcdIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdIdentity").finish_non_exhaustive()
    }
}

/// A user of etcd's own authentication.
#[derive(Clone)]
pub struct EtcdUser {
    /// The user's name.
    pub name: String,
    /// The user's password. Never printed.
    pub password: String,
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUser").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why the etcd engine did not come up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No endpoint was given.
    #[error("no etcd endpoint given")]
    NoEndpoints,
    /// The prefix would not separate our keys from others.
    #[error("etcd prefix {prefix:?} does not end with '/'")]
    BadPrefix {
        /// The prefix in question.
        prefix: String,
    },
    /// The endpoint is no address, or the certificates do not parse.
    #[error("cannot use etcd endpoint {endpoint}")]
    BadEndpoint {
        /// The endpoint in question.
        endpoint: String,
        /// What is wrong with it.
        source: tonic::transport::Error,
    },
    /// An `https` endpoint without certificates, or certificates with an `http` endpoint.
    #[error("etcd endpoint {endpoint} is https exactly if certificates are given")]
    TlsMismatch {
        /// The endpoint in question.
        endpoint: String,
    },
    /// No endpoint answered, or the answer was no. Check the addresses, certificates and user.
    #[error("cannot load from etcd at {endpoints}")]
    Load {
        /// All endpoints, separated by commas.
        endpoints: String,
        /// What the last one tried came to.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A value is sealed, and not with a key that was given. Bring that key.
    #[error(transparent)]
    Sealed(UnsealError),
    /// The store's thread could not be started.
    #[error("cannot start the publisher of the etcd store")]
    Thread(#[source] std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_printed() {
        let mut config = EtcdConfig::new(["https://etcd:2379"]);
        config.user = Some(EtcdUser { name: "root".into(), password: "hush-password".into() });
        let identity = EtcdIdentity { cert: b"cert".into(), key: b"hush-key".into() };
        config.tls = Some(EtcdTls { ca: b"ca".into(), identity: Some(identity) });
        let printed = format!("{config:?}");
        assert!(printed.contains("root"));
        assert!(!printed.contains("hush"), "{printed}");
        assert!(!printed.contains(&format!("{:?}", b"hush-key")), "{printed}");
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let mut config = EtcdConfig::new(["https://etcd:2379"]);
        assert!(matches!(config.endpoint("https://etcd:2379"), Err(ConnectError::TlsMismatch { .. })));
        assert!(matches!(config.endpoint("no spaces"), Err(ConnectError::BadEndpoint { .. })));
        assert!(matches!(EtcdConfig::new([""; 0]).validate(), Err(ConnectError::NoEndpoints)));
        config.prefix = "/registry".into();
        assert!(matches!(config.validate(), Err(ConnectError::BadPrefix { .. })));
    }
}
