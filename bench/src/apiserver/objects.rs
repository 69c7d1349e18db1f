//! What is written: ConfigMaps of one KiB, made by putting a name and a number into a text that is ready.

use std::sync::Arc;

use anyhow::ensure;
use http::Method;

use super::{
    client::{Asked, Endpoint},
    drive::{Limit, drive},
};

/// Bytes of an object as it is sent.
pub(crate) const OBJECT_BYTES: usize = 1024;

/// The labels' values: a selector takes one in so many.
pub(crate) const SHARDS: usize = 100;

/// Clients that fill a server: enough to make the disk or the processor the limit.
const FILLERS: usize = 64;

/// The media type of what is sent.
pub(crate) const JSON: &str = "application/json";

/// What stands before the number that tells changes apart.
pub(crate) const MARK: &str = "\"seq\":\"";

/// Digits of that number.
pub(crate) const MARK_DIGITS: usize = 9;

/// Where the ConfigMaps of `namespace` are.
pub(crate) fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// The name of the object with this number among those that are read.
pub(crate) fn name(idx: usize) -> String {
    format!("object-{idx:06}")
}

/// A ConfigMap of [`OBJECT_BYTES`].
pub(crate) fn config_map(name: &str, shard: usize, seq: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity(OBJECT_BYTES);
    text.extend_from_slice(b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"");
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"\",\"labels\":{\"app\":\"bench\",\"shard\":\"s");
    text.extend_from_slice((shard % SHARDS).to_string().as_bytes());
    text.extend_from_slice(b"\"}},\"data\":{");
    text.extend_from_slice(MARK.as_bytes());
    text.extend_from_slice(format!("{seq:0MARK_DIGITS$}").as_bytes());
    text.extend_from_slice(b"\",\"text\":\"");
    let end = b"\"}}";
    text.resize(OBJECT_BYTES - end.len(), b'x');
    text.extend_from_slice(end);
    text
}

/// Creates the namespace that everything of a part is in.
pub(crate) async fn create_namespace(endpoint: &Endpoint, namespace: &str) -> anyhow::Result<()> {
    let body =
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{{\"name\":\"{namespace}\"}}}}");
    endpoint.connect().await?.fetch(endpoint.ask(Method::POST, "/api/v1/namespaces", JSON, body)).await?;
    Ok(())
}

/// A request that creates an object.
pub(crate) fn create(endpoint: &Endpoint, path: &str, name: &str, shard: usize) -> Asked {
    endpoint.ask(Method::POST, path, JSON, config_map(name, shard, 0))
}

/// Creates as many objects as asked for, numbered from zero.
pub(crate) async fn fill(endpoint: &Arc<Endpoint>, namespace: &str, objects: usize) -> anyhow::Result<()> {
    let (maker, path) = (endpoint.clone(), collection(namespace));
    let next = std::sync::atomic::AtomicUsize::new(0);
    let ran = drive(endpoint, FILLERS, Limit::requests(objects), move |_, _, _| {
        let idx = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        create(&maker, &path, &name(idx), idx)
    })
    .await?;
    ensure!(ran.refused == 0, "the server refused {} of {objects} objects", ran.refused);
    ensure!(
        ran.latencies.len() == objects,
        "only {} of {objects} objects were created in time",
        ran.latencies.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_its_size_and_its_mark() {
        let text = config_map(&name(7), 107, 42);
        assert_eq!(text.len(), OBJECT_BYTES);
        let object: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(object["data"]["seq"], "000000042");
        assert_eq!(object["metadata"]["labels"]["shard"], "s7");
    }
}
