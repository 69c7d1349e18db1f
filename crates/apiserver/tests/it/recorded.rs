//! What a real kube-apiserver 1.37.1 answered, exchange by exchange, held against ours.
//!
//! The recording has some 160 objects of every built-in kind, each created, read, listed, shown as a table, patched,
//! applied and deleted. Everything counts but what no two servers have in common: uids, times, revisions, generated
//! names, allocated addresses. Where we differ on purpose, [`ON_PURPOSE`] says why, and so does
//! docs/differences.md.

use std::{io::Read, time::Duration};

use bytes::Bytes;
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::client::{Client, DEADLINE};

const RECORDED: &[u8] = include_bytes!("recorded/kube-apiserver-1.37.1.jsonl.gz");

/// Kind, step (`*`: any), where in the answer, and why it is different.
const ON_PURPOSE: &[(&str, &str, &str, &str)] = &[
    ("v1 ResourceQuota", "*", ".status", "what is used is counted when a quota is made, not by a controller"),
    ("v1 ResourceQuota", "*", ".items[0].status", "the same"),
    ("v1 ResourceQuota", "table", ".rows[0].cells", "the same"),
    ("ValidatingAdmissionPolicy", "*", ".status", "types are checked when a policy is written"),
    ("ValidatingAdmissionPolicy", "*", ".items[0].status", "the same"),
    (
        "apps/v1 DaemonSet",
        "table",
        ".rows[0].object.metadata.annotations",
        "we show the same metadata everywhere",
    ),
    ("VolumeAttachment", "*", "", "not yet: an inline volume is judged as a volume, which has a capacity"),
    ("ControllerRevision", "*", "", "Kubernetes takes its data for changed in every patch, and refuses it"),
    ("ResourceClaim", "*", "", "the same holds for opaque configuration"),
    ("ResourceClaimTemplate", "*", "", "the same holds for opaque configuration"),
    ("DeviceClass", "*", ".metadata", "the same: a patch of something else counts as a change of it"),
    ("DeviceClass", "*", ".metadata.managedFields", "the same"),
];

#[tokio::test]
async fn objects_are_answered_as_by_kubernetes() {
    replay("a").await;
}

#[tokio::test]
async fn odd_objects_are_answered_as_by_kubernetes() {
    replay("b").await;
}

async fn replay(part: &str) {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).expect("the recording is whole");
    let client = Client::new().await;
    let account = json!({"metadata": {"name": "default"}});
    client.post("/api/v1/namespaces/default/serviceaccounts", account).await.created();
    let (mut found, mut n_compared) = (vec![], 0);
    for line in text.lines() {
        let wanted: Value = serde_json::from_str(line).expect("a line is an exchange");
        if wanted["part"] == part {
            n_compared += 1;
            found.extend(compare(&client, &wanted).await);
        }
    }
    assert!(n_compared > 800, "only {n_compared} exchanges");
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

async fn compare(client: &Client, wanted: &Value) -> Vec<String> {
    let text = |field: &str| wanted[field].as_str().unwrap_or_default();
    let (kind, step) = (text("kind"), text("step"));
    if kind.ends_with("FlowSchema") && step == "get" {
        condition_is_told(client, text("path")).await;
    }
    let body = if wanted["body"].is_null() { String::new() } else { wanted["body"].to_string() };
    let mut headers = vec![("accept", text("accept")), ("user-agent", "replay/1.0")];
    if !body.is_empty() {
        headers.push(("content-type", text("content_type")));
    }
    let answer = client.send(text("method"), text("path"), &headers, Bytes::from(body)).await;
    let mut found = vec![];
    if answer.text().ends_with('\n') != text("answer").ends_with('\n') {
        found.push((String::new(), "the line end differs".to_owned()));
    }
    if u64::from(answer.code) != wanted["status"].as_u64().unwrap_or_default() {
        found.push((
            String::new(),
            format!("{} instead of {}: {}", answer.code, wanted["status"], answer.text()),
        ));
    } else {
        let mut here = answer.json();
        let mut there: Value = serde_json::from_str(text("answer")).expect("recorded answers are JSON");
        for side in [&mut here, &mut there] {
            level(side);
        }
        differ(&there, &here, "", &mut found);
    }
    let is_meant = |place: &str| {
        let rule = |(of, at, prefix, _): &&(&str, &str, &str, &str)| {
            kind.ends_with(of) && (*at == "*" || *at == step) && place.starts_with(prefix)
        };
        ON_PURPOSE.iter().any(|row| rule(&row))
    };
    let found = found.into_iter().filter(|(place, _)| !is_meant(place));
    found.map(|(place, what)| format!("{kind} #{} {step}: {place}: {what}", wanted["variant"])).collect()
}

/// Waits until it is said whether the level of a schema exists.
async fn condition_is_told(client: &Client, path: &str) {
    let told = async {
        while client.get(path).await.ok()["status"]["conditions"].is_null() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, told).await.expect("it is told");
}

/// Makes equal what no two servers have in common.
fn level(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match name.as_str() {
                    "uid" | "resourceVersion" | "description" => *value = Value::Null,
                    "nodePort" | "healthCheckNodePort" => *value = 0.into(),
                    _ => level(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(level),
        Value::String(text) => *text = leveled(text),
        _ => {}
    }
}

fn leveled(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_time = bytes.len() >= 20 && bytes[10] == b'T' && text.ends_with('Z') && bytes[0].is_ascii_digit();
    let is_age = text.strip_suffix(['s', 'm']).is_some_and(|age| age.parse::<u64>().is_ok());
    let is_address = text.starts_with("10.") && text.parse::<std::net::Ipv4Addr>().is_ok();
    if is_time || is_age || is_address {
        return "*".to_owned();
    }
    // What a patch would have made is shown whole, times and all: only the ends can be the same.
    if let (Some(start), Some(end)) = (text.find("Invalid value: \"{"), text.rfind("}\": ")) {
        return format!("{}*{}", &text[..start], &text[end..]);
    }
    // Allocated ports, generated names and uids.
    let mut text = text.to_owned();
    if let Some(start) = text.len().checked_sub(36).filter(|start| is_uid(&text.as_bytes()[*start..])) {
        text.replace_range(start.., "*");
    }
    if let Some(at) = text.find("kube-api-access-") {
        let end = (at + "kube-api-access-".len() + 5).min(text.len());
        text.replace_range(at..end, "kube-api-access-*");
    }
    if let Some((port, _)) = text.split_once("/TCP").filter(|(port, _)| port.contains(":3")) {
        text = format!("{}:*/TCP", port.split(':').next().unwrap_or_default());
    }
    text
}

fn is_uid(bytes: &[u8]) -> bool {
    let dashes = [8, 13, 18, 23];
    bytes.iter().enumerate().all(|(at, byte)| match dashes.contains(&at) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    })
}

fn differ(there: &Value, here: &Value, place: &str, found: &mut Vec<(String, String)>) {
    match (there, here) {
        (Value::Object(there), Value::Object(here)) => {
            for (name, value) in there {
                // The name of a generated volume is part of keys, too.
                let place = format!("{place}.{name}");
                match here
                    .get(name)
                    .or_else(|| here.iter().find(|(key, _)| leveled(key) == leveled(name))?.1.into())
                {
                    Some(other) => differ(value, other, &place, found),
                    None => found.push((place, format!("missing, {value} there"))),
                }
            }
            for (name, value) in here {
                if !there.keys().any(|key| key == name || leveled(key) == leveled(name)) {
                    found.push((format!("{place}.{name}"), format!("extra, {value}")));
                }
            }
        }
        (Value::Array(there), Value::Array(here)) if there.len() == here.len() => {
            for (index, (there, here)) in there.iter().zip(here).enumerate() {
                differ(there, here, &format!("{place}[{index}]"), found);
            }
        }
        (there, here) if there == here => {}
        (there, here) => found.push((place.to_owned(), format!("{here} instead of {there}"))),
    }
}
