//! A running server, and a client that sees no more of it than any other.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use rustix::process::{Pid, Signal, kill_process};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, crypto::ring,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};

use crate::support::windlass;

/// Far longer than any step takes; only a server that hangs is stopped by it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A server in `directory`/windlass-data, killed when the test is over.
pub(crate) struct Server {
    child: Child,
    /// What it printed until it was ready.
    pub(crate) banner: String,
    /// What it says is where.
    pub(crate) endpoints: BTreeMap<String, String>,
}

impl Server {
    /// Starts the binary with `flags`, and waits until it says that it is ready.
    #[track_caller]
    pub(crate) fn start(directory: &Path, flags: &[&str]) -> Self {
        let log = fs::File::create(directory.join("stderr")).expect("a file");
        let own: &[&str] = match flags.contains(&"apiserver") {
            true => &["--secure-port", "0"],
            false => &["--secure-port", "0", "--opensergo-port", "0"],
        };
        let mut child = windlass(directory)
            .args(flags)
            .args(own)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.take().expect("it is piped");
        let banner = read_banner(stdout);
        let banner = banner.unwrap_or_else(|| {
            let _ = child.kill();
            panic!("not ready: {}", fs::read_to_string(directory.join("stderr")).unwrap_or_default())
        });
        let text =
            fs::read(directory.join("windlass-data/endpoints.json")).expect("it is written when ready");
        Server { child, banner, endpoints: serde_json::from_slice(&text).expect("JSON") }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the API server is, as `host:port`.
    pub(crate) fn address(&self) -> &str {
        self.endpoints["apiserver"].strip_prefix("https://").expect("it is served with TLS")
    }

    /// Sends a signal and returns the exit code; nothing if the signal itself ended it.
    #[track_caller]
    pub(crate) fn end(mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(self.child.id().try_into().expect("small")).expect("not zero");
        kill_process(pid, signal).expect("it runs");
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status.code();
            }
            assert!(begin.elapsed() < DEADLINE, "it does not end");
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything up to the last line of the banner.
fn read_banner(stdout: impl Read + Send + 'static) -> Option<String> {
    let (banner_tx, banner_rx) = mpsc::channel();
    std::thread::spawn(move || {
        let mut banner = String::new();
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            banner += &format!("{line}\n");
            if line.starts_with("Ctrl-C") {
                let _ = banner_tx.send(banner.clone());
            }
        }
    });
    banner_rx.recv_timeout(DEADLINE).ok()
}

/// What a kubeconfig knows.
pub(crate) struct Kubeconfig {
    /// The address in it.
    pub(crate) server: String,
    ca: Vec<u8>,
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Kubeconfig {
    /// Reads the one that was written in `directory`.
    pub(crate) fn read(directory: &Path) -> Self {
        let text = fs::read_to_string(kubeconfig(directory)).expect("a kubeconfig");
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
            line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
        };
        let data = |name: &str| BASE64_STANDARD.decode(field(name)).expect("base64");
        Kubeconfig {
            server: field("server"),
            ca: data("certificate-authority-data"),
            cert: data("client-certificate-data"),
            key: data("client-key-data"),
        }
    }

    /// Asks for `path` at `address`, which must show a certificate for `name`; the answer's first line.
    pub(crate) fn get(&self, address: &str, name: &str, path: &str) -> Result<String, String> {
        self.request(address, name, path, true).map(first_line).map_err(|error| error.to_string())
    }

    /// The same without showing a certificate.
    pub(crate) fn get_as_nobody(&self, address: &str, name: &str, path: &str) -> Result<String, String> {
        self.request(address, name, path, false).map(first_line).map_err(|error| error.to_string())
    }

    /// The whole answer to whom the certificate is of.
    pub(crate) fn try_read_at(&self, address: &str, path: &str) -> Result<String, String> {
        self.request(address, "localhost", path, true).map_err(|error| error.to_string())
    }

    /// The whole answer to whoever shows no certificate, or to the administrator.
    pub(crate) fn read_at(&self, address: &str, path: &str, as_admin: bool) -> String {
        self.request(address, "localhost", path, as_admin).expect("an answer")
    }

    /// The same authority, with the certificate of another kubeconfig.
    pub(crate) fn with_certificate_of(&self, other: &Kubeconfig) -> Self {
        Kubeconfig {
            server: self.server.clone(),
            ca: self.ca.clone(),
            cert: other.cert.clone(),
            key: other.key.clone(),
        }
    }

    /// The same with another certificate to show.
    pub(crate) fn with_certificate(&self, cert: &str, key: &str) -> Self {
        Kubeconfig {
            server: self.server.clone(),
            ca: self.ca.clone(),
            cert: cert.as_bytes().to_vec(),
            key: key.as_bytes().to_vec(),
        }
    }

    /// A connection to `address`, which must show a certificate for `name`.
    pub(crate) fn connect(
        &self,
        address: &str,
        name: &str,
        as_admin: bool,
        versions: &[&'static SupportedProtocolVersion],
    ) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        for cert in CertificateDer::pem_slice_iter(&self.ca) {
            roots.add(cert.expect("PEM")).expect("a certificate");
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("known versions")
            .with_root_certificates(roots);
        let config = match as_admin {
            true => {
                let key = PrivateKeyDer::from_pem_slice(&self.key).expect("PEM");
                let cert = CertificateDer::from_pem_slice(&self.cert).expect("PEM");
                config.with_client_auth_cert(vec![cert], key).expect("they belong together")
            }
            false => config.with_no_client_auth(),
        };
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a good config");
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(DEADLINE))?;
        Ok(StreamOwned::new(connection, socket))
    }

    fn request(&self, address: &str, name: &str, path: &str, as_admin: bool) -> std::io::Result<String> {
        let mut stream = self.connect(address, name, as_admin, rustls::ALL_VERSIONS)?;
        write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n")?;
        let mut answer = vec![];
        match stream.read_to_end(&mut answer) {
            // Who hangs up without a word has still said what it has said.
            Err(error) if answer.is_empty() => Err(error),
            _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }
}

fn first_line(answer: String) -> String {
    answer.lines().next().unwrap_or_default().to_owned()
}

/// Where the kubeconfig is.
pub(crate) fn kubeconfig(directory: &Path) -> PathBuf {
    directory.join("windlass-data/admin.kubeconfig")
}
