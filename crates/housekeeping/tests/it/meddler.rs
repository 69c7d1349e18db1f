//! Someone between a client and the server, who sees what is asked, and meddles.

use std::{future::Future, sync::Arc};

use http::{Method, Request, Response, Uri, header::ACCEPT};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) accept: String,
}

impl Asked {
    fn of(request: &Request<Body>) -> Self {
        let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
        Asked {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            accept: accept.unwrap_or_default().to_owned(),
        }
    }

    pub(crate) fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path == path
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.method == Method::GET && self.query.contains("watch=true")
    }
}

/// What becomes of a request.
pub(crate) enum Fate {
    /// The server answers it.
    Passes,
    /// The server answers it; if it is a watch, for a second.
    PassesShortly,
    /// This is the answer.
    Answered(u16, Value),
}

/// What was asked so far.
pub(crate) type Log = Arc<Mutex<Vec<Asked>>>;

/// A client whose requests are meddled with, and what it asks.
pub(crate) fn meddled<F, Fut>(client: &Client, meddle: F) -> (Client, Log)
where
    F: Fn(Asked) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Fate> + Send + 'static,
{
    let log = Log::default();
    let (client, meddle, asked_so_far) = (client.clone(), Arc::new(meddle), Arc::clone(&log));
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let (client, meddle, log) = (client.clone(), Arc::clone(&meddle), Arc::clone(&asked_so_far));
        async move {
            let asked = Asked::of(&request);
            log.lock().push(asked.clone());
            match meddle(asked).await {
                Fate::Passes => {}
                Fate::PassesShortly => {
                    let uri = request.uri().to_string().replace("timeoutSeconds=290", "timeoutSeconds=1");
                    *request.uri_mut() = uri.parse::<Uri>().expect("an address");
                }
                Fate::Answered(code, answer) => {
                    let body = Body::from(format!("{answer}\n").into_bytes());
                    return Ok(Response::builder().status(code).body(body).expect("an answer"));
                }
            }
            client.send(request).await
        }
    });
    (Client::new(service, "default"), log)
}

/// Nothing becomes of a request but what should.
pub(crate) async fn pass(_: Asked) -> Fate {
    Fate::Passes
}

/// A refusal.
pub(crate) fn refused(code: u16, reason: &str, message: &str) -> Fate {
    Fate::Answered(code, status(code, reason, message))
}

pub(crate) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code})
}
