//! Secrets: bytes by key, of a type that says which keys there must be.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{self, Object},
};

use super::{
    checks::{decoded_len, defaults, immutable},
    config_map::{MOST_BYTES, keys, sealed},
    fields::{map, text},
};
use crate::resources::Strategy;

pub(crate) const STRATEGY: Strategy = Strategy { default, validate, validate_update, ..Strategy::PLAIN };

const TOKEN: &str = "kubernetes.io/service-account-token";
const TOKEN_ACCOUNT: &str = "kubernetes.io/service-account.name";

/// The keys a secret of a type must have.
const REQUIRED: &[(&str, &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

fn default(secret: &mut Object) {
    if let Some(Value::Object(texts)) = secret.remove("stringData") {
        for (key, value) in texts {
            let bytes = STANDARD.encode(value.as_str().unwrap_or_default());
            object::set_at(secret, &["data", &key], Some(bytes.into()));
        }
    }
    defaults(secret, json!({"type": "Opaque"}));
}

fn validate(secret: &Object, errors: &mut Errors) {
    keys(secret, "data", errors);
    let data = map(secret, "data");
    let len: usize =
        data.into_iter().flat_map(Object::values).filter_map(Value::as_str).map(decoded_len).sum();
    if len > MOST_BYTES {
        errors.too_long("data", MOST_BYTES);
    }
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    let need = |key: &str, errors: &mut Errors| {
        if !has(key) {
            errors.at_key("data", key, |errors| errors.required("", ""));
        }
    };
    let sort = text(secret, "type");
    for key in REQUIRED.iter().filter(|row| row.0 == sort).flat_map(|row| row.1) {
        need(key, errors);
        if key.starts_with(".docker") && has(key) && !is_json(data, key) {
            errors.at_key("data", key, |errors| {
                errors.invalid_str("", "<secret contents redacted>", "invalid character: not JSON");
            });
        }
    }
    if sort == "kubernetes.io/basic-auth" && !has("username") && !has("password") {
        need("username", errors);
        need("password", errors);
    }
    if sort == TOKEN
        && object::str_at(secret, &["metadata", "annotations", TOKEN_ACCOUNT]).is_none_or(str::is_empty)
    {
        errors.at_key("metadata.annotations", TOKEN_ACCOUNT, |errors| errors.required("", ""));
    }
}

fn is_json(data: Option<&Object>, key: &str) -> bool {
    let bytes = data.and_then(|data| STANDARD.decode(text(data, key)).ok());
    bytes.is_some_and(|bytes| serde_json::from_slice::<Object>(&bytes).is_ok())
}

fn validate_update(new: &Object, old: &Object, _part: Option<&str>, errors: &mut Errors) {
    immutable(new, old, &["type"], errors);
    sealed(new, old, errors);
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn texts_become_bytes_and_win() {
        assert_eq!(
            defaulted(&STRATEGY, json!({"data": {"a": "eA==", "b": "eQ=="}, "stringData": {"a": "z"}})),
            json!({"type": "Opaque", "data": {"a": "eg==", "b": "eQ=="}})
        );
    }

    #[test]
    fn types_ask_for_their_keys() {
        let of =
            |sort: &str, data: Value| json!({"type": format!("kubernetes.io/{sort}"), "stringData": data});
        let account = json!({
            "type": TOKEN, "metadata": {"annotations": {"kubernetes.io/service-account.name": "default"}}
        });
        check(
            &STRATEGY,
            &[
                (json!({}), &[]),
                (of("tls", json!({"tls.crt": "", "tls.key": ""})), &[]),
                (of("tls", json!({"tls.crt": ""})), &["Required data[tls.key]"]),
                (of("ssh-auth", json!({})), &["Required data[ssh-privatekey]"]),
                (of("basic-auth", json!({"password": "x"})), &[]),
                (of("basic-auth", json!({})), &["Required data[username]", "Required data[password]"]),
                (of("dockerconfigjson", json!({".dockerconfigjson": "{}"})), &[]),
                (
                    of("dockerconfigjson", json!({".dockerconfigjson": "x"})),
                    &["Invalid data[.dockerconfigjson]"],
                ),
                (
                    of("service-account-token", json!({})),
                    &["Required metadata.annotations[kubernetes.io/service-account.name]"],
                ),
                (account, &[]),
                (json!({"stringData": {"a b": ""}}), &["Invalid data[a b]"]),
                (json!({"stringData": {"a": "x".repeat(MOST_BYTES + 1)}}), &["TooLong data"]),
            ],
        );
    }

    #[test]
    fn the_type_stays() {
        assert_eq!(change_faults(&STRATEGY, json!({"type": "a"}), json!({}), None), ["Invalid type"]);
        let sealed = json!({"immutable": true, "stringData": {"a": "1"}});
        assert_eq!(
            change_faults(&STRATEGY, sealed, json!({"immutable": true, "stringData": {"a": "2"}}), None),
            ["Forbidden data"]
        );
    }
}
