//! The server: one request in, one answer out.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderValue, Method, Request, Response, header};
use hyper::upgrade::OnUpgrade;
use tokio::sync::watch;
use windlass_access::{
    Attributes, User, Wanted,
    authn::{Peer, Shown},
    rbac::Grant,
};
use windlass_store::{ReadError, Store};

use crate::{
    Config,
    access::{
        self, Access, Allowed, Rights,
        fairness::{self, Fairness, Flow, Seat},
        issuers::Trust,
    },
    admission, api_services,
    audit::{Notes, Trail},
    crd::{self, Definitions},
    discovery::Discovery,
    health,
    http::{Body, Query, Route, Style, Target, route, take_bearer},
    metrics::{Labels, Metrics},
    openapi::Documents,
    registry::{Registry, Versions},
    resources::{Catalog, builtin},
    startup,
    status::{Outcome, Status},
    verbs::{
        self,
        body::{self, Bodies, Room, Sent},
    },
    webhook::{StoredServices, Webhooks},
};

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store could not be read.
    #[error("the store could not be read")]
    Read(#[source] ReadError),
    /// The objects that every server has could not be created.
    #[error("{what} could not be created: {why}")]
    Bootstrap {
        /// The object.
        what: String,
        /// What the registry said.
        why: String,
    },
}

/// The API server, apart from its listener.
pub struct ApiServer {
    pub(crate) config: Config,
    pub(crate) registry: Registry,
    /// The custom kinds among the rows.
    pub(crate) definitions: Definitions,
    pub(crate) discovery: Discovery,
    pub(crate) openapi: Documents,
    pub(crate) metrics: Metrics,
    pub(crate) access: Arc<Access>,
    pub(crate) issuers: Trust,
    /// Who is served now and who waits.
    pub(crate) fairness: Arc<Fairness>,
    pub(crate) bodies: Bodies,
    draining_tx: watch::Sender<bool>,
    requests: AtomicU64,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiServer")
    }
}

impl ApiServer {
    /// Opens the registry over a store and creates the objects that every server has.
    pub async fn start(config: Config, store: Arc<dyn Store>) -> Result<Arc<Self>, StartError> {
        let catalog = Arc::new(Catalog::new(builtin::rows()));
        let rights = Rights::new(Arc::clone(&store));
        let services = StoredServices { store: Arc::clone(&store), catalog: Arc::clone(&catalog) };
        let webhooks = Arc::new(Webhooks::new(Arc::new(services)));
        let admission = admission::AdmissionConfig {
            service_cidrs: config.service_cidrs.clone(),
            node_ports: config.node_ports.clone(),
            external_ips: config.allowed_external_ips.clone(),
            signer: config.signer.clone(),
        };
        let plugins = admission::chain(&admission, &webhooks);
        let issuers = Trust::new(config.issuers.clone(), &webhooks);
        let access = Access::new(&config.authentication, issuers.known(), &store, &catalog, &rights)?;
        let metrics = Metrics::new(config.audit.as_deref());
        let server = Arc::new(ApiServer {
            definitions: Definitions::new(&catalog),
            discovery: Discovery::default(),
            openapi: Documents::default(),
            registry: Registry {
                store,
                catalog: ArcSwap::new(catalog),
                plugins,
                lines: Arc::default(),
                versions: Arc::new(Versions::new(webhooks)),
                rights,
                unrestricted: config.unrestricted_update,
                continue_ttl: config.continue_ttl,
            },
            fairness: Fairness::new(&config, metrics.flows.clone()),
            bodies: Bodies::default(),
            metrics,
            access: Arc::new(access),
            issuers,
            draining_tx: watch::channel(false).0,
            requests: AtomicU64::new(fastrand::u64(..)),
            config,
        });
        crd::start(&server).await?;
        startup::bootstrap(&server).await?;
        api_services::start(&server).await?;
        access::bootstrap::start(&server).await?;
        fairness::start(&server).await?;
        startup::expire_events(&server);
        Trust::start(&server);
        Ok(server)
    }

    /// Ends watches and turns readiness off; requests in flight go on.
    pub fn begin_drain(&self) {
        self.draining_tx.send_replace(true);
    }

    /// Becomes true when the server stops.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.draining_tx.subscribe()
    }

    /// Answers one request. Never fails: errors are answers.
    pub async fn handle<B>(self: &Arc<Self>, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let begun = Instant::now();
        let (head, body) = request.into_parts();
        let (mut call, peer) = Call::of(head);
        call.audit_id = self.audit_id(&call.headers);
        let (mut response, labels) = self.answer(&mut call, &peer, body).await;
        if let Some(trail) = call.trail.take() {
            response = trail.end(response).await;
        }
        if let Some(style) = call.style.take() {
            response = style.apply(response);
        }
        let headers = response.headers_mut();
        headers.insert("cache-control", HeaderValue::from_static("no-cache, private"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        if let Ok(value) = HeaderValue::from_str(&call.audit_id) {
            headers.insert("audit-id", value);
        }
        if call.user.is_anonymous() {
            response.extensions_mut().insert(Nobody);
        }
        let status = response.status().as_u16();
        let took = begun.elapsed();
        self.metrics.request(labels, status, took);
        tracing::info!(method = %call.method, path = call.path, status, id = call.audit_id, micros = took.as_micros() as u64, "request");
        response
    }

    /// What the client calls this request, or what we do.
    fn audit_id(&self, headers: &http::HeaderMap) -> String {
        let given = headers.get("audit-id").and_then(|value| value.to_str().ok());
        let is_fit = |id: &&str| {
            !id.is_empty() && id.len() <= MOST_AUDIT_ID && id.bytes().all(|byte| byte.is_ascii_graphic())
        };
        match given.filter(is_fit) {
            Some(given) => given.to_owned(),
            None => {
                let id = self.requests.fetch_add(1, Ordering::Relaxed);
                uuid::Uuid::from_u64_pair(id, id.rotate_left(17)).hyphenated().to_string()
            }
        }
    }

    async fn answer<B>(self: &Arc<Self>, call: &mut Call, peer: &Peer, body: B) -> (Response<Body>, Labels)
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let catalog = self.registry.catalog.load_full();
        let route = route(&call.path, &catalog);
        let labels = route.as_ref().map_or_else(|| Labels::other(call), |route| Labels::of(call, route));
        let is_watch = labels.verb == "WATCH";
        let style = Style::for_route(route.as_ref(), &call.headers, &call.query);
        let outcome = match self.admit(call, peer, route, body).await {
            Err(status) => Err(status),
            Ok(Admitted { allowed, body, seat, timeout, _room }) => {
                let work = AssertUnwindSafe(verbs::answer(self, call, allowed, body)).catch_unwind();
                let done = tokio::time::timeout(timeout, work).await;
                if labels.group == fairness::GROUP && call.is_write() {
                    self.fairness.refresh(&self.registry).await;
                }
                match done {
                    // What is still being sent is in flight, watches aside.
                    Ok(Ok(outcome)) => match seat.filter(|_| !is_watch) {
                        Some(seat) => outcome.map(|response| response.map(|body| body.holding(seat))),
                        None => outcome,
                    },
                    Ok(Err(_panic)) => {
                        self.metrics.panics.inc();
                        if let Some(trail) = call.trail.take() {
                            trail.panicked().await;
                        }
                        Err(Status::internal("the request could not be completed"))
                    }
                    Err(_) => Err(Status::timeout("request did not complete within the allotted timeout", 1)),
                }
            }
        };
        // Each line of a watch is an event.
        call.style = style.filter(|_| !is_watch || outcome.is_err());
        let mut response = outcome.unwrap_or_else(|mut status| {
            call.warnings.append(&mut status.warnings);
            failure(&status)
        });
        if let Some((flow, _)) = &call.flow {
            flow.stamp(response.headers_mut());
        }
        for warning in call.warnings.iter().take(MOST_WARNINGS) {
            let text = format!("299 - \"{}\"", escape(warning));
            if let Ok(value) = HeaderValue::from_str(&text) {
                response.headers_mut().append(header::WARNING, value);
            }
        }
        (response, labels)
    }

    /// Finds out who asks and whether they may, reads what they send, and waits until there is room for it.
    async fn admit<B>(
        self: &Arc<Self>,
        call: &mut Call,
        peer: &Peer,
        route: Option<Route>,
        sent: B,
    ) -> Outcome<Admitted>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let sent = Sent::new(sent, call.is_http1 && call.headers.contains_key(header::EXPECT));
        let (allowed, most) = self.judge(call, peer, route).await?;
        let begun = Instant::now();
        let (body, _room) = match allowed.route() {
            Route::Resource(_) if !matches!(call.method, Method::GET | Method::HEAD) => {
                body::read(self, &call.user.name, sent, most).await?
            }
            _ => (Bytes::new(), None),
        };
        let timeout = most.saturating_sub(begun.elapsed()).max(LEAST_LEFT.min(most));
        let is_health = matches!(allowed.route(), Route::Health(..) | Route::ServerVersion);
        let seat = if is_health { None } else { Some(self.seat(call, &allowed, most).await?) };
        Ok(Admitted { allowed, body, seat, timeout, _room })
    }

    /// Finds out who asks, and whether they may; how long it may take.
    async fn judge(
        self: &Arc<Self>,
        call: &mut Call,
        peer: &Peer,
        route: Option<Route>,
    ) -> Outcome<(Allowed, Duration)> {
        let audit = self.config.audit.as_ref();
        if let Some(Refused(status)) = call.refused.take() {
            Trail::refuse(audit, call, peer, route.as_ref(), Some(&status)).await;
            return Err(status);
        }
        let shown = Shown { peer, headers: &call.headers };
        call.user = match self.access.authenticate(shown, &call.path, &self.metrics).await {
            Ok(identity) => identity.user,
            Err(status) => {
                Trail::refuse(audit, call, peer, route.as_ref(), None).await;
                return Err(status);
            }
        };
        call.peer = peer.clone();
        call.trail = Trail::begin(audit, call, peer, route.as_ref()).await?;
        if let Err(status) = self.access.impersonate(call) {
            call.judged(None);
            return Err(status);
        }
        let path = || Attributes { verb: call.method_verb(), wanted: Wanted::Path(&call.path) };
        let attributes = route.as_ref().map_or_else(path, |route| route.wanted(call));
        call.flow = Some(self.fairness.classify(&call.user, &attributes));
        let Some(route) = route else {
            let outcome = self.access.authorize_path(call);
            call.judged(outcome.as_ref().ok());
            return outcome.and_then(|_| Err(Status::no_such_path()));
        };
        let outcome = self.access.authorize(call, route);
        call.judged(outcome.as_ref().ok().map(Allowed::grant));
        Ok((outcome?, self.timeout_of(call)?))
    }

    /// How long the request may take. A watch that has begun is a stream and not waited for; what is waited for
    /// is its beginning.
    fn timeout_of(&self, call: &Call) -> Outcome<Duration> {
        let most = self.config.request_timeout;
        match (call.query.get("timeout"), verbs::go_duration(call.query.get("timeout"))) {
            ("", _) => Ok(most),
            (_, Some(asked)) if asked.is_zero() => Ok(most),
            (_, Some(asked)) => Ok(asked.min(most)),
            (text, None) => Err(Status::bad_request(format!(
                "invalid timeout specified in the request URL - timeout: invalid duration {text:?}"
            ))),
        }
    }

    /// Whether requests are taken.
    pub(crate) fn is_ready(&self) -> Result<(), String> {
        match *self.draining_tx.borrow() {
            true => Err("the server is shutting down".to_owned()),
            false => Ok(()),
        }
    }

    /// Why the store has stopped, if it has.
    pub(crate) fn store_failure(&self) -> Option<String> {
        self.registry.store.stopped().now_or_never().map(|why| why.to_string())
    }

    /// Bytes of live keys and values.
    pub(crate) fn live_bytes(&self) -> u64 {
        let snapshot = self.registry.store.snapshot(windlass_store::Read::Seen).now_or_never();
        snapshot.and_then(Result::ok).map_or(0, |snapshot| snapshot.live_bytes())
    }

    pub(crate) fn inflight(&self) -> (usize, usize) {
        self.fairness.inflight()
    }

    pub(crate) fn health(&self, endpoint: &str, check: Option<&str>, query: &Query) -> Response<Body> {
        health::answer(self, endpoint, check, query)
    }
}

/// What is left to do what is asked for, however long it took to be sent.
const LEAST_LEFT: Duration = Duration::from_secs(5);

/// Most bytes of what a client may call a request.
const MOST_AUDIT_ID: usize = 64;

/// Most warnings sent with one answer.
const MOST_WARNINGS: usize = 20;

/// Text that can stand between quotes in a header.
fn escape(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(4096).collect();
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Marks an answer to someone who has not shown who they are.
#[derive(Clone)]
pub(crate) struct Nobody;

/// Marks a request that is refused whoever asks, with the answer.
#[derive(Clone)]
pub(crate) struct Refused(pub(crate) Box<Status>);

/// A request that may go on.
struct Admitted {
    allowed: Allowed,
    body: Bytes,
    seat: Option<Seat>,
    timeout: Duration,
    /// What the body takes, until the request is answered.
    _room: Option<Room>,
}

/// One request, apart from its body.
pub(crate) struct Call {
    is_http1: bool,
    /// Whether its connection can go on in another protocol.
    pub(crate) may_switch: bool,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) headers: http::HeaderMap,
    pub(crate) user: Arc<User>,
    /// Who asks in the name of the user, where that is someone else.
    pub(crate) impersonator: Option<Arc<User>>,
    /// The connection it came over.
    pub(crate) peer: Peer,
    /// Advice for the client.
    pub(crate) warnings: Vec<String>,
    /// How fairness has classified it, and which flow of that it is.
    pub(crate) flow: Option<(Arc<Flow>, u64)>,
    /// As the client sent it.
    pub(crate) uri: http::Uri,
    /// What the lines of one request in the audit log have in common.
    pub(crate) audit_id: String,
    /// What the audit log is told, where it is.
    pub(crate) trail: Option<Box<Trail>>,
    /// How it is answered to people.
    style: Option<Style>,
    /// Why it is refused, whoever asks.
    refused: Option<Refused>,
}

impl Call {
    /// A request of nobody in particular yet, and the connection it came over.
    fn of(head: http::request::Parts) -> (Self, Peer) {
        let http::request::Parts { method, uri, mut headers, version, mut extensions, .. } = head;
        let mut refused = extensions.remove();
        if let Err(why) = take_bearer(&mut headers) {
            tracing::debug!(why, "credentials refused");
            refused.get_or_insert_with(|| Refused(Status::unauthorized()));
        }
        let call = Call {
            is_http1: version < http::Version::HTTP_2,
            may_switch: extensions.get::<OnUpgrade>().is_some(),
            method,
            path: uri.path().to_owned(),
            query: Query::parse(uri.query()),
            headers,
            user: User::anonymous(),
            impersonator: None,
            peer: Peer::default(),
            warnings: vec![],
            flow: None,
            uri,
            audit_id: String::new(),
            trail: None,
            style: None,
            refused,
        };
        (call, extensions.remove::<Peer>().unwrap_or_default())
    }

    /// The method, as roles name it.
    pub(crate) fn method_verb(&self) -> &'static str {
        match self.method.as_str() {
            "GET" => "get",
            "HEAD" => "head",
            "POST" => "post",
            "PUT" => "put",
            "PATCH" => "patch",
            "DELETE" => "delete",
            "OPTIONS" => "options",
            "TRACE" => "trace",
            "CONNECT" => "connect",
            _ => "",
        }
    }

    /// Notes for the audit log whether it was allowed.
    fn judged(&mut self, grant: Option<&Grant>) {
        if let Some(trail) = &mut self.trail {
            trail.judged(&self.user, grant);
        }
    }

    /// Where to say something for the audit log, if it is told of this request.
    pub(crate) fn notes(&self) -> Option<&Notes> {
        self.trail.as_deref().map(Trail::notes)
    }

    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    /// What the options in the query are called.
    pub(crate) fn options_kind(&self) -> &'static str {
        match self.method.as_str() {
            "PUT" => "UpdateOptions",
            "PATCH" => "PatchOptions",
            "DELETE" => "DeleteOptions",
            _ => "CreateOptions",
        }
    }

    /// The verb, as authorisation and metrics call it.
    pub(crate) fn verb(&self, target: &Target) -> &'static str {
        match (self.method.as_str(), &target.name) {
            ("GET" | "HEAD", _) if target.watch || self.query.flag("watch") => "watch",
            ("GET" | "HEAD", Some(_)) => "get",
            ("GET" | "HEAD", None) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", Some(_)) => "delete",
            ("DELETE", None) => "deletecollection",
            _ => "",
        }
    }
}

impl Labels {
    fn other(call: &Call) -> Self {
        const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        let verb = METHODS.into_iter().find(|method| *method == call.method).unwrap_or("other");
        let empty = String::new;
        Labels { verb, group: empty(), version: empty(), resource: empty(), subresource: empty(), scope: "" }
    }

    fn of(call: &Call, route: &Route) -> Self {
        let Route::Resource(target) = route else { return Self::other(call) };
        let known = |sub: &str| {
            let row = &target.resource;
            sub == "scale" || row.part(sub).is_some() || row.actions.iter().any(|(name, _)| *name == sub)
        };
        Labels {
            verb: in_capitals(call.verb(target)),
            group: target.resource.group.clone(),
            version: target.version.clone(),
            resource: target.resource.plural.clone(),
            subresource: target.sub.as_deref().filter(|sub| known(sub)).unwrap_or_default().to_owned(),
            scope: match (&target.name, target.namespace.is_empty()) {
                (Some(_), _) => "resource",
                (None, false) => "namespace",
                (None, true) => "cluster",
            },
        }
    }
}

/// A verb as metrics write it.
fn in_capitals(verb: &str) -> &'static str {
    match verb {
        "watch" => "WATCH",
        "get" => "GET",
        "list" => "LIST",
        "create" => "CREATE",
        "update" => "UPDATE",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "",
    }
}

/// The answer that carries a `Status`.
pub(crate) fn failure(status: &Status) -> Response<Body> {
    let mut response = Response::new(Body::whole(Status::line(&status.to_json())));
    *response.status_mut() =
        http::StatusCode::from_u16(status.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = status.details.get("retryAfterSeconds").and_then(serde_json::Value::as_u64) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
