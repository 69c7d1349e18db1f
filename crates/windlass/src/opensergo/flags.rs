//! The flags of the OpenSergo control plane, and the configuration they make.

use std::{net::SocketAddr, path::PathBuf};

use windlass_opensergo::{debounce::Pace, plane::Settings, subscriber::Patience};

use crate::{args::Usage, values::GoDuration};

/// How the control plane serves its clients.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "OpenSergo")]
pub(crate) struct PlaneArgs {
    /// The port of the OpenSergo control plane, in plain text unless it is given a certificate; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 10246)]
    opensergo_port: u16,
    /// The port, on loopback, for who is subscribed, health and metrics; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    opensergo_status_port: u16,
    /// What it calls itself; each of several has a name of its own [default: HOSTNAME-PORT]
    #[arg(long, value_name = "NAME")]
    opensergo_identity: Option<String>,
    /// The certificate to speak TLS with; read again when it changes
    #[arg(long, value_name = "FILE", requires = "opensergo_tls_private_key_file")]
    opensergo_tls_cert_file: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "opensergo_tls_cert_file")]
    opensergo_tls_private_key_file: Option<PathBuf>,
    /// Authorities that sign the certificates of clients; one has to be shown, or with --opensergo-require-auth a token
    #[arg(long, value_name = "FILE", requires = "opensergo_tls_cert_file")]
    opensergo_client_ca_file: Option<PathBuf>,
    /// Serve only who shows a certificate or a token and may "subscribe" to the kind, in the namespace, under the name
    /// of the app
    #[arg(long)]
    opensergo_require_auth: bool,
    /// How long no more changes have to come before they are told
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Pace::default().quiet))]
    opensergo_debounce: GoDuration,
    /// How long changes wait at most
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Pace::default().most))]
    opensergo_debounce_max: GoDuration,
    /// How long a client may leave unread what it is sent
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Settings::default().send_timeout))]
    opensergo_send_timeout: GoDuration,
    /// How long an answer is waited for before something newer is sent all the same
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Patience::default().answer))]
    opensergo_ack_timeout: GoDuration,
    /// How many streams may be open
    #[arg(long, value_name = "N", default_value_t = Settings::default().most_streams)]
    opensergo_max_streams: usize,
    /// How many subscriptions a stream may have
    #[arg(long, value_name = "N", default_value_t = Settings::default().most_topics)]
    opensergo_max_subscriptions: usize,
}

/// Files to speak TLS with.
#[derive(Clone, Debug)]
pub(crate) struct TlsPaths {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_ca: Option<PathBuf>,
}

/// What the control plane is to do.
#[derive(Clone, Debug)]
pub(crate) struct PlaneConfig {
    pub(crate) port: u16,
    pub(crate) status_port: u16,
    pub(crate) identity: Option<String>,
    pub(crate) tls: Option<TlsPaths>,
    pub(crate) requires_auth: bool,
    /// All but the identity.
    pub(crate) settings: Settings,
}

impl PlaneArgs {
    /// Checks what one flag alone cannot show to be wrong.
    pub(crate) fn config(self) -> Result<PlaneConfig, Usage> {
        let (quiet, most) = (self.opensergo_debounce.0, self.opensergo_debounce_max.0);
        if most < quiet {
            return Err(Usage(format!(
                "--opensergo-debounce-max {}: expected no less than --opensergo-debounce, {}",
                self.opensergo_debounce_max, self.opensergo_debounce
            )));
        }
        let timeouts = [
            ("--opensergo-send-timeout", self.opensergo_send_timeout),
            ("--opensergo-ack-timeout", self.opensergo_ack_timeout),
        ];
        if let Some((flag, _)) = timeouts.iter().find(|(_, timeout)| timeout.0.is_zero()) {
            return Err(Usage(format!("{flag} 0: expected a duration above zero, such as 10s")));
        }
        let limits = [
            ("--opensergo-max-streams", self.opensergo_max_streams),
            ("--opensergo-max-subscriptions", self.opensergo_max_subscriptions),
        ];
        if let Some((flag, _)) = limits.iter().find(|(_, limit)| *limit == 0) {
            return Err(Usage(format!("{flag} 0: expected a number above zero")));
        }
        if let Some(identity) = &self.opensergo_identity {
            let is_good = |letter: u8| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"-.".contains(&letter)
            };
            let is_edge = |letter: Option<u8>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
            let is_name = |part: &str| is_edge(part.bytes().next()) && is_edge(part.bytes().last());
            if !identity.split('.').all(is_name) || identity.len() > 200 || !identity.bytes().all(is_good) {
                let text = "expected 1 to 200 lower-case letters, digits, '-' and '.', \
                    with a letter or digit before and after every '.'";
                return Err(Usage(format!("--opensergo-identity {identity:?}: {text}")));
            }
        }
        let tls = self.opensergo_tls_cert_file.zip(self.opensergo_tls_private_key_file);
        Ok(PlaneConfig {
            port: self.opensergo_port,
            status_port: self.opensergo_status_port,
            identity: self.opensergo_identity,
            tls: tls.map(|(cert, key)| TlsPaths { cert, key, client_ca: self.opensergo_client_ca_file }),
            requires_auth: self.opensergo_require_auth,
            settings: Settings {
                identity: String::new(),
                pace: Pace { quiet, most },
                patience: Patience { answer: self.opensergo_ack_timeout.0, ..Patience::default() },
                send_timeout: self.opensergo_send_timeout.0,
                most_streams: self.opensergo_max_streams,
                most_topics: self.opensergo_max_subscriptions,
            },
        })
    }
}

impl PlaneConfig {
    /// What it calls itself, once it is known where it listens.
    pub(crate) fn identity(&self, bound: SocketAddr) -> String {
        let hostname = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        self.identity.clone().unwrap_or_else(|| format!("{}-{}", name_of(&hostname), bound.port()))
    }
}

/// What a host is called in the names of objects.
fn name_of(hostname: &str) -> String {
    let parts =
        hostname.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let name: String = parts.collect::<Vec<_>>().join("-").chars().take(180).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}
