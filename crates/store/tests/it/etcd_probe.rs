//! A second opinion: etcd's own data, read through its JSON gateway and none of the engine's code.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// One change as etcd tells it. Without a value, a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) key: String,
    pub(crate) value: Option<String>,
    pub(crate) revision: u64,
}

/// A client of the JSON gateway.
pub(crate) struct Probe {
    port: u16,
}

impl Probe {
    pub(crate) fn new(port: u16) -> Self {
        Probe { port }
    }

    /// Whether anyone listens.
    pub(crate) async fn connects(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).await.is_ok()
    }

    /// etcd's revision, if it answers.
    pub(crate) async fn revision(&self) -> Option<u64> {
        let answer = self.try_call("kv/range", json!({ "key": text("probe") })).await?;
        Some(number(&answer["header"]["revision"]))
    }

    /// Writes a key, and returns the revision.
    pub(crate) async fn put(&self, key: &str, value: &str) -> u64 {
        let answer = self.call("kv/put", json!({ "key": text(key), "value": text(value) })).await;
        number(&answer["header"]["revision"])
    }

    /// Compacts everything before `revision`.
    pub(crate) async fn compact(&self, revision: u64) {
        self.call("kv/compaction", json!({ "revision": revision.to_string() })).await;
    }

    /// All keys with this prefix and their values.
    pub(crate) async fn list(&self, prefix: &str) -> Vec<Told> {
        let request = json!({ "key": text(prefix), "range_end": text(&end_of(prefix)) });
        let answer = self.call("kv/range", request).await;
        answer["kvs"].as_array().into_iter().flatten().map(|kv| told(kv, false)).collect()
    }

    /// Every change under this prefix since the beginning, the last being one that this makes itself.
    pub(crate) async fn history(&self, prefix: &str) -> Vec<Told> {
        let sentinel = self.put(&format!("{prefix}~sentinel"), "").await;
        let create =
            json!({ "key": text(prefix), "range_end": text(&end_of(prefix)), "start_revision": "1" });
        let mut lines = self.post("watch", json!({ "create_request": create })).await.unwrap().lines();
        let mut history = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            let Ok(answer) = serde_json::from_str::<Value>(&line) else { continue };
            for event in answer["result"]["events"].as_array().into_iter().flatten() {
                history.push(told(&event["kv"], event["type"] == "DELETE"));
                if history.last().is_some_and(|change| change.revision == sentinel) {
                    return history;
                }
            }
        }
        panic!("etcd ended the watch before revision {sentinel}");
    }

    /// How many requests of this method etcd has begun to answer.
    pub(crate) async fn n_requests(&self, method: &str) -> u64 {
        let mut metrics = String::new();
        let head = "GET /metrics HTTP/1.0\r\n\r\n".to_owned();
        self.send(head).await.unwrap().read_to_string(&mut metrics).await.unwrap();
        let name = format!("grpc_server_started_total{{grpc_method=\"{method}\"");
        let line = metrics.lines().find(|line| line.starts_with(&name)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64
    }

    /// Any other call.
    pub(crate) async fn call(&self, path: &str, request: Value) -> Value {
        let answer = self.try_call(path, request).await.unwrap_or_else(|| panic!("no answer to {path}"));
        assert!(answer.get("header").is_some(), "{path}: {answer}");
        answer
    }

    /// Whether a call is answered with an error that says this.
    pub(crate) async fn refuses(&self, path: &str, request: Value, why: &str) -> bool {
        let answer = self.try_call(path, request).await.unwrap_or_default();
        answer.get("header").is_none() && answer.to_string().contains(why)
    }

    async fn try_call(&self, path: &str, request: Value) -> Option<Value> {
        let mut body = String::new();
        self.post(path, request).await?.read_to_string(&mut body).await.ok()?;
        serde_json::from_str(body.split_once("\r\n\r\n")?.1).ok()
    }

    async fn post(&self, path: &str, request: Value) -> Option<BufReader<TcpStream>> {
        let body = request.to_string();
        let n_bytes = body.len();
        self.send(format!("POST /v3/{path} HTTP/1.0\r\nContent-Length: {n_bytes}\r\n\r\n{body}")).await
    }

    /// Sends a request in HTTP/1.0, where the answer comes as it is, not in chunks, and ends the connection.
    async fn send(&self, request: String) -> Option<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        Some(BufReader::new(stream))
    }
}

fn told(kv: &Value, deleted: bool) -> Told {
    let decode = |value: &Value| {
        let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let value = (!deleted).then(|| decode(&kv["value"]));
    Told { key: decode(&kv["key"]), value, revision: number(&kv["mod_revision"]) }
}

fn text(text: &str) -> String {
    STANDARD.encode(text)
}

fn number(value: &Value) -> u64 {
    value.as_str().map_or(0, |digits| digits.parse().unwrap())
}

/// The first key after those that start with `prefix`, which ends with an ASCII character.
fn end_of(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    let last = end.pop().unwrap();
    end.push(char::from(last as u8 + 1));
    end
}
