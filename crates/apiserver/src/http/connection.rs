//! One connection: TLS or not, HTTP/1.1 or HTTP/2, and their limits.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, Version, header};
use http_body::Body as _;
use hyper::{body::Incoming, service::service_fn, upgrade::OnUpgrade};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::{
    pki_types::{CertificateDer, UnixTime},
    server::danger::ClientCertVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
};
use tokio_rustls::TlsAcceptor;
use windlass_access::{User, authn::Peer, localhost::Guard};

use super::{
    Body,
    guests::{Heard, Order, Seat, Tracked},
    websocket::Switched,
};
use crate::{
    server::{ApiServer, Nobody, Refused},
    status::Status,
};

/// A handshake that takes longer than this is not a client of ours.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long a connection may be kept over HTTP/1.1 without a whole head of a request. Heads that have begun have less
/// time: see [`super::guests`].
const HEADERS: Duration = Duration::from_secs(90);

/// Requests at once on one HTTP/2 connection; clients open another one for more.
const STREAMS: u32 = 100;

/// How long a peer may be silent before it is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(180);

/// Bytes that may wait in the system to be sent. With more of them, a client on a slow line would seem not to read
/// at all while it reads what is waiting there.
const UNSENT: u32 = 128 * 1024;

/// How TLS is spoken, and whose certificates are believed.
#[derive(Clone, Debug)]
pub struct Tls {
    /// For new connections.
    pub config: Arc<rustls::ServerConfig>,
    /// The same that the configuration has: for connections that are there when it changes.
    pub clients: Arc<dyn ClientCertVerifier>,
}

/// The certificates that a client came with, and what they are to be good for as long as it stays.
struct Believed {
    tls_rx: watch::Receiver<Tls>,
    chain: Vec<CertificateDer<'static>>,
}

impl Believed {
    /// Waits until they are believed no more.
    async fn ended(&mut self) {
        while self.tls_rx.changed().await.is_ok() {
            let clients = Arc::clone(&self.tls_rx.borrow_and_update().clients);
            let Some((own, between)) = self.chain.split_first() else { continue };
            if clients.verify_client_cert(own, between, UnixTime::now()).is_err() {
                return;
            }
        }
        std::future::pending().await
    }
}

/// How connections come in.
#[derive(Clone)]
pub(super) enum Entrance {
    /// With TLS.
    Tls(watch::Receiver<Tls>),
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
    let (acceptor, tls_rx) = match entrance {
        Entrance::Tls(mut tls_rx) => {
            let config = Arc::clone(&tls_rx.borrow_and_update().config);
            (TlsAcceptor::from(config), tls_rx)
        }
        Entrance::Plain(guard) => {
            let peer = Peer { address: Some(address), is_plain: true, ..Peer::default() };
            let arrived = Arrived { peer, address, guard, seat, switched: Mutex::default() };
            return exchange(server, stream, arrived, None, false, stop_rx).await;
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
    let chain: Vec<CertificateDer<'static>> = stream
        .get_ref()
        .1
        .peer_certificates()
        .unwrap_or_default()
        .iter()
        .cloned()
        .map(CertificateDer::into_owned)
        .collect();
    let shown = chain.first().and_then(shown);
    let believed = (!chain.is_empty()).then_some(Believed { tls_rx, chain });
    let mut peer = Peer { address: Some(address), ..Peer::default() };
    if let Some((user, not_after)) = shown {
        peer.certificate = Some(Arc::new(user.authenticated()));
        peer.certificate_expires = Some(not_after);
        seat.know();
    }
    let is_http1 = stream.get_ref().1.alpn_protocol() != Some(b"h2");
    let arrived = Arrived { peer, address, guard: None, seat, switched: Mutex::default() };
    exchange(server, stream, arrived, believed, is_http1, stop_rx).await;
}

/// Who has come, and how.
struct Arrived {
    peer: Peer,
    address: SocketAddr,
    guard: Option<Guard>,
    seat: Arc<Seat>,
    /// What goes on over the connection once HTTP is done with it.
    switched: Mutex<Option<Switched>>,
}

/// Requests and answers, until one side has enough.
async fn exchange(
    server: Arc<ApiServer>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    arrived: Arrived,
    believed: Option<Believed>,
    is_http1: bool,
    mut stop_rx: watch::Receiver<bool>,
) {
    let arrived = Arc::new(arrived);
    let disbelieved = async move {
        match believed {
            Some(mut believed) => believed.ended().await,
            None => std::future::pending().await,
        }
    };
    let mut disbelieved = std::pin::pin!(disbelieved);
    let service = {
        let arrived = Arc::clone(&arrived);
        service_fn(move |request: Request<Incoming>| {
            let (server, arrived) = (Arc::clone(&server), Arc::clone(&arrived));
            async move { Ok::<_, Infallible>(answer(&server, &arrived, request).await) }
        })
    };
    let (address, guest) = (arrived.address, Arc::clone(&arrived.seat.guest));
    let builder = builder();
    let connection = builder.serve_connection_with_upgrades(
        TokioIo::new(Heard::new(stream, &arrived.seat.guest, is_http1)),
        service,
    );
    tokio::pin!(connection);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            outcome = connection.as_mut() => {
                match outcome {
                    Err(error) => {
                        return tracing::debug!(%address, error = %crate::chain(&*error), "connection ended");
                    }
                    Ok(()) => break,
                }
            }
            () = disbelieved.as_mut() => return tracing::info!(%address, DISBELIEVED),
            _ = stop_rx.wait_for(|stop| *stop), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            order = guest.told() => match order {
                Order::Stay => {}
                Order::Leave => connection.as_mut().graceful_shutdown(),
                Order::Cut => return tracing::debug!(%address, IDLE_OR_ABUSIVE),
            }
        }
    }
    let Some(switched) = arrived.switched.lock().take() else { return };
    let cut = async { while guest.told().await != Order::Cut {} };
    tokio::select! {
        () = switched.run() => {}
        () = disbelieved.as_mut() => tracing::info!(%address, DISBELIEVED),
        () = cut => tracing::debug!(%address, IDLE_OR_ABUSIVE),
    }
}

/// Why connections are cut.
const DISBELIEVED: &str = "cut off: the client's certificate is believed no more";
const IDLE_OR_ABUSIVE: &str = "cut off: the client does not read, says nothing, or asks in vain";

async fn answer(
    server: &Arc<ApiServer>,
    arrived: &Arrived,
    mut request: Request<Incoming>,
) -> Response<Tracked> {
    let guest = &arrived.seat.guest;
    let (is_head, version) = (*request.method() == Method::HEAD, request.version());
    let mut busy = guest.begin(version < Version::HTTP_2);
    let mut peer = arrived.peer.clone();
    if let Some(guard) = &arrived.guard {
        let (mut head, body) = request.into_parts();
        match guard.check(arrived.address, &head) {
            Ok(vouched) => peer.vouched = Some(vouched),
            Err(suspicion) => {
                server.metrics.localhost_refusals.inc();
                tracing::info!(peer = %arrived.address, why = %suspicion, "refused by the localhost rule");
                head.extensions.insert(Refused(Status::suspicious(suspicion.code(), &suspicion)));
            }
        }
        request = Request::from_parts(head, body);
    }
    request.extensions_mut().insert(peer);
    let upgrade = request.extensions().get::<OnUpgrade>().cloned();
    let response = server.handle(request).await;
    match response.extensions().get::<Nobody>().is_some() {
        false => arrived.seat.know(),
        // One answer to strangers over HTTP/2, whose connections are worth a hundred of HTTP/1.1.
        true if version == Version::HTTP_2 => guest.order(Order::Leave),
        true => {}
    }
    if let (StatusCode::SWITCHING_PROTOCOLS, Some(upgrade)) = (response.status(), upgrade) {
        let (head, body) = response.into_parts();
        *arrived.switched.lock() = Some(Switched { upgrade, body: guest.track(body, busy) });
        let mut busy = guest.begin(true);
        busy.done();
        return Response::from_parts(head, guest.track(Body::empty(), busy));
    }
    if is_head {
        busy.done();
        return head_of(response).map(|body| guest.track(body, busy));
    }
    // The body may outlive this: it keeps the connection busy until it is sent.
    response.map(|body| guest.track(body, busy))
}

/// An answer without its body, which says how long that would have been: over HTTP/2, nobody else leaves it out.
fn head_of(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    if let Some(n_bytes) = body.size_hint().exact() {
        head.headers.entry(header::CONTENT_LENGTH).or_insert(n_bytes.into());
    }
    Response::from_parts(head, Body::empty())
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

/// The attribute of a subject that is the id of a user, as Kubernetes has it.
const USER_ID: &str = "1.3.6.1.4.1.57683.2";

/// The user a client certificate stands for, and until when: the common name, and the organisations as groups. Without
/// a common name, or with an id that is not one, it stands for nobody.
fn shown(certificate: &CertificateDer<'_>) -> Option<(User, Timestamp)> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let subject = certificate.subject();
    // The last one is the one that Go takes.
    let name = subject.iter_common_name().last()?.as_str().ok().filter(|name| !name.is_empty())?;
    let groups =
        subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    let mut ids =
        subject.iter_attributes().filter(|attribute| attribute.attr_type().to_id_string() == USER_ID);
    let uid = match (ids.next(), ids.next()) {
        (None, _) => "",
        (Some(id), None) => id.as_str().ok().filter(|id| !id.is_empty())?,
        (Some(_), Some(_)) => return None,
    };
    let user = User { uid: uid.to_owned(), ..User::new(name, groups) };
    let not_after = Timestamp::from_second(certificate.validity().not_after.timestamp());
    Some((user, not_after.unwrap_or(Timestamp::MAX)))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(subject: &[(DnType, &str)]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        subject.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().clone()
    }

    #[test]
    fn a_certificate_is_of_the_user_it_names() {
        let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        let names =
            [(DnType::OrganizationName, "developers"), (DnType::CommonName, "ann"), (uid.clone(), "7")];
        let (user, not_after) = shown(&certificate(&names)).expect("a user");
        assert_eq!((&*user.name, &*user.uid, &*user.groups), ("ann", "7", &["developers".to_owned()][..]));
        assert!(not_after > Timestamp::now());
        for nobody in [
            &[(DnType::OrganizationName, "system:masters")][..],
            &[(DnType::CommonName, ""), (DnType::OrganizationName, "system:masters")],
            &[(DnType::CommonName, "ann"), (uid, "")],
        ] {
            assert!(shown(&certificate(nobody)).is_none(), "{nobody:?}");
        }
    }
}
