//! A client that behaves as the SDKs do.

use std::{collections::HashMap, fmt, net::SocketAddr, time::Duration};

use bytes::BufMut;
use http::uri::PathAndQuery;
use prost::{Message, Name};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint},
};
use windlass_opensergo::{
    proto::{
        fault_tolerance::v1::RateLimitStrategy,
        transport::v1::{self, SubscribeOpType, SubscribeRequest, SubscribeRequestTarget, SubscribeResponse},
    },
    topic::KindId,
};

/// How long a test waits for something that should happen at once.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// How long nothing has to happen for it to be taken for certain that it will not. More than any debounce of these tests.
pub(crate) const QUIET: Duration = Duration::from_millis(250);

/// The path that is compiled into SDKs.
const PATH: &str = "/io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService/SubscribeConfig";

/// What a client may have in its buffers: less than a large message.
const WINDOW: u32 = 65_535;

/// The name that clients know a kind by.
pub(crate) fn id(kind: &str) -> String {
    let found = KindId::all().find(|id| id.kind().kind == kind);
    found.unwrap_or_else(|| panic!("no kind {kind}")).kind().id()
}

/// A connection. Whatever is not read of it stays at the server.
pub(crate) async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .expect("an address")
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .connect()
        .await
        .expect("somebody listens")
}

/// A request of the kind that both SDKs send.
pub(crate) fn request(namespace: &str, app: &str, kinds: &[&str]) -> SubscribeRequest {
    SubscribeRequest {
        target: Some(SubscribeRequestTarget {
            namespace: namespace.to_owned(),
            app: app.to_owned(),
            labels: vec![],
            kinds: kinds.iter().map(|kind| id(kind)).collect(),
        }),
        op_type: SubscribeOpType::Subscribe.into(),
        ..SubscribeRequest::default()
    }
}

/// An answer to a push.
pub(crate) fn answer(flag: &str, code: i32, message: &str, request_id: &str) -> SubscribeRequest {
    SubscribeRequest {
        status: Some(v1::Status { code, message: message.to_owned(), details: vec![] }),
        response_ack: flag.to_owned(),
        request_id: request_id.to_owned(),
        ..SubscribeRequest::default()
    }
}

/// Sends bytes, which need not be a message.
struct Bare;

impl Codec for Bare {
    type Encode = Vec<u8>;
    type Decode = SubscribeResponse;
    type Encoder = Bare;
    type Decoder = Bare;

    fn encoder(&mut self) -> Bare {
        Bare
    }

    fn decoder(&mut self) -> Bare {
        Bare
    }
}

impl Encoder for Bare {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bare {
    type Item = SubscribeResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<SubscribeResponse>, Status> {
        SubscribeResponse::decode(buffer).map(Some).map_err(|error| Status::data_loss(error.to_string()))
    }
}

/// One stream.
pub(crate) struct Sdk {
    requests: mpsc::Sender<Vec<u8>>,
    responses: Streaming<SubscribeResponse>,
    /// The newest version of each topic, which outlives streams.
    pub(crate) versions: HashMap<(String, String, String), i64>,
}

impl fmt::Debug for Sdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sdk").finish_non_exhaustive()
    }
}

impl Sdk {
    /// Opens a stream on a connection of its own.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::on(channel(address).await, None).await.expect("a stream")
    }

    /// Opens a stream, perhaps with a token.
    pub(crate) async fn on(channel: Channel, token: Option<&str>) -> Result<Self, Status> {
        let (requests, rx) = mpsc::channel(64);
        let mut request = tonic::Request::new(ReceiverStream::new(rx));
        if let Some(token) = token {
            let bearer = format!("Bearer {token}").parse().expect("letters");
            request.metadata_mut().insert("authorization", bearer);
        }
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.expect("a connection");
        let responses = grpc.streaming(request, PathAndQuery::from_static(PATH), Bare).await?.into_inner();
        Ok(Sdk { requests, responses, versions: HashMap::new() })
    }

    /// What it knows from before.
    pub(crate) fn knowing(self, versions: HashMap<(String, String, String), i64>) -> Self {
        Sdk { versions, ..self }
    }

    /// Moves to another stream, with all that it knows.
    pub(crate) async fn move_to(&mut self, address: SocketAddr) {
        let versions = std::mem::take(&mut self.versions);
        *self = Sdk::connect(address).await.knowing(versions);
    }

    /// Sends a request or an answer.
    pub(crate) async fn send(&self, request: SubscribeRequest) {
        self.send_bytes(request.encode_to_vec()).await;
    }

    /// Sends whatever it is.
    pub(crate) async fn send_bytes(&self, bytes: Vec<u8>) {
        timeout(DEADLINE, self.requests.send(bytes)).await.expect("in time").expect("the stream is open");
    }

    /// Sends whatever it is; says whether that could be done.
    pub(crate) async fn try_send(&self, bytes: Vec<u8>) -> bool {
        timeout(DEADLINE, self.requests.send(bytes)).await.is_ok_and(|sent| sent.is_ok())
    }

    /// Subscribes as the Go SDK does.
    pub(crate) async fn subscribe(&self, app: &str, kinds: &[&str]) {
        self.send(request("default", app, kinds)).await;
    }

    /// Unsubscribes as both do.
    pub(crate) async fn unsubscribe(&self, app: &str, kinds: &[&str]) {
        let op_type = SubscribeOpType::Unsubscribe.into();
        self.send(SubscribeRequest { op_type, ..request("default", app, kinds) }).await;
    }

    /// Has nothing more to say, as the Java SDK when it is closed.
    pub(crate) fn half_close(&mut self) {
        self.requests = mpsc::channel(1).0;
    }

    /// The next message, whatever it is.
    pub(crate) async fn response(&mut self) -> Result<Option<SubscribeResponse>, Status> {
        timeout(DEADLINE, self.responses.message()).await.expect("a message in time")
    }

    /// The next message, however long that takes.
    pub(crate) async fn any_response(&mut self) -> Result<Option<SubscribeResponse>, Status> {
        self.responses.message().await
    }

    /// The next message, which is a refusal: its code, and all of it.
    pub(crate) async fn refusal(&mut self) -> (i32, SubscribeResponse) {
        let response = self.response().await.expect("the stream goes on").expect("a message");
        assert_eq!(response.ack, "NACK", "{response:?}");
        assert!(response.data_with_version.is_none(), "{response:?}");
        let code = response.status.as_ref().expect("a status").code;
        assert!((4000..4100).contains(&code), "SDKs do not swallow {response:?}");
        (code, response)
    }

    /// The next message, which is a push, and may be an old one. It is not answered.
    pub(crate) async fn any_push(&mut self) -> Push {
        Push::of(self.response().await.expect("the stream goes on").expect("a message"))
    }

    /// The next message, which is a push no older than what was pushed before. It is not answered.
    pub(crate) async fn push(&mut self) -> Push {
        let push = self.any_push().await;
        let topic = (push.response.namespace.clone(), push.response.app.clone(), push.response.kind.clone());
        let newest = self.versions.entry(topic).or_default();
        assert!(*newest <= push.version, "version {} after {newest}: {push:?}", push.version);
        *newest = push.version;
        push
    }

    /// The next push, accepted.
    pub(crate) async fn accept(&mut self) -> Push {
        let push = self.push().await;
        self.ack(&push).await;
        push
    }

    /// Pushes, accepted, until there is one like this.
    pub(crate) async fn accept_until(&mut self, is_it: impl Fn(&Push) -> bool) -> Push {
        loop {
            let push = self.accept().await;
            if is_it(&push) {
                return push;
            }
        }
    }

    /// Accepts as both SDKs do.
    pub(crate) async fn ack(&self, push: &Push) {
        self.send(answer("ACK", 1, "", &push.response.response_id)).await;
    }

    /// Rejects as the Go SDK does when it cannot decode: with an ACK.
    pub(crate) async fn reject_as_go(&self, push: &Push) {
        self.send(answer("ACK", 4007, "cannot decode", &push.response.response_id)).await;
    }

    /// Rejects as the Java SDK does: without saying what.
    pub(crate) async fn reject_as_java(&self) {
        self.send(answer("NACK", 4000, "an exception", "")).await;
    }

    /// For a while there is nothing to read.
    pub(crate) async fn hears_nothing(&mut self) {
        if let Ok(heard) = timeout(QUIET, self.responses.message()).await {
            panic!("expected nothing, but heard {heard:?}");
        }
    }

    /// Whatever still comes, until the stream ends; how it ended.
    pub(crate) async fn end(&mut self) -> Result<(), Status> {
        while self.response().await?.is_some() {}
        Ok(())
    }
}

/// A message with data in it.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    /// The version.
    pub(crate) version: i64,
    /// All of it.
    pub(crate) response: SubscribeResponse,
}

impl Push {
    /// Everything that SDKs expect of a push is there.
    fn of(response: SubscribeResponse) -> Self {
        assert_eq!(response.ack, "", "{response:?}");
        let data = response.data_with_version.as_ref();
        let data = data.unwrap_or_else(|| panic!("Go would take this for an error: {response:?}"));
        assert_eq!(response.status.as_ref().map(|status| status.code), Some(1), "{response:?}");
        assert!(!response.response_id.is_empty(), "its answer could not be told from others: {response:?}");
        let from = response.control_plane.as_ref().expect("who tells").identifier.as_str();
        assert!(from.starts_with("osg-"), "{from}");
        let types: Vec<_> = data.data.iter().map(|one| &one.type_url).collect();
        assert!(types.windows(2).all(|two| two[0] == two[1]), "of several types: {types:?}");
        Push { version: data.version, response }
    }

    /// The kind, without its group.
    pub(crate) fn kind(&self) -> &str {
        self.response.kind.rsplit('/').next().unwrap_or_default()
    }

    /// How many rules there are.
    pub(crate) fn len(&self) -> usize {
        self.response.data_with_version.as_ref().map_or(0, |data| data.data.len())
    }

    /// The rules.
    pub(crate) fn rules<M: Name + Default>(&self) -> Vec<M> {
        let data = self.response.data_with_version.iter().flat_map(|data| &data.data);
        data.map(|one| {
            assert_eq!(one.type_url, format!("type.googleapis.com/{}", M::full_name()));
            M::decode(&*one.value).expect("what it says it is")
        })
        .collect()
    }

    /// The names and thresholds of rate limits.
    pub(crate) fn limits(&self) -> Vec<(String, i64)> {
        let rules = self.rules::<RateLimitStrategy>().into_iter();
        rules.map(|rule| (rule.name, rule.threshold)).collect()
    }

    /// Whether these are the rate limits.
    pub(crate) fn is(&self, limits: &[(&str, i64)]) -> bool {
        self.limits().iter().map(|(name, threshold)| (name.as_str(), *threshold)).eq(limits.iter().copied())
    }
}
