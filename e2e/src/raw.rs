//! Requests as they go over the wire, for what no client library would ask.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use futures_util::{AsyncBufReadExt, Stream, TryStreamExt, future};
use http::{Method, Request, StatusCode, header};
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

use crate::server::Server;

/// How long to leave a server alone that did not answer, so that those who ask again do not slow down its return.
const PAUSE: Duration = Duration::from_millis(20);

/// A page of what serves without TLS and asks nobody who they are.
///
/// # Panics
/// When there is no answer.
#[must_use]
#[track_caller]
pub fn page(address: &str, path: &str) -> String {
    let mut text = String::new();
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("somebody reads");
    stream.read_to_string(&mut text).expect("somebody answers");
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or(text)
}

/// Why a request got no answer. The server is away, or went away meanwhile.
#[derive(Debug)]
pub struct NoAnswer(pub kube::Error);

impl NoAnswer {
    async fn after_a_pause(error: kube::Error) -> Self {
        tokio::time::sleep(PAUSE).await;
        NoAnswer(error)
    }
}

/// A client that asks for exactly what it is told to.
#[derive(Clone)]
pub struct Raw {
    client: Client,
}

/// What the server said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub code: StatusCode,
    /// The object, list or Status.
    pub body: Value,
}

impl Server {
    /// A kube-rs client with connections of its own.
    ///
    /// # Panics
    /// Outside a runtime.
    pub async fn client(&self) -> Client {
        self.client_with(&self.kubeconfig()).await
    }

    /// The same with another kubeconfig.
    ///
    /// # Panics
    /// Outside a runtime.
    pub async fn client_with(&self, kubeconfig: &Path) -> Client {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("it is complete")).expect("it is valid")
    }

    /// The same for requests as they are.
    ///
    /// # Panics
    /// Outside a runtime.
    pub async fn raw(&self) -> Raw {
        Raw { client: self.client().await }
    }
}

impl Raw {
    /// Sends a request with a JSON body, `Value::Null` for none.
    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Answer, NoAnswer> {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = match body {
            Value::Null => Body::empty(),
            body => Body::from(serde_json::to_vec(body).expect("JSON")),
        };
        let request =
            Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content_type).body(body);
        let answered = async {
            let (head, body) = self.client.send(request.expect("a good path")).await?.into_parts();
            Ok((head.status, body.collect_bytes().await?))
        };
        match answered.await {
            Ok((code, bytes)) => {
                Ok(Answer { code, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
            }
            Err(error) => Err(NoAnswer::after_a_pause(error).await),
        }
    }

    /// Reads.
    pub async fn get(&self, path: &str) -> Result<Answer, NoAnswer> {
        self.send(Method::GET, path, &Value::Null).await
    }

    /// Asks for a watch and returns its lines as they come.
    pub async fn watch(
        &self,
        path: &str,
        accept: &str,
    ) -> Result<impl Stream<Item = Result<String, NoAnswer>> + Unpin + use<>, NoAnswer> {
        let request = Request::builder().uri(path).header(header::ACCEPT, accept).body(vec![]);
        let stream = match self.client.request_stream(request.expect("a good path")).await {
            Ok(stream) => stream,
            Err(error) => return Err(NoAnswer::after_a_pause(error).await),
        };
        // Where the connection breaks off in the middle of a line, that line never came.
        let lines = Box::pin(stream).lines().map_err(|error| NoAnswer(kube::Error::ReadEvents(error)));
        Ok(lines.try_filter(|line| future::ready(!line.is_empty())))
    }
}
