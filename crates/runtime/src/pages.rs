//! A small HTTP server for pages that say how a process is.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

/// How many are served at once. Whoever asks how a process is asks seldom.
const CONNECTIONS: usize = 64;

/// How long a request may take to come in, and how long a connection is kept.
const HEADERS: Duration = Duration::from_secs(5);
const CONNECTION: Duration = Duration::from_secs(10);

/// How long to leave the system alone that has no more descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The types of pages.
pub const PLAIN: &str = "text/plain; charset=utf-8";
/// For programs.
pub const JSON: &str = "application/json";
/// For Prometheus.
pub const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A page.
pub fn page(kind: &'static str, code: u16, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// Serves pages until it is told to stop.
pub async fn serve(
    listener: TcpListener,
    stop: CancellationToken,
    answer: impl Fn(&Method, &Uri) -> Response<Full<Bytes>> + Send + Sync + 'static,
) {
    let (slots, mut connections) = (Arc::new(Semaphore::new(CONNECTIONS)), JoinSet::new());
    let answer = Arc::new(answer);
    loop {
        while connections.try_join_next().is_some() {}
        let slot = Arc::clone(&slots).acquire_owned();
        let accepted = async { (slot.await, listener.accept().await) };
        let (slot, accepted) = tokio::select! {
            () = stop.cancelled() => return,
            both = accepted => both,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let answer = Arc::clone(&answer);
        connections.spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let answer = answer(request.method(), request.uri());
                async move { Ok::<_, Infallible>(answer) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            // Whoever goes away has what they wanted, or will ask again.
            let _ = timeout(CONNECTION, served).await;
            drop(slot);
        });
    }
}
