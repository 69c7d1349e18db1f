//! Classes that pods name: how important they are and what runs them.

use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    names,
    object::{self, Object},
};

use super::{
    checks::{amounts, defaults, frozen, immutable, same},
    fields::{below, each, int, labels, list, malformed, one_of, text},
};
use crate::resources::Strategy;

pub(crate) const PRIORITY: Strategy = Strategy {
    default: |class| defaults(class, json!({"preemptionPolicy": "PreemptLowerPriority"})),
    prepare_create: |class| object::set_at(class, &["metadata", "generation"], Some(1.into())),
    validate: validate_priority,
    validate_update: |new, old, _, errors| {
        frozen(new, old, &["value"], "may not be changed in an update.", errors);
        immutable(new, old, &["preemptionPolicy"], errors);
    },
    ..Strategy::PLAIN
};

pub(crate) const RUNTIME: Strategy = Strategy {
    validate: validate_runtime,
    validate_update: |new, old, _, errors| immutable(new, old, &["handler"], errors),
    unconditional_update: false,
    ..Strategy::PLAIN
};

const SYSTEM_PREFIX: &str = "system-";
/// The classes of the system itself, above what anyone else may have.
const SYSTEM: &[(&str, i64)] =
    &[("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const MOST_VALUE: i64 = 1_000_000_000;

fn validate_priority(class: &Object, errors: &mut Errors) {
    let (name, value) = (object::name(class), int(class, "value").unwrap_or(0));
    if name.starts_with(SYSTEM_PREFIX) {
        if !SYSTEM.contains(&(name, value)) {
            let detail = "priority class names with 'system-' prefix are reserved for system use only";
            errors.forbidden("metadata.name", detail);
        }
    } else if value > MOST_VALUE {
        let detail = format!("maximum allowed value of a user defined priority is {MOST_VALUE}");
        errors.forbidden("value", detail);
    }
    one_of(class, "preemptionPolicy", &["Never", "PreemptLowerPriority"], errors);
}

fn validate_runtime(class: &Object, errors: &mut Errors) {
    let handler = text(class, "handler");
    malformed("handler", handler, names::label(handler, false), errors);
    below(class, "overhead", errors, |overhead, errors| amounts(overhead, "podFixed", errors));
    below(class, "scheduling", errors, |scheduling, errors| {
        labels(scheduling, "nodeSelector", errors);
        each(scheduling, "tolerations", errors, check_toleration);
        let tolerations = list(scheduling, "tolerations");
        for (index, toleration) in tolerations.iter().enumerate() {
            if tolerations.iter().take(index).any(|earlier| same(Some(earlier), Some(toleration))) {
                errors.at_index("tolerations", index, |errors| errors.duplicate("", toleration));
            }
        }
    });
}

fn check_toleration(toleration: &Object, errors: &mut Errors) {
    let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
    if !key.is_empty() {
        malformed("key", key, names::qualified(key), errors);
    } else if operator != "Exists" {
        errors.invalid_str(
            "operator",
            operator,
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    if operator == "Exists" && !text(toleration, "value").is_empty() {
        let value = toleration.get("value").unwrap_or(&Value::Null);
        errors.invalid("operator", value, "value must be empty when `operator` is 'Exists'");
    }
    one_of(toleration, "operator", &["Equal", "Exists", "Gt", "Lt"], errors);
    one_of(toleration, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
    if int(toleration, "tolerationSeconds").is_some() && text(toleration, "effect") != "NoExecute" {
        let effect = text(toleration, "effect");
        errors.invalid_str("effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn priorities_preempt_and_keep_their_value() {
        assert_eq!(
            defaulted(&PRIORITY, json!({"value": 1})),
            json!({"value": 1, "preemptionPolicy": "PreemptLowerPriority"})
        );
        let with = |name: &str, value: i64| json!({"metadata": {"name": name}, "value": value});
        check(
            &PRIORITY,
            &[
                (with("a", MOST_VALUE), &[]),
                (with("a", MOST_VALUE + 1), &["Forbidden value"]),
                (with("system-a", 1), &["Forbidden metadata.name"]),
                (with("system-node-critical", 2_000_001_000), &[]),
                (json!({"value": 1, "preemptionPolicy": "Maybe"}), &["NotSupported preemptionPolicy"]),
            ],
        );
        assert_eq!(
            change_faults(
                &PRIORITY,
                json!({"value": 1}),
                json!({"value": 2, "preemptionPolicy": "Never"}),
                None
            ),
            ["Forbidden value", "Invalid preemptionPolicy"]
        );
    }

    #[test]
    fn runtimes_keep_their_handler() {
        check(
            &RUNTIME,
            &[
                (json!({"handler": "runc", "overhead": {"podFixed": {"cpu": "10m"}}}), &[]),
                (json!({"handler": ""}), &["Invalid handler"]),
                (json!({"handler": "a.b"}), &["Invalid handler"]),
                (
                    json!({"handler": "a", "overhead": {"podFixed": {"cpu": "-1"}}}),
                    &["Invalid overhead.podFixed[cpu]"],
                ),
                (
                    json!({"handler": "a", "scheduling": {"tolerations": [{"operator": "Equal"}]}}),
                    &["Invalid scheduling.tolerations[0].operator"],
                ),
            ],
        );
        assert_eq!(
            change_faults(&RUNTIME, json!({"handler": "a"}), json!({"handler": "b"}), None),
            ["Invalid handler"]
        );
    }
}
