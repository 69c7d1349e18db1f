//! Admission policies and their bindings: rules for writes, without anyone to ask.

use serde_json::{Value, json};
use windlass_machinery::{field::Errors, names, object::Object};

use super::{
    checks::{defaults, defaults_in, must_be_named, named, no_status, selector, unique_by},
    fields::{below, each, is_set, list, malformed, map, must_be, one_of, required, text, within},
    webhook::{FAILURE_POLICIES, MATCH_POLICIES, check_conditions, check_rule},
};
use crate::{
    admission::check_expressions,
    resources::{Generation, Strategy},
};

pub(crate) const VALIDATING: Strategy = Strategy {
    default: |policy| default_policy(policy, json!({})),
    prepare_create: no_status,
    validate: |policy, errors| within(policy, "spec", errors, validate_validating),
    ..PLAIN
};

pub(crate) const MUTATING: Strategy = Strategy {
    default: |policy| default_policy(policy, json!({"reinvocationPolicy": "Never"})),
    validate: |policy, errors| within(policy, "spec", errors, validate_mutating),
    ..PLAIN
};

pub(crate) const VALIDATING_BINDING: Strategy = Strategy {
    default: |binding| default_matching(binding, "matchResources"),
    validate: |binding, errors| {
        within(binding, "spec", errors, |spec, errors| {
            validate_binding(spec, errors);
            check_actions(spec, errors);
        });
    },
    ..PLAIN
};

pub(crate) const MUTATING_BINDING: Strategy = Strategy {
    default: |binding| default_matching(binding, "matchResources"),
    validate: |binding, errors| within(binding, "spec", errors, validate_binding),
    ..PLAIN
};

const PLAIN: Strategy =
    Strategy { generation: Generation::COUNTED, unconditional_update: false, ..Strategy::PLAIN };

/// Most entries of each list of a policy.
const MOST_ENTRIES: usize = 1000;
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

fn default_policy(policy: &mut Object, more: Value) {
    defaults(policy, json!({"spec": {"failurePolicy": "Fail"}}));
    defaults_in(policy, &["spec"], more);
    default_matching(policy, "matchConstraints");
}

fn default_matching(object: &mut Object, field: &str) {
    let values = json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}});
    defaults_in(object, &["spec", field], values);
    for rules in ["resourceRules", "excludeResourceRules"] {
        defaults_in(object, &["spec", field, rules], json!({"scope": "*"}));
    }
}

fn validate_policy(spec: &Object, errors: &mut Errors) {
    one_of(spec, "failurePolicy", FAILURE_POLICIES, errors);
    below(spec, "paramKind", errors, |kind, errors| {
        required(kind, &["apiVersion", "kind"], errors);
    });
    match map(spec, "matchConstraints") {
        None => errors.required("matchConstraints", ""),
        Some(constraints) => errors.at("matchConstraints", |errors| {
            check_matching(constraints, errors);
            if list(constraints, "resourceRules").is_empty() {
                errors.required("resourceRules", "");
            }
        }),
    }
    check_conditions(spec, errors);
    for field in ["variables", "validations", "auditAnnotations", "mutations"] {
        let n_entries = list(spec, field).len();
        if n_entries > MOST_ENTRIES {
            errors.too_many(field, n_entries, MOST_ENTRIES);
        }
    }
    unique_by(spec, "variables", "name", errors);
    each(spec, "variables", errors, |variable, errors| {
        let name = text(variable, "name");
        match name.is_empty() {
            true => errors.required("name", "name is not specified"),
            false => malformed("name", name, names::c_identifier(name), errors),
        }
        need_expression(variable, "expression", errors);
    });
}

fn need_expression(object: &Object, field: &str, errors: &mut Errors) {
    if text(object, field).trim().is_empty() {
        errors.required(field, format!("{field} is not specified"));
    }
}

fn check_matching(matching: &Object, errors: &mut Errors) {
    one_of(matching, "matchPolicy", MATCH_POLICIES, errors);
    selector(matching, "namespaceSelector", errors);
    selector(matching, "objectSelector", errors);
    for rules in ["resourceRules", "excludeResourceRules"] {
        each(matching, rules, errors, check_rule);
    }
}

fn validate_validating(spec: &Object, errors: &mut Errors) {
    validate_policy(spec, errors);
    if list(spec, "validations").is_empty() && list(spec, "auditAnnotations").is_empty() {
        errors.required("validations", "validations or auditAnnotations must be specified");
        errors.required("auditAnnotations", "validations or auditAnnotations must be specified");
    }
    each(spec, "validations", errors, |validation, errors| {
        need_expression(validation, "expression", errors);
        one_of(validation, "reason", REASONS, errors);
        let (expression, message) = (text(validation, "expression"), text(validation, "message"));
        if message.contains('\n') {
            errors.invalid_str("message", message, "message must not contain line breaks");
        } else if is_set(validation, "message") && message.trim().is_empty() {
            errors.invalid_str("message", message, "message must be non-empty if specified");
        } else if expression.contains('\n') && message.is_empty() {
            errors.required("message", "message must be specified if expression contains line breaks");
        }
    });
    unique_by(spec, "auditAnnotations", "key", errors);
    each(spec, "auditAnnotations", errors, |annotation, errors| {
        required(annotation, &["key"], errors);
        need_expression(annotation, "valueExpression", errors);
    });
    check_expressions(spec, false, errors);
}

fn validate_mutating(spec: &Object, errors: &mut Errors) {
    validate_policy(spec, errors);
    one_of(spec, "reinvocationPolicy", &["IfNeeded", "Never"], errors);
    if list(spec, "mutations").is_empty() {
        errors.required("mutations", "mutations must contain at least one item");
    }
    each(spec, "mutations", errors, |mutation, errors| {
        must_be(mutation, "patchType", &["ApplyConfiguration", "JSONPatch"], errors);
        for (kind, field, other) in [
            ("ApplyConfiguration", "applyConfiguration", "jsonPatch"),
            ("JSONPatch", "jsonPatch", "applyConfiguration"),
        ] {
            if text(mutation, "patchType") != kind {
                continue;
            }
            match map(mutation, field) {
                None => errors.required(field, format!("must be specified when patchType is {kind}")),
                Some(patch) => errors.at(field, |errors| need_expression(patch, "expression", errors)),
            }
            if is_set(mutation, other) {
                errors.invalid_str(other, "{}", format!("must not be specified when patchType is {kind}"));
            }
        }
    });
    below(spec, "matchConstraints", errors, |constraints, errors| {
        each(constraints, "resourceRules", errors, |rule, errors| {
            if list(rule, "operations").contains(&json!("DELETE")) {
                errors.not_supported("operations", "DELETE", &["*", "CONNECT", "CREATE", "UPDATE"]);
            }
        });
    });
    check_expressions(spec, true, errors);
}

fn validate_binding(spec: &Object, errors: &mut Errors) {
    must_be_named(spec, "policyName", names::subdomain, errors);
    below(spec, "matchResources", errors, check_matching);
    below(spec, "paramRef", errors, |reference, errors| {
        let named_one = !text(reference, "name").is_empty();
        match (named_one, is_set(reference, "selector")) {
            (false, false) => errors.required("", "one of name or selector must be specified"),
            (true, true) => {
                errors.forbidden("selector", "name and selector are mutually exclusive");
                errors.forbidden("name", "name and selector are mutually exclusive");
            }
            _ => {}
        }
        named(reference, "name", names::path_segment, errors);
        named(reference, "namespace", names::label, errors);
        selector(reference, "selector", errors);
        must_be(reference, "parameterNotFoundAction", &["Allow", "Deny"], errors);
    });
}

fn check_actions(spec: &Object, errors: &mut Errors) {
    if list(spec, "validationActions").is_empty() {
        errors.required("validationActions", "at least one validation action is required");
    }
    super::checks::each_one_of(spec, "validationActions", ACTIONS, errors);
    let has = |action: &str| list(spec, "validationActions").contains(&json!(action));
    if has("Deny") && has("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid("validationActions", &json!(list(spec, "validationActions")), detail);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    fn policy(change: Value) -> Value {
        let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}});
        for (field, value) in object(change) {
            spec[field] = value;
        }
        json!({"spec": spec})
    }

    #[test]
    fn defaults_are_filled_in() {
        let spec = &defaulted(&MUTATING, policy(json!({})))["spec"];
        assert_eq!((&spec["failurePolicy"], &spec["reinvocationPolicy"]), (&json!("Fail"), &json!("Never")));
        let matching = &spec["matchConstraints"];
        assert_eq!(
            (
                &matching["matchPolicy"],
                &matching["namespaceSelector"],
                &matching["resourceRules"][0]["scope"]
            ),
            (&json!("Equivalent"), &json!({}), &json!("*"))
        );
        assert_eq!(defaulted(&VALIDATING_BINDING, json!({"spec": {}})), json!({"spec": {}}));
    }

    #[test]
    fn faults_of_policies_are_found() {
        check(
            &VALIDATING,
            &[
                (policy(json!({"validations": [{"expression": "true"}]})), &[]),
                (policy(json!({})), &["Required spec.validations", "Required spec.auditAnnotations"]),
                (
                    json!({"spec": {"validations": [{"expression": "true"}]}}),
                    &["Required spec.matchConstraints"],
                ),
                (policy(json!({"validations": [{}]})), &["Required spec.validations[0].expression"]),
                (
                    policy(json!({"validations": [{"expression": "true", "reason": "Why"}]})),
                    &["NotSupported spec.validations[0].reason"],
                ),
                (
                    policy(json!({
                        "validations": [{"expression": "true"}], "variables": [{"name": "a-b", "expression": "1"}]
                    })),
                    &["Invalid spec.variables[0].name"],
                ),
            ],
        );
        let patch = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}});
        check(
            &MUTATING,
            &[
                (policy(json!({"mutations": [patch]})), &[]),
                (policy(json!({})), &["Required spec.mutations"]),
                (
                    policy(json!({"mutations": [{"patchType": "JSONPatch"}]})),
                    &["Required spec.mutations[0].jsonPatch"],
                ),
            ],
        );
    }

    #[test]
    fn faults_of_bindings_are_found() {
        let with = |spec: Value| json!({"spec": spec});
        check(
            &VALIDATING_BINDING,
            &[
                (with(json!({"policyName": "a", "validationActions": ["Deny", "Audit"]})), &[]),
                (with(json!({"policyName": "a"})), &["Required spec.validationActions"]),
                (
                    with(json!({"policyName": "a", "validationActions": ["Deny", "Warn"]})),
                    &["Invalid spec.validationActions"],
                ),
                (with(json!({"validationActions": ["Deny"]})), &["Required spec.policyName"]),
            ],
        );
        check(
            &MUTATING_BINDING,
            &[
                (with(json!({"policyName": "a"})), &[]),
                (
                    with(json!({"policyName": "a", "paramRef": {"name": "b"}})),
                    &["Required spec.paramRef.parameterNotFoundAction"],
                ),
            ],
        );
    }
}
