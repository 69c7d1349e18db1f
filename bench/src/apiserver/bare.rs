//! The yardstick for answers: hyper and rustls with nothing behind them, in a process of its own, giving the same
//! bytes as the server does. What is sent to it with PUT goes to everyone who watches, as it is.

use std::{
    collections::HashMap, convert::Infallible, fs, io::Write, path::Path, pin::Pin, process::Command,
    sync::Arc,
};

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::PrivateKeyDer;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::broadcast,
};
use tokio_rustls::TlsAcceptor;

use super::{client::Endpoint, kubeconfig::Access};
use crate::{
    args::BareArgs,
    process::{Process, program},
};

/// The other process.
pub(crate) struct Bare {
    _process: Process,
    pub(crate) endpoint: Arc<Endpoint>,
}

impl Bare {
    /// Starts it; it answers `/NAME` with what stands in the file of that name in `folder`.
    pub(crate) fn start(folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program("windlass-bench")?);
        command.arg("bare").arg("--directory").arg(folder);
        let mut process = Process::spawn_to_read(&mut command)?;
        let line = process.line()?;
        let (address, certificate) =
            line.split_once(' ').context("an address and a certificate were expected")?;
        let access = Access {
            server: format!("https://{address}"),
            ca: BASE64_STANDARD.decode(certificate)?,
            identity: None,
            token: None,
        };
        let endpoint = Arc::new(Endpoint::new(&access, Some(process.id()))?);
        Ok(Bare { _process: process, endpoint })
    }
}

/// What the other process does: says where it is and what to believe, and answers until it is killed.
pub(crate) async fn bare(args: &BareArgs) -> anyhow::Result<()> {
    let mut answers = HashMap::new();
    for file in fs::read_dir(&args.directory)? {
        let file = file?;
        answers
            .insert(format!("/{}", file.file_name().to_string_lossy()), Bytes::from(fs::read(file.path())?));
    }
    let answers = Arc::new(answers);
    let (changes_tx, _) = broadcast::channel(CHANGES);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let identity = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let certificate = BASE64_STANDARD.encode(identity.cert.pem());
    let key = PrivateKeyDer::try_from(identity.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    writeln!(std::io::stdout(), "{} {certificate}", listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, acceptor.clone(), answers.clone(), changes_tx.clone()));
    }
}

/// Changes that a watcher may be behind.
const CHANGES: usize = 4096;

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    answers: Arc<HashMap<String, Bytes>>,
    changes_tx: broadcast::Sender<Bytes>,
) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        let (answers, changes_tx) = (answers.clone(), changes_tx.clone());
        async move {
            if request.uri().query().is_some_and(|query| query.contains("watch=1")) {
                return Ok::<_, Infallible>(Response::new(Either::Left(watch(changes_tx.subscribe()))));
            }
            let answer = answers.get(request.uri().path()).cloned();
            let is_change = request.method() == Method::PUT;
            // A body that is sent is also read.
            let sent = request.into_body().collect().await;
            if let Ok(sent) = sent
                && is_change
            {
                let _ = changes_tx.send(sent.to_bytes());
            }
            let mut response = Response::new(Either::Right(Full::new(answer.clone().unwrap_or_default())));
            if answer.is_none() && !is_change {
                *response.status_mut() = StatusCode::NOT_FOUND;
            }
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Ok(response)
        }
    });
    // Clients hang up when they are done.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

type Changes = Pin<Box<dyn stream::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;

fn watch(changes_rx: broadcast::Receiver<Bytes>) -> StreamBody<Changes> {
    StreamBody::new(Box::pin(stream::unfold(changes_rx, |mut changes_rx| async move {
        let change = changes_rx.recv().await.ok()?;
        Some((Ok(Frame::data(change)), changes_rx))
    })))
}
