//! Label selectors inside objects: whether they are well formed, and what they match.

use serde_json::Value;
use windlass_machinery::{field::Errors, names, object::Object};

use super::fields::{each, labels, list, map, maps, text, texts};

/// Finds faults in the label selector that `selector` is.
pub(super) fn validate(selector: &Object, errors: &mut Errors) {
    labels(selector, "matchLabels", errors);
    each(selector, "matchExpressions", errors, |expression, errors| {
        let n_values = list(expression, "values").len();
        match text(expression, "operator") {
            "In" | "NotIn" if n_values == 0 => {
                errors.required("values", "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if n_values > 0 => {
                errors.forbidden(
                    "values",
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid_str("operator", other, "not a valid selector operator"),
        }
        let key = text(expression, "key");
        for fault in names::qualified(key) {
            errors.invalid_str("key", key, fault);
        }
        for (index, value) in texts(expression, "values") {
            for fault in names::label_value(value) {
                errors.invalid_str(&format!("values[{index}]"), value, fault);
            }
        }
    });
}

/// Whether the selector asks for nothing, so that it matches everything.
pub(super) fn is_empty(selector: &Object) -> bool {
    map(selector, "matchLabels").is_none_or(Object::is_empty) && list(selector, "matchExpressions").is_empty()
}

/// Whether objects with these labels are selected.
pub(super) fn matches(selector: &Object, labels: &Object) -> bool {
    includes(map(selector, "matchLabels"), labels)
        && maps(selector, "matchExpressions").all(|(_, expression)| satisfies(expression, labels))
}

/// Whether `labels` has all of `wanted`.
pub(super) fn includes(wanted: Option<&Object>, labels: &Object) -> bool {
    wanted.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
}

fn satisfies(expression: &Object, labels: &Object) -> bool {
    let value = labels.get(text(expression, "key"));
    let listed = |value: &Value| list(expression, "values").contains(value);
    match text(expression, "operator") {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_requirement_must_hold() {
        let labels = json!({"app": "web", "tier": "front"});
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}), false),
            (json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}), true),
            (json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}), true),
        ] {
            let (selector, labels) = (selector.as_object().unwrap(), labels.as_object().unwrap());
            assert_eq!(matches(selector, labels), expected, "{selector:?}");
        }
    }
}
