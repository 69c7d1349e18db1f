//! The pages that a manager answers with.

use bytes::Bytes;
use http::{Method, Response};
use http_body_util::Full;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Manager;
use crate::pages::{self, JSON, METRICS, PLAIN, page};

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

impl Manager {
    /// Serves pages until it is told to stop.
    pub async fn serve(&self, listener: TcpListener, pages: Pages, stop: CancellationToken) {
        let manager = self.clone();
        pages::serve(listener, stop, move |method, uri| manager.answer(method, uri.path(), pages)).await;
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
                Ok(text) => (JSON, (200, text)),
                Err(error) => (PLAIN, (500, error.to_string())),
            },
            "/metrics" if metrics => (METRICS, self.metrics()),
            path => {
                let one =
                    path.strip_prefix("/readyz/").filter(|_| health).and_then(|name| self.readyz_of(name));
                (PLAIN, one.unwrap_or_else(|| (404, "404 page not found\n".to_owned())))
            }
        };
        page(kind, code, text)
    }
}
