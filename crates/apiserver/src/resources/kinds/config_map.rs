//! Config maps: texts and bytes by key, together no more than a mebibyte.

use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    names,
    object::{self, Object},
};

use super::{
    checks::{decoded_len, frozen},
    fields::{malformed, map},
};
use crate::resources::Strategy;

pub(crate) const STRATEGY: Strategy =
    Strategy { validate, validate_update: |new, old, _, errors| sealed(new, old, errors), ..Strategy::PLAIN };

/// Most bytes in the values of one config map or secret.
pub(super) const MOST_BYTES: usize = 1 << 20;

fn validate(config: &Object, errors: &mut Errors) {
    let (texts, bytes) = (map(config, "data"), map(config, "binaryData"));
    for key in texts.into_iter().flat_map(Object::keys) {
        errors.at_key("data", key, |errors| {
            malformed("", key, names::config_key(key), errors);
            if bytes.is_some_and(|bytes| bytes.contains_key(key)) {
                errors.invalid_str("", key, "duplicate of key present in binaryData");
            }
        });
    }
    keys(config, "binaryData", errors);
    let len = |entries: Option<&Object>, measure: fn(&str) -> usize| -> usize {
        entries.into_iter().flat_map(Object::values).filter_map(Value::as_str).map(measure).sum()
    };
    if len(texts, str::len) + len(bytes, decoded_len) > MOST_BYTES {
        errors.too_long("[]", MOST_BYTES);
    }
}

/// The keys of the map under `field` must be names of files.
pub(super) fn keys(object: &Object, field: &str, errors: &mut Errors) {
    for key in map(object, field).into_iter().flat_map(Object::keys) {
        errors.at_key(field, key, |errors| malformed("", key, names::config_key(key), errors));
    }
}

/// What is sealed as `immutable` stays as it is, and stays sealed.
pub(super) fn sealed(new: &Object, old: &Object, errors: &mut Errors) {
    if object::bool_at(old, &["immutable"]) == Some(true) {
        let detail = "field is immutable when `immutable` is set";
        frozen(new, old, &["immutable", "data", "binaryData"], detail, errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::*, *};

    #[test]
    fn faults_are_found() {
        check(
            &STRATEGY,
            &[
                (json!({"data": {"a.b": ""}, "binaryData": {"c": "AAAA"}}), &[]),
                (json!({"data": {"a/b": ""}}), &["Invalid data[a/b]"]),
                (json!({"data": {"a": ""}, "binaryData": {"a": ""}}), &["Invalid data[a]"]),
                (json!({"data": {"a": "x".repeat(MOST_BYTES)}}), &[]),
                (json!({"data": {"a": "x".repeat(MOST_BYTES + 1)}}), &["TooLong []"]),
                (
                    json!({"data": {"a": "x".repeat(MOST_BYTES)}, "binaryData": {"b": "AA=="}}),
                    &["TooLong []"],
                ),
            ],
        );
    }

    #[test]
    fn what_is_sealed_stays() {
        let sealed = json!({"immutable": true, "data": {"a": "1"}});
        assert_eq!(
            change_faults(&STRATEGY, sealed.clone(), json!({"data": {"a": "2"}}), None),
            ["Forbidden immutable", "Forbidden data"]
        );
        let labelled = json!({"immutable": true, "data": {"a": "1"}, "metadata": {"labels": {"a": "b"}}});
        assert_eq!(change_faults(&STRATEGY, sealed, labelled, None), [""; 0]);
        assert_eq!(change_faults(&STRATEGY, json!({}), json!({"immutable": true}), None), [""; 0]);
    }
}
