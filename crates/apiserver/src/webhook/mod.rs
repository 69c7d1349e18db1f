//! Calling webhooks: one HTTPS request with a JSON body, one answer.
//!
//! Conversion and admission ask outsiders this way, and documents of issuers are got this way. A call has a time limit
//! and a size limit, follows no redirect, and trusts only the authorities it is given, or those of the system.
//! Connections are kept and used again. The words of [`CallError`] are shown to clients. Start at [`Hook::of`] and
//! [`Webhooks::call`].

mod connect;
mod services;
#[cfg(test)]
mod tests;
mod trust;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Uri, header};
use http_body::Body as _;
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, Error},
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use windlass_machinery::object::{Object, int_at, str_at};
use xxhash_rust::xxh3::xxh3_128;

use self::connect::Connector;
pub(crate) use self::services::{Services, StoredServices};

/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(60);

/// Connections to one webhook that are kept for later.
const IDLE_MOST: usize = 16;

/// Sets of authorities for which connections are kept. Each webhook may bring its own.
const TRUSTED_MOST: usize = 128;

/// Bytes of an answer that says no which are shown.
const SHOWN: usize = 512;

/// Where a webhook is and whom to trust: the `clientConfig` of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hook {
    /// Such as `https://name.namespace.svc:443/path`.
    url: Uri,
    /// Certificates in PEM; empty: those of the system.
    authorities: Bytes,
}

/// Why a webhook could not be asked, or gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CallError {
    /// The configuration does not say where it is.
    #[error("the clientConfig is not usable: {0}")]
    Config(String),
    /// Nothing came back.
    #[error("{call}: {why}")]
    NoAnswer {
        /// What was sent where.
        call: String,
        /// What went wrong.
        why: String,
    },
    /// It took too long.
    #[error("{call}: context deadline exceeded")]
    Timeout {
        /// What was sent where.
        call: String,
    },
    /// It sends the question on to someone else, who may be anyone.
    #[error("{call}: the server answered {code}, a redirect to {to:?}, and redirects are not followed")]
    Redirect {
        /// What was sent where.
        call: String,
        /// The HTTP status code.
        code: u16,
        /// Where it redirects to.
        to: String,
    },
    /// It answered, but not with success.
    #[error("{call}: the server answered {code}: {said:?}")]
    Refused {
        /// What was sent where.
        call: String,
        /// The HTTP status code.
        code: u16,
        /// The beginning of what it said.
        said: String,
    },
    /// The answer is larger than it may be.
    #[error("{call}: the answer has more than {most} bytes")]
    TooLarge {
        /// What was sent where.
        call: String,
        /// The limit.
        most: usize,
    },
}

impl Hook {
    /// Reads a `clientConfig`: `url` or `service`, and `caBundle`.
    pub(crate) fn of(config: &Object) -> Result<Self, CallError> {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let (text, path) = match (str_at(config, &["url"]), str_at(config, &["service", "name"])) {
            (Some(url), _) if !url.is_empty() => (url.to_owned(), None),
            (_, Some(name)) => {
                let namespace = str_at(config, &["service", "namespace"]).unwrap_or_default();
                let port = int_at(config, &["service", "port"]).unwrap_or(443);
                (format!("https://{name}.{namespace}.svc:{port}"), str_at(config, &["service", "path"]))
            }
            _ => return Err(CallError::Config("neither url nor service is set".to_owned())),
        };
        let no_url = || CallError::Config(format!("{text:?} is no URL"));
        let url: Uri = text.parse().map_err(|_| no_url())?;
        if url.scheme_str() != Some("https") || url.host().is_none() {
            return Err(CallError::Config(format!("{text:?} is no https URL")));
        }
        let url = with_path(&url, path.unwrap_or(url.path())).ok_or_else(no_url)?;
        let bundle = str_at(config, &["caBundle"]).unwrap_or_default();
        let lines: String = bundle.split_ascii_whitespace().collect();
        let authorities =
            STANDARD.decode(lines).map_err(|_| CallError::Config("caBundle is not base64".to_owned()))?;
        Ok(Hook { url, authorities: authorities.into() })
    }

    /// The URL with the time limit in it, as webhooks are told of it.
    fn url(&self, timeout: Duration) -> String {
        let joint = if self.url.query().is_some() { '&' } else { '?' };
        format!("{}{joint}timeout={}s", self.url, timeout.as_secs().max(1))
    }
}

/// What stands for itself in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// A URL with this path in place of its own, cleaned as Go's client does: no empty steps, no `.` and `..`, no slash at
/// the end.
fn with_path(url: &Uri, path: &str) -> Option<Uri> {
    let path = percent_decode_str(path).decode_utf8_lossy();
    let mut steps: Vec<&str> = vec![];
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    let path = steps.join("/");
    let path = utf8_percent_encode(&path, PATH);
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = url.clone().into_parts();
    parts.path_and_query = Some(format!("/{path}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Kept connections for one set of authorities.
type Pool = Client<Connector, Full<Bytes>>;

/// The one who calls.
pub(crate) struct Webhooks {
    services: Arc<dyn Services>,
    /// By the hash of the authorities, the latest last.
    pools: Mutex<VecDeque<(u128, Pool)>>,
}

impl Webhooks {
    /// Finds services of the cluster through `services`.
    pub(crate) fn new(services: Arc<dyn Services>) -> Self {
        Webhooks { services, pools: Mutex::default() }
    }

    /// Sends `body`, which is JSON, and returns what comes back with success, at most `most` bytes of it.
    pub(crate) async fn call(
        &self,
        hook: &Hook,
        body: Bytes,
        timeout: Duration,
        most: usize,
    ) -> Result<Bytes, CallError> {
        let url = hook.url(timeout);
        let request =
            Request::post(&url).header(header::CONTENT_TYPE, "application/json").body(Full::new(body));
        let exchange = self.exchange(format!("Post {url:?}"), request, &hook.authorities, most);
        within(timeout, format!("Post {url:?}"), exchange).await
    }

    /// Gets what is at an https address, at most `most` bytes of it.
    pub(crate) async fn get(
        &self,
        url: &str,
        authorities: &Bytes,
        timeout: Duration,
        most: usize,
    ) -> Result<Bytes, CallError> {
        let call = format!("Get {url:?}");
        let is_https = url.parse::<Uri>().is_ok_and(|url| url.scheme_str() == Some("https"));
        if !is_https {
            return Err(CallError::NoAnswer { call, why: "it is no https URL".to_owned() });
        }
        let exchange =
            self.exchange(call.clone(), Request::get(url).body(Full::default()), authorities, most);
        within(timeout, call, exchange).await
    }

    /// `call` is what is said of it.
    async fn exchange(
        &self,
        call: String,
        request: http::Result<Request<Full<Bytes>>>,
        authorities: &Bytes,
        most: usize,
    ) -> Result<Bytes, CallError> {
        let no_answer = |why: String| CallError::NoAnswer { call: call.clone(), why };
        let pool = self.pool(authorities).map_err(CallError::Config)?;
        let mut request = request.map_err(|error| no_answer(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*"));
        let agent = concat!("windlass/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        let answer = pool.request(request).await.map_err(|error| no_answer(cause(&error)))?;
        let code = answer.status();
        if let Some(to) = answer.headers().get(header::LOCATION).filter(|_| code.is_redirection()) {
            let to = to.as_bytes();
            let to = String::from_utf8_lossy(&to[..to.len().min(SHOWN)]).into_owned();
            return Err(CallError::Redirect { call, code: code.as_u16(), to });
        }
        let limit = if code.is_success() { most } else { SHOWN };
        let (body, is_whole) = collect(answer.into_body(), limit).await.map_err(no_answer)?;
        match (code.is_success(), is_whole) {
            (true, true) => Ok(body),
            (true, false) => Err(CallError::TooLarge { call, most }),
            (false, _) => Err(CallError::Refused {
                call,
                code: code.as_u16(),
                said: String::from_utf8_lossy(&body).trim().to_owned(),
            }),
        }
    }

    /// The connections that trust these authorities.
    fn pool(&self, authorities: &Bytes) -> Result<Pool, String> {
        let key = xxh3_128(authorities);
        let mut pools = self.pools.lock();
        if let Some((_, pool)) = pools.iter().find(|(own, _)| *own == key) {
            return Ok(pool.clone());
        }
        let connector = Connector::new(trust::config(authorities)?, Arc::clone(&self.services));
        let pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MOST)
            .build(connector);
        pools.push_back((key, pool.clone()));
        if pools.len() > TRUSTED_MOST {
            pools.pop_front();
        }
        Ok(pool)
    }
}

/// Gives up what takes too long.
async fn within(
    timeout: Duration,
    call: String,
    exchange: impl Future<Output = Result<Bytes, CallError>>,
) -> Result<Bytes, CallError> {
    tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(CallError::Timeout { call }))
}

/// What went wrong, without the layers around it.
fn cause(error: &Error) -> String {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Reads an answer up to a limit, and whether that is all of it.
async fn collect(body: hyper::body::Incoming, most: usize) -> Result<(Bytes, bool), String> {
    let mut body = std::pin::pin!(body);
    let mut all = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
        let room = most - all.len();
        all.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return Ok((all.freeze(), false));
        }
    }
    Ok((all.freeze(), true))
}
