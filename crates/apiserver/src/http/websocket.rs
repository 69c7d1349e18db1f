//! Watches over WebSocket, as browsers, dashboards and fabric8's client open them.
//!
//! A request asks for it with `Upgrade: websocket`. It is authenticated, allowed and begun as any watch; only then the
//! connection is switched, and each line of the watch is one text message. That is so whatever sub-protocol is agreed
//! on: kube-apiserver gives back the name that a client offers and sends the same text, which is what clients count on
//! that offer `base64.binary.k8s.io`. What the client sends is not listened to, and may not be much. Start at
//! [`Handshake::of`] and [`Switched::run`].

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{Body, guests::Tracked};
use crate::{
    server::failure,
    status::{Outcome, Status},
};

/// Sub-protocols that are known; whoever offers several gets the first of these.
const KNOWN_PROTOCOLS: [&str; 2] = ["base64.binary.k8s.io", "binary.k8s.io"];

/// How a sub-protocol begins that is a bearer token: scripts in browsers cannot set headers.
const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The version of the protocol, which has been the only one for long.
const VERSION: &str = "13";

/// Most bytes of one message of a client. It has nothing to say but pings, of 125 bytes at most.
const MAX_MESSAGE: usize = 16 * 1024;

/// What a client may send in all: so many bytes at once, and so many more each second.
const MAX_RECEIVED: (u64, u64) = (256 * 1024, 16 * 1024);

/// The least that a message takes besides what is in it.
const FRAME_HEAD: u64 = 6;

/// What is read at once. Every connection has a buffer of it, so it is small.
const READ_BUFFER: usize = 4 * 1024;

/// How long a client may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(1);

/// Whether a request asks to go on over a WebSocket.
fn is_asked_for(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE);
    upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && words(headers, header::CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"))
}

/// What is between the commas of all headers of a name.
fn words(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// Puts a bearer token among the sub-protocols where tokens are looked for, and takes it out of what is agreed on. Why
/// that cannot be done, if it cannot. A token in its usual place holds.
pub(crate) fn take_bearer(headers: &mut HeaderMap) -> Result<(), &'static str> {
    let has_bearer =
        words(headers, header::SEC_WEBSOCKET_PROTOCOL).any(|word| word.starts_with(BEARER_PROTOCOL));
    if !has_bearer || !is_asked_for(headers) {
        return Ok(());
    }
    let (bearers, others): (Vec<&str>, Vec<&str>) =
        words(headers, header::SEC_WEBSOCKET_PROTOCOL).partition(|word| word.starts_with(BEARER_PROTOCOL));
    let token = match bearers.as_slice() {
        [one] => URL_SAFE_NO_PAD.decode(&one[BEARER_PROTOCOL.len()..]),
        _ => return Err("multiple base64.bearer.authorization tokens specified"),
    };
    let token = token.map_err(|_| "invalid base64.bearer.authorization token encoding")?;
    let value = HeaderValue::from_bytes(&[b"Bearer ", token.as_slice()].concat());
    let mut value = value.map_err(|_| "invalid base64.bearer.authorization token")?;
    value.set_sensitive(true);
    // One has to be left to be agreed on: browsers hang up otherwise.
    let left = HeaderValue::from_str(&others.join(",")).ok().filter(|left| !left.is_empty());
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, left.ok_or("missing additional subprotocol")?);
    headers.entry(header::AUTHORIZATION).or_insert(value);
    Ok(())
}

/// What is agreed on before a connection is switched.
pub(crate) struct Handshake {
    key: HeaderValue,
    protocol: Option<HeaderValue>,
}

impl Handshake {
    /// What a request asks for; nothing if it does not ask for a WebSocket.
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Outcome<Option<Self>> {
        if *method != Method::GET || !is_asked_for(headers) {
            return Ok(None);
        }
        if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
            return Err(Status::bad_request("missing or bad WebSocket Version"));
        }
        let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| Status::bad_request("mismatch challenge/response"))?.clone();
        let offered: Vec<&str> = words(headers, header::SEC_WEBSOCKET_PROTOCOL).collect();
        let chosen = match offered.as_slice() {
            [] | [_] => offered.first(),
            several => {
                let known = several.iter().find(|name| KNOWN_PROTOCOLS.contains(name));
                Some(known.ok_or_else(|| Status::bad_request("bad protocol"))?)
            }
        };
        let protocol = chosen.map(|name| HeaderValue::from_str(name)).transpose();
        Ok(Some(Handshake { key, protocol: protocol.map_err(|_| Status::bad_request("bad protocol"))? }))
    }

    /// The answer that switches, with what is to be sent then.
    pub(crate) fn accept(self, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(self.key.as_bytes())) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Some(protocol) = self.protocol {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }
}

/// A watch whose connection is being switched.
pub(super) struct Switched {
    pub(super) upgrade: OnUpgrade,
    /// The lines of the watch. While one of them is being sent no other is asked for, so that a client that does not
    /// read is noticed as with any body.
    pub(super) body: Tracked,
}

/// The messages of a connection.
type Socket = WebSocketStream<TokioIo<Upgraded>>;

impl Switched {
    /// Sends the watch to its end, or until the client has enough.
    pub(super) async fn run(self) {
        let Switched { upgrade, mut body } = self;
        let Ok(upgraded) = upgrade.await else { return };
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let io = TokioIo::new(upgraded);
        let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let code = exchange(&mut socket, &mut body).await;
        drop(body);
        let Some(code) = code else { return };
        let goodbye = CloseFrame { code, reason: Utf8Bytes::default() };
        let farewell = async {
            if socket.close(Some(goodbye)).await.is_ok() {
                // Closing with something unread would take back what was sent.
                while let Some(Ok(_)) = socket.next().await {}
            }
        };
        let _ = timeout(FAREWELL, farewell).await;
    }
}

/// Sends lines and reads what comes; how to say goodbye, if the other side has not gone.
async fn exchange(socket: &mut Socket, body: &mut Tracked) -> Option<CloseCode> {
    let begun = Instant::now();
    let mut n_received = 0_u64;
    loop {
        tokio::select! {
            frame = body.frame() => {
                let Some(Ok(frame)) = frame else { return Some(CloseCode::Normal) };
                let Ok(lines) = frame.into_data() else { continue };
                if send(socket, lines).await.is_err() {
                    return None;
                }
            }
            message = socket.next() => {
                n_received += match message? {
                    // Pings and closes are answered where they are read.
                    Ok(message) => message.len() as u64 + FRAME_HEAD,
                    Err(Error::Capacity(_)) => return Some(CloseCode::Size),
                    Err(Error::Protocol(_) | Error::Utf8(_)) => return Some(CloseCode::Protocol),
                    Err(_) => return None,
                };
                if n_received > MAX_RECEIVED.0 + MAX_RECEIVED.1 * begun.elapsed().as_secs() {
                    return Some(CloseCode::Policy);
                }
            }
        }
    }
}

/// Sends each line as a message.
async fn send(socket: &mut Socket, mut lines: Bytes) -> Result<(), Error> {
    while let Some(end) = memchr::memchr(b'\n', &lines) {
        let line = Utf8Bytes::try_from(lines.split_to(end + 1)).expect("JSON is UTF-8");
        socket.feed(Message::Text(line)).await?;
    }
    socket.flush().await
}

/// The answer to a handshake that is no good, with the version that is spoken.
pub(crate) fn refuse(status: &Status) -> Response<Body> {
    let mut response = failure(status);
    response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
    response
}
