//! A webhook for tests: an HTTPS server with an authority of its own that does as it is told.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What a webhook does with a request.
pub(crate) type Work = Arc<dyn Fn(&str, &[u8]) -> Reply + Send + Sync>;

/// What a webhook says.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Bytes,
    pub(crate) location: Option<String>,
    /// How long it takes.
    pub(crate) after: Duration,
}

impl Reply {
    pub(crate) fn ok(body: impl Into<Bytes>) -> Self {
        Reply { code: 200, body: body.into(), location: None, after: Duration::ZERO }
    }
}

/// A running webhook.
pub(crate) struct Hooks {
    pub(crate) address: SocketAddr,
    /// Whom to trust, in PEM.
    pub(crate) authority: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Hooks {
    /// Starts a webhook whose certificate is for `names`, signed by an authority.
    pub(crate) async fn start(names: &[&str], work: Work) -> Self {
        let mut params = CertificateParams::new(vec![]).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let own = CertificateParams::new(names)
            .expect("parameters")
            .signed_by(&key, &authority)
            .expect("a certificate");
        Self::serve(&own.pem(), &key.serialize_pem(), authority.pem(), work).await
    }

    /// Starts a webhook that has signed its own certificate, which is its authority.
    pub(crate) async fn start_self_signed(names: &[&str], work: Work) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let own = params.self_signed(&key).expect("a certificate");
        Self::serve(&own.pem(), &key.serialize_pem(), own.pem(), work).await
    }

    async fn serve(certificate: &str, key: &str, authority: String, work: Work) -> Self {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate and its key");
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counters = (Arc::clone(&connections), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counters.0.fetch_add(1, Ordering::SeqCst);
                let (acceptor, work, requests) =
                    (acceptor.clone(), Arc::clone(&work), Arc::clone(&counters.1));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        requests.fetch_add(1, Ordering::SeqCst);
                        answer(Arc::clone(&work), request)
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Hooks { address, authority, connections, requests }
    }

    /// The `caBundle` of a configuration.
    pub(crate) fn bundle(&self) -> String {
        STANDARD.encode(&self.authority)
    }

    /// Connections that were made so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Requests that came so far.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn answer(work: Work, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().to_string();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let reply = work(&path, &body);
    tokio::time::sleep(reply.after).await;
    let mut response = Response::builder().status(reply.code);
    if let Some(location) = reply.location {
        response = response.header("location", location);
    }
    Ok(response.body(Full::new(reply.body)).expect("a response"))
}
