//! Configurations that are taken, and those that are not.

use serde_json::{Value, json};

use super::{super::Classic, Configuration, ISSUER, Limits, read, short, with};
use crate::jwt::Algorithm;

/// What is wrong with the short configuration once something stands at a place of its first issuer, and what is said.
fn wrong() -> Vec<(&'static str, Value, &'static str)> {
    let long = "a".repeat(65 * 1024);
    let both = json!({"claim": "a", "expression": "claims.a"});
    vec![
        ("issuer.url", json!(""), "jwt[0].issuer.url: Required value"),
        (
            "issuer.url",
            json!("http://a.b"),
            "jwt[0].issuer.url: Invalid value: \"http://a.b\": URL scheme must be https",
        ),
        (
            "issuer.url",
            json!("issuer"),
            "jwt[0].issuer.url: Invalid value: \"issuer\": URL scheme must be https",
        ),
        ("issuer.url", json!("https://u:p@a.b"), "URL must not contain a username or password"),
        (
            "issuer.url",
            json!("https://a.b/?c=d"),
            "jwt[0].issuer.url: Invalid value: \"https://a.b/?c=d\": URL must not contain a query",
        ),
        ("issuer.url", json!("https://a.b/#c"), "URL must not contain a fragment"),
        ("issuer.url", json!("https:///path"), "URL must be well-formed and have a host"),
        ("issuer.url", json!("https://a b"), "URL must be well-formed and have a host"),
        (
            "issuer.url",
            json!("https://own.example.com"),
            "jwt[0].issuer.url: Invalid value: \"https://own.example.com\": URL must not overlap with disallowed issuers: [https://own.example.com]",
        ),
        ("issuer.url", json!(5), "jwt[0].issuer.url: Invalid value: must be a string"),
        (
            "issuer.discoveryURL",
            json!("https://issuer.example.com/"),
            "jwt[0].issuer.discoveryURL: Invalid value: \"https://issuer.example.com/\": discoveryURL must be different from URL",
        ),
        (
            "issuer.discoveryURL",
            json!("ftp://a.b"),
            "jwt[0].issuer.discoveryURL: Invalid value: \"ftp://a.b\": URL scheme must be https",
        ),
        (
            "issuer.discoveryURL",
            json!("https://a.b?c"),
            "jwt[0].issuer.discoveryURL: Invalid value: \"https://a.b?c\": URL must not contain a query",
        ),
        (
            "issuer.audiences",
            json!([]),
            "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        ),
        ("issuer.audiences", json!([""]), "jwt[0].issuer.audiences[0]: Required value"),
        ("issuer.audiences", json!("windlass"), "jwt[0].issuer.audiences: Invalid value: must be a list"),
        ("issuer.audiences", json!(["a", 1]), "jwt[0].issuer.audiences[1]: Invalid value: must be a string"),
        ("issuer.audiences", json!(["a", "a"]), "jwt[0].issuer.audiences[1]: Duplicate value: \"a\""),
        (
            "issuer.audiences",
            json!(["a", "b"]),
            "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
        ),
        (
            "issuer.audienceMatchPolicy",
            json!("MatchAll"),
            "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"MatchAll\": audienceMatchPolicy must be empty or MatchAny for single audience",
        ),
        (
            "issuer.certificateAuthority",
            json!("hello"),
            "jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid",
        ),
        (
            "issuer.certificateAuthority",
            json!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid",
        ),
        (
            "issuer.egressSelectorType",
            json!("cluster"),
            "jwt[0].issuer.egressSelectorType: Invalid value: \"cluster\": egress selector is not supported",
        ),
        ("issuer.uri", json!("https://a.b"), "strict decoding error: unknown field \"jwt[0].issuer.uri\""),
        ("claimValidationRules", json!({}), "jwt[0].claimValidationRules: Invalid value: must be a list"),
        (
            "claimValidationRules",
            json!([{}]),
            "jwt[0].claimValidationRules[0]: Required value: claim or expression is required",
        ),
        (
            "claimValidationRules",
            json!([both]),
            "jwt[0].claimValidationRules[0]: Invalid value: \"a\": claim and expression can't both be set",
        ),
        (
            "claimValidationRules",
            json!([{"claim": "a", "message": "b"}]),
            "jwt[0].claimValidationRules[0].message: Invalid value: \"b\": may not be specified when claim is set",
        ),
        (
            "claimValidationRules",
            json!([{"claim": "a"}, {"claim": "a"}]),
            "jwt[0].claimValidationRules[1].claim: Duplicate value: \"a\"",
        ),
        (
            "claimValidationRules",
            json!([{"expression": "true", "requiredValue": "b"}]),
            "jwt[0].claimValidationRules[0].requiredValue: Invalid value: \"b\": may not be specified when expression is set",
        ),
        (
            "claimValidationRules",
            json!([{"expression": "true"}, {"expression": "true"}]),
            "jwt[0].claimValidationRules[1].expression: Duplicate value: \"true\"",
        ),
        (
            "claimValidationRules",
            json!([{"expression": "1 + 1"}]),
            "jwt[0].claimValidationRules[0].expression: Invalid value: \"1 + 1\": must evaluate to bool",
        ),
        (
            "claimValidationRules",
            json!([{"expression": "user.username == ''"}]),
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'user'",
        ),
        (
            "claimMappings",
            Value::Null,
            "jwt[0].claimMappings.username: Required value: claim or expression is required",
        ),
        (
            "claimMappings.username",
            both.clone(),
            "jwt[0].claimMappings.username: Invalid value: \"\": claim and expression can't both be set",
        ),
        (
            "claimMappings.username",
            json!({"claim": "sub"}),
            "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set",
        ),
        (
            "claimMappings.username",
            json!({"expression": "claims.sub", "prefix": "a"}),
            "jwt[0].claimMappings.username.prefix: Invalid value: \"a\": may not be specified when expression is set",
        ),
        (
            "claimMappings.username",
            json!({"expression": "claims."}),
            "jwt[0].claimMappings.username.expression: Invalid value: \"claims.\": compilation failed: ERROR: <input>:1:8",
        ),
        (
            "claimMappings.username",
            json!({"expression": "true"}),
            "jwt[0].claimMappings.username.expression: Invalid value: \"true\": must evaluate to string",
        ),
        (
            "claimMappings.username",
            json!({"expression": long}),
            "jwt[0].claimMappings.username.expression: Too long: must be no more than 65536 bytes",
        ),
        (
            "claimMappings.username",
            json!({"expression": "claims.email"}),
            "jwt[0].claimMappings.username.expression: Invalid value: \"claims.email\": claims.email_verified must be used",
        ),
        (
            "claimMappings.username",
            json!({"expression": "has(claims.sub) ? claims['email'] : claims.sub"}),
            "claims.email_verified must be used",
        ),
        (
            "claimMappings.groups",
            json!({"claim": "groups"}),
            "jwt[0].claimMappings.groups.prefix: Required value",
        ),
        (
            "claimMappings.groups",
            json!({"expression": "5"}),
            "jwt[0].claimMappings.groups.expression: Invalid value: \"5\": must evaluate to string or list(string)",
        ),
        (
            "claimMappings.groups",
            json!({"expression": "[1]"}),
            "jwt[0].claimMappings.groups.expression: Invalid value",
        ),
        (
            "claimMappings.uid",
            both,
            "jwt[0].claimMappings.uid: Invalid value: \"\": claim and expression can't both be set",
        ),
        (
            "claimMappings.uid",
            json!({"claim": "a", "prefix": "b"}),
            "strict decoding error: unknown field \"jwt[0].claimMappings.uid.prefix\"",
        ),
        (
            "claimMappings.uid",
            json!({"expression": "[claims.a]"}),
            "jwt[0].claimMappings.uid.expression: Invalid value",
        ),
        ("claimMappings.extra", json!([{}]), "jwt[0].claimMappings.extra[0].key: Required value"),
        (
            "claimMappings.extra",
            json!([{"key": "a", "valueExpression": "''"}]),
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"a\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
        (
            "claimMappings.extra",
            json!([{"key": "a_b/c", "valueExpression": "''"}]),
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain",
        ),
        (
            "claimMappings.extra",
            json!([{"key": "a.b/c d", "valueExpression": "''"}]),
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"c d\": Invalid path (regex used",
        ),
        (
            "claimMappings.extra",
            json!([{"key": "a.b/C", "valueExpression": "''"}]),
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"a.b/C\": must be lowercase",
        ),
        (
            "claimMappings.extra",
            json!([{"key": "a.k8s.io/c", "valueExpression": "''"}]),
            "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
        ),
        (
            "claimMappings.extra",
            json!([{"key": "kubernetes.io/c", "valueExpression": "''"}]),
            "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
        ),
        (
            "claimMappings.extra",
            json!([{"key": "a.b/c", "valueExpression": "''"}, {"key": "a.b/c", "valueExpression": "''"}]),
            "jwt[0].claimMappings.extra[1].key: Duplicate value: \"a.b/c\"",
        ),
        (
            "claimMappings.extra",
            json!([{"key": "a.b/c"}]),
            "jwt[0].claimMappings.extra[0].valueExpression: Required value",
        ),
        (
            "claimMappings.extra",
            json!([{"key": "a.b/c", "valueExpression": "d"}]),
            "jwt[0].claimMappings.extra[0].valueExpression: Invalid value: \"d\": compilation failed",
        ),
        ("userValidationRules", json!([{}]), "jwt[0].userValidationRules[0].expression: Required value"),
        (
            "userValidationRules",
            json!([{"expression": "true"}, {"expression": "true"}]),
            "jwt[0].userValidationRules[1].expression: Duplicate value: \"true\"",
        ),
        (
            "userValidationRules",
            json!([{"expression": "user.username"}]),
            "jwt[0].userValidationRules[0].expression: Invalid value: \"user.username\": must evaluate to bool",
        ),
        (
            "userValidationRules",
            json!([{"expression": "user.name == ''"}]),
            "jwt[0].userValidationRules[0].expression: Invalid value: \"user.name == ''\": compilation failed",
        ),
        (
            "userValidationRules",
            json!([{"expression": "claims.sub == ''"}]),
            "undeclared reference to 'claims'",
        ),
    ]
}

#[test]
fn what_is_wrong_with_an_issuer_is_told_by_field() {
    for (place, value, says) in wrong() {
        let configuration = with(short(), &format!("jwt.0.{place}"), value.clone());
        let error = read(&configuration).expect_err(&format!("{place} = {value}"));
        assert!(error.contains(says), "{place} = {value}\nsays     {error}\nexpected {says}");
    }
}

#[test]
fn what_is_wrong_with_the_rest_is_told_by_field() {
    let issuer = short()["jwt"][0].clone();
    let other = with(issuer.clone(), "issuer.url", json!("https://other.example.com"));
    let discovered = |issuer: &Value| with(issuer.clone(), "issuer.discoveryURL", json!("https://a.b/c"));
    for (place, value, says) in [
        (
            "kind",
            json!("Configuration"),
            "no kind \"Configuration\" is registered for version \"apiserver.config.k8s.io/v1\"",
        ),
        (
            "apiVersion",
            json!("v1"),
            "no kind \"AuthenticationConfiguration\" is registered for version \"v1\"",
        ),
        ("apiVersion", Value::Null, "is registered for version \"\""),
        ("jtw", json!([]), "strict decoding error: unknown field \"jtw\""),
        ("jwt", json!("a"), "jwt: Invalid value: must be a list"),
        ("jwt.1", json!(5), "jwt[1]: Invalid value: must be an object"),
        ("jwt", json!(vec![&issuer; 65]), "jwt: Too many: 65: must have at most 64 items"),
        ("jwt.1", issuer.clone(), "jwt[1].issuer.url: Duplicate value: \"https://issuer.example.com\""),
        (
            "jwt",
            json!([discovered(&issuer), discovered(&other)]),
            "jwt[1].issuer.discoveryURL: Duplicate value: \"https://a.b/c\"",
        ),
        ("anonymous.enabled", json!("yes"), "anonymous.enabled: Invalid value: must be true or false"),
        (
            "anonymous.conditions",
            json!([{"path": "/livez"}]),
            "anonymous.conditions: Invalid value: [{\"path\":\"/livez\"}]: enabled should be set to true when conditions are defined",
        ),
        (
            "anonymous",
            json!({"enabled": true, "conditions": [{}]}),
            "anonymous.conditions[0].path: Required value",
        ),
        (
            "anonymous",
            json!({"enabled": true, "conditions": [{"url": "/"}]}),
            "strict decoding error: unknown field \"anonymous.conditions[0].url\"",
        ),
    ] {
        let error = read(&with(short(), place, value.clone())).expect_err(place);
        assert!(error.contains(says), "{place} = {value}\nsays     {error}\nexpected {says}");
    }
}

#[test]
fn every_fault_is_told_at_once() {
    let both = with(short(), "jwt.0.issuer.url", json!(""));
    let error = read(&with(both, "jwt.0.issuer.audiences", json!([]))).expect_err("two faults");
    assert!(
        error.starts_with("[jwt[0].issuer.url: Required value, jwt[0].issuer.audiences: Required"),
        "{error}"
    );
}

#[test]
fn bytes_that_are_no_configuration_are_refused() {
    let limits = Limits { own_issuers: &[], algorithms: &Algorithm::ALL };
    for bytes in [&b""[..], b"\xff\xfe", b"- a", b"{", b"a: &a [*a, *a]", b"kind: x\nkind: x"] {
        Configuration::read(bytes, &limits).expect_err("no configuration");
    }
    let twice = format!(
        "{}\njwt: []\njwt: []\n",
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration"
    );
    let error = Configuration::read(twice.as_bytes(), &limits).expect_err("a field stands twice").to_string();
    assert_eq!(error, "strict decoding error: duplicate field \"jwt\"");
    let huge = vec![b' '; 4 << 20];
    Configuration::read(&huge, &limits).expect_err("too large");
}

#[test]
fn configurations_of_every_version_are_taken() {
    let limits = Limits { own_issuers: &[], algorithms: &Algorithm::ALL };
    for version in ["v1", "v1beta1", "v1alpha1"] {
        let yaml = format!(
            "apiVersion: apiserver.config.k8s.io/{version}
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: https://example.com
    discoveryURL: https://discovery.example.com/.well-known/openid-configuration
    audiences: [my-app, my-other-app]
    audienceMatchPolicy: MatchAny
  claimValidationRules:
  - {{claim: hd, requiredValue: example.com}}
  - expression: 'claims.hd == \"example.com\"'
    message: the hd claim must be set to example.com
  - expression: 'claims.exp - claims.nbf <= 86400'
    message: total token lifetime must not exceed 24 hours
  claimMappings:
    username: {{expression: 'claims.username + \":external-user\"'}}
    groups: {{expression: 'claims.roles.split(\",\")'}}
    uid: {{expression: claims.sub}}
    extra:
    - {{key: example.com/tenant, valueExpression: claims.tenant}}
  userValidationRules:
  - expression: \"!user.username.startsWith('system:')\"
    message: username cannot used reserved system prefix
  - expression: \"user.groups.all(group, !group.startsWith('system:'))\"
anonymous:
  enabled: true
  conditions: [{{path: /livez}}]
"
        );
        let configuration = Configuration::read(yaml.as_bytes(), &limits).expect(version);
        assert_eq!(configuration.urls().collect::<Vec<_>>(), ["https://example.com"]);
    }
    // Nobody is trusted, until the file is written anew.
    read(&with(short(), "jwt", json!([]))).expect("no issuer");
}

#[test]
fn an_address_is_a_name_once_someone_has_verified_it() {
    let by_address = |place: &str, value: Value| {
        let configuration =
            with(short(), "jwt.0.claimMappings.username", json!({"expression": "claims.email"}));
        read(&with(configuration, place, value))
    };
    let username =
        json!({"expression": "claims.?email_verified.orValue(true) == true ? claims.email : claims.sub"});
    by_address("jwt.0.claimMappings.username", username).expect("in the name itself");
    let rule = json!([{"expression": "claims.email_verified == true"}]);
    by_address("jwt.0.claimValidationRules", rule).expect("in a rule");
    let extra = json!([{"key": "a.b/c", "valueExpression": "string(claims.email_verified)"}]);
    by_address("jwt.0.claimMappings.extra", extra).expect("in what else is known");
}

fn classic() -> Classic {
    Classic { issuer_url: ISSUER.to_owned(), client_id: "windlass".to_owned(), ..Classic::default() }
}

#[test]
fn classic_flags_need_each_other() {
    let own = ["https://own.example.com".to_owned()];
    let says = |classic: Classic| classic.configuration(&own).expect_err("something is wrong").to_string();
    for classic in [
        Classic { issuer_url: String::new(), ..classic() },
        Classic { client_id: String::new(), ..classic() },
    ] {
        assert!(says(classic).contains("must be specified together"));
    }
    let none = Classic { signing_algorithms: vec!["none".to_owned()], ..classic() };
    assert!(says(none).starts_with("--oidc-signing-algs none: expected one of RS256"));
    let own_issuer = Classic { issuer_url: own[0].clone(), ..classic() };
    assert!(says(own_issuer).contains("URL must not overlap with disallowed issuers"));
    classic().configuration(&own).expect("all that is needed");
}
