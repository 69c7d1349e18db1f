//! A client without a network: requests go straight into the server's handler.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_access::authn::Peer;
use windlass_apiserver::{ApiServer, Body, Config, admission::User};
use windlass_store::{CommitError, Memory, Read, ReadError, Revision, Snapshot, Store, Txn, Watch, Window};

/// How long a test waits for something that should happen at once.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Someone who talks to a server.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) server: Arc<ApiServer>,
    pub(crate) store: Arc<Memory>,
    user: Option<Arc<User>>,
}

/// A store whose watches on definitions begin when they may.
struct Deaf {
    store: Arc<Memory>,
    hears_rx: watch::Receiver<bool>,
}

#[async_trait]
impl Store for Deaf {
    async fn commit(&self, txn: Txn) -> Result<Revision, CommitError> {
        self.store.commit(txn).await
    }

    async fn snapshot(&self, read: Read) -> Result<Snapshot, ReadError> {
        self.store.snapshot(read).await
    }

    async fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watch, ReadError> {
        if prefix.ends_with(b"customresourcedefinitions/") {
            let _ = self.hears_rx.clone().wait_for(|hears| *hears).await;
        }
        self.store.watch(prefix, after).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), ReadError> {
        self.store.compact(revision).await
    }

    fn window(&self) -> Window {
        self.store.window()
    }

    async fn stopped(&self) -> Arc<str> {
        self.store.stopped().await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

/// What the server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// What was asked, for messages.
    asked: String,
}

impl Client {
    /// An administrator of a new server.
    pub(crate) async fn new() -> Self {
        Self::with(Config::default()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let store = Arc::new(Memory::new().expect("a store in memory"));
        let server = ApiServer::start(config, Arc::clone(&store) as _).await.expect("the server starts");
        Client { server, store, user: None }.as_user("admin", &["system:masters"])
    }

    /// Another server on the same store.
    pub(crate) async fn beside(&self) -> Self {
        self.beside_with(Config::default()).await
    }

    /// Another server on the same store, with settings of its own.
    pub(crate) async fn beside_with(&self, config: Config) -> Self {
        let store = Arc::clone(&self.store);
        let server = ApiServer::start(config, Arc::clone(&store) as _).await.expect("the server starts");
        Client { server, store, user: self.user.clone() }
    }

    /// Another server on the same store that hears nothing of definitions until it is told to.
    pub(crate) async fn deaf(&self) -> (Self, watch::Sender<bool>) {
        let (hears_tx, hears_rx) = watch::channel(false);
        let store = Arc::clone(&self.store);
        let deaf = Arc::new(Deaf { store: Arc::clone(&store), hears_rx });
        let server = ApiServer::start(Config::default(), deaf).await.expect("the server starts");
        (Client { server, store, user: self.user.clone() }, hears_tx)
    }

    /// A server that takes over the store of this one, which stops.
    pub(crate) async fn restarted(&self) -> Self {
        self.server.begin_drain();
        self.beside().await
    }

    /// The same server, seen by someone else.
    pub(crate) fn as_user(&self, name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(ToString::to_string).collect();
        let user = User::new(name, groups).authenticated();
        Client { user: Some(Arc::new(user)), ..self.clone() }
    }

    /// The same server, seen by nobody in particular.
    pub(crate) fn anonymous(&self) -> Self {
        Client { user: None, ..self.clone() }
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(user) = &self.user {
            let peer = Peer { certificate: Some(Arc::clone(user)), ..Peer::default() };
            request = request.extension(peer);
        }
        request.body(Full::new(body)).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let response = self.server.handle(self.request(method, path, headers, body.into())).await;
        read(response, method, path).await
    }

    /// Sends a request that is expected to be refused; only the code when it is not.
    pub(crate) async fn provoke(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, u16> {
        let response = self.server.handle(self.request(method, path, headers, body.into())).await;
        match response.status().as_u16() {
            // A watch that is taken would not end.
            taken @ ..400 => Err(taken),
            _ => Ok(read(response, method, path).await),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, object: Value) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], object.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, object: Value) -> Answer {
        self.send("PUT", path, &[("content-type", "application/json")], object.to_string()).await
    }

    /// `kind` is `json`, `merge`, `strategic` or `apply`.
    pub(crate) async fn patch(&self, kind: &str, path: &str, patch: Value) -> Answer {
        self.send("PATCH", path, &[("content-type", patch_type(kind))], patch.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str, options: Value) -> Answer {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        self.send("DELETE", path, &[("content-type", "application/json")], body).await
    }

    /// Begins a watch.
    pub(crate) async fn watch(&self, path: &str, headers: &[(&str, &str)]) -> Lines {
        let response = self.server.handle(self.request("GET", path, headers, Bytes::new())).await;
        assert_eq!(response.status().as_u16(), 200, "watch {path}");
        Lines { body: response.into_body(), rest: vec![] }
    }

    /// Sends a request and leaves the answer unread.
    pub(crate) async fn open(&self, path: &str) -> http::Response<Body> {
        self.server.handle(self.request("GET", path, &[], Bytes::new())).await
    }

    /// Creates a namespace.
    pub(crate) async fn namespace(&self, name: &str) -> Value {
        self.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.created()
    }

    /// Creates a config map in `default`.
    pub(crate) async fn config_map(&self, name: &str, data: Value) -> Value {
        self.post(CONFIG_MAPS, json!({"metadata": {"name": name}, "data": data})).await.created()
    }

    /// Requests that panicked so far.
    pub(crate) async fn panics(&self) -> u64 {
        let metrics = self.get("/metrics").await.text();
        let line = metrics.lines().find_map(|line| line.strip_prefix("apiserver_request_panics_total"));
        line.expect("panics are counted").trim().parse().expect("a number")
    }

    /// The revision of the store.
    pub(crate) async fn revision(&self) -> u64 {
        let list = self.get("/api/v1/namespaces?limit=1").await.ok();
        list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a revision")
    }
}

async fn read(response: http::Response<Body>, method: &str, path: &str) -> Answer {
    let (head, body) = response.into_parts();
    let whole = tokio::time::timeout(DEADLINE, body.collect()).await;
    let whole = whole.unwrap_or_else(|_| panic!("{method} {path} does not end"));
    let shown: String = path.chars().take(300).collect();
    Answer {
        code: head.status.as_u16(),
        headers: head.headers,
        body: whole.expect("bodies cannot fail").to_bytes(),
        asked: format!("{method} {shown}"),
    }
}

/// Where config maps of `default` are.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Where pods of `default` are.
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// The media type of a patch.
pub(crate) fn patch_type(kind: &str) -> &'static str {
    match kind {
        "json" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => panic!("no patch is called {other}"),
    }
}

/// A pod with one container.
pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// A deployment of one container.
pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

/// The revision of an object.
pub(crate) fn revision_of(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no resourceVersion in {object}"))
}

/// The names of a list's items.
pub(crate) fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.asked, self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The warnings, without their quotes.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let values = self.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
        let unquoted = values.filter_map(|text| text.strip_prefix("299 - \"")?.strip_suffix('"'));
        unquoted.map(|text| text.replace("\\\"", "\"")).collect()
    }

    #[track_caller]
    fn expect(&self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}: {}", self.asked, self.text());
        self.json()
    }

    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        self.expect(200)
    }

    #[track_caller]
    pub(crate) fn created(&self) -> Value {
        self.expect(201)
    }

    /// The `Status` of a refusal; what must hold of every such answer is checked.
    #[track_caller]
    pub(crate) fn refused(&self, code: u16, reason: &str) -> Value {
        let status = self.status();
        assert_eq!(
            (self.code, status["reason"].as_str().unwrap_or_default()),
            (code, reason),
            "{}: {status}",
            self.asked
        );
        status
    }

    /// The `Status` of a failure.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        let asked = &self.asked;
        let Ok(status) = serde_json::from_slice::<Value>(&self.body) else {
            panic!("{asked}: {} is answered by no JSON: {:?}", self.code, self.body)
        };
        assert_eq!(self.header("content-type"), "application/json", "{asked}: {status}");
        assert_eq!(
            (&status["kind"], &status["apiVersion"]),
            (&json!("Status"), &json!("v1")),
            "{asked}: {status}"
        );
        assert_eq!(status["status"], "Failure", "{asked}: {status}");
        assert_eq!(status["code"], self.code, "{asked}: {status}");
        assert!(status["metadata"].is_object(), "{asked}: {status}");
        assert!(status["message"].as_str().is_some_and(|text| !text.is_empty()), "{asked}: {status}");
        let parsed: Result<k8s_openapi::apimachinery::pkg::apis::meta::v1::Status, _> =
            serde_json::from_value(status.clone());
        assert!(parsed.is_ok(), "{asked}: {parsed:?}");
        if let Some(seconds) = status["details"]["retryAfterSeconds"].as_u64().filter(|seconds| *seconds > 0)
        {
            assert_eq!(self.header("retry-after"), seconds.to_string(), "{asked}");
        }
        status
    }
}

/// The events of a watch.
pub(crate) struct Lines {
    body: Body,
    rest: Vec<u8>,
}

impl Lines {
    /// The next event; `None` when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("every line is JSON"));
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame())
                .await
                .expect("an event within the deadline")?;
            let data = frame.expect("bodies cannot fail").into_data().expect("data");
            self.rest.extend_from_slice(&data);
        }
    }

    /// The type and the name of the next event.
    pub(crate) async fn step(&mut self) -> (String, String) {
        let event = self.next().await.expect("the watch goes on");
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        (event["type"].as_str().unwrap_or_default().to_owned(), name.to_owned())
    }
}
