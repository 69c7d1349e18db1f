//! From what is written to what is in force: every fault is found, and every expression compiled.
//!
//! Fields and words are those of Kubernetes. Stricter than there: an issuer must have a host, a condition a path, and
//! an expression that can never come to a name, or to groups, is refused at once rather than with every token.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use http::Uri;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use windlass_cel::{CompileError, Env, Type, selects};
use windlass_machinery::{
    field::{Errors, Fault},
    names,
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

use super::{
    Anonymous, Configuration, Issuer, Limits,
    mapping::{ClaimRule, Expression, Mappings, Rule, Source},
    wire::{self, Jwt, Wire},
};

/// Most issuers of one configuration.
const MOST_ISSUERS: usize = 64;

/// Most bytes of one expression.
const MOST_SOURCE: usize = 64 * 1024;

/// Most faults of one expression that are told.
const MOST_TOLD: usize = 10;

/// What expressions about a token can name.
static CLAIMS: LazyLock<Env> =
    LazyLock::new(|| Env::new().variable("claims", Type::map(Type::String, Type::Dyn)));

/// What expressions about the user who came of it can name.
static USER: LazyLock<Env> = LazyLock::new(|| {
    let extra = Type::map(Type::String, Type::list(Type::String));
    let user = Type::structure(
        "kubernetes.UserInfo",
        [
            ("username", Type::String.into()),
            ("uid", Type::String.into()),
            ("groups", Type::list(Type::String).into()),
            ("extra", extra.into()),
        ],
    );
    Env::new().variable("user", user)
});

/// What an expression may come to.
#[derive(Clone, Copy)]
enum Wanted {
    Truth,
    Text,
    Texts,
}

impl Wanted {
    fn takes(self, result: &Type) -> bool {
        match (self, result) {
            (Wanted::Truth, result) => *result == Type::Bool,
            (Wanted::Text | Wanted::Texts, Type::Dyn | Type::String) => true,
            (Wanted::Texts, Type::Null) => true,
            (Wanted::Texts, Type::List(list)) => {
                matches!(list.item.ty, Type::Dyn | Type::String | Type::Unknown(_))
            }
            _ => false,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Wanted::Truth => "must evaluate to bool",
            Wanted::Text => "must evaluate to string",
            Wanted::Texts => "must evaluate to string or list(string)",
        }
    }
}

/// Makes a configuration of what is written.
pub(super) fn configuration(wire: &Wire, limits: &Limits<'_>, errors: &mut Errors) -> Configuration {
    if wire.jwt.len() > MOST_ISSUERS {
        errors.too_many("jwt", wire.jwt.len(), MOST_ISSUERS);
        return Configuration::default();
    }
    let (mut urls, mut discoveries) = (BTreeSet::new(), BTreeSet::new());
    let mut issuers = vec![];
    for (index, jwt) in wire.jwt.iter().enumerate() {
        errors.at_index("jwt", index, |errors| {
            issuers.extend(issuer(index, jwt, limits, errors).map(Arc::new));
            let wire::Issuer { url, discovery_url, .. } = &jwt.issuer;
            if !urls.insert(url) {
                errors.duplicate("issuer.url", &json!(url));
            }
            if !discovery_url.is_empty() && !discoveries.insert(discovery_url) {
                errors.duplicate("issuer.discoveryURL", &json!(discovery_url));
            }
        });
    }
    let anonymous = wire.anonymous.as_ref().map(|written| anonymous(written, errors));
    Configuration { issuers, anonymous }
}

fn anonymous(written: &wire::Anonymous, errors: &mut Errors) -> Anonymous {
    let paths: Vec<String> = written.conditions.iter().map(|condition| condition.path.clone()).collect();
    if !written.enabled && !paths.is_empty() {
        let shown: Vec<Value> = paths.iter().map(|path| json!({"path": path})).collect();
        let why = "enabled should be set to true when conditions are defined";
        errors.invalid("anonymous.conditions", &Value::Array(shown), why);
    }
    for (index, path) in paths.iter().enumerate() {
        if path.is_empty() {
            errors.at_index("anonymous.conditions", index, |errors| errors.required("path", ""));
        }
    }
    match (written.enabled, paths.is_empty()) {
        (false, _) => Anonymous::Nowhere,
        (true, true) => Anonymous::Everywhere,
        (true, false) => Anonymous::At(paths),
    }
}

/// One issuer; `None` when something is wrong with it.
fn issuer(index: usize, jwt: &Jwt, limits: &Limits<'_>, errors: &mut Errors) -> Option<Issuer> {
    let wire::Issuer { url, discovery_url, certificate_authority, audiences, .. } = &jwt.issuer;
    errors.at("issuer", |errors| check_issuer(index, &jwt.issuer, limits, errors));
    let rules = claim_rules(&jwt.claim_validation_rules, errors);
    let mappings = &jwt.claim_mappings;
    let (username, groups, uid, extra) = errors.at("claimMappings", |errors| {
        let username = prefixed("username", &mappings.username, Wanted::Text, errors);
        let is_unmapped = mappings.username.claim.is_empty() && mappings.username.expression.is_empty();
        if is_unmapped {
            errors.required("username", "claim or expression is required");
        }
        let groups = prefixed("groups", &mappings.groups, Wanted::Texts, errors);
        (username, groups, uid(&mappings.uid, errors), extra(&mappings.extra, errors))
    });
    check_email(jwt, errors);
    let user_rules = user_rules(&jwt.user_validation_rules, errors);
    Some(Issuer {
        url: url.clone(),
        discovery_url: match discovery_url.as_str() {
            "" => format!("{}/.well-known/openid-configuration", url.trim_end_matches('/')),
            given => given.to_owned(),
        },
        authorities: certificate_authority.clone(),
        audiences: audiences.clone(),
        algorithms: limits.algorithms.to_vec(),
        mappings: Mappings { rules, username: username?, groups, uid, extra, user_rules },
    })
}

fn check_issuer(index: usize, issuer: &wire::Issuer, limits: &Limits<'_>, errors: &mut Errors) {
    let wire::Issuer { url, discovery_url, certificate_authority, audiences, .. } = issuer;
    match url.as_str() {
        "" => errors.required("url", ""),
        _ => {
            if limits.own_issuers.contains(url) {
                let own = limits.own_issuers.join(" ");
                errors.invalid_str(
                    "url",
                    url,
                    format!("URL must not overlap with disallowed issuers: [{own}]"),
                );
            }
            check_url("url", url, errors);
        }
    }
    if !discovery_url.is_empty() {
        if !url.is_empty() && url.trim_end_matches('/') == discovery_url.trim_end_matches('/') {
            errors.invalid_str("discoveryURL", discovery_url, "discoveryURL must be different from URL");
        }
        check_url("discoveryURL", discovery_url, errors);
    }
    if audiences.is_empty() {
        errors.required("audiences", format!("at least one jwt[{index}].issuer.audiences is required"));
    }
    let mut seen = BTreeSet::new();
    for (place, audience) in audiences.iter().enumerate() {
        let field = format!("audiences[{place}]");
        if audience.is_empty() {
            errors.required(&field, "");
        }
        if !seen.insert(audience) {
            errors.duplicate(&field, &json!(audience));
        }
    }
    let policy = issuer.audience_match_policy.as_str();
    match (audiences.len(), policy) {
        (0, _) | (_, "MatchAny") | (1, "") => {}
        (1, _) => {
            let why = "audienceMatchPolicy must be empty or MatchAny for single audience";
            errors.invalid_str("audienceMatchPolicy", policy, why);
        }
        _ => {
            let why = "audienceMatchPolicy must be MatchAny for multiple audiences";
            errors.invalid_str("audienceMatchPolicy", policy, why);
        }
    }
    if let Err(why) = check_authorities(certificate_authority) {
        errors.invalid_str("certificateAuthority", "<omitted>", why);
    }
    if !issuer.egress_selector_type.is_empty() {
        let why = "egress selector is not supported by this server";
        errors.invalid_str("egressSelectorType", &issuer.egress_selector_type, why);
    }
}

fn check_url(field: &str, url: &str, errors: &mut Errors) {
    let mut wrong = |why: &str| errors.invalid_str(field, url, why);
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let authority = rest.split('/').next().unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("https") {
        wrong("URL scheme must be https");
    } else if authority.contains('@') {
        wrong("URL must not contain a username or password");
    } else if url.parse::<Uri>().ok().and_then(|url| url.host().map(str::is_empty)) != Some(false) {
        wrong("URL must be well-formed and have a host");
    }
    if !query.is_empty() {
        wrong("URL must not contain a query");
    }
    if !fragment.is_empty() {
        wrong("URL must not contain a fragment");
    }
}

fn check_authorities(pem: &str) -> Result<(), String> {
    if pem.is_empty() {
        return Ok(());
    }
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.map_err(|_| "data is not PEM".to_owned())?;
    match found.iter().all(|certificate| X509Certificate::from_der(certificate).is_ok()) && !found.is_empty()
    {
        true => Ok(()),
        false => Err("data does not contain any valid RSA or ECDSA certificates".to_owned()),
    }
}

fn claim_rules(written: &[wire::ClaimRule], errors: &mut Errors) -> Vec<ClaimRule> {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    let mut rules = vec![];
    for (index, rule) in written.iter().enumerate() {
        let wire::ClaimRule { claim, required_value, expression, message } = rule;
        errors.at_index("claimValidationRules", index, |errors| {
            match (claim.is_empty(), expression.is_empty()) {
                (false, false) => errors.invalid_str("", claim, "claim and expression can't both be set"),
                (true, true) => errors.required("", "claim or expression is required"),
                (false, true) => {
                    if !message.is_empty() {
                        errors.invalid_str("message", message, "may not be specified when claim is set");
                    }
                    if !claims.insert(claim) {
                        errors.duplicate("claim", &json!(claim));
                    }
                    rules.push(ClaimRule::Required { claim: claim.clone(), value: required_value.clone() });
                }
                (true, false) => {
                    if !required_value.is_empty() {
                        let why = "may not be specified when expression is set";
                        errors.invalid_str("requiredValue", required_value, why);
                    }
                    let rule = self::rule(&CLAIMS, expression, message, &mut expressions, errors);
                    rules.extend(rule.map(ClaimRule::Rule));
                }
            }
        });
    }
    rules
}

fn user_rules(written: &[wire::UserRule], errors: &mut Errors) -> Vec<Rule> {
    let mut expressions = BTreeSet::new();
    let mut rules = vec![];
    for (index, rule) in written.iter().enumerate() {
        let wire::UserRule { expression, message } = rule;
        errors.at_index("userValidationRules", index, |errors| match expression.is_empty() {
            true => errors.required("expression", ""),
            false => rules.extend(self::rule(&USER, expression, message, &mut expressions, errors)),
        });
    }
    rules
}

fn rule<'a>(
    env: &Env,
    source: &'a str,
    message: &str,
    seen: &mut BTreeSet<&'a str>,
    errors: &mut Errors,
) -> Option<Rule> {
    if !seen.insert(source) {
        errors.duplicate("expression", &json!(source));
        return None;
    }
    let expression = compile(env, "expression", source, Wanted::Truth, errors)?;
    Some(Rule { expression, message: message.to_owned() })
}

fn prefixed(field: &str, written: &wire::Mapping, wanted: Wanted, errors: &mut Errors) -> Option<Source> {
    let wire::Mapping { claim, prefix, expression } = written;
    errors.at(field, |errors| match (claim.is_empty(), expression.is_empty()) {
        (true, true) => None,
        (false, false) => {
            errors.invalid_str("", "", "claim and expression can't both be set");
            None
        }
        (true, false) => {
            if let Some(prefix) = prefix {
                errors.invalid_str("prefix", prefix, "may not be specified when expression is set");
            }
            compile(&CLAIMS, "expression", expression, wanted, errors).map(Source::Expression)
        }
        (false, true) => {
            if prefix.is_none() {
                let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.required("prefix", why);
            }
            Some(Source::Claim { name: claim.clone(), prefix: prefix.clone().unwrap_or_default() })
        }
    })
}

fn uid(written: &wire::Mapping, errors: &mut Errors) -> Option<Source> {
    // An id has no prefix to be asked for.
    let written = wire::Mapping { prefix: None, ..written.clone() };
    let is_claim = written.expression.is_empty() && !written.claim.is_empty();
    match is_claim {
        true => Some(Source::Claim { name: written.claim, prefix: String::new() }),
        false => prefixed("uid", &written, Wanted::Text, errors),
    }
}

fn extra(written: &[wire::Extra], errors: &mut Errors) -> Vec<(String, Expression)> {
    let mut seen = BTreeSet::new();
    let mut found = vec![];
    for (index, wire::Extra { key, value_expression }) in written.iter().enumerate() {
        errors.at_index("extra", index, |errors| {
            check_key(key, errors);
            if !seen.insert(key) {
                return errors.duplicate("key", &json!(key));
            }
            if value_expression.is_empty() {
                return errors.required("valueExpression", "");
            }
            let program = compile(&CLAIMS, "valueExpression", value_expression, Wanted::Texts, errors);
            found.extend(program.map(|program| (key.clone(), program)));
        });
    }
    found
}

/// A key belongs to a domain, and none that is Kubernetes' own.
fn check_key(key: &str, errors: &mut Errors) {
    const IN_PATHS: &str = "/-._~%!$&'()*+,;=:";
    let Some((domain, path)) =
        key.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        return match key {
            "" => errors.required("key", ""),
            _ => errors.invalid_str("key", key, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
        };
    };
    for fault in names::subdomain_faults(domain) {
        errors.invalid_str("key", domain, fault);
    }
    if !path.chars().all(|c| c.is_ascii_alphanumeric() || IN_PATHS.contains(c)) {
        let why = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        errors.invalid_str("key", path, why);
    }
    if key.chars().any(char::is_uppercase) {
        errors.invalid_str("key", key, "must be lowercase");
    }
    let is_reserved = ["k8s.io", "kubernetes.io"].iter().any(|reserved| {
        domain.strip_suffix(reserved).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    });
    if is_reserved {
        let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
        errors.invalid_str("key", key, why);
    }
}

/// Who goes by an address must have shown that it is theirs.
fn check_email(jwt: &Jwt, errors: &mut Errors) {
    let username = &jwt.claim_mappings.username.expression;
    let verifies = |source: &str| selects(source, "claims", "email_verified");
    let is_verified = verifies(username)
        || jwt.claim_mappings.extra.iter().any(|extra| verifies(&extra.value_expression))
        || jwt.claim_validation_rules.iter().any(|rule| verifies(&rule.expression));
    if selects(username, "claims", "email") && !is_verified {
        let why = "claims.email_verified must be used in claimMappings.username.expression or \
                   claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email \
                   is used in claimMappings.username.expression";
        errors.invalid_str("claimMappings.username.expression", username, why);
    }
}

fn compile(env: &Env, field: &str, source: &str, wanted: Wanted, errors: &mut Errors) -> Option<Expression> {
    if source.len() > MOST_SOURCE {
        errors.push(Fault::TooLong, field, String::new(), names::too_long(MOST_SOURCE));
        return None;
    }
    match env.compile(source) {
        Ok(program) if wanted.takes(program.result()) => {
            Some(Expression { source: source.to_owned(), program })
        }
        Ok(_) => {
            errors.invalid_str(field, source, wanted.words());
            None
        }
        Err(faults) => {
            let told: Vec<String> = faults.iter().take(MOST_TOLD).map(CompileError::to_string).collect();
            errors.invalid_str(field, source, format!("compilation failed: {}", told.join("\n")));
            None
        }
    }
}
