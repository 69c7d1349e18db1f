//! A writer: creates, changes and deletes the keys it owns, one after the other.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_e2e::Raw;

use super::model::{Key, Made, Metadata, Object, Pace, Side, name, namespace};

const N_KEYS: usize = 8;

/// Writes until enough changes have been made; returns its own, in order.
pub(super) async fn write(raw: Raw, writer: usize, pace: Arc<Pace>) -> Vec<Made> {
    let mut rng = fastrand::Rng::with_seed(writer as u64);
    let mut live = [false; N_KEYS];
    let mut made: Vec<Made> = vec![];
    let mut n = 0;
    while pace.take().await {
        n += 1;
        let key = (writer, rng.usize(0..N_KEYS));
        let is_live = std::mem::replace(&mut live[key.1], true);
        let change = if is_live && rng.u8(0..8) == 0 {
            live[key.1] = false;
            delete(&raw, key).await;
            Made { key, put: None, revision: None }
        } else {
            let side = if rng.bool() { Side::Left } else { Side::Right };
            let revision = put(&raw, key, n, side, is_live).await;
            Made { key, put: Some((n, side)), revision: Some(revision) }
        };
        let newest = made.iter().rev().find_map(|made| made.revision);
        assert!(
            change.revision.is_none_or(|revision| Some(revision) > newest),
            "{change:?} after {newest:?}"
        );
        pace.note_made(change.revision);
        made.push(change);
    }
    made
}

async fn put(raw: &Raw, key: Key, n: u64, side: Side, is_live: bool) -> u64 {
    let side = if side == Side::Left { "left" } else { "right" };
    let body = json!({
        "metadata": {"name": name(key), "labels": {"side": side}, "annotations": {"n": n.to_string()}},
        "data": {"payload": "as small as it can be"},
    });
    let folder = folder(key);
    let path = format!("{folder}/{}", name(key));
    let (method, target) = if is_live { (Method::PUT, &path) } else { (Method::POST, &folder) };
    loop {
        if let Some(answer) = send(raw, method.clone(), target, &body).await {
            return revision(answer);
        }
        // It may have happened even so; nobody else writes it, so the counter shows.
        let found = found(raw, &path).await;
        if found["metadata"]["annotations"]["n"] == body["metadata"]["annotations"]["n"] {
            return revision(found);
        }
    }
}

async fn delete(raw: &Raw, key: Key) {
    let path = format!("{}/{}", folder(key), name(key));
    while send(raw, Method::DELETE, &path, &Value::Null).await.is_none() {
        if found(raw, &path).await.is_null() {
            return;
        }
    }
}

fn folder(key: Key) -> String {
    format!("/api/v1/namespaces/{}/configmaps", namespace(key.0))
}

fn revision(object: Value) -> u64 {
    let Object { metadata: Metadata { resource_version, .. }, .. } =
        serde_json::from_value(object).expect("an object");
    resource_version.parse().expect("a number")
}

/// The answer, if there is one; a server that ends may break off, or say that it takes no more.
async fn send(raw: &Raw, method: Method, path: &str, body: &Value) -> Option<Value> {
    let answer = raw.send(method, path, body).await.ok()?;
    if answer.code == StatusCode::SERVICE_UNAVAILABLE {
        return None;
    }
    assert!(answer.code.is_success(), "{path}: {answer:?}");
    Some(answer.body)
}

/// The object, once the server answers; nothing if it is not there.
async fn found(raw: &Raw, path: &str) -> Value {
    loop {
        if let Ok(answer) = raw.get(path).await
            && answer.code != StatusCode::SERVICE_UNAVAILABLE
        {
            return if answer.code.is_success() { answer.body } else { Value::Null };
        }
    }
}
