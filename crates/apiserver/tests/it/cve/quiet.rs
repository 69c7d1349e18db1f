//! What must not be told: in logs, in metrics, to whoever reads them.

use std::{cell::RefCell, io, sync::OnceLock};

use serde_json::{Value, json};
use tracing_subscriber::{Layer, filter::dynamic_filter_fn, fmt, layer::SubscriberExt};

use crate::client::{CONFIG_MAPS, Client, PODS};

thread_local! {
    /// What is logged on this thread, which is the only one that a test has, since its test listens.
    static HEARD: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

struct Hear;

impl io::Write for Hear {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        HEARD.with_borrow_mut(|heard| heard.get_or_insert_default().extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hears everything that is logged on this thread from now on, as a person sees it.
///
/// One subscriber for all threads: what a thread without one meets first is taken for disabled everywhere.
fn listen() {
    static EARS: OnceLock<()> = OnceLock::new();
    EARS.get_or_init(|| {
        let is_heard = dynamic_filter_fn(|_, _| HEARD.with_borrow(Option::is_some));
        let lines = fmt::layer().with_ansi(false).with_writer(|| Hear).with_filter(is_heard);
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines))
            .expect("nobody else has set one");
        tracing::callsite::rebuild_interest_cache();
    });
    HEARD.set(Some(Vec::new()));
}

fn heard() -> String {
    String::from_utf8(HEARD.take().expect("it listens")).expect("log lines are text")
}

#[tokio::test]
async fn cve_2019_11250_credentials_and_secrets_are_in_no_log_and_no_metric() {
    listen();
    let client = Client::new().await;
    let canaries = ["canary-token", "canary-cookie", "Y2FuYXJ5LXNlY3JldA==", "canary-plain", "canary-review"];
    let headers = [("authorization", "Bearer canary-token"), ("cookie", "canary-cookie")];
    client.anonymous().send("GET", PODS, &headers, "").await.refused(401, "Unauthorized");
    client
        .anonymous()
        .send("GET", PODS, &[("authorization", "Basic canary-token")], "")
        .await
        .refused(401, "Unauthorized");
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}, "data": {"k": "Y2FuYXJ5LXNlY3JldA=="}, "stringData": {"l": "canary-plain"}});
    client.post(secrets, secret).await.created();
    client.get(secrets).await.ok();
    client.patch("merge", &format!("{secrets}/s"), json!({"stringData": {"m": "canary-plain"}})).await.ok();
    client.post(secrets, json!({"metadata": {"name": "t"}, "data": {"k": ["canary-plain"]}})).await;
    client.send("POST", secrets, &[("content-type", "application/json")], "{canary-plain").await;
    client
        .post("/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {"token": "canary-review"}}))
        .await;
    client.delete(&format!("{secrets}/s"), Value::Null).await.ok();
    let metrics = client.get("/metrics").await.text();
    let logs = heard();
    assert!(logs.contains(PODS), "nothing was logged: {logs}");
    for canary in canaries {
        for (what, text) in [("logs", &logs), ("metrics", &metrics)] {
            let line = text.lines().find(|line| line.contains(canary));
            assert_eq!(line, None, "{canary} in the {what}");
        }
    }
}

#[tokio::test]
async fn rustsec_2025_0055_what_clients_send_cannot_write_lines_or_colours_into_the_log() {
    listen();
    let client = Client::new().await;
    for path in [
        "/api/v1/namespaces/a%0Aforged%1b[31m/pods",
        "/x%0d%0aforged",
        "/api/v1/namespaces/default/pods/%1b]0;forged%07",
        "/x%E2%80%AEforged",
    ] {
        client.send("GET", path, &[("user-agent", "a\tforged"), ("audit-id", "x\tforged")], "").await;
    }
    let name = "a\nforged \u{1b}[31m\u{202e}";
    client
        .post(CONFIG_MAPS, json!({"metadata": {"name": name}, "data": {name: name}}))
        .await
        .refused(422, "Invalid");
    client.as_user(name, &[name]).get(PODS).await.refused(403, "Forbidden");
    client.post(&format!("{CONFIG_MAPS}?fieldManager=a%0Aforged"), json!({"metadata": {"name": "a"}})).await;
    let logs = heard();
    assert!(logs.contains("forged"), "nothing was logged: {logs}");
    let is_bad =
        |letter: char| letter != '\n' && (letter.is_control() || ('\u{202a}'..='\u{202e}').contains(&letter));
    assert_eq!(logs.lines().find(|line| line.contains(is_bad)), None);
    assert_eq!(logs.lines().find(|line| line.trim_start().starts_with("forged")), None);
}

#[tokio::test]
async fn cve_2020_8552_clients_do_not_make_metrics_grow() {
    let client = Client::new().await;
    let sizes = async |from: usize| {
        for number in from..from + 300 {
            let agent = format!("agent-{number}");
            let headers = [("user-agent", agent.as_str())];
            client.send("GET", &format!("/path-{number}"), &headers, "").await;
            client.send("GET", &format!("/apis/group{number}.example.com/v1/things"), &headers, "").await;
            client.send("GET", &format!("/api/v1/namespaces/ns-{number}/pods"), &headers, "").await;
            client.send("GET", &format!("{PODS}/p-{number}/sub-{number}"), &headers, "").await;
            client.send(&format!("METHOD{number}"), PODS, &headers, "").await;
            client.send(&format!("METHOD{number}"), "/x", &headers, "").await;
            client.as_user(&format!("user-{number}"), &[]).send("GET", PODS, &headers, "").await;
            client.send("GET", &format!("/healthz/check-{number}"), &headers, "").await;
            client.send("GET", &format!("{PODS}?limit={number}&fieldManager=m{number}"), &headers, "").await;
        }
        client.get("/metrics").await.text().lines().count()
    };
    client.get("/metrics").await;
    let first = sizes(0).await;
    let second = sizes(1_000).await;
    assert_eq!(first, second);
    assert!(second < 2_000, "{second}");
}
