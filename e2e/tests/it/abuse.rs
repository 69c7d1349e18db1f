//! Clients that are slow on purpose, and those that misuse HTTP/2: the server goes on serving others, does not grow, and
//! cuts them off within ten seconds. Who is only slow is served.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};
use tokio_rustls::client::TlsStream;
use windlass_e2e::{Raw, Server};

use self::wire::{
    As, CONTINUATION, DATA, Dialer, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, field, frame, request, until_cut,
};

mod curl;
mod wire;

/// Ten seconds, and some for a machine that runs other tests as well.
const WITHIN: Duration = Duration::from_secs(13);

/// When a test stops waiting for a connection to be cut.
const GIVEN_UP: Duration = Duration::from_secs(25);

/// How long anyone else may wait for an answer meanwhile. Half of it is what an unoptimised server needs.
const PATIENCE: Duration = Duration::from_secs(4);

/// Memory that one connection may cost, in KiB.
const PER_CONNECTION: u64 = 64;

/// What the server may grow by while HTTP/2 is misused, in KiB. Its allocator keeps some of what it was given back.
const MISUSED: u64 = 64 * 1024;

/// How many connections this process and the server may have, up to ten thousand, leaving some for everything else.
fn n_connections() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let had =
        getrlimit(Resource::Nofile).current.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    had.saturating_sub(600).min(10_000)
}

/// Someone who behaves, all the time; the longest they had to wait.
struct Healthy {
    is_over: Arc<AtomicBool>,
    asking: tokio::task::JoinHandle<Duration>,
}

impl Healthy {
    /// Asks over connections of their own, a new one each time.
    fn new(dialer: Dialer) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let asking = tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let mut stream = dialer.tls(As::Admin, "http/1.1").await;
                stream.write_all(b"GET /api/v1/namespaces/default HTTP/1.0\r\n\r\n").await.expect("it reads");
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer).await;
                assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
                longest = longest.max(begun.elapsed());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            longest
        });
        Healthy { is_over, asking }
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let longest = self.asking.await.expect("every request was answered");
        assert!(longest < PATIENCE, "someone who behaves had to wait {longest:?}");
    }
}

/// A server without controllers, whose memory and sockets are those of its clients.
fn alone() -> Server {
    Server::start_with(&["--without", "housekeeping,hub"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_half_open_connections_keep_nobody_out() {
    let server = alone();
    let dialer = Dialer::of(&server);
    let n = n_connections();
    let (before, n_before) = (server.memory(), server.n_sockets());
    let healthy = Healthy::new(dialer.clone());
    let mut connections = JoinSet::new();
    for idx in 0..n {
        let dialer = dialer.clone();
        if idx % 100 == 0 {
            // The queue of connections that nobody has taken yet is short.
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        connections.spawn(async move { half_open(dialer.tcp().await, idx).await });
    }
    let mut most = 0;
    let mut slowest = Duration::ZERO;
    let mut n_cut = 0;
    while let Some(cut) = connections.join_next().await {
        if n_cut % 64 == 0 {
            most = most.max(server.memory());
        }
        if let Some(took) = cut.expect("no panic") {
            (n_cut, slowest) = (n_cut + 1, slowest.max(took));
        }
    }
    healthy.end().await;
    // Where that queue was full after all, a client believes in a connection that the server has never seen.
    assert!(n_cut >= n - n / 100, "{n_cut} of {n} were cut off");
    assert!(server.n_sockets() <= n_before + 2, "{} sockets, and {n_before} before", server.n_sockets());
    assert!(slowest < WITHIN, "one of {n} was cut off after {slowest:?}");
    let grown = most.saturating_sub(before);
    assert!(grown < n as u64 * PER_CONNECTION, "{n} connections cost {grown} KiB");
}

/// Says nothing, or a little, or a byte now and then, of what would begin a handshake; how long that was put up with.
async fn half_open(mut stream: TcpStream, idx: usize) -> Option<Duration> {
    const HELLO: [u8; 9] = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc];
    let begun = Instant::now();
    let (n_at_once, n_later) = [(0, 0), (3, 0), (9, 0), (0, 9)][idx % 4];
    let ended = async {
        let _ = stream.write_all(&HELLO[..n_at_once]).await;
        let (mut reader, mut writer) = stream.split();
        let trickle = async {
            for byte in &HELLO[..n_later] {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let _ = writer.write_all(&[*byte]).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = trickle => {}
            _ = async { while matches!(reader.read(&mut [0; 64]).await, Ok(1..)) {} } => {}
        }
    };
    tokio::time::timeout(GIVEN_UP, ended).await.ok().map(|()| begun.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_heads_and_bodies_are_cut_off() {
    let server = alone();
    let dialer = Dialer::of(&server);
    let healthy = Healthy::new(dialer.clone());
    let mut attacks = JoinSet::new();
    for (what, who, beginning) in [
        ("nothing after the handshake", As::Nobody, ""),
        ("the first letter", As::Nobody, "G"),
        ("a head that does not end", As::Nobody, "GET / HTTP/1.1\r\nx: "),
        ("a head that does not end", As::Admin, "GET / HTTP/1.1\r\nx: "),
        ("a connection that is kept", As::Nobody, "GET /version HTTP/1.1\r\nhost: a\r\n\r\n"),
        (
            "a body that does not come",
            As::Nobody,
            "POST /api/v1/namespaces HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n",
        ),
        (
            "a body that trickles in",
            As::Admin,
            "POST /api/v1/namespaces HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n",
        ),
    ] {
        let dialer = dialer.clone();
        attacks.spawn(async move {
            let mut stream = dialer.tls(who, "http/1.1").await;
            stream.write_all(beginning.as_bytes()).await.expect("it reads");
            let is_silent = beginning.len() < 2 || beginning.contains("/version");
            let next = move || if is_silent { vec![] } else { b"x".to_vec() };
            (what, who, until_cut(stream, Duration::from_secs(1), next).await)
        });
    }
    while let Some(ended) = attacks.join_next().await {
        let (what, who, cut) = ended.expect("no panic");
        let took = cut.unwrap_or_else(|| panic!("{what} as {who:?} is put up with"));
        assert!(took < WITHIN, "{what} as {who:?} was cut off after {took:?}");
    }
    healthy.end().await;
}

/// Objects that are more than any buffer on the way holds, some 24 MiB together.
async fn fill(raw: &Raw) {
    for idx in 0..24 {
        let object =
            json!({"metadata": {"name": format!("large-{idx}")}, "data": {"text": "x".repeat(1024 * 1024)}});
        let created = raw.send(Method::POST, CONFIG_MAPS, &object).await.expect("an answer");
        assert_eq!(created.code, 201, "{}", created.body);
    }
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_end_and_slow_readers_get_theirs() {
    let server = alone();
    fill(&server.raw().await).await;
    let dialer = Dialer::of(&server);
    let n_before = server.n_sockets();
    let healthy = Healthy::new(dialer.clone());
    let mut held = vec![];
    // Lists, watches, and watches over WebSocket.
    let switch = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                  sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    for (query, headers) in [("", ""), ("", ""), ("?watch=1", ""), ("?watch=1", switch), ("?watch=1", switch)]
    {
        let mut stream = dialer.tls(As::Admin, "http/1.1").await;
        let get = format!("GET {CONFIG_MAPS}{query} HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
        stream.write_all(get.as_bytes()).await.expect("it reads");
        held.push(stream);
    }
    // A reader that is only slow, one without a window, and one whose window of a byte is opened byte by byte.
    let slow = slow_reader(dialer.tls(As::Admin, "http/1.1").await);
    let (slow, closed, narrow) = tokio::join!(slow, no_room(&dialer, 0), no_room(&dialer, 1));
    assert!(slow > 24 * 1024 * 1024, "a slow reader got {slow} bytes");
    for cut in [closed, narrow] {
        assert!(cut.is_some_and(|took| took < WITHIN), "no window {closed:?}, a narrow one {narrow:?}");
    }
    healthy.end().await;
    // Those that never read cannot see that they were cut off; the server can be seen to have done it.
    let deadline = Instant::now() + WITHIN;
    while server.n_sockets() > n_before + 2 {
        assert!(Instant::now() < deadline, "{} sockets, and {n_before} before", server.n_sockets());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(held);
}

/// Asks over HTTP/2 and leaves room for this many bytes of each answer, and one more now and then; how long that was
/// put up with.
async fn no_room(dialer: &Dialer, n_bytes: u32) -> Option<Duration> {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let mut stream = dialer.http2(As::Admin, &[(INITIAL_WINDOW_SIZE, n_bytes)]).await;
    for (stream_id, path) in [(1, CONFIG_MAPS), (3, "/version"), (5, "/api")] {
        let head = frame(HEADERS, END_STREAM | END_HEADERS, stream_id, &request("GET", path));
        stream.write_all(&head).await.expect("it reads");
    }
    let next = move || match n_bytes {
        0 => vec![],
        _ => frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()),
    };
    until_cut(stream, Duration::from_millis(100), next).await
}

/// Reads so that it takes far longer than anything may lie unread, and never stops.
async fn slow_reader(mut stream: TlsStream<TcpStream>) -> usize {
    let get = format!("GET {CONFIG_MAPS} HTTP/1.0\r\n\r\n");
    stream.write_all(get.as_bytes()).await.expect("it reads");
    let mut buffer = vec![0; 64 * 1024];
    let mut n_bytes = 0;
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return n_bytes,
            Ok(n) => n_bytes += n,
        }
        // Some 1.6 MiB a second at most.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_object_over_a_slow_line_is_taken() {
    let server = alone();
    let mut stream = Dialer::of(&server).tls(As::Admin, "http/1.1").await;
    let text = "x".repeat(1024 * 1024 - 1024);
    let object = json!({"metadata": {"name": "slow"}, "data": {"a": text}}).to_string();
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        object.len()
    );
    stream.write_all(head.as_bytes()).await.expect("it reads");
    // A few seconds more than a body may take of which nothing comes.
    for piece in object.as_bytes().chunks(object.len() / 100) {
        stream.write_all(piece).await.expect("it goes on reading");
        stream.flush().await.expect("it goes on reading");
        tokio::time::sleep(Duration::from_millis(110)).await;
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.0 201"), "{}", &answer[..answer.len().min(500)]);
}

/// Makes the next piece of an attack.
type Piece = Box<dyn FnMut() -> Vec<u8> + Send>;

/// Frames that go on and on. Streams count up where each needs a new one.
fn attack(what: &str) -> (As, Vec<u8>, Piece) {
    let get = request("GET", "/version");
    let mut stream_id = 1_u32;
    match what {
        "resets" | "resets by someone known" => {
            let who = if what == "resets" { As::Nobody } else { As::Admin };
            let next = move || {
                let mut frames = vec![];
                for _ in 0..50 {
                    frames.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream_id, &get));
                    frames.extend(frame(RST_STREAM, 0, stream_id, &8_u32.to_be_bytes()));
                    stream_id += 2;
                }
                frames
            };
            (who, vec![], Box::new(next))
        }
        "continuations" => {
            let beginning = frame(HEADERS, END_STREAM, 1, &get);
            let more = frame(CONTINUATION, 0, 1, &field("x", &"y".repeat(100)));
            (As::Nobody, beginning, Box::new(move || more.repeat(50)))
        }
        "empty data" => {
            let mut head = request("POST", "/api/v1/namespaces");
            head.extend(field("content-type", "application/json"));
            let empty = frame(DATA, 0, 1, &[]);
            (As::Admin, frame(HEADERS, END_HEADERS, 1, &head), Box::new(move || empty.repeat(200)))
        }
        "pings" => (As::Nobody, vec![], Box::new(|| frame(PING, 0, 0, &[0; 8]).repeat(200))),
        "settings" => (As::Nobody, vec![], Box::new(|| frame(SETTINGS, 0, 0, &[]).repeat(200))),
        "window updates" => {
            (As::Nobody, vec![], Box::new(|| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()).repeat(200)))
        }
        other => panic!("no attack is called {other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cve_2023_44487_misuse_of_http2_is_cut_off_and_costs_little() {
    let server = alone();
    let dialer = Dialer::of(&server);
    let healthy = Healthy::new(dialer.clone());
    // Once, so that what is made at the first request does not count.
    let warm: Value = server.raw().await.get("/version").await.expect("an answer").body;
    assert!(warm.is_object(), "{warm}");
    let before = server.memory();
    let mut attacks = JoinSet::new();
    let kinds = [
        "resets",
        "resets by someone known",
        "continuations",
        "empty data",
        "pings",
        "settings",
        "window updates",
    ];
    for what in kinds {
        let dialer = dialer.clone();
        attacks.spawn(async move {
            let (who, beginning, next) = attack(what);
            let mut stream = dialer.http2(who, &[]).await;
            stream.write_all(&beginning).await.expect("it reads");
            (what, until_cut(stream, Duration::from_millis(1), next).await)
        });
    }
    let mut most = 0;
    while let Some(ended) = attacks.join_next().await {
        most = most.max(server.memory());
        let (what, cut) = ended.expect("no panic");
        let took = cut.unwrap_or_else(|| panic!("{what} are put up with"));
        assert!(took < WITHIN, "{what} were cut off after {took:?}");
    }
    healthy.end().await;
    let grown = most.saturating_sub(before);
    assert!(grown < MISUSED, "the server grew by {grown} KiB");
}
