//! Admission webhooks: who is asked before an object is written, and how.

use serde_json::{Value, json};
use windlass_machinery::{field::Errors, names, object::Object};

use super::{
    checks::{defaults, defaults_in, selector, unique_by, visit},
    fields::{each, list, malformed, map, one_of, port, required, text, within},
};
use crate::{
    admission::expressions,
    resources::{Generation, Strategy},
};

pub(crate) const MUTATING: Strategy = Strategy {
    default: |webhooks| {
        default_webhooks(webhooks);
        defaults_in(webhooks, &["webhooks"], json!({"reinvocationPolicy": "Never"}));
    },
    ..VALIDATING
};

pub(crate) const VALIDATING: Strategy = Strategy {
    default: default_webhooks,
    validate,
    generation: Generation::COUNTED,
    unconditional_update: false,
    ..Strategy::PLAIN
};

pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
pub(super) const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
pub(super) const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
/// Most conditions of one webhook or policy.
const MOST_CONDITIONS: usize = 64;

fn default_webhooks(configuration: &mut Object) {
    visit(configuration, &["webhooks"], &mut |webhook| {
        defaults(
            webhook,
            json!({
                "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                "timeoutSeconds": 10
            }),
        );
        defaults_in(webhook, &["rules"], json!({"scope": "*"}));
        defaults_in(webhook, &["clientConfig", "service"], json!({"port": 443}));
    });
}

fn validate(configuration: &Object, errors: &mut Errors) {
    unique_by(configuration, "webhooks", "name", errors);
    let env = expressions::env();
    each(configuration, "webhooks", errors, |webhook, errors| {
        check_name(text(webhook, "name"), errors);
        each(webhook, "rules", errors, check_rule);
        one_of(webhook, "failurePolicy", FAILURE_POLICIES, errors);
        one_of(webhook, "matchPolicy", MATCH_POLICIES, errors);
        one_of(webhook, "reinvocationPolicy", &["IfNeeded", "Never"], errors);
        let effects = text(webhook, "sideEffects");
        match effects {
            "" => errors.required("sideEffects", "must specify one of None, NoneOnDryRun"),
            _ => one_of(webhook, "sideEffects", &["None", "NoneOnDryRun"], errors),
        }
        if webhook
            .get("timeoutSeconds")
            .and_then(Value::as_i64)
            .is_some_and(|seconds| !(1..=30).contains(&seconds))
        {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.invalid("timeoutSeconds", webhook.get("timeoutSeconds").unwrap_or(&Value::Null), detail);
        }
        check_versions(webhook, errors);
        within(webhook, "clientConfig", errors, check_client);
        selector(webhook, "namespaceSelector", errors);
        selector(webhook, "objectSelector", errors);
        check_conditions(webhook, errors);
        expressions::check_conditions(&env, webhook, errors);
    });
}

/// A name of at least three parts, so that it is somebody's.
fn check_name(name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required("name", "");
    }
    let fault = names::subdomain(name, false);
    let few = fault.is_none() && name.split('.').count() < 3;
    malformed("name", name, fault, errors);
    if few {
        errors.invalid_str("name", name, "should be a domain with at least three segments separated by dots");
    }
}

fn check_versions(webhook: &Object, errors: &mut Errors) {
    let versions = list(webhook, "admissionReviewVersions");
    if versions.is_empty() {
        let detail = "must specify one of v1, v1beta1";
        return errors.required("admissionReviewVersions", detail);
    }
    if !versions.iter().filter_map(Value::as_str).any(|version| REVIEW_VERSIONS.contains(&version)) {
        let detail = "must include at least one of v1, v1beta1";
        errors.invalid("admissionReviewVersions", &json!(versions), detail);
    }
    for (index, version) in versions.iter().enumerate() {
        let name = version.as_str().unwrap_or_default();
        errors.at_index("admissionReviewVersions", index, |errors| {
            malformed("", name, names::label_1035(name, false), errors);
            if versions.iter().take(index).any(|earlier| earlier == version) {
                errors.duplicate("", version);
            }
        });
    }
}

/// Where a webhook is: an address, or a service of the cluster.
pub(super) fn check_client(config: &Object, errors: &mut Errors) {
    match (text(config, "url"), map(config, "service")) {
        ("", None) => errors.required("", "exactly one of url or service is required"),
        (url, None) => check_url(url, errors),
        ("", Some(service)) => errors.at("service", |errors| {
            required(service, &["name", "namespace"], errors);
            port(service, "port", errors);
            let path = text(service, "path");
            if !path.is_empty() && !path.starts_with('/') {
                errors.invalid_str("path", path, "must start with a '/'");
            }
        }),
        _ => errors.required("", "exactly one of url or service is required"),
    }
}

fn check_url(url: &str, errors: &mut Errors) {
    const FORM: &str = "desired format: https://host[/path]";
    let Ok(parsed) = url.parse::<http::Uri>() else {
        return errors.invalid_str("url", url, format!("url must be a valid URL; {FORM}"));
    };
    if parsed.scheme_str() != Some("https") {
        let scheme = parsed.scheme_str().unwrap_or_default();
        errors.invalid_str(
            "url",
            url,
            format!("'https' is the only allowed URL scheme, not {scheme:?}; {FORM}"),
        );
    }
    if parsed.host().is_none_or(str::is_empty) {
        errors.invalid_str("url", url, format!("host must be specified; {FORM}"));
    }
    for (sign, what) in [('#', "fragments"), ('?', "query parameters"), ('@', "user information")] {
        if url.contains(sign) {
            errors.invalid_str("url", url, format!("{what} are not permitted in the URL"));
        }
    }
}

/// What a webhook or policy is asked about.
pub(super) fn check_rule(rule: &Object, errors: &mut Errors) {
    let lists = ["operations", "apiGroups", "apiVersions", "resources"];
    for field in lists {
        let values = list(rule, field);
        if values.is_empty() {
            errors.required(field, "");
        }
        let all = json!("*");
        if values.len() > 1 && values.contains(&all) && field != "resources" {
            errors.invalid(field, &json!(values), "if '*' is present, must not specify other values");
        }
        for (index, value) in values.iter().enumerate() {
            let text = value.as_str().unwrap_or_default();
            errors.at_index(field, index, |errors| {
                if text.is_empty() && field != "apiGroups" {
                    errors.required("", "");
                } else if field == "operations" && !OPERATIONS.contains(&text) {
                    errors.not_supported("", text, OPERATIONS);
                }
            });
        }
    }
    one_of(rule, "scope", SCOPES, errors);
}

/// Conditions are named, and say something.
pub(super) fn check_conditions(object: &Object, errors: &mut Errors) {
    let n_conditions = list(object, "matchConditions").len();
    if n_conditions > MOST_CONDITIONS {
        errors.too_many("matchConditions", n_conditions, MOST_CONDITIONS);
    }
    unique_by(object, "matchConditions", "name", errors);
    each(object, "matchConditions", errors, |condition, errors| {
        if required(condition, &["name"], errors) {
            let name = text(condition, "name");
            malformed("name", name, names::qualified(name), errors);
        }
        if text(condition, "expression").trim().is_empty() {
            errors.required("expression", "");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    fn webhook(change: Value) -> Value {
        let mut webhook = json!({
            "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://a.example.com/x"}
        });
        for (field, value) in object(change) {
            webhook[field] = value;
        }
        json!({"webhooks": [webhook]})
    }

    #[test]
    fn defaults_are_filled_in() {
        let given = webhook(json!({"rules": [{}], "clientConfig": {"service": {"name": "s"}}}));
        let expected = json!({
            "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
            "timeoutSeconds": 10, "rules": [{"scope": "*"}], "clientConfig": {"service": {"name": "s", "port": 443}}
        });
        assert_eq!(defaulted(&VALIDATING, given.clone())["webhooks"][0], expected);
        assert_eq!(defaulted(&MUTATING, given)["webhooks"][0]["reinvocationPolicy"], "Never");
    }

    #[test]
    fn faults_are_found() {
        let to = |config: Value| webhook(json!({"clientConfig": config}));
        let rule = |operation: &str| {
            webhook(json!({"rules": [{
                "operations": [operation], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]
            }]}))
        };
        check(
            &VALIDATING,
            &[
                (webhook(json!({})), &[]),
                (rule("CREATE"), &[]),
                (rule("READ"), &["NotSupported webhooks[0].rules[0].operations[0]"]),
                (webhook(json!({"name": "a.b"})), &["Invalid webhooks[0].name"]),
                (webhook(json!({"sideEffects": null})), &["Required webhooks[0].sideEffects"]),
                (webhook(json!({"sideEffects": "Some"})), &["NotSupported webhooks[0].sideEffects"]),
                (webhook(json!({"timeoutSeconds": 0})), &["Invalid webhooks[0].timeoutSeconds"]),
                (webhook(json!({"timeoutSeconds": 31})), &["Invalid webhooks[0].timeoutSeconds"]),
                (
                    webhook(json!({"admissionReviewVersions": []})),
                    &["Required webhooks[0].admissionReviewVersions"],
                ),
                (
                    webhook(json!({"admissionReviewVersions": ["v2"]})),
                    &["Invalid webhooks[0].admissionReviewVersions"],
                ),
                (to(json!({})), &["Required webhooks[0].clientConfig"]),
                (to(json!({"url": "https://a", "service": {}})), &["Required webhooks[0].clientConfig"]),
                (to(json!({"url": "http://a"})), &["Invalid webhooks[0].clientConfig.url"]),
                (to(json!({"url": "https://a?b"})), &["Invalid webhooks[0].clientConfig.url"]),
                (
                    to(json!({"service": {"name": "s"}})),
                    &["Required webhooks[0].clientConfig.service.namespace"],
                ),
                (
                    webhook(json!({"matchConditions": [{"name": "a"}]})),
                    &["Required webhooks[0].matchConditions[0].expression"],
                ),
            ],
        );
    }

    #[test]
    fn names_are_unique() {
        let one = webhook(json!({}))["webhooks"][0].clone();
        check(&MUTATING, &[(json!({"webhooks": [one.clone(), one]}), &["Duplicate webhooks[1].name"])]);
    }
}
