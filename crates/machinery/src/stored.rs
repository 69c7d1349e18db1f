//! The stored form of an object: JSON whose parts can be found without parsing all of it.
//!
//! It begins with `kind`, `apiVersion` and `metadata`, and the metadata begins with the labels. It never holds
//! `resourceVersion`, which is the revision of the store and is written in on the way out: [`Stored::write`]
//! puts it in. So a get, a list and a watch copy bytes and parse nothing.

use std::{borrow::Cow, cell::Cell, sync::LazyLock};

use memchr::memmem::Finder;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::object::Object;

const METADATA: &[u8] = b"\"metadata\":{";

/// Made once: making it takes longer than finding.
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(METADATA));

/// Most bytes that a thread keeps to write objects into.
const MOST_SCRATCH: usize = 64 * 1024;

/// Writes an object in its stored form. `metadata.resourceVersion` is left out.
pub fn encode(object: &Object) -> Vec<u8> {
    thread_local! {
        static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    // What is stored stays: it is to take as many bytes as it has, and not as many as growing left over.
    let mut scratch = SCRATCH.take();
    write(object, &mut scratch);
    let bytes = scratch.to_vec();
    if scratch.capacity() <= MOST_SCRATCH {
        scratch.clear();
        SCRATCH.set(scratch);
    }
    bytes
}

fn write(object: &Object, out: &mut Vec<u8>) {
    out.push(b'{');
    for field in ["kind", "apiVersion"] {
        if let Some(value) = object.get(field) {
            member(out, field, value);
        }
    }
    separate(out);
    out.extend_from_slice(METADATA);
    if let Some(Value::Object(metadata)) = object.get("metadata") {
        if let Some(labels) = metadata.get("labels") {
            member(out, "labels", labels);
        }
        for (field, value) in metadata {
            if field != "labels" && field != "resourceVersion" {
                member(out, field, value);
            }
        }
    }
    out.push(b'}');
    for (field, value) in object {
        if !matches!(field.as_str(), "apiVersion" | "kind" | "metadata") {
            member(out, field, value);
        }
    }
    out.push(b'}');
}

fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{')) {
        out.push(b',');
    }
}

fn member(out: &mut Vec<u8>, field: &str, value: &Value) {
    separate(out);
    serde_json::to_writer(&mut *out, field).expect("a string can always be written");
    out.push(b':');
    serde_json::to_writer(&mut *out, value).expect("a value can always be written");
}

/// An object in its stored form.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    bytes: &'a [u8],
    /// Where the first field of the metadata begins.
    metadata: usize,
}

impl<'a> Stored<'a> {
    /// Looks at stored bytes; `None` when they are not an object's stored form.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let metadata = FINDER.find(bytes)? + METADATA.len();
        Some(Stored { bytes, metadata })
    }

    /// Where `resourceVersion` is to be written in.
    pub fn split(&self) -> usize {
        self.metadata
    }

    /// Appends the object as clients see it, with `resourceVersion`.
    pub fn write(&self, revision: u64, out: &mut Vec<u8>) {
        let (before, after) = self.bytes.split_at(self.metadata);
        out.extend_from_slice(before);
        self.write_revision(revision, out);
        out.extend_from_slice(after);
    }

    /// Appends the object as lists of built-in kinds show it, whose entries do not say what they are.
    pub fn write_item(&self, revision: u64, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(METADATA);
        self.write_revision(revision, out);
        out.extend_from_slice(&self.bytes[self.metadata..]);
    }

    /// Appends `"resourceVersion":"…"` and the comma that separates it from what follows, if anything does.
    /// Revision 0 is none: the object has not been stored.
    pub fn write_revision(&self, revision: u64, out: &mut Vec<u8>) {
        use std::io::Write;
        if revision == 0 {
            return;
        }
        let comma = if self.bytes.get(self.metadata) == Some(&b'}') { "" } else { "," };
        write!(out, "\"resourceVersion\":\"{revision}\"{comma}").expect("writing to memory cannot fail");
    }

    /// The fields of the metadata, without the braces around them.
    pub fn metadata(&self) -> &'a [u8] {
        let rest = &self.bytes[self.metadata - 1..];
        let mut json = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        match json.next() {
            Some(Ok(_)) => &rest[1..json.byte_offset() - 1],
            _ => &[],
        }
    }

    /// Parses the whole object and writes in its `resourceVersion`.
    pub fn object(&self, revision: u64) -> Option<Object> {
        let mut object: Object = serde_json::from_slice(self.bytes).ok()?;
        if revision > 0 {
            let revision = Value::String(revision.to_string());
            crate::object::metadata_mut(&mut object).insert("resourceVersion".to_owned(), revision);
        }
        Some(object)
    }

    /// The labels, in the order they are stored.
    pub fn labels(&self) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        let rest = &self.bytes[self.metadata..];
        let Some(rest) = rest.strip_prefix(b"\"labels\":") else { return vec![] };
        let mut json = serde_json::Deserializer::from_slice(rest);
        json.deserialize_map(Pairs).unwrap_or_default()
    }

    /// The value under a path of field names, without building anything beside it. Strings only; numbers and
    /// booleans are given as they are written.
    pub fn peek(&self, path: &[&str]) -> Option<Cow<'a, str>> {
        let (bytes, path) = match path {
            // The metadata is found without looking at what stands before it.
            ["metadata", rest @ ..] => (&self.bytes[self.metadata - 1..], rest),
            path => (self.bytes, path),
        };
        let mut json = serde_json::Deserializer::from_slice(bytes);
        Walk(path).deserialize(&mut json).ok().flatten()
    }
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(Cow<'de, str>, Cow<'de, str>)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some((Text(key), Text(value))) = map.next_entry()? {
            pairs.push((key, value));
        }
        Ok(pairs)
    }
}

/// A string, borrowed where nothing in it is escaped.
struct Text<'de>(Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Leaf).map(|text| Text(text.unwrap_or_default()))
    }
}

struct Leaf;

impl<'de> Visitor<'de> for Leaf {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a scalar")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(if value { "true" } else { "false" })))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(value.to_string())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(value.to_string())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(value.to_string())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// Follows a path of field names into maps.
struct Walk<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => deserializer.deserialize_any(Leaf),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Text(key)) = map.next_key()? {
            if key == self.0[0] {
                found = map.next_value_seed(Walk(&self.0[1..]))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Object {
        serde_json::from_str(text).expect("an object")
    }

    #[test]
    fn the_revision_is_written_into_the_metadata() {
        let bytes = encode(&object(
            r#"{"spec":{"metadata":{"x":1}},"metadata":{"name":"a","resourceVersion":"7","labels":{"b":"c"}},
                "kind":"K","apiVersion":"v1","data":{"metadata":{}}}"#,
        ));
        assert_eq!(
            std::str::from_utf8(&bytes).expect("text"),
            r#"{"kind":"K","apiVersion":"v1","metadata":{"labels":{"b":"c"},"name":"a"},"data":{"metadata":{}},"spec":{"metadata":{"x":1}}}"#
        );
        let mut out = vec![];
        Stored::new(&bytes).expect("stored").write(42, &mut out);
        let seen = object(std::str::from_utf8(&out).expect("text"));
        assert_eq!(crate::object::str_at(&seen, &["metadata", "resourceVersion"]), Some("42"));
    }

    #[test]
    fn empty_metadata_takes_a_revision() {
        let bytes = encode(&object(r#"{"kind":"K"}"#));
        let mut out = vec![];
        Stored::new(&bytes).expect("stored").write(1, &mut out);
        assert_eq!(out, br#"{"kind":"K","metadata":{"resourceVersion":"1"}}"#);
    }

    #[test]
    fn single_fields_are_found_without_parsing_the_rest() {
        let bytes = encode(&object(
            r#"{"metadata":{"name":"a\n","labels":{"x":"1","y":"\"2\""}},"spec":{"nodeName":"n","n":3},"type":"T"}"#,
        ));
        let stored = Stored::new(&bytes).expect("stored");
        assert_eq!(stored.labels(), [("x".into(), "1".into()), ("y".into(), "\"2\"".into())]);
        assert_eq!(stored.peek(&["metadata", "name"]).as_deref(), Some("a\n"));
        assert_eq!(stored.peek(&["spec", "nodeName"]).as_deref(), Some("n"));
        assert_eq!(stored.peek(&["spec", "n"]).as_deref(), Some("3"));
        assert_eq!(stored.peek(&["type"]).as_deref(), Some("T"));
        assert_eq!(stored.peek(&["spec", "absent"]), None);
        assert_eq!(stored.peek(&["type", "absent"]), None);
    }
}
