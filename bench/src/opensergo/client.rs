//! Clients that speak the protocol, as light as they can be: many fit into one process.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::future::poll_fn;
use h2::{RecvStream, SendStream, client::SendRequest};
use http::Request;
use parking_lot::Mutex;
use prost::Message;
use tokio::{
    net::TcpStream,
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::sleep,
};
use windlass_opensergo::proto::{
    fault_tolerance::v1::RateLimitStrategy,
    transport::v1::{Status, SubscribeRequest, SubscribeRequestTarget, SubscribeResponse},
};

use super::rules::{KIND, NAMESPACE};

const PATH: &str = "/io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService/SubscribeConfig";

/// How many connect at once.
const CONNECTING: usize = 128;

/// How long to wait before connecting again, at least; at most it is twice that.
const AGAIN: Duration = Duration::from_millis(50);

/// What a client was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// Which client.
    pub(crate) client: usize,
    /// When.
    pub(crate) at: Instant,
    /// As which version.
    pub(crate) version: i64,
    /// The number in the rule; nothing where there is no rule.
    pub(crate) number: Option<i64>,
}

/// Clients, which are gone when this is dropped.
pub(crate) struct Clients {
    tasks: JoinSet<()>,
    pub(crate) told: mpsc::UnboundedReceiver<Told>,
    tx: mpsc::UnboundedSender<Told>,
    slots: Arc<Semaphore>,
    n_clients: usize,
    /// Why the first client that was lost was.
    lost: Arc<Mutex<Option<String>>>,
}

impl Clients {
    pub(crate) fn new() -> Self {
        let (tx, told) = mpsc::unbounded_channel();
        Clients {
            tasks: JoinSet::new(),
            told,
            tx,
            slots: Arc::new(Semaphore::new(CONNECTING)),
            n_clients: 0,
            lost: Arc::default(),
        }
    }

    /// A connection with a stream for each app. One that is lost is made again if that is wanted.
    pub(crate) fn connect(&mut self, address: SocketAddr, apps: Vec<String>, again: bool) {
        let (tx, slots, lost) = (self.tx.clone(), Arc::clone(&self.slots), Arc::clone(&self.lost));
        let first = self.n_clients;
        self.n_clients += apps.len();
        self.tasks.spawn(async move {
            loop {
                let ended = converse(address, &apps, first, &tx, &slots).await;
                if !again {
                    if let Err(error) = ended {
                        lost.lock().get_or_insert(format!("{error:#}"));
                    }
                    return;
                }
                sleep(AGAIN.mul_f64(1.0 + fastrand::f64())).await;
            }
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.n_clients
    }

    /// The next that somebody is told.
    pub(crate) async fn next(&mut self, within: Duration) -> anyhow::Result<Told> {
        let next = tokio::time::timeout(within, self.told.recv()).await;
        next.with_context(|| format!("nobody is told anything any more; lost: {:?}", self.lost.lock()))?
            .context("there are no clients")
    }

    /// Waits until everyone has been told something that is wanted; returns when each was.
    pub(crate) async fn all(
        &mut self,
        within: Duration,
        mut wanted: impl FnMut(&Told) -> bool,
    ) -> anyhow::Result<Vec<Instant>> {
        let mut when = vec![None; self.n_clients];
        let mut n_left = self.n_clients;
        while n_left > 0 {
            let told = self.next(within).await.with_context(|| format!("{n_left} are left"))?;
            if wanted(&told) && when[told.client].is_none() {
                when[told.client] = Some(told.at);
                n_left -= 1;
            }
        }
        Ok(when.into_iter().flatten().collect())
    }
}

async fn converse(
    address: SocketAddr,
    apps: &[String],
    first: usize,
    tx: &mpsc::UnboundedSender<Told>,
    slots: &Semaphore,
) -> anyhow::Result<()> {
    let slot = slots.acquire().await?;
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(64 * 1024).initial_connection_window_size(64 * 1024);
    let (sender, connection) = builder.handshake::<_, Bytes>(socket).await?;
    drop(slot);
    let mut streams = JoinSet::new();
    for (idx, app) in apps.iter().enumerate() {
        streams.spawn(subscribe(sender.clone(), app.clone(), first + idx, tx.clone()));
    }
    drop(sender);
    tokio::select! {
        ended = connection => ended?,
        ended = streams.join_next() => ended.context("there are streams")???,
    }
    Ok(())
}

async fn subscribe(
    sender: SendRequest<Bytes>,
    app: String,
    client: usize,
    tx: mpsc::UnboundedSender<Told>,
) -> anyhow::Result<()> {
    let request = Request::post(format!("http://opensergo{PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let (response, mut requests) = sender.ready().await?.send_request(request, false)?;
    let target = SubscribeRequestTarget {
        namespace: NAMESPACE.to_owned(),
        app,
        kinds: vec![KIND.to_owned()],
        ..SubscribeRequestTarget::default()
    };
    send(&mut requests, &SubscribeRequest { target: Some(target), ..SubscribeRequest::default() })?;
    let mut responses = response.await?.into_body();
    let mut buffer = BytesMut::new();
    while let Some(message) = message(&mut responses, &mut buffer).await? {
        let data = message.data_with_version.unwrap_or_default();
        let number = data.data.first().map(|rule| RateLimitStrategy::decode(&*rule.value)).transpose()?;
        let told = Told {
            client,
            at: Instant::now(),
            version: data.version,
            number: number.map(|rule| rule.threshold),
        };
        let _ = tx.send(told);
        let answer = SubscribeRequest {
            response_ack: "ACK".to_owned(),
            request_id: message.response_id,
            status: Some(Status { code: 1, ..Status::default() }),
            ..SubscribeRequest::default()
        };
        send(&mut requests, &answer)?;
    }
    bail!("the stream has ended")
}

fn send(stream: &mut SendStream<Bytes>, message: &SubscribeRequest) -> anyhow::Result<()> {
    let mut bytes = BytesMut::with_capacity(5 + message.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len() as u32);
    message.encode(&mut bytes)?;
    Ok(stream.send_data(bytes.freeze(), false)?)
}

/// The next message, which may come in pieces.
async fn message(
    stream: &mut RecvStream,
    buffer: &mut BytesMut,
) -> anyhow::Result<Option<SubscribeResponse>> {
    loop {
        if buffer.len() >= 5 {
            let len = u32::from_be_bytes([buffer[1], buffer[2], buffer[3], buffer[4]]) as usize;
            if buffer.len() >= 5 + len {
                buffer.advance(5);
                return Ok(Some(SubscribeResponse::decode(buffer.split_to(len))?));
            }
        }
        let Some(data) = poll_fn(|context| stream.poll_data(context)).await else { return Ok(None) };
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        buffer.extend_from_slice(&data);
    }
}
