//! Turning parts of objects into the words that several kinds show.

use serde_json::Value;
use windlass_machinery::{
    object::{self, Object},
    quantity::Quantity,
    table::{find, text},
};

/// The list under a path, empty if there is none.
pub(super) fn list<'a>(object: &'a Object, path: &str) -> &'a [Value] {
    entries(find(object, path))
}

/// The entries of a list, none if it is no list.
pub(super) fn entries(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The string in a field, empty if there is none.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The string under a path, empty if there is none.
pub(super) fn str_at<'a>(object: &'a Object, path: &str) -> &'a str {
    find(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer under a path, 0 if there is none.
pub(super) fn int_at(object: &Object, path: &str) -> i64 {
    find(object, path).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether the object is being deleted.
pub(super) fn is_deleted(object: &Object) -> bool {
    object::metadata(object).get("deletionTimestamp").is_some_and(|value| !value.is_null())
}

/// The first condition of a type.
pub(super) fn condition<'a>(object: &'a Object, kind: &str) -> Option<&'a Value> {
    list(object, "status.conditions").iter().find(|condition| field(condition, "type") == kind)
}

/// Whether the first condition of a type is true.
pub(super) fn is_true(object: &Object, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| field(condition, "status") == "True")
}

/// A quantity in its canonical form, or `absent` if it is none.
pub(super) fn quantity(value: Option<&Value>, absent: &str) -> String {
    value
        .and_then(|value| Quantity::from_value(value).ok())
        .map_or_else(|| absent.to_owned(), |quantity| quantity.to_string())
}

/// `kind.group` in lower case, or just the kind in the core.
pub(super) fn resource_name(kind: &str, group: &str) -> String {
    match group.is_empty() {
        true => kind.to_lowercase(),
        false => format!("{kind}.{group}").to_lowercase(),
    }
}

/// Labels as `a=b,c=d`, `<none>` if there are none.
pub(super) fn labels(value: Option<&Value>) -> String {
    let pairs = value.and_then(Value::as_object).into_iter().flatten();
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={}", text(Some(value), ""))).collect();
    none_if_empty(pairs.join(","))
}

/// A label selector as `a=b,c in (d,e)`, empty if it selects everything or there is none; `None` if it is
/// malformed.
pub(super) fn selector(value: Option<&Value>) -> Option<String> {
    let mut requirements = Vec::new();
    for (key, value) in value.and_then(|value| value.get("matchLabels")?.as_object()).into_iter().flatten() {
        requirements.push((key.as_str(), format!("{key}={}", text(Some(value), ""))));
    }
    for expression in entries(value.and_then(|value| value.get("matchExpressions"))) {
        let key = field(expression, "key");
        let mut values: Vec<&str> =
            entries(expression.get("values")).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let words = match field(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        requirements.push((key, words));
    }
    requirements.sort_by_key(|(key, _)| *key);
    Some(requirements.into_iter().map(|(_, words)| words).collect::<Vec<_>>().join(","))
}

/// A label selector, `<none>` if it selects everything or there is none.
pub(super) fn selector_or_none(value: Option<&Value>) -> String {
    selector(value).map_or_else(|| "<error>".to_owned(), none_if_empty)
}

/// The first `most` of a list, and how many more there are.
pub(super) fn first(most: usize, all: &[String], separator: &str) -> String {
    match all.len().checked_sub(most) {
        None | Some(0) => all.join(separator),
        Some(more) => format!("{} + {more} more...", all[..most].join(separator)),
    }
}

/// The text, or `<none>`.
pub(super) fn none_if_empty(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_written_in_the_order_of_their_keys() {
        let cases = [
            (json!({"matchLabels": {"b": "1", "a": "2"}}), "a=2,b=1"),
            (
                json!({"matchLabels": {"m": "1"}, "matchExpressions": [
                    {"key": "z", "operator": "In", "values": ["y", "x"]},
                    {"key": "n", "operator": "NotIn", "values": ["one"]},
                    {"key": "c", "operator": "Exists"},
                    {"key": "b", "operator": "DoesNotExist"},
                ]}),
                "!b,c,m=1,n notin (one),z in (x,y)",
            ),
            (json!({}), "<none>"),
            (json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}), "<error>"),
            (json!("nonsense"), "<none>"),
        ];
        for (selector, words) in cases {
            assert_eq!(selector_or_none(Some(&selector)), words, "{selector}");
        }
        assert_eq!(selector_or_none(None), "<none>");
    }
}
