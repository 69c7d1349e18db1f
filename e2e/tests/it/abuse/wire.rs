//! Connections as no library makes them: TLS, and then bytes or frames one by one.

use std::{fs, sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use windlass_e2e::Server;

/// How a connection ends that begins HTTP/2.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Kinds of frames.
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Flags of frames.
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Whether a client shows the administrator's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum As {
    Admin,
    Nobody,
}

/// What is needed to connect.
#[derive(Clone)]
pub(super) struct Dialer {
    address: String,
    kubeconfig: String,
}

impl Dialer {
    pub(super) fn of(server: &Server) -> Self {
        let kubeconfig = fs::read_to_string(server.kubeconfig()).expect("the server wrote it");
        Dialer { address: server.address().to_owned(), kubeconfig }
    }

    fn field(&self, name: &str) -> Vec<u8> {
        let line = self.kubeconfig.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
        BASE64_STANDARD.decode(line.expect("it is complete")).expect("base64")
    }

    pub(super) async fn tcp(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.expect("it listens")
    }

    pub(super) async fn tls(&self, who: As, protocol: &str) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(&self.field("certificate-authority-data")).expect("PEM");
        roots.add(ca).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("known versions")
            .with_root_certificates(roots);
        let mut config = match who {
            As::Nobody => config.with_no_client_auth(),
            As::Admin => {
                let cert = CertificateDer::from_pem_slice(&self.field("client-certificate-data"));
                let key = PrivateKeyDer::from_pem_slice(&self.field("client-key-data"));
                let both = config.with_client_auth_cert(vec![cert.expect("PEM")], key.expect("PEM"));
                both.expect("they belong together")
            }
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from("localhost").expect("a name");
        let connected = TlsConnector::from(Arc::new(config)).connect(name, self.tcp().await).await;
        connected.expect("a handshake")
    }

    /// A connection that speaks HTTP/2, with these settings.
    pub(super) async fn http2(&self, who: As, settings: &[(u16, u32)]) -> TlsStream<TcpStream> {
        let mut stream = self.tls(who, "h2").await;
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()[..]].concat())
            .collect();
        let mut beginning = PREFACE.to_vec();
        beginning.extend(frame(SETTINGS, 0, 0, &settings));
        stream.write_all(&beginning).await.expect("it reads");
        stream
    }
}

/// One frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small frame").to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The block of headers of a request, nothing compressed.
pub(super) fn request(method: &str, path: &str) -> Vec<u8> {
    let fields = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

/// One header that is not remembered.
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for text in [name, value] {
        field.push(u8::try_from(text.len()).ok().filter(|n| *n < 127).expect("a short text"));
        field.extend(text.as_bytes());
    }
    field
}

/// Sends `next` again and again, reading whatever comes, until the other side ends it; how long that took.
pub(super) async fn until_cut(
    stream: TlsStream<TcpStream>,
    pause: Duration,
    mut next: impl FnMut() -> Vec<u8>,
) -> Option<Duration> {
    let begun = Instant::now();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let reading = async {
        let mut buffer = vec![0; 16 * 1024];
        while matches!(reader.read(&mut buffer).await, Ok(1..)) {}
    };
    let writing = async {
        loop {
            let bytes = next();
            if !bytes.is_empty() && (writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err())
            {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    };
    let ended = async {
        tokio::select! {
            () = reading => {}
            () = writing => {}
        }
    };
    tokio::time::timeout(super::GIVEN_UP, ended).await.ok().map(|()| begun.elapsed())
}
