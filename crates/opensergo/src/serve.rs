//! Listens, and serves gRPC: the transport, health and reflection.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{
    server::NamedService,
    transport::{Server, server::Connected},
};
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    access::{Access, Identity},
    plane::Plane,
    proto::DESCRIPTORS,
    service::TransportService,
    source::Source,
    topic::KindId,
};

/// A peer that says nothing is asked after this long whether it is there, and has as long to say so.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// How long it may take until a client speaks HTTP/2, and what that begins with.
const HANDSHAKE: Duration = Duration::from_secs(10);
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long streams may take to end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How many streams a connection may have. SDKs have one.
const STREAMS_OF_CONNECTION: u32 = 100;

/// What a stream may send before it is read, and a connection: requests are small, but a client that comes back may want
/// everything that it ever asked for at once. HTTP/2 counts each message as 256 bytes, against half of what a connection
/// may send.
const WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// The most bytes of headers.
const MOST_HEADERS: u32 = 16 * 1024;

/// How long to leave the system alone that has no more descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// How often to see whether everything can be told.
const LOOK: Duration = Duration::from_millis(100);

/// Where to listen.
#[derive(Debug)]
pub struct Listening {
    /// The socket.
    pub listener: TcpListener,
    /// With what, if not in plain text; it may change.
    pub tls: Option<watch::Receiver<Arc<ServerConfig>>>,
    /// The most connections.
    pub most_connections: usize,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) identity: Option<Arc<Identity>>,
    /// Ends the connection.
    pub(crate) connection: CancellationToken,
}

/// Serves until it is told to stop; streams are ended then.
pub async fn serve(
    listening: Listening,
    plane: Arc<Plane>,
    source: Arc<dyn Source>,
    access: Access,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let (tx, rx) = mpsc::channel(64);
    let accepting = tokio::spawn(accept(listening, tx, stop.clone()));
    let (health, health_service) = tonic_health::server::health_reporter();
    // Probes ask for the one without a name.
    let set = async |health: &HealthReporter, status: ServingStatus| {
        health.set_service_status("", status).await;
        health.set_service_status(TransportService::NAME, status).await;
    };
    set(&health, ServingStatus::NotServing).await;
    let describing = {
        let (plane, health) = (Arc::clone(&plane), health.clone());
        async move {
            while !is_complete(&plane, &*source) {
                sleep(LOOK).await;
            }
            set(&health, ServingStatus::Serving).await;
            std::future::pending::<()>().await;
        }
    };
    let describing = tokio::spawn(describing);
    let reflection =
        || tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .max_concurrent_streams(STREAMS_OF_CONNECTION)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(MOST_HEADERS)
        .add_service(TransportService::new(plane, access, stop.clone()))
        .add_service(health_service);
    if let Ok(service) = reflection().build_v1() {
        server = server.add_service(service);
    }
    if let Ok(service) = reflection().build_v1alpha() {
        server = server.add_service(service);
    }
    let stopped = stop.clone();
    let serving = server.serve_with_incoming_shutdown(ReceiverStream::new(rx), stop.cancelled_owned());
    tokio::pin!(serving);
    let outcome = tokio::select! {
        outcome = &mut serving => outcome,
        () = async { stopped.cancelled().await; sleep(LAST_WORDS).await } => Ok(()),
    };
    accepting.abort();
    describing.abort();
    outcome
}

/// Whether everything there is has been seen. A kind that does not exist is not waited for.
pub fn is_complete(plane: &Plane, source: &dyn Source) -> bool {
    KindId::all().all(|kind| plane.is_synced(kind) || source.is_missing(kind))
}

/// Accepts connections, each of which shakes hands on its own.
async fn accept(listening: Listening, tx: mpsc::Sender<io::Result<Connection>>, stop: CancellationToken) {
    let Listening { listener, tls, most_connections } = listening;
    let slots = Arc::new(Semaphore::new(most_connections));
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            () = stop.cancelled() => return,
            both = accepted => both,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(slot) = slot else { return };
        // Messages are small, and each is waited for.
        let _ = stream.set_nodelay(true);
        let (tls, tx) = (tls.clone(), tx.clone());
        tokio::spawn(async move {
            match timeout(HANDSHAKE, shake(stream, tls, address, slot)).await {
                Ok(Ok(connection)) => drop(tx.send(Ok(connection)).await),
                Ok(Err(error)) => tracing::debug!(%address, %error, "a handshake failed"),
                Err(_) => tracing::debug!(%address, "a handshake took too long"),
            }
        });
    }
}

/// Waits until the client speaks.
async fn shake(
    stream: TcpStream,
    tls: Option<watch::Receiver<Arc<ServerConfig>>>,
    address: SocketAddr,
    slot: OwnedSemaphorePermit,
) -> io::Result<Connection> {
    let (io, identity) = match tls {
        None => (Io::Plain(stream), None),
        Some(tls) => {
            let config = tls.borrow().clone();
            let stream = TlsAcceptor::from(config).accept(stream).await?;
            let certificates = stream.get_ref().1.peer_certificates();
            let identity = certificates.and_then(|certificates| owner(certificates.first()?)).map(Arc::new);
            (Io::Secure(Box::new(stream)), identity)
        }
    };
    let cut = CancellationToken::new();
    let peer = Peer { address, identity, connection: cut.clone() };
    let cut = Box::pin(cut.cancelled_owned());
    let mut connection = Connection { io, peer, cut, unread: &[], _slot: slot };
    let mut preface = [0; PREFACE.len()];
    connection.read_exact(&mut preface).await?;
    if preface != *PREFACE {
        return Err(io::Error::other("it does not speak HTTP/2"));
    }
    connection.unread = PREFACE;
    Ok(connection)
}

/// A connection.
struct Connection {
    io: Io,
    peer: Peer,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// What has been read to see who speaks, and is read again.
    unread: &'static [u8],
    _slot: OwnedSemaphorePermit,
}

enum Io {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

/// Whose certificate it is: the common name is the user, organisations are groups.
fn owner(certificate: &[u8]) -> Option<Identity> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned);
    Some(Identity::certified(name, groups.collect()))
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        if own.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if !own.unread.is_empty() {
            let (now, later) = own.unread.split_at(own.unread.len().min(buffer.remaining()));
            buffer.put_slice(now);
            own.unread = later;
            return Poll::Ready(Ok(()));
        }
        match &mut own.io {
            Io::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Io::Secure(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Io::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_flush(context),
            Io::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Io::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
