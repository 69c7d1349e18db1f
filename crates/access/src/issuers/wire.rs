//! An `AuthenticationConfiguration` as it is written.

use serde::Deserialize;
use serde_json::Value;
use windlass_machinery::{decode::decode_yaml, field::Errors, object::str_at};

use super::{
    ConfigError,
    shape::{CONFIGURATION, Found},
};

/// The versions that are read. They have the same fields.
const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];

/// Most bytes of a file. A thousand issuers with their certificates fit into it.
const MOST_BYTES: usize = 3 << 20;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wire {
    pub(super) jwt: Vec<Jwt>,
    pub(super) anonymous: Option<Anonymous>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Jwt {
    pub(super) issuer: Issuer,
    pub(super) claim_validation_rules: Vec<ClaimRule>,
    pub(super) claim_mappings: Mappings,
    pub(super) user_validation_rules: Vec<UserRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Issuer {
    pub(super) url: String,
    #[serde(rename = "discoveryURL")]
    pub(super) discovery_url: String,
    pub(super) certificate_authority: String,
    pub(super) audiences: Vec<String>,
    pub(super) audience_match_policy: String,
    pub(super) egress_selector_type: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaimRule {
    pub(super) claim: String,
    pub(super) required_value: String,
    pub(super) expression: String,
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mappings {
    pub(super) username: Mapping,
    pub(super) groups: Mapping,
    pub(super) uid: Mapping,
    pub(super) extra: Vec<Extra>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mapping {
    pub(super) claim: String,
    pub(super) prefix: Option<String>,
    pub(super) expression: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Extra {
    pub(super) key: String,
    pub(super) value_expression: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UserRule {
    pub(super) expression: String,
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Anonymous {
    pub(super) enabled: bool,
    pub(super) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    pub(super) path: String,
}

impl Wire {
    /// Reads a file, in YAML or JSON.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, ConfigError> {
        if bytes.len() > MOST_BYTES {
            return Err(ConfigError::Text(format!("the file has more than {MOST_BYTES} bytes")));
        }
        let decoded = decode_yaml(bytes).map_err(|error| ConfigError::Text(error.to_string()))?;
        let kind = str_at(&decoded.object, &["kind"]).unwrap_or_default();
        let version = str_at(&decoded.object, &["apiVersion"]).unwrap_or_default();
        if kind != "AuthenticationConfiguration" || !VERSIONS.contains(&version) {
            let why = format!("no kind {kind:?} is registered for version {version:?}");
            return Err(ConfigError::Text(why));
        }
        let mut found = Found::default();
        found.unknown.extend(decoded.duplicates.iter().map(|path| format!("duplicate field {path:?}")));
        let mut value = Value::Object(decoded.object);
        CONFIGURATION.hold(&mut value, &mut found);
        let Found { unknown, errors, .. } = found;
        if !unknown.is_empty() {
            return Err(ConfigError::Text(format!("strict decoding error: {}", unknown.join(", "))));
        }
        refuse(errors)?;
        serde_json::from_value(value).map_err(|error| ConfigError::Text(error.to_string()))
    }
}

/// Fails when anything was found.
pub(super) fn refuse(errors: Errors) -> Result<(), ConfigError> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ConfigError::Fields(errors.list().to_vec())),
    }
}
