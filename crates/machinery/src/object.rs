//! Objects: JSON maps, and the parts of them that every kind has.

use serde_json::{Map, Value};

/// One object of any kind.
pub type Object = Map<String, Value>;

/// The metadata, empty when the object has none.
pub fn metadata(object: &Object) -> &Object {
    static EMPTY: std::sync::LazyLock<Object> = std::sync::LazyLock::new(Object::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// The metadata, made when the object has none.
pub fn metadata_mut(object: &mut Object) -> &mut Object {
    child_mut(object, "metadata")
}

/// The map under `field`, made when there is none.
pub fn child_mut<'a>(object: &'a mut Object, field: &str) -> &'a mut Object {
    if !object.get(field).is_some_and(Value::is_object) {
        object.insert(field.to_owned(), Value::Object(Object::new()));
    }
    object.get_mut(field).and_then(Value::as_object_mut).expect("it was made a map above")
}

/// `metadata.name`, empty when it is not set.
pub fn name(object: &Object) -> &str {
    str_at(object, &["metadata", "name"]).unwrap_or_default()
}

/// `metadata.namespace`, empty when it is not set.
pub fn namespace(object: &Object) -> &str {
    str_at(object, &["metadata", "namespace"]).unwrap_or_default()
}

/// `metadata.uid`, empty when it is not set.
pub fn uid(object: &Object) -> &str {
    str_at(object, &["metadata", "uid"]).unwrap_or_default()
}

/// The value under a path of field names.
pub fn at<'a>(object: &'a Object, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, field| value.get(*field))
}

/// The string under a path of field names.
pub fn str_at<'a>(object: &'a Object, path: &[&str]) -> Option<&'a str> {
    at(object, path)?.as_str()
}

/// The integer under a path of field names.
pub fn int_at(object: &Object, path: &[&str]) -> Option<i64> {
    at(object, path)?.as_i64()
}

/// The boolean under a path of field names.
pub fn bool_at(object: &Object, path: &[&str]) -> Option<bool> {
    at(object, path)?.as_bool()
}

/// The list under a path of field names, empty when there is none.
pub fn list_at<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Puts `value` under a path of field names, making maps on the way; `None` removes what is there.
pub fn set_at(object: &mut Object, path: &[&str], value: Option<Value>) {
    let Some((last, parents)) = path.split_last() else { return };
    if value.is_none() && at(object, path).is_none() {
        return;
    }
    let parent = parents.iter().fold(object, |object, field| child_mut(object, field));
    match value {
        Some(value) => parent.insert((*last).to_owned(), value),
        None => parent.remove(*last),
    };
}

/// Puts `value` under `field` unless something is there already.
pub fn default_to(object: &mut Object, field: &str, value: impl Into<Value>) {
    if object.get(field).is_none_or(Value::is_null) {
        object.insert(field.to_owned(), value.into());
    }
}

/// What objects begin with as Kubernetes writes them.
pub const HEAD: &[&str] = &["kind", "apiVersion", "metadata"];

/// An object as a line of JSON: these fields first, the others by name, a line end.
pub fn to_line(object: &Object, first: &[&str]) -> Vec<u8> {
    let ahead = first.iter().filter_map(|field| object.get_key_value(*field));
    let rest = object.iter().filter(|(field, _)| !first.contains(&field.as_str()));
    let mut out = vec![b'{'];
    for (field, value) in ahead.chain(rest) {
        if out.len() > 1 {
            out.push(b',');
        }
        serde_json::to_writer(&mut out, field).expect("a string can always be written");
        out.push(b':');
        serde_json::to_writer(&mut out, value).expect("a value can always be written");
    }
    out.extend_from_slice(b"}\n");
    out
}
