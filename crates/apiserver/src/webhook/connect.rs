//! Connections to webhooks: the address, TCP, TLS.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::services::Services;

/// Makes connections for one set of authorities.
#[derive(Clone)]
pub(super) struct Connector {
    tls: TlsConnector,
    services: Arc<dyn Services>,
}

impl Connector {
    pub(super) fn new(config: Arc<ClientConfig>, services: Arc<dyn Services>) -> Self {
        Connector { tls: TlsConnector::from(config), services }
    }

    async fn connect(self, url: Uri) -> io::Result<TokioIo<Stream>> {
        let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port_u16().unwrap_or(443);
        let name = ServerName::try_from(host.clone())
            .map_err(|_| io::Error::other(format!("{host:?} is no name of a server")))?;
        let mut failed = io::Error::other(format!("lookup {host}: no such host"));
        // Looked up once: what is checked is what is connected to.
        for address in self.addresses(&host, port).await? {
            if is_off_limits(address.ip()) {
                failed = io::Error::other(format!("dial tcp {address}: no webhook may be there"));
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(TokioIo::new(Stream(self.tls.connect(name, stream).await?)));
                }
                Err(error) => failed = io::Error::other(format!("dial tcp {address}: {error}")),
            }
        }
        Err(failed)
    }

    async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let [name, namespace, "svc"] = host.split('.').collect::<Vec<_>>()[..] {
            return self.services.addresses(namespace, name, port).await.map_err(io::Error::other);
        }
        lookup(host, port).await
    }
}

/// Whether nobody's webhook is at this address: link-local ones are those of machines that tell who is on the same link
/// about its credentials, and the others are not of one machine.
fn is_off_limits(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_link_local()
                || address.is_unspecified()
                || address.is_multicast()
                || address.is_broadcast()
        }
        IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.is_unspecified() || address.is_multicast()
        }
    }
}

/// Asks the system where a host is.
pub(super) async fn lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|error| io::Error::other(format!("lookup {host}: {error}")))?;
    Ok(found.collect())
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Stream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        Box::pin(self.clone().connect(url))
    }
}

/// A connection that hyper can keep.
pub(super) struct Stream(TlsStream<TcpStream>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
