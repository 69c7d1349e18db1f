//! The connection to etcd: one request, one answer, and an honest account of what became of it.
//!
//! All requests go to one member until it fails; then the next one's turn comes. Nothing that may have reached
//! etcd is ever sent again from here: a transaction that was applied and then repeated would find its own
//! write in the way and report a refusal. What is repeated is only what certainly had no effect, see
//! [`Failure::had_no_effect`]. The transport below keeps to the same: tonic reconnects between requests, and
//! neither it nor hyper's HTTP/2 connection repeats one. Start at [`Client::call`].

use std::{
    error::Error,
    sync::{
        Arc, OnceLock, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::uri::PathAndQuery;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, ConnectError as NoConnection, Request, Status, Streaming,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tonic_prost::ProstCodec;

use super::{
    config::{ConnectError, EtcdConfig, EtcdUser},
    failure::{Failure, Kind},
    wire::{
        Answer, AuthenticateRequest, AuthenticateResponse, Call, StatusRequest, WATCH_PATH,
        WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, WatchUnion,
    },
};

/// How long to wait between attempts to connect. A restarting etcd is back within a second or so.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Requests that fit into a watch's outgoing queue; more than one progress request is never useful.
const WATCH_QUEUE: usize = 4;

/// A client of one etcd cluster.
pub(super) struct Client {
    members: Vec<Member>,
    /// The member that requests go to.
    current: AtomicUsize,
    user: Option<EtcdUser>,
    token: RwLock<Option<MetadataValue<Ascii>>>,
    /// Held while a new token is fetched, so that it is fetched once.
    refresh: tokio::sync::Mutex<()>,
    timeout: Duration,
    /// The cluster that answered first. Every later answer must come from the same.
    cluster: OnceLock<u64>,
}

struct Member {
    endpoint: Arc<str>,
    channel: Channel,
}

impl Client {
    /// A client that has not connected yet.
    pub(super) fn new(config: &EtcdConfig) -> Result<Self, ConnectError> {
        let mut members = Vec::with_capacity(config.endpoints.len());
        for address in &config.endpoints {
            let channel = config.endpoint(address)?.connect_lazy();
            members.push(Member { endpoint: address.as_str().into(), channel });
        }
        Ok(Client {
            members,
            current: AtomicUsize::new(0),
            user: config.user.clone(),
            token: RwLock::default(),
            refresh: tokio::sync::Mutex::default(),
            timeout: config.request_timeout,
            cluster: OnceLock::new(),
        })
    }

    /// Sends a request that is answered once, and waits for the answer at most the request timeout.
    pub(super) async fn call<C: Call>(&self, request: C) -> Result<C::Answer, Failure> {
        let deadline = Instant::now() + self.timeout;
        let mut n_unsent = 0;
        let mut renewed = false;
        loop {
            let idx = self.current.load(Ordering::Relaxed);
            let token = self.token();
            let failure = match self.attempt(idx, request.clone(), deadline).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.is_unsent() && Instant::now() + RECONNECT_PAUSE < deadline {
                self.turn_from(idx);
                n_unsent += 1;
                if n_unsent % self.members.len() == 0 {
                    sleep(RECONNECT_PAUSE).await;
                }
            } else if failure.needs_token(token.is_some()) && self.user.is_some() && !renewed {
                self.renew_token(token).await?;
                renewed = true;
            } else {
                if failure.blames_member() {
                    self.turn_from(idx);
                }
                return Err(failure);
            }
        }
    }

    /// Opens a watch. Its token is only as good as the one in hand, see [`Client::renew_token`].
    pub(super) async fn watch(&self, create: WatchCreateRequest) -> Result<WatchStream<'_>, Failure> {
        let idx = self.current.load(Ordering::Relaxed);
        let deadline = Instant::now() + self.timeout;
        let (requests_tx, requests_rx) = mpsc::channel(WATCH_QUEUE);
        // The queue is empty and its receiver is right here.
        let _ = requests_tx.try_send(WatchRequest { union: Some(WatchUnion::Create(create)) });
        let mut request = self.with_token(ReceiverStream::new(requests_rx));
        // A member that is cut off from the others must say so and not fall silent.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let mut grpc = self.grpc(idx);
        let opening = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.streaming(request, PathAndQuery::from_static(WATCH_PATH), ProstCodec::default()).await
        };
        let failure = match timeout_at(deadline, opening).await {
            Ok(Ok(response)) => {
                return Ok(WatchStream { client: self, idx, requests_tx, responses: response.into_inner() });
            }
            Ok(Err(status)) => self.failure(idx, &status),
            Err(_) => self.timed_out(idx),
        };
        self.turn_from(idx);
        Err(failure)
    }

    /// Lets the next member have the requests, unless that has happened since.
    pub(super) fn turn_from(&self, idx: usize) {
        let next = (idx + 1) % self.members.len();
        let _ = self.current.compare_exchange(idx, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Logs in, unless the token has changed from `stale` meanwhile. Does nothing without a user.
    pub(super) async fn renew_token(&self, stale: Option<MetadataValue<Ascii>>) -> Result<(), Failure> {
        let Some(EtcdUser { name, password }) = self.user.clone() else { return Ok(()) };
        let _refresh = self.refresh.lock().await;
        if self.token() != stale {
            return Ok(());
        }
        let idx = self.current.load(Ordering::Relaxed);
        let request = AuthenticateRequest { name, password };
        let token = match self.attempt(idx, request, Instant::now() + self.timeout).await {
            Ok(AuthenticateResponse { token, .. }) => token,
            // As etcd's own clients do: a user is no harm where etcd knows none.
            Err(failure) if failure.needs_no_token() => return Ok(()),
            Err(failure) => {
                self.turn_from(idx);
                return Err(failure);
            }
        };
        *self.token.write().expect("no one panics while holding the token") = token.parse().ok();
        Ok(())
    }

    pub(super) fn token(&self) -> Option<MetadataValue<Ascii>> {
        self.token.read().expect("no one panics while holding the token").clone()
    }

    async fn attempt<C: Call>(&self, idx: usize, request: C, until: Instant) -> Result<C::Answer, Failure> {
        let mut grpc = self.grpc(idx);
        let request = self.with_token(request);
        let answering = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.unary(request, PathAndQuery::from_static(C::PATH), ProstCodec::default()).await
        };
        match timeout_at(until, answering).await {
            Ok(Ok(response)) => self.check(idx, response.into_inner()),
            Ok(Err(status)) => Err(self.failure(idx, &status)),
            Err(_) => Err(self.timed_out(idx)),
        }
    }

    fn grpc(&self, idx: usize) -> Grpc<Channel> {
        // The server is trusted, and values may be as large as it was told to allow.
        Grpc::new(self.members[idx].channel.clone()).max_decoding_message_size(usize::MAX)
    }

    fn with_token<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = self.token() {
            request.metadata_mut().insert("token", token);
        }
        request
    }

    /// Refuses answers of any other cluster than the first one.
    fn check<A: Answer>(&self, idx: usize, answer: A) -> Result<A, Failure> {
        if let Some(header) = answer.header() {
            let expected = *self.cluster.get_or_init(|| header.cluster_id);
            if header.cluster_id != expected {
                let found = header.cluster_id;
                let message = format!("belongs to cluster {found:x}, this process began with {expected:x}");
                return Err(self.failed(idx, Kind::OtherCluster, message));
            }
        }
        Ok(answer)
    }

    fn failure(&self, idx: usize, status: &Status) -> Failure {
        let mut cause = status.source();
        while let Some(error) = cause {
            if error.is::<NoConnection>() {
                return self.failed(idx, Kind::NotSent, innermost(error));
            }
            cause = error.source();
        }
        self.failed(idx, Kind::Status(status.code()), status.message().to_owned())
    }

    fn timed_out(&self, idx: usize) -> Failure {
        self.failed(idx, Kind::TimedOut, format!("no answer within {:?}", self.timeout))
    }

    fn failed(&self, idx: usize, kind: Kind, message: String) -> Failure {
        Failure::new(self.members[idx].endpoint.clone(), kind, message)
    }
}

/// What lies at the bottom of an error: for a connection that failed, the part that says why.
fn innermost(mut error: &(dyn Error + 'static)) -> String {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

/// An open watch.
pub(super) struct WatchStream<'a> {
    client: &'a Client,
    idx: usize,
    requests_tx: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl WatchStream<'_> {
    /// The next answer. Safe to drop and call again.
    pub(super) async fn next(&mut self) -> Result<WatchResponse, Failure> {
        match self.responses.message().await {
            Ok(Some(response)) => self.client.check(self.idx, response),
            Ok(None) => {
                let message = "the watch ended".to_owned();
                Err(self.client.failed(self.idx, Kind::Status(Code::Unavailable), message))
            }
            Err(status) => Err(self.client.failure(self.idx, &status)),
        }
    }

    /// The next answer, if it comes within the time of a request.
    pub(super) async fn next_before_timeout(&mut self) -> Result<WatchResponse, Failure> {
        match timeout_at(Instant::now() + self.client.timeout, self.next()).await {
            Ok(answered) => answered,
            Err(_) => Err(self.client.timed_out(self.idx)),
        }
    }

    /// The failure that a response stands for which says that etcd ended the watch.
    pub(super) fn canceled(&self, response: &WatchResponse) -> Failure {
        let message = format!("etcd ended the watch: {}", response.cancel_reason);
        self.client.failed(self.idx, Kind::Status(Code::Cancelled), message)
    }

    /// Asks how far the watch has come. The answer, if any, comes as an empty response.
    pub(super) fn request_progress(&self) {
        // A full queue means that requests to the same end are waiting already.
        let union = Some(WatchUnion::Progress(WatchProgressRequest {}));
        let _ = self.requests_tx.try_send(WatchRequest { union });
    }

    /// The version of the member at the other end.
    pub(super) async fn version(&self) -> Result<String, Failure> {
        let until = Instant::now() + self.client.timeout;
        Ok(self.client.attempt(self.idx, StatusRequest {}, until).await?.version)
    }

    /// Lets another member have the next watch.
    pub(super) fn give_up(self) {
        self.client.turn_from(self.idx);
    }
}
