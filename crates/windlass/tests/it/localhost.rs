//! The localhost rule against those who come from loopback and are not what they seem: over real sockets, to the built
//! binary. `/version` is for everyone who gets as far as the server, and a refusal of `/api/v1/namespaces` names who was
//! refused; so nothing but the rule decides here.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread,
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    server::{Kubeconfig, Server},
    support::{stderr, windlass},
};

/// Far longer than any answer takes.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server with the flags of plain HTTP, and its port.
struct Local {
    directory: TempDir,
    server: Server,
    port: u16,
}

impl Local {
    fn start(flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let port = free_port();
        let text = port.to_string();
        let flags = [&["up", "--insecure-port", text.as_str()], flags].concat();
        Local { server: Server::start(directory.path(), &flags), directory, port }
    }

    fn trusting() -> Self {
        Self::start(&["--authn-allow-localhost"])
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Sends what is given, with PORT in it replaced, and reads until the other side has had enough.
    fn exchange(&self, text: &str) -> String {
        exchange(self.address(), &text.replace("PORT", &self.port.to_string()))
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|taken| taken.local_addr())
        .expect("a free port")
        .port()
}

fn exchange(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    stream.write_all(text.as_bytes()).expect("it reads");
    let mut answer = vec![];
    // What has come before the other side hung up is the answer, however it did.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The codes of all answers in a text, in order.
fn codes(answer: &str) -> Vec<u16> {
    let lines = answer.split("HTTP/1.").skip(1);
    lines.filter_map(|rest| rest.get(2..5)?.parse().ok()).collect()
}

const GET: &str = "GET /version HTTP/1.1\r\nConnection: close\r\n";
const POST: &str = "POST /api/v1/namespaces HTTP/1.1\r\nConnection: close\r\nHost: localhost:PORT\r\n";
const OWN: &str = "Host: localhost:PORT\r\n";

/// What else the head of a harmless request has, and how it must be answered then.
const HEADERS: &[(&str, u16)] = &[
    // Someone forwards, and says so.
    ("X-Forwarded-For: 127.0.0.1", 403),
    ("X-Forwarded-For: 10.1.2.3", 403),
    ("x-forwarded-FOR: ", 403),
    ("X-Forwarded-Host: localhost", 403),
    ("X-Forwarded-Proto: https", 403),
    ("Forwarded: for=127.0.0.1", 403),
    ("X-Real-IP: 127.0.0.1", 403),
    ("Via: 1.1 proxy", 403),
    ("Proxy-Connection: keep-alive", 403),
    ("Proxy-Authorization: Basic YTpi", 403),
    ("X-Client-IP: 127.0.0.1", 403),
    ("True-Client-IP: 127.0.0.1", 403),
    ("CF-Connecting-IP: 127.0.0.1", 403),
    ("X-Original-URL: /api/v1/secrets", 403),
    ("X-Remote-User: admin\r\nX-Remote-Group: system:masters", 403),
    ("Max-Forwards: 3", 403),
    // A page in a browser asks.
    ("Origin: http://evil.test", 403),
    ("Origin: http://localhost:PORT", 403),
    ("Origin: null", 403),
    ("Sec-Fetch-Site: cross-site", 403),
    ("Sec-Fetch-Site: same-site", 403),
    ("Sec-Fetch-Site: same-origin", 403),
    ("Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site", 403),
    (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin: http://evil.test",
        403,
    ),
    // Credentials that nobody knows are not forgiven, wherever they come from.
    ("Authorization: Bearer nobody-knows-this", 401),
    ("Authorization: Basic YWRtaW46YWRtaW4=", 401),
    // A second name.
    ("Host: localhost:PORT", 421),
    ("Host: evil.test", 421),
];

/// Names in `Host`, none of which is the listener's.
const HOSTS: &[&str] = &[
    "evil.test",
    "evil.test:PORT",
    "localhost",
    "localhost:1",
    "localhost:0PORT",
    "localhost.:PORT",
    "localhost.evil.test:PORT",
    "LOCALHOST:PORT",
    "user@localhost:PORT",
    "127.0.0.1",
    "127.0.0.2:PORT",
    "127.1:PORT",
    "127.0.0.1.nip.io:PORT",
    "2130706433:PORT",
    "0x7f000001:PORT",
    "0177.0.0.1:PORT",
    "0.0.0.0:PORT",
    "[::]:PORT",
    "::1:PORT",
    "[::ffff:127.0.0.1]:PORT",
    "[0:0:0:0:0:0:0:1]:PORT",
    "localhost:PORT, evil.test",
    "",
];

/// Whole requests, and how they must be answered.
const REQUESTS: &[(&str, &str, u16)] = &[
    ("no Host at all", "GET /version HTTP/1.0\r\n\r\n", 421),
    ("no Host in HTTP/1.1", "GET /version HTTP/1.1\r\nConnection: close\r\n\r\n", 421),
    (
        "a target elsewhere, as proxies are asked",
        "GET http://evil.test/version HTTP/1.1\r\nConnection: close\r\nHost: localhost:PORT\r\n\r\n",
        421,
    ),
    (
        "a target here, and another Host",
        "GET http://localhost:PORT/version HTTP/1.1\r\nConnection: close\r\nHost: evil.test\r\n\r\n",
        421,
    ),
    (
        "two good names that differ",
        "GET http://127.0.0.1:PORT/version HTTP/1.1\r\nConnection: close\r\nHost: localhost:PORT\r\n\r\n",
        421,
    ),
    (
        "a target that is TLS",
        "GET https://localhost:PORT/version HTTP/1.1\r\nConnection: close\r\nHost: localhost:PORT\r\n\r\n",
        421,
    ),
    ("a tunnel", "CONNECT localhost:PORT HTTP/1.1\r\nConnection: close\r\nHost: localhost:PORT\r\n\r\n", 421),
    (
        "a preflight of a page",
        "OPTIONS /api/v1/namespaces HTTP/1.1\r\nConnection: close\r\nHost: localhost:PORT\r\nOrigin: http://evil.test\r\n\
         Access-Control-Request-Method: POST\r\n\r\n",
        403,
    ),
    (
        "impersonation",
        "GET /api/v1/namespaces HTTP/1.1\r\nConnection: close\r\nHost: localhost:PORT\r\nImpersonate-User: admin\r\n\
         Impersonate-Group: system:masters\r\n\r\n",
        403,
    ),
];

/// Content types that a form or a script can send without asking, or that are not sent at all.
const BODIES: &[&str] = &[
    "",
    "Content-Type: text/plain\r\n",
    "Content-Type: application/x-www-form-urlencoded\r\n",
    "Content-Type: multipart/form-data; boundary=x\r\n",
    "Content-Type: text/plain; application/json\r\n",
    "Content-Type: text/plain, application/json\r\n",
    "Content-Type: text/plain\r\nContent-Type: application/json\r\n",
    "Content-Type: application/octet-stream\r\n",
    "Content-Type: text/plain;charset=application/json\r\n",
];

const NAMESPACE: &str = r#"{"metadata":{"name":"stolen"}}"#;

#[test]
fn programs_on_this_machine_are_a_named_user_without_power() {
    let local = Local::trusting();
    for host in ["localhost:PORT", "127.0.0.1:PORT", "[::1]:PORT"] {
        let answer = local.exchange(&format!("{GET}Host: {host}\r\nSec-Fetch-Site: none\r\n\r\n"));
        assert_eq!(codes(&answer), [200], "{host}: {answer}");
    }
    let list = "GET /api/v1/namespaces HTTP/1.1\r\nConnection: close\r\nHost: localhost:PORT\r\n\r\n";
    let n_bytes = NAMESPACE.len();
    let create =
        format!("{POST}Content-Type: application/json\r\nContent-Length: {n_bytes}\r\n\r\n{NAMESPACE}");
    for (request, verb) in [(list, "list"), (&create, "create")] {
        let answer = local.exchange(request);
        assert_eq!(codes(&answer), [403], "{answer}");
        assert!(answer.contains(&format!(r#"User \"system:localhost\" cannot {verb} resource"#)), "{answer}");
    }
}

#[test]
fn cve_2018_1098_no_hostile_request_is_answered_as_if_it_came_from_here() {
    let local = Local::trusting();
    let mut n_cases = 0;
    let mut check = |what: &str, request: &str, expected: u16| {
        n_cases += 1;
        let answer = local.exchange(request);
        assert_eq!(codes(&answer), [expected], "{what}: {answer}");
    };
    for (header, expected) in HEADERS {
        check(header, &format!("{GET}{OWN}{header}\r\n\r\n"), *expected);
    }
    for host in HOSTS {
        check(host, &format!("{GET}Host: {host}\r\n\r\n"), 421);
    }
    for (what, request, expected) in REQUESTS {
        check(what, request, *expected);
    }
    for body in BODIES {
        let length = format!("Content-Length: {}\r\n", NAMESPACE.len());
        check(body, &format!("{POST}{body}{length}\r\n{NAMESPACE}"), 415);
    }
    for method in ["PUT", "PATCH", "DELETE"] {
        let path = "/api/v1/namespaces/default";
        check(method, &format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n{OWN}\r\n"), 415);
    }
    assert!(n_cases >= 40, "{n_cases}");
}

#[test]
fn a_later_request_on_a_good_connection_is_looked_at_anew() {
    let local = Local::trusting();
    let good = "GET /version HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n";
    for (bad, expected) in [
        (format!("{GET}Host: evil.test\r\n\r\n"), 421),
        (format!("{GET}{OWN}X-Forwarded-For: 10.0.0.1\r\n\r\n"), 403),
        (format!("{GET}{OWN}Origin: http://evil.test\r\n\r\n"), 403),
    ] {
        assert_eq!(codes(&local.exchange(&format!("{good}{bad}"))), [200, expected], "{bad}");
    }
    // Nothing is switched to: what follows is a request like any other.
    for upgrade in ["Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", "Upgrade: websocket"] {
        let first = format!(
            "GET /version HTTP/1.1\r\nHost: localhost:PORT\r\nConnection: Upgrade\r\n{upgrade}\r\n\r\n"
        );
        let answer = local.exchange(&format!("{first}{GET}Host: evil.test\r\n\r\n"));
        assert_eq!(codes(&answer), [200, 421], "{upgrade}: {answer}");
    }
    // A body that is longer than it says is the next request, and no way around.
    let smuggled = format!("{POST}Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n{good}");
    let answer = local.exchange(&smuggled);
    assert_eq!(codes(&answer)[0], 415, "{answer}");
    let both = format!(
        "{POST}Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    let answer = local.exchange(&both);
    assert!(codes(&answer).iter().all(|code| *code >= 400), "{answer}");
}

#[test]
fn cve_2020_8558_no_other_address_of_this_machine_leads_there() {
    let local = Local::trusting();
    let own = own_address();
    let elsewhere = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 255, 255, 254)];
    for address in elsewhere.into_iter().map(Into::into).chain([Ipv6Addr::LOCALHOST.into()]).chain(own) {
        let refused = TcpStream::connect(SocketAddr::new(address, local.port));
        assert!(refused.is_err(), "{address}: only the one address is listened on");
    }
    // These are other ways to write it, which the system takes for loopback: the name in the request gives them away.
    for (address, host) in [
        (Ipv4Addr::UNSPECIFIED.into(), "0.0.0.0:PORT"),
        (Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), "[::ffff:127.0.0.1]:PORT"),
    ] {
        let request = format!("{GET}Host: {host}\r\n\r\n").replace("PORT", &local.port.to_string());
        let answer = exchange(SocketAddr::new(address, local.port), &request);
        assert_eq!(codes(&answer), [421], "{host}: {answer}");
    }
}

/// An address of this machine that is not loopback, if it has one.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

/// A proxy on this machine that hands on one connection, changing the head of the first request on the way.
fn proxy(to: SocketAddr, change: impl Fn(String) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("a whole head");
            head.push(byte[0]);
        }
        let head = change(String::from_utf8(head).expect("text"));
        client.write_all(exchange(to, &head).as_bytes()).expect("it reads");
    });
    address
}

#[test]
fn whoever_is_behind_a_proxy_on_this_machine_is_not_on_it() {
    let local = Local::trusting();
    let own = format!("localhost:{}", local.port);
    // As nginx, Envoy and Go's reverse proxy do: the name of the server behind, and whom the request is of.
    for added in [
        "X-Forwarded-For: 203.0.113.9",
        "Forwarded: for=203.0.113.9",
        "Via: 1.1 front",
        "X-Real-IP: 203.0.113.9",
    ] {
        let (added, own) = (added.to_owned(), own.clone());
        let front = proxy(local.address(), move |head| {
            head.replace("Host: api.example.org\r\n", &format!("Host: {own}\r\n{added}\r\n"))
        });
        let answer = exchange(front, &format!("{GET}Host: api.example.org\r\n\r\n"));
        assert_eq!(codes(&answer), [403], "{answer}");
    }
    // As a forwarded port does: nothing is changed, so the name is the one that the client used.
    let front = proxy(local.address(), |head| head);
    for host in [format!("localhost:{}", front.port()), "api.example.org".to_owned()] {
        let front = proxy(local.address(), |head| head);
        let answer = exchange(front, &format!("{GET}Host: {host}\r\n\r\n"));
        assert_eq!(codes(&answer), [421], "{answer}");
    }
}

/// What HTTP/2 is asked: the authority, the headers, the method.
type Asked<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn http2_is_held_to_the_same() {
    let local = Local::trusting();
    let port = local.port;
    let (own, other) = (format!("localhost:{port}"), format!("127.0.0.1:{port}"));
    let forwarded: &[(&str, &str)] = &[("x-forwarded-for", "10.0.0.1")];
    let cases: &[(Asked<'_>, u16)] = &[
        ((&own, &[], "GET"), 200),
        ((&own, &[("host", &own)], "GET"), 200),
        ((&own, &[("host", "evil.test")], "GET"), 421),
        ((&own, &[("host", &other)], "GET"), 421),
        (("evil.test", &[], "GET"), 421),
        (("evil.test", &[("host", &own)], "GET"), 421),
        (("localhost", &[], "GET"), 421),
        (("localhost.evil.test", &[], "GET"), 421),
        ((&own, forwarded, "GET"), 403),
        ((&own, &[("origin", "http://evil.test")], "GET"), 403),
        ((&own, &[("sec-fetch-site", "cross-site")], "GET"), 403),
        ((&own, &[("via", "2 proxy")], "GET"), 403),
        ((&own, &[("authorization", "Bearer nobody-knows-this")], "GET"), 401),
        ((&own, &[("content-type", "text/plain")], "POST"), 415),
        ((&own, &[], "DELETE"), 415),
    ];
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for ((authority, headers, method), expected) in cases {
        let code = runtime.block_on(ask_http2(local.address(), authority, headers, method));
        assert_eq!(code, *expected, "{authority} {headers:?} {method}");
    }
}

async fn ask_http2(address: SocketAddr, authority: &str, headers: &[(&str, &str)], method: &str) -> u16 {
    let asking = async {
        let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let (sender, connection) = h2::client::handshake(stream).await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(format!("http://{authority}/version"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut sender = sender.ready().await.expect("there is room");
        let request = request.body(()).expect("a request");
        let (response, mut body) = sender.send_request(request, false).expect("it is sent");
        let _ = body.send_data(Bytes::new(), true);
        response.await.expect("an answer").status().as_u16()
    };
    tokio::time::timeout(DEADLINE, asking).await.expect("an answer in time")
}

/// curl, which speaks HTTP/2 as few others do: the code of the answer, which must have come as a whole.
fn curl(local: &Local, arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20", "--http2-prior-knowledge", "-o", "/dev/null"]);
    command.args(["-w", "%{http_version} %{http_code}"]).args(arguments);
    let output = command.arg(format!("http://localhost:{}/version", local.port)).output();
    let output = output.unwrap_or_else(|error| panic!("{error}: run ./test, which installs curl"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}: {said}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn curl_is_refused_over_http2_and_told_so_whatever_it_sends() {
    let local = Local::trusting();
    assert_eq!(curl(&local, &[]), "2 200");
    let body = local.directory.path().join("body");
    fs::write(&body, vec![b'x'; 4 << 20]).expect("a file");
    let body = format!("@{}", body.display());
    // What only HTTP/1.1 has is not sent, and what is sent twice is the other test's.
    let only_http1 = |header: &str| {
        let name = header.split(':').next().unwrap_or_default().to_ascii_lowercase();
        header.contains("\r\n") || ["connection", "proxy-connection", "host"].contains(&name.as_str())
    };
    for (header, expected) in HEADERS.iter().filter(|(header, _)| !only_http1(header)) {
        // Without a value, curl wants a semicolon instead.
        let header = header.replace("PORT", &local.port.to_string());
        let header = header.strip_suffix(": ").map_or(header.clone(), |name| format!("{name};"));
        assert_eq!(curl(&local, &["-H", &header]), format!("2 {expected}"), "{header}");
    }
    for (flags, expected) in [
        (&["-H", "X-Forwarded-For: 10.1.2.3"][..], 403),
        (&["-H", "Host: evil.test"], 421),
        (&["-H", "Content-Type: text/plain"], 415),
        (&["-H", "Content-Type: application/json", "-H", "Authorization: Bearer nobody-knows-this"], 401),
    ] {
        let sends = [flags, &["-X", "POST", "-H", "Expect:", "--data-binary", &body]].concat();
        assert_eq!(curl(&local, &sends), format!("2 {expected}"), "{flags:?}");
    }
}

#[test]
fn over_tls_nobody_is_local() {
    let local = Local::trusting();
    let anyone = Kubeconfig::read(local.directory.path());
    let answer = anyone.read_at(local.server.address(), "/api/v1/namespaces", false);
    assert!(answer.contains(r#"User \"system:anonymous\" cannot list"#), "{answer}");
}

#[test]
fn whoever_turns_it_on_is_told_at_every_start_and_can_see_it() {
    let local = Local::trusting();
    let log = fs::read_to_string(local.directory.path().join("stderr")).expect("a log");
    assert!(log.contains("--authn-allow-localhost") && log.contains("--insecure-port"), "{log}");
    assert_eq!(local.server.endpoints["insecure"], format!("http://127.0.0.1:{}", local.port));
    let ready =
        local.exchange("GET /readyz?verbose HTTP/1.1\r\nConnection: close\r\nHost: localhost:PORT\r\n\r\n");
    assert!(ready.contains("authn-allow-localhost"), "{ready}");
    assert_eq!(codes(&local.exchange(&format!("{GET}Host: evil.test\r\n\r\n"))), [421]);
    let metrics = Kubeconfig::read(local.directory.path()).read_at(local.server.address(), "/metrics", true);
    for line in ["windlass_localhost_allowed 1", "windlass_localhost_refusals_total 1"] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[test]
fn without_the_rule_plain_http_knows_nobody_without_a_token() {
    let local = Local::start(&[]);
    // Nothing is trusted for where it comes from, so proxies may be there.
    for headers in ["Host: api.example.org\r\nX-Forwarded-For: 10.0.0.1\r\n", OWN] {
        assert_eq!(codes(&local.exchange(&format!("{GET}{headers}\r\n"))), [200], "{headers}");
        let list = format!("GET /api/v1/namespaces HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        let answer = local.exchange(&list);
        assert!(answer.contains(r#"User \"system:anonymous\" cannot list"#), "{answer}");
    }
    let token = local.exchange(&format!("{GET}{OWN}Authorization: Bearer nobody-knows-this\r\n\r\n"));
    assert_eq!(codes(&token), [401]);
}

#[test]
fn flags_that_would_let_others_in_exit_with_64() {
    let here = tempfile::tempdir().expect("a temporary directory");
    for (flags, expected) in [
        ("--authn-allow-localhost", "--insecure-port PORT"),
        ("--insecure-port 1234 --insecure-bind-address 0.0.0.0", "--insecure-allow-remote"),
        ("--insecure-port 1234 --authn-allow-localhost --insecure-addr 127.0.0.2", "127.0.0.1 or ::1"),
        (
            "--insecure-port 1234 --authn-allow-localhost --insecure-addr 0.0.0.0 --insecure-allow-remote",
            "127.0.0.1 or ::1",
        ),
    ] {
        let told =
            stderr(windlass(here.path()).args(["up", "--secure-port", "0"]).args(flags.split(' ')), 64);
        assert!(told.contains(expected), "{flags}: {told}");
    }
}

#[test]
fn what_the_rule_refuses_is_in_the_audit_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
    fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]")
        .expect("a file");
    let (policy, path) = (policy.display().to_string(), log.display().to_string());
    let flags = ["--authn-allow-localhost", "--audit-policy-file", &policy, "--audit-log-path", &path];
    let local = Local::start(&flags);
    let answer = local.exchange(&format!("{GET}{OWN}X-Forwarded-For: 10.1.2.3\r\n\r\n"));
    assert_eq!(codes(&answer), [403]);
    assert_eq!(local.server.end(Signal::TERM), Some(0));
    let log = fs::read_to_string(log).expect("a log");
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let refused =
        |event: &&Value| event["requestURI"] == "/version" && event["responseStatus"]["code"] == 403;
    assert_eq!(events.iter().filter(refused).count(), 1, "{log}");
}

#[test]
fn a_refusal_is_read_to_its_end_and_the_connection_goes_on() {
    let local = Local::start(&[]);
    let body = "x".repeat(200_000);
    let refused = format!(
        "POST /api/v1/namespaces HTTP/1.1\r\n{OWN}Authorization: Bearer nobody-knows-this\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(codes(&local.exchange(&format!("{refused}{GET}{OWN}\r\n"))), [401, 200]);
}
