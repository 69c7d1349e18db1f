//! Leases: who holds something, and for how long.

use serde_json::json;
use windlass_machinery::{field::Errors, object::Object};

use super::fields::{NEGATIVE, int, is_set, one_of, text, within};
use crate::resources::Strategy;

pub(crate) const STRATEGY: Strategy =
    Strategy { validate, unconditional_update: false, create_on_update: true, ..Strategy::PLAIN };

fn validate(lease: &Object, errors: &mut Errors) {
    within(lease, "spec", errors, |spec, errors| {
        if let Some(seconds) = int(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            errors.invalid("leaseDurationSeconds", &seconds.into(), "must be greater than 0");
        }
        if let Some(count) = int(spec, "leaseTransitions").filter(|count| *count < 0) {
            errors.invalid("leaseTransitions", &count.into(), NEGATIVE);
        }
        one_of(spec, "strategy", &["OldestEmulationVersion"], errors);
        if is_set(spec, "preferredHolder") && text(spec, "strategy").is_empty() {
            let detail = "strategy must be set if preferredHolder is set";
            errors.invalid("preferredHolder", spec.get("preferredHolder").unwrap_or(&json!("")), detail);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn faults_are_found() {
        check(
            &STRATEGY,
            &[
                (json!({}), &[]),
                (json!({"spec": {"leaseDurationSeconds": 15, "leaseTransitions": 0}}), &[]),
                (json!({"spec": {"leaseDurationSeconds": 0}}), &["Invalid spec.leaseDurationSeconds"]),
                (json!({"spec": {"leaseTransitions": -1}}), &["Invalid spec.leaseTransitions"]),
                (json!({"spec": {"preferredHolder": "a"}}), &["Invalid spec.preferredHolder"]),
            ],
        );
    }
}
