//! A small HTTP server for what the manager answers.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::Manager;

/// How many are served at once. Whoever asks how a manager is asks seldom.
const CONNECTIONS: usize = 64;

/// How long a request may take to come in, and how long a connection is kept.
const HEADERS: Duration = Duration::from_secs(5);
const CONNECTION: Duration = Duration::from_secs(10);

/// How long to leave the system alone that has no more descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Which pages are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// `/healthz`, `/livez`, `/readyz`, `/readyz/NAME` and `/status`.
    Health,
    /// `/metrics`.
    Metrics,
    /// All of them.
    All,
}

const PLAIN: &str = "text/plain; charset=utf-8";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Manager {
    /// Serves pages until it is told to stop.
    pub async fn serve(&self, listener: TcpListener, pages: Pages, stop: CancellationToken) {
        let (slots, mut connections) = (Arc::new(Semaphore::new(CONNECTIONS)), JoinSet::new());
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
            let manager = self.clone();
            connections.spawn(async move {
                let answer = service_fn(move |request: Request<Incoming>| {
                    let answer = manager.answer(request.method(), request.uri().path(), pages);
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

    fn answer(&self, method: &Method, path: &str, pages: Pages) -> Response<Full<Bytes>> {
        let (health, metrics) = (pages != Pages::Metrics, pages != Pages::Health);
        let (kind, (code, text)) = match path.trim_end_matches('/') {
            _ if method != Method::GET && method != Method::HEAD => {
                (PLAIN, (405, "405 method not allowed\n".to_owned()))
            }
            "/healthz" | "/livez" if health => (PLAIN, self.healthz()),
            "/readyz" if health => (PLAIN, self.readyz()),
            "/status" if health => match serde_json::to_string_pretty(&self.status()) {
                Ok(text) => ("application/json", (200, text)),
                Err(error) => (PLAIN, (500, error.to_string())),
            },
            "/metrics" if metrics => (METRICS, self.metrics()),
            path => {
                let one =
                    path.strip_prefix("/readyz/").filter(|_| health).and_then(|name| self.readyz_of(name));
                (PLAIN, one.unwrap_or_else(|| (404, "404 page not found\n".to_owned())))
            }
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
        response
    }
}
