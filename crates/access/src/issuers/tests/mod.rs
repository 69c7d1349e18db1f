//! Configurations, what they make of tokens, and where keys come from. No network, no clock.

mod configuring;
mod identifying;
mod mapping;

use serde_json::{Value, json};

use super::{Configuration, Limits};
use crate::jwt::Algorithm;

/// The issuer of most tests.
const ISSUER: &str = "https://issuer.example.com";

/// A configuration of one issuer, as short as it can be.
fn short() -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": {"url": ISSUER, "audiences": ["windlass"]},
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        }],
    })
}

/// The same with something else at a place such as `jwt.0.issuer.url`.
fn with(mut configuration: Value, place: &str, value: Value) -> Value {
    let mut at = &mut configuration;
    for step in place.split('.') {
        at = match step.parse::<usize>() {
            Ok(index) => {
                if !at.is_array() {
                    *at = json!([]);
                }
                let list = at.as_array_mut().expect("a list");
                if list.len() <= index {
                    list.resize(index + 1, Value::Null);
                }
                &mut list[index]
            }
            Err(_) => &mut at[step],
        };
    }
    *at = value;
    configuration
}

fn read(configuration: &Value) -> Result<Configuration, String> {
    let own_issuers = ["https://own.example.com".to_owned()];
    let limits = Limits { own_issuers: &own_issuers, algorithms: &Algorithm::ALL };
    Configuration::read(configuration.to_string().as_bytes(), &limits).map_err(|error| error.to_string())
}
