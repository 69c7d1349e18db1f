//! Calls to a real HTTPS server.

#[path = "../../tests/it/hooks.rs"]
mod hooks;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use windlass_machinery::stored;
use windlass_store::{Expect, Memory, Store, Txn};

use self::hooks::{Hooks, Reply, Work};
use super::{Hook, Services, StoredServices, Webhooks};
use crate::resources::{Catalog, builtin};

const WITHIN: Duration = Duration::from_secs(10);

/// Every service is at one address, if there is one.
struct At(Option<SocketAddr>);

#[async_trait]
impl Services for At {
    async fn addresses(&self, namespace: &str, name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        self.0
            .map(|address| vec![address])
            .ok_or_else(|| format!("nothing is known of {namespace}/{name}:{port}"))
    }
}

fn nowhere() -> Webhooks {
    Webhooks::new(Arc::new(At(None)))
}

fn hook(config: Value) -> Hook {
    Hook::of(config.as_object().expect("an object")).expect("a usable configuration")
}

/// The webhook at its own address.
fn by_url(hooks: &Hooks) -> Hook {
    hook(json!({"url": format!("https://{}/ask", hooks.address), "caBundle": hooks.bundle()}))
}

fn echo() -> Work {
    Arc::new(|path, body| Reply::ok([path.as_bytes(), b" ", body].concat()))
}

async fn said(webhooks: &Webhooks, hook: &Hook) -> String {
    match webhooks.call(hook, Bytes::from("hello"), WITHIN, 1024).await {
        Ok(body) => String::from_utf8_lossy(&body).into_owned(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_webhook_is_told_how_long_it_may_take() {
    let hooks = Hooks::start(&["127.0.0.1"], echo()).await;
    assert_eq!(said(&nowhere(), &by_url(&hooks)).await, "/ask?timeout=10s hello");
    let config = json!({"url": format!("https://{}/ask?a=b", hooks.address), "caBundle": hooks.bundle()});
    assert_eq!(said(&nowhere(), &hook(config)).await, "/ask?a=b&timeout=10s hello");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let hooks = Hooks::start(&["127.0.0.1"], echo()).await;
    let webhooks = nowhere();
    for _ in 0..5 {
        said(&webhooks, &by_url(&hooks)).await;
    }
    assert_eq!((hooks.connections(), hooks.requests()), (1, 5));
}

#[tokio::test]
async fn only_the_given_authority_is_trusted() {
    let hooks = Hooks::start(&["127.0.0.1"], echo()).await;
    let other = Hooks::start(&["127.0.0.1"], echo()).await;
    let config = |bundle: Value| json!({"url": format!("https://{}/ask", hooks.address), "caBundle": bundle});
    let refused = said(&nowhere(), &hook(config(other.bundle().into()))).await;
    assert!(refused.contains("certificate"), "{refused}");
    let refused = said(&nowhere(), &hook(config(Value::Null))).await;
    assert!(
        refused.starts_with("Post \"https://127.0.0.1:") || refused.contains("clientConfig"),
        "{refused}"
    );
    assert_eq!(hooks.requests(), 0);
}

#[tokio::test]
async fn the_name_in_the_certificate_must_be_the_one_that_was_called() {
    let hooks = Hooks::start(&["elsewhere.example.com"], echo()).await;
    let refused = said(&nowhere(), &by_url(&hooks)).await;
    assert!(refused.contains("not valid for name"), "{refused}");
    let own = Hooks::start_self_signed(&["elsewhere.example.com"], echo()).await;
    let refused = said(&nowhere(), &by_url(&own)).await;
    assert!(refused.contains("not valid for name"), "{refused}");
}

#[tokio::test]
async fn a_certificate_can_be_its_own_authority() {
    let hooks = Hooks::start_self_signed(&["127.0.0.1"], echo()).await;
    assert_eq!(said(&nowhere(), &by_url(&hooks)).await, "/ask?timeout=10s hello");
}

#[tokio::test]
async fn a_slow_webhook_is_given_up() {
    let slow: Work = Arc::new(|_, _| Reply { after: Duration::from_secs(60), ..Reply::ok("") });
    let hooks = Hooks::start(&["127.0.0.1"], slow).await;
    let outcome = nowhere().call(&by_url(&hooks), Bytes::new(), Duration::from_millis(300), 10).await;
    let error = outcome.expect_err("no answer").to_string();
    assert!(error.ends_with("/ask?timeout=1s\": context deadline exceeded"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_told_by_address() {
    let address = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("an address")
    };
    let config = json!({"url": format!("https://{address}/x")});
    let error = said(&nowhere(), &hook(config)).await;
    assert!(error.contains(&format!("dial tcp {address}")), "{error}");
    let error = said(&nowhere(), &hook(json!({"url": "https://nobody.invalid/x"}))).await;
    assert!(error.contains("lookup nobody.invalid"), "{error}");
}

#[tokio::test]
async fn a_large_answer_is_not_taken() {
    let large: Work = Arc::new(|_, _| Reply::ok(vec![b'x'; 5000]));
    let hooks = Hooks::start(&["127.0.0.1"], large).await;
    let error = said(&nowhere(), &by_url(&hooks)).await;
    assert!(error.contains("the answer has more than 1024 bytes"), "{error}");
}

#[tokio::test]
async fn redirects_and_errors_are_no_answers() {
    let away: Work = Arc::new(|_, _| Reply {
        code: 307,
        location: Some("https://127.0.0.1:1/".to_owned()),
        ..Reply::ok("over there")
    });
    let hooks = Hooks::start(&["127.0.0.1"], away).await;
    let error = said(&nowhere(), &by_url(&hooks)).await;
    let said_so =
        "the server answered 307, a redirect to \"https://127.0.0.1:1/\", and redirects are not followed";
    assert!(error.contains(said_so), "{error}");
    let broken: Work = Arc::new(|_, _| Reply { code: 500, ..Reply::ok(vec![b'x'; 100_000]) });
    let hooks = Hooks::start(&["127.0.0.1"], broken).await;
    let error = said(&nowhere(), &by_url(&hooks)).await;
    assert!(error.contains("the server answered 500") && error.len() < 1000, "{error}");
}

#[tokio::test]
async fn a_service_is_called_by_its_name_and_found_elsewhere() {
    let hooks = Hooks::start(&["hook.tools.svc"], echo()).await;
    let webhooks = Webhooks::new(Arc::new(At(Some(hooks.address))));
    let config = json!({
        "service": {"namespace": "tools", "name": "hook", "path": "/ask", "port": 8443}, "caBundle": hooks.bundle(),
    });
    assert_eq!(said(&webhooks, &hook(config.clone())).await, "/ask?timeout=10s hello");
    let error = said(&nowhere(), &hook(config)).await;
    assert_eq!(
        error,
        "Post \"https://hook.tools.svc:8443/ask?timeout=10s\": nothing is known of tools/hook:8443"
    );
}

#[tokio::test]
async fn paths_are_cleaned_as_gos_client_does_it() {
    let hooks = Hooks::start(&["127.0.0.1", "hook.tools.svc"], echo()).await;
    let webhooks = Webhooks::new(Arc::new(At(Some(hooks.address))));
    for (path, called) in [
        ("", "/"),
        ("/", "/"),
        ("//failing", "/failing"),
        ("/a/", "/a"),
        ("/a//b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/./b", "/a/b"),
        ("/../a", "/a"),
        ("/a%2Fb", "/a/b"),
        ("/a%20b", "/a%20b"),
    ] {
        let url = json!({"url": format!("https://{}{path}", hooks.address), "caBundle": hooks.bundle()});
        assert_eq!(said(&webhooks, &hook(url)).await, format!("{called}?timeout=10s hello"), "{path}");
        let service = json!({"namespace": "tools", "name": "hook", "path": path});
        let service = json!({"service": service, "caBundle": hooks.bundle()});
        assert_eq!(said(&webhooks, &hook(service)).await, format!("{called}?timeout=10s hello"), "{path}");
    }
}

#[test]
fn unusable_configurations_say_why() {
    for (config, why) in [
        (json!({}), "neither url nor service"),
        (json!({"url": "http://a.b/"}), "no https URL"),
        (json!({"url": "https://a b/"}), "no URL"),
        (json!({"url": "https://a.b/", "caBundle": "%"}), "not base64"),
    ] {
        let error = Hook::of(config.as_object().expect("an object")).expect_err("unusable").to_string();
        assert!(error.contains(why), "{config}: {error}");
    }
}

#[tokio::test]
async fn services_are_found_by_what_is_stored_about_them() {
    let catalog = Arc::new(Catalog::new(builtin::rows()));
    let store = Arc::new(Memory::new().expect("a store"));
    let put = |group: &'static str, plural: &'static str, object: Value| {
        let object = object.as_object().cloned().expect("an object");
        let row = catalog.get(group, plural).expect("a row");
        let key = row.key("a", object["metadata"]["name"].as_str().unwrap_or_default());
        let store = Arc::clone(&store);
        async move {
            store.commit(Txn::new().put(key, stored::encode(&object), Expect::Any)).await.expect("a commit");
        }
    };
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let ports = json!([{"name": "web", "port": 443, "targetPort": 9443}]);
    put("", "services", service("own", json!({"clusterIP": "10.96.0.7", "ports": ports}))).await;
    put("", "services", service("headless", json!({"clusterIP": "None", "ports": ports}))).await;
    put("", "services", service("backed", json!({"clusterIP": "10.96.0.8", "ports": ports}))).await;
    put("", "services", service("outside", json!({"type": "ExternalName", "externalName": "localhost"})))
        .await;
    let slice = json!({
        "metadata": {"name": "backed-1", "labels": {"kubernetes.io/service-name": "backed"}},
        "endpoints": [
            {"addresses": ["192.0.2.1"], "conditions": {"ready": true}},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": false}},
        ],
        "ports": [{"name": "other", "port": 1}, {"name": "web", "port": 9443}],
    });
    put("discovery.k8s.io", "endpointslices", slice).await;
    let endpoints = json!({
        "metadata": {"name": "backed"},
        "subsets": [{"addresses": [{"ip": "192.0.2.3"}], "ports": [{"name": "web", "port": 9444}]}],
    });
    put("", "endpoints", endpoints).await;
    let services = StoredServices { store, catalog };
    let mut found = services.addresses("a", "backed", 443).await.expect("addresses");
    found.sort();
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["192.0.2.1:9443", "192.0.2.3:9444"]);
    assert_eq!(
        services.addresses("a", "own", 443).await.expect("an address")[0].to_string(),
        "10.96.0.7:443"
    );
    assert!(services.addresses("a", "outside", 443).await.expect("an address")[0].ip().is_loopback());
    for (name, port, why) in [
        ("absent", 443, "service \"a/absent\" not found"),
        ("own", 444, "no service port 444 found for service \"a/own\""),
        ("headless", 443, "no endpoints available for service \"a/headless\""),
    ] {
        assert_eq!(services.addresses("a", name, port).await.expect_err("nowhere"), why);
    }
}
