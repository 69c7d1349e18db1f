//! How clients come in: certificates from files, plain HTTP, and programs on this machine that need no credentials.
//!
//! None of it is there unless it is asked for. Plain HTTP is for this machine alone unless a further flag says otherwise,
//! and shows credentials to whoever listens in; so it knows nobody who does not send any, except with the localhost
//! rule, which [`Guard`] is. Start at [`TransportArgs::insecure`] and [`TransportArgs::tls`].

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use clap::ValueEnum;

use windlass_apiserver::Guard;

use crate::{args::Usage, tls::TlsFiles, values::address};

/// Where the system says of each interface whether others can reach loopback through it.
const INTERFACES: &str = "/proc/sys/net/ipv4/conf";

/// Flags about how clients come in.
#[derive(Debug, clap::Args)]
pub(crate) struct TransportArgs {
    /// The server's certificate, followed by those between it and its authority; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", help_heading = "Network")]
    tls_cert_file: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file", help_heading = "Network")]
    tls_private_key_file: Option<PathBuf>,
    /// Authorities whose client certificates are believed besides our own's; read again when it changes
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    client_ca_file: Option<PathBuf>,
    /// Client certificates that are believed no more: revocation lists of their authorities, in PEM; read again when it changes
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    client_crl_file: Option<PathBuf>,
    /// The oldest TLS that is spoken
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12", help_heading = "Network")]
    tls_min_version: TlsVersion,

    /// A port for plain HTTP, without TLS and client certificates; 0 is none
    #[arg(long, value_name = "PORT", default_value_t = 0, help_heading = "Insecure")]
    insecure_port: u16,
    /// The address of that port
    #[arg(
        long,
        value_name = "IP",
        alias = "insecure-addr",
        default_value = "127.0.0.1",
        value_parser = address,
        help_heading = "Insecure"
    )]
    insecure_bind_address: IpAddr,
    /// Let that address be one that other machines reach: tokens and data are then readable on the way
    #[arg(long, help_heading = "Insecure")]
    insecure_allow_remote: bool,
    /// Take whoever comes from this machine over that port for the user system:localhost, without credentials
    #[arg(long, help_heading = "Insecure")]
    authn_allow_localhost: bool,
}

/// Versions of TLS, as Go calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TlsVersion {
    /// TLS 1.2
    #[value(name = "VersionTLS12")]
    Tls12,
    /// TLS 1.3
    #[value(name = "VersionTLS13")]
    Tls13,
}

/// A listener for plain HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Insecure {
    /// Where.
    pub(crate) bind: SocketAddr,
    /// Whether programs on this machine need no credentials there.
    pub(crate) allows_localhost: bool,
}

impl TransportArgs {
    /// The files that are used instead of what is in the data directory, not read yet.
    pub(crate) fn tls(&self) -> TlsFiles {
        TlsFiles {
            server: self.tls_cert_file.clone().zip(self.tls_private_key_file.clone()),
            client_ca: self.client_ca_file.clone(),
            client_crl: self.client_crl_file.clone(),
            only_tls13: self.tls_min_version == TlsVersion::Tls13,
        }
    }

    /// The listener for plain HTTP, if there is to be one.
    pub(crate) fn insecure(&self) -> Result<Option<Insecure>, Usage> {
        let TransportArgs {
            insecure_port: port,
            insecure_bind_address: ip,
            insecure_allow_remote,
            authn_allow_localhost: allows_localhost,
            ..
        } = *self;
        let usage = |text: String| Err(Usage(text));
        if port == 0 {
            return match allows_localhost {
                true => usage("--authn-allow-localhost: expected --insecure-port PORT beside it".into()),
                false => Ok(None),
            };
        }
        let bind = SocketAddr::new(ip, port);
        if allows_localhost && Guard::new(bind).is_none() {
            return usage(format!(
                "--insecure-bind-address {ip}: expected 127.0.0.1 or ::1, since --authn-allow-localhost is given"
            ));
        }
        if !ip.is_loopback() && !insecure_allow_remote {
            return usage(format!(
                "--insecure-bind-address {ip}: expected an address of loopback, or --insecure-allow-remote beside it"
            ));
        }
        Ok(Some(Insecure { bind, allows_localhost }))
    }
}

impl Insecure {
    /// Refuses where loopback can be reached from elsewhere, and says what is risky about the rest.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Insecure { bind, allows_localhost } = self;
        if *allows_localhost {
            check_interfaces(Path::new(INTERFACES))?;
            tracing::warn!(
                address = %bind,
                "--authn-allow-localhost: every program on this machine is the user system:localhost there"
            );
        }
        if bind.ip().is_loopback() {
            tracing::warn!(address = %bind, "--insecure-port: plain HTTP; whoever listens in can read tokens");
        } else {
            tracing::warn!(address = %bind, "--insecure-allow-remote: other machines can read tokens and data on the way");
        }
        Ok(())
    }
}

/// Refuses when an interface hands on to loopback what comes from other machines.
fn check_interfaces(folder: &Path) -> Result<(), Usage> {
    match open_interface(folder) {
        Ok(None) => Ok(()),
        Ok(Some(name)) => Err(Usage(format!(
            "--authn-allow-localhost: expected net.ipv4.conf.{name}.route_localnet to be 0: other machines can \
             reach loopback through it"
        ))),
        Err(error) => Err(Usage(format!(
            "--authn-allow-localhost: cannot tell whether other machines reach loopback: {}: {error}",
            folder.display()
        ))),
    }
}

fn open_interface(folder: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let setting = match fs::read_to_string(entry.path().join("route_localnet")) {
            // An interface that has gone meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            setting => setting?,
        };
        if setting.trim() != "0" {
            return Ok(Some(entry.file_name().to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        transport: TransportArgs,
    }

    fn insecure(flags: &str) -> Result<Option<Insecure>, String> {
        let line = Line::try_parse_from(["windlass"].into_iter().chain(flags.split_whitespace()));
        line.map_err(|error| error.to_string())?.transport.insecure().map_err(|error| error.to_string())
    }

    #[test]
    fn plain_http_is_off_and_then_on_loopback_only() {
        assert_eq!(insecure(""), Ok(None));
        for (flags, bind, allows_localhost) in [
            ("--insecure-port 8080", "127.0.0.1:8080", false),
            ("--insecure-port 8080 --insecure-addr ::1 --authn-allow-localhost", "[::1]:8080", true),
            ("--insecure-port 1 --insecure-bind-address 127.0.0.2", "127.0.0.2:1", false),
            ("--insecure-port 1 --insecure-bind-address 0.0.0.0 --insecure-allow-remote", "0.0.0.0:1", false),
        ] {
            let bind = bind.parse().expect(bind);
            assert_eq!(insecure(flags), Ok(Some(Insecure { bind, allows_localhost })), "{flags}");
        }
    }

    #[test]
    fn what_would_let_others_in_is_refused() {
        for (flags, expected) in [
            ("--authn-allow-localhost", "--insecure-port"),
            ("--insecure-port 1 --insecure-addr 0.0.0.0", "--insecure-allow-remote"),
            ("--insecure-port 1 --insecure-addr ::", "--insecure-allow-remote"),
            ("--insecure-port 1 --insecure-addr 10.0.0.1", "--insecure-allow-remote"),
            ("--insecure-port 1 --insecure-addr ::ffff:127.0.0.1", "--insecure-allow-remote"),
            ("--insecure-port 1 --authn-allow-localhost --insecure-addr 127.0.0.2", "127.0.0.1 or ::1"),
            (
                "--insecure-port 1 --authn-allow-localhost --insecure-allow-remote --insecure-addr 0.0.0.0",
                "127.0.0.1 or ::1",
            ),
        ] {
            let refused = insecure(flags).expect_err(flags);
            assert!(refused.contains(expected), "{flags}: {refused}");
        }
    }

    #[test]
    fn one_interface_that_lets_others_reach_loopback_is_enough_to_refuse() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let set = |name: &str, value: &str| {
            fs::create_dir_all(folder.path().join(name)).expect("a folder");
            fs::write(folder.path().join(name).join("route_localnet"), value).expect("written");
        };
        set("all", "0\n");
        set("eth0", "0\n");
        assert!(check_interfaces(folder.path()).is_ok());
        set("eth0", "1\n");
        let refused = check_interfaces(folder.path()).expect_err("it is open").to_string();
        assert!(refused.contains("net.ipv4.conf.eth0.route_localnet"), "{refused}");
        assert!(check_interfaces(&folder.path().join("none")).is_err(), "who cannot tell does not trust");
    }
}
