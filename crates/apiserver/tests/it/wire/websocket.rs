//! Watches over WebSocket: the handshake, the messages, and what holds for them as for any watch.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, Response};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use windlass_apiserver::{Config, audit::Mode};

use super::{TOKEN, Wire, token_file};
use crate::{
    auditing,
    client::{CONFIG_MAPS, DEADLINE, names},
};

const BEARER: &str = "base64url.bearer.authorization.k8s.io.";

/// A watch over a WebSocket.
struct Socket {
    stream: WebSocketStream<TcpStream>,
    headers: HeaderMap,
}

impl Wire {
    /// Opens one, or tells the answer.
    async fn try_socket(
        &self,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Socket, Response<Vec<u8>>> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request().expect("a request");
        for (name, value) in headers {
            request.headers_mut().append(*name, value.parse().expect("a value"));
        }
        match client_async(request, self.connect().await).await {
            Ok((stream, response)) => Ok(Socket { stream, headers: response.headers().clone() }),
            Err(Error::Http(response)) => Err(response.map(Option::unwrap_or_default)),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    async fn socket(&self, path: &str) -> Socket {
        let bearer = format!("Bearer {TOKEN}");
        let opened = self.try_socket(path, &[("authorization", &bearer)]).await;
        opened.unwrap_or_else(|response| panic!("{path}: {response:?}"))
    }
}

impl Socket {
    async fn message(&mut self) -> Option<Message> {
        let next = tokio::time::timeout(DEADLINE, self.stream.next()).await.expect("something happens");
        next.and_then(Result::ok)
    }

    /// The next event.
    async fn event(&mut self) -> Value {
        match self.message().await {
            Some(Message::Text(text)) => {
                assert!(text.ends_with('\n'), "a line: {text}");
                serde_json::from_str(&text).expect("an event is one message")
            }
            other => panic!("no event but {other:?}"),
        }
    }

    /// The type and the name of the next event.
    async fn step(&mut self) -> (String, String) {
        let event = self.event().await;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (word(&event["type"]), word(&event["object"]["metadata"]["name"]))
    }

    /// How the server says goodbye.
    async fn goodbye(&mut self) -> CloseCode {
        loop {
            match self.message().await {
                Some(Message::Close(Some(CloseFrame { code, .. }))) => return code,
                Some(Message::Text(_)) => {}
                other => panic!("no goodbye but {other:?}"),
            }
        }
    }
}

fn step(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_of_a_watch_is_a_text_message() {
    let wire = Wire::start().await;
    for name in ["a", "b"] {
        wire.client.config_map(name, json!({"k": "line\nline"})).await;
    }
    let mut socket = wire.socket(&format!("{CONFIG_MAPS}?watch=true")).await;
    assert_eq!([socket.step().await, socket.step().await], [step("ADDED", "a"), step("ADDED", "b")]);
    wire.client.config_map("c", json!({"k": "v".repeat(300_000)})).await;
    assert_eq!(socket.step().await, step("ADDED", "c"), "however large it is");
    wire.client.delete(&format!("{CONFIG_MAPS}/a"), Value::Null).await.ok();
    assert_eq!(socket.step().await, step("DELETED", "a"));
    let list = wire.client.get(CONFIG_MAPS).await.ok();
    assert_eq!(names(&list), ["b", "c"]);
    let revision = list["metadata"]["resourceVersion"].as_str().expect("a revision");
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={revision}&timeoutSeconds=1");
    assert_eq!(wire.socket(&path).await.goodbye().await, CloseCode::Normal, "it ends when its time is over");
    let old = wire.socket("/api/v1/watch/namespaces/default/configmaps").await;
    assert_eq!(old.headers["content-type"], "application/json", "the old form of a watch is one, too");
}

/// What kube-apiserver does: it gives back what is offered, and sends the same text whatever that is. Where several are
/// offered it gives up; here the first is taken that is known.
#[tokio::test(flavor = "multi_thread")]
async fn a_subprotocol_is_agreed_on() {
    let wire = Wire::start().await;
    wire.client.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}?watch=true");
    let bearer = format!("Bearer {TOKEN}");
    for (offered, agreed) in [
        ("base64.binary.k8s.io", Some("base64.binary.k8s.io")),
        ("binary.k8s.io", Some("binary.k8s.io")),
        ("something.else", Some("something.else")),
        ("something.else, binary.k8s.io,base64.binary.k8s.io", Some("binary.k8s.io")),
        ("something.else, other", None),
    ] {
        let headers = [("authorization", bearer.as_str()), ("sec-websocket-protocol", offered)];
        match (wire.try_socket(&path, &headers).await, agreed) {
            (Ok(mut socket), Some(agreed)) => {
                assert_eq!(socket.headers["sec-websocket-protocol"], agreed);
                assert_eq!(socket.step().await, step("ADDED", "a"), "{offered}");
            }
            (Err(response), None) => assert_eq!(response.status(), 400, "{offered}"),
            (Ok(_), None) => panic!("{offered} is agreed on"),
            (Err(response), _) => panic!("{offered}: {response:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_show_their_token_among_the_subprotocols() {
    let wire = Wire::start().await;
    let path = format!("{CONFIG_MAPS}?watch=true");
    let encode = |token: &str| format!("{BEARER}{}", URL_SAFE_NO_PAD.encode(token));
    let good = encode(TOKEN);
    for (offered, code) in [
        (format!("{good}, base64.binary.k8s.io"), 101),
        (format!("binary.k8s.io,{good}"), 101),
        (good.clone(), 401),
        (format!("{good}, {good}, binary.k8s.io"), 401),
        (format!("{BEARER}???, binary.k8s.io"), 401),
        (format!("{BEARER}{}, binary.k8s.io", URL_SAFE_NO_PAD.encode([0xff, 0, 10])), 401),
        (format!("{}, binary.k8s.io", encode("nobody knows this")), 401),
        (format!("{}, binary.k8s.io", encode("a\r\nImpersonate-User: b")), 401),
        ("binary.k8s.io".to_owned(), 403),
    ] {
        match wire.try_socket(&path, &[("sec-websocket-protocol", &offered)]).await {
            Ok(socket) => {
                assert_eq!(code, 101, "{offered}");
                let agreed = socket.headers["sec-websocket-protocol"].to_str().expect("text");
                assert!(!agreed.contains("bearer"), "a token is not sent back: {agreed}");
            }
            Err(response) => assert_eq!(response.status(), code, "{offered}"),
        }
    }
    // Only where a WebSocket is asked for.
    let offered = format!("{good}, binary.k8s.io");
    let plain = wire.client.anonymous();
    let answer = plain.send("GET", CONFIG_MAPS, &[("sec-websocket-protocol", &offered)], "").await;
    answer.refused(403, "Forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_is_no_good_is_refused() {
    let wire = Wire::start().await;
    let watch = format!("{CONFIG_MAPS}?watch=true");
    for (path, version, code) in [
        (watch.clone(), "13", 101),
        (watch.clone(), "8", 400),
        (format!("{watch}&resourceVersion=x"), "13", 422),
        ("/api/v1/namespaces/default/nothings?watch=true".to_owned(), "13", 404),
        // Whoever does not watch is answered as ever.
        ("/api/v1/namespaces/default".to_owned(), "13", 200),
    ] {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = wire.connect().await;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nConnection: keep-alive, Upgrade\r\n\
             Upgrade: WebSocket\r\nSec-WebSocket-Version: {version}\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("it reads");
        let mut answer = vec![0; 4096];
        let n = tokio::time::timeout(DEADLINE, stream.read(&mut answer))
            .await
            .expect("an answer")
            .expect("bytes");
        let answer = String::from_utf8_lossy(&answer[..n]).to_lowercase();
        assert!(answer.starts_with(&format!("http/1.1 {code} ")), "{path} {version}: {answer}");
        if code == 400 {
            assert!(answer.contains("sec-websocket-version: 13"), "{answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_are_answered_and_a_close_ends_the_watch() {
    let wire = Wire::start().await;
    let mut socket = wire.socket(&format!("{CONFIG_MAPS}?watch=true")).await;
    assert_eq!(wire.n_watches().await, 1);
    socket.stream.send(Message::Ping("hello".into())).await.expect("it reads");
    assert_eq!(socket.message().await, Some(Message::Pong("hello".into())));
    socket.stream.send(Message::Text("nobody listens to this".into())).await.expect("it reads");
    socket.stream.close(None).await.expect("it reads");
    assert!(matches!(socket.message().await, Some(Message::Close(_))));
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while wire.n_watches().await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the watch goes on");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_not_send_much() {
    let wire = Wire::start().await;
    let path = format!("{CONFIG_MAPS}?watch=true");
    for (n_bytes, code) in [(64 * 1024, CloseCode::Size), (1024, CloseCode::Policy)] {
        let mut socket = wire.socket(&path).await;
        let message = Message::Binary(vec![7; n_bytes].into());
        for _ in 0..1000 {
            // It may have hung up already.
            if socket.stream.send(message.clone()).await.is_err() {
                break;
            }
        }
        assert_eq!(socket.goodbye().await, code, "{n_bytes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_over_websocket_ends_with_the_right_to_it() {
    let wire = Wire::start().await;
    let mut socket = wire.socket(&format!("{CONFIG_MAPS}?watch=true")).await;
    wire.tokens.store(token_file("another,joe,8").load_full());
    let event = socket.event().await;
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(401)), "{event}");
    assert_eq!(socket.goodbye().await, CloseCode::Normal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_says_goodbye() {
    let mut wire = Wire::start().await;
    wire.client.config_map("a", json!({})).await;
    let mut socket = wire.socket(&format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true")).await;
    assert_eq!(socket.step().await, step("ADDED", "a"));
    let (code, ()) = tokio::join!(socket.goodbye(), wire.stop());
    assert_eq!(code, CloseCode::Normal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_over_websocket_is_written_down_from_its_beginning_to_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    let audit = auditing::open(path.clone(), auditing::METADATA, Mode::Blocking);
    let mut wire = Wire::with(Config { audit: Some(Arc::clone(&audit)), ..Config::default() }).await;
    let offered = format!("{BEARER}{}, binary.k8s.io", URL_SAFE_NO_PAD.encode(TOKEN));
    let watch = format!("{CONFIG_MAPS}?watch=true");
    let socket = wire.try_socket(&watch, &[("sec-websocket-protocol", &offered)]).await;
    let mut socket = socket.unwrap_or_else(|response| panic!("{response:?}"));
    tokio::join!(socket.goodbye(), wire.stop());
    audit.close().await;
    let log = std::fs::read_to_string(path).expect("a log");
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(auditing::steps(&events), ["ResponseStarted watch 101", "ResponseComplete watch 101"]);
    assert_eq!(events[0]["user"]["username"], "admin");
    assert!(!log.contains(&URL_SAFE_NO_PAD.encode(TOKEN)), "{log}");
}
