//! One connection: TLS or not, HTTP/1.1 or HTTP/2, and their limits.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http::{Method, Request, Response, Version};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
};
use tokio_rustls::TlsAcceptor;
use windlass_access::{User, authn::Peer, localhost::Guard};

use super::guests::{Order, Seat, Tracked};
use crate::{
    server::{ApiServer, Nobody, failure},
    status::Status,
};

/// A handshake that takes longer than this is not a client of ours.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long a client may take to send the head of a request.
const HEADERS: Duration = Duration::from_secs(8);

/// Requests at once on one HTTP/2 connection; clients open another one for more.
const STREAMS: u32 = 100;

/// How long a peer may be silent before it is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(180);

/// Bytes that may wait in the system to be sent. With more of them, a client on a slow line would seem not to read
/// at all while it reads what is waiting there.
const UNSENT: u32 = 128 * 1024;

/// How connections come in.
#[derive(Clone)]
pub(super) enum Entrance {
    /// With TLS.
    Tls(TlsAcceptor),
    /// Without. With a guard, every request has to pass it.
    Plain(Option<Guard>),
}

/// Serves one connection to its end.
pub(super) async fn connection(
    server: Arc<ApiServer>,
    entrance: Entrance,
    stream: TcpStream,
    address: SocketAddr,
    seat: Arc<Seat>,
    mut stop_rx: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let socket = socket2::SockRef::from(&stream);
    let _ = socket.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(KEEPALIVE));
    let _ = socket.set_tcp_notsent_lowat(UNSENT);
    let acceptor = match entrance {
        Entrance::Tls(acceptor) => acceptor,
        Entrance::Plain(guard) => {
            let peer = Peer { address: Some(address), is_plain: true, ..Peer::default() };
            return exchange(server, stream, Arrived { peer, address, guard, seat }, stop_rx).await;
        }
    };
    let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
    let stream = tokio::select! {
        _ = stop_rx.wait_for(|stop| *stop) => return,
        _ = seat.guest.told() => return tracing::debug!(%address, "others of this address came after it"),
        outcome = handshake => match outcome {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%address, %error, "TLS handshake failed"),
            Err(_) => return tracing::debug!(%address, "TLS handshake took too long"),
        },
    };
    let user = stream.get_ref().1.peer_certificates().and_then(|certificates| user_of(certificates.first()?));
    let certificate = user.map(|user| Arc::new(user.authenticated()));
    if certificate.is_some() {
        seat.know();
    }
    let peer = Peer { certificate, address: Some(address), ..Peer::default() };
    exchange(server, stream, Arrived { peer, address, guard: None, seat }, stop_rx).await;
}

/// Who has come, and how.
struct Arrived {
    peer: Peer,
    address: SocketAddr,
    guard: Option<Guard>,
    seat: Arc<Seat>,
}

/// Requests and answers, until one side has enough.
async fn exchange(
    server: Arc<ApiServer>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    arrived: Arrived,
    mut stop_rx: watch::Receiver<bool>,
) {
    let arrived = Arc::new(arrived);
    let service = {
        let arrived = Arc::clone(&arrived);
        service_fn(move |request: Request<Incoming>| {
            let (server, arrived) = (Arc::clone(&server), Arc::clone(&arrived));
            async move { Ok::<_, Infallible>(answer(&server, &arrived, request).await) }
        })
    };
    let (address, guest) = (arrived.address, Arc::clone(&arrived.seat.guest));
    let builder = builder();
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            outcome = connection.as_mut() => {
                if let Err(error) = outcome {
                    tracing::debug!(%address, error = %crate::chain(&*error), "connection ended");
                }
                return;
            }
            _ = stop_rx.wait_for(|stop| *stop), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            order = guest.told() => match order {
                Order::Stay => {}
                Order::Leave => connection.as_mut().graceful_shutdown(),
                Order::Cut => {
                    return tracing::debug!(%address, "cut off: the client does not read, says nothing, or asks in vain");
                }
            }
        }
    }
}

async fn answer(
    server: &Arc<ApiServer>,
    arrived: &Arrived,
    mut request: Request<Incoming>,
) -> Response<Tracked> {
    let guest = &arrived.seat.guest;
    let mut busy = guest.begin();
    let (is_head, version) = (*request.method() == Method::HEAD, request.version());
    let mut peer = arrived.peer.clone();
    let mut refused = None;
    if let Some(guard) = &arrived.guard {
        let (head, body) = request.into_parts();
        match guard.check(arrived.address, &head) {
            Ok(vouched) => peer.vouched = Some(vouched),
            Err(suspicion) => {
                server.metrics.localhost_refusals.inc();
                tracing::info!(peer = %arrived.address, why = %suspicion, "refused by the localhost rule");
                refused = Some(failure(&Status::suspicious(suspicion.code(), &suspicion)));
            }
        }
        request = Request::from_parts(head, body);
    }
    let was_refused = refused.is_some();
    let response = match refused {
        Some(response) => response,
        None => {
            request.extensions_mut().insert(peer);
            server.handle(request).await
        }
    };
    match was_refused || response.extensions().get::<Nobody>().is_some() {
        false => arrived.seat.know(),
        // One answer to strangers over HTTP/2, whose connections are worth a hundred of HTTP/1.1.
        true if version == Version::HTTP_2 => guest.order(Order::Leave),
        true => {}
    }
    if is_head {
        busy.done();
    }
    // The body may outlive this: it keeps the connection busy until it is sent.
    response.map(|body| guest.track(body, busy))
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(64 * 1024)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_send_buf_size(256 * 1024)
        .max_pending_accept_reset_streams(20)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(15));
    builder
}

/// The user a client certificate stands for: the common name, and the organisations as groups.
fn user_of(certificate: &rustls::pki_types::CertificateDer<'_>) -> Option<User> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups =
        subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    Some(User::new(name, groups))
}
