//! A small service for networks, after the one that OpenStack has: the outside world of the Network sample.
//!
//! [`Neutron`] is the service, in memory and over HTTP; [`NeutronClient`] speaks to it, or to anything that answers alike:
//!
//! | request | answer |
//! |---|---|
//! | `GET /v2.0/networks[?name=NAME][&limit=N][&marker=ID]` | `{"networks": […]}`, by id: the first N after ID |
//! | `POST /v2.0/networks` with `{"network": …}` | 201, `{"network": …}`; 409 if there is one of that name |
//! | `PUT /v2.0/networks/ID` with `{"network": …}` | `{"network": …}`; 404 if there is none, 409 if another has that name |
//! | `DELETE /v2.0/networks/ID` | 204; 404 if there is none |

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    net::Ipv4Addr,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

const NETWORKS: &str = "/v2.0/networks";

/// The most that is read of a request or an answer.
const MOST_BODY: usize = 4 << 20;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How many networks are asked for at a time: they fit into an answer.
const PAGE: usize = 500;

/// How long to wait when no connection can be accepted: mostly there are too many of them.
const BUSY: Duration = Duration::from_millis(100);

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Network {
    /// What the service calls it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// What its owner calls it.
    pub name: String,
    /// Its addresses.
    pub cidr: String,
    /// The way out of it.
    pub gateway: String,
    /// Whatever its owner wants to find there again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// The service.
#[derive(Clone, Debug, Default)]
pub struct Neutron(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    n_made: u64,
    networks: BTreeMap<String, Network>,
    n_failures: u32,
    n_requests: u64,
}

impl Neutron {
    /// All networks, by name.
    pub fn networks(&self) -> Vec<Network> {
        let mut networks: Vec<Network> = self.0.lock().networks.values().cloned().collect();
        networks.sort_by(|one, other| one.name.cmp(&other.name));
        networks
    }

    /// Answers this many requests with 503 from now on: for those who want to see what then happens.
    pub fn fail(&self, n_requests: u32) {
        self.0.lock().n_failures = n_requests;
    }

    /// How many requests it has answered.
    pub fn requests(&self) -> u64 {
        self.0.lock().n_requests
    }

    /// Where the service of this process is. It begins when someone asks for the first time.
    pub fn of_this_process() -> io::Result<String> {
        static URL: Mutex<Option<String>> = Mutex::new(None);
        let mut url = URL.lock();
        if let Some(url) = &*url {
            return Ok(url.clone());
        }
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let begun = format!("http://{}", listener.local_addr()?);
        tokio::spawn(async move { Neutron::default().serve(listener).await });
        tracing::info!(url = begun, "a Neutron in this process has begun");
        Ok(url.insert(begun).clone())
    }

    /// Answers on a listener for as long as it is polled.
    pub async fn serve(&self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(BUSY).await;
                continue;
            };
            let neutron = self.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let neutron = neutron.clone();
                async move { Ok::<_, Infallible>(neutron.answer(request).await) }
            });
            connections.spawn(async move {
                let mut server = hyper::server::conn::http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(TIMEOUT);
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let read = tokio::time::timeout(TIMEOUT, Limited::new(body, MOST_BODY).collect()).await;
        let body = match read {
            Ok(Ok(body)) => body.to_bytes(),
            _ => return answer(StatusCode::BAD_REQUEST, &json!({"error": "the body cannot be read"})),
        };
        let (code, value) = self.0.lock().answer(&head.method, &head.uri, &body);
        answer(code, &value)
    }
}

fn answer(code: StatusCode, value: &Value) -> Response<Full<Bytes>> {
    let body = if code == StatusCode::NO_CONTENT { String::new() } else { value.to_string() };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// What is sent and answered with.
#[derive(Deserialize, Serialize)]
struct One {
    network: Network,
}

#[derive(Deserialize, Serialize)]
struct Many {
    networks: Vec<Network>,
}

impl State {
    fn answer(&mut self, method: &Method, uri: &Uri, body: &[u8]) -> (StatusCode, Value) {
        self.n_requests += 1;
        if self.n_failures > 0 {
            self.n_failures -= 1;
            return (StatusCode::SERVICE_UNAVAILABLE, json!({"error": "try again later"}));
        }
        let not_found = (StatusCode::NOT_FOUND, json!({"error": "there is no such network"}));
        let taken = (StatusCode::CONFLICT, json!({"error": "there is a network of that name"}));
        let sent = || serde_json::from_slice::<One>(body).map(|one| one.network);
        let bad = |why: &dyn std::fmt::Display| (StatusCode::BAD_REQUEST, json!({"error": why.to_string()}));
        let Some(rest) = uri.path().strip_prefix(NETWORKS) else { return not_found };
        match (method, rest.strip_prefix('/')) {
            (&Method::GET, None) => (StatusCode::OK, json!(self.page(uri.query().unwrap_or_default()))),
            (&Method::POST, None) => {
                let mut network = match sent() {
                    Ok(network) => network,
                    Err(error) => return bad(&error),
                };
                if self.is_taken(&network.name, "") {
                    return taken;
                }
                self.n_made += 1;
                network.id = format!("net-{}", self.n_made);
                self.networks.insert(network.id.clone(), network.clone());
                (StatusCode::CREATED, json!(One { network }))
            }
            (&Method::PUT, Some(id)) => match sent() {
                _ if !self.networks.contains_key(id) => not_found,
                Err(error) => bad(&error),
                Ok(network) if self.is_taken(&network.name, id) => taken,
                Ok(network) => {
                    let network = Network { id: id.to_owned(), ..network };
                    self.networks.insert(id.to_owned(), network.clone());
                    (StatusCode::OK, json!(One { network }))
                }
            },
            (&Method::DELETE, Some(id)) => match self.networks.remove(id) {
                Some(_) => (StatusCode::NO_CONTENT, Value::Null),
                None => not_found,
            },
            _ => (StatusCode::METHOD_NOT_ALLOWED, json!({"error": "expected GET, POST, PUT or DELETE"})),
        }
    }

    /// Whether another network has this name.
    fn is_taken(&self, name: &str, but_of: &str) -> bool {
        self.networks.values().any(|other| other.name == name && other.id != but_of)
    }

    /// The networks that a query asks for.
    fn page(&self, query: &str) -> Many {
        let pairs: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let limit = pairs.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let after = pairs.get("marker").map_or(Unbounded, |marker| Excluded(marker.clone()));
        let all = self.networks.range((after, Unbounded)).map(|(_, network)| network);
        let takes = |network: &&Network| pairs.get("name").is_none_or(|name| network.name == *name);
        Many { networks: all.filter(takes).take(limit).cloned().collect() }
    }
}

/// A query, with what is written otherwise in it.
fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    format!("?{}", form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}

/// The service has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum NeutronError {
    /// It cannot be reached.
    #[error("Neutron cannot be reached")]
    Unreachable(#[from] hyper_util::client::legacy::Error),
    /// It does not answer.
    #[error("Neutron does not answer")]
    Slow,
    /// It refuses.
    #[error("Neutron answered {code}: {body}")]
    Refused {
        /// The code.
        code: StatusCode,
        /// What it said.
        body: String,
    },
    /// It says what makes no sense.
    #[error("Neutron's answer makes no sense: {0}")]
    Nonsense(String),
}

/// Speaks to the service.
#[derive(Clone, Debug)]
pub struct NeutronClient {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl NeutronClient {
    /// A client of the service at `url`, such as `http://127.0.0.1:9696`.
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into().trim_end_matches('/').to_owned();
        NeutronClient { url, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// All networks.
    pub async fn list(&self) -> Result<Vec<Network>, NeutronError> {
        let (mut all, limit) = (Vec::<Network>::new(), PAGE.to_string());
        loop {
            let marker = all.last().map(|last| last.id.clone());
            let pairs = marker.iter().map(|marker| ("marker", marker.as_str()));
            let query = query([("limit", limit.as_str())].into_iter().chain(pairs));
            let (_, many) = self.ask::<Many>(Method::GET, &query, None).await?;
            let page = many.map(|many| many.networks).unwrap_or_default();
            if page.is_empty() {
                return Ok(all);
            }
            if page.last().map(|last| &last.id) == marker.as_ref() {
                return Err(NeutronError::Nonsense("a page ends where it begins".to_owned()));
            }
            all.extend(page);
        }
    }

    /// The network of this name.
    pub async fn find(&self, name: &str) -> Result<Option<Network>, NeutronError> {
        let query = query([("name", name)]);
        let (_, many) = self.ask::<Many>(Method::GET, &query, None).await?;
        Ok(many.and_then(|many| many.networks.into_iter().find(|network| network.name == name)))
    }

    /// Makes a network.
    pub async fn create(&self, network: Network) -> Result<(), NeutronError> {
        self.ask::<One>(Method::POST, "", Some(network)).await.map(drop)
    }

    /// Changes a network.
    pub async fn update(&self, id: &str, network: Network) -> Result<(), NeutronError> {
        self.ask::<One>(Method::PUT, &format!("/{id}"), Some(network)).await.map(drop)
    }

    /// Removes a network. One that is gone is as good.
    pub async fn delete(&self, id: &str) -> Result<(), NeutronError> {
        match self.ask::<One>(Method::DELETE, &format!("/{id}"), None).await {
            Err(NeutronError::Refused { code: StatusCode::NOT_FOUND, .. }) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        network: Option<Network>,
    ) -> Result<(StatusCode, Option<T>), NeutronError> {
        let nonsense = |error: &dyn std::fmt::Display| NeutronError::Nonsense(error.to_string());
        let body = network.map(|network| json!(One { network }).to_string()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{NETWORKS}{path}", self.url))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(|error| nonsense(&error))?;
        let exchange = async {
            let response = self.client.request(request).await?;
            let code = response.status();
            let body = Limited::new(response.into_body(), MOST_BODY).collect().await;
            let body = body.map_err(|error| nonsense(&error))?.to_bytes();
            if !code.is_success() {
                return Err(NeutronError::Refused {
                    code,
                    body: String::from_utf8_lossy(&body).into_owned(),
                });
            }
            match body.is_empty() {
                true => Ok((code, None)),
                false => Ok((code, Some(serde_json::from_slice(&body).map_err(|error| nonsense(&error))?))),
            }
        };
        tokio::time::timeout(TIMEOUT, exchange).await.map_err(|_| NeutronError::Slow)?
    }
}
