//! TLS as the server speaks it: HTTP/2 first, client certificates welcome but not needed.
//!
//! What the server shows, and whom it believes, comes from the authority in the data directory, or from files that
//! someone else keeps. Those are looked at again and again, and what they say holds for new connections; those that came
//! with a certificate which is believed no more are cut. Each change
//! makes a whole new configuration, so that no session goes on that was begun under another. Files that are no good
//! change nothing: what was good last stays. Our own authority is believed in any case, for the administrator.
//! Start at [`ServerTls`].

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    server::{ServerSessionMemoryCache, WebPkiClientVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem::PemObject};
use tokio::sync::watch;
use windlass_apiserver::Tls;

use crate::{
    args::Usage,
    datadir::warn_if_open,
    pki::{Identity, Pki},
};

#[cfg(test)]
mod tests;

/// Sessions of TLS 1.2 clients without tickets that can be resumed. Each is about a kilobyte.
const N_SESSIONS: usize = 1024;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// More than any bundle of authorities has.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Files that are used instead of what is in the data directory, and which TLS is spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The server's certificate with those between it and its authority, and its key.
    pub(crate) server: Option<(PathBuf, PathBuf)>,
    /// Authorities that sign the certificates of clients, besides our own.
    pub(crate) client_ca: Option<PathBuf>,
    /// Certificates of clients that their authorities have taken back.
    pub(crate) client_crl: Option<PathBuf>,
    /// Whether TLS 1.2 is refused.
    pub(crate) only_tls13: bool,
}

/// What was in the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// What the server shows.
    pub(crate) server: Option<Identity>,
    /// Whom it believes besides our own authority.
    pub(crate) client_ca: Option<String>,
    /// Which certificates it does not, all the same.
    pub(crate) client_crl: Option<String>,
}

impl TlsFiles {
    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.server.is_some() || self.client_ca.is_some() || self.client_crl.is_some()
    }

    /// Reads them. An error names the flag and the file.
    pub(crate) fn read(&self) -> Result<Given, Usage> {
        let server = match &self.server {
            Some((cert, key)) => Some(Identity {
                cert: read("--tls-cert-file", cert)?,
                key: read("--tls-private-key-file", key)?,
            }),
            None => None,
        };
        let client_ca = self.client_ca.as_deref().map(|path| read("--client-ca-file", path)).transpose()?;
        let client_crl =
            self.client_crl.as_deref().map(|path| read("--client-crl-file", path)).transpose()?;
        let given = Given { server, client_ca, client_crl };
        self.check(&given)?;
        Ok(given)
    }

    /// Whether what they hold can be used.
    fn check(&self, given: &Given) -> Result<(), Usage> {
        if let (Some((cert, key)), Some(identity)) = (&self.server, &given.server) {
            certified_key(identity).map_err(|error| {
                let why = crate::exit::chain(&error);
                Usage(format!(
                    "--tls-cert-file {}, --tls-private-key-file {}: {why}",
                    cert.display(),
                    key.display()
                ))
            })?;
        }
        if let (Some(path), Some(pem)) = (&self.client_ca, &given.client_ca) {
            let found = roots(pem).and_then(|roots| match roots.is_empty() {
                true => Err(anyhow!("there is no certificate in it")),
                false => Ok(()),
            });
            found.map_err(|error| {
                Usage(format!("--client-ca-file {}: {}", path.display(), crate::exit::chain(&error)))
            })?;
        }
        if let (Some(path), Some(pem)) = (&self.client_crl, &given.client_crl) {
            revocations(pem).map_err(|error| {
                Usage(format!("--client-crl-file {}: {}", path.display(), crate::exit::chain(&error)))
            })?;
        }
        Ok(())
    }

    /// Warns about a key that others can read. It is not ours to change.
    pub(crate) fn warn_of_open_keys(&self) {
        let Some((_, key)) = &self.server else { return };
        warn_if_open(key);
    }
}

fn read(flag: &str, path: &Path) -> Result<String, Usage> {
    let refused = |why: String| Usage(format!("{flag} {}: {why}", path.display()));
    let length = fs::metadata(path).map_err(|error| refused(format!("expected a PEM file: {error}")))?.len();
    if length > MAX_FILE_BYTES {
        return Err(refused("expected a PEM file, found something far larger".to_owned()));
    }
    let bytes = fs::read(path).map_err(|error| refused(format!("expected a PEM file: {error}")))?;
    String::from_utf8(bytes).map_err(|_| refused("expected a PEM file, found something else".to_owned()))
}

/// The server's side of TLS, which can be exchanged while connections come in.
pub(crate) struct ServerTls {
    files: TlsFiles,
    tls_tx: watch::Sender<Tls>,
}

impl ServerTls {
    /// Shows the server's certificate, and believes those that the authorities have signed.
    pub(crate) fn new(files: TlsFiles, pki: &Pki, given: &Given) -> anyhow::Result<Self> {
        let tls = tls(pki, given, files.only_tls13)?;
        Ok(ServerTls { files, tls_tx: watch::channel(tls).0 })
    }

    /// What new connections get, and what those that are there have to stand up to.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Tls> {
        self.tls_tx.subscribe()
    }

    /// Uses these from now on.
    pub(crate) fn replace(&self, pki: &Pki, given: &Given) -> anyhow::Result<()> {
        self.tls_tx.send_replace(tls(pki, given, self.files.only_tls13)?);
        Ok(())
    }

    /// Waits until the files hold something else than `given` that can be used.
    pub(crate) async fn changed(&self, given: &Given) -> Given {
        let mut complaint = String::new();
        loop {
            tokio::time::sleep(LOOK).await;
            if !self.files.any() {
                continue;
            }
            match self.files.read() {
                Ok(found) if found != *given => return found,
                Ok(_) => complaint.clear(),
                Err(error) if error.0 != complaint => {
                    tracing::error!(%error, "cannot use this; what was good last stays in use");
                    complaint = error.0;
                }
                Err(_) => {}
            }
        }
    }
}

fn tls(pki: &Pki, given: &Given, only_tls13: bool) -> anyhow::Result<Tls> {
    const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];
    let key = certified_key(given.server.as_ref().unwrap_or(&pki.server))?;
    let mut believed = roots(&pki.ca)?;
    if let Some(pem) = &given.client_ca {
        believed.extend(roots(pem)?.roots);
    }
    let mut clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(believed), provider()).allow_unauthenticated();
    if let Some(pem) = &given.client_crl {
        // Authorities that have no list take nothing back.
        clients = clients
            .with_crls(revocations(pem)?)
            .only_check_end_entity_revocation()
            .allow_unknown_revocation_status();
    }
    let clients = clients.build().context("an authority or a revocation list cannot be used for clients")?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(if only_tls13 { &BOTH[..1] } else { BOTH })
        .context("ring speaks TLS 1.2 and 1.3")?
        .with_client_cert_verifier(Arc::clone(&clients))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = ServerSessionMemoryCache::new(N_SESSIONS);
    config.ticketer = ring::Ticketer::new().context("cannot make keys for TLS tickets")?;
    Ok(Tls { config: Arc::new(config), clients })
}

/// TLS with what is in these files, each with the flag that named it. With authorities for clients, one has to show a
/// certificate, unless it need not.
pub(crate) fn from_files(
    (cert_flag, cert): (&str, &Path),
    (key_flag, key): (&str, &Path),
    client_ca: Option<(&str, &Path)>,
    is_optional: bool,
) -> anyhow::Result<Arc<ServerConfig>> {
    warn_if_open(key);
    let identity = Identity { cert: read(cert_flag, cert)?, key: read(key_flag, key)? };
    let own = certified_key(&identity).map_err(|error| {
        let why = crate::exit::chain(&error);
        Usage(format!("{cert_flag} {}, {key_flag} {}: {why}", cert.display(), key.display()))
    })?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .context("ring speaks TLS 1.2 and 1.3")?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some((flag, path)) => {
            let wrong = |why: String| Usage(format!("{flag} {}: {why}", path.display()));
            let believed = roots(&read(flag, path)?).map_err(|error| wrong(crate::exit::chain(&error)))?;
            let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(believed), provider());
            let clients = if is_optional { clients.allow_unauthenticated() } else { clients };
            builder.with_client_cert_verifier(clients.build().map_err(|error| wrong(error.to_string()))?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// The only cryptography in the binary.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The authorities in `pem`.
pub(crate) fn roots(pem: &str) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for cert in certificates(pem)? {
        roots.add(cert).context("the authority's certificate is damaged")?;
    }
    Ok(roots)
}

/// The certificates in `pem`.
pub(crate) fn certificates(pem: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .context("a certificate is damaged")
}

/// The lists in `pem` of certificates that were taken back.
fn revocations(pem: &str) -> anyhow::Result<Vec<CertificateRevocationListDer<'static>>> {
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .context("a revocation list is damaged")?;
    if lists.is_empty() {
        bail!("there is no revocation list in it");
    }
    for list in &lists {
        x509_parser::parse_x509_crl(list).context("a revocation list is damaged")?;
    }
    Ok(lists)
}

/// The key in `pem`.
pub(crate) fn private_key(pem: &str) -> anyhow::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).context("a key is damaged")
}

fn certified_key(identity: &Identity) -> anyhow::Result<CertifiedKey> {
    let certs = certificates(&identity.cert)?;
    if certs.is_empty() {
        bail!("there is no certificate in it");
    }
    let key = provider().key_provider.load_private_key(private_key(&identity.key)?);
    let both = CertifiedKey::new(certs, key.context("the server's key cannot be used")?);
    match both.keys_match() {
        // A key that cannot say what it belongs to may still belong.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(both),
        Err(error) => Err(error).context("the key is of another certificate"),
    }
}
