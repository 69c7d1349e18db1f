//! Certificates that someone else keeps: shown, believed, and taken up when they change.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, RevokedCertParams,
};
use rustix::process::Signal;
use rustls::{ClientConnection, StreamOwned};
use tempfile::TempDir;

use crate::{
    server::{Kubeconfig, Server},
    support::{stderr, stdout, windlass},
};

/// Far longer than it takes to look at files again.
const DEADLINE: Duration = Duration::from_secs(30);

const READY: &str = "HTTP/1.0 200 OK";

fn here() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// An authority of someone else.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A list of the certificates that are taken back.
    fn revoke(&self, serials: &[u64]) -> String {
        let now = SystemTime::now();
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: (now - Duration::from_secs(60)).into(),
            next_update: (now + Duration::from_secs(3600)).into(),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).expect("a list").pem().expect("in PEM")
    }

    /// A certificate and its key, for these names, in PEM.
    fn sign(&self, user: &str, names: &[&str], lasts: Duration) -> (String, String) {
        self.sign_as(user, names, lasts, None)
    }

    fn sign_as(&self, user: &str, names: &[&str], lasts: Duration, serial: Option<u64>) -> (String, String) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        params.not_after = (SystemTime::now() + lasts).into();
        params.serial_number = serial.map(Into::into);
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("a certificate").pem(), key.serialize_pem())
    }
}

/// Files for the flags, in a folder of their own.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        Files { folder: here() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a file in place in one step.
    fn write(&self, name: &str, text: &str) -> String {
        let beside = self.path(".new");
        fs::write(&beside, text).expect("written");
        fs::rename(beside, self.path(name)).expect("renamed");
        self.path(name).display().to_string()
    }

    /// What a server of `authority` shows, and the flags that name it.
    fn server(&self, authority: &Authority, name: &str) -> Vec<String> {
        let (cert, key) = authority.sign("server", &[name], Duration::from_secs(3600));
        let cert = self.write("tls.crt", &format!("{cert}{}", authority.pem));
        let key = self.write("tls.key", &key);
        vec!["--tls-cert-file".to_owned(), cert, "--tls-private-key-file".to_owned(), key]
    }
}

fn start(directory: &Path, flags: &[String]) -> Server {
    let flags: Vec<&str> = ["up"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    Server::start(directory, &flags)
}

#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Asks over a connection that goes on afterwards; the code and the body.
fn ask(stream: &mut StreamOwned<ClientConnection, TcpStream>, path: &str) -> (u16, String) {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").expect("it reads");
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a whole head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text").to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.trim().parse().expect("a number")];
    stream.read_exact(&mut body).expect("a whole body");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
    (code, String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn a_certificate_from_files_is_shown_and_the_kubeconfig_knows_it() {
    let (here, files, authority) = (here(), Files::new(), Authority::new("one"));
    let server = start(here.path(), &files.server(&authority, "api.example.org"));
    let admin = Kubeconfig::read(here.path());
    assert_eq!(admin.get(server.address(), "api.example.org", "/readyz").expect("an answer"), READY);
    assert!(admin.get(server.address(), "localhost", "/readyz").is_err(), "it is not for that name");
    let text = fs::read_to_string(here.path().join("windlass-data/admin.kubeconfig")).expect("a kubeconfig");
    assert!(text.contains("tls-server-name: api.example.org"), "{text}");
    assert!(stdout(windlass(here.path()).arg("status"), 0).ends_with("ready\n"));
}

#[test]
fn files_that_change_hold_for_new_connections_and_bad_ones_for_none() {
    let (here, files) = (here(), Files::new());
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let server = start(here.path(), &files.server(&one, "one.example.org"));
    let first = Kubeconfig::read(here.path());
    let old = first.connect(server.address(), "one.example.org", true, rustls::ALL_VERSIONS);
    let mut old = old.expect("a connection");
    assert_eq!(ask(&mut old, "/version").0, 200);

    files.write("tls.key", "rubbish");
    let log = || fs::read_to_string(here.path().join("stderr")).expect("a log");
    eventually("it is told", || log().contains("what was good last stays in use"));
    assert_eq!(first.get(server.address(), "one.example.org", "/readyz").expect("an answer"), READY);

    files.server(&two, "two.example.org");
    eventually("the new one is shown", || {
        Kubeconfig::read(here.path()).get(server.address(), "two.example.org", "/readyz").is_ok()
    });
    assert!(first.get(server.address(), "one.example.org", "/readyz").is_err(), "another one has signed it");
    assert_eq!(ask(&mut old, "/version").0, 200, "what was open goes on");
}

#[test]
fn other_authorities_can_vouch_for_clients_besides_our_own() {
    let (here, files) = (here(), Files::new());
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let bundle = files.write("clients.pem", &one.pem);
    let server = start(here.path(), &["--client-ca-file".to_owned(), bundle]);
    let admin = Kubeconfig::read(here.path());
    let (cert, key) = one.sign("ann", &[], Duration::from_secs(3600));
    let ann = admin.with_certificate(&cert, &key);
    let (cert, key) = two.sign("eve", &[], Duration::from_secs(3600));
    let eve = admin.with_certificate(&cert, &key);
    let refusal = |name: &str| format!(r#"User \"{name}\" cannot list resource \"namespaces\""#);
    let list = |client: &Kubeconfig| client.try_read_at(server.address(), "/api/v1/namespaces");
    assert!(list(&ann).expect("an answer").contains(&refusal("ann")));
    assert!(list(&eve).is_err(), "nobody vouches for eve");
    assert_eq!(admin.get(server.address(), "localhost", "/readyz").expect("an answer"), READY);

    files.write("clients.pem", &two.pem);
    eventually("eve is known", || list(&eve).is_ok_and(|answer| answer.contains(&refusal("eve"))));
    assert!(list(&ann).is_err(), "nobody vouches for ann any more");
    assert_eq!(admin.get(server.address(), "localhost", "/readyz").expect("an answer"), READY);
}

/// Waits until a connection is closed on which nothing is asked.
#[track_caller]
fn ends(mut stream: StreamOwned<ClientConnection, TcpStream>) {
    stream.sock.set_read_timeout(Some(DEADLINE)).expect("a socket");
    let ended = stream.read(&mut [0]);
    let is_timeout = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!ended.as_ref().is_err_and(is_timeout), "it is still open: {ended:?}");
}

#[test]
fn connections_end_whose_certificates_are_believed_no_more() {
    let (here, files) = (here(), Files::new());
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let bundle = files.write("clients.pem", &format!("{}{}", one.pem, two.pem));
    let none = two.revoke(&[]);
    let list = files.write("revoked.pem", &none);
    let flags = ["--client-ca-file".to_owned(), bundle, "--client-crl-file".to_owned(), list];
    let server = start(here.path(), &flags);
    let admin = Kubeconfig::read(here.path());
    let open = |authority: &Authority, name: &str, serial: u64| {
        let (cert, key) = authority.sign_as(name, &[], Duration::from_secs(3600), Some(serial));
        let client = admin.with_certificate(&cert, &key);
        let stream = client.connect(server.address(), "localhost", true, rustls::ALL_VERSIONS);
        let mut stream = stream.expect("a connection");
        assert_eq!(ask(&mut stream, "/version").0, 200);
        stream
    };
    let (ann, mut bob, eve) = (open(&one, "ann", 1), open(&two, "bob", 2), open(&two, "eve", 3));
    files.write("revoked.pem", &two.revoke(&[3]));
    ends(eve);
    assert_eq!(ask(&mut bob, "/version").0, 200, "bob's was not taken back");
    files.write("clients.pem", &two.pem);
    ends(ann);
    assert_eq!(ask(&mut bob, "/version").0, 200, "bob's authority is still believed");
}

#[test]
fn a_certificate_that_ends_while_its_connection_goes_on_is_refused() {
    let (here, files, authority) = (here(), Files::new(), Authority::new("one"));
    let bundle = files.write("clients.pem", &authority.pem);
    let server = start(here.path(), &["--client-ca-file".to_owned(), bundle]);
    let (cert, key) = authority.sign("ann", &[], Duration::from_secs(3));
    let client = Kubeconfig::read(here.path()).with_certificate(&cert, &key);
    let stream = client.connect(server.address(), "localhost", true, rustls::ALL_VERSIONS);
    let mut stream = stream.expect("a connection");
    let (code, body) = ask(&mut stream, "/api/v1/namespaces");
    assert!(code == 403 && body.contains(r#"User \"ann\""#), "{body}");
    eventually("it has ended", || ask(&mut stream, "/version").0 == 401);
}

#[test]
fn tls_1_2_can_be_refused() {
    let here = here();
    let old: &[&'static rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];
    for (version, is_spoken) in [("VersionTLS12", true), ("VersionTLS13", false)] {
        let server = start(here.path(), &["--tls-min-version".to_owned(), version.to_owned()]);
        let mut stream = Kubeconfig::read(here.path())
            .connect(server.address(), "localhost", true, old)
            .expect("it listens");
        let asked =
            write!(stream, "GET /version HTTP/1.0\r\n\r\n").and_then(|()| stream.read_exact(&mut [0]));
        assert_eq!(asked.is_ok(), is_spoken, "{version}: {asked:?}");
        assert_eq!(server.end(Signal::TERM), Some(0));
    }
}

#[test]
fn files_that_are_no_good_exit_with_64_and_are_named() {
    let (here, files, authority) = (here(), Files::new(), Authority::new("one"));
    let good = files.server(&authority, "api.example.org");
    let missing = files.path("none").display().to_string();
    for (flags, named) in [
        (vec!["--tls-cert-file", &good[1]], "--tls-private-key-file"),
        (vec!["--tls-cert-file", &missing, "--tls-private-key-file", &good[3]], "--tls-cert-file"),
        (vec!["--tls-cert-file", &good[3], "--tls-private-key-file", &good[3]], "--tls-cert-file"),
        (vec!["--client-ca-file", &good[3]], "--client-ca-file"),
        (vec!["--client-crl-file", &good[3]], "--client-crl-file"),
        (vec!["--tls-min-version", "VersionTLS10"], "--tls-min-version"),
    ] {
        let told = stderr(windlass(here.path()).args(["up", "--secure-port", "0"]).args(&flags), 64);
        assert!(told.contains(named), "{flags:?}: {told}");
    }
}

#[test]
fn what_others_could_read_is_made_private_or_refused() {
    let here = here();
    let data = here.path().join("windlass-data");
    assert_eq!(Server::start(here.path(), &["up"]).end(Signal::TERM), Some(0));
    let private = [("", 0o700), ("pki", 0o700), ("pki/ca.key", 0o600), ("pki/admin.key", 0o600)];
    for (name, mode) in private {
        fs::set_permissions(data.join(name), fs::Permissions::from_mode(mode | 0o055)).expect("ours");
    }
    let server = Server::start(here.path(), &["up"]);
    for (name, mode) in private {
        let found = fs::metadata(data.join(name)).expect("it is there").permissions().mode();
        assert_eq!(found & 0o777, mode, "{name}");
    }
    drop(server);
    // A place that is not for it alone is not its to change.
    let shared = here.path().join("shared");
    fs::create_dir(&shared).expect("a folder");
    fs::write(shared.join("letter"), "").expect("written");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).expect("ours");
    let told = stderr(windlass(here.path()).args(["up", "--secure-port", "0", "--data-dir", "shared"]), 64);
    assert!(told.contains("chmod 700"), "{told}");
}
