//! One stream of a client: requests and answers come in, rules go out.
//!
//! Every stream has a task of its own, and hands on one message at a time. A client that does not read keeps only its own
//! task waiting, and after a while its stream is ended.

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Request as HttpRequest, Response as HttpResponse};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codegen::Service,
    server::{Grpc, NamedService, StreamingService},
};

use crate::{
    access::{Access, Identity},
    plane::{Plane, Stream},
    proto::transport::v1::{ControlPlaneDesc, SubscribeOpType, SubscribeRequest, SubscribeResponse},
    serve::Peer,
    status::{self, ACK, BAD_REQUEST, FORBIDDEN, NACK, OUTDATED, SUCCESS, TOO_MANY},
    subscriber::{Push, Verdict},
    topic::{App, KindId, NAME_OF_APP, Topic},
    wire::{Incoming, Outgoing, Transport},
};

/// The name of the service.
const NAME: &str = "io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService";
/// The path of its only method.
const PATH: &str = "/io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService/SubscribeConfig";

/// The most bytes of a request.
const MOST_REQUEST: usize = 64 * 1024;

/// How long a client has to read why its stream was ended, before its connection is.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Whoever does not read what is answered is not asked what else it wants.
const MOST_REPLIES: usize = 32;

/// The longest name of a request or a client, and the most kinds of a request.
const MOST_ID: usize = 253;
const MOST_KINDS: usize = 64;

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct TransportService {
    plane: Arc<Plane>,
    access: Access,
    stop: CancellationToken,
}

impl TransportService {
    /// The service of a plane, until it is told to stop.
    pub(crate) fn new(plane: Arc<Plane>, access: Access, stop: CancellationToken) -> Self {
        TransportService { plane, access, stop }
    }
}

impl NamedService for TransportService {
    const NAME: &'static str = NAME;
}

impl Service<HttpRequest<Body>> for TransportService {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != PATH {
                return Ok(status::unknown_method().into_http());
            }
            let mut grpc = Grpc::new(Transport).max_decoding_message_size(MOST_REQUEST);
            Ok(grpc.streaming(service, request).await)
        })
    }
}

impl StreamingService<Incoming> for TransportService {
    type Response = Outgoing;
    type ResponseStream = Responses;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<Incoming>>) -> Self::Future {
        let TransportService { plane, access, stop } = self.clone();
        Box::pin(async move {
            if stop.is_cancelled() {
                return Err(status::going_away());
            }
            let identity = access.identify(&request).await?;
            let peer = peer_of(&request);
            let user = identity.as_ref().map(|identity| identity.name.clone());
            let stream = plane.connect(peer, user);
            let stream = stream.ok_or_else(|| status::too_many_streams(plane.settings.most_streams))?;
            tracing::debug!(stream = stream.id, ?peer, "a stream is open");
            let (tx, rx) = mpsc::channel(1);
            let connection = request.extensions().get::<Peer>().map(|peer| peer.connection.clone());
            let replies = VecDeque::new();
            let talk = Talk { plane, access, identity, stream, replies, blocked_since: None, connection };
            tokio::spawn(talk.run(request.into_inner(), tx, stop));
            Ok(Response::new(Responses(rx)))
        })
    }
}

/// What a client is sent. In boxes: a channel has room for some dozens, of which all but one stay empty.
type Sent = Box<Result<Outgoing, Status>>;

/// What a client is sent, as it is wanted.
pub(crate) struct Responses(mpsc::Receiver<Sent>);

impl futures_util::Stream for Responses {
    type Item = Result<Outgoing, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|sent| sent.map(|sent| *sent))
    }
}

fn peer_of<T>(request: &Request<T>) -> Option<SocketAddr> {
    request.extensions().get::<Peer>().map(|peer| peer.address)
}

/// What goes on on a stream.
struct Talk {
    plane: Arc<Plane>,
    access: Access,
    identity: Option<Arc<Identity>>,
    stream: Arc<Stream>,
    /// What requests that make no sense are answered with.
    replies: VecDeque<Outgoing>,
    /// Since when there is something that the client does not take.
    blocked_since: Option<Instant>,
    /// Ends the connection.
    connection: Option<CancellationToken>,
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.plane.disconnect(&self.stream);
    }
}

impl Talk {
    async fn run(
        mut self,
        mut requests: Streaming<Incoming>,
        tx: mpsc::Sender<Sent>,
        stop: CancellationToken,
    ) {
        let stream = Arc::clone(&self.stream);
        let topics = move || stream.state.lock().topics().keys().cloned().collect();
        let revoked = self.access.revoked(self.identity.as_ref(), topics);
        let why = tokio::select! {
            why = self.talk(&mut requests, &tx) => why,
            why = revoked => Some(why),
            () = stop.cancelled() => Some(status::going_away()),
        };
        let stream = self.stream.id;
        match why {
            None => tracing::debug!(stream, "a stream has ended"),
            Some(why) => {
                tracing::info!(stream, peer = ?self.stream.peer, why = why.message(), "a stream was ended");
                let _ = tx.try_send(Box::new(Err(why)));
                if let Some(connection) = self.connection.take() {
                    // Whoever does not read is not told either, and keeps what was sent for as long as it is connected.
                    tokio::time::sleep(LAST_WORDS).await;
                    if !tx.is_closed() {
                        connection.cancel();
                    }
                }
            }
        }
    }

    /// Talks until the client goes, or has to.
    async fn talk(&mut self, requests: &mut Streaming<Incoming>, tx: &mpsc::Sender<Sent>) -> Option<Status> {
        let stream = Arc::clone(&self.stream);
        // Whoever has nothing more to ask is told what it has asked for, if that does not take too long.
        let mut leaves_at = None;
        loop {
            let now = Instant::now();
            let (is_ready, is_told_all, deadline) = {
                let state = stream.state.lock();
                let is_told_all = leaves_at.is_some() && state.is_told_all();
                (state.is_ready(now), is_told_all, state.deadline(now))
            };
            if is_told_all && self.replies.is_empty() {
                return None;
            }
            let has_more = is_ready || !self.replies.is_empty();
            // What has been handed on and is not taken counts as well.
            let is_blocked = has_more || tx.capacity() == 0;
            self.blocked_since = is_blocked.then(|| self.blocked_since.unwrap_or(now));
            let cut = self.blocked_since.map(|since| since + self.plane.settings.send_timeout);
            tokio::select! {
                permit = tx.reserve(), if is_blocked => match permit {
                    Ok(permit) => {
                        self.blocked_since = None;
                        if let Some(outgoing) = self.next() {
                            permit.send(Box::new(Ok(outgoing)));
                        }
                    }
                    Err(_) => return None,
                },
                request = requests.next(), if self.replies.len() < MOST_REPLIES && leaves_at.is_none() => match request {
                    // In a box: the task of a stream that says nothing is to be small.
                    Some(Ok(request)) => if let Err(status) = Box::pin(self.hear(request)).await {
                        return Some(status);
                    },
                    // It is reset, or what it sends is larger than anything that makes sense.
                    Some(Err(status)) => return Some(status),
                    None => leaves_at = Some(now + self.plane.settings.send_timeout),
                },
                () = until(leaves_at), if leaves_at.is_some() => return None,
                () = stream.changed.notified() => {}
                () = until(deadline), if deadline.is_some() => self.look_again(),
                () = until(cut), if cut.is_some() => {
                    self.plane.metrics.cut();
                    return Some(status::too_slow(self.plane.settings.send_timeout.as_secs()));
                }
                () = tx.closed() => return None,
            }
        }
    }

    /// The next message, answers first.
    fn next(&mut self) -> Option<Outgoing> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        let now = Instant::now();
        let mut state = self.stream.state.lock();
        let push = state.next(now)?;
        let version = self.plane.version(push.topic.kind);
        state.sent(&push, version, now);
        drop(state);
        let (stream, app, kind) = (self.stream.id, &push.topic.app, push.topic.kind);
        tracing::debug!(stream, %app, ?kind, version, id = push.response_id, "told");
        self.plane.metrics.pushed(kind, push.content.data.len(), now.saturating_duration_since(push.since));
        Some(self.pushed(push, version))
    }

    fn pushed(&self, push: Push, version: i64) -> Outgoing {
        let head = SubscribeResponse {
            status: Some(status::said(SUCCESS, "these are all rules")),
            namespace: push.topic.app.namespace.to_string(),
            app: push.topic.app.name.to_string(),
            kind: push.topic.kind.kind().id(),
            control_plane: Some(self.description()),
            response_id: push.response_id,
            ..SubscribeResponse::default()
        };
        Outgoing { head, data: Some((push.content, version)) }
    }

    fn description(&self) -> ControlPlaneDesc {
        ControlPlaneDesc { identifier: format!("osg-{}", self.plane.settings.identity) }
    }

    /// Gives up on answers, and looks again at what a client took for outdated.
    fn look_again(&mut self) {
        let now = Instant::now();
        let (given_up, again) = {
            let mut state = self.stream.state.lock();
            (state.give_up(now), state.again(now))
        };
        given_up.iter().for_each(|topic| self.plane.delivered(topic));
        again.into_iter().for_each(|topic| self.plane.await_greeting(&self.stream, topic));
    }

    /// Takes up what a client has sent; an error ends the stream.
    async fn hear(&mut self, request: Incoming) -> Result<(), Status> {
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                let text = format!("expected a SubscribeRequest: {error}");
                self.refuse(&SubscribeRequest::default(), "", BAD_REQUEST, text);
                return Ok(());
            }
        };
        match request.response_ack.as_str() {
            ACK | NACK => {
                self.hear_answer(&request);
                Ok(())
            }
            _ => self.hear_request(request).await,
        }
    }

    fn hear_answer(&mut self, request: &SubscribeRequest) {
        let verdict = verdict(request);
        let result = match &verdict {
            Verdict::Accepted => "accepted",
            Verdict::Rejected(_) => "rejected",
            Verdict::Outdated => "outdated",
        };
        let why = match &verdict {
            Verdict::Rejected(why) => Some(why.clone()),
            _ => None,
        };
        let answered = self.stream.state.lock().answered(&request.request_id, verdict, Instant::now());
        let Some(answered) = answered else { return };
        let (stream, app, kind) = (self.stream.id, &answered.topic.app, answered.topic.kind);
        match why {
            Some(why) => tracing::warn!(stream, %app, ?kind, why, "a client rejects its rules"),
            None => tracing::debug!(stream, %app, ?kind, result, "a client has answered"),
        }
        self.plane.metrics.answered(kind, result, Some(answered.took));
        self.plane.delivered(&answered.topic);
    }

    async fn hear_request(&mut self, request: SubscribeRequest) -> Result<(), Status> {
        if !request.identifier.is_empty() && request.identifier.len() <= MOST_ID {
            *self.stream.identifier.lock() = printable(&request.identifier);
        }
        let (app, is_subscribe) = match understood(&request) {
            Ok(understood) => understood,
            Err(text) => {
                self.refuse(&request, "", BAD_REQUEST, text);
                return Ok(());
            }
        };
        let kinds = request.target.as_ref().map_or(&[][..], |target| &target.kinds);
        // Of several topics each has a name of its own, or nobody could tell which one is answered.
        let request_id = if kinds.len() == 1 { request.request_id.as_str() } else { "" };
        for id in kinds {
            let Some(kind) = KindId::find(id) else {
                self.refuse(&request, id, BAD_REQUEST, unknown_kind(id));
                continue;
            };
            let topic = Topic { app: app.clone(), kind };
            match is_subscribe {
                true => self.subscribe(&request, &topic, request_id).await?,
                false => self.plane.unsubscribe(&self.stream, &topic),
            }
        }
        Ok(())
    }

    async fn subscribe(
        &mut self,
        request: &SubscribeRequest,
        topic: &Topic,
        request_id: &str,
    ) -> Result<(), Status> {
        let kind = topic.kind.kind().id();
        let most = self.plane.settings.most_topics;
        let is_too_many = {
            let state = self.stream.state.lock();
            state.topics().len() >= most && !state.topics().contains_key(topic)
        };
        if is_too_many {
            let text = format!("a stream has at most {most} subscriptions: unsubscribe, or open another");
            self.refuse(request, &kind, TOO_MANY, text);
            return Ok(());
        }
        // Without an answer nobody may say no: the client would take that for the end of it.
        if let Some(text) = self.access.refuses(self.identity.as_ref(), topic).await? {
            self.refuse(request, &kind, FORBIDDEN, text);
            return Ok(());
        }
        tracing::debug!(stream = self.stream.id, app = %topic.app, kind, "subscribed");
        self.plane.subscribe(&self.stream, topic, request_id);
        Ok(())
    }

    fn refuse(&mut self, request: &SubscribeRequest, kind: &str, code: i32, text: String) {
        tracing::debug!(stream = self.stream.id, code, text, "a request was refused");
        self.plane.metrics.bad_request();
        let target = request.target.clone().unwrap_or_default();
        let short = |text: String| if text.len() <= MOST_ID { text } else { String::new() };
        let head = SubscribeResponse {
            status: Some(status::said(code, text)),
            ack: NACK.to_owned(),
            namespace: short(target.namespace),
            app: short(target.app),
            kind: short(kind.to_owned()),
            control_plane: Some(self.description()),
            response_id: short(request.request_id.clone()),
            ..SubscribeResponse::default()
        };
        self.replies.push_back(Outgoing { head, data: None });
    }
}

/// What an answer says. Only what is plainly so is taken for accepted: some clients report failures as successes.
fn verdict(request: &SubscribeRequest) -> Verdict {
    let (code, message) = match &request.status {
        Some(status) => (status.code, status.message.as_str()),
        None => (SUCCESS, ""),
    };
    match request.response_ack == ACK {
        _ if code == OUTDATED => Verdict::Outdated,
        true if code == SUCCESS && message.is_empty() => Verdict::Accepted,
        _ if message.is_empty() => Verdict::Rejected(format!("code {code}")),
        _ => Verdict::Rejected(format!("code {code}: {message}")),
    }
}

/// The app that a request is about, and whether it is to be told of it or no longer.
fn understood(request: &SubscribeRequest) -> Result<(App, bool), String> {
    let is_subscribe = match SubscribeOpType::try_from(request.op_type) {
        Ok(SubscribeOpType::Subscribe) => true,
        Ok(SubscribeOpType::Unsubscribe) => false,
        Err(_) => return Err(format!("op_type {}: expected SUBSCRIBE or UNSUBSCRIBE", request.op_type)),
    };
    let Some(target) = &request.target else { return Err("target: expected one".to_owned()) };
    for (field, value) in [("target.namespace", &target.namespace), ("target.app", &target.app)] {
        if !App::is_name(value) {
            return Err(format!("{field}: expected {NAME_OF_APP}"));
        }
    }
    if request.request_id.len() > MOST_ID {
        return Err(format!("request_id: expected at most {MOST_ID} bytes"));
    }
    if target.kinds.is_empty() || target.kinds.len() > MOST_KINDS {
        return Err(format!("target.kinds: expected 1 to {MOST_KINDS} of them"));
    }
    Ok((App::new(&target.namespace, &target.app), is_subscribe))
}

fn unknown_kind(id: &str) -> String {
    let known: Vec<String> = KindId::all().map(|kind| kind.kind().id()).collect();
    let shown: String = printable(id).chars().take(MOST_ID).collect();
    format!("target.kinds: {shown:?} is not among {}", known.join(", "))
}

/// A text that can be shown on a terminal.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|letter| letter.is_ascii_graphic() || (letter.is_alphanumeric() && !letter.is_ascii()))
        .collect()
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
