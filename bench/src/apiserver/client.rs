//! Connections to a server, as light as they can be: the load shares the machine with what it loads.
//!
//! One connection is one TLS session with HTTP/1.1 kept alive on it, or with HTTP/2 for streams of watches.
//! Answers are counted and dropped, not parsed. Start at [`Endpoint::connect`].

use std::sync::Arc;

use anyhow::{Context, bail};
use bytes::{Buf, Bytes};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Body, Incoming},
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::kubeconfig::Access;
use crate::process::processor_nanos_of;

/// A request with everything it needs.
pub(crate) type Asked = Request<Full<Bytes>>;

/// Bytes that an HTTP/2 connection takes before it waits for us: more than all of its streams bring at a time.
const WINDOW: u32 = 16 << 20;

/// Where a server is and how it is spoken to.
pub(crate) struct Endpoint {
    /// Host and port.
    address: String,
    name: ServerName<'static>,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    token: Option<HeaderValue>,
    /// The process that answers, if it is on this machine and known.
    process: Option<u32>,
}

impl Endpoint {
    pub(crate) fn new(access: &Access, process: Option<u32>) -> anyhow::Result<Self> {
        let Access { server, ca, identity, token } = access;
        let address = server.strip_prefix("https://").context("only https is spoken here")?;
        let address = address.trim_end_matches('/');
        if address.contains('/') {
            bail!("a server behind a path cannot be measured");
        }
        let with_port = match address.rsplit_once(':') {
            Some((_, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => address.to_owned(),
            _ => format!("{address}:443"),
        };
        let host = with_port.rsplit_once(':').map_or("", |(host, _)| host).trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).context("the server has no name")?;
        let config = |protocol: &[u8]| client_config(ca, identity.as_ref(), protocol).map(Arc::new);
        let token =
            token.as_ref().map(|token| HeaderValue::from_str(&format!("Bearer {token}"))).transpose()?;
        Ok(Endpoint {
            name,
            http1: config(b"http/1.1")?,
            http2: config(b"h2")?,
            token,
            address: with_port,
            process,
        })
    }

    /// Nanoseconds of processor the server has had, where that can be known.
    pub(crate) fn processor_nanos(&self) -> Option<u64> {
        self.process.and_then(|process| processor_nanos_of(&process.to_string()).ok())
    }

    /// A request for this server.
    pub(crate) fn ask(
        &self,
        method: Method,
        path: &str,
        media: &'static str,
        body: impl Into<Bytes>,
    ) -> Asked {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("paths are made here");
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_str(&self.address).expect("an address is plain"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static("windlass-bench/1"));
        if !media.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        }
        if let Some(token) = &self.token {
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        request
    }

    /// A request without a body.
    pub(crate) fn get(&self, path: &str) -> Asked {
        self.ask(Method::GET, path, "", Bytes::new())
    }

    /// The head of a request as HTTP/1.1 has it, for those who write it themselves.
    pub(crate) fn head(&self, path: &str) -> String {
        let token = self.token.as_ref().and_then(|token| token.to_str().ok());
        let token = token.map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\n{token}\r\n", self.address)
    }

    /// A TLS session for HTTP/1.1.
    pub(crate) async fn session(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        self.tls(&self.http1).await
    }

    async fn tls(&self, config: &Arc<ClientConfig>) -> anyhow::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(&self.address).await;
        let stream = stream.with_context(|| format!("connecting to {}", self.address))?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(config.clone());
        connector.connect(self.name.clone(), stream).await.context("agreeing on TLS")
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.session().await?)).await?;
        tokio::spawn(async move {
            // Whoever waits for an answer is told.
            let _ = connection.await;
        });
        Ok(Connection { sender, gives_way: false })
    }

    /// A connection for many requests at a time.
    pub(crate) async fn connect_shared(&self) -> anyhow::Result<http2::SendRequest<Full<Bytes>>> {
        let stream = TokioIo::new(self.tls(&self.http2).await?);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_connection_window_size(WINDOW).initial_stream_window_size(WINDOW / 16);
        let (sender, connection) = builder.handshake(stream).await?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }

    /// The scheme and the host, which a request over HTTP/2 names in its path.
    pub(crate) fn absolute(&self, mut request: Asked) -> anyhow::Result<Asked> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = format!("https://{}{path}", self.address).parse()?;
        request.headers_mut().remove(header::HOST);
        Ok(request)
    }
}

fn client_config(
    ca: &[u8],
    identity: Option<&(Vec<u8>, Vec<u8>)>,
    protocol: &[u8],
) -> anyhow::Result<ClientConfig> {
    let certificates = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca).context("the authority's certificate cannot be read")? {
        roots.add(certificate)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match identity {
        Some((certificate, key)) => builder.with_client_auth_cert(
            certificates(certificate).context("the client's certificate cannot be read")?,
            PrivateKeyDer::from_pem_slice(key).context("the client's key cannot be read")?,
        )?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

/// One client: asks, waits for the answer, asks again.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    gives_way: bool,
}

/// What came back, apart from the bytes themselves.
pub(crate) enum Answer {
    /// This many bytes.
    Good(u64),
    /// The server has too much to do.
    Refused,
}

impl Connection {
    /// Lets other threads have the core between the pieces of an answer, as a client on another machine would.
    pub(crate) fn give_way(&mut self) {
        self.gives_way = true;
    }

    /// Asks, and counts the bytes of the answer.
    pub(crate) async fn send(&mut self, request: Asked) -> anyhow::Result<Answer> {
        let mut response = self.begin(request).await?;
        if !response.status().is_success() {
            let status = response.status();
            let text = collected(response).await?;
            if status == StatusCode::TOO_MANY_REQUESTS {
                return Ok(Answer::Refused);
            }
            bail!("{status}: {}", String::from_utf8_lossy(&text));
        }
        let mut bytes = 0;
        let body = response.body_mut();
        while !body.is_end_stream() {
            let Some(frame) = body.frame().await else { break };
            bytes += frame?.data_ref().map_or(0, Buf::remaining) as u64;
            if self.gives_way {
                std::thread::yield_now();
            }
        }
        Ok(Answer::Good(bytes))
    }

    /// Asks, and gives the whole answer.
    pub(crate) async fn fetch(&mut self, request: Asked) -> anyhow::Result<Bytes> {
        let response = self.begin(request).await?;
        let status = response.status();
        let bytes = collected(response).await?;
        if !status.is_success() {
            bail!("{status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(bytes)
    }

    async fn begin(&mut self, request: Asked) -> anyhow::Result<Response<Incoming>> {
        self.sender.ready().await.context("the server closed the connection")?;
        self.sender.send_request(request).await.context("asking")
    }
}

async fn collected(response: Response<Incoming>) -> anyhow::Result<Bytes> {
    Ok(response.into_body().collect().await.context("reading the answer")?.to_bytes())
}
