//! Objects that came from client-side apply: what `kubectl apply` has noted on them counts for its server-side twin.
//!
//! Both apply to a manager called `kubectl` alone, which is how that one is called unless told otherwise.

use serde_json::Value;

use super::conflicts::Owned;
use crate::{
    decode::decode_json,
    managed::{FieldSet, Write, delta::Delta},
    object::{Object, metadata, metadata_mut, str_at},
    schema::Node,
};

const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Most bytes of all annotations of an object.
const ANNOTATIONS_MOST: usize = 256 * 1024;

/// The conflicts without those about fields that this manager had applied from the client, and that are still as they
/// were.
pub(super) fn not_ours(mut owned: Owned, live: &Object, schema: &Node, write: &Write<'_>) -> Owned {
    if write.manager != MANAGER {
        return owned;
    }
    let Some(applied) = applied(live, write.api_version) else { return owned };
    let delta = Delta::between(&applied, live, schema);
    let mut unchanged = FieldSet::of(&applied, schema);
    unchanged.difference(&delta.changed);
    unchanged.prune(&delta.removed);
    owned.retain_mut(|(_, fields)| {
        fields.difference(&unchanged);
        !fields.is_empty()
    });
    owned
}

/// What was last applied from the client, if that is known.
fn applied(live: &Object, api_version: &str) -> Option<Object> {
    let text = str_at(live, &["metadata", "annotations", ANNOTATION])?;
    let applied = decode_json(text.as_bytes()).ok()?.object;
    (str_at(&applied, &["apiVersion"]) == Some(api_version)).then_some(applied)
}

/// Notes what is applied where what was applied is noted, so that client-side apply can go on from there.
pub(super) fn keep_up(merged: &mut Object, config: &Object, write: &Write<'_>) {
    let noted = str_at(merged, &["metadata", "annotations", ANNOTATION]).is_some_and(|text| !text.is_empty());
    if write.manager != MANAGER || !write.subresource.is_empty() || !noted {
        return;
    }
    let mut config = config.clone();
    if metadata(&config).contains_key("annotations") {
        let metadata = metadata_mut(&mut config);
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let emptied = annotations.is_some_and(|map| map.remove(ANNOTATION).is_some() && map.is_empty());
        if emptied {
            metadata.remove("annotations");
        }
    }
    let text = format!("{}\n", Value::Object(config));
    let Some(Value::Object(annotations)) = metadata_mut(merged).get_mut("annotations") else { return };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let length = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    let size: usize = annotations.iter().map(length).sum();
    if size > ANNOTATIONS_MOST {
        annotations.remove(ANNOTATION);
    }
}
