//! Malformed requests, and what each of them is answered: the files in `corpus/` are the cases.
//!
//! A case is a line `METHOD PATH -> CODE REASON FRAGMENT`; lines below it that are indented are headers
//! (`Name: value`) or, after a bar, lines of the body. `PATCH+json`, `+merge` and `+strategic` stand for a PATCH of
//! that type; other bodies are JSON unless a header says otherwise. The answer is a `Status` with that code and
//! reason (`-`: none) whose message contains the fragment; ` && ` separates several. In paths and bodies,
//! `@(3*ab)@` stands for `ababab` and `@(hex ff00)@` for those bytes. `#` begins a comment.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Client, PODS, deployment, patch_type, pod};

const FILES: &[(&str, &str)] = &[
    ("bodies", include_str!("corpus/bodies.txt")),
    ("metadata", include_str!("corpus/metadata.txt")),
    ("types", include_str!("corpus/types.txt")),
    ("queries", include_str!("corpus/queries.txt")),
    ("selectors", include_str!("corpus/selectors.txt")),
    ("patches", include_str!("corpus/patches.txt")),
    ("paths", include_str!("corpus/paths.txt")),
    ("kinds", include_str!("corpus/kinds.txt")),
];

/// As many as the product promises.
const AT_LEAST: usize = 300;

#[derive(Debug)]
struct Case {
    place: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    code: u16,
    reason: String,
    fragments: Vec<String>,
}

fn cases(file: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = vec![];
    for (at, line) in text.lines().enumerate() {
        let place = format!("{file}.txt:{}", at + 1);
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with(' ') {
            cases.push(begin(place, line));
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| panic!("{place}: a line of no case"));
        let line = line.trim_start();
        match line.strip_prefix('|') {
            Some(body) => {
                if !case.body.is_empty() {
                    case.body.push(b'\n');
                }
                case.body.extend(expand(body.strip_prefix(' ').unwrap_or(body)));
            }
            None => {
                let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{place}: no header"));
                case.headers.push((name.to_owned(), String::from_utf8(expand(value)).expect("text")));
            }
        }
    }
    cases
}

fn begin(place: String, line: &str) -> Case {
    let (request, answer) = line.split_once(" -> ").unwrap_or_else(|| panic!("{place}: no answer"));
    let (method, path) = request.split_once(' ').unwrap_or_else(|| panic!("{place}: no path"));
    let mut answer = answer.splitn(3, ' ');
    let code = answer.next().and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{place}: no code"));
    let reason = answer.next().unwrap_or_else(|| panic!("{place}: no reason"));
    let fragments = answer.next().unwrap_or_else(|| panic!("{place}: no fragment"));
    let (method, headers) = match method.split_once('+') {
        Some((method, kind)) => (method, vec![("content-type".to_owned(), patch_type(kind).to_owned())]),
        None => (method, vec![]),
    };
    Case {
        place,
        method: method.to_owned(),
        path: String::from_utf8(expand(path)).expect("a path is text"),
        headers,
        body: vec![],
        code,
        reason: reason.trim_matches('-').to_owned(),
        fragments: fragments.split(" && ").map(str::to_owned).collect(),
    }
}

/// Writes out `@(3*ab)@` and `@(hex ff)@`.
fn expand(text: &str) -> Vec<u8> {
    let mut out = vec![];
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("@(") {
        out.extend_from_slice(before.as_bytes());
        let (macro_text, after) = after.split_once(")@").expect("an end");
        match macro_text.split_once('*') {
            Some((count, what)) => out.extend(what.repeat(count.parse().expect("a count")).bytes()),
            None => {
                let digits = macro_text.strip_prefix("hex ").expect("hex or a count").as_bytes();
                out.extend(digits.chunks(2).map(|pair| {
                    u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("hex digits")
                }));
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// A server with one object of each kind that the cases are about.
async fn world() -> Client {
    let client = Client::new().await;
    client.config_map("cm", json!({"a": "1"})).await;
    let fixed = json!({"metadata": {"name": "fixed"}, "immutable": true, "data": {"a": "1"}});
    client.post(CONFIG_MAPS, fixed).await.created();
    client.namespace("other").await;
    client
        .post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}))
        .await
        .created();
    client.post(PODS, pod("p")).await.created();
    client.post("/apis/apps/v1/namespaces/default/deployments", deployment("d")).await.created();
    let secret = json!({"metadata": {"name": "s"}, "type": "Opaque", "stringData": {"a": "b"}});
    client.post("/api/v1/namespaces/default/secrets", secret).await.created();
    let service =
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
    client.post("/api/v1/namespaces/default/services", service).await.created();
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}});
    client.post("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease).await.created();
    client.post("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.created();
    client
}

#[tokio::test]
async fn every_malformed_request_is_refused_with_the_right_status() {
    let mut client = world().await;
    let cases: Vec<Case> = FILES.iter().flat_map(|(file, text)| cases(file, text)).collect();
    let distinct: BTreeSet<_> =
        cases.iter().map(|case| (&case.method, &case.path, &case.headers, &case.body)).collect();
    assert_eq!(distinct.len(), cases.len(), "every case is another one");
    assert!(cases.len() >= AT_LEAST, "{} cases", cases.len());
    let before = client.revision().await;
    let mut wrong = vec![];
    for case in &cases {
        if let Err(why) = check(&client, case).await {
            // What was taken by mistake may have changed what later cases are about.
            client = world().await;
            wrong.push(format!("{}: {} {}\n    {why}", case.place, case.method, shorten(&case.path)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(client.revision().await, before, "what is refused leaves nothing behind");
    assert_eq!(client.panics().await, 0);
}

async fn check(client: &Client, case: &Case) -> Result<(), String> {
    let mut headers: Vec<(&str, &str)> =
        case.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let typed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !typed && !case.body.is_empty() {
        headers.push(("content-type", "application/json"));
    }
    let body = Bytes::from(case.body.clone());
    let answer = match client.provoke(&case.method, &case.path, &headers, body).await {
        Ok(answer) => answer,
        Err(code) => return Err(format!("expected {} {}, but it is taken: {code}", case.code, case.reason)),
    };
    let status: Value = answer.status();
    let (reason, message) =
        (status["reason"].as_str().unwrap_or_default(), status["message"].as_str().unwrap_or_default());
    let fits = case.fragments.iter().all(|fragment| message.contains(fragment.as_str()));
    match (answer.code, reason) == (case.code, case.reason.as_str()) && fits {
        true => Ok(()),
        false => Err(format!(
            "expected {} {} {:?}\n    but it is {} {reason} {:?}",
            case.code,
            case.reason,
            case.fragments,
            answer.code,
            shorten(message)
        )),
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(500).collect()
}
