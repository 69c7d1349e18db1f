//! HTTP/2: answers without bodies, and answers that come before what was sent is read.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use super::{TOKEN, Wire};
use crate::client::{CONFIG_MAPS, DEADLINE};

/// A connection over which requests are sent.
struct Http2(http2::SendRequest<Full<Bytes>>);

impl Wire {
    async fn http2(&self) -> Http2 {
        let io = TokioIo::new(self.connect().await);
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), io).await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        Http2(sender)
    }
}

impl Http2 {
    async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Response<Bytes> {
        let mut request = Request::builder().method(method).uri(format!("http://localhost{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = async {
            let request = request.body(Full::new(body)).expect("a request");
            let response: Response<Incoming> = self.0.send_request(request).await?;
            let (head, body) = response.into_parts();
            Ok::<_, hyper::Error>(Response::from_parts(head, body.collect().await?.to_bytes()))
        };
        let answer = tokio::time::timeout(DEADLINE, answer).await.expect("an answer");
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_has_the_headers_of_a_get_and_no_body() {
    let wire = Wire::start().await;
    wire.client.config_map("a", json!({})).await;
    let mut http2 = wire.http2().await;
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    for path in
        ["/healthz", "/livez/ping", "/version", "/api", "/openapi/v3", "/metrics", CONFIG_MAPS, "/nothing"]
    {
        let get = http2.send("GET", path, &headers, Bytes::new()).await;
        let head = http2.send("HEAD", path, &headers, Bytes::new()).await;
        assert_eq!((head.status(), head.body().len()), (get.status(), 0), "{path}");
        assert_eq!(head.headers().get("content-type"), get.headers().get("content-type"), "{path}");
        if path != "/metrics" {
            assert_eq!(head.headers().get("content-length"), get.headers().get("content-length"), "{path}");
        }
    }
}

/// client-go asks `HEAD /livez/ping` and looks for these headers to decide whether to throttle itself.
#[tokio::test]
async fn every_answer_says_how_it_was_classified() {
    let client = crate::client::Client::new().await;
    let uid = async |kind: &str, name: &str| {
        let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/{kind}/{name}");
        client.get(&path).await.ok()["metadata"]["uid"].as_str().expect("a uid").to_owned()
    };
    let exempt = (uid("flowschemas", "exempt").await, uid("prioritylevelconfigurations", "exempt").await);
    let probes = (uid("flowschemas", "probes").await, exempt.1.clone());
    let global_default = (
        uid("flowschemas", "global-default").await,
        uid("prioritylevelconfigurations", "global-default").await,
    );
    let nobody = client.anonymous();
    for (client, method, path, (schema, level)) in [
        (&client, "HEAD", "/livez/ping", &exempt),
        (&client, "GET", "/version", &exempt),
        (&client, "GET", "/nothing", &exempt),
        (&client, "GET", CONFIG_MAPS, &exempt),
        (&nobody, "HEAD", "/livez/ping", &global_default),
        (&nobody, "GET", "/livez/ping", &probes),
        (&nobody, "GET", "/healthz", &probes),
        (&nobody, "GET", "/readyz/etcd", &probes),
        (&nobody, "GET", "/version", &global_default),
        (&nobody, "GET", CONFIG_MAPS, &global_default),
    ] {
        let answer = client.send(method, path, &[], "").await;
        let told =
            ["flowschema", "prioritylevel"].map(|kind| answer.header(&format!("x-kubernetes-pf-{kind}-uid")));
        assert_eq!(told, [schema.as_str(), level.as_str()], "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_arrive_that_come_before_the_body_is_read() {
    let wire = Wire::start().await;
    let mut http2 = wire.http2().await;
    let body = Bytes::from(vec![b'x'; 4 << 20]);
    let bearer = format!("Bearer {TOKEN}");
    let known = ("authorization", bearer.as_str());
    let json_type = ("content-type", "application/json");
    for (method, path, headers, code) in [
        ("POST", CONFIG_MAPS, vec![known, json_type], 413),
        ("POST", "/nothing", vec![known, json_type], 404),
        ("POST", CONFIG_MAPS, vec![("authorization", "Bearer nobody"), json_type], 401),
        ("POST", CONFIG_MAPS, vec![known, ("content-type", "text/plain")], 413),
        ("POST", "/version", vec![known, json_type], 405),
        ("GET", CONFIG_MAPS, vec![known], 200),
    ] {
        // A refused stranger's connection ends, so each has its own.
        let answer = wire.http2().await.send(method, path, &headers, body.clone()).await;
        assert_eq!(answer.status(), code, "{method} {path}");
        let told: Value = serde_json::from_slice(answer.body()).expect("a whole answer");
        assert!(told["kind"].is_string(), "{told}");
    }
    assert_eq!(http2.send("GET", CONFIG_MAPS, &[known], Bytes::new()).await.status(), 200);
}
