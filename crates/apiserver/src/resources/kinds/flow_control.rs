//! Flow schemas and priority levels: which requests wait for which.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{self, Object},
};

use super::{
    checks::{between, defaults, defaults_in, must_be_named, no_status},
    fields::{below, each, int, is_set, list, map, must_be, non_negative, positive, required, text, within},
};
use crate::{
    access::fairness,
    resources::{Generation, Strategy},
};

pub(crate) const SCHEMA: Strategy = Strategy {
    default: default_schema,
    prepare_create: no_status,
    validate: validate_schema,
    generation: Generation::COUNTED,
    ..Strategy::PLAIN
};

pub(crate) const LEVEL: Strategy = Strategy {
    default: default_level,
    prepare_create: no_status,
    validate: validate_level,
    generation: Generation::COUNTED,
    ..Strategy::PLAIN
};

const MOST_PRECEDENCE: i64 = 10_000;

/// The schema that lets the masters in, whatever others say: nobody else's comes as early.
const EXEMPT: &str = "exempt";
const FIRST_PRECEDENCE: i64 = 1;

/// The most bits of chance that dealing a hand may take.
const MOST_ENTROPY: f64 = 60.0;

/// What every server goes by stays as it is, or whoever may write here could lock everyone out.
fn stays(object: &Object, plural: &str, errors: &mut Errors) {
    let name = object::name(object);
    if let Some(fixed) = fairness::fixed(plural, name)
        && object.get("spec").is_some_and(|spec| *spec != fixed)
    {
        let detail = format!("spec of '{name}' must equal the fixed value");
        errors.invalid("spec", object.get("spec").unwrap_or(&Value::Null), detail);
    }
}

fn default_schema(schema: &mut Object) {
    let spec = object::child_mut(schema, "spec");
    if int(spec, "matchingPrecedence").unwrap_or(0) == 0 {
        spec.insert("matchingPrecedence".to_owned(), 1000.into());
    }
}

fn validate_schema(schema: &Object, errors: &mut Errors) {
    let is_exempt = object::name(schema) == EXEMPT;
    within(schema, "spec", errors, |spec, errors| {
        if int(spec, "matchingPrecedence") == Some(FIRST_PRECEDENCE) && !is_exempt {
            let detail = format!("only the schema named '{EXEMPT}' may have matchingPrecedence 1");
            errors.invalid("matchingPrecedence", &FIRST_PRECEDENCE.into(), detail);
        }
        check_schema(spec, errors);
    });
    stays(schema, "flowschemas", errors);
}

fn check_schema(spec: &Object, errors: &mut Errors) {
    match int(spec, "matchingPrecedence") {
        Some(number) if number <= 0 => {
            errors.invalid("matchingPrecedence", &number.into(), "must be a positive value");
        }
        Some(number) if number > MOST_PRECEDENCE => {
            let detail = format!("must not be greater than {MOST_PRECEDENCE}");
            errors.invalid("matchingPrecedence", &number.into(), detail);
        }
        _ => {}
    }
    below(spec, "distinguisherMethod", errors, |method, errors| {
        must_be(method, "type", &["ByNamespace", "ByUser"], errors);
    });
    within(spec, "priorityLevelConfiguration", errors, |level, errors| {
        must_be_named(level, "name", windlass_machinery::names::subdomain, errors);
    });
    each(spec, "rules", errors, |rule, errors| {
        if list(rule, "subjects").is_empty() {
            errors.required("subjects", "subjects must contain at least one value");
        }
        each(rule, "subjects", errors, check_subject);
        if list(rule, "resourceRules").is_empty() && list(rule, "nonResourceRules").is_empty() {
            errors.required("", "at least one of resourceRules and nonResourceRules has to be non-empty");
        }
        each(rule, "resourceRules", errors, |rule, errors| {
            need_values(rule, &["verbs", "apiGroups", "resources"], errors);
            if list(rule, "namespaces").is_empty() && !super::fields::truth(rule, "clusterScope") {
                let detail = "resource rules that are not cluster scoped must supply at least one namespace";
                errors.required("namespaces", detail);
            }
        });
        each(rule, "nonResourceRules", errors, |rule, errors| {
            need_values(rule, &["verbs", "nonResourceURLs"], errors);
        });
    });
}

fn need_values(rule: &Object, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        if list(rule, field).is_empty() {
            errors.required(field, format!("{field} must contain at least one value"));
        } else if list(rule, field).len() > 1 && list(rule, field).contains(&json!("*")) {
            let detail = "if '*' is present, must not specify other values";
            errors.invalid(field, &json!(list(rule, field)), detail);
        }
    }
}

/// The kinds of subjects, where each is described, and what must be said there.
const SUBJECTS: &[(&str, &str, &[&str])] = &[
    ("Group", "group", &["name"]),
    ("ServiceAccount", "serviceAccount", &["namespace", "name"]),
    ("User", "user", &["name"]),
];

fn check_subject(subject: &Object, errors: &mut Errors) {
    let kind = text(subject, "kind");
    if !SUBJECTS.iter().any(|row| row.0 == kind) {
        let kinds: Vec<&str> = SUBJECTS.iter().map(|row| row.0).collect();
        return errors.not_supported("kind", kind, &kinds);
    }
    for (name, field, parts) in SUBJECTS {
        if *name == kind {
            match map(subject, field) {
                None => errors.required(field, format!("{field} is required when subject kind is '{name}'")),
                Some(described) => errors.at(field, |errors| {
                    required(described, parts, errors);
                }),
            }
        } else if is_set(subject, field) {
            errors.forbidden(field, format!("{field} is forbidden when subject kind is not '{name}'"));
        }
    }
}

fn default_level(level: &mut Object) {
    defaults_in(level, &["spec", "limited"], json!({"nominalConcurrencyShares": 30, "lendablePercent": 0}));
    defaults_in(level, &["spec", "exempt"], json!({"nominalConcurrencyShares": 0, "lendablePercent": 0}));
    super::checks::visit(level, &["spec", "limited", "limitResponse", "queuing"], &mut |queuing| {
        for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            super::fields::fill(queuing, field, value);
        }
    });
    if object::str_at(level, &["spec", "type"]) == Some("Exempt") {
        defaults(level, json!({"spec": {"exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}}));
    }
}

fn validate_level(level: &Object, errors: &mut Errors) {
    stays(level, "prioritylevelconfigurations", errors);
    let exempt = object::name(level) == EXEMPT;
    within(level, "spec", errors, |spec, errors| {
        must_be(spec, "type", &["Exempt", "Limited"], errors);
        let kind = text(spec, "type");
        if exempt != (kind == "Exempt") && matches!(kind, "Exempt" | "Limited") {
            let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
            errors.invalid_str("type", kind, detail);
        }
        match (kind, map(spec, "limited")) {
            ("Limited", None) => errors.required("limited", "must not be empty when type is \"Limited\""),
            ("Exempt", Some(_)) => errors.forbidden("limited", "must be nil if the type is not Limited"),
            (_, Some(limited)) => errors.at("limited", |errors| check_limited(limited, errors)),
            _ => {}
        }
        if kind == "Limited" && is_set(spec, "exempt") {
            errors.forbidden("exempt", "must be nil if the type is Limited");
        }
        below(spec, "exempt", errors, |exempt, errors| {
            non_negative(exempt, &["nominalConcurrencyShares"], errors);
            between(exempt, "lendablePercent", 0, 100, errors);
        });
    });
}

fn check_limited(limited: &Object, errors: &mut Errors) {
    non_negative(limited, &["nominalConcurrencyShares", "borrowingLimitPercent"], errors);
    between(limited, "lendablePercent", 0, 100, errors);
    within(limited, "limitResponse", errors, |response, errors| {
        must_be(response, "type", &["Queue", "Reject"], errors);
        match (text(response, "type"), map(response, "queuing")) {
            ("Reject", Some(_)) => {
                errors.forbidden("queuing", "must be nil if limited.limitResponse.type is not Limited");
            }
            ("Queue", None) => {
                errors.required("queuing", "must not be empty if limited.limitResponse.type is Limited");
            }
            ("Queue", Some(queuing)) => errors.at("queuing", |errors| check_queuing(queuing, errors)),
            _ => {}
        }
    });
}

fn check_queuing(queuing: &Object, errors: &mut Errors) {
    positive(queuing, &["queueLengthLimit", "queues", "handSize"], errors);
    let (queues, hand) = (int(queuing, "queues").unwrap_or(0), int(queuing, "handSize").unwrap_or(0));
    if queues > 10_000_000 {
        errors.invalid("queues", &queues.into(), "must not be greater than 10000000");
    }
    if hand > queues {
        let detail = format!("should not be greater than queues ({queues})");
        errors.invalid("handSize", queuing.get("handSize").unwrap_or(&Value::Null), detail);
    } else if entropy(queues, hand) > MOST_ENTROPY {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MOST_ENTROPY}"
        );
        errors.invalid("handSize", &hand.into(), detail);
    }
}

/// The bits of chance it takes to deal a hand.
fn entropy(queues: i64, hand: i64) -> f64 {
    // More than this many cards take too many bits of whatever deck.
    let cards = hand.clamp(0, 64);
    (0..cards).map(|dealt| ((queues - dealt).max(1) as f64).log2()).sum::<f64>().ceil()
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn schemas_come_in_the_middle() {
        assert_eq!(defaulted(&SCHEMA, json!({})), json!({"spec": {"matchingPrecedence": 1000}}));
        let with =
            |rules: Value| json!({"spec": {"priorityLevelConfiguration": {"name": "a"}, "rules": rules}});
        let rule = json!({
            "subjects": [{"kind": "User", "user": {"name": "*"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}]
        });
        check(
            &SCHEMA,
            &[
                (with(json!([rule])), &[]),
                (json!({}), &["Required spec.priorityLevelConfiguration.name"]),
                (with(json!([{}])), &["Required spec.rules[0].subjects", "Required spec.rules[0]"]),
                (
                    with(json!([{
                        "subjects": [{"kind": "Robot"}], "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/"]}]
                    }])),
                    &["NotSupported spec.rules[0].subjects[0].kind"],
                ),
            ],
        );
    }

    #[test]
    fn levels_share_and_queue() {
        let limited =
            |response: Value| json!({"spec": {"type": "Limited", "limited": {"limitResponse": response}}});
        assert_eq!(
            defaulted(&LEVEL, limited(json!({"type": "Queue", "queuing": {}})))["spec"]["limited"],
            json!({
                "nominalConcurrencyShares": 30, "lendablePercent": 0,
                "limitResponse": {
                    "type": "Queue", "queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50}
                }
            })
        );
        check(
            &LEVEL,
            &[
                (limited(json!({"type": "Reject"})), &[]),
                (limited(json!({"type": "Queue"})), &["Required spec.limited.limitResponse.queuing"]),
                (json!({"spec": {"type": "Limited"}}), &["Required spec.limited"]),
                (json!({"spec": {"type": "Exempt"}}), &["Invalid spec.type"]),
                (json!({"metadata": {"name": "exempt"}, "spec": {"type": "Exempt"}}), &[]),
                (
                    limited(json!({"type": "Queue", "queuing": {"handSize": 9, "queues": 8}})),
                    &["Invalid spec.limited.limitResponse.queuing.handSize"],
                ),
                (
                    limited(json!({"type": "Queue", "queuing": {"handSize": 8, "queues": 512}})),
                    &["Invalid spec.limited.limitResponse.queuing.handSize"],
                ),
            ],
        );
    }
}
