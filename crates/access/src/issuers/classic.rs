//! The classic flags for one issuer, in the words of a configuration.

use super::{
    ConfigError, Configuration, Limits,
    wire::{ClaimRule, Issuer, Jwt, Mapping, Mappings, Wire},
};
use crate::jwt::Algorithm;

/// What the `--oidc-` flags say. Empty is what was not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classic {
    /// `--oidc-issuer-url`.
    pub issuer_url: String,
    /// `--oidc-client-id`.
    pub client_id: String,
    /// `--oidc-username-claim`; `sub` if it was not given.
    pub username_claim: String,
    /// `--oidc-username-prefix`; `-` is none. If it was not given, the issuer stands before every name but addresses.
    pub username_prefix: String,
    /// `--oidc-groups-claim`.
    pub groups_claim: String,
    /// `--oidc-groups-prefix`.
    pub groups_prefix: String,
    /// `--oidc-required-claim`, names and values.
    pub required_claims: Vec<(String, String)>,
    /// What the file of `--oidc-ca-file` holds.
    pub authorities: String,
    /// `--oidc-signing-algs`; `RS256` if it was not given.
    pub signing_algorithms: Vec<String>,
}

impl Classic {
    /// The configuration that they stand for.
    pub fn configuration(&self, own_issuers: &[String]) -> Result<Configuration, ConfigError> {
        let wrong = |text: String| Err(ConfigError::Text(text));
        if self.issuer_url.is_empty() || self.client_id.is_empty() {
            return wrong("--oidc-issuer-url and --oidc-client-id must be specified together".to_owned());
        }
        let mut algorithms = vec![];
        for name in &self.signing_algorithms {
            match Algorithm::from_name(name) {
                Some(algorithm) => algorithms.push(algorithm),
                None => {
                    let known: Vec<&str> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
                    return wrong(format!(
                        "--oidc-signing-algs {name}: expected one of {}",
                        known.join(", ")
                    ));
                }
            }
        }
        if algorithms.is_empty() {
            algorithms.push(Algorithm::Rs256);
        }
        let wire = Wire { jwt: vec![self.jwt()], anonymous: None };
        Configuration::of(&wire, &Limits { own_issuers, algorithms: &algorithms })
    }

    fn jwt(&self) -> Jwt {
        let username = match self.username_claim.as_str() {
            "" => "sub",
            given => given,
        };
        let username_prefix = match (self.username_prefix.as_str(), username) {
            ("-", _) | ("", "email") => String::new(),
            ("", _) => format!("{}#", self.issuer_url),
            (given, _) => given.to_owned(),
        };
        let required = self.required_claims.iter().map(|(claim, value)| ClaimRule {
            claim: claim.clone(),
            required_value: value.clone(),
            ..ClaimRule::default()
        });
        let mapping = |claim: &str, prefix: &str| Mapping {
            claim: claim.to_owned(),
            prefix: Some(prefix.to_owned()),
            ..Mapping::default()
        };
        Jwt {
            issuer: Issuer {
                url: self.issuer_url.clone(),
                audiences: vec![self.client_id.clone()],
                certificate_authority: self.authorities.clone(),
                ..Issuer::default()
            },
            claim_validation_rules: required.collect(),
            claim_mappings: Mappings {
                username: mapping(username, &username_prefix),
                groups: mapping(&self.groups_claim, &self.groups_prefix),
                ..Mappings::default()
            },
            ..Jwt::default()
        }
    }
}
