//! Whom a call trusts.

use std::sync::{Arc, LazyLock};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));

/// The authorities of the system, looked up once.
static SYSTEM: LazyLock<Vec<CertificateDer<'static>>> =
    LazyLock::new(|| rustls_native_certs::load_native_certs().certs);

/// A configuration that trusts the certificates of a PEM file; those of the system when it is empty.
pub(super) fn config(authorities: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let given = match authorities.is_empty() {
        true => SYSTEM.clone(),
        false => CertificateDer::pem_slice_iter(authorities)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| "caBundle is not PEM".to_owned())?,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(given.iter().cloned());
    if roots.is_empty() {
        return Err("there is no certificate in caBundle, or none on this system".to_owned());
    }
    let chained = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&PROVIDER))
        .build()
        .map_err(|error| error.to_string())?;
    let verifier = Arc::new(Verifier { chained, given: if authorities.is_empty() { vec![] } else { given } });
    let config = ClientConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Takes certificates that an authority has signed, and those that were given as such: the certificate that a server
/// has signed for itself is often its own `caBundle`, and chains do not provide for that.
#[derive(Debug)]
struct Verifier {
    chained: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.given.contains(certificate) {
            return self.chained.verify_server_cert(certificate, between, name, ocsp, now);
        }
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let validity = parsed.validity();
        if seconds > validity.not_after.timestamp() {
            return Err(Error::InvalidCertificate(CertificateError::Expired));
        }
        if seconds < validity.not_before.timestamp() {
            return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
        }
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chained.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chained.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chained.supported_verify_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        self.chained.root_hint_subjects()
    }
}
