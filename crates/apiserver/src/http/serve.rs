//! Connections: TLS, HTTP/1.1 and HTTP/2, and their limits.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body::Body as _;

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::Instant,
};
use tokio_rustls::TlsAcceptor;

use windlass_access::{User, authn::Peer};

use crate::server::ApiServer;

/// A handshake that takes longer than this is not a client of ours.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long a client may take to send the head of a request.
const HEADERS: Duration = Duration::from_secs(10);

/// How long a connection without requests is kept at least, and at most twice as long.
const IDLE: Duration = Duration::from_secs(90);

/// The same for someone who is nobody.
const IDLE_ANONYMOUS: Duration = Duration::from_secs(10);

/// Requests at once on one HTTP/2 connection; clients open another one for more.
const STREAMS: u32 = 100;

/// How long requests may take to finish once the server stops.
const DRAIN: Duration = Duration::from_secs(30);

/// How long a client may leave what it was given unread before it is cut off.
const STALLED: Duration = Duration::from_secs(60);

/// The same, once the server stops.
const STALLED_AT_STOP: Duration = Duration::from_secs(2);

/// How often stalled clients are looked for, and the same once the server stops.
const LOOK: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(250));

/// Bytes of an answer that are handed over at once.
const SMALL: u64 = 64 * 1024;

/// How long a peer may be silent before it is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(180);

/// Serves until `shutdown`, then lets requests finish.
pub async fn serve(
    server: Arc<ApiServer>,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let acceptor = TlsAcceptor::from(tls);
    let n_slots = u32::try_from(server.config.max_connections).unwrap_or(u32::MAX).max(1);
    let slots = Arc::new(Semaphore::new(n_slots as usize));
    let (stop_tx, stop_rx) = watch::channel(false);
    tokio::pin!(shutdown);
    loop {
        let slot = tokio::select! {
            () = &mut shutdown => break,
            slot = Arc::clone(&slots).acquire_owned() => slot,
        };
        let (stream, address) = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, or a connection that is gone already: neither ends the server.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (server, acceptor, stop_rx) = (Arc::clone(&server), acceptor.clone(), stop_rx.clone());
        tokio::spawn(async move {
            connection(server, acceptor, stream, address, stop_rx).await;
            drop(slot);
        });
    }
    drop(listener);
    server.begin_drain();
    let _ = stop_tx.send(true);
    let drained = slots.acquire_many(n_slots);
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("some requests did not finish within {} s of the stop", DRAIN.as_secs());
    }
    Ok(())
}

async fn connection(
    server: Arc<ApiServer>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    mut stop_rx: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let _ =
        socket2::SockRef::from(&stream).set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(KEEPALIVE));
    let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
    let stream = tokio::select! {
        _ = stop_rx.wait_for(|stop| *stop) => return,
        outcome = handshake => match outcome {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%address, %error, "TLS handshake failed"),
            Err(_) => return tracing::debug!(%address, "TLS handshake took too long"),
        },
    };
    let user = stream.get_ref().1.peer_certificates().and_then(|certificates| user_of(certificates.first()?));
    let certificate = user.map(|user| Arc::new(user.authenticated()));
    let peer = Peer { certificate, address: Some(address), is_plain: false };
    let idle = if peer.certificate.is_some() { IDLE } else { IDLE_ANONYMOUS };
    let activity = Arc::new(Activity::default());
    let service = {
        let activity = Arc::clone(&activity);
        service_fn(move |mut request: Request<Incoming>| {
            let (server, activity) = (Arc::clone(&server), Arc::clone(&activity));
            request.extensions_mut().insert(peer.clone());
            async move {
                let busy = activity.begin();
                let response = server.handle(request).await;
                // The body may outlive this: it keeps the connection busy until it is sent.
                Ok::<_, Infallible>(response.map(|body| activity.track(body, busy)))
            }
        })
    };
    let builder = builder();
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // It outlives the turns of the loop: a look at the bodies does not begin it anew.
    let unused = activity.idle(idle);
    tokio::pin!(unused);
    // Not stopping, letting requests finish because nobody uses it, or because the server stops since then.
    let (mut closing, mut stopped_at) = (false, None);
    loop {
        let look = if stopped_at.is_some() { LOOK.1 } else { LOOK.0 };
        tokio::select! {
            outcome = connection.as_mut() => {
                if let Err(error) = outcome {
                    tracing::debug!(%address, error = %crate::chain(&*error), "connection ended");
                }
                return;
            }
            _ = stop_rx.wait_for(|stop| *stop), if stopped_at.is_none() => {
                (closing, stopped_at) = (true, Some(Instant::now()));
                connection.as_mut().graceful_shutdown();
            }
            () = unused.as_mut(), if !closing => {
                closing = true;
                connection.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep(look) => {
                let patience = if stopped_at.is_some() { STALLED_AT_STOP } else { STALLED };
                let waited = stopped_at.is_some_and(|at| at.elapsed() >= STALLED_AT_STOP);
                if activity.is_stalled(patience) || (waited && !activity.is_busy()) {
                    return tracing::debug!(%address, "the client does not read what it asked for, or says nothing");
                }
            }
        }
    }
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

/// Bodies of a connection that are remembered before those that are gone are forgotten.
const BODIES: usize = 16;

/// Whether a connection is in use, and whether its client reads. A request only counts: nobody is woken and no
/// timer is set for it.
#[derive(Default)]
struct Activity {
    n_busy: AtomicUsize,
    n_begun: AtomicUsize,
    bodies: Mutex<Vec<Weak<Handed>>>,
}

/// When the last piece of a body was handed over, as long as no other one is asked for.
#[derive(Default)]
struct Handed(Mutex<Option<Instant>>);

impl Activity {
    fn begin(self: &Arc<Self>) -> Busy {
        self.n_busy.fetch_add(1, Ordering::Relaxed);
        self.n_begun.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    fn is_busy(&self) -> bool {
        self.n_busy.load(Ordering::Relaxed) > 0
    }

    fn track(&self, body: super::Body, busy: Busy) -> Tracked {
        let handed = Arc::new(Handed::default());
        // What fits into the buffers on the way is never left lying.
        if body.size_hint().exact().is_none_or(|n_bytes| n_bytes > SMALL) {
            let mut bodies = self.bodies.lock();
            // On a busy connection thousands come and go before anyone looks for those that stall.
            if bodies.len() >= BODIES && bodies.len() == bodies.capacity() {
                bodies.retain(|body| body.strong_count() > 0);
            }
            bodies.push(Arc::downgrade(&handed));
        }
        Tracked { body, handed, _busy: busy }
    }

    /// Whether a body has had a piece lying unread for this long.
    fn is_stalled(&self, patience: Duration) -> bool {
        let mut stalled = false;
        self.bodies.lock().retain(|body| {
            let Some(body) = body.upgrade() else { return false };
            stalled |= body.0.lock().is_some_and(|at| at.elapsed() >= patience);
            true
        });
        stalled
    }

    /// Returns once nothing has been going on for this long, or up to twice as long.
    async fn idle(&self, long: Duration) {
        loop {
            let (was_busy, n_begun) = (self.is_busy(), self.n_begun.load(Ordering::Relaxed));
            tokio::time::sleep(long).await;
            if !was_busy && !self.is_busy() && self.n_begun.load(Ordering::Relaxed) == n_begun {
                return;
            }
        }
    }
}

struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.n_busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body that keeps its connection busy.
struct Tracked {
    body: super::Body,
    handed: Arc<Handed>,
    _busy: Busy,
}

impl http_body::Body for Tracked {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Infallible>>> {
        let polled = std::pin::Pin::new(&mut self.body).poll_frame(cx);
        let was_given = matches!(polled, std::task::Poll::Ready(Some(_)));
        *self.handed.0.lock() = was_given.then(Instant::now);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_after_a_while_without_requests() {
        let activity = Arc::new(Activity::default());
        let (long, busy_for) = (Duration::from_secs(20), Duration::from_secs(90));
        let begun = Instant::now();
        let busy = activity.begin();
        let ending = tokio::spawn(async move {
            tokio::time::sleep(busy_for).await;
            drop(busy);
        });
        activity.idle(long).await;
        assert!(begun.elapsed() >= busy_for + long, "{:?}", begun.elapsed());
        ending.await.expect("it ends");
    }

    #[test]
    fn bodies_that_are_gone_are_forgotten() {
        let activity = Arc::new(Activity::default());
        let kept = activity.track(super::super::Body::whole("kept".repeat(SMALL as usize)), activity.begin());
        for _ in 0..1000 {
            drop(activity.track(super::super::Body::whole("gone".repeat(SMALL as usize)), activity.begin()));
        }
        assert!(activity.bodies.lock().len() <= 2 * BODIES);
        assert_eq!(activity.bodies.lock().iter().filter(|body| body.strong_count() > 0).count(), 1);
        drop(kept);
        assert!(!activity.is_busy());
    }
}
