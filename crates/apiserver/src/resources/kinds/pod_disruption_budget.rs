//! Pod disruption budgets.

use serde_json::{Value, json};
use windlass_machinery::{field::Errors, object::Object};

use super::{
    fields::{below, is_set, non_negative, one_of, share_of_all, within},
    selector, template,
};
use crate::resources::{Generation, Strategy};

/// The rules of pod disruption budgets.
pub(in crate::resources) const STRATEGY: Strategy = Strategy {
    prepare_create: |object| {
        let status = json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        });
        template::first_status(object, status);
    },
    validate,
    validate_update,
    generation: Generation::COUNTED,
    ..Strategy::PLAIN
};

fn validate(object: &Object, errors: &mut Errors) {
    within(object, "spec", errors, |spec, errors| {
        if is_set(spec, "minAvailable") && is_set(spec, "maxUnavailable") {
            let shown = Value::Object(spec.clone());
            errors.invalid("", &shown, "minAvailable and maxUnavailable cannot be both set");
        }
        share_of_all(spec, "minAvailable", errors);
        share_of_all(spec, "maxUnavailable", errors);
        below(spec, "selector", errors, selector::validate);
        one_of(spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], errors);
    });
}

fn validate_update(new: &Object, _: &Object, part: Option<&str>, errors: &mut Errors) {
    if part == Some("status") {
        within(new, "status", errors, |status, errors| {
            let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
            non_negative(status, &counts, errors);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::kinds::variants::{check_invalid, check_update, created};

    #[test]
    fn budgets_are_checked() {
        let good = json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
        assert_eq!(
            created(&STRATEGY, good.clone())["status"],
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0})
        );
        check_invalid(
            &STRATEGY,
            good.clone(),
            &[
                ("/spec/maxUnavailable", json!(1), "spec: Invalid value"),
                (
                    "/spec/minAvailable",
                    json!(-1),
                    "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
                ),
                (
                    "/spec/minAvailable",
                    json!("150%"),
                    "spec.minAvailable: Invalid value: \"150%\": must not be greater than 100%",
                ),
                (
                    "/spec/minAvailable",
                    json!("many"),
                    "spec.minAvailable: Invalid value: \"many\": a valid percent string",
                ),
                (
                    "/spec/selector/matchLabels",
                    json!({"a b": ""}),
                    "spec.selector.matchLabels: Invalid value: \"a b\"",
                ),
                (
                    "/spec/unhealthyPodEvictionPolicy",
                    json!("x"),
                    "spec.unhealthyPodEvictionPolicy: Unsupported value",
                ),
            ],
        );
        let variants = [("/status/currentHealthy", json!(-1), "status.currentHealthy: Invalid value: -1")];
        check_update(&STRATEGY, good, Some("status"), &variants);
    }
}
