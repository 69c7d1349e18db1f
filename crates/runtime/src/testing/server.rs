//! An API server that is a map from paths to objects, with a network that a test makes as bad as it likes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

/// What the network does to a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// How long it takes to arrive, and the answer back.
    pub(crate) delays: (Duration, Duration),
    /// It never arrives.
    pub(crate) is_lost: bool,
    /// It arrives, and its answer does not.
    pub(crate) is_unanswered: bool,
    /// The server refuses it, with this code.
    pub(crate) refused: Option<u16>,
}

/// Says what happens to the next request.
pub(crate) type Forecast = Arc<dyn Fn(&Method, &str) -> Weather + Send + Sync>;

/// A request that a server has taken.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    revision: u64,
    taken: Vec<Taken>,
}

/// A server. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<State>>);

type Answer = (u16, Value);

fn failure(code: u16, reason: &str) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code});
    (code, status)
}

impl Server {
    /// A client in good weather.
    pub(crate) fn client(&self) -> Client {
        self.client_in(Arc::new(|_, _| Weather::default()))
    }

    /// A client whose requests meet whatever the forecast says.
    pub(crate) fn client_in(&self, forecast: Forecast) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, forecast) = (server.clone(), Arc::clone(&forecast));
            async move {
                let weather = forecast(request.method(), request.uri().path());
                sleep(weather.delays.0).await;
                if weather.is_lost {
                    return Err(std::io::Error::other("lost"));
                }
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = match weather.refused {
                    Some(code) => failure(code, "Refused"),
                    None => server.handle(&parts.method, parts.uri.path(), body),
                };
                sleep(weather.delays.1).await;
                if weather.is_unanswered {
                    return Err(std::io::Error::other("unanswered"));
                }
                let answer = Full::new(Bytes::from(answer.to_string()));
                Ok(Response::builder().status(code).body(answer).expect("an answer"))
            }
        });
        Client::new(service, "default")
    }

    /// An object.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().objects.get(path).cloned()
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Value> {
        self.0.lock().objects.values().cloned().collect()
    }

    /// Forgets all objects.
    pub(crate) fn clear(&self) {
        self.0.lock().objects.clear();
    }

    /// Everything that was written, since the last time this was asked.
    pub(crate) fn taken(&self) -> Vec<Taken> {
        std::mem::take(&mut self.0.lock().taken)
    }

    /// Takes a request as if it had come from a client.
    pub(crate) fn handle(&self, method: &Method, path: &str, body: Value) -> Answer {
        let mut state = self.0.lock();
        if method != Method::GET {
            state.taken.push(Taken { method: method.clone(), path: path.to_owned(), body: body.clone() });
        }
        let known = state.objects.get(path).cloned();
        match (method.as_str(), known) {
            ("GET", Some(object)) => (200, object),
            ("POST", _) => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
                match state.objects.contains_key(&path) {
                    true => failure(409, "AlreadyExists"),
                    false => (201, state.keep(path, body)),
                }
            }
            ("PUT", Some(object)) => {
                let (read, is) =
                    (&body["metadata"]["resourceVersion"], &object["metadata"]["resourceVersion"]);
                match read.is_null() || read == is {
                    true => (200, state.keep(path.to_owned(), body)),
                    false => failure(409, "Conflict"),
                }
            }
            ("DELETE", Some(object)) => {
                state.objects.remove(path);
                (200, object)
            }
            ("PATCH", Some(mut object)) => {
                merge(&mut object, body);
                (200, state.keep(path.to_owned(), object))
            }
            _ => failure(404, "NotFound"),
        }
    }
}

impl State {
    fn keep(&mut self, path: String, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.objects.insert(path, object.clone());
        object
    }
}

fn merge(into: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) => {
            for (name, value) in fields {
                merge(&mut into[name], value);
            }
        }
        value => *into = value,
    }
}
