//! TLS as the server speaks it: 1.2 and 1.3, HTTP/2 first, client certificates welcome but not needed.

use std::{fmt, sync::Arc};

use anyhow::Context;
use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use crate::pki::{Identity, Pki};

/// Sessions of TLS 1.2 clients without tickets that can be resumed. Each is about a kilobyte.
const N_SESSIONS: usize = 1024;

/// The server's side of TLS. The certificate can be exchanged while connections come in.
pub(crate) struct ServerTls {
    /// For the listener.
    pub(crate) config: Arc<ServerConfig>,
    certificate: Arc<CurrentCertificate>,
}

impl ServerTls {
    /// Shows the server's certificate, and believes those that the authority has signed.
    pub(crate) fn new(pki: &Pki) -> anyhow::Result<Self> {
        let certificate = Arc::new(CurrentCertificate(ArcSwap::from_pointee(certified_key(&pki.server)?)));
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(&pki.ca)?), provider())
            .allow_unauthenticated()
            .build()
            .context("the authority's certificate cannot be used for clients")?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .context("ring speaks TLS 1.2 and 1.3")?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.session_storage = ServerSessionMemoryCache::new(N_SESSIONS);
        config.ticketer = ring::Ticketer::new().context("cannot make keys for TLS tickets")?;
        Ok(ServerTls { config: Arc::new(config), certificate })
    }

    /// Shows another certificate from now on.
    pub(crate) fn replace(&self, identity: &Identity) -> anyhow::Result<()> {
        self.certificate.0.store(Arc::new(certified_key(identity)?));
        Ok(())
    }
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

/// The key in `pem`.
pub(crate) fn private_key(pem: &str) -> anyhow::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).context("a key is damaged")
}

fn certified_key(identity: &Identity) -> anyhow::Result<CertifiedKey> {
    let key = provider().key_provider.load_private_key(private_key(&identity.key)?);
    Ok(CertifiedKey::new(certificates(&identity.cert)?, key.context("the server's key cannot be used")?))
}

/// The certificate that new connections are shown.
struct CurrentCertificate(ArcSwap<CertifiedKey>);

impl fmt::Debug for CurrentCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentCertificate").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}
